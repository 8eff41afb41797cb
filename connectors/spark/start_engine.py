"""An engine to begin with, and one restored that has to run the queries it is given now.

What may have changed between two runs, and what is refused, is carry_on's to say. So are, here, the rows of
tables: the saved engine would go on with the old ones.

On Spark a row that is late, or too far ahead, is dropped and counted unless a query says LATE ERROR: a
streaming query that an error has stopped meets the same rows again when it is started, for ever.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import penstock
from penstock.carry_on import carry_on
from penstock.engine.rows.errors import HopsError, UsageError, did_you_mean

from .table_rows import check_rows

LATE = "drop"
"""What becomes of late rows if nobody says so."""


class Setup:
    """What an engine of the sink is made of, checked once when the sink is made."""

    def __init__(self, sql: str, tables: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        check_keywords(options)
        self._sql = sql
        self._options = {"late": LATE} | dict(options)
        self._tables = tables
        declared = self._make()
        if not declared.streams:
            raise UsageError(
                "Expected a stream, found none: give its DataFrame in `streams`, or CREATE STREAM"
            )
        if not declared.queries:
            raise UsageError("Expected a query, found none: write CREATE QUERY")
        self.tables = declared.tables
        self.time_columns = {stream: declared.time_column(stream) for stream in declared.streams}
        self.result_schemas: dict[str, pa.Schema] = {
            name: query.schema for name, query in declared.queries.items()
        }

    def with_tables(self, tables: Mapping[str, Any]) -> Setup:
        """The same with rows for the declared tables."""
        made = copy.copy(self)
        made._tables = tables
        return made

    def go_on(self, restored: penstock.Engine | None) -> penstock.Engine:
        """The engine for the next batch: a new one, or the restored one with the queries of now."""
        engine = self._make()
        for name, rows in self._tables.items():
            engine.push(name, rows.toArrow() if hasattr(rows, "toArrow") else rows)
        if restored is None:
            return engine
        carry_on(engine, restored)
        check_rows(engine, restored)
        return restored

    def _make(self) -> penstock.Engine:
        engine = penstock.Engine(**self._options)
        engine.execute(self._sql)
        return engine


def take_watermark(engine: penstock.Engine, watermark_us: int) -> None:
    """Spark's watermark is a promise, but it is made of all rows, those too far ahead too.

    So a stream that says how far ahead a row may be hears of it no further than the rows that were taken.
    """
    limited = [stream for stream in engine.streams if engine.ahead(stream) is not None]
    if not limited:
        engine.advance(watermark_us)
        return
    for stream in engine.streams:
        if stream not in limited:
            engine.advance(watermark_us, stream)
        elif (latest := engine.latest(stream)) is not None:
            engine.advance(min(watermark_us, latest), stream)


@contextmanager
def telling_how_to_go_on() -> Iterator[None]:
    """Where Spark gives the same rows again at every start, what helps elsewhere is out of reach."""
    try:
        yield
    except HopsError as error:
        hint = (
            "Spark gives this batch again at every start. Take the query out of the text, for this run or "
            "for good, or give it another name and a longer HOP BY, and start again: the state stays"
        )
        raise HopsError(error.message, source=error.source, row=error.row, hint=hint) from None


def check_keywords(options: Mapping[str, Any]) -> None:
    """Refuses what is no keyword of Engine, and the one that does not outlast a process."""
    known = [name for name in inspect.signature(penstock.Engine).parameters if name != "scheduler"]
    for name in options:
        if name == "scheduler":
            raise UsageError("Expected no `scheduler` in `engine`, found one: it is not saved with the state")
        if name not in known:
            hint = did_you_mean(name, known) or ""
            raise UsageError(f"Expected a keyword of Engine in `engine`, found `{name}`. {hint}".rstrip())
