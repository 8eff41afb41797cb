"""The sequences that the keys of a growing column make: one, or one for each value of some other columns.

In:      codes of keys in order of arrival, and the values of the other columns.
Out:     of each row, the frontier of its sequence before it and after it, and the factor by which that goes.
Kept:    a line per sequence; in one pool for all, where the running maximum of each rose, as far back as a
         key is looked for; of each hundred of a sequence's last 2,000 rows, how far one came behind a key
         that is not less, at most; the values, each with its number.
Dropped: what lies further back. A value is kept, however long it is silent.

    ORDERED PER d     d  x  x  y  x  y            sequences:  0: x, 1: y
                      k  5  7  1  6  2            lines:      0: 5 7 6     1: 1 2

Law: what is followed is not known before it is taken: lines are copied, and whatever is written into the pool
lies where no line that is known says that there are records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.ordered_keys import follow_keys as kernels
from penstock.engine.keys.key_slots import KeySlots, keys_of
from penstock.engine.keys.keys import INT_MIN
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.types import SqlType

STEP_ROWS = 100  # are measured together
STEPS = 21  # of the last so many steps the factor is the greatest that was met: of 2,000 rows and some more
WARM_ROWS = 2_000  # before so many rows have come, a factor that is measured says nothing of what can come
REACH_ROWS = 32_768  # a row that comes further behind than this may be measured as no more
LEAST_POOL = 256  # records that are worth no thought


@dataclass(slots=True)
class Moved:
    """What will be known of some sequences: their lines and peaks; and per row: its sequence, the frontier
    before and after it, the greatest key before it, the factor."""

    touched: NDArray
    lines: NDArray
    peaks: NDArray
    pool: int
    sequences: NDArray
    befores: NDArray
    frontiers: NDArray
    tops: NDArray
    factors: NDArray

    def bound(self, befores: NDArray, frontiers: NDArray) -> None:
        """These are the frontiers, before and after each row, and no others; they do not fall."""
        self.befores, self.frontiers = befores, frontiers
        self.lines[:, kernels.FRONTIER] = INT_MIN
        known = np.flatnonzero(self.sequences >= 0)
        own = self.touched.searchsorted(self.sequences[known])
        np.maximum.at(self.lines[:, kernels.FRONTIER], own, frontiers[known])


class KeySequences:
    """Of one growing column."""

    def __init__(self, types: Sequence[SqlType], declared: int) -> None:
        """types: of the columns whose values have a sequence each; declared: the factor, -1: it is
        measured."""
        self.types = tuple(types)
        self.declared = declared
        self.slots = KeySlots() if types else None
        """The numbers of values."""
        self._lines: NDArray = np.empty((0, kernels.LINE), np.int64)
        self._peaks: NDArray = np.empty((0, STEPS), np.int64)
        self._records: NDArray = np.empty(0, np.int64)
        self._codes: NDArray = np.empty(0, np.int64)
        self._pool = 0
        self._make_lines(1)

    def __len__(self) -> int:
        """Sequences, also such as have had no row."""
        return 1 if self.slots is None else self.slots.used

    # -- what comes ---------------------------------------------------------------------------------

    def numbers(self, values: Sequence[pa.Array], rows: int) -> NDArray:
        """The sequence of each row, by its values; -1 where one is NULL."""
        if self.slots is None:
            return np.zeros(rows, np.int64)
        slots = np.empty(rows, np.int32)
        self.slots.insert(keys_of(values, self.types, rows), slots)
        self._make_lines(self.slots.used)
        return slots.astype(np.int64)

    def follow(self, codes: NDArray, valid: NDArray, sequences: NDArray) -> Moved:
        """What will be known after these rows; nothing changes yet."""
        touched, own = (np.zeros(1, np.int64), sequences)
        if self.slots is not None:
            touched = np.unique(sequences[sequences >= 0])
            own = np.where(sequences < 0, -1, touched.searchsorted(sequences))
        lines, peaks = self._lines[touched], self._peaks[touched]
        found = np.empty((4, len(codes)), np.int64)
        rule = (STEP_ROWS, self.declared, 0 if self.declared >= 0 else WARM_ROWS, REACH_ROWS)
        row, pool = 0, self._pool
        while True:
            row, pool = kernels.follow_keys(
                (codes, valid, own), row, lines, peaks, self._records, self._codes, pool, rule, found
            )
            if row == len(codes):
                break
            self._widen(pool, len(codes) - row)
        return Moved(touched, lines, peaks, pool, sequences, *found)

    def take(self, moved: Moved) -> None:
        """These rows have arrived."""
        self._lines[moved.touched], self._peaks[moved.touched] = moved.lines, moved.peaks
        self._pool = moved.pool
        if 2 * self._pool > len(self._records) > LEAST_POOL:
            self._tidy()

    def _make_lines(self, count: int) -> None:
        known = len(self._lines)
        if count <= known:
            return
        lines = np.zeros((max(count, 2 * known), kernels.LINE), np.int64)
        lines[:known], lines[known:, kernels.AT], lines[known:, kernels.FRONTIER] = self._lines, -1, INT_MIN
        peaks = np.zeros((len(lines), self._peaks.shape[1]), np.int64)
        peaks[:known] = self._peaks
        self._lines, self._peaks = lines, peaks

    def _widen(self, used: int, rows: int) -> None:
        """Make room in the pool; records that are there stay where they are."""
        room = max(LEAST_POOL, 4 * used + 2 * rows)
        records, codes = np.empty((2, room), np.int64)
        records[:used], codes[:used] = self._records[:used], self._codes[:used]
        self._records, self._codes = records, codes

    def _tidy(self) -> None:
        """Give back the memory of records that no line has."""
        live = int((self._lines[:, kernels.END] - self._lines[:, kernels.FIRST]).sum())
        if 4 * live > len(self._records):
            return
        records, codes = np.empty((2, max(LEAST_POOL, 4 * live)), np.int64)
        self._pool = kernels.move_records(self._lines, self._records, self._codes, records, codes)
        self._records, self._codes = records, codes

    # -- what is known ------------------------------------------------------------------------------

    @property
    def frontiers(self) -> NDArray:
        """By sequence, the least key that can still arrive."""
        return self._lines[: len(self), kernels.FRONTIER]

    @property
    def greatest(self) -> tuple[NDArray, NDArray]:
        """By sequence, the greatest key that has arrived, and whether one has."""
        lines = self._lines[: len(self)]
        has = lines[:, kernels.END] > lines[:, kernels.FIRST]
        codes = np.full(len(lines), INT_MIN)
        codes[has] = self._codes[lines[has, kernels.END] - 1]
        return codes, has

    @property
    def measured(self) -> int:
        """The greatest factor of the last rows of any sequence, as it was met."""
        return int(self._peaks.max())

    @property
    def values(self) -> int:
        """How many have had a row."""
        return int(np.count_nonzero(self._lines[:, kernels.COME]))

    @property
    def nbytes(self) -> int:
        slots = 0 if self.slots is None else self.slots.nbytes
        return slots + sum(int(one.nbytes) for one in (self._lines, self._peaks, self._records, self._codes))

    def _check(self) -> None:
        if self.slots is not None:
            self.slots._check()
        live = [np.arange(line[kernels.FIRST], line[kernels.END]) for line in self._lines]
        places = np.concatenate(live)
        assert len(np.unique(places)) == len(places), "records that two sequences have"
        assert bool((places < self._pool).all()), "records outside the pool"
        for own, line in zip(live, self._lines, strict=True):
            assert bool((np.diff(self._codes[own]) > 0).all()), "a running maximum that does not rise"
            assert line[kernels.FIRST] - 1 <= line[kernels.AT] < max(line[kernels.END], 1), (
                "a frontier that is no record"
            )

    def _check_restored(self) -> None:
        lines, size = self._lines, len(self._records)
        expect(lines.ndim == 2 and lines.shape[1] == kernels.LINE, "a line per sequence")
        expect(lines.dtype == np.int64 and len(lines) >= max(1, len(self)), "a line per sequence")
        expect(self._peaks.dtype == np.int64 and self._peaks.ndim == 2, "how far behind rows came")
        expect(len(self._peaks) == len(lines) and self._peaks.shape[1] > 0, "how far behind rows came")
        expect(
            all(one.dtype == np.int64 and one.ndim == 1 for one in (self._records, self._codes)), "records"
        )
        expect(len(self._codes) == size and 0 <= self._pool <= size, "a code for each record")
        first, end, at = (lines[:, one] for one in (kernels.FIRST, kernels.END, kernels.AT))
        within(lines[:, kernels.COME], 0, 1 << 62, "rows that have come")
        within(lines[:, kernels.ROOM], 0, self._pool + 1, "rooms")
        expect(bool((first <= end).all() and (end <= lines[:, kernels.ROOM]).all()), "records in their rooms")
        expect(bool((first >= 0).all() and (at >= first - 1).all()), "records that are frontiers")
        expect(bool((at < np.maximum(end, 1)).all()), "records that are frontiers")
