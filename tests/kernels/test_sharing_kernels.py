"""Kernels of shared joins against naive twins: what a row sees, counters by cell, pairs sorted out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.joins.bounds import first_within, precede
from penstock.engine.kernels.joins.cells import add_pairs
from penstock.engine.kernels.joins.pairs import ROW_BITS, TOGETHER, gather_shelf, take_pairs_of
from penstock.engine.kernels.joins.slices import build_slices
from penstock.engine.members.cell_counts import CellCounts
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.buffer import RowBuffer

TIMES = st.lists(st.integers(0, 12), max_size=12).map(lambda times: np.array(sorted(times), np.int64))


@pytest.mark.twin("bounds.precede")
@given(TIMES, TIMES, st.integers(0, 5), st.booleans())
def test_precede(times: NDArray, ts: NDArray, first: int, inclusive: bool) -> None:
    seen = np.empty(len(times), np.int64)
    precede(times, ts, first, inclusive, seen)
    expected = [first + sum(t < now or (inclusive and t == now) for t in ts) for now in times]
    assert seen.tolist() == expected


@pytest.mark.twin("bounds.first_within")
@given(TIMES, TIMES, st.integers(1, 9), st.data())
def test_first_within(clock: NDArray, pos: NDArray, size: int, data: st.DataObject) -> None:
    base = data.draw(st.integers(-3, 3))
    reach = np.array([data.draw(st.integers(1, 12)) for _ in clock], np.int64)
    until = np.array([base + sum(p <= now for p in pos) for now in clock], np.int64)
    start = np.array([base + sum(now - p >= size for p in pos) for now in clock], np.int64)
    start = np.minimum(start, until)
    row_from = start.copy()
    seen = first_within(clock, reach, size, pos, base, row_from, until)
    expected = [
        next((r for r in range(a, b) if now - pos[r - base] < min(far, size)), b)
        for now, far, a, b in zip(clock, reach, start, until, strict=True)
    ]
    assert row_from.tolist() == expected
    assert seen == sum(b - a for a, b in zip(expected, until, strict=True))


@pytest.mark.twin("pairs.gather_shelf")
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20))
def test_gather_shelf(refs: list[tuple[int, int]]) -> None:
    """Shelves with different numbers of rows before their first."""
    shelves = [(np.arange(4) + 10 * n, n) for n in range(3)]
    rows = [(shelf << ROW_BITS) + row + shelves[shelf][1] for shelf, row in refs]
    out = np.full(len(refs), -1, np.int64)
    for number, (values, base) in enumerate(shelves):
        gather_shelf(np.array(rows, np.int64), number, values, base, out)
    assert out.tolist() == [10 * shelf + row for shelf, row in refs]


PAIR = st.tuples(
    st.integers(0, 5), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4), st.sampled_from([0, 1, 2, 3])
)


@pytest.mark.twin("pairs.take_pairs_of")
@given(
    st.lists(PAIR, max_size=20),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([1, TOGETHER // 8]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_take_pairs_of(
    pairs: list[tuple[int, ...]],
    sizes: tuple[int, int],
    interval: tuple[int, int],
    bits: int,
    times: int,
    by_age: tuple[bool, bool],
) -> None:
    pairs = pairs * times
    columns = np.array(pairs, np.int64).reshape(-1, 5).T
    left_age, right_age, leaf, other_leaf, word = (column.copy() for column in columns)
    count = len(pairs)
    ts, left, right = (np.arange(count) + shift for shift in (100, 200, 300))
    out = [np.empty(count + 1, np.int64) for _ in range(3)]
    low, high = np.array([interval[0], 0], np.int32), np.array([interval[1], 3], np.int32)
    found = take_pairs_of(
        (ts, left, right), (left_age if by_age[0] else NO_ROWS, right_age if by_age[1] else NO_ROWS),
        (np.array([leaf, other_leaf], np.int32).reshape(2, count), word.reshape(1, count)),
        np.array(sizes), (low, high, np.array([bits], np.int64)), tuple(out),
    )  # fmt: skip
    expected = [
        i
        for i, (a, b, one, two, has) in enumerate(pairs)
        if (a < sizes[0] or not by_age[0]) and (b < sizes[1] or not by_age[1]) and two <= 3
        and interval[0] <= one <= interval[1]
        and has & bits == bits
    ]  # fmt: skip
    for values, shift in zip(out, (100, 200, 300), strict=True):
        assert values[:found].tolist() == [i + shift for i in expected]


MEMBER = st.tuples(
    *(st.integers(low, high) for low, high in ((1, 9), (1, 9), (0, 3), (0, 3), (0, 2), (0, 2)))
)


@pytest.mark.twin("cells.add_pairs")
@given(
    st.lists(MEMBER, min_size=1, max_size=6),
    st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 3), st.integers(0, 2)), max_size=30),
    st.booleans(),
    st.sampled_from([(4, 3), (4, 1), (1, 3)]),
)
def test_cell_counts(
    members: list[tuple[int, ...]],
    pairs: list[tuple[bool, int, int, int]],
    alike: bool,
    leaf_counts: tuple[int, int],
) -> None:
    """Pairs (which side is older, age, leaves of both) counted in cells, settled, then once more."""
    pairs = [
        (older, age, min(one, leaf_counts[0] - 1), min(two, leaf_counts[1] - 1))
        for older, age, one, two in pairs
    ]
    table = np.array(members, np.int64)
    windows = np.array([table[:, 0], table[:, 0] if alike else table[:, 1]])
    low, high = table[:, [2, 4]].T.astype(np.int32), table[:, [3, 5]].T.astype(np.int32)
    former: CellCounts | None = None
    for _ in range(2):
        counts = CellCounts(windows, low, high, leaf_counts, former)
        for probed in (0, 1):
            mine = [pair for pair in pairs if pair[0] == bool(probed)]
            age, one, two = (np.array([pair[k] for pair in mine], np.int64) for k in (1, 2, 3))
            strides = counts.strides(probed)
            leaves, other = (one, two) if probed == 0 else (two, one)
            slices = counts.slices[probed]
            add_pairs(
                np.arange(len(mine)), np.arange(len(mine)) + 5, len(mine), age, np.zeros_like(age), 5,
                other * strides[1 - probed], leaves.astype(np.int32), 5, strides[probed],
                slices.ends, slices.first, slices.shift, counts.flat(probed),
                np.empty(7, np.int64), np.empty(7, np.int64),
            )  # fmt: skip
        expected = [
            sum(
                windows[int(older)][m] > age
                and low[0, m] <= one <= high[0, m]
                and low[1, m] <= two <= high[1, m]
                for older, age, one, two in pairs
            )
            for m in range(len(members))
        ]  # fmt: skip
        assert counts.settle().tolist() == expected
        assert not counts.settle().any()
        former = counts


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=25),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=25),
    st.integers(1, 12),
)
def test_hash_counts_by_slice_and_cell(
    rows: list[tuple[int, int]], probers: list[tuple[int, int, int]], size: int
) -> None:
    """Rows (gap, key) and probers (gap, key, leaf): each pair within the window in its slice."""
    ts = np.cumsum([gap for gap, _ in rows], dtype=np.int64)
    keys = np.array([key for _, key in rows], np.int64)
    times = np.cumsum([gap for gap, _, _ in probers], dtype=np.int64)
    sought = np.array([key for _, key, _ in probers], np.int64)
    until = ts.searchsorted(times, side="right").astype(np.int64)
    start = np.minimum(ts.searchsorted(times - size, side="right"), until).astype(np.int64)
    ends = [min(end, size) for end in (2, 5, 12)]
    slices = build_slices(np.array(ends))
    leaf = np.array([key % 2 for key in keys], np.int32)
    of_prober = np.array([8 * one for _, _, one in probers], np.int64)
    pos, leaves = RowBuffer("int64"), RowBuffer("int32")
    pos.append(ts)
    leaves.append(leaf)
    expected: Counter[int] = Counter()
    by_cell: Counter[int] = Counter()
    for i, now in enumerate(times):
        for r in range(start[i], until[i]):
            if keys[r] == sought[i]:
                at = sum(int(now - ts[r]) >= end for end in set(ends))
                expected[at] += 1
                by_cell[int(of_prober[i]) + 4 * int(leaf[r]) + at] += 1
    for in_cells in (False, True):
        index = HashIndex()
        index.extend(keys)
        if in_cells:
            histogram = np.zeros(24, np.int32)
            probes = Probes(sought, sought, start, until, len(keys))
            found = index.run_cells(probes, times, pos, slices, histogram, (of_prober, leaves, 4))
        else:
            histogram = np.zeros(4, np.int64)
            probes = Probes(sought, sought, start, until, len(keys))
            found = index.run_ages(probes, times, pos, slices, histogram)
        assert found == expected.total()
        wanted = by_cell if in_cells else expected
        assert {at: n for at, n in enumerate(histogram.tolist()) if n} == dict(wanted)
        index._check()
