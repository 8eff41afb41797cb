"""Incremental queries over three small streams and a table: engines, rows, and what changes fold to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from oracle import rows_of

import penstock

DECLARE = """
    CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE STREAM c (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE TABLE t (k BIGINT, name VARCHAR);
"""
APPROACHES = ["auto", "ita", "nta", "time-message", "piggyback"]
TIMELY = [one for one in APPROACHES if one != "ita"]


def make_engine(expiry: str = "auto", **options: Any) -> penstock.Engine:
    engine = penstock.Engine(expiry=expiry, **options)
    engine.execute(DECLARE)
    return engine


def push(engine: penstock.Engine, stream: str, *rows: tuple[Any, ...]) -> None:
    """Rows as (ts, k, v)."""
    names = engine.streams[stream].names
    columns = zip(*rows, strict=True)
    schema = engine.streams[stream]
    table = dict(zip(names, map(list, columns), strict=True))
    engine.push(stream, pa.table({name: pa.array(table[name], schema.field(name).type) for name in names}))


def changes(query: penstock.Query) -> list[tuple[Any, ...]]:
    return rows_of(query.results())


def answer(rows: list[tuple[Any, ...]], now: int = 1 << 60) -> Counter[tuple[Any, ...]]:
    """The bag that changes (ts, diff, ...) fold to."""
    bag: Counter[tuple[Any, ...]] = Counter()
    for ts, diff, *row in rows:
        if ts <= now:
            bag[tuple(row)] += diff
    assert all(count >= 0 for count in bag.values()), "a row left that had not entered"
    return +bag


def net_of(rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """By how many each row changes at each time."""
    net: Counter[tuple[Any, ...]] = Counter()
    for ts, diff, *row in rows:
        net[ts, *row] += diff
    return {row: count for row, count in net.items() if count}


def make_double_engine(expiry: str) -> penstock.Engine:
    """Streams as the drawn queries want them: v is a DOUBLE."""
    engine = penstock.Engine(expiry=expiry)
    engine.execute("".join(f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, v DOUBLE);" for s in "ab"))
    return engine
