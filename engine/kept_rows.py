"""Results that wait to be read.

Pairs of a join come as row numbers, and stay that until somebody reads them: however many queries are given a
pair, its columns are copied for those that are read. But numbers keep the memory alive that they refer to,
also when the join has long dropped the rows. So where that is much more than the copies would be, they are
copied.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from numpy.typing import NDArray

from .batch import Batch, Gather, View
from .shelves_view import ShelvesView
from .store import FixedView, TextView

MOST_HELD = 1 << 17  # bytes that a query which nobody reads may keep alive in any case
VALUE_BYTES = 8


class KeptRows:
    """Batches in the order they came; `finish` makes them what is given out."""

    def __init__(self, finish: Callable[[Batch], pa.RecordBatch]) -> None:
        self._finish = finish
        self._rows: list[pa.RecordBatch | Batch] = []
        self._held: dict[int, int] = {}
        """Bytes of the arrays that batches refer to, which keep them alive."""
        self._copied_bytes = 0
        """What copies of these batches would take, about."""

    def add(self, batch: Batch) -> None:
        """Keep rows whose columns may still be promises."""
        arrays = memory_of(batch)
        if not arrays:
            self._rows.append(self._finish(batch))
            return
        self._rows.append(batch)
        self._held |= {id(array): array.nbytes for array in arrays}
        self._copied_bytes += VALUE_BYTES * batch.length * (1 + batch.width)
        if sum(self._held.values()) > max(MOST_HELD, 2 * self._copied_bytes):
            self._copy()

    def add_finished(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)

    def _copy(self) -> None:
        self._rows = [self._finish(rows) if isinstance(rows, Batch) else rows for rows in self._rows]
        self._held, self._copied_bytes = {}, 0

    def first(self) -> pa.RecordBatch | None:
        """The first batch, which stays kept; None if there is none."""
        if not self._rows:
            return None
        if isinstance(self._rows[0], Batch):
            self._rows[0] = self._finish(self._rows[0])
        return self._rows[0]

    def drop_first(self) -> None:
        del self._rows[0]

    def drain(self) -> list[pa.RecordBatch]:
        """All of them, which are forgotten."""
        self._copy()
        rows, self._rows = self._rows, []
        return rows

    def __len__(self) -> int:
        """Rows."""
        return sum(len(rows) for rows in self._rows)

    @property
    def nbytes(self) -> int:
        """With all that is kept alive, also if others have it too."""
        own = sum(
            rows.ts.nbytes + numbers_of(rows) if isinstance(rows, Batch) else rows.get_total_buffer_size()
            for rows in self._rows
        )
        return own + sum(self._held.values())

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint copies are a part, and not what they were to be made from."""
        self._copy()
        return self.__dict__


def numbers_of(batch: Batch) -> int:
    """Bytes of the row numbers of a batch."""
    rows = {id(column.rows): column.rows for column in batch.lazy_columns if isinstance(column, Gather)}
    return sum(one.nbytes for one in rows.values())


def memory_of(batch: Batch) -> list[NDArray]:
    """The arrays from which columns are to be copied; none if all are there, or some are other promises."""
    found: list[NDArray] = []
    for column in batch.lazy_columns:
        if isinstance(column, pa.Array):
            continue
        arrays = arrays_of(column.view) if isinstance(column, Gather) else []
        if not arrays:
            return []
        found += arrays
    return found


def arrays_of(view: View) -> list[NDArray]:
    """What a stored column is read from; nothing if it is not known to stay as it is."""
    if isinstance(view, FixedView):
        return [view.data, *(() if view.valid is None else view.valid[:1])]
    if isinstance(view, TextView):
        return [view.starts, view.data, *(() if view.valid is None else view.valid[:1])]
    if isinstance(view, ShelvesView):
        parts = [arrays_of(one) for one in view.views]
        return [array for part in parts for array in part] if all(parts) else []
    return []
