"""An engine to begin with, and one restored that has to run the queries it is given now.

Between two runs queries may have been added or taken out. Those that were added start where the streams
stand; those that were taken out are dropped; what the others have seen stays. A query whose text has
changed is refused, as its results would be two answers in one table; so is a stream whose time column or
slack has, and a table whose rows have, as the saved engine would go on with the old ones.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import penstock
from penstock.engine.errors import UsageError
from penstock.engine.expression import write_duration

from .table_rows import check_rows


class Setup:
    """What an engine of the sink is made of, checked once when the sink is made."""

    def __init__(self, sql: str, tables: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._sql = sql
        self._options = options
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
        check_declared(engine, restored)
        for name, query in restored.queries.items():
            if name not in engine.queries:
                query.drop()
        for name, query in engine.queries.items():
            if name not in restored.queries:
                restored.query(query.sql, name)
            elif restored.queries[name].sql != query.sql:
                raise UsageError(
                    f"Expected query `{name}` as it was when its state was saved, found another text: "
                    "give it another name"
                )
        return restored

    def _make(self) -> penstock.Engine:
        engine = penstock.Engine(**self._options)
        engine.execute(self._sql)
        return engine


def check_declared(now: penstock.Engine, before: penstock.Engine) -> None:
    """Refuses streams and tables that are not those of a saved engine, which would go on with its own."""
    for kind, found, saved in (
        ("streams", now.streams, before.streams),
        ("tables", now.tables, before.tables),
    ):
        if found != saved:
            raise UsageError(f"Expected the {kind} of the saved state, {show(saved)}, found {show(found)}")
    for name in now.streams:
        timed, was = timing(now, name), timing(before, name)
        if timed != was:
            raise UsageError(f"Expected the watermark of `{name}` that was saved, {was}, found {timed}")
    check_rows(now, before)


def timing(engine: penstock.Engine, stream: str) -> str:
    """`ts less 2 seconds`: the time of a stream's rows, and how late one may be."""
    slack_us = engine.slack(stream) // datetime.timedelta(microseconds=1)
    return f"`{engine.time_column(stream)}{f' less {write_duration(slack_us)}' if slack_us else ''}`"


def show(relations: Mapping[str, pa.Schema]) -> str:
    """`s (ts timestamp[us], x int64)`."""
    written = [
        f"{name} ({', '.join(f'{field.name} {field.type}' for field in schema)})"
        for name, schema in relations.items()
    ]
    return f"`{', '.join(written)}`" if written else "none"
