"""The window join against DuckDB at every instant, over drawn queries, data, cuts, schedules and indexes."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DECLARE, SCHEMA, Oracle, Reference, plain, rows_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.indexes.build import INDEX_KINDS

# Few values come often, or hardly any rows would meet.
KEYS = st.sampled_from([0, 0, 0, 1, 1, 1, 1, 2, 2, 3, -2, None, -(2**63), 2**63 - 1])
VALUES = st.sampled_from(
    [0.0, 0.5, 0.5, 0.5, 1.5, 1.5, -0.0, -2.0, None, float("nan"), float("inf"), float("-inf"), 1e300]
)
TEXTS = st.sampled_from(["a", "a", "a", "b", "b", "", "ab", "é", "x" * 300, None])

CONDITIONS = [
    "x.k = y.k",
    "y.k = x.k AND x.v < y.v",
    "x.s = y.s",
    "x.k = y.k AND x.s = y.s",
    "x.v = y.v AND x.k = y.k",
    "x.v = y.v",
    "x.k < y.k",
    "x.k >= y.k",
    "y.v > x.v",
    "y.v <= x.v",
    "y.v BETWEEN x.v - 1 AND x.v + 1",
    "x.v - y.v <= 0.5",
    "x.v - y.v >= 0.5",
    "x.v + 1 > y.v AND x.k <> y.k",
    "ABS(x.v - y.v) < 1.5",
    "x.s < y.s",
    "x.k % 2 = y.k % 2",
    "(x.k IS NULL OR y.v > 0)",
    "x.ts <= y.ts",
    "x.id = y.id OR x.k = y.k",
]
SMALL_KEYS = "x.k BETWEEN -9 AND 9 AND y.k BETWEEN -9 AND 9"
BOUNDED_CONDITIONS = [
    f"{SMALL_KEYS} AND y.k - x.k BETWEEN -1 AND 1",
    f"{SMALL_KEYS} AND ABS(x.k - y.k) <= 1",
    f"{SMALL_KEYS} AND x.k + 1 < y.k + 3 AND y.k < x.k + 1",
]
FILTERS = ["", "", "x.v > 0", "y.s IS NOT NULL AND x.k <> 0", "x.v > 0 AND y.v <= 1.5", "x.k = 1", "1 = 0"]


@st.composite
def arrivals(draw: st.DrawFn, most: int = 14) -> pa.Table:
    """A stream with ties, gaps, duplicates and NULLs."""
    count = draw(st.one_of(st.integers(0, most), st.just(most)))
    ts, rows = draw(st.integers(-5, 5)), []
    for id_ in range(count):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 7]))
        rows.append((ts, id_, draw(KEYS), draw(VALUES), draw(TEXTS)))
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@st.composite
def references(draw: st.DrawFn, stream: str, alias: str) -> Reference:
    kind = draw(st.sampled_from(["range", "range", "rows"]))
    size = draw(st.integers(1, 12) if kind == "range" else st.integers(1, 5))
    if kind == "range" and draw(st.integers(0, 9)) == 0:
        return Reference(stream, alias, kind, None)
    return Reference(stream, alias, kind, size)


def pushed_in_pieces(
    draw: Any, engine: penstock.Engine, streams: dict[str, pa.Table], advance: bool = True
) -> None:
    """Push the streams cut anywhere, interleaved anyhow, time advanced now and then; check invariants."""
    at = dict.fromkeys(streams, 0)
    while any(at[name] < table.num_rows for name, table in streams.items()):
        name = draw(st.sampled_from(sorted(n for n, t in streams.items() if at[n] < t.num_rows)))
        size = draw(st.integers(1, 6))
        engine.push(name, streams[name].slice(at[name], size))
        at[name] += size
        engine._runtime._check()
        if advance and draw(st.integers(0, 3)) == 0:
            ahead = [t["ts"][at[n]].as_py() for n, t in streams.items() if at[n] < t.num_rows]
            if ahead:
                engine.advance(min(ahead))
                engine._runtime._check()


@settings(max_examples=250)
@given(st.data())
def test_join_oracle_at_every_instant(data: st.DataObject) -> None:
    draw = data.draw
    self_join = draw(st.booleans())
    streams = {"a": draw(arrivals())} if self_join else {"a": draw(arrivals()), "b": draw(arrivals())}
    refs = [draw(references("a", "x")), draw(references("a" if self_join else "b", "y"))]
    oracle = Oracle(streams, refs)
    condition = draw(st.sampled_from(CONDITIONS + BOUNDED_CONDITIONS))
    where = draw(st.sampled_from(FILTERS))
    everything = f"({condition})" + (f" AND {where}" if where else "")
    select = "x.id, y.id AS yid, x.k, y.s, x.v AS xv"
    swapped = draw(st.booleans())
    one, two = reversed(refs) if swapped else refs
    tail = f" WHERE {where}" if where else ""
    sql = f"SELECT {select} FROM {one.penstock} JOIN {two.penstock} ON {condition}{tail}"
    if draw(st.booleans()):
        sql = f"SELECT {select} FROM {one.penstock}, {two.penstock} WHERE {everything}"

    index = draw(st.sampled_from(["auto", *((a, b) for a in INDEX_KINDS for b in INDEX_KINDS)]))
    scheduler = draw(st.sampled_from([None, Shuffled(draw(st.integers(0, 99)), 8), RoundRobin(3)]))
    engine = penstock.Engine(index=index, scheduler=scheduler)
    for name in streams:
        engine.execute(DECLARE.format(name=name))
    query = engine.query(sql, name="q")
    counted = engine.query(sql, name="counted", count_only=True)
    pushed_in_pieces(draw, engine, streams)
    engine.close()
    results = rows_of(query.results())

    # 1. the whole answer, and when it came
    assert Counter(results) == oracle.inserts("x.id, y.id, x.k, y.s, x.v", everything), sql
    assert counted.count == query.count == len(results)
    assert [row[0] for row in results] == sorted(row[0] for row in results), "out of time order"
    # 2. at every instant, plain SQL over the windows' contents
    instants = sorted({ts for table in streams.values() for ts in table["ts"].to_pylist()})
    plain_sql = f"SELECT x.id, y.id, x.k, y.s, x.v FROM x, y WHERE {everything}"
    x, y = refs
    for instant in instants[:6] + instants[-2:]:
        alive = Counter(
            row[1:]
            for row in results
            if row[0] <= instant < min(x.lifetimes[row[1]][1], y.lifetimes[row[2]][1])
        )
        assert alive == oracle.answer(plain_sql, instant), (sql, instant)


@functools.cache
def long_streams() -> dict[str, pa.Table]:
    """Streams for which trees have many nodes, and buffers are grown and compacted."""
    rng = np.random.default_rng(7)
    n = 3_000
    return {
        name: pa.table(
            {
                "ts": np.cumsum(rng.integers(0, 3, n)),
                "id": np.arange(n),
                "k": rng.integers(0, 40, n),
                "v": rng.random(n).round(3),
                "s": [f"key-{i}" for i in rng.integers(0, 40, n)],
            }
        )
        for name in ("a", "b")
    }


LONG = [Reference("a", "x", "range", 500), Reference("b", "y", "rows", 300)]


@functools.cache
def long_answer(condition: str) -> pa.Table:
    """The pairs of the long streams, in order; no pair comes twice."""
    pairs = sorted(Oracle(long_streams(), LONG).inserts("x.id, y.id", condition).elements())
    return pa.table(list(zip(*pairs, strict=True)), ["_ts", "id", "yid"])


@pytest.mark.parametrize("left", INDEX_KINDS)
@pytest.mark.parametrize("right", INDEX_KINDS)
@pytest.mark.parametrize("condition", ["x.k = y.k", "y.v BETWEEN x.v - 0.05 AND x.v + 0.05", "x.s = y.s"])
def test_join_oracle_sixteen_index_combinations(left: str, right: str, condition: str) -> None:
    streams, (x, y) = long_streams(), LONG
    engine = penstock.Engine(index=(left, right))
    for name in streams:
        engine.execute(DECLARE.format(name=name))
    query = engine.query(f"SELECT x.id, y.id AS yid FROM {x.penstock} JOIN {y.penstock} ON {condition}")
    for start in range(0, 3_000, 701):
        engine.push("a", streams["a"].slice(start, 701))
        engine.push("b", streams["b"].slice(start, 701))
        engine._runtime._check()
    engine.close()
    found = query.results()
    found = found.set_column(0, "_ts", found["_ts"].cast(pa.int64()))
    expected = long_answer(condition)
    assert expected.num_rows > 1_000
    assert found.sort_by([(name, "ascending") for name in expected.column_names]).equals(expected)


@settings(max_examples=60)
@given(st.data())
def test_select_and_union_oracle(data: st.DataObject) -> None:
    """Each row enters when it comes, unless a ROWS window displaces it at its own instant."""
    draw = data.draw
    streams = {"a": draw(arrivals()), "b": draw(arrivals())}
    refs = [draw(references("a", "x")), draw(references("b", "y"))]
    oracle = Oracle(streams, refs)
    x, y = refs
    engine = penstock.Engine(scheduler=Shuffled(draw(st.integers(0, 99)), 8))
    for name in streams:
        engine.execute(DECLARE.format(name=name))
    select = engine.query(f"SELECT id, k, v * 2 AS w FROM {x.penstock} WHERE v > 0 OR k IS NULL")
    union = engine.query(
        f"SELECT id, s FROM {x.penstock} UNION ALL SELECT id + 100, s FROM {y.penstock} WHERE k = 1"
    )
    pushed_in_pieces(draw, engine, streams)
    engine.close()
    entered = {one.alias: f"SELECT * FROM life_{one.alias} WHERE ts < ets" for one in refs}
    expected = oracle._con.execute(
        f"SELECT ts, id, k, v * 2 FROM ({entered['x']}) WHERE v > 0 OR k IS NULL"
    ).fetchall()
    assert Counter(rows_of(select.results())) == Counter(map(plain, expected))
    expected = oracle._con.execute(
        f"SELECT ts, id, s FROM ({entered['x']}) "
        f"UNION ALL SELECT ts, id + 100, s FROM ({entered['y']}) WHERE k = 1"
    ).fetchall()
    rows = rows_of(union.results())
    assert Counter(rows) == Counter(map(plain, expected))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
