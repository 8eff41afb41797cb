"""How many live rows of a shelf there are of each key, by leaf and slice of age: pairs counted but not found.

Where results are only counted and an equality finds many matches, a probe need not walk along them: it adds
up the counters of its key. Kept beside the index, which then has nothing to do, and made from the rows that
are there whenever members have changed.

Kept:    a counter per key, leaf and slice; for each row where its counters are.
Dropped: a row from its counter when the shelf drops it; keys without rows when the table is made anew.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.joins.key_counts import (
    INSERTED,
    SHORT,
    STATE_SLOTS,
    USED,
    count_by_key,
    forget_rows,
)
from penstock.engine.restoring.in_order import expect, rising, size_of_two
from penstock.engine.rows.buffer import RowBuffer

MIN_PLACES = 256
MAX_WIDTH = 256  # counters of one key
MOST_AT_ONCE = 1 << 29  # pairs counted in one call: cells of 32 bits are settled in between
NO_LEAVES = np.empty(0, np.int32)


class KeyCounts:
    """Of the rows from `first_row` on, which come in order; none is counted yet.

    ends: int64, ascending: where the slices of age end. leaves: how many there are, 1 if rows have none.
    """

    def __init__(self, first_row: int, ends: NDArray, leaves: int) -> None:
        self.ends = ends
        self.leaves = leaves
        self._at = RowBuffer("int64", first_row)
        self._clear(first_row, MIN_PLACES)

    def _clear(self, first_row: int, places: int) -> None:
        """An empty table: rows from `first_row` on are to be inserted."""
        self._keys = np.empty(places, np.int64)
        self._taken = np.zeros(places, np.uint8)
        self._counts = np.zeros((places, self.leaves * len(self.ends)), np.int32)
        self._tails = np.full(len(self.ends), first_row, np.int64)
        self._state = np.zeros(STATE_SLOTS, np.int64)
        self._state[INSERTED] = first_row

    def run(
        self,
        probes: Probes,
        times: NDArray,
        reach: NDArray | None,
        keys: NDArray,
        pos: RowBuffer,
        leaves: RowBuffer | None,
        cells: tuple[NDArray, int],
        histogram: NDArray,
    ) -> int:
        """Serve probers, adding their matches to the histogram; how many there were. Perhaps not all probers.

        times, reach: int64 per prober, when it came and how far it looks back, None: to the end. Of the rows,
        keys: int64, those of the live ones; pos: when each came; leaves. cells: (where those of each prober
        begin, int64; how many there are to a leaf).
        """
        self._at.reserve(pos.end - self._at.end)
        self._at.end = pos.end
        slices = (
            np.full(len(times), len(self.ends)) if reach is None else self.ends.searchsorted(reach, "right")
        )
        of_rows = NO_LEAVES if leaves is None else leaves.data
        probers = probes.key_low, probes.row_until, times, slices, cells[0]
        total = 0
        while True:
            rows = (
                keys, pos.tail, pos.data, pos.base, of_rows, 0 if leaves is None else leaves.base,
                self._at.data, self._at.base,
            )  # fmt: skip
            table = self._keys, self._taken, self._counts
            total += count_by_key(
                table, self.ends, self._tails, self._state, rows, probers, probes.end, probes.cursor,
                cells[1], histogram, MOST_AT_ONCE - total,
            )  # fmt: skip
            if not self._state[SHORT]:
                return int(total)
            self._renew(keys, pos)

    def _renew(self, keys: NDArray, pos: RowBuffer) -> None:
        """Make room: without the keys that have gone, and with as much again as the others need."""
        first, inserted = int(self._tails[-1]), int(self._state[INSERTED])
        live = len(np.unique(keys[first - pos.tail : inserted - pos.tail]))
        places = len(self._keys)
        while places < 4 * (live + 1):
            places *= 2
        self._clear(first, places)

    def forget(self, row: int) -> None:
        """Rows below `row` are dropped."""
        row = min(row, self._at.end)
        inserted = int(self._state[INSERTED])
        if row > inserted:  # never counted, and never will be
            forget_rows(self._counts, self._tails, self._state, self._at.data, self._at.base, inserted)
            self._tails[:] = self._state[INSERTED] = row
        else:
            forget_rows(self._counts, self._tails, self._state, self._at.data, self._at.base, row)
        self._at.drop(row)

    @property
    def nbytes(self) -> int:
        return int(self._keys.nbytes + self._taken.nbytes + self._counts.nbytes + self._at.nbytes)

    def _check(self) -> None:
        inserted = int(self._state[INSERTED])
        edges = [inserted, *self._tails.tolist()]
        assert edges == sorted(edges, reverse=True), "rows skip a slice"
        assert int(self._counts.sum()) == inserted - edges[-1], "rows are counted twice, or not at all"
        assert self._counts.min(initial=0) >= 0, "a negative count"
        assert int(self._taken.sum()) == self._state[USED], "places are miscounted"
        counters = self._counts.reshape(-1, len(self.ends))
        for s, (newer, older) in enumerate(pairwise(edges)):
            at = self._at.data[older - self._at.base : newer - self._at.base] // len(self.ends)
            assert np.array_equal(np.bincount(at, minlength=len(counters)), counters[:, s]), "a wrong count"

    def _check_restored(self) -> None:
        """Rows are counted anew by whoever probes next."""
        expect(len(self.ends) == len(self._tails) > 0 and len(self._state) == STATE_SLOTS, "slices")
        rising(self.ends, "slices")
        expect(0 < self.leaves * len(self.ends) <= MAX_WIDTH, "counters of a key")
        first = int(self._tails[-1])
        expect(
            self._at.data.dtype == np.int64 and self._at.tail <= first <= self._at.end,
            "rows that were counted",
        )
        size_of_two(len(self._keys), "places")
        self._clear(first, len(self._keys))
