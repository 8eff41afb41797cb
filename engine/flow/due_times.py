"""When rows that were passed on leave by themselves: what a sender of time-messages has to remember.

The paper's JTT: a sorted list of the expiry times that had results, each once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import rising
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.window import FOREVER


def distinct(times: NDArray) -> NDArray:
    """Of sorted times, each once; numpy's unique puts them into a hash table first."""
    keep = np.ones(len(times), bool)
    np.not_equal(times[1:], times[:-1], out=keep[1:])
    return times[keep]


class DueTimes:
    """Distinct times, sorted."""

    def __init__(self) -> None:
        self._times: NDArray = NO_ROWS

    def add(self, ets: NDArray) -> None:
        """Rows with these ends were passed on."""
        times = ets[ets < FOREVER]
        if not bool(np.all(times[1:] >= times[:-1])):
            times = np.sort(times, kind="stable")
        times = distinct(times)
        is_after = not len(self._times) or not len(times) or self._times[-1] < times[0]
        times = np.concatenate([self._times, times])
        self._times = times if is_after else distinct(np.sort(times, kind="stable"))

    def take(self, now: int) -> list[int]:
        """The times up to `now`, which are forgotten."""
        due = int(self._times.searchsorted(now, side="right"))
        taken, self._times = self._times[:due], self._times[due:]
        return taken.tolist()

    def __len__(self) -> int:
        return len(self._times)

    def _check_restored(self) -> None:
        rising(self._times, "times")
