"""How far a growing column of a stream has come: which keys can still come, known once for all who ask.

In:      the keys of rows, in order of arrival, and how many of them go on in order of time.
Out:     after each row that has gone on, the frontier: the least key that a row behind it can have.
Kept:    where the running maximum rose, as far back as a key is looked for; of each hundred of the last 2,000
         rows, how far one came behind a key that is not less, at most; what readers have not come to.
Dropped: what lies further back, and frontiers that all readers have passed.

With a factor of k, no row comes more than k rows behind one whose key is not less. So the greatest key of all
rows but the last k will not come again, nor will a lesser one:

    k = 2    5  6  4  8  7  9          after 9: the greatest of 5 6 4 8 is 8, and all to come are above it
                                       frontier 9

Law: the frontier never falls. It is exact if the factor is true; a factor that is measured may prove to be
too small, and a row below the frontier is then one that came too late for some of its partners. So nothing
is said of what can come before there was something to measure: 2,000 rows.

The factor is that of the arrivals. Where rows wait for older ones of their stream, a row that goes on leaves
those behind that came before it, and the frontier is not above these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.ordered_keys.follow_keys import follow_keys
from penstock.engine.keys.keys import INT_MIN, encode_values, seek_codes
from penstock.engine.restoring.in_order import FAR, expect, rising
from penstock.engine.rows.band import Band
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType

from .order_rule import OrderRule

STEP_ROWS = 100  # are measured together
STEPS = 21  # of the last so many steps the factor is the greatest that was met: of 2,000 rows and some more
WARM_ROWS = 2_000  # before so many rows have come, a factor that is measured says nothing of what can come
REACH_ROWS = 32_768  # a row that comes further behind than this may be measured as no more
MEASURE_US = 10_000_000  # rates are of about the last so many microseconds


@dataclass(slots=True)
class Followed:
    """What is known after some rows, before they are taken in; per row, the frontier and the factor then."""

    frontiers: NDArray
    factors: NDArray
    broken: NDArray
    """Positions of rows below the frontier that a declaration had promised."""
    greatest: int | None
    rows: int
    first: int
    end: int
    at: int
    peaks: NDArray


class KeyReader:
    """Who reads the frontiers of a stream's rows, one after the other."""

    __slots__ = ("factor", "frontier", "now", "position")

    def __init__(self, frontier: KeyFrontier) -> None:
        """It begins with the row that goes on next."""
        self.frontier = frontier
        self.position = frontier.gone_on
        self.now = frontier.now
        """The least key that can come behind the rows that it has read."""
        self.factor = frontier.factor

    def read(self, rows: int) -> tuple[NDArray, NDArray]:
        """Frontiers and factors after each of the next rows, so many."""
        frontiers, factors = self.frontier.after(self.position, rows)
        self.position += rows
        if rows:
            self.now, self.factor = int(frontiers[-1]), int(factors[-1])
        self.frontier.forget()
        return frontiers, factors

    def leave(self) -> None:
        """Nothing more is read."""
        self.frontier.lose(self)

    def _check_restored(self) -> None:
        log = self.frontier.log
        expect(log.tail <= self.position <= log.end, "frontiers that are to be read")
        expect(any(one is self for one in self.frontier.readers), "a reader of a frontier")


class KeyFrontier:
    """Of one column of a stream."""

    def __init__(self, column: int, name: str, type_: SqlType, rule: OrderRule) -> None:
        self.column, self.name, self.type, self.rule = column, name, type_, rule
        self.come = 0
        """Rows that have arrived."""
        self.greatest: int | None = None
        """The greatest key that has arrived, as a code; None: none has."""
        self.arrived = INT_MIN
        """The frontier of the rows that have arrived."""
        self.now = INT_MIN
        """The frontier of the rows that have gone on."""
        self.rows_broken = 0
        """Rows that came later than was declared."""
        self.readers: list[KeyReader] = []
        self.log, self.factor_log = RowBuffer("int64"), RowBuffer("int64")
        """By row that has gone on: the frontier and the factor after it."""
        self.rate = 0.0
        """Rows per second of stream time, of late."""
        self._rate_from: int | None = None
        self._rate_rows = 0
        self._records: NDArray = np.empty(64, np.int64)
        self._record_codes: NDArray = np.empty(64, np.int64)
        self._first = self._end = 0
        self._at = -1
        self._peaks: NDArray = np.zeros(STEPS, np.int64)
        """How far behind one that is not less a row came at most, by step."""

    # -- what comes ---------------------------------------------------------------------------------

    @property
    def measured(self) -> int:
        """The factor of the last rows, as it was met."""
        return int(self._peaks.max())

    @property
    def factor(self) -> int:
        """As declared, else as measured."""
        return int(self.rule.size) if self.rule.kind == "rows" else self.measured

    @property
    def is_declared(self) -> bool:
        return self.rule.kind != "monitored"

    def follow(self, keys: pa.Array) -> Followed:
        """What will be known after these rows; nothing changes yet."""
        rows = len(keys)
        codes = np.ascontiguousarray(encode_values(keys, self.type))
        valid = valid_bytes(keys)
        self._make_room(rows)
        peaks = self._peaks.copy()
        frontiers, factors = np.empty((2, rows), np.int64)
        declared = int(self.rule.size) if self.rule.kind == "rows" else -1
        moved = follow_keys(
            codes, valid, self.come, self._records, self._record_codes, self._first, self._end, self._at,
            peaks, STEP_ROWS, declared, 0 if declared >= 0 else WARM_ROWS, REACH_ROWS, self.arrived,
            frontiers, factors,
        )  # fmt: skip
        first, end, at, _ = map(int, moved)
        if self.rule.kind == "within":
            self._bound_by_keys(codes, valid, frontiers)
        broken = self._broken(codes, valid, frontiers)
        greatest = int(self._record_codes[end - 1]) if end > first else None
        return Followed(frontiers, factors, broken, greatest, rows, first, end, at, peaks)

    def _bound_by_keys(self, codes: NDArray, valid: NDArray, frontiers: NDArray) -> None:
        """The least key in time after each row is the greatest so far less what was declared."""
        start = INT_MIN if self.greatest is None else self.greatest
        most = np.maximum.accumulate(np.concatenate([[start], np.where(valid > 0, codes, INT_MIN)]))[1:]
        low, _ = seek_codes(most, self.type, Band(-self.rule.size, True, None, False))
        np.maximum(np.where(most == INT_MIN, INT_MIN, low), self.arrived, out=frontiers)

    def _broken(self, codes: NDArray, valid: NDArray, frontiers: NDArray) -> NDArray:
        if not self.is_declared or not len(codes):
            return np.empty(0, np.int64)
        before = np.concatenate([[self.arrived], frontiers[:-1]])
        return np.flatnonzero((codes < before) & (valid > 0))

    def _make_room(self, rows: int) -> None:
        """For as many records more. Those that are there stay where they are, or move to new arrays."""
        if self._end + rows <= len(self._records):
            return
        live = self._end - self._first
        room = 2 * (live + rows)
        records, codes = np.empty(room, np.int64), np.empty(room, np.int64)
        records[:live] = self._records[self._first : self._end]
        codes[:live] = self._record_codes[self._first : self._end]
        self._records, self._record_codes = records, codes
        self._at -= self._first
        self._first, self._end = 0, live

    def take(self, followed: Followed) -> None:
        """These rows have arrived."""
        self.come += followed.rows
        self.rows_broken += len(followed.broken)
        self.greatest = followed.greatest
        if followed.rows:
            self.arrived = int(followed.frontiers[-1])
        self._first, self._end, self._at = followed.first, followed.end, followed.at
        self._peaks = followed.peaks

    def note_rate(self, rows: int, earliest: int, latest: int) -> None:
        """So many rows have arrived, of these times."""
        if self._rate_from is None:
            self._rate_from = earliest
        self._rate_rows += rows
        passed = latest - self._rate_from
        if passed <= 0:
            return
        now = 1e6 * self._rate_rows / passed
        weight = 1.0 if not self.rate else min(1.0, passed / MEASURE_US)
        self.rate += weight * (now - self.rate)
        self._rate_from, self._rate_rows = latest, 0

    # -- what goes on -------------------------------------------------------------------------------

    @property
    def gone_on(self) -> int:
        """Rows that have gone on, in order of time."""
        return self.log.end

    def pass_on(self, followed: Followed) -> None:
        """The rows that have just arrived go on at once, and none waits."""
        self._log(followed.frontiers, followed.factors)

    def release(self, rows: int, waiting: list[pa.Array]) -> None:
        """So many rows go on that had to wait; waiting: the keys of those that still do."""
        least = min([self.arrived, *(one for keys in waiting for one in self._least(keys))])
        frontiers = np.full(rows, self.now, np.int64)
        frontiers[-1] = max(self.now, least)
        self._log(frontiers, np.full(rows, self.factor, np.int64))

    def _least(self, keys: pa.Array) -> list[int]:
        codes = encode_values(keys, self.type)[valid_bytes(keys) > 0]
        return [int(codes.min())] if len(codes) else []

    def _log(self, frontiers: NDArray, factors: NDArray) -> None:
        self.log.append(frontiers)
        self.factor_log.append(factors)
        if len(frontiers):
            self.now = int(frontiers[-1])
        self.forget()

    def reader(self) -> KeyReader:
        """Somebody who reads what follows the rows that have gone on."""
        found = KeyReader(self)
        self.readers.append(found)
        return found

    def lose(self, reader: KeyReader) -> None:
        """Who does not read any more."""
        self.readers = [one for one in self.readers if one is not reader]

    def after(self, position: int, rows: int) -> tuple[NDArray, NDArray]:
        """Frontiers and factors after each of some rows, by how many came before them."""
        end = position + rows
        return self.log.run(position, end).copy(), self.factor_log.run(position, end).copy()

    def forget(self) -> None:
        """Drop what all readers have read."""
        read = min((one.position for one in self.readers), default=self.log.end)
        self.log.drop(read)
        self.factor_log.drop(read)

    @property
    def nbytes(self) -> int:
        return self.log.nbytes + self.factor_log.nbytes + self._records.nbytes + self._record_codes.nbytes

    def _check(self) -> None:
        codes = self._record_codes[self._first : self._end]
        assert bool((np.diff(codes) > 0).all()), "a running maximum that does not rise"
        assert self._first - 1 <= self._at < max(self._end, 1), "a frontier that is no record"

    def _check_restored(self) -> None:
        expect(0 <= self.come < FAR, "rows that have come")
        arrays = [self._records, self._record_codes, self._peaks]
        arrays += [self.log.data, self.factor_log.data]
        expect(all(one.dtype == np.int64 and one.ndim == 1 for one in arrays), "keys and numbers of rows")
        expect(len(self._records) == len(self._record_codes), "a code for each record")
        expect(0 <= self._first <= self._end <= len(self._records), "records inside their arrays")
        expect(self._first - 1 <= self._at < max(self._end, 1), "a record that is the frontier")
        rising(self._records[self._first : self._end], "records")
        rising(self._record_codes[self._first : self._end], "codes of records")
        expect(len(self._peaks) > 0, "how far behind rows came")
        expect(
            (self.log.tail, self.log.end) == (self.factor_log.tail, self.factor_log.end),
            "a factor for each frontier",
        )
        rising(self.log.live, "frontiers")
