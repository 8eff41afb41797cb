"""The boundaries of a hopping query: multiples of its hop since an origin.

Only what is there at a boundary counts. So a row may as well come at the first boundary at or after its ts,
and leave at the first at or after its ets:

    hop 10, window 15      row at 3                  3 |===============| 18
                           at boundaries                    10 |=======|=> 20     seen at 10 alone

    ts <= T < ets          is the same as            up(ts) <= T < up(ets)        for every boundary T

With times rounded up that way, whoever works by instants works by hops, whatever else it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import FAR, expect

from .window import FOREVER


@dataclass(frozen=True, slots=True)
class Hops:
    """`size` and `origin` in microseconds."""

    size: int
    origin: int = 0

    def up(self, ts: NDArray) -> NDArray:
        """The first boundary at or after each time; FOREVER stays."""
        rounded = ts + (self.origin - ts) % self.size
        return np.where(ts == FOREVER, FOREVER, rounded)

    def up_in_order(self, ts: NDArray) -> NDArray:
        """The same of times in order, none FOREVER; of few boundaries faster."""
        if not len(ts) or ts[-1] - ts[0] > len(ts) // 8 * self.size:
            return self.up(ts)
        boundaries = np.arange(self.first(int(ts[0])), self.first(int(ts[-1])) + 1, self.size)
        return np.repeat(boundaries, np.diff(ts.searchsorted(boundaries, side="right"), prepend=0))

    def first(self, ts: int) -> int:
        """The first boundary at or after a time."""
        return ts + (self.origin - ts) % self.size

    def last(self, ts: int) -> int:
        """The last boundary at or before a time."""
        return ts - (ts - self.origin) % self.size

    def known(self, come: int, closed: bool) -> int:
        """The last boundary that is over when time has come so far, or has ended there."""
        return self.first(come) if closed else self.last(come - 1)

    def _check_restored(self) -> None:
        expect(0 < self.size < FAR and abs(self.origin) < FAR, "hops of some size")
