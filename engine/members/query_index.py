"""Which members a pair of a shared window join belongs to, in time that grows with the answer.

A member is one query of many: a window on each side, an interval of leaves in each dimension (a column that
is compared with constants, cut into the ranges between them), a mask of bits in each word (other predicates,
one bit each). A pair belongs to it if the older row's age is below the window on that row's side, that of the
prober below the window on its side, every leaf is in its interval and every bit is set.

Kept: each member in one place (see kernels/joins/query_index.py), and counters of pairs not settled yet. The
filing never changes: when a member comes or goes, settle and build anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.query_index import (
    DIMENSION,
    FIRST_LEAF,
    FIRST_PLACE,
    LEAVES,
    NOWHERE,
    PLAIN,
    Filing,
    Members,
    choose_dimensions,
    count_pairs,
    count_plain,
    drop_implied,
    file_members,
    fill_sets,
    first_by_leaf,
    fit_first,
    lay_out,
    report_each_member,
    report_pairs,
    settle_hits,
    settle_plain,
    sort_by_member,
)
from penstock.engine.kernels.joins.slices import Slices, slices_of
from penstock.engine.restoring.in_order import expect, within

from .member_sets import MAX_SET_BITS, MemberSets

MOST_LEAVES = 1 << 22
NO_AGES = np.empty(0, np.int64)
MIN_IN_SETS = 64  # members that are looked up in sets; fewer are tried
MIN_CHECKS = 10  # of members per pair, and one more for each 64 members, from which on sets are faster


class Fits(NamedTuple):
    """The constraints on one side, in the order in which a row tries them.

    windows   int64[K], descending, and a last 0 for rows that fit nobody
    low, high int32[K, Ds]; bits int64[K, Ws]
    first     int64, for each dimension by leaf: the first member whose interval contains the leaf
    bases     int64[Ds]: where a dimension begins in `first`
    by_leaf   int64 by leaf: the answer, if one dimension is all there is
    sets      uint64[places of `first`, words]: all members whose interval contains the leaf, if that pays
    """

    windows: NDArray
    low: NDArray
    high: NDArray
    bits: NDArray
    first: NDArray
    bases: NDArray
    by_leaf: NDArray | None
    sets: NDArray


class QueryIndex:
    """M members over D dimensions and W words, filed for counting and reporting pairs.

    windows: int64[2, M] > 0, left and right, 2**63-1 for unbounded; low, high: int32[M, D], an interval is
    empty if low is above high; bits: int64[M, W]. A dimension has leaves 0 .. leaf_counts[d] - 1. Sides of
    dimensions and words are 0 (left) or 1.
    """

    _owned: ClassVar[tuple[str, ...]] = ("_counts", "_hits", "_histograms")

    def __init__(
        self,
        windows: NDArray,
        low: NDArray,
        high: NDArray,
        bits: NDArray,
        leaf_counts: Sequence[int],
        dim_sides: Sequence[int],
        word_sides: Sequence[int],
    ) -> None:
        members, dims, words = windows.shape[1], len(leaf_counts), len(word_sides)
        assert windows.shape == (2, members), f"expected windows of two sides, found {windows.shape}"
        assert low.shape == high.shape == (members, dims), f"expected {members} x {dims}, found {low.shape}"
        assert bits.shape == (members, words), f"expected {members} x {words} masks, found {bits.shape}"
        assert len(dim_sides) == dims, f"expected sides of {dims} dimensions, found {len(dim_sides)}"
        assert not members or windows.min() > 0, f"expected windows above 0, found {windows.min()}"
        assert all(count > 0 for count in leaf_counts), f"expected leaves everywhere, found {leaf_counts}"
        self._leaf_counts = np.array(leaf_counts, np.int64)
        self._dim_sides = np.array(dim_sides, np.int64)
        self._word_sides = np.array(word_sides, np.int64)
        self._members = Members(
            np.ascontiguousarray(windows, np.int64),
            np.ascontiguousarray(np.maximum(low, 0), np.int32),
            np.ascontiguousarray(np.minimum(high, self._leaf_counts - 1), np.int32),
            np.ascontiguousarray(bits, np.int64),
        )
        self._slices = slices_of(self._members.windows)
        self._ranks = tuple(
            np.searchsorted(slices.ends, of_side)
            for slices, of_side in zip(self._slices, self._members.windows, strict=True)
        )
        self._shortest = self._members.windows.min(axis=1, initial=np.iinfo(np.int64).max).tolist()
        self._fits: dict[tuple[int, int], Fits] = {}
        self._is_filed = False
        self._histograms = tuple(np.zeros(len(slices.ends) + 1, np.int64) for slices in self._slices)
        self._counts = np.zeros(members, np.int64)

    def _file(self) -> None:
        """Choose each member's place and fill the lists; when the first pair is asked about."""
        if self._is_filed:
            return
        self._is_filed = True
        members = self._members
        size = members.windows.shape[1]
        self._tree = np.empty(size, np.int64)
        self._checked = np.empty(size, np.uint8)
        choose_dimensions(members, self._leaf_counts, self._tree, self._checked)
        dimensions = np.unique(self._tree[self._tree >= 0])
        leaves = self._leaf_counts[dimensions]
        trees = np.zeros((len(dimensions), 4), np.int64)
        trees[:, DIMENSION] = dimensions
        trees[:, LEAVES] = leaves
        trees[:, FIRST_PLACE] = np.cumsum(2 * leaves) - 2 * leaves  # node 0 is no node: place 0 stays free
        trees[:, FIRST_LEAF] = np.cumsum(leaves) - leaves
        in_tree = self._tree >= 0
        self._tree[in_tree] = np.searchsorted(dimensions, self._tree[in_tree])
        starts = np.zeros(2 * max(1, 2 * int(leaves.sum())) + 1, np.int64)
        lay_out(members, self._tree, self._checked, trees, starts)
        entries = 2 * int(starts[-1])
        self._filing = Filing(
            trees, starts, np.empty(entries, np.int32), np.empty(entries, np.int64),
            np.zeros(2 * int(leaves.sum()), np.int64), np.zeros(2, np.int64),
        )  # fmt: skip
        for side in range(2):
            order = np.argsort(-members.windows[side], kind="stable")
            file_members(members, self._tree, self._checked, side, order, self._filing)
        self._counts_by_slice = not len(trees) and not self._checked.any()
        self._sets = self._as_sets()
        self._hits = np.zeros(len(self._filing.entries), np.int64)

    def _as_sets(self) -> MemberSets | None:
        """The members as sets, where checking one after the other would take longer."""
        members, checked = self._members, np.flatnonzero((self._checked != 0) & (self._tree >= 0))
        if members.bits.any() or not len(checked):
            return None
        dimension = self._filing.trees[self._tree[checked], DIMENSION]
        covered = members.high[checked, dimension] - members.low[checked, dimension] + 1.0
        checks = float((covered / self._leaf_counts[dimension]).sum())
        size = members.windows.shape[1]
        if checks < MIN_CHECKS + size // 64 or not MemberSets.fit(size, self._leaf_counts, self._slices):
            return None
        return MemberSets(members, self._leaf_counts, self._slices, self._ranks)

    @property
    def is_plain(self) -> bool:
        """Whether the age alone decides: no dimension and no word."""
        return not len(self._leaf_counts) and not len(self._word_sides)

    @property
    def slices(self) -> tuple[Slices, Slices]:
        """The slices of the distinct windows on either side."""
        return self._slices

    def histogram(self, probed: int) -> NDArray:
        """Pairs by slice (int64, one more than ends) whose older row is on side `probed`.

        The same array for the life of the index, cleared by settle. If is_plain, a kernel may add to it.
        """
        return self._histograms[probed]

    def count(
        self, probed: int, age: NDArray, own_age: NDArray | None, leaves: NDArray, words: NDArray
    ) -> None:
        """Count pairs of which the older row is on side `probed` for the members they belong to.

        age: int64[n] of the older rows; own_age: int64[n] of the probers, None if all are 0;
        leaves: int32[D, n]; words: int64[W, n].
        """
        self._file()
        pairs = self._pairs(age, own_age, leaves, words)
        if self._counts_by_slice and own_age is None:
            count_plain(pairs[0], self._slices[probed], self._histograms[probed])
            return
        if self._sets is not None and own_age is None:
            self._sets.count(probed, pairs[0], pairs[2], self._counts)
            return
        count_pairs(
            probed, *pairs, self._members, self._shortest[1 - probed], self._slices[probed], self._filing,
            self._histograms[probed], self._hits, self._counts,
        )  # fmt: skip

    def settle(self) -> NDArray:
        """Pairs counted since the last settle, int64 by member; clears them."""
        self._file()
        for rank, histogram in zip(self._ranks, self._histograms, strict=True):
            settle_plain(self._tree, self._checked, rank, histogram, self._counts)
        settle_hits(self._filing, self._hits, self._counts)
        counts, self._counts = self._counts, np.zeros_like(self._counts)
        return counts

    def report(
        self,
        probed: NDArray,
        age: NDArray,
        own_age: NDArray | None,
        leaves: NDArray,
        words: NDArray,
        start: int,
        out_member: NDArray,
        out_pair: NDArray,
    ) -> tuple[int, int]:
        """Write one entry (int32, int32) for each member of each pair from `start` on, in order of pairs.

        probed: 0 or 1 by pair; the rest as for count. Returns (entries written, next pair): it stops before a
        pair whose entries do not fit. Room for all members is enough for a pair.
        """
        self._file()
        pairs = self._pairs(age, own_age, leaves, words)
        sides = np.ascontiguousarray(probed, np.uint8)
        if self._sets is not None and own_age is None:
            count, pair = self._sets.report(sides, pairs[0], pairs[2], start, out_member, out_pair)
        else:
            count, pair = report_pairs(
                sides, *pairs, self._members, self._filing, start, out_member, out_pair
            )
        return int(count), int(pair)

    def report_each(
        self,
        probed: NDArray,
        age: NDArray,
        own_age: NDArray | None,
        leaves: NDArray,
        words: NDArray,
        start: int,
        out_member: NDArray,
        out_pair: NDArray,
    ) -> tuple[int, int]:
        """What report writes, found by testing every member for every pair; members in ascending order."""
        pairs = self._pairs(age, own_age, leaves, words)
        sides = np.ascontiguousarray(probed, np.uint8)
        count, pair = report_each_member(sides, *pairs, self._members, start, out_member, out_pair)
        return int(count), int(pair)

    def longest(self, side: int, of: int, leaves: NDArray, words: NDArray) -> NDArray:
        """For rows of `side` the greatest window on side `of` among the members they may serve, 0 if none.

        leaves: int32[Ds, n], words: int64[Ws, n], of the dimensions and words of that side in their order.
        What members ask of the other side does not count. Returns int64[n], owned by the caller.
        """
        if (side, of) not in self._fits:
            self._fits[side, of] = self._order_fits(side, of)
        fits = self._fits[side, of]
        assert len(leaves) == fits.low.shape[1], (
            f"expected {fits.low.shape[1]} dimensions, found {len(leaves)}"
        )
        assert len(words) == fits.bits.shape[1], f"expected {fits.bits.shape[1]} words, found {len(words)}"
        out = np.empty(leaves.shape[1], np.int64)
        if fits.by_leaf is not None:
            fits.by_leaf.take(leaves[0], out=out, mode="clip")
        elif not len(leaves) and not len(words):
            out[:] = fits.windows[0]
        else:
            leaves, words = np.ascontiguousarray(leaves, np.int32), np.ascontiguousarray(words, np.int64)
            fit_first(
                leaves, words, fits.windows, fits.low, fits.high, fits.bits, fits.first, fits.bases,
                fits.sets, out,
            )  # fmt: skip
        return out

    def _order_fits(self, side: int, of: int) -> Fits:
        """The members with the longest windows first, without those that are never the first to fit."""
        members = self._members
        dims, words = np.flatnonzero(self._dim_sides == side), np.flatnonzero(self._word_sides == side)
        order = np.argsort(-members.windows[of], kind="stable")
        low, high = members.low[np.ix_(order, dims)], members.high[np.ix_(order, dims)]
        bits = members.bits[np.ix_(order, words)]
        keep = np.empty(len(order), np.int64)
        keep = keep[: drop_implied(low, high, bits, keep)]
        low, high, bits = low[keep], high[keep], bits[keep]
        windows = np.append(members.windows[of][order[keep]], 0)
        leaves = self._leaf_counts[dims]
        bases = np.cumsum(leaves) - leaves
        first = np.empty(int(leaves.sum()), np.int64)
        for d, (base, count) in enumerate(zip(bases, leaves, strict=True)):
            first_by_leaf(low[:, d].copy(), high[:, d].copy(), int(count), first[base : base + count])
        by_leaf = windows[first] if len(dims) == 1 and not len(words) else None
        sets = np.empty((len(first), 0), np.uint64)
        pays = len(low) >= MIN_IN_SETS and len(first) * len(low) <= MAX_SET_BITS
        if by_leaf is None and len(dims) and pays:  # without dimensions there is nothing to look up
            sets = np.empty((len(first), (len(low) + 63) // 64), np.uint64)
            for d, (base, count) in enumerate(zip(bases, leaves, strict=True)):
                least, most = low[:, d].copy(), high[:, d].copy()
                fill_sets(least, most, np.argsort(least), np.argsort(most), sets[base : base + count])
        return Fits(windows, low, high, bits, first, bases, by_leaf, sets)

    def _pairs(
        self, age: NDArray, own_age: NDArray | None, leaves: NDArray, words: NDArray
    ) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """The same as kernels take them: of these shapes, and laid out so that they are compiled once."""
        shape = (len(self._leaf_counts), len(age))
        assert leaves.shape == shape, f"expected leaves {shape}, found {leaves.shape}"
        shape = (len(self._word_sides), len(age))
        assert words.shape == shape, f"expected words {shape}, found {words.shape}"
        own = NO_AGES if own_age is None else np.ascontiguousarray(own_age, np.int64)
        assert own_age is None or len(own) == len(age), f"expected {len(age)} own ages, found {len(own)}"
        return (
            np.ascontiguousarray(age, np.int64),
            own,
            np.ascontiguousarray(leaves, np.int32),
            np.ascontiguousarray(words, np.int64),
        )

    def _check(self) -> None:
        self._file()
        members, filing = self._members, self._filing
        everyone = np.arange(members.windows.shape[1])
        # 1. lists follow one another, each by descending window, with the flag of its members
        assert filing.starts[0] == 0 and bool(np.all(np.diff(filing.starts) >= 0)), "lists overlap"
        assert 2 * filing.starts[-1] == len(filing.entries) == len(filing.windows), "entries without a list"
        for side in range(2):
            base = side * int(filing.starts[-1])
            for number in range(len(filing.starts) - 1):
                part = slice(base + int(filing.starts[number]), base + int(filing.starts[number + 1]))
                entries, windows = filing.entries[part], filing.windows[part]
                assert bool(np.all(np.diff(windows) <= 0)), f"list {number} is not by descending window"
                assert bool(np.all(windows == members.windows[side, entries])), "an entry has a wrong window"
                assert bool(np.all(self._checked[entries] == number % 2)), "an entry is in the wrong list"
            # 2. plain members, and no others, are in the plain list
            plain = filing.entries[base : base + int(filing.starts[2])]
            assert sorted(plain) == everyone[self._tree == PLAIN].tolist(), "the plain list is not complete"
            assert filing.plain[side] == members.windows[side, plain].max(initial=0), "wrong greatest window"
            # 3. from each leaf the path meets exactly those whose interval contains it
            leaf_base = side * (len(filing.longest) // 2)
            for t, tree in enumerate(filing.trees):
                d = tree[DIMENSION]
                for leaf in range(int(tree[LEAVES])):
                    found: list[int] = []
                    node = int(tree[LEAVES]) + leaf
                    while node:
                        number = 2 * (int(tree[FIRST_PLACE]) + node)
                        begin, end = filing.starts[number], filing.starts[number + 2]
                        found += filing.entries[base + begin : base + end].tolist()
                        node //= 2
                    contains = (members.low[:, d] <= leaf) & (leaf <= members.high[:, d])
                    expected = everyone[(self._tree == t) & contains]
                    assert sorted(found) == expected.tolist(), f"leaf {leaf} of dimension {d} misses members"
                    greatest = filing.longest[leaf_base + tree[FIRST_LEAF] + leaf]
                    assert greatest == members.windows[side, expected].max(initial=0), "wrong greatest window"
        is_empty = (members.low > members.high).any(axis=1)
        assert bool(np.all((self._tree == NOWHERE) == is_empty)), "an empty interval is filed"
        # 4. counters
        for counters in (*self._histograms, self._hits, self._counts):
            assert bool(np.all(counters >= 0)), "a negative count"

    def _check_restored(self) -> None:
        """All but the counters is made anew of the members."""
        members, leaves = self._members, self._leaf_counts
        count = members.windows.shape[1]
        expect(len(members.windows) == 2 and len(members.low) == len(members.high) == count, "members")
        expect(members.low.shape[1] == members.high.shape[1] == len(leaves), "intervals of all dimensions")
        expect(members.bits.shape == (count, len(self._word_sides)), "words of all members")
        expect(len(self._dim_sides) == len(leaves), "a side of each dimension")
        within(leaves, 1, MOST_LEAVES, "leaves")
        for sides in (self._dim_sides, self._word_sides):
            within(sides, 0, 2, "sides")
        expect(len(self._histograms) == 2 and len(self._counts) == count, "counters")
        histograms, counts, is_filed = self._histograms, self._counts, self._is_filed
        hits = self._hits if is_filed else counts
        QueryIndex.__init__(
            self, *members, leaves.tolist(), self._dim_sides.tolist(), self._word_sides.tolist()
        )
        for fresh, known in zip(self._histograms, histograms, strict=True):
            expect(len(fresh) == len(known), "counters of all slices")
        self._histograms, self._counts = histograms, counts
        if is_filed:
            self._file()
            expect(len(hits) == len(self._hits), "counters of all entries")
            self._hits = hits
        for counters in (*histograms, counts, hits):
            expect(bool((counters >= 0).all()), "counts")


def split_by_member(members: NDArray, pairs: NDArray, size: int) -> tuple[NDArray, NDArray, NDArray]:
    """The reported pairs of each of `size` members: (ids, starts, positions).

    members, pairs: int32[k] as reported. ids: int64, ascending, the members with pairs; those of ids[i] are
    positions[starts[i]:starts[i + 1]] (int32), in the order given.
    """
    starts = np.empty(size + 1, np.int64)
    positions = np.empty(len(pairs), np.int32)
    sort_by_member(members, pairs, starts, positions)
    ids = np.flatnonzero(np.diff(starts))
    return ids, np.append(starts[ids], len(pairs)), positions
