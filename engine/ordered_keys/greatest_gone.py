"""Of each cell of a join, the greatest key of rows of one side that are not there any more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, same_length


class GreatestGone:
    """By the number of a cell (frontiers.py)."""

    def __init__(self) -> None:
        self.codes: NDArray = np.zeros(1, np.int64)
        self.known: NDArray = np.zeros(1, np.uint8)
        """Whether a row of the cell has gone."""

    def note(self, cells: NDArray, codes: NDArray) -> None:
        """Rows of these cells and with these keys have gone."""
        if not len(codes):
            return
        self.make_room(int(cells.max()) + 1)
        fresh = cells[self.known[cells] == 0]
        self.codes[fresh], self.known[fresh] = np.iinfo(np.int64).min, 1
        np.maximum.at(self.codes, cells, codes)

    def make_room(self, cells: int) -> None:
        """For so many cells."""
        known = len(self.codes)
        if cells > known:
            room = max(cells, 2 * known)
            codes, has = np.zeros(room, np.int64), np.zeros(room, np.uint8)
            codes[:known], has[:known] = self.codes, self.known
            self.codes, self.known = codes, has

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.known.nbytes)

    def _check_restored(self) -> None:
        same_length("cells", self.codes, self.known)
        expect(len(self.codes) > 0 and self.codes.dtype == np.int64, "keys by cell")
        expect(self.known.dtype == np.uint8, "which cells have lost rows")
