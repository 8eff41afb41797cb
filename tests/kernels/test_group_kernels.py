"""Kernels of groups against naive twins: ordered trees, distinct values, slots by fingerprint."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes.aggregates import Trees
from penstock.engine.changes.group_table import GroupTable
from penstock.engine.kernels.changes import groups as kernels
from penstock.engine.kernels.changes.distinct import copy_cells, run_distinct
from penstock.engine.kernels.changes.extremes import run_extremes
from penstock.engine.kernels.changes.ordered import priority
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.store import TextColumn
from penstock.engine.rows.types import SqlType

NO_INTS = np.empty(0, np.int64)
NO_TEXTS = (NO_INTS, np.empty(0, np.uint8))


def in_order(trees: Trees, root: int) -> list[int]:
    """Nodes of a tree from left to right; children do not outrank their parents."""
    child = trees.arrays[2]
    nodes: list[int] = []

    def walk(node: int) -> None:
        if node:
            for one in (child[2 * node], child[2 * node + 1]):
                assert not one or priority(one) <= priority(node)
            walk(int(child[2 * node]))
            nodes.append(node)
            walk(int(child[2 * node + 1]))

    walk(root)
    return nodes


@pytest.mark.twin("extremes.run_extremes")
@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-9, 9), st.sampled_from((1, 1, -1))), max_size=60))
def test_ordered_trees_as_counters(changes: list[tuple[int, int, int]]) -> None:
    """Counts may be below 0 in between."""
    trees = Trees()
    trees.reserve(2, len(changes))
    slot = np.array([one[0] for one in changes], np.int32)
    codes = np.array([one[1] for one in changes], np.int64)
    sign = np.array([one[2] for one in changes], np.int8)
    count = len(changes)
    value, valid = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    until = np.arange(1, count + 1, dtype=np.int32)
    run_extremes(
        (slot, sign, codes, count), (slot, until, count), (trees.roots, trees.arrays, NO_TEXTS), NO_INTS,
        False, False, value, valid,
    )  # fmt: skip
    groups: list[Counter[int]] = [Counter(), Counter()]
    for i, (group, code, change) in enumerate(changes):
        groups[group][code] += change
        there = [code for code, times in groups[group].items() if times]
        assert bool(valid[i]) == bool(there) and (not there or value[i] == max(there))
    keys, counts, _, _ = trees.arrays
    for group in (0, 1):
        nodes = in_order(trees, int(trees.roots[group]))
        expected = sorted((code, times) for code, times in groups[group].items() if times)
        assert [(int(keys[node]), int(counts[node])) for node in nodes] == expected


@settings(max_examples=50)
@given(st.lists(st.text("aäb\0", max_size=3), min_size=1, max_size=20), st.booleans())
def test_texts_in_the_order_of_their_bytes(texts: list[str], smallest: bool) -> None:
    store = TextColumn()
    store.append(pa.array(texts, pa.string()))
    trees = Trees()
    count = len(texts)
    trees.reserve(1, count)
    value, valid = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    zeros, until = np.zeros(count, np.int32), np.arange(1, count + 1, dtype=np.int32)
    run_extremes(
        (zeros, np.ones(count, np.int8), np.arange(count), count), (zeros, until, count),
        (trees.roots, trees.arrays, (store.starts.data, store.data.data)), np.full(1, -1), smallest, False,
        value, valid,
    )  # fmt: skip
    best = min if smallest else max
    for i in range(count):
        assert texts[value[i]] == best(texts[: i + 1], key=str.encode)


@pytest.mark.twin("distinct.copy_cells", "distinct.run_distinct")
@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2), st.sampled_from((1, 1, 0, -1))), max_size=80)
)
def test_distinct_as_counters(changes: list[tuple[int, int, int]]) -> None:
    """From two cells on, so that they grow; values of one bucket move up when one is forgotten."""
    slot = np.array([one[0] for one in changes], np.int32)
    codes = np.array([one[1] for one in changes], np.int64)
    sign = np.array([one[2] for one in changes], np.int8)
    out = np.empty(len(changes), np.int8)
    cells, meta, event = np.zeros((2, 4), np.int64), np.zeros(1, np.int64), 0
    while True:
        event = run_distinct(slot, sign, codes, NO_INTS, event, len(changes), cells, meta, out)
        if event == len(changes):
            break
        more = np.zeros((2 * len(cells), 4), np.int64)
        copy_cells(cells, more)
        cells = more
    counts: Counter[tuple[int, int]] = Counter()
    for i, (group, code, change) in enumerate(changes):
        before = counts[group, code] > 0
        counts[group, code] += change
        assert out[i] == (counts[group, code] > 0) - before
    assert meta[0] == sum(1 for times in counts.values() if times)


@pytest.mark.twin("groups.run_changes")
@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=60))
def test_events_and_points_as_a_plain_loop(drawn: list[tuple[int, int, int]]) -> None:
    """Rows of groups that come and go: who is in which group at the end of each instant."""
    ts = np.cumsum([gap for gap, _, _ in drawn])
    keys = [key for _, key, _ in drawn]
    ets = ts + [life for _, _, life in drawn]
    groups = GroupTable((SqlType.BIGINT,))
    groups.begin(Batch(ts, [pa.array(keys, pa.int64())], None, ets), 100_000)
    said: list[tuple[int, int, int]] = []
    while not groups.is_done:
        changes = groups.run()
        names = groups.keys(changes.point_key[: changes.points])[0]
        column = Batch(changes.point_ts[: changes.points], [names]).column(0).to_pylist()
        times, counts = changes.point_ts[: changes.points], changes.point_rows[: changes.points]
        said += zip(times.tolist(), column, counts.tolist(), strict=True)
        groups._check()
        groups.compact()
        groups._check()
    expected = []
    for now in sorted({*ts.tolist(), *ets.tolist()}):
        touched = {k for t, k, e in zip(ts, keys, ets, strict=True) if now in (t, e)}
        for key in touched:
            there = sum(k == key and t <= now < e for t, k, e in zip(ts, keys, ets, strict=True))
            expected.append((now, key, there))
    assert sorted(said) == sorted(expected)
    assert groups.live == 0 and len(groups.expiry) == 0 and groups._meta[kernels.LIVE] == 0
