"""Rows of one side in the order of their keys: each goes on when no row to come can have its key or less.

In:      rows of a stream in the order of arrival, and how far its keys have come after each.
Out:     the same rows by key, those of one key as they came, at the time of the row that let them go on; and
         how far keys have come after each of these.
Kept:    rows whose key the stream's own frontier has not passed: as many as its factor, and few more.
Dropped: rows without a key, which meet nothing.

    factor 2      5  6  4  8  7  9            frontier 9 after the last
    goes on                4 5 6  7  8        8 only when 9 has come

A row that breaks its declaration, or what was measured, goes on at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Expression
from penstock.engine.intake.key_frontier import KeyFrontier, Read
from penstock.engine.keys.keys import encode_values
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType

from .frontier_reader import FrontierReader


class SortFirst:
    """Of one side; it reads the frontiers of its stream, and tells those behind it."""

    def __init__(self, reader: FrontierReader, key: Expression, type_: SqlType) -> None:
        self.inner = reader
        self.now = reader.now
        self.multiplicity = 1
        """The most rows with one key that went on together."""
        self._key, self._type = key, type_
        self._columns: list[pa.Array] = []
        self._codes: NDArray = NO_ROWS
        """Of rows that wait, with their columns."""
        self._frontiers: NDArray = NO_ROWS
        """After each of the rows that went on last."""

    @property
    def frontier(self) -> KeyFrontier:
        return self.inner.frontier

    @property
    def factor(self) -> int:
        """In order a row comes behind others with its key, and behind no greater one."""
        return self.multiplicity - 1

    @property
    def nows(self) -> NDArray:
        return np.array([self.now], np.int64)

    def read(self, rows: int) -> Read:
        frontiers, self._frontiers = self._frontiers[:rows], self._frontiers[rows:]
        if rows:
            self.now = int(frontiers[-1])
        return Read(np.zeros(rows, np.int64), frontiers.copy(), np.full(rows, self.factor, np.int64))

    def leave(self) -> None:
        self.inner.leave()

    # -- rows ---------------------------------------------------------------------------------------

    def sort(self, batch: Batch | None) -> Batch | None:
        """What goes on now that these rows have come."""
        if batch is None:
            return None
        # 1. who waits
        keys = evaluate(self._key, batch.column, batch.length)
        codes = np.ascontiguousarray(encode_values(keys, self._type))
        frontiers = self.inner.read(batch.length).frontiers
        there = np.flatnonzero(valid_bytes(keys))
        come = np.concatenate([np.zeros(len(self._codes), np.int64), there])
        codes = np.concatenate([self._codes, codes[there]])
        columns = self._with(batch, there)
        # 2. which row of the batch lets each go on
        at = np.maximum(come, frontiers.searchsorted(codes, side="right"))
        order = np.lexsort((codes, at))
        order = order[: int(np.count_nonzero(at < batch.length))]
        rest = np.flatnonzero(at >= batch.length)
        self._columns, self._codes = taken(columns, rest), codes[rest]
        if not len(order):
            return None
        # 3. how far keys have come after each that goes on
        at, codes = at[order], codes[order]
        is_last = np.append(at[1:] > at[:-1], True)
        after = np.where(is_last, frontiers[at], np.append(codes[1:], 0))
        return self._give(batch.ts[at], taken(columns, order), codes, after)

    def flush(self, ts: int) -> Batch | None:
        """Nothing more comes: all that waits goes on, at this time."""
        if not len(self._codes):
            return None
        order = np.argsort(self._codes, kind="stable")
        codes, columns = self._codes[order], taken(self._columns, order)
        self._codes, self._columns = NO_ROWS, []
        return self._give(np.full(len(codes), ts, np.int64), columns, codes, codes.copy())

    def _give(self, ts: NDArray, columns: list[pa.Array], codes: NDArray, after: NDArray) -> Batch:
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        self.multiplicity = max(self.multiplicity, int(np.diff(np.append(starts, len(codes))).max()))
        low = self._frontiers[-1] if len(self._frontiers) else self.now
        after = np.maximum(np.maximum.accumulate(after), low)
        self._frontiers = np.concatenate([self._frontiers, after])
        return Batch(ts, columns)

    def _with(self, batch: Batch, there: NDArray) -> list[pa.Array]:
        """The columns of what waits and of rows of a batch."""
        fresh = [batch.column(place) for place in range(batch.width)]
        if len(there) < batch.length:
            fresh = taken(fresh, there)
        if not len(self._codes):
            return fresh
        return [pa.concat_arrays(pair) for pair in zip(self._columns, fresh, strict=True)]

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns) + self._codes.nbytes

    def _check(self) -> None:
        assert all(len(column) == len(self._codes) for column in self._columns), "rows that wait"
        assert not len(self._codes) or self._codes.min() >= self.now, "a row that should have gone on"

    def _check_restored(self) -> None:
        for one in (self._codes, self._frontiers):
            expect(one.dtype == np.int64 and one.ndim == 1, "keys and frontiers")
        expect(all(len(column) == len(self._codes) for column in self._columns), "columns of one length")
        expect(self.multiplicity > 0, "rows of one key")


def taken(columns: list[pa.Array], rows: NDArray) -> list[pa.Array]:
    places = pa.array(rows)
    return [column.take(places) for column in columns]
