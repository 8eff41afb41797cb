"""How far a growing column of a stream has come: which keys can still come, known once for all who ask.

In:      the keys of rows, in order of arrival, and how many of them go on in order of time.
Out:     after each row that has gone on, the frontier of its sequence: the least key that a row of that
         behind it can have.
Kept:    the sequences (key_sequences.py); what readers have not come to.
Dropped: frontiers that all readers have passed.

With a factor of k, no row comes more than k rows behind one whose key is not less. So the greatest key of all
rows but the last k will not come again, nor will a lesser one:

    k = 2    5  6  4  8  7  9          after 9: the greatest of 5 6 4 8 is 8, and all to come are above it
                                       frontier 9

A column that is ORDERED PER others has a sequence, and so a frontier, for each of their values.

Law: a frontier never falls. It is exact if the factor is true; a factor that is measured may prove to be
too small, and a row below the frontier is then one that came too late for some of its partners. So nothing
is said of what can come before there was something to measure: 2,000 rows.

The factor is that of the arrivals. Where rows wait for older ones of their stream, a row that goes on leaves
those behind that came before it, and the frontier is not above these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.keys.keys import INT_MIN, encode_values, seek_codes
from penstock.engine.restoring.in_order import FAR, expect, within
from penstock.engine.rows.band import Band
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType

from .key_sequences import KeySequences, Moved
from .order_rule import OrderRule

NO_COLUMNS: Mapping[str, SqlType] = {}
MEASURE_US = 10_000_000  # rates are of about the last so many microseconds


@dataclass(slots=True)
class Followed:
    """What is known after some rows, before they are taken in.

    broken: positions of rows below the frontier that a declaration had promised.
    """

    moved: Moved
    broken: NDArray

    @property
    def rows(self) -> int:
        return len(self.moved.frontiers)


@dataclass(slots=True)
class Read:
    """Of rows that have gone on: the sequence of each, the frontier and the factor of that after it."""

    sequences: NDArray
    frontiers: NDArray
    factors: NDArray


class KeyReader:
    """Who reads the frontiers of a stream's rows, one after the other."""

    __slots__ = ("factor", "frontier", "nows", "position")

    def __init__(self, frontier: KeyFrontier) -> None:
        """It begins with the row that goes on next."""
        self.frontier = frontier
        self.position = frontier.gone_on
        self.nows = frontier.nows.copy()
        """By sequence, the least key that can come behind the rows that it has read."""
        self.factor = frontier.factor

    @property
    def now(self) -> int:
        """The least key that can come of any sequence."""
        return int(self.nows.min())

    def read(self, rows: int) -> Read:
        """What is known after each of the next rows, so many."""
        read = self.frontier.after(self.position, rows)
        self.position += rows
        self.nows = raised(self.nows, read.sequences, read.frontiers)
        if rows:
            self.factor = int(read.factors[-1])
        self.frontier.forget()
        return read

    def leave(self) -> None:
        """Nothing more is read."""
        self.frontier.lose(self)

    def _check_restored(self) -> None:
        log = self.frontier.log
        expect(log.tail <= self.position <= log.end, "frontiers that are to be read")
        expect(any(one is self for one in self.frontier.readers), "a reader of a frontier")
        expect(self.nows.dtype == np.int64 and self.nows.ndim == 1, "frontiers of sequences")


def raised(nows: NDArray, sequences: NDArray, frontiers: NDArray) -> NDArray:
    """Frontiers by sequence after some rows; -1: a row has no sequence."""
    known = sequences >= 0
    if not known.any():
        return nows
    nows = widened(nows, int(sequences.max()) + 1)
    np.maximum.at(nows, sequences[known], frontiers[known])
    return nows


def widened(nows: NDArray, count: int) -> NDArray:
    """Frontiers of at least so many sequences, of which nothing is known of those that are new."""
    if count <= len(nows):
        return nows
    wide = np.full(max(count, 2 * len(nows)), INT_MIN)
    wide[: len(nows)] = nows
    return wide


class KeyFrontier:
    """Of one column of a stream."""

    def __init__(
        self, column: int, name: str, type_: SqlType, rule: OrderRule, per: Mapping[str, SqlType] = NO_COLUMNS
    ) -> None:
        """per: the columns whose values have a sequence each."""
        self.column, self.name, self.type, self.rule = column, name, type_, rule
        self.per = tuple(per)
        self.sequences = KeySequences(tuple(per.values()), int(rule.size) if rule.kind == "rows" else -1)
        self.come = 0
        """Rows that have arrived."""
        self.nows: NDArray = np.full(1, INT_MIN)
        """By sequence, the frontier of the rows that have gone on; there may be some more."""
        self.rows_broken = 0
        """Rows that came later than was declared."""
        self.readers: list[KeyReader] = []
        self.log, self.factor_log = RowBuffer("int64"), RowBuffer("int64")
        """By row that has gone on: the frontier and the factor after it."""
        self.sequence_log = RowBuffer("int64")
        """And its sequence, if there are several."""
        self.rate = 0.0
        """Rows per second of stream time, of late."""
        self._rate_from: int | None = None
        self._rate_rows = 0

    # -- what comes ---------------------------------------------------------------------------------

    @property
    def measured(self) -> int:
        """The factor of the last rows, as it was met."""
        return self.sequences.measured

    @property
    def factor(self) -> int:
        """As declared, else as measured."""
        return int(self.rule.size) if self.rule.kind == "rows" else self.measured

    @property
    def is_declared(self) -> bool:
        return self.rule.kind != "monitored"

    @property
    def now(self) -> int:
        """The least key that can come behind the rows that have gone on, of any sequence."""
        return int(self.nows[: max(1, len(self.sequences))].min())

    @property
    def greatest(self) -> int | None:
        """The greatest key that has arrived, as a code; None: none has."""
        codes, has = self.sequences.greatest
        return int(codes[has].max()) if has.any() else None

    def follow(self, keys: pa.Array, values: Sequence[pa.Array] = ()) -> Followed:
        """What will be known after these rows; nothing changes yet. values: of the columns that it is PER."""
        codes = np.ascontiguousarray(encode_values(keys, self.type))
        valid = valid_bytes(keys)
        moved = self.sequences.follow(codes, valid, self.sequences.numbers(values, len(keys)))
        if self.rule.kind == "within":
            tops = np.where(valid > 0, np.maximum(moved.tops, codes), moved.tops)
            moved.bound(self._in_time(moved.tops), self._in_time(tops))
        broken = np.empty(0, np.int64)
        if self.is_declared:
            broken = np.flatnonzero((codes < moved.befores) & (valid > 0))
        return Followed(moved, broken)

    def _in_time(self, tops: NDArray) -> NDArray:
        """The least key in time where these are the greatest so far: they less what was declared."""
        low, _ = seek_codes(tops, self.type, Band(-self.rule.size, True, None, False))
        return np.where(tops == INT_MIN, INT_MIN, low)

    def take(self, followed: Followed) -> None:
        """These rows have arrived."""
        self.come += followed.rows
        self.rows_broken += len(followed.broken)
        self.sequences.take(followed.moved)

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
        moved = followed.moved
        self._log(Read(moved.sequences, moved.frontiers, moved.factors))

    def release(self, rows: Batch, waiting: Sequence[Batch]) -> None:
        """These rows go on, which had to wait; those still do."""
        sequences = self._sequences_of(rows)
        least = self.sequences.frontiers.copy()
        for run in waiting:
            keys, theirs = run.column(self.column), self._sequences_of(run)
            known = (valid_bytes(keys) > 0) & (theirs >= 0)
            np.minimum.at(least, theirs[known], encode_values(keys, self.type)[known])
        self.nows = widened(self.nows, len(self.sequences))
        of_row = np.maximum(sequences, 0)
        frontiers = self.nows[of_row]
        last = rows.length - 1 - np.unique(sequences[::-1], return_index=True)[1]
        frontiers[last] = np.maximum(frontiers[last], least[of_row[last]])
        self._log(Read(sequences, frontiers, np.full(rows.length, self.factor, np.int64)))

    def _sequences_of(self, rows: Batch) -> NDArray:
        return self.sequences.numbers([rows.column(one) for one in self.rule.per], rows.length)

    def _log(self, read: Read) -> None:
        self.log.append(read.frontiers)
        self.factor_log.append(read.factors)
        if self.sequences.slots is not None:
            self.sequence_log.append(read.sequences)
        self.nows = raised(self.nows, read.sequences, read.frontiers)
        self.forget()

    def reader(self) -> KeyReader:
        """Somebody who reads what follows the rows that have gone on."""
        found = KeyReader(self)
        self.readers.append(found)
        return found

    def lose(self, reader: KeyReader) -> None:
        """Who does not read any more."""
        self.readers = [one for one in self.readers if one is not reader]

    def after(self, position: int, rows: int) -> Read:
        """What was known after each of some rows, by how many came before them."""
        end = position + rows
        sequences = np.zeros(rows, np.int64)
        if self.sequences.slots is not None:
            sequences = self.sequence_log.run(position, end).copy()
        return Read(sequences, self.log.run(position, end).copy(), self.factor_log.run(position, end).copy())

    def forget(self) -> None:
        """Drop what all readers have read."""
        read = min((one.position for one in self.readers), default=self.log.end)
        for log in (self.log, self.factor_log, self.sequence_log):
            log.drop(read)

    @property
    def nbytes(self) -> int:
        logs = self.log.nbytes + self.factor_log.nbytes + self.sequence_log.nbytes
        return logs + self.nows.nbytes + self.sequences.nbytes

    def _check(self) -> None:
        self.sequences._check()
        count = len(self.sequences)
        known = min(count, len(self.nows))
        assert bool((self.nows[:known] <= self.sequences.frontiers[:known]).all()), (
            "a frontier that is above that of the rows that have arrived"
        )

    def _check_restored(self) -> None:
        expect(0 <= self.come < FAR, "rows that have come")
        logs = (self.log, self.factor_log, self.sequence_log)
        expect(all(one.data.dtype == np.int64 and one.data.ndim == 1 for one in logs), "keys and numbers")
        expect(self.nows.dtype == np.int64 and self.nows.ndim == 1 and len(self.nows) > 0, "frontiers")
        several = self.sequences.slots is not None
        for one in logs[1 : 2 + several]:
            expect((one.tail, one.end) == (self.log.tail, self.log.end), "a factor for each frontier")
        if several:
            within(self.sequence_log.live, -1, len(self.sequences), "sequences of rows")
