"""Results that wait to be read.

Pairs of a join come as row numbers, and stay that until somebody reads them: however many queries are given a
pair, its columns are copied for those that are read. But numbers keep the memory alive that they refer to,
also when the join has long dropped the rows. So where that is much more than the copies would be, they are
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from .batch import Batch, ColumnView, Cut, Gather, Joint, LazyColumn, View
from .shelves_view import ShelvesView
from .store import FixedView, TextView

MOST_HELD = 1 << 17  # bytes that a query which nobody reads may keep alive in any case
VALUE_BYTES = 8
FEW_QUERIES = (
    16  # up to so many copy what they are given at once, while it is in the cache: they will be read
)


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
        held = memory_of(batch)
        if not held:
            self._rows.append(self._finish(batch))
            return
        self._rows.append(batch)
        self._held |= held
        self._copied_bytes += batch.length * (VALUE_BYTES + sum(map(value_bytes, batch.lazy_columns)))
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


def memory_of(batch: Batch) -> dict[int, int]:
    """Bytes of the arrays from which columns are to be copied; none if all are there, or one may change."""
    held: dict[int, int] = {}
    for column in batch.lazy_columns:
        found = memory_of_column(column)
        if found is None:
            return {}
        held |= found
    return held


def memory_of_column(column: LazyColumn) -> dict[int, int] | None:
    """The same of one column; None if it is not known to stay as it is."""
    match column:
        case Gather():
            return memory_of_view(column.view)
        case Cut():
            return memory_of_column(column.batch.lazy_columns[column.index])
        case Joint():
            return united(memory_of_column(batch.lazy_columns[column.index]) for batch in column.batches)
    return {}


def value_bytes(column: LazyColumn) -> int:
    """About what a copied value takes."""
    match column:
        case Gather():
            return value_bytes_of_view(column.view)
        case Cut():
            return value_bytes(column.batch.lazy_columns[column.index])
        case Joint():
            return max(value_bytes(batch.lazy_columns[column.index]) for batch in column.batches)
    return VALUE_BYTES


def value_bytes_of_view(view: View) -> int:
    match view:
        case TextView():
            return VALUE_BYTES + view.data.nbytes // max(1, len(view.starts))
        case ShelvesView():
            return max(map(value_bytes_of_view, view.views), default=VALUE_BYTES)
        case ColumnView():
            return value_bytes(view.batch.lazy_columns[view.index])
    return VALUE_BYTES


def memory_of_view(view: View) -> dict[int, int] | None:
    match view:
        case FixedView():
            arrays = [view.data]
        case TextView():
            arrays = [view.starts, view.data]
        case ShelvesView():
            return united(map(memory_of_view, view.views))
        case ColumnView():
            return memory_of_column(view.batch.lazy_columns[view.index])
        case _:
            return None
    if view.valid is not None:
        arrays.append(view.valid[0])
    return {id(array): array.nbytes for array in arrays}


def united(parts: Iterable[dict[int, int] | None]) -> dict[int, int] | None:
    held: dict[int, int] = {}
    for part in parts:
        if part is None:
            return None
        held |= part
    return held
