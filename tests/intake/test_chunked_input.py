"""A table in many small chunks is pushed like one in few: by what is done, and by the time it takes."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from oracle import rows_of

import penstock

ROWS = 4_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE, t VARCHAR)"
JOIN = "SELECT a.k, b.v, a.t FROM s [RANGE 500 us] AS a JOIN s [RANGE 500 us] AS b ON a.k = b.k"
GROUPS = "SELECT t, COUNT(*) AS n, SUM(v) AS v FROM s [RANGE 1 SECOND] GROUP BY t"


def table(begin: int, kind: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(range(begin, begin + ROWS), pa.timestamp("us")),
            "k": [n % 7 for n in range(ROWS)],
            "v": [float(n) for n in range(ROWS)],
            "t": pa.array([f"word {n % 50}" for n in range(ROWS)], kind),
        }
    )


def in_chunks(whole: pa.Table, rows: int) -> pa.Table:
    return pa.concat_tables([whole.slice(at, rows) for at in range(0, len(whole), rows)])


def steps_of(engine: penstock.Engine) -> list[int]:
    return [one["steps"] for query in engine.stats()["queries"].values() for one in query["operators"]]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
@pytest.mark.parametrize("rows", [1, 3, 900])
def test_small_chunks_are_worked_as_one(kind: pa.DataType, rows: int) -> None:
    found: list[Any] = []
    for way in (ROWS, rows):
        engine = penstock.Engine()
        engine.execute(STREAM)
        queries = [engine.query(sql) for sql in (GROUPS, "SELECT k, t FROM s WHERE v > 100")]
        for begin in (0, ROWS):
            engine.push("s", in_chunks(table(begin, kind), way))
        found.append((steps_of(engine), [rows_of(query.results()) for query in queries]))
    assert found[0] == found[1]


def test_chunks_of_many_rows_are_not_copied() -> None:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v DOUBLE)")
    query = engine.query("SELECT v FROM s")
    parts = [
        pa.table({"ts": pa.array(range(n, n + 5_000), pa.timestamp("us")), "v": [0.5] * 5_000})
        for n in (0, 5_000)
    ]
    before = pa.total_allocated_bytes()
    engine.push("s", pa.concat_tables(parts))
    assert pa.total_allocated_bytes() - before < 50_000
    assert query.count == 10_000


@pytest.mark.slow
@pytest.mark.parametrize("sql", [JOIN, GROUPS], ids=["join", "groups"])
def test_four_thousand_chunks_take_at_most_three_times_as_long(sql: str) -> None:
    assert min(times_as_long(sql) for _ in range(4)) <= 3


@pytest.mark.slow
def test_four_thousand_chunks_into_a_bare_filter() -> None:
    """What Arrow takes to look at 16,000 chunks is several times what a filter takes for 4,000 rows."""
    assert times_as_long("SELECT k, t FROM s WHERE v > 3600") <= 15


def times_as_long(sql: str) -> float:
    """How much longer a push in chunks of one row takes than one in one chunk, the best of many."""
    least = {1: 1e9, ROWS: 1e9}
    engines = {}
    for rows in least:
        engine = engines[rows] = penstock.Engine()
        engine.execute(STREAM)
        engine.query(sql)
    for turn in range(16):
        for rows, engine in engines.items():
            given = in_chunks(table(turn * ROWS, pa.string()), rows)
            began = time.process_time()
            engine.push("s", given)
            least[rows] = min(least[rows], time.process_time() - began)
            for query in engine.queries.values():
                query.results()
    return least[1] / least[ROWS]
