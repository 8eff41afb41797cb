"""How long after a change was due it came out: in the time of the streams, and in that of the machine.

Delays are counted in buckets that grow by an eighth, so that a percentile is right to within that.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

STEPS = 8  # buckets to a doubling
BUCKETS = 64 * STEPS


class Delays:
    """Average, maximum and percentiles of delays in microseconds."""

    _owned: ClassVar[tuple[str, ...]] = ("_counts",)

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)
        self._sum = 0.0
        self.max = 0.0
        self.number = 0

    def add(self, delays: NDArray) -> None:
        """Take in delays; none is negative."""
        if not len(delays):
            return
        buckets = np.log2(np.maximum(delays, 1.0)) * STEPS
        np.add.at(self._counts, buckets.astype(np.int64), 1)
        self._sum += float(delays.sum())
        self.max = max(self.max, float(delays.max()))
        self.number += len(delays)

    def add_one(self, delay: float, times: int) -> None:
        """Take in a delay that so many have."""
        self._counts[int(math.log2(delay) * STEPS) if delay > 1 else 0] += times
        self._sum += delay * times
        if delay > self.max:
            self.max = delay
        self.number += times

    @property
    def average(self) -> float:
        return self._sum / self.number if self.number else 0.0

    def percentile(self, share: float) -> float:
        """At most this share of the delays is longer than what is left above it; 0.99 for p99."""
        if not self.number:
            return 0.0
        bucket = int(np.searchsorted(np.cumsum(self._counts), share * self.number))
        return 0.0 if self.max == 0 else min(self.max, 2.0 ** ((bucket + 1) / STEPS))

    def summary(self) -> dict[str, float]:
        """For stats, in microseconds."""
        return {"average_us": self.average, "max_us": self.max, "p99_us": self.percentile(0.99)}
