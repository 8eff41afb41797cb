"""Who tells a side how far its keys have come, row by row; and one that can be ahead of its side.

In:   frontiers of a stream's rows (../intake/key_frontier.py).
Out:  the same, as rows are worked.
Kept: what was read of rows that are still in the queue, once some of these have been put on the disk: what is
      on the disk has its frontiers beside it, so that nothing grows with how many rows wait.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.intake.key_frontier import KeyFrontier, KeyReader, Read
from penstock.engine.restoring.in_order import expect, same_length
from penstock.engine.rows.batch import NO_ROWS


class FrontierReader(Protocol):
    """Of the rows that a side is given."""

    @property
    def frontier(self) -> KeyFrontier:
        """That of the stream."""

    @property
    def now(self) -> int:
        """The least key that can come behind the rows that were read."""

    @property
    def factor(self) -> int:
        """How far behind one that is not less a row of them comes."""

    @property
    def nows(self) -> NDArray:
        """The same by sequence."""

    def read(self, rows: int) -> Read:
        """What is known after each of the next rows, so many."""

    def leave(self) -> None:
        """Nothing more is read."""


class ReadAhead:
    """Reads the frontiers of rows before these are worked."""

    def __init__(self, inner: KeyReader) -> None:
        self.inner = inner
        self.now = inner.now
        self.factor = inner.factor
        self._frontiers: NDArray = NO_ROWS
        self._factors: NDArray = NO_ROWS
        """Of rows that wait in memory."""

    @property
    def frontier(self) -> KeyFrontier:
        return self.inner.frontier

    def cover(self, rows: int) -> None:
        """See to it that as many rows as wait in memory have been looked at."""
        lacking = rows - len(self._frontiers)
        if lacking > 0:
            read = self.inner.read(lacking)
            self.add(read.frontiers, read.factors)

    def cut_tail(self, keep: int) -> tuple[NDArray, NDArray]:
        """Those of rows that are put away: of all but the first so many that wait in memory."""
        cut = self._frontiers[keep:], self._factors[keep:]
        self._frontiers, self._factors = self._frontiers[:keep], self._factors[:keep]
        return cut

    def add(self, frontiers: NDArray, factors: NDArray) -> None:
        """Rows that were put away wait in memory again."""
        self._frontiers = np.concatenate([self._frontiers, frontiers])
        self._factors = np.concatenate([self._factors, factors])

    @property
    def nows(self) -> NDArray:
        return np.array([self.now], np.int64)

    def read(self, rows: int) -> Read:
        seen = min(rows, len(self._frontiers))
        frontiers, factors = self._frontiers[:seen], self._factors[:seen]
        self._frontiers, self._factors = self._frontiers[seen:], self._factors[seen:]
        if seen < rows:
            more = self.inner.read(rows - seen)
            frontiers = np.concatenate([frontiers, more.frontiers])
            factors = np.concatenate([factors, more.factors])
        if rows:
            self.now, self.factor = int(frontiers[-1]), int(factors[-1])
        return Read(np.zeros(rows, np.int64), frontiers, factors)

    def leave(self) -> None:
        self.inner.leave()

    def _check_restored(self) -> None:
        arrays = (self._frontiers, self._factors)
        expect(all(one.dtype == np.int64 and one.ndim == 1 for one in arrays), "frontiers and factors")
        same_length("frontiers and factors", *arrays)
