"""Pairs of a chain that are only counted: how many there are of each age.

    slices     |-----|-----|-----------------|
    windows    2     4     7     9           13      of members
    counters   |  0  |  1  |  2  |  3  |  4   |      a member's count is the sum of those below its window

A slice adds to them where everybody who takes its pairs counts them, and takes all that are younger than its
window. Members are told when somebody asks, and before any of them comes, goes or changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.kernels.joins.slices import build_slices
from penstock.engine.members.member import Member
from penstock.engine.restoring.in_order import expect, within


class SliceCounts:
    """Counters between the ends of slices and windows."""

    _owned: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(self) -> None:
        self.has_pairs = False
        """Whether members that count may have been given pairs to test."""
        self.renew(np.ones(1, np.int64), (), np.empty(0, np.int64))

    def renew(self, ends: NDArray, takers: Sequence[tuple[Member, Counters]], windows: NDArray) -> None:
        """Begin anew for these members, who count what is younger than their windows (int64 each).

        ends: int64, sorted, all of the windows and of the slices' ends.
        """
        self.slices = build_slices(ends)
        self.counts: NDArray = np.zeros(len(ends) + 1, np.int64)
        self._takers = tuple(takers)
        self._places = ends.searchsorted(windows)

    def place(self, start: int) -> int:
        """The counter of the youngest pairs of a slice."""
        return int(self.slices.ends.searchsorted(start, side="right"))

    def take(self) -> None:
        """Tell the members."""
        if self.counts.any():
            found = self.counts.cumsum()[self._places].tolist()
            self.counts[:] = 0
            for (member, counters), pairs in zip(self._takers, found, strict=True):
                member.found += pairs
                counters.took(pairs)
                counters.gave(pairs)

    def _check(self) -> None:
        assert bool((self.counts >= 0).all()), "fewer than no pairs"
        assert len(self.counts) == len(self.slices.ends) + 1, "counters and ends differ in number"

    def _check_restored(self) -> None:
        expect(len(self.counts) == len(self.slices.ends) + 1, "a counter for each slice")
        expect(len(self._places) == len(self._takers), "a place for each member")
        within(self._places, 0, len(self.counts), "places of counters")
