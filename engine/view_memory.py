"""Columns that are promises: which memory they keep alive, and what copies of them would take."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from .batch import Batch, ColumnView, Cut, Gather, Joint, LazyColumn, View
from .kernels.pairs import ROW_BITS, ROW_MASK
from .shelves_view import ShelvesView
from .store import FixedView, TextView, Viewed

VALUE_BYTES = 8
SAMPLE_ROWS = 4  # of a batch: batches are many, and what matters is the mean of all their texts

Memory = dict[int, Viewed]
"""Arrays by their id, lest one count twice."""


def memory_of(batch: Batch) -> Memory:
    """The arrays from which columns are to be copied; none if all are there, or one may change."""
    return united(map(memory_of_column, batch.lazy_columns)) or {}


def memory_of_column(column: LazyColumn) -> Memory | None:
    """The same of one column; None if it is not known to stay as it is."""
    match column:
        case Gather():
            return memory_of_view(column.view)
        case Cut():
            return memory_of_column(column.batch.lazy_columns[column.index])
        case Joint():
            return united(memory_of_column(batch.lazy_columns[column.index]) for batch in column.batches)
    return {}


def memory_of_view(view: View) -> Memory | None:
    match view:
        case FixedView() | TextView():
            return {id(one.array): one for one in view.memory}
        case ShelvesView():
            return united(map(memory_of_view, view.views))
        case ColumnView():
            return memory_of_column(view.batch.lazy_columns[view.index])
    return None


def united(parts: Iterable[Memory | None]) -> Memory | None:
    memory: Memory = {}
    for part in parts:
        if part is None:
            return None
        memory |= part
    return memory


def copied_bytes(batch: Batch) -> float:
    """About what a batch takes when its columns are copied."""
    return batch.length * (VALUE_BYTES + sum(map(value_bytes, batch.lazy_columns)))


def value_bytes(column: LazyColumn) -> float:
    """About what a copied value takes."""
    match column:
        case Gather():
            if isinstance(column.view, ColumnView):
                return value_bytes(column.view.batch.lazy_columns[column.view.index])
            return VALUE_BYTES + mean_text_bytes(column)
        case Cut():
            return value_bytes(column.batch.lazy_columns[column.index])
        case Joint():
            return max(value_bytes(batch.lazy_columns[column.index]) for batch in column.batches)
        case pa.Array():
            return VALUE_BYTES + (
                column.nbytes / max(1, len(column)) if pa.types.is_string(column.type) else 0
            )
    return VALUE_BYTES


def mean_text_bytes(column: Gather) -> float:
    """Length of the texts that a column is to have, by a few of them."""
    view, rows = column.view, column.rows
    sample = rows[:: max(1, len(rows) // SAMPLE_ROWS) | 1]
    match view:
        case TextView():
            return view.text_bytes(sample) / max(1, len(sample))
        case ShelvesView() if not all(isinstance(one, FixedView) for one in view.views):
            refs = sample.tolist()
            found = [view.views[ref >> ROW_BITS].text_bytes(np.array([ref & ROW_MASK])) for ref in refs]
            return sum(found) / max(1, len(found))
    return 0
