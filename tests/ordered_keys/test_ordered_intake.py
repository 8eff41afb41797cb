"""Rows that do not come in, rows that wait, and how both count in the order of a column."""

from __future__ import annotations

import pyarrow as pa
import pytest
from ordered_streams import factor_of

from penstock import Engine, LateError
from penstock.engine.intake.key_frontier import KeyFrontier


def frontier_of(engine: Engine, stream: str) -> KeyFrontier:
    return engine._runtime.streams[stream].frontiers[0]


def test_rows_that_are_dropped_have_no_place() -> None:
    """Late rows, and rows ahead: the factor is that of the rows that are taken."""
    engine = Engine(late="drop")
    watermark = "WATERMARK FOR ts AS ts AHEAD AT MOST INTERVAL '1' SECOND AFTER 9 ROWS"
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k BIGINT ORDERED, {watermark})")
    engine.push("s", {"ts": [10, 11, 5, 9_000_000, 12, 13], "k": [1, 5, 90, 91, 3, 6]})
    assert (frontier_of(engine, "s").come, frontier_of(engine, "s").measured) == (4, factor_of([1, 5, 3, 6]))
    assert frontier_of(engine, "s").greatest == 6


def test_a_push_that_is_refused_leaves_no_trace() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT ORDERED, j BIGINT ORDERED WITHIN 0 ROWS)")
    engine.push("s", {"ts": [1, 2], "k": [1, 2], "j": [1, 2]})
    for bad in ({"ts": [3, 1], "k": [5, 6], "j": [7, 8]}, {"ts": [3, 4], "k": [5, 6], "j": [8, 7]}):
        with pytest.raises(LateError):
            engine.push("s", bad)
    assert [one.come for one in engine._runtime.streams["s"].frontiers] == [2, 2]
    assert frontier_of(engine, "s").greatest == 2
    engine.push("s", {"ts": [5], "k": [3], "j": [3]})


def test_rows_in_several_chunks_and_units() -> None:
    engine = Engine()
    rule = "TIMESTAMP UNIT MILLISECONDS ORDERED WITHIN 2 SECONDS"
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, at {rule})")
    query = engine.query("SELECT a.at FROM a JOIN b ON a.at = b.at")
    ts = pa.chunked_array([pa.array([1, 2], pa.timestamp("us")), pa.array([3], pa.timestamp("us"))])
    at = pa.chunked_array([pa.array([5_000, 3_000]), pa.array([6_000])])
    for name in "ab":
        engine.push(name, pa.table({"ts": ts, "at": at}))
    assert query.count == 3
    assert frontier_of(engine, "a").now == 4_000_000


def test_a_frontier_keeps_what_a_reader_has_not_read_and_no_more() -> None:
    engine = Engine()
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT ORDERED WITHIN 0 ROWS)")
    query = engine.query("SELECT a.k FROM a JOIN b USING (k)")
    for start in range(0, 500, 100):
        rows = list(range(start, start + 100))
        engine.push("a", {"ts": rows, "k": rows})
    assert len(frontier_of(engine, "a").log) == 500, "b has not come"
    engine.push("b", {"ts": [450], "k": [450]})
    assert len(frontier_of(engine, "a").log) == 49
    query.drop()
    engine.push("a", {"ts": [600], "k": [600]})
    assert len(frontier_of(engine, "a").log) == 0
