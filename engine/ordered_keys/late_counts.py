"""How many rows came with a key when rows with that key could have gone: a bound of what has been missed.

Kept: the last 4,096 such keys, each with its count; of those that were forgotten, the greatest count.
Law: no key has more of these rows than `of` says, whatever was forgotten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, same_length
from penstock.engine.rows.batch import NO_ROWS

MOST_KEYS = 4_096


class LateCounts:
    """Of one side of a join; keys are codes."""

    def __init__(self) -> None:
        self._codes: NDArray = NO_ROWS
        """Keys in order."""
        self._counts: NDArray = NO_ROWS
        """How often each came."""
        self._met: NDArray = NO_ROWS
        """When it came last, in numbers of calls."""
        self._forgotten = 0
        self._calls = 0
        self.rows = 0

    def add(self, codes: NDArray) -> None:
        """These rows came when rows with their keys could have gone."""
        if not len(codes):
            return
        self.rows += len(codes)
        self._calls += 1
        fresh, counts = np.unique(codes, return_counts=True)
        places = self._codes.searchsorted(fresh)
        known = np.zeros(len(fresh), bool)
        inside = places < len(self._codes)
        known[inside] = self._codes[places[inside]] == fresh[inside]
        self._counts[places[known]] += counts[known]
        self._met[places[known]] = self._calls
        new = ~known
        self._codes = np.insert(self._codes, places[new], fresh[new])
        self._counts = np.insert(self._counts, places[new], counts[new] + self._forgotten)
        self._met = np.insert(self._met, places[new], self._calls)
        self._forget()

    def _forget(self) -> None:
        """Keep those that came last."""
        over = len(self._codes) - MOST_KEYS
        if over <= 0:
            return
        order = np.argsort(self._met, kind="stable")
        gone, kept = order[:over], np.sort(order[over:])
        self._forgotten = max(self._forgotten, int(self._counts[gone].max()))
        self._codes, self._counts, self._met = self._codes[kept], self._counts[kept], self._met[kept]

    def of(self, code: int) -> int:
        """At most so many rows came with this key."""
        place = int(self._codes.searchsorted(code))
        if place < len(self._codes) and self._codes[place] == code:
            return int(self._counts[place])
        return self._forgotten

    def _check_restored(self) -> None:
        arrays = (self._codes, self._counts, self._met)
        expect(all(one.dtype == np.int64 and one.ndim == 1 for one in arrays), "late keys and their counts")
        same_length("late keys", self._codes, self._counts, self._met)
        expect(bool((self._codes[1:] > self._codes[:-1]).all()), "late keys in order")
