"""A growing array addressed by row number, from which the oldest rows are dropped.

    data   [ dropped . . | live . . . . . . | free . . . ]
            base          tail               end           base + len(data)      (row numbers)

Appending is amortised O(1): when the free part is used up, the live rows move into a new array twice the
size they need. They always move into a *new* array, so whoever still holds the old one (a result that has
not been gathered yet) keeps reading the rows it saw. With `slides` they move to the front of the same array
if nobody holds it: fresh memory costs several times what writing to it does.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import FAR, expect

MIN_ROWS = 256
MANY_ROWS = 65_536


class RowBuffer:
    """Rows [tail, end) of one fixed-width column; row r is `data[r - base]`."""

    __slots__ = ("__weakref__", "base", "data", "end", "slides", "tail")

    def __init__(self, dtype: str | np.dtype, first_row: int = 0) -> None:
        self.data: NDArray = np.empty(MIN_ROWS, dtype)
        self.base = self.tail = self.end = first_row
        self.slides = False

    def slide(self) -> None:
        """From now on use the array again where nobody else has it."""
        self.slides = True

    def __len__(self) -> int:
        return self.end - self.tail

    def reserve(self, rows: int) -> None:
        """Make room for `rows` more."""
        if self.end - self.base + rows > len(self.data) and not (self.slides and self._slide(rows)):
            self._move(rows)

    def _slide(self, rows: int) -> bool:
        """Move the live rows to the front, if there is room then and nobody else has any of the array."""
        size = len(self.data)
        if self.data.base is not None:
            return False  # restored: who holds part of it holds the array below it, and is not seen here
        if 2 * len(self) > size or len(self) + rows > size or sys.getrefcount(self.data) > 2:
            return False  # one reference is ours, one that of the call
        self.data[: len(self)] = self.live
        self.base = self.tail
        return True

    def _move(self, rows: int) -> None:
        """Put the live rows into a new array with room for `rows` more, and as many again."""
        live = self.live
        data = np.empty(max(MIN_ROWS, 2 * (len(live) + rows)), self.data.dtype)
        data[: len(live)] = live
        self.data, self.base = data, self.tail

    def append(self, values: NDArray) -> None:
        """Add rows at the end."""
        self.reserve(len(values))
        at = self.end - self.base
        self.data[at : at + len(values)] = values
        self.end += len(values)

    def extend(self, rows: int) -> NDArray:
        """Add rows at the end, to be written by the caller."""
        self.reserve(rows)
        self.end += rows
        return self.run(self.end - rows, self.end)

    def drop(self, row: int) -> None:
        """Forget the rows below `row`."""
        self.tail = min(max(self.tail, row), self.end)
        if len(self.data) > max(MANY_ROWS, 16 * len(self)):  # a burst is over: give its memory back
            self._move(0)

    def fit(self) -> None:
        """Give back the memory in which no row lives; what is added next moves all to a new array."""
        self.data, self.base = self.live.copy(), self.tail

    @property
    def live(self) -> NDArray:
        return self.data[self.tail - self.base : self.end - self.base]

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint only the live rows are a part."""
        return {
            "base": self.tail, "data": self.live, "end": self.end, "slides": self.slides, "tail": self.tail,
        }  # fmt: skip

    def run(self, first: int, end: int) -> NDArray:
        """Rows [first, end), without copying."""
        return self.data[first - self.base : end - self.base]

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    def _check(self) -> None:
        assert self.base <= self.tail <= self.end <= self.base + len(self.data), "rows outside the array"

    def _check_restored(self) -> None:
        expect(0 <= self.base <= self.tail <= self.end < FAR, "rows with numbers")
        expect(self.data.ndim == 1 and self.end - self.base <= len(self.data), "rows inside their array")
        expect(self.data.flags.c_contiguous, "rows without gaps")
