"""The index of many queries against a double loop over members and pairs; slices against counting.

Run with NUMBA_DISABLE_JIT=1 the kernels are plain Python, where every array access is checked.
`test_with_the_jit_off` does that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from random import Random
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.kernels.joins import query_index as kernels
from penstock.engine.kernels.joins.slices import MAX_BUCKETS, build_slices, search_crowd, slice_of
from penstock.engine.members import query_index
from penstock.engine.members.query_index import QueryIndex, split_by_member

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
UNBOUNDED = 2**63 - 1
MASKS = [0, 0, 1, 2, 3, 5, -(2**63), -(2**63) + 1]
WINDOWS = st.one_of(st.integers(1, 6), st.just(UNBOUNDED))
examples = settings(max_examples=80 if JIT else 30)


@dataclass(frozen=True)
class Member:
    """One query as it is meant: windows by side, an interval for each dimension, a mask for each word."""

    windows: tuple[int, int]
    intervals: tuple[tuple[int, int], ...]
    masks: tuple[int, ...]

    def fits(self, leaves: dict[int, int], words: dict[int, int]) -> bool:
        """Whether the leaves of some dimensions and the words of some predicates are what it asks for."""
        return all(
            self.intervals[d][0] <= leaf <= self.intervals[d][1] for d, leaf in leaves.items()
        ) and all(word & self.masks[w] == self.masks[w] for w, word in words.items())


@dataclass(frozen=True)
class Pair:
    probed: int
    age: int
    own_age: int
    leaves: tuple[int, ...]
    words: tuple[int, ...]

    def belongs_to(self, member: Member) -> bool:
        return (
            member.windows[self.probed] > self.age
            and member.windows[1 - self.probed] > self.own_age
            and member.fits(dict(enumerate(self.leaves)), dict(enumerate(self.words)))
        )


@dataclass(frozen=True)
class Shape:
    """The dimensions and words that members and pairs are drawn over."""

    leaf_counts: tuple[int, ...]
    dim_sides: tuple[int, ...]
    word_sides: tuple[int, ...]

    def index(self, members: list[Member]) -> QueryIndex:
        size, dims, words = len(members), len(self.leaf_counts), len(self.word_sides)
        intervals = np.array([m.intervals for m in members], np.int32).reshape(size, dims, 2)
        return QueryIndex(
            np.array([m.windows for m in members], np.int64).reshape(size, 2).T,
            intervals[:, :, 0],
            intervals[:, :, 1],
            np.array([m.masks for m in members], np.int64).reshape(size, words),
            self.leaf_counts,
            self.dim_sides,
            self.word_sides,
        )

    def arrays(self, pairs: list[Pair], has_own: bool) -> tuple[NDArray, NDArray | None, NDArray, NDArray]:
        """(age, own_age, leaves, words) as the index takes them."""
        return (
            np.array([p.age for p in pairs], np.int64),
            np.array([p.own_age for p in pairs], np.int64) if has_own else None,
            np.array([p.leaves for p in pairs], np.int32).reshape(len(pairs), len(self.leaf_counts)).T,
            np.array([p.words for p in pairs], np.int64).reshape(len(pairs), len(self.word_sides)).T,
        )


Case = tuple[Shape, list[Member], list[Pair], bool]


def draw_interval(random: Random, leaves: int) -> tuple[int, int]:
    """Everything, a threshold from below or above, all but the last leaf (NULL), any; some are empty."""
    a, b = random.randrange(leaves), random.randrange(leaves)
    return random.choice(
        [(0, leaves - 1), (0, leaves - 1), (a, leaves - 1), (0, a), (a, leaves - 2), (a, a), (a, b)]
    )


def draw_case(size: int, number: int, dims: int, words: int, has_own: bool, seed: int) -> Case:
    """Members and pairs over few values, so that windows tie with each other and with ages."""
    random = Random(seed)
    shape = Shape(
        tuple(random.choice([1, 2, 3, 5, 8, 13]) for _ in range(dims)),
        tuple(random.randrange(2) for _ in range(dims)),
        tuple(random.randrange(2) for _ in range(words)),
    )
    sizes = [[1, 2], [3, 4, 7, UNBOUNDED], [*range(2, 9), 10**12, UNBOUNDED - 1, UNBOUNDED]]
    left, right = random.choice(sizes), random.choice(sizes)
    ages = [0, *left, *right, *(window - 1 for window in left + right)]
    masks = random.choice([[0], MASKS])
    members = [
        Member(
            (random.choice(left), random.choice(right)),
            tuple(draw_interval(random, leaves) for leaves in shape.leaf_counts),
            tuple(random.choice(masks) for _ in shape.word_sides),
        )
        for _ in range(size)
    ]
    members += random.choices(members, k=2) if members else []
    pairs = [
        Pair(
            random.randrange(2),
            random.choice(ages),
            random.choice([0, random.choice(ages)]) if has_own else 0,
            tuple(random.randrange(leaves) for leaves in shape.leaf_counts),
            tuple(random.choice([*MASKS, -1]) for _ in shape.word_sides),
        )
        for _ in range(number)
    ]
    return shape, members, pairs, has_own


def cases() -> st.SearchStrategy[Case]:
    few = st.integers(0, 4)
    return st.builds(
        draw_case,
        few | st.integers(10, 40),
        few | st.integers(60, 100),
        st.integers(0, 3),
        st.integers(0, 2),
        st.booleans(),
        st.integers(0, 2**32),
    )


NOBODY: Case = (Shape((3,), (0,), (1,)), [], [Pair(0, 0, 0, (2,), (0,))], False)


def counts_of(members: list[Member], pairs: list[Pair]) -> list[int]:
    return [sum(pair.belongs_to(member) for pair in pairs) for member in members]


@pytest.mark.twin("query_index.count_pairs", "member_sets.count_in_sets")
@examples
@given(cases(), st.sampled_from([query_index.MIN_CHECKS, -1000]))
@example(NOBODY, -1000)
@example(draw_case(100, 300, 2, 0, False, 1), -1000)  # more pairs than the low planes hold
def test_count(case: Case, least: int) -> None:
    """Counts of several calls on both sides add up, and are gone once settled; by sets where it may be."""
    shape, members, pairs, has_own = case
    index = shape.index(members)
    with mock.patch.object(query_index, "MIN_CHECKS", least):
        index._check()
    assert index.is_plain == (not shape.leaf_counts and not shape.word_sides)
    for _ in range(2):
        for probed in (0, 1):
            index.count(probed, *shape.arrays([p for p in pairs if p.probed == probed], has_own))
        index._check()
    assert index.settle().tolist() == [2 * count for count in counts_of(members, pairs)]
    assert index.settle().tolist() == [0] * len(members)
    some = pairs[::2]
    for pair in some:
        index.count(pair.probed, *shape.arrays([pair], has_own))
    assert index.settle().tolist() == counts_of(members, some)


@pytest.mark.twin("member_sets.report_from_sets")
@examples
@given(
    cases(),
    st.integers(0, 100),
    st.integers(0, 3),
    st.sampled_from(["report", "report_each"]),
    st.sampled_from([query_index.MIN_CHECKS, -1000]),
)
@example(NOBODY, 0, 0, "report", -1000)
@example(draw_case(100, 300, 2, 0, False, 1), 100, 0, "report", -1000)  # sets of more than a word
def test_report(case: Case, room: int, start: int, way: str, least: int) -> None:
    """In pieces of any size: whole pairs, in order, each with its members once; by sets where it may be."""
    shape, members, pairs, has_own = case
    index = shape.index(members)
    with mock.patch.object(query_index, "MIN_CHECKS", least):
        index._check()
    probed = np.array([p.probed for p in pairs], np.int64)
    start = min(start, len(pairs))
    expected = [
        (f, m)
        for f in range(start, len(pairs))
        for m in range(len(members))
        if pairs[f].belongs_to(members[m])
    ]
    found: list[tuple[int, int]] = []
    at = start
    while at < len(pairs):
        out_member, out_pair = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
        report = getattr(index, way)
        count, following = report(probed, *shape.arrays(pairs, has_own), at, out_member, out_pair)
        piece = sorted(zip(out_pair[:count].tolist(), out_member[:count].tolist(), strict=True))
        assert out_pair[:count].tolist() == [f for f, _ in piece], "pairs out of order"
        assert all(at <= f < following for f, _ in piece)
        if following < len(pairs):
            next_size = sum(f == following for f, _ in expected)
            assert count + next_size > room, "stopped before a pair that would have fitted"
        if following == at:
            assert room < len(members)
            room = len(members)
        found += piece
        at = following
    assert found == expected


@examples
@given(cases(), st.integers(0, 1), st.integers(0, 1), st.sampled_from([1, 64]))
@example(NOBODY, 0, 0, 1)
@example(NOBODY, 1, 0, 64)
@example(draw_case(3, 3, 0, 1, True, 2172), 0, 0, 1)  # conditions that are no ranges, and many members
def test_longest(case: Case, side: int, of: int, in_sets: int) -> None:
    """For a row of one side, whatever members ask of the other; members are tried or looked up in sets."""
    shape, members, pairs, _ = case
    dims = [d for d, of_side in enumerate(shape.dim_sides) if of_side == side]
    words = [w for w, of_side in enumerate(shape.word_sides) if of_side == side]
    expected = []
    for pair in pairs:
        leaves, set_bits = {d: pair.leaves[d] for d in dims}, {w: pair.words[w] for w in words}
        expected.append(max((m.windows[of] for m in members if m.fits(leaves, set_bits)), default=0))
    _, _, all_leaves, all_words = shape.arrays(pairs, False)
    with mock.patch.object(query_index, "MIN_IN_SETS", in_sets):
        found = shape.index(members).longest(side, of, all_leaves[dims], all_words[words])
    assert found.tolist() == expected


@examples
@given(st.lists(st.tuples(WINDOWS, WINDOWS), max_size=9), st.lists(st.integers(0, 8)), st.integers(0, 1))
def test_histogram_of_a_plain_index(both: list[tuple[int, int]], ages: list[int], probed: int) -> None:
    """A kernel that finds the slice of a pair counts it by adding to the histogram."""
    members = [Member(pair, (), ()) for pair in both]
    index = Shape((), (), ()).index(members)
    assert index.is_plain
    slices, histogram = index.slices[probed], index.histogram(probed)
    assert slices.ends.tolist() == sorted({pair[probed] for pair in both})
    for age in ages:
        histogram[slice_of(np.int64(age), *slices)] += 1
    index.count(1 - probed, *Shape((), (), ()).arrays([Pair(1 - probed, 5, 0, (), ())], False))
    expected = [sum(pair[probed] > age for age in ages) + (pair[1 - probed] > 5) for pair in both]
    assert index.settle().tolist() == expected
    assert not histogram.any()


@st.composite
def spread_windows(draw: st.DrawFn) -> list[int]:
    """Evenly spaced, far apart, crowded, or all of it."""
    found: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        scale = 1 << draw(st.integers(0, 62))
        number = draw(st.integers(1, 40))
        if draw(st.booleans()):
            found += [min(scale * k, UNBOUNDED) for k in range(1, number + 1)]
        else:
            found += draw(st.lists(st.integers(1, min(64 * scale, UNBOUNDED)), max_size=number))
    return found + draw(st.sampled_from([[], [UNBOUNDED]]))


@examples
@given(spread_windows(), st.lists(st.integers(0, UNBOUNDED), max_size=5))
@example([], [0, UNBOUNDED])
@example([*range(1, 1001), *range(10**9, 10**9 + 50), UNBOUNDED], [2**40])
def test_slice_of(drawn: list[int], ages: list[int]) -> None:
    slices = build_slices(np.array(drawn, np.int64))
    ends = slices.ends.tolist()
    assert ends == sorted(set(drawn))
    assert len(slices.first) <= MAX_BUCKETS
    near = [end + step for end in ends[:: max(1, len(ends) // 20)] for step in (-1, 0, 1)]
    for age in [0, *ages, *(age for age in near if age <= UNBOUNDED)]:
        expected = sum(end <= age for end in ends)
        assert slice_of(np.int64(age), *slices) == expected
        for low in {0, expected // 2, expected}:
            assert search_crowd(np.int64(age), slices.ends, np.int64(low)) == expected


@given(st.integers(1, 10**9), st.integers(1, 200), st.sampled_from([[], [UNBOUNDED]]))
def test_evenly_spaced_windows_need_no_search(gap: int, number: int, more: list[int]) -> None:
    slices = build_slices(np.array([gap * k for k in range(1, number + 1)] + more, np.int64))
    assert bool(np.all(slices.first >= 0))
    assert len(slices.first) <= 2 * number + 2


@given(st.integers(1, 70), st.data())
def test_nodes_of(leaves: int, data: st.DataObject) -> None:
    """The path of a leaf meets one of the nodes if the leaf is in the interval, none otherwise."""
    low, high = data.draw(st.integers(0, leaves - 1)), data.draw(st.integers(-1, leaves - 1))
    nodes = np.zeros(kernels.MAX_PLACES, np.int64)
    count = kernels.nodes_of(low, high, leaves, nodes)
    for leaf in range(leaves):
        path = {(leaves + leaf) >> level for level in range(8)}
        assert sum(node in path for node in nodes[:count].tolist()) == (low <= leaf <= high)


def test_nodes_of_a_large_tree() -> None:
    """The nodes of no interval are more than there is room for."""
    leaves = 2**31 - 1
    nodes = np.zeros(kernels.MAX_PLACES, np.int64)
    for step in range(1, 40):
        assert kernels.nodes_of(step, leaves - 1 - step, leaves, nodes) <= len(nodes)


@pytest.mark.twin("query_index.sort_by_member")
@examples
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=30), st.integers(7, 9))
def test_split_by_member(entries: list[tuple[int, int]], size: int) -> None:
    members, pairs = (np.array([entry[i] for entry in entries], np.int32) for i in (0, 1))
    ids, starts, positions = split_by_member(members, pairs, size)
    assert ids.tolist() == sorted({member for member, _ in entries})
    assert len(starts) == len(ids) + 1
    for i, member in enumerate(ids.tolist()):
        expected = [pair for of, pair in entries if of == member]
        assert positions[starts[i] : starts[i + 1]].tolist() == expected


def many(size: int, leaf_counts: tuple[int, ...], seed: int) -> tuple[QueryIndex, tuple[NDArray, ...]]:
    """An index of random members, one word on the left, and what it was made of."""
    random = np.random.default_rng(seed)
    limits = random.choice(np.concatenate([random.integers(1, 10**6, size), [50, 60]]), (2, size))
    ends = np.sort(random.integers(0, leaf_counts, (2, size, len(leaf_counts))), axis=0).astype(np.int32)
    low, high = ends
    is_open = random.random(low.shape) < 0.5
    low[is_open] = 0
    high[is_open] = np.broadcast_to(np.array(leaf_counts, np.int32) - 1, high.shape)[is_open]
    bits = random.choice([0, 0, 1, 2], (size, 1))
    sides = [d % 2 for d in range(len(leaf_counts))]
    return QueryIndex(limits, low, high, bits, leaf_counts, sides, [0]), (limits, low, high, bits)


@pytest.mark.twin("query_index.report_pairs", "query_index.report_each_member")
def test_many_members() -> None:
    """Hundreds of members, so that lists, trees and the order of fits are long, against whole arrays."""
    size, number = (700, 300) if JIT else (80, 25)
    leaf_counts = (40, 97, 3)
    index, (limits, low, high, bits) = many(size, leaf_counts, 1)
    index._check()
    random = np.random.default_rng(2)
    leaves = random.integers(0, np.array(leaf_counts)[:, None], (3, number)).astype(np.int32)
    words = random.integers(0, 4, (1, number))
    age = random.integers(0, 10**6, number)
    own_age = np.where(random.random(number) < 0.5, 0, random.integers(0, 10**6, number))
    probed = random.integers(0, 2, number)
    inside = (low.T[:, :, None] <= leaves[:, None]) & (leaves[:, None] <= high.T[:, :, None])
    has_bits = (words[0] & bits) == bits
    longer = (age < limits[probed].T) & (own_age < limits[1 - probed].T)
    belongs = inside.all(axis=0) & has_bits & longer
    for side in (0, 1):
        of_side = probed == side
        index.count(side, age[of_side], own_age[of_side], leaves[:, of_side], words[:, of_side])
    assert index.settle().tolist() == belongs.sum(axis=1).tolist()
    for way in (index.report, index.report_each):
        out_member, out_pair = np.empty(belongs.size, np.int32), np.empty(belongs.size, np.int32)
        count, following = way(probed, age, own_age, leaves, words, 0, out_member, out_pair)
        assert following == number
        found = np.zeros_like(belongs)
        found[out_member[:count], out_pair[:count]] = True
        assert count == belongs.sum() and np.array_equal(found, belongs)
    served = inside[[0, 2]].all(axis=0) & has_bits
    expected = np.where(served, limits[1][:, None], 0).max(axis=0)
    assert index.longest(0, 1, leaves[[0, 2]], words).tolist() == expected.tolist()
    expected = np.where(inside[1], limits[0][:, None], 0).max(axis=0)
    assert index.longest(1, 0, leaves[[1]], words[:0]).tolist() == expected.tolist()


def time_per_pair(size: int, has_two: bool) -> float:
    """Seconds to find the member or two that a pair belongs to, among `size` with windows and thresholds.

    One threshold: intervals of one leaf. Two: v >= i and w >= size - i, and pairs of which v + w is size + 1.
    """
    numbers, number = np.arange(size), 2_000
    windows = np.tile(np.linspace(500, 1_000, size).astype(np.int64), (2, 1))
    low, high = numbers[:, None] + 1, numbers[:, None] + 1
    first = np.random.default_rng(1).integers(1, size, number)
    leaves = first[None]
    if has_two:
        low, high = np.stack([numbers, size - numbers], axis=1), np.full((size, 2), size)
        leaves = np.stack([first, size + 1 - first])
    counts = (size + 2,) * low.shape[1]
    index = QueryIndex(windows, low, high, np.zeros((size, 0), np.int64), counts, range(low.shape[1]), [])
    pairs = np.zeros(number, np.uint8), np.full(number, 9), None, leaves, np.empty((0, number), np.int64)
    out_member, out_pair = np.empty(8 * number, np.int32), np.empty(8 * number, np.int32)
    best = np.inf
    for _ in range(9):
        started = time.perf_counter()
        count, following = index.report(*pairs, 0, out_member, out_pair)
        best = min(best, time.perf_counter() - started)
        assert following == number and number <= count <= 2 * number
    return best / number


@pytest.mark.skipif(not JIT, reason="times compiled kernels; without the compiler there are none")
@pytest.mark.parametrize(("has_two", "most"), [(False, 4), (True, 9)])
def test_the_time_grows_with_the_answer(has_two: bool, most: float) -> None:
    """Sixteen times as many members, of which a pair belongs to as many as before."""
    assert time_per_pair(4_096, has_two) < most * time_per_pair(256, has_two)


@pytest.mark.skipif(not JIT, reason="times compiled kernels; without the compiler there are none")
def test_build_time() -> None:
    """Printed, not asserted: the index is built anew whenever a query comes or goes."""
    for size in (1000, 10_000):
        many(size, (size, 50), 3)
        started = time.perf_counter()
        many(size, (size, 50), 3)
        print(f"{size} members: {1000 * (time.perf_counter() - started):.1f} ms")


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    """The same tests on plain Python kernels."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
