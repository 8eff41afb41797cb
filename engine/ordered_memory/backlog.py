"""Rows of one input that wait for the time of the others: the first in memory, the rest on the disk.

In:   the queue below a side of a join, into which rows come.
Out:  the same queue, from which the join takes; it holds the oldest rows, as many as are worked at once.
Kept: the rows behind these, in a spool, with their frontiers; the last of them in memory, until they are a
      block.

    on their way   [ 1 2 3 ]  queue     ( 4 5 6 )( 7 8 9 )  spool      10 11  to be written

Law: as long as rows are on the disk, some are in the queue, and all that have the time of the last of these:
so the queue tells the time as it would with all of them, and rows of one time are taken together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.queue import Queue
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.spool.spool import Spool
from penstock.engine.spool.spool_folder import SpoolFolder

from .frontier_reader import ReadAhead


class Backlog:
    """Of one side."""

    def __init__(self, queue: Queue, reader: ReadAhead, folder: SpoolFolder) -> None:
        self.reader = reader
        self.spool = Spool(folder)
        self.last_rows = 0
        """Rows that wait to be written, in memory."""
        self._queue = queue
        self._head = 0
        """Rows of the queue that come before those on the disk."""
        self._last: list[pa.RecordBatch] = []
        self._try_at = 0
        """How many rows must wait before writing is tried again, after there was no room."""

    @property
    def is_empty(self) -> bool:
        return not self._last and not len(self.spool)

    @property
    def rows(self) -> int:
        """That wait, but for those in the queue."""
        return self.spool.rows + self.last_rows

    def put_away(self, come: int, keep: int, block: int) -> None:
        """Move rows out of the queue that are behind others on the disk, or behind the first `keep` that wait
        for a time beyond `come`."""
        if self.is_empty:
            if self._queue.rows < keep + block:
                return
            keep += sum(int(one.ts.searchsorted(come, "right")) for one in self._queue.batches)
            if self._queue.rows < keep + block:
                return
            self._head = keep
        self.reader.cover(self._queue.rows)
        moved = self._queue.cut_tail(self._head)
        frontiers, factors = self.reader.cut_tail(self._head)
        at = 0
        for batch in moved:
            columns = [batch.column(place) for place in range(batch.width)]
            rows = slice(at, at + batch.length)
            self._last.append(record(batch.ts, frontiers[rows], factors[rows], columns))
            self.last_rows += batch.length
            at += batch.length
        if self.last_rows >= max(block, self._try_at):
            self._write(block)
        self.fill_queue()

    def _write(self, block: int) -> None:
        """Let what waits go to the disk, so many rows in a block."""
        if not self._last:
            return
        waiting = pa.Table.from_batches(self._last).combine_chunks().to_batches(max_chunksize=block)
        for at, rows in enumerate(waiting):
            ts = rows.column(0)
            if not self.spool.append(rows, ts[0].as_py(), ts[len(ts) - 1].as_py()):
                self._last = waiting[at:]
                self.last_rows = sum(one.num_rows for one in self._last)
                self._try_at = 2 * self.last_rows
                return
        self._last, self.last_rows, self._try_at = [], 0, 0

    # -- back ---------------------------------------------------------------------------------------

    def fetch(self, until: int, rows: int) -> None:
        """Bring back about so many rows, if there are that many up to this time."""
        while not self.is_empty and self._queue.rows < rows and self._last_time <= until:
            self._bring()
        self.fill_queue()

    def fill_queue(self) -> None:
        """Let the queue have rows, and all that have the time of its last one."""
        while not self.is_empty and (not self._queue.rows or self._next_time <= self._last_time):
            self._bring()
        self._head = self._queue.rows

    @property
    def last_time(self) -> int | None:
        """The time of the last row in the queue, if there are more behind it."""
        return None if self.is_empty else self._last_time

    @property
    def _last_time(self) -> int:
        return int(self._queue.batches[-1].ts[-1]) if self._queue.batches else -(1 << 62)

    @property
    def _next_time(self) -> int:
        block = self.spool.first
        return int(self._last[0].column(0)[0].as_py()) if block is None else block.least

    def _bring(self) -> None:
        """The next rows come back into the queue."""
        if self.spool.first is not None:
            found = [self.spool.take()]
        else:
            found, self._last, self.last_rows, self._try_at = self._last, [], 0, 0
        batches = []
        for rows in found:
            ts, frontiers, factors = (values_of(rows.column(place)) for place in range(3))
            batches.append(Batch(ts, rows.columns[3:]))
            self.reader.add(frontiers, factors)
        batch = concatenate(batches)
        self._queue.return_behind(batch)

    def clear(self) -> None:
        """Nobody asks for these rows any more."""
        self.spool.clear()
        self._last, self.last_rows = [], 0

    def _check(self) -> None:
        self.spool._check()
        assert self.last_rows == sum(one.num_rows for one in self._last), "rows that wait to be written"
        assert self.is_empty or self._queue.rows, "rows on the disk, and none in front of them"

    def _check_restored(self) -> None:
        expect(self.last_rows == sum(one.num_rows for one in self._last), "rows that wait to be written")
        expect(0 <= self._head <= self._queue.rows or self.is_empty, "rows in front of those on the disk")


def record(ts: NDArray, frontiers: NDArray, factors: NDArray, columns: list[pa.Array]) -> pa.RecordBatch:
    """Rows as they are written."""
    arrays = [pa.array(np.ascontiguousarray(one)) for one in (ts, frontiers, factors)]
    arrays += columns
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


def values_of(column: pa.Array) -> NDArray:
    """Integers that were written, in memory of their own."""
    return np.array(column.to_numpy(zero_copy_only=False), np.int64)
