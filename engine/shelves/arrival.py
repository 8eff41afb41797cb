"""The batch that a side of a join is working: the rows that take part, what they seek, where they are kept.

rows of the stream     0 . . . . . .| 7  8  9  10 |       come: 7, end: 11
that take part                        7     9  10         places, and refs to their shelves
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.bounds import silence_displaced
from penstock.engine.restoring.in_order import expect, rising
from penstock.engine.rows.batch import NO_ROWS

Tags = tuple[NDArray, ...]


class Arrival:
    """No rows yet."""

    def __init__(self) -> None:
        self.come = 0
        """Rows of the stream before the batch: a ROWS window counts them all."""
        self.come_ts: NDArray = NO_ROWS
        """When each row of the batch came, whether it takes part or not."""
        self.ts: NDArray = NO_ROWS
        """Of the rows that take part; so is what follows."""
        self.low: NDArray = NO_ROWS
        self.high: NDArray = NO_ROWS
        self.leaves: Tags = ()
        self.words: Tags = ()
        self.reach: NDArray | None = None
        """How far back each row looks on the other side; None: as far as there are rows."""
        self.places: NDArray = NO_ROWS
        self._refs: NDArray | None = None
        self._first_ref = 0

    @property
    def end(self) -> int:
        """Rows of the stream so far: the place of the next."""
        return self.come + len(self.come_ts)

    @property
    def refs(self) -> NDArray:
        """Where each row is kept."""
        if self._refs is None:
            self._refs = np.arange(self._first_ref, self._first_ref + len(self.ts))
        return self._refs

    def last_places(self, ts: NDArray) -> NDArray:
        """The places of the last rows of the stream at these times, as far as they have come."""
        return self.come - 1 + self.come_ts.searchsorted(ts, side="right")

    def begin(self, ts: NDArray, widths: tuple[int, int]) -> None:
        """Rows with these times are next; which of them take part is not known yet. widths: of their tags."""
        self.come, self.come_ts = self.end, ts
        self.forget(widths)

    def go_on_at(self, come: int) -> None:
        """So many rows have come before the first batch."""
        self.come = come

    def forget(self, widths: tuple[int, int]) -> None:
        """No rows take part."""
        dimensions, words = widths
        self.ts = self.low = self.high = self.places = NO_ROWS
        self._refs = self.reach = None
        self.leaves, self.words = (np.empty(0, np.int32),) * dimensions, (NO_ROWS,) * words

    def take(self, ts: NDArray, places: NDArray, leaves: Tags, words: Tags, reach: NDArray | None) -> None:
        """These rows take part."""
        self.ts, self.places = ts, places
        self.leaves, self.words, self.reach = leaves, words, reach

    def seek(self, low: NDArray, high: NDArray) -> None:
        """They seek keys in these ranges."""
        self.low, self.high = low, high

    def lie_from(self, first_ref: int) -> None:
        """All are kept one after the other."""
        self._first_ref = first_ref

    def lie_at(self, refs: NDArray) -> None:
        """Each is kept there."""
        self._refs = refs

    def silence(self, size: int) -> None:
        """Rows displaced at their own instant from a window of the last `size` rows seek nothing."""
        if len(self.ts):
            self.low, self.high = self.low.copy(), self.high.copy()
            silence_displaced(self.ts, self.places, self.come_ts, self.come, size, self.low, self.high)

    def _check_restored(self) -> None:
        rows = len(self.ts)
        expect(self.come >= 0, "counts")
        rising(self.come_ts, "rows of a batch")
        rising(self.ts, "rows of a batch")
        expect(len(self.low) == len(self.high) == rows, "what each row seeks")
        expect(all(len(one) == rows for one in (*self.leaves, *self.words)), "tags of each row")
        expect(len(self.places) in (0, rows), "something of each row")
        expect(self.reach is None or len(self.reach) == rows, "something of each row")
        expect(self._refs is None or len(self._refs) == rows, "where each row is kept")
