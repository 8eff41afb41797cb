"""The times of numbered rows, as they came.

Rows [tail, end) are kept. The times of a batch stay the array they are, nothing is copied; only small ones
are put together, so that there are few arrays to look through.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import FAR, expect, rising

SMALL_ROWS = 4_096


class RowTimes:
    """Asked for the row that a time comes before."""

    def __init__(self) -> None:
        self.tail = self.end = 0
        self._parts: list[NDArray] = []
        self._lasts: list[int] = []
        """The last time of each part."""
        self._ends: list[int] = []
        """The number of the row after each part."""

    def __len__(self) -> int:
        return self.end - self.tail

    def append(self, ts: NDArray) -> None:
        """Add rows at the end, none older than those there."""
        self.end += len(ts)
        if self._parts and len(self._parts[-1]) + len(ts) <= SMALL_ROWS:
            ts = np.concatenate([self._parts.pop(), ts])
            self._lasts.pop()
            self._ends.pop()
        self._parts.append(ts)
        self._lasts.append(int(ts[-1]))
        self._ends.append(self.end)

    def until(self, ts: int) -> int:
        """The number of the first row that is later than a time, or of the row to come."""
        place = bisect_left(self._lasts, ts + 1)
        if place == len(self._parts):
            return self.end
        part = self._parts[place]
        return max(self.tail, self._ends[place] - len(part) + int(part.searchsorted(ts, side="right")))

    def at(self, row: int) -> int:
        """The time of a row that is kept."""
        place = bisect_left(self._ends, row + 1)
        return int(self._parts[place][row - self._ends[place]])

    def drop(self, row: int) -> None:
        """Forget the rows below `row`."""
        self.tail = min(max(self.tail, row), self.end)
        gone = bisect_left(self._ends, self.tail + 1)
        if gone:
            del self._parts[:gone], self._lasts[:gone], self._ends[:gone]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def _check(self) -> None:
        assert self.tail <= self.end, "rows before the first"
        times = np.concatenate([np.empty(0, np.int64), *self._parts])
        assert bool((times[1:] >= times[:-1]).all()), "rows out of time order"
        assert len(times) >= len(self), "rows without times"
        assert self._lasts == [int(part[-1]) for part in self._parts], "another last time"
        ends = (self.end - len(times) + np.cumsum([len(part) for part in self._parts])).tolist()
        assert self._ends == ends, "another number"

    def _check_restored(self) -> None:
        expect(0 <= self.tail <= self.end < FAR and all(map(len, self._parts)), "rows with times")
        for part in self._parts:
            rising(part, "times")
        rising(np.array([time for part in self._parts for time in part[[0, -1]]], np.int64), "times")
        lengths = list(map(len, self._parts))
        expect(sum(lengths) >= len(self), "times of all rows")
        self._lasts = [int(part[-1]) for part in self._parts]
        self._ends = (self.end - sum(lengths) + np.cumsum(lengths, dtype=np.int64)).tolist()
