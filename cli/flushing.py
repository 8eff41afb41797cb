"""When results are brought to the disk: every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_SHARE = 0.1  # of a run's time, for bringing results to the disk


class Flushing:
    """Due every `every_s` seconds from the start on.

    Many queries on a slow disk take long to flush: then it is due less often. Time in which kernels are
    compiled does not count towards the first: results should not look different the first time.
    """

    def __init__(
        self, every_s: float, compiled: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """compiled: how many kernels have been compiled."""
        self._every_s = self._wait_s = every_s
        self._compiled = compiled
        self._clock = clock
        self._since = clock()
        self._compiled_then: int | None = compiled()  # None: it has been flushed

    @property
    def is_due(self) -> bool:
        if self._compiled_then is not None and self._compiled_then != self._compiled():
            self._since, self._compiled_then = self._clock(), self._compiled()
        return self._clock() - self._since >= self._wait_s

    def flush(self, action: Callable[[], None]) -> None:
        """Do it, and know how long it took."""
        began = self._clock()
        action()
        self._since, self._compiled_then = self._clock(), None
        self._wait_s = max(self._every_s, (self._since - began) / MOST_SHARE)
