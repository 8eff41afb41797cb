"""From the files of each stream and table to feeds and loaded tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TypeAlias

from penstock.api import Engine
from penstock.engine.errors import DataError

from .batch import Batch
from .inputs import Input
from .merge import Feed
from .read_rules import STRICT, ReadRules

Files: TypeAlias = Mapping[str, Sequence[Sequence[str]]]
"""By stream or table: the files of each of its inputs, which are merged; those of one are read in turn."""


def open_feeds(
    engine: Engine,
    files: Files,
    tell: Callable[[str], None] | None = None,
    rules: ReadRules = STRICT,
) -> list[Feed]:
    """A feed per stream that has an input; all first files are open, so what is wrong with them is known."""
    with ExitStack() as opened:
        feeds = []
        for name, paths in files.items():
            if name in engine.tables:
                continue
            slack_us = engine.slack(name) // timedelta(microseconds=1)
            feed = Feed(name, paths, engine.streams[name], engine.time_column(name), slack_us, tell, rules)
            opened.callback(feed.close)
            feeds.append(feed)
        opened.pop_all()
    return feeds


def load_tables(engine: Engine, files: Files, rules: ReadRules = STRICT) -> list[str]:
    """Read the tables that have an input, whole, before any stream; their names."""
    loaded = [name for name in files if name in engine.tables]
    for name in loaded:
        for paths in files[name]:
            source = Input(paths, engine.tables[name], None, [], rules=rules)
            try:
                while (batch := source.read()) is not None:
                    engine.push(name, batch.data)
            finally:
                source.close()
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
