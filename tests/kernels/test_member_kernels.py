"""Kernels that say which members take a pair, each by itself against a naive twin: loops over members.

test_query_index.py has them together, as QueryIndex calls them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from change_joins_help import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_kernels import ints
from test_query_index import MASKS, UNBOUNDED, spread_windows

from penstock.engine.kernels.chain import slice_join
from penstock.engine.kernels.joins import cells, query_index, slices
from penstock.engine.kernels.joins.query_index import (
    DIMENSION,
    FIRST_LEAF,
    FIRST_PLACE,
    LEAVES,
    NOWHERE,
    PLAIN,
    Filing,
    Members,
)
from penstock.engine.kernels.joins.slices import build_slices

some = settings(max_examples=examples(60))
WINDOWS = st.one_of(st.integers(1, 6), st.just(UNBOUNDED))
LEAF_COUNTS = st.lists(st.sampled_from([1, 2, 3, 5, 8]), max_size=3)
Asked = list[tuple[tuple[int, int], list[tuple[int, int]], int]]


@st.composite
def members_over(draw: st.DrawFn, leaf_counts: list[int], most: int = 8) -> Asked:
    """Members (windows, intervals, bits); intervals may be everything, or empty."""
    interval = [st.tuples(st.integers(0, count - 1), st.integers(-1, count - 1)) for count in leaf_counts]
    everything = [st.just((0, count - 1)) for count in leaf_counts]
    one = st.tuples(
        st.tuples(WINDOWS, WINDOWS),
        st.tuples(*(a | b for a, b in zip(interval, everything, strict=True))).map(list),
        st.sampled_from(MASKS),
    )
    return draw(st.lists(one, max_size=most))


def arrays_of(asked: Asked, dims: int) -> Members:
    size = len(asked)
    intervals = np.array([one[1] for one in asked], np.int32).reshape(size, dims, 2)
    return Members(
        np.ascontiguousarray(np.array([one[0] for one in asked], np.int64).reshape(size, 2).T),
        np.ascontiguousarray(intervals[:, :, 0]),
        np.ascontiguousarray(intervals[:, :, 1]),
        ints([one[2] for one in asked]).reshape(size, 1),
    )


# -- members in their places ---------------------------------------------------------------------------


@pytest.mark.twin("query_index.choose_dimensions")
@some
@given(LEAF_COUNTS, st.data())
def test_choose_dimensions(leaf_counts: list[int], data: st.DataObject) -> None:
    """The dimension with the least share of leaves, the first of them; the others are checked."""
    asked = data.draw(members_over(leaf_counts))
    primary, checked = np.full(len(asked), -9, np.int64), np.full(len(asked), 9, np.uint8)
    query_index.choose_dimensions(arrays_of(asked, len(leaf_counts)), ints(leaf_counts), primary, checked)
    for place, (_, intervals, bits) in enumerate(asked):
        shares = [
            Fraction(max(high - low + 1, 0), count)
            for (low, high), count in zip(intervals, leaf_counts, strict=True)
        ]
        if 0 in shares:
            assert primary[place] == NOWHERE
            continue
        least = min(shares, default=Fraction(1))
        assert primary[place] == (shares.index(least) if least < 1 else PLAIN)
        assert checked[place] == (bits != 0 or sum(share < 1 for share in shares) > 1)


class Filed:
    """Members in their places, as the kernels fill them."""

    def __init__(self, asked: Asked, leaf_counts: list[int], tree: list[int], checked: list[bool]) -> None:
        members = arrays_of(asked, len(leaf_counts))
        self.tree, self.checked = ints(tree), np.array(checked, np.uint8)
        trees, place, leaf = np.zeros((len(leaf_counts), 4), np.int64), 0, 0
        for number, leaves in enumerate(leaf_counts):
            columns = DIMENSION, LEAVES, FIRST_PLACE, FIRST_LEAF
            trees[number, columns] = number, leaves, place, leaf
            place, leaf = place + 2 * leaves, leaf + leaves
        starts = np.zeros(2 * max(1, place) + 1, np.int64)
        query_index.lay_out(members, self.tree, self.checked, trees, starts)
        size = 2 * int(starts[-1])
        self.filing = Filing(
            trees, starts, np.full(size, -9, np.int32), np.full(size, -9, np.int64),
            np.zeros(2 * leaf, np.int64), np.zeros(2, np.int64),
        )  # fmt: skip
        for side in range(2):
            order = np.argsort(-members.windows[side], kind="stable")
            query_index.file_members(members, self.tree, self.checked, side, order, self.filing)

    def list_of(self, side: int, number: int) -> list[tuple[int, int]]:
        """(member, window) in one list."""
        at, end = (side * int(self.filing.starts[-1]) + self.filing.starts[number : number + 2]).tolist()
        return list(
            zip(self.filing.entries[at:end].tolist(), self.filing.windows[at:end].tolist(), strict=True)
        )


@st.composite
def filed(draw: st.DrawFn) -> tuple[Asked, list[int], list[int], list[bool]]:
    """Members in any tree there is, in the plain list or nowhere; an interval that is empty has no place."""
    leaf_counts = draw(LEAF_COUNTS)
    asked = draw(members_over(leaf_counts))
    tree = [draw(st.integers(NOWHERE, len(leaf_counts) - 1)) for _ in asked]
    return asked, leaf_counts, tree, [draw(st.booleans()) for _ in asked]


@pytest.mark.twin("query_index.lay_out", "query_index.file_members")
@some
@given(filed())
def test_file_members(drawn: tuple[Asked, list[int], list[int], list[bool]]) -> None:
    """A path from a leaf to the root meets every member whose interval has the leaf, once, and no other."""
    asked, leaf_counts, tree, checked = drawn
    found = Filed(*drawn)
    starts = found.filing.starts
    assert (np.diff(starts) >= 0).all() and starts[0] == 0
    for side in range(2):
        lists = {number: found.list_of(side, number) for number in range(len(starts) - 1)}
        for one in lists.values():
            assert [window for _, window in one] == sorted((window for _, window in one), reverse=True)
            assert all(window == asked[member][0][side] for member, window in one)
        plain = [member for member in range(len(asked)) if tree[member] == PLAIN]
        for is_checked in (0, 1):
            wanted = [member for member in plain if checked[member] == bool(is_checked)]
            assert sorted(member for member, _ in lists[is_checked]) == wanted
        assert found.filing.plain[side] == max((asked[member][0][side] for member in plain), default=0)
        for number, leaves in enumerate(leaf_counts):
            first, first_leaf = found.filing.trees[number, [FIRST_PLACE, FIRST_LEAF]].tolist()
            for leaf in range(leaves):
                path, node = [], leaves + leaf
                while node:
                    path += [(one, parity) for parity in (0, 1) for one in lists[2 * (first + node) + parity]]
                    node >>= 1
                inside = [
                    member
                    for member, (_, intervals, _) in enumerate(asked)
                    if tree[member] == number and intervals[number][0] <= leaf <= intervals[number][1]
                ]
                assert sorted(member for (member, _), _ in path) == inside
                assert all(checked[member] == bool(parity) for (member, _), parity in path)
                reach = found.filing.longest[side * (len(found.filing.longest) // 2) + first_leaf + leaf]
                assert reach == max((window for (_, window), _ in path), default=0)


@pytest.mark.twin("query_index.settle_hits")
@some
@given(filed(), st.integers(0, 2**32))
def test_settle_hits(drawn: tuple[Asked, list[int], list[int], list[bool]], seed: int) -> None:
    """A pair that stopped at an entry of an unchecked list took it and all before it."""
    filing = Filed(*drawn).filing
    hits = np.random.default_rng(seed).integers(0, 5, len(filing.entries))
    counts = np.arange(len(drawn[0]))
    expected = counts.tolist()
    half = int(filing.starts[-1])
    for side in range(2):
        for number in range(2, len(filing.starts) - 1, 2):
            at, end = (side * half + filing.starts[number : number + 2]).tolist()
            for entry in range(at, end):
                expected[filing.entries[entry]] += int(hits[entry:end].sum())
    query_index.settle_hits(filing, hits, counts)
    assert counts.tolist() == expected and not hits.any()


@pytest.mark.twin("query_index.settle_plain", "query_index.count_plain", "slice_join.count_ages")
@some
@given(
    st.lists(st.tuples(WINDOWS, st.sampled_from([NOWHERE, PLAIN, 0]), st.booleans()), min_size=1, max_size=6),
    st.lists(st.one_of(st.integers(0, 8), st.just(UNBOUNDED - 1)), max_size=12),
)
def test_plain_counts(asked: list[tuple[int, int, bool]], ages: list[int]) -> None:
    """Ages by slice, and from these the pairs younger than a window, for members in the plain list."""
    windows = ints([window for window, _, _ in asked])
    found = build_slices(windows)
    histogram = np.zeros(len(found.ends) + 1, np.int64)
    query_index.count_plain(ints(ages), found, histogram)
    wanted = [sum(end <= age for end in found.ends) for age in ages]
    assert histogram.tolist() == [wanted.count(place) for place in range(len(histogram))]
    table = np.full((slice_join.PAIR_FIELDS, len(ages)), -9, np.int64)
    table[slice_join.AGE], again = ages, np.zeros_like(histogram)
    slice_join.count_ages(table, found.ends, found.first, found.shift, again)
    assert again.tolist() == histogram.tolist()
    counts, rank = np.arange(len(asked)), np.searchsorted(found.ends, windows)
    tree, checked = ints([one for _, one, _ in asked]), np.array([one for _, _, one in asked], np.uint8)
    query_index.settle_plain(tree, checked, rank, histogram, counts)
    assert counts.tolist() == [
        place + (sum(age < window for age in ages) if tree_ == PLAIN and not is_checked else 0)
        for place, (window, tree_, is_checked) in enumerate(asked)
    ]
    assert not histogram.any()


# -- the first member that fits ------------------------------------------------------------------------


def fits(one: Any, leaves: list[int], word: int) -> bool:
    _, intervals, bits = one
    inside = all(low <= leaf <= high for (low, high), leaf in zip(intervals, leaves, strict=True))
    return inside and word & bits == bits


def asks_no_more(one: Any, other: Any) -> bool:
    """Whether every row that fits the other fits this one."""
    inside = all(a <= c and d <= b for (a, b), (c, d) in zip(one[1], other[1], strict=True))
    return inside and one[2] & other[2] == one[2]


@pytest.mark.twin("query_index.drop_implied")
@some
@given(LEAF_COUNTS, st.data())
def test_drop_implied(leaf_counts: list[int], data: st.DataObject) -> None:
    asked = data.draw(members_over(leaf_counts, 20))
    keep = np.full(len(asked), -9, np.int64)
    members = arrays_of(asked, len(leaf_counts))
    count = query_index.drop_implied(members.low, members.high, members.bits, keep)
    expected: list[int] = []
    for place, one in enumerate(asked):
        is_empty = any(low > high for low, high in one[1])
        if not is_empty and not any(asks_no_more(asked[kept], one) for kept in expected):
            expected.append(place)
    assert keep[:count].tolist() == expected


@pytest.mark.twin("query_index.first_by_leaf", "query_index.fill_sets")
@some
@given(st.integers(1, 13), st.integers(0, 90), st.integers(0, 2**32))
def test_members_by_leaf(leaves: int, size: int, seed: int) -> None:
    """The first member whose interval has a leaf, and all of them as bits."""
    low, high = np.sort(np.random.default_rng(seed).integers(0, leaves, (2, size)), axis=0).astype(np.int32)
    first = np.full(leaves, -9, np.int64)
    query_index.first_by_leaf(low, high, leaves, first)
    sets = np.full((leaves, (size + 63) // 64), 9, np.uint64)
    query_index.fill_sets(low, high, np.argsort(low), np.argsort(high), sets)
    for leaf in range(leaves):
        inside = [member for member in range(size) if low[member] <= leaf <= high[member]]
        assert first[leaf] == (inside[0] if inside else size)
        bits = [
            member
            for member in range(64 * sets.shape[1])
            if int(sets[leaf, member >> 6]) >> (member & 63) & 1
        ]
        assert bits == inside


@pytest.mark.twin("query_index.fit_first")
@some
@given(LEAF_COUNTS, st.data(), st.booleans(), st.sampled_from([1, 70]))
def test_fit_first(leaf_counts: list[int], data: st.DataObject, in_sets: bool, copies: int) -> None:
    """Rows try members in order, one by one or by sets; copies of them make sets of more than a word."""
    asked = copies * data.draw(members_over(leaf_counts, 5))
    rows = data.draw(
        st.lists(
            st.tuples(
                st.tuples(*(st.integers(0, count - 1) for count in leaf_counts)),
                st.sampled_from([*MASKS, -1]),
            ),
            max_size=10,
        )
    )
    dims, size = len(leaf_counts), len(asked)
    windows = ints([*range(1000, 1000 - size, -1), 0])
    first, bases = np.zeros(sum(leaf_counts), np.int64), np.cumsum([0, *leaf_counts])[:-1].astype(np.int64)
    sets = np.zeros((len(first), (size + 63) // 64 if in_sets and dims else 0), np.uint64)
    for d, count in enumerate(leaf_counts):
        for leaf in range(count):
            inside = [
                m for m, (_, intervals, _) in enumerate(asked) if intervals[d][0] <= leaf <= intervals[d][1]
            ]
            first[bases[d] + leaf] = inside[0] if inside else size
            for member in inside if sets.shape[1] else ():
                sets[bases[d] + leaf, member >> 6] |= np.uint64(1) << np.uint64(member & 63)
    leaves = np.array([row[0] for row in rows], np.int32).reshape(len(rows), dims).T.copy()
    words = ints([row[1] for row in rows]).reshape(1, len(rows))
    members, out = arrays_of(asked, dims), np.full(len(rows), -9, np.int64)
    query_index.fit_first(
        leaves, words, windows, members.low, members.high, members.bits, first, bases, sets, out
    )
    for place, (of_row, word) in enumerate(rows):
        wanted = next((m for m, one in enumerate(asked) if fits(one, list(of_row), word)), size)
        assert out[place] == windows[wanted]


# -- slices and cells ----------------------------------------------------------------------------------


def steps_of(ends: list[int], room: int, shift: int) -> float:
    """What choose_shift adds up: ends inside crowded buckets, by their share of ends and of ages."""
    bounded = ends[:-1] if len(ends) > 1 and ends[-1] == UNBOUNDED else ends
    span = float(bounded[-1])
    buckets: dict[int, list[int]] = {}
    for end in ends:
        buckets.setdefault(min(end >> shift, room - 1), []).append(end)
    cost = 0.0
    for bucket, inside in buckets.items():
        start = bucket << shift
        count = sum(end > start for end in inside)
        if count > 1:
            width = span - start if bucket == room - 1 else 2.0**shift
            cost += float(np.log2(count)) * (count / len(ends) + min(max(width, 0.0) / span, 1.0))
    return cost


@pytest.mark.twin("slices.choose_shift", "slices.fill_first")
@some
@given(spread_windows().filter(bool), st.sampled_from([2, 64, 300]))
def test_choose_shift_and_fill_first(windows: list[int], room: int) -> None:
    ends = sorted(set(windows))
    shift = int(slices.choose_shift(ints(ends), room))
    costs = [steps_of(ends, room, one) for one in range(slices.SHIFTS)]
    assert shift == max(one for one, cost in enumerate(costs) if cost == min(costs))
    first = np.full(min(room, (ends[-1] >> shift) + 1), -99, np.int32)
    slices.fill_first(ints(ends), shift, first)
    for bucket, found in enumerate(first.tolist()):
        start, is_last = bucket << shift, bucket == len(first) - 1
        before = sum(end <= start for end in ends)
        inside = sum(end > start and (is_last or end >> shift == bucket) for end in ends)
        place = min(before, len(ends) - 1)
        assert found == (~place if inside > 1 else place)


@st.composite
def counted(draw: st.DrawFn, lefts: int, rights: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Cells (left leaf, right leaf, slice), and boxes of members: low, high and the last slice."""
    depth, size = draw(st.integers(1, 4)), draw(st.integers(0, 6))
    dice = np.random.default_rng(draw(st.integers(0, 2**32)))
    filled = dice.integers(0, 4, (lefts, rights, depth)) * (dice.random((lefts, rights, 1)) < 0.6)
    shape = np.array([[lefts], [rights]])
    low, high = dice.integers(0, shape, (2, size)), dice.integers(-1, shape, (2, size))
    return filled.astype(np.int32), low.astype(np.int32), high.astype(np.int32), dice.integers(0, depth, size)


@pytest.mark.twin("cells.settle_cells")
@some
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_settle_cells(lefts: int, rights: int, data: st.DataObject) -> None:
    """What a member takes is a box of cells, up to its slice."""
    filled, low, high, ranks = data.draw(counted(lefts, rights))
    counts = np.arange(len(ranks))
    expected = [
        m + int(filled[low[0, m] : high[0, m] + 1, low[1, m] : high[1, m] + 1, : ranks[m] + 1].sum())
        for m in range(len(ranks))
    ]
    cells.settle_cells(filled, low, high, ranks, counts)
    assert counts.tolist() == expected and not filled.any()


@pytest.mark.twin("cells.settle_rows")
@some
@given(st.integers(1, 5), st.data())
def test_settle_rows(leaves: int, data: st.DataObject) -> None:
    """The same with one side; members whose interval is empty are not asked."""
    filled, (low, _), (high, _), ranks = data.draw(counted(leaves, 1))
    counts = np.arange(len(ranks))
    some_ = np.flatnonzero(low <= high)
    expected = [m + int(filled[low[m] : high[m] + 1, 0, : ranks[m] + 1].sum()) for m in range(len(ranks))]
    by_low, by_high = (some_[np.argsort(edge[some_], kind="stable")] for edge in (low, high))
    rows = filled.reshape(leaves, -1)
    cells.settle_rows(rows, low, by_low, high, by_high, ranks, counts)
    assert counts.tolist() == expected and not rows.any()
