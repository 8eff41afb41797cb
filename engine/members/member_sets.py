"""Members of a common join as sets of bits, where a pair would be checked for many: none is looked at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.member_sets import MOST_AT_ONCE, count_in_sets, report_from_sets
from penstock.engine.kernels.joins.query_index import Members, fill_sets
from penstock.engine.kernels.joins.slices import Slices

MAX_SET_BITS = 1 << 27  # 16 MB


class MemberSets:
    """For each leaf of each dimension, and for each slice of either side, the members that take it."""

    def __init__(
        self,
        members: Members,
        leaf_counts: NDArray,
        slices: tuple[Slices, Slices],
        ranks: tuple[NDArray, ...],
    ) -> None:
        """ranks: by side, the place of each member's window among the ends of the slices."""
        size = members.windows.shape[1]
        self._slices = slices
        self._bases = np.cumsum(leaf_counts) - leaf_counts
        self._by_leaf = np.empty((int(leaf_counts.sum()), word_count(size)), np.uint64)
        for d, (base, count) in enumerate(zip(self._bases, leaf_counts, strict=True)):
            fill(members.low[:, d], members.high[:, d], self._by_leaf[base : base + count])
        first = np.zeros(size, np.int32)
        left, right = (np.empty((len(one.ends) + 1, word_count(size)), np.uint64) for one in slices)
        self._by_age = left, right
        for rank, out in zip(ranks, self._by_age, strict=True):
            fill(first, rank.astype(np.int32), out)

    @staticmethod
    def fit(members: int, leaf_counts: NDArray, slices: tuple[Slices, Slices]) -> bool:
        """Whether they take little enough memory."""
        sets = int(leaf_counts.sum()) + sum(len(one.ends) + 1 for one in slices)
        return sets * members <= MAX_SET_BITS

    def count(self, probed: int, age: NDArray, leaves: NDArray, counts: NDArray) -> None:
        """Add pairs of which the older row is on side `probed` to the counts (int64) of their members."""
        for start in range(0, len(age), MOST_AT_ONCE):
            part = slice(start, start + MOST_AT_ONCE)
            count_in_sets(
                age[part], np.ascontiguousarray(leaves[:, part]), self._slices[probed], self._by_age[probed],
                self._bases, self._by_leaf, counts,
            )  # fmt: skip

    def report(
        self,
        probed: NDArray,
        age: NDArray,
        leaves: NDArray,
        start: int,
        out_member: NDArray,
        out_pair: NDArray,
    ) -> tuple[int, int]:
        """Write an entry for each member of each pair from `start` on (see QueryIndex.report)."""
        return report_from_sets(
            probed, age, leaves, self._slices, self._by_age, self._bases, self._by_leaf, start,
            out_member, out_pair,
        )  # fmt: skip


def word_count(members: int) -> int:
    """Words of 64 members."""
    return (members + 63) // 64


def fill(low: NDArray, high: NDArray, out: NDArray) -> None:
    """The members whose interval low .. high (int32 each) contains a leaf, by leaf."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    fill_sets(low, high, np.argsort(low, kind="stable"), np.argsort(high, kind="stable"), out)
