"""When results leave that were passed on, to be told once each (JTT in the incremental-evaluation paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows.times import pop_times, push_times
from penstock.engine.rows.expiry_queue import ExpiryQueue

from .due_times import distinct
from .queue import BEGINNING


class ToldTimes:
    """Times to come, and the last one told."""

    def __init__(self) -> None:
        self._due = ExpiryQueue()
        self._last = BEGINNING

    def add(self, times: NDArray) -> None:
        """Results leave at these times; FOREVER is none. What was told is not told again."""
        times = times[times > self._last]
        self._due.reserve(len(times))
        push_times(self._due.arrays, times)

    def until(self, now: int, more: NDArray | None = None) -> list[int]:
        """The times up to `now`, and `more`, that were not told before: in order, each once."""
        times = np.empty(0, np.int64) if more is None else more
        now = max(now, int(times.max(initial=BEGINNING)))  # what is told tells of all before it
        if self._due.first <= now:
            due = np.empty(len(self._due), np.int64)
            times = np.concatenate([times, due[: pop_times(self._due.arrays, now, due)]])
        times = distinct(np.sort(times[times > self._last], kind="stable"))
        if len(times):
            self._last = int(times[-1])
        return times.tolist()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def nbytes(self) -> int:
        return self._due.nbytes

    def _check(self) -> None:
        self._due._check()
        assert self._due.first > self._last, "a time to come has been told"
