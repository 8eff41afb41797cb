"""From the files of each stream and table to feeds and loaded tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa

from penstock.api import Engine
from penstock.engine.intake.time_units import UNIT_WORDS, TimeUnit, unit_of, with_unit
from penstock.engine.rows.errors import DataError, UsageError
from penstock.engine.rows.types import SqlType

from .batch import Batch
from .convert import sql_type
from .live import Arrivals, is_live
from .merge import Feed, open_input
from .read_rules import STRICT, ReadRules

Files: TypeAlias = Mapping[str, Sequence[Sequence[str]]]
"""By stream or table: the files of each of its inputs, which are merged; those of one are read in turn."""


Units: TypeAlias = Mapping[str, TimeUnit]
"""By stream or table: what integers are in its columns of times that declare no unit themselves."""


def open_feeds(
    engine: Engine, files: Files, units: Units | None = None, rules: ReadRules = STRICT
) -> list[Feed]:
    """A feed per stream that has an input; all first files are open, so what is wrong with them is known."""
    arrivals = find_live(files)
    with ExitStack() as opened:
        if arrivals is not None:
            opened.callback(arrivals.close)
        feeds = []
        for name, paths in files.items():
            if name in engine.tables:
                continue
            slack_us = engine.slack(name) // timedelta(microseconds=1)
            schema = in_unit(engine.streams[name], (units or {}).get(name))
            feed = Feed(name, paths, schema, engine.time_column(name), slack_us, rules, arrivals)
            opened.callback(feed.close)
            feeds.append(feed)
        opened.pop_all()
    return feeds


def in_unit(schema: pa.Schema, unit: TimeUnit | None) -> pa.Schema:
    """The columns to read if a unit is given; refused if they all say what they are in, and one differs."""
    if unit is None:
        return schema
    times = [field for field in schema if sql_type(field) is SqlType.TIMESTAMP]
    other = next((field for field in times if unit_of(field) not in (None, unit)), None)
    if not times or (other is not None and all(unit_of(field) for field in times)):
        found = f"{UNIT_WORDS[unit_of(other) or 'us']} declared" if other is not None else "no TIMESTAMP"
        where = f" for `{other.name}`" if other is not None else ""
        raise UsageError(f"Expected a column of times in {UNIT_WORDS[unit]}, found {found}{where}")
    undeclared = {field.name for field in times if unit_of(field) is None}
    return pa.schema([with_unit(field, unit) if field.name in undeclared else field for field in schema])


def find_live(files: Files) -> Arrivals | None:
    """Where live inputs are to tell that something has come; None if there are none."""
    paths = (path for own in files.values() for some in own for path in some)
    return Arrivals() if any(map(is_live, paths)) else None


def load_tables(
    engine: Engine, files: Files, units: Units | None = None, rules: ReadRules = STRICT
) -> list[str]:
    """Read the tables that have an input, whole, before any stream; their names."""
    loaded = [name for name in files if name in engine.tables]
    arrivals = find_live(files)
    with ExitStack() as opened:
        if arrivals is not None:
            opened.callback(arrivals.close)
        sources = []
        for name in loaded:
            schema = in_unit(engine.tables[name], (units or {}).get(name))
            for paths in files[name]:
                source = open_input(paths, schema, None, [], rules, arrivals)
                opened.callback(source.close)
                sources.append((name, source))
        for name, source in sources:
            while (batch := source.read()) is not None:
                engine.push(name, batch.data)
    return loaded


def push_batch(engine: Engine, stream: str, batch: Batch) -> None:
    """Rows into a stream, all or none; an error about a row says in which file it stands."""
    try:
        engine.push(stream, batch.data)
    except DataError as error:
        if error.row is None:
            raise
        source, row = batch.place(error.row)
        raise type(error)(error.message, source=source, row=row, hint=error.hint) from None
