"""Results of many queries counted at the same cost as those of one.

Who takes a pair is decided by its age and by the leaves of its two rows (see lineage.py). Where these are
few, every combination has a counter of its own, and counting a pair is adding 1 to one of them, whatever the
number of members that take it. A member's count is the sum over a box of counters, taken when somebody asks.

    slices of age  ->
    leaf 0   . . . . . .
    leaf 1   . # # # . .      a member: leaves 1 to 2, ages below its window
    leaf 2   . # # # . .
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.cells import settle_cells, settle_rows
from penstock.engine.kernels.joins.slices import Slices, slices_of
from penstock.engine.restoring.in_order import expect, within

MAX_CELLS = 1 << 23  # of 4 bytes
MAX_PAIRS = 1 << 30  # counted between two settles: no counter, and no sum of counters, is ever full


class CellCounts:
    """Counters for members with windows int64[2, M] and, on each side, an interval of leaves."""

    def __init__(
        self,
        windows: NDArray,
        low: NDArray,
        high: NDArray,
        leaf_counts: Sequence[int],
        former: CellCounts | None = None,
        slices: tuple[Slices, Slices] | None = None,
    ) -> None:
        """low, high: int32[2, M]; leaf_counts: of left and right, 1 where nothing is asked of a side.

        The memory of `former`, which is settled and done with, is used again. slices: of the windows.
        """
        self._low = np.maximum(low, 0)
        self._high = np.minimum(high, np.array(leaf_counts, np.int32)[:, None] - 1)
        # Where every member's two windows are alike, either side's ages count in the same cells.
        alike = bool((windows[0] == windows[1]).all())
        self.slices = slices_of(windows) if slices is None else slices
        self._ranks = [
            np.searchsorted(one.ends, of_side) for one, of_side in zip(self.slices, windows, strict=True)
        ]
        memory = [] if former is None else list({id(one): one for one in former._memory}.values())
        self._memory: list[NDArray] = []
        self._cells: list[NDArray] = []
        for probed, of_probed in enumerate(self.slices):
            if probed and alike:
                self._memory.append(self._memory[0])
                self._cells.append(self._cells[0])
                break
            shape = (*leaf_counts, len(of_probed.ends) + 1)
            size = math.prod(shape)
            room = next((one for one in memory if len(one) >= size), None)
            room = np.zeros(size + size // 8, np.int32) if room is None else room
            memory = [one for one in memory if one is not room]
            self._memory.append(room)
            self._cells.append(room[:size].reshape(shape))
        self._is_touched = [False, False]

    @staticmethod
    def fit(slices: tuple[Slices, Slices], leaf_counts: Sequence[int]) -> bool:
        """Whether there are few enough combinations."""
        ends = max(len(one.ends) for one in slices)
        return leaf_counts[0] * leaf_counts[1] * (ends + 1) <= MAX_CELLS

    def strides(self, probed: int) -> tuple[int, int]:
        """By how much the flat place of a counter grows with the leaf of the left and of the right."""
        _, rights, slices = self._cells[probed].shape
        return rights * slices, slices

    def flat(self, probed: int) -> NDArray:
        """The counters of pairs whose older row is on side `probed`, to be added to: MAX_PAIRS in all."""
        self._is_touched[probed] = True
        return self._cells[probed].reshape(-1)

    def settle(self) -> NDArray:
        """Pairs counted since the last settle, int64 by member; clears them."""
        counts = np.zeros(self._low.shape[1], np.int64)
        if self._cells[0] is self._cells[1]:
            self._is_touched = [any(self._is_touched), False]
        for probed in (0, 1):
            if self._is_touched[probed]:
                self._settle(self._cells[probed], self._ranks[probed], counts)
                self._is_touched[probed] = False
        return counts

    def _settle(self, cells: NDArray, ranks: NDArray, counts: NDArray) -> None:
        """Add to the members' counts what these cells hold, and clear them."""
        lefts, rights, slices = cells.shape
        if lefts > 1 and rights > 1:
            settle_cells(cells, self._low, self._high, ranks, counts)
            return
        side = 1 if lefts == 1 else 0
        low, high = self._low[side], self._high[side]
        some = np.flatnonzero((self._low <= self._high).all(axis=0))
        by_low, by_high = (some[np.argsort(edge[some], kind="stable")] for edge in (low, high))
        settle_rows(cells.reshape(lefts * rights, slices), low, by_low, high, by_high, ranks, counts)

    def _check_restored(self) -> None:
        expect(len(self._cells) == len(self._ranks) == len(self._is_touched) == 2, "counters of both sides")
        expect(self._cells[0].ndim == self._cells[1].ndim == 3, "counters by leaves and slices")
        expect(self._cells[0].shape[:2] == self._cells[1].shape[:2], "counters of the same leaves")
        numbers = self._low, self._high, *self._ranks
        expect(all(isinstance(one, np.ndarray) and one.dtype.kind == "i" for one in numbers), "numbers")
        expect(all(one.dtype == np.int32 for one in self._cells), "counters")
        members = self._low.shape[1]
        expect(self._low.shape == self._high.shape == (2, members), "leaves of members")
        for side, (cells, one, ranks) in enumerate(zip(self._cells, self.slices, self._ranks, strict=True)):
            expect(cells.shape[2] == len(one.ends) + 1 and len(ranks) == members, "counters of all slices")
            within(ranks, 0, len(one.ends), "slices of members")
            within(self._low[side], 0, 1 << 31, "leaves")
            within(self._high[side], -1, self._cells[0].shape[side], "leaves")
        for cells in self._cells:
            expect(bool((cells >= 0).all()), "counts")
        self._take_memory()

    def _take_memory(self) -> None:
        """Count in memory that nobody else has; both sides in the same cells if they did."""
        first, second = self._cells
        own = first.copy()
        self._cells = [own, own if second is first else second.copy()]
        self._memory = [one.reshape(-1) for one in self._cells]
