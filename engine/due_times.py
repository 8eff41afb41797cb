"""When rows that were passed on leave by themselves: what a sender of time-messages has to remember.

The paper's JTT: a sorted list of the expiry times that had results, each once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .batch import NO_ROWS
from .window import FOREVER


class DueTimes:
    """Distinct times, sorted."""

    def __init__(self) -> None:
        self._times: NDArray = NO_ROWS

    def add(self, ets: NDArray) -> None:
        """Rows with these ends were passed on."""
        if bool((ets[1:] >= ets[:-1]).all()):
            new = ets[np.concatenate([[True], ets[1:] > ets[:-1]])]
        else:
            new = np.unique(ets)
        new = new[new < FOREVER]
        in_order = not len(self._times) or not len(new) or self._times[-1] < new[0]
        self._times = np.concatenate([self._times, new]) if in_order else np.union1d(self._times, new)

    def take(self, now: int) -> list[int]:
        """The times up to `now`, which are forgotten."""
        due = int(self._times.searchsorted(now, side="right"))
        taken, self._times = self._times[:due], self._times[due:]
        return taken.tolist()

    def __len__(self) -> int:
        return len(self._times)
