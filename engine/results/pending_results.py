"""Results of one query that wait to be read.

Pairs of a join come as row numbers, and stay that until somebody reads them: however many queries are given a
pair, its columns are copied for those that are read. But numbers keep the memory alive that they refer to,
also when the join has long dropped the rows. So where that is much more than the copies would be, they are
copied (see results_memory.py).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.engine.rows.batch import Batch, Gather
from penstock.engine.views.joined_batch import JoinedBatch

from .results_memory import ResultsMemory, WaitingRows

FEW_QUERIES = (
    16  # up to so many copy what they are given at once, while it is in the cache: they will be read
)


class PendingResults:
    """Batches in the order they came; `finish` makes them what is given out."""

    def __init__(self, finish: Callable[[Batch], pa.RecordBatch], memory: ResultsMemory) -> None:
        self._finish = finish
        self._memory = memory
        self._rows: list[pa.RecordBatch | WaitingRows] = []

    def add(self, batch: Batch) -> None:
        """Keep rows whose columns may still be promises."""
        waiting = WaitingRows(batch, self._finish)
        self._rows.append(waiting if self._memory.add(waiting) else self._finish(batch))

    def add_finished(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)

    def _copied(self, rows: pa.RecordBatch | WaitingRows) -> pa.RecordBatch:
        if isinstance(rows, WaitingRows):
            rows.copy()
            self._memory.forget(rows)
            return rows.rows
        return rows

    def _copy(self) -> None:
        self._rows = list(map(self._copied, self._rows))

    def first(self) -> pa.RecordBatch | None:
        """The first batch, which stays kept; None if there is none."""
        if not self._rows:
            return None
        self._rows[0] = self._copied(self._rows[0])
        return self._rows[0]

    def drop_first(self) -> None:
        del self._rows[0]

    def drain(self) -> list[pa.RecordBatch]:
        """All of them, which are forgotten."""
        self._copy()
        rows, self._rows = self._rows, []
        return rows

    def leave(self) -> None:
        """The query has gone: whoever has it may still read what is kept, which is nobody else's concern."""
        for rows in self._rows:
            if isinstance(rows, WaitingRows):
                self._memory.forget(rows)

    def __len__(self) -> int:
        """Rows."""
        return sum(len(rows.rows if isinstance(rows, WaitingRows) else rows) for rows in self._rows)

    @property
    def nbytes(self) -> int:
        """With a share of the memory that results keep alive and nobody else has."""
        return int(sum(map(self._bytes_of, self._rows)))

    def _bytes_of(self, rows: pa.RecordBatch | WaitingRows) -> float:
        if not isinstance(rows, WaitingRows):
            return float(rows.get_total_buffer_size())
        if not isinstance(rows.rows, Batch):
            return float(rows.rows.get_total_buffer_size())
        return rows.rows.ts.nbytes + numbers_of(rows.rows) + self._memory.held_bytes(rows)

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint copies are a part, and not what they were to be made from."""
        self._copy()
        return self.__dict__


def numbers_of(batch: Batch) -> int:
    """Bytes of the row numbers of a batch."""
    if isinstance(batch, JoinedBatch) and batch.of is not None:
        return sum(one.nbytes for one in batch.refs)
    rows = {id(column.rows): column.rows for column in batch.lazy_columns if isinstance(column, Gather)}
    return sum(one.nbytes for one in rows.values())
