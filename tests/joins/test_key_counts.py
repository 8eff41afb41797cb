"""Pairs counted by key: against a naive twin, and in joins whose members come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from work_of import joins_of

import penstock
from penstock.engine.indexes.index import Probes
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves import key_counts
from penstock.engine.shelves.key_counts import KeyCounts
from penstock.optimizer.share.lay_out_joins import LayoutChooser

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), max_size=12)


@pytest.mark.twin("key_counts.count_by_key", "key_counts.forget_rows")
@given(
    st.lists(st.tuples(ROWS, ROWS, st.integers(0, 20)), min_size=1, max_size=4),
    st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True).map(sorted),
    st.booleans(),
    st.booleans(),
    st.sampled_from([2, 64]),
    st.sampled_from([0, 1 << 29]),
)
def test_counts_by_key(
    batches: list[tuple[Any, Any, int]], ends: list[int], forever: bool, tagged: bool, places: int, most: int
) -> None:
    """Batches of rows (gap, key, leaf) and of probers (gap, key, slices), then some of the oldest rows go."""
    limits = np.array([*ends[:-1], FOREVER] if forever else ends, np.int64)
    lifetime = int(limits[-1])
    counts = KeyCounts(7, limits, 3 if tagged else 1)
    counts._clear(7, places)
    keys, pos, leaves = (RowBuffer(kind, 7) for kind in ("int64", "int64", "int32"))
    width = len(limits) + 1
    expected = np.zeros(4 * 3 * width, np.int64)
    histogram = np.zeros_like(expected)
    rows: list[tuple[int, int, int]] = []
    start = 0
    for new, probers, dropped in batches:
        arrived = start + np.cumsum([gap for gap, _, _ in new], dtype=np.int64)
        times = start + np.cumsum([gap for gap, _, _ in probers], dtype=np.int64)
        rows += [(int(t), key, leaf if tagged else 0) for t, (_, key, leaf) in zip(arrived, new, strict=True)]
        pos.append(arrived)
        keys.append(np.array([key for _, key, _ in new], np.int64))
        leaves.append(np.array([leaf for _, _, leaf in new], np.int32))
        sought = np.array([key for _, key, _ in probers], np.int64)
        until = np.array([7 + sum(t <= now for t, _, _ in rows) for now in times], np.int64)
        reach = np.array([limits[min(up, len(limits) - 1)] for _, _, up in probers], np.int64)
        cells = np.array([n % 4 * 3 * width for n in range(len(probers))], np.int64)
        for n, (now, key, far) in enumerate(
            zip(times.tolist(), sought.tolist(), reach.tolist(), strict=True)
        ):
            for t, other, leaf in rows[counts._at.tail - 7 :]:
                if t <= now and other == key and now - t < min(lifetime, far):
                    slice_ = int(limits.searchsorted(now - t, side="right"))
                    expected[cells[n] + leaf * width + slice_] += 1
        probes = Probes(sought, sought, until, until, pos.end)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(key_counts, "MOST_AT_ONCE", most)
            while not probes.done:
                counts.run(
                    probes,
                    times,
                    reach,
                    keys.live,
                    pos,
                    leaves if tagged else None,
                    (cells, width),
                    histogram,
                )
                counts._check()
        assert histogram.tolist() == expected.tolist()
        start = max([start, *arrived.tolist(), *times.tolist()])
        # what has outlived its window may be dropped, and no more
        alive = int(pos.live.searchsorted(start - lifetime, side="right")) if lifetime < FOREVER else 0
        first = pos.tail + min(alive, dropped)
        counts.forget(first)
        counts._check()
        for buffer in (keys, pos, leaves):
            buffer.drop(first)


# -- in joins ------------------------------------------------------------------------------------------

CREATE = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT)
"""
QUERY = st.tuples(
    st.integers(1, 8), st.sampled_from(["", " AND a.v > 1", " AND a.v > 2", " AND b.v < 3", " AND a.v = b.v"])
)
PUSH = st.tuples(
    st.sampled_from("ab"), st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=15)
)
STEP = PUSH | st.tuples(st.just("add"), QUERY) | st.tuples(st.just("drop"), st.integers(0, 9))


def run(sharing: str, steps: list[Any], patch: pytest.MonkeyPatch, by_key: bool) -> list[int]:
    patch.setattr(LayoutChooser, "_counts_by_key", lambda *_: by_key)
    engine = penstock.Engine(sharing=sharing)
    engine.execute(CREATE)
    queries: list[penstock.Query] = []
    gone: list[int] = []
    now = 0
    for kind, what in steps:
        if kind == "add":
            text = f"SELECT a.k FROM a, b WHERE a.k = b.k{what[1]} WINDOW {what[0]} MICROSECONDS"
            queries.append(engine.query(text, count_only=True))
        elif kind == "drop":
            if queries:
                query = queries.pop(what % len(queries))
                gone.append(query.count)
                query.drop()
        else:
            ts = now + np.cumsum([gap for gap, _, _ in what])
            now = int(ts[-1])
            engine.push(kind, {"ts": ts, "k": [k for _, k, _ in what], "v": [v for _, _, v in what]})
        engine._runtime._check()
    engine.close()
    return gone + [query.count for query in queries]


@given(st.lists(STEP, max_size=14), st.lists(QUERY, min_size=1, max_size=4))
def test_counts_are_those_of_pairs_that_are_found(steps: list[Any], first: list[Any]) -> None:
    steps = [*(("add", query) for query in first), *steps]
    with pytest.MonkeyPatch.context() as patch:
        expected = run("auto", steps, patch, False)
        assert run("auto", steps, patch, True) == expected
        assert run("mem-opt", steps, patch, True) == expected


def test_many_matches_are_counted_by_key_and_few_are_not() -> None:
    for keys, by_key in ((4, True), (5_000, False)):
        engine = penstock.Engine()
        engine.execute(CREATE)
        text = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW 1 SECOND"
        query = engine.query(text, count_only=True)
        rng = np.random.default_rng(1)
        for part in range(4):
            for stream in "ab":
                ts = np.arange(part * 3_000, (part + 1) * 3_000) * 1_000
                columns = {"ts": ts, "k": rng.integers(0, keys, 3_000), "v": np.zeros(3_000, np.int64)}
                engine.push(stream, columns)
        (group,) = joins_of(engine)
        assert group.joins[0]._counter.by_key == by_key
        assert query.count > 0
        engine._runtime._check()
