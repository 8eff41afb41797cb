"""An engine that was restored goes on with the statements and options of now.

Between two runs queries may have been added or taken out: those that were added start where the streams
stand, those that were taken out are dropped, what the others have seen stays. White space, comments and LATE
may have changed. A stream may have more columns, as long as no query reads them: the saved engine goes on
with those it knows.

Whatever else has changed is refused by name, as the saved engine would go on as it was: another text of a
query would be two answers in one table.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine.intake.time_units import unit_of
from penstock.engine.rows.errors import UsageError
from penstock.engine.rows.write_times import write_duration
from penstock.optimizer.read.same_text import bare_text, is_same_text
from penstock.optimizer.tree.columns_read import columns_read
from penstock.optimizer.tree.logical import StreamScan, nodes_of

if TYPE_CHECKING:
    from .api import Engine
    from .query import Query

APPLIED = ("late", "deadlock_after_s")
"""Options that an engine can take on at any time."""


def carry_on(now: Engine, before: Engine) -> None:
    """Let `before`, which was saved, go on with what `now` was made of; UsageError names what it cannot."""
    check_options(now.options, before.options)
    check_declared(now, before)
    for name, query in before.queries.items():
        if name not in now.queries:
            query.drop()
    for name, query in now.queries.items():
        if name not in before.queries:
            before.query(query.sql, name)
        elif not is_same_text(before.queries[name].sql, query.sql):
            raise UsageError(
                f"Expected query `{name}` as it was when its state was saved, found another text: "
                "give it another name"
            )
        check_windows(query, before.queries[name])
        before._write_again(before.queries[name], query.sql, query._bound.late)
    before._drop_late(now.options["late"])
    before._wait_at_most(now.options["deadlock_after_s"])


def check_options(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Refuses keywords of an engine that change how it keeps its state."""
    for name, value in now.items():
        if value != before[name] and name not in APPLIED:
            found = f"`{value}`, was `{before[name]}`" if name != "weights" else "others"
            raise UsageError(
                f"Expected the engine's `{name}` as it was when its state was saved, found {found}: "
                "go on with that, or start anew without saved state"
            )


def check_declared(now: Engine, before: Engine) -> None:
    """Refuses streams and tables that are not those of a saved engine, which would go on with its own."""
    for kind, found, saved in (
        ("streams", now.streams, before.streams),
        ("tables", now.tables, before.tables),
    ):
        lacking = any(lacks(found[name], columns) for name, columns in saved.items() if name in found)
        if set(found) != set(saved) or lacking or (kind == "tables" and show(found) != show(saved)):
            raise UsageError(f"Expected the {kind} of the saved state, {show(saved)}, found {show(found)}")
    for name, columns in now.streams.items():
        timed, was = timing(now, name), timing(before, name)
        if timed != was:
            raise UsageError(f"Expected the watermark of `{name}` that was saved, {was}, found {timed}")
        grow, grew = growing(now, name), growing(before, name)
        if grow != grew:
            raise UsageError(
                f"Expected the ORDERED columns of `{name}` that were saved, {grew}, found {grow}"
            )
        for column in columns.names:
            if column not in before.streams[name].names:
                refuse_read(now, name, column)


def lacks(columns: pa.Schema, saved: pa.Schema) -> bool:
    """Whether a column that was there is not, or of another type or unit of time."""
    found = {field.name: describe_column(field) for field in columns}
    return any(found.get(field.name) != describe_column(field) for field in saved)


def refuse_read(now: Engine, stream: str, column: str) -> None:
    """Raises UsageError if a query reads a column that the saved state does not have."""
    for name, query in now.queries.items():
        if (stream, column) in columns_read(query._bound):
            raise UsageError(
                f"Expected queries over the columns of `{stream}` that the saved state has, found `{column}` "
                f"in query `{name}`: start anew without saved state to have it"
            )


def check_windows(now: Query, before: Query) -> None:
    """Refuses a query that ALTER QUERY in the same statements gives other windows than it had."""
    found, saved = ([str(scan.window) for scan in scans_of(query)] for query in (now, before))
    if found != saved:
        raise UsageError(
            f"Expected the windows that query `{now.name}` had when its state was saved, {', '.join(saved)}, "
            f"found {', '.join(found)}: give it another name, and its windows in its own text"
        )


def describe(query: Query) -> list[str]:
    """Stands for all of a query that may change and has to be carried on."""
    return [bare_text(query.sql), str(query._bound.late), *(str(scan.window) for scan in scans_of(query))]


def scans_of(query: Query) -> list[StreamScan]:
    return [node for node in nodes_of(query._bound.root) if isinstance(node, StreamScan)]


def timing(engine: Engine, stream: str) -> str:
    """`ts less 2 seconds`: the time of a stream's rows, how late and how far ahead one may be."""
    slack_us = engine.slack(stream) // datetime.timedelta(microseconds=1)
    written = f"{engine.time_column(stream)}{f' less {write_duration(slack_us)}' if slack_us else ''}"
    declared = engine._stream(stream)
    if declared.ahead is not None:
        written += (
            f" ahead at most {write_duration(declared.ahead.limit_us)} after {declared.ahead.rows} rows"
        )
    if declared.idle_us is not None:
        written += f" idle after {write_duration(declared.idle_us)}"
    return f"`{written}`"


def growing(engine: Engine, stream: str) -> str:
    """`n within 5 rows`: the columns of a stream that are declared ORDERED."""
    columns = engine._stream(stream).columns
    written = []
    for column in columns:
        if column.order is not None:
            order = {"monitored": "", "rows": f" within {column.order.size} rows"}
            words = order.get(column.order.kind, f" within {column.order.size}")
            written.append(
                column.name + words + "".join(f" per {columns[at].name}" for at in column.order.per)
            )
    return f"`{', '.join(written)}`" if written else "none"


def show(relations: Mapping[str, pa.Schema]) -> str:
    """`s (ts timestamp[us], x int64)`."""
    written = [
        f"{name} ({', '.join(describe_column(field) for field in schema)})"
        for name, schema in relations.items()
    ]
    return f"`{', '.join(written)}`" if written else "none"


def describe_column(field: pa.Field) -> str:
    """`ts timestamp[us] unit ms`."""
    unit = unit_of(field)
    return f"{field.name} {field.type}" + (f" unit {unit}" if unit else "")
