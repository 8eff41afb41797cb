"""Entries by the time they are due: the arrays of kernels/expiry.py and their growth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .kernels.expiry import HEAD, HEAP, NEVER, RING

MIN_ENTRIES = 256


class ExpiryQueue:
    """Kernels push and pop; `arrays` is what they take: ring ets, ring id, heap ets, heap id, meta."""

    def __init__(self) -> None:
        self._ring = [np.empty(MIN_ENTRIES, np.int64) for _ in range(2)]
        self._heap = [np.empty(MIN_ENTRIES, np.int64) for _ in range(2)]
        self.meta = np.zeros(3, np.int64)

    @property
    def arrays(self) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
        return (*self._ring, *self._heap, self.meta)  # type: ignore[return-value]

    def __len__(self) -> int:
        return int(self.meta[RING] + self.meta[HEAP])

    @property
    def first(self) -> int:
        """When the earliest entry is due; NEVER if there is none."""
        due = int(self._ring[0][self.meta[HEAD]]) if self.meta[RING] else NEVER
        return min(due, int(self._heap[0][0])) if self.meta[HEAP] else due

    def reserve(self, entries: int) -> None:
        """Make room for so many more."""
        size, count = len(self._ring[0]), int(self.meta[RING])
        if count + entries > size:
            while count + entries > size:
                size *= 2
            at = (int(self.meta[HEAD]) + np.arange(count)) & (len(self._ring[0]) - 1)
            for number, old in enumerate(self._ring):
                self._ring[number] = np.empty(size, np.int64)
                self._ring[number][:count] = old[at]
            self.meta[HEAD] = 0
        count = int(self.meta[HEAP])
        if count + entries > len(self._heap[0]):
            for number, old in enumerate(self._heap):
                self._heap[number] = np.empty(2 * (count + entries), np.int64)
                self._heap[number][:count] = old[:count]

    def entries(self) -> tuple[NDArray, NDArray]:
        """Times and ids of all entries, in no order."""
        at = (int(self.meta[HEAD]) + np.arange(int(self.meta[RING]))) & (len(self._ring[0]) - 1)
        count = int(self.meta[HEAP])
        times = np.concatenate([self._ring[0][at], self._heap[0][:count]])
        return times, np.concatenate([self._ring[1][at], self._heap[1][:count]])

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays)

    def _check(self) -> None:
        count = int(self.meta[HEAP])
        heap = self._heap[0][:count]
        if count > 1:
            assert bool(np.all(heap[(np.arange(1, count) - 1) >> 1] <= heap[1:])), "the heap is out of order"
        times, _ = self.entries()
        ring = times[: int(self.meta[RING])]
        assert bool(np.all(ring[1:] >= ring[:-1])), "the ring is out of order"
