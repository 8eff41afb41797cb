"""State is exactly the rows somebody still needs, output comes in bounded pieces, indexes change at work."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of
from test_engine import join_stats
from test_plans import WEIGHTS

import penstock
from penstock.adapt import FIRST_LOOK_ROWS
from penstock.engine.indexes.build import INDEX_KINDS

DECLARE = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v DOUBLE, s VARCHAR)"
MAX_BATCH = 65_536


def make(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    return engine


def rows(ts: Any, k: Any) -> dict[str, Any]:
    ts, k = np.broadcast_arrays(np.asarray(ts, np.int64), np.asarray(k, np.int64))
    return {"ts": ts, "k": k, "v": k * 0.5, "s": np.array([f"text {i}" for i in k], object)}


# -- exactly the live rows ----------------------------------------------------------------------------

Moves = list[tuple[str, int, int | None]]
MOVES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "advance"]), st.integers(0, 5), st.sampled_from([0, 1, 2, None])),
    max_size=40,
)


def live(kind: str, size: int, come: list[tuple[int, int | None]], now: int) -> int:
    """Rows with a key that are in the window at `now`, by definition; a row without one meets nothing."""
    if kind == "range":
        return sum(k is not None for ts, k in come if ts <= now < ts + size)
    # A ROWS window is known once its instant is over.
    over = [(ts, k) for ts, k in come if ts < now]
    return sum(k is not None for _, k in over[-size:])


@settings(max_examples=60)
@given(
    MOVES,
    st.sampled_from(["range", "rows"]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(INDEX_KINDS),
)
def test_state_is_the_live_rows_at_every_step(
    moves: Moves, kind: str, one: int, two: int, index: str
) -> None:
    engine = make(index=index)
    unit = " us" if kind == "range" else ""
    window = f"[{kind.upper()} {{}}{unit}]"
    join = engine.query(f"SELECT a.k FROM a {window.format(one)} JOIN b {window.format(two)} ON a.k = b.k")
    come: dict[str, list[tuple[int, int | None]]] = {"a": [], "b": []}
    time = {"a": -(10**6), "b": -(10**6)}
    for stream, step, key in moves:
        if stream == "advance":
            now = max(time.values()) + step
            engine.advance(now)
            time = dict.fromkeys(time, now)
        else:
            at = max(0, time[stream]) + step
            engine.push(stream, {"ts": [at], "k": pa.array([key], pa.int64()), "v": [0.0], "s": [""]})
            come[stream].append((at, key))
            time[stream] = at
        engine._runtime._check()
        both = min(time.values())
        expected = live(kind, one, come["a"], both) + live(kind, two, come["b"], both)
        assert join_stats(engine, join)["state_rows"] == expected
        waiting = sum(
            ts > both if kind == "range" else ts >= both for side in come.values() for ts, _ in side
        )
        assert join_stats(engine, join)["queue_rows"] == waiting


CONDITIONS = [
    "a.k = b.k",
    "a.s = b.s",
    "a.k = b.k AND a.s = b.s",
    "ABS(a.k - b.k) < 2",
    "a.v < b.v - 3",
    "a.k <> b.k",
]


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_state_is_empty_once_time_has_passed_every_window(index: str) -> None:
    engine = make(index=index, sharing="unshared")
    joins = [
        engine.query(f"SELECT a.k, b.s FROM a [RANGE {left} us] JOIN b [RANGE {right} us] ON {condition}")
        for condition in CONDITIONS
        for left, right in ((1, 1), (50, 7), (1000, 1000))
    ]
    for start in range(0, 300, 100):
        engine.push("a", rows(np.arange(start, start + 100), np.arange(100) % 7))
        engine.push("b", rows(np.arange(start, start + 100), np.arange(100) % 5))
    engine.advance(299 + 999)
    left = [join_stats(engine, join)["state_rows"] for join in joins]
    assert [bool(rows_left) for rows_left in left] == [False, False, True] * len(CONDITIONS)
    engine.advance(299 + 1000)
    assert [join_stats(engine, join)["state_rows"] for join in joins] == [0] * len(joins)
    engine._runtime._check()
    # and the engine goes on
    before = joins[0].count
    engine.push("a", rows([2000], 1))
    engine.push("b", rows([2000], 1))
    assert joins[0].count == before + 1


@pytest.mark.parametrize("index", INDEX_KINDS)
@pytest.mark.parametrize("window", ["RANGE 1000 us", "ROWS 500"])
def test_state_bytes_stay_flat(index: str, window: str) -> None:
    """A hundred windows of a steady stream take no more memory than three."""
    engine = make(index=index)
    joins = [
        engine.query(f"SELECT a.s, b.v FROM a [{window}] JOIN b [{window}] ON {on}", count_only=True)
        for on in ("a.k = b.k", "a.s = b.s", "b.k BETWEEN a.k - 1 AND a.k + 1")
    ]
    per_window, windows, step = 500, 100, 2
    sizes: list[list[int]] = []
    for number in range(windows):
        ts = number * 1000 + np.arange(per_window) * step
        for stream in ("a", "b"):
            engine.push(stream, rows(ts, (np.arange(per_window) * 7919 + number) % 400 + 10_000))
        sizes.append([join_stats(engine, join)["state_bytes"] for join in joins])
    early, late = np.array(sizes[2]), np.array(sizes[3:]).max(axis=0)
    assert (late <= 2 * early).all(), (early, late)
    for join in joins:
        assert join_stats(engine, join)["state_rows"] <= 2 * per_window
        assert join.count > 0


def test_a_dropped_query_leaves_nothing_behind() -> None:
    engine = make()
    streams = engine._runtime.streams
    query = engine.query("SELECT a.k FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON a.k = b.k")
    engine.push("a", rows(np.arange(100), 1))
    query.drop()
    assert [len(ingest.output.queues) for ingest in streams.values()] == [0, 0]
    assert not engine._runtime.at_work.owners
    assert not engine._runtime.at_work.ready.all()


# -- output in bounded pieces -------------------------------------------------------------------------


def test_one_probe_with_a_million_matches() -> None:
    """A million rows of one key, then rows that meet them all: in pieces, other queries not starved."""
    million = 1_000_000
    engine = make()
    order: list[tuple[str, int]] = []
    sql = "SELECT b.ts AS bts FROM a [RANGE 1 DAY] JOIN b [RANGE 1 DAY] ON a.k = b.k"
    big, small = engine.query(sql, name="big"), engine.query("SELECT k FROM a", name="small")
    counted = engine.query(sql, name="counted", count_only=True)
    big.subscribe(lambda batch: order.append(("big", batch.num_rows)))
    small.subscribe(lambda batch: order.append(("small", batch.num_rows)))
    many = np.arange(million)
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(million, np.int8)), ["t"])
    engine.push("b", {"ts": many, "k": np.ones(million, np.int64), "v": np.zeros(million), "s": text})
    engine.push("a", rows([million] * 2, 1))
    engine.close()
    assert big.count == counted.count == 2 * million
    assert max(size for _, size in order) <= MAX_BATCH
    names = [name for name, _ in order]
    assert names.index("small") < len(names) - 1 - names[::-1].index("big")
    assert sum(size for name, size in order if name == "big") == 2 * million


@pytest.mark.parametrize("condition", ["a.k = b.k", "a.s = b.s", "ABS(a.k - b.k) < 2", "a.k <= b.k"])
def test_one_key_on_both_sides_comes_in_pieces(condition: str) -> None:
    """Every row meets every row: sixteen million pairs of four thousand rows a side."""
    n = 4_000
    engine = make()
    sql = f"SELECT a.ts AS ats FROM a [RANGE 1 DAY] JOIN b [RANGE 1 DAY] ON {condition}"
    query, counted = engine.query(sql), engine.query(sql, count_only=True)
    other = engine.query("SELECT k FROM b")
    sizes: list[int] = []
    last, sorted_so_far = -1, True

    def take(batch: pa.RecordBatch) -> None:
        nonlocal last, sorted_so_far
        ts = batch.column(0).cast(pa.int64()).to_numpy()
        sorted_so_far &= last <= ts[0] and bool((ts[1:] >= ts[:-1]).all())
        last = int(ts[-1])
        sizes.append(batch.num_rows)

    query.subscribe(take)
    engine.push("a", rows(np.arange(n), 1))
    engine.push("b", rows(np.arange(n), 1))
    engine.close()
    assert sum(sizes) == query.count == counted.count == n * n
    assert max(sizes) <= MAX_BATCH
    assert sorted_so_far
    assert other.results().num_rows == n


# -- indexes change while running ---------------------------------------------------------------------


def skewed(engine: penstock.Engine, condition: str) -> tuple[penstock.Query, list[list[str]]]:
    """A stream a thousand times as fast as assumed; the indexes after each push."""
    window = "[RANGE 2 MILLISECONDS]"
    query = engine.query(f"SELECT a.ts AS ats, b.ts AS bts FROM a {window} JOIN b {window} ON {condition}")
    rng = np.random.default_rng(11)
    seen = [join_stats(engine, query)["indexes"]]
    piece = FIRST_LOOK_ROWS // 4
    for start in range(0, 2 * FIRST_LOOK_ROWS, piece):
        for stream in ("a", "b"):
            engine.push(stream, rows(np.arange(start, start + piece), rng.integers(0, 100_000, piece)))
        engine._runtime._check()
        seen.append(join_stats(engine, query)["indexes"])
    engine.close()
    return query, seen


def test_an_index_that_turns_out_wrong_is_changed() -> None:
    """Two rows were expected in the window, two thousand come: a tree is clearly better than a scan."""
    condition = "b.k BETWEEN a.k - 20 AND a.k + 20"
    changed, seen = skewed(make(weights=WEIGHTS), condition)
    assert seen[0] == ["scan", "scan"]
    assert set(seen[-1]) <= {"t-tree", "b+tree"}
    forced, kept = skewed(make(index="scan", weights=WEIGHTS), condition)
    assert set(itertools.chain(*kept)) == {"scan"}
    expected = Counter(rows_of(forced.results()))
    assert len(expected) > 1_000
    assert Counter(rows_of(changed.results())) == expected


def test_an_index_that_is_right_stays() -> None:
    _, seen = skewed(make(weights=WEIGHTS), "a.k = b.k")
    assert {tuple(kinds) for kinds in seen} == {("hash", "hash")}


def test_nothing_is_changed_before_enough_was_seen() -> None:
    engine = make(weights=WEIGHTS)
    query = engine.query(
        "SELECT a.k FROM a [RANGE 1 MILLISECOND] JOIN b [RANGE 1 MILLISECOND] ON ABS(a.k - b.k) < 5"
    )
    few = FIRST_LOOK_ROWS // 2 - 1
    for stream in ("a", "b"):
        engine.push(stream, rows(np.arange(few), np.arange(few)))
    assert join_stats(engine, query)["indexes"] == ["scan", "scan"]
