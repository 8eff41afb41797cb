"""Columns that are promises: which memory they keep alive, and what copies of them would take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK
from penstock.engine.rows.batch import Batch, ColumnView, Cut, Gather, Joint, LazyColumn, View
from penstock.engine.rows.store import FixedView, TextView, Viewed

from .joined_batch import JoinedBatch
from .shelves_view import ShelvesView, Stored

VALUE_BYTES = 8
SAMPLE_ROWS = 4  # of a batch: batches are many, and what matters is the mean of all their texts


def stored_views(batch: Batch) -> list[Stored]:
    """What columns are to be copied from, each once; nothing if all are there, or one may change."""
    if isinstance(batch, JoinedBatch) and batch.of is not None:
        return list(dict.fromkeys(batch.of.views))
    found: dict[int, Stored] = {}
    return list(found.values()) if all(find_views(one, found) for one in batch.lazy_columns) else []


def find_views(column: LazyColumn, found: dict[int, Stored]) -> bool:
    """Add what a column is to be copied from, by its id; False if that is not known to stay as it is."""
    match column:
        case Gather(view=ColumnView() as view):
            return find_views(view.batch.lazy_columns[view.index], found)
        case Gather(view=FixedView() | TextView() | ShelvesView() as view):
            found[id(view)] = view
        case Gather():
            return False
        case Cut():
            return find_views(column.batch.lazy_columns[column.index], found)
        case Joint():
            return all(find_views(batch.lazy_columns[column.index], found) for batch in column.batches)
    return True


def arrays_of(view: Stored) -> list[Viewed]:
    """The arrays that a view reads."""
    if isinstance(view, ShelvesView):
        return [one for part in view.views for one in part.memory]
    return view.memory


def copied_bytes(batch: Batch) -> float:
    """About what a batch takes when its columns are copied."""
    if isinstance(batch, JoinedBatch) and (of := batch.of) is not None:
        texts = sum(mean_text_bytes(of.views[i], batch.refs[of.places[i]]) for i in of.texts)
        return batch.length * (VALUE_BYTES * (1 + len(of.views)) + texts)
    return batch.length * (VALUE_BYTES + sum(map(value_bytes, batch.lazy_columns)))


def value_bytes(column: LazyColumn) -> float:
    """About what a copied value takes."""
    match column:
        case Gather():
            if isinstance(column.view, ColumnView):
                return value_bytes(column.view.batch.lazy_columns[column.view.index])
            return VALUE_BYTES + mean_text_bytes(column.view, column.rows)
        case Cut():
            return value_bytes(column.batch.lazy_columns[column.index])
        case Joint():
            return max(value_bytes(batch.lazy_columns[column.index]) for batch in column.batches)
        case pa.Array():
            return VALUE_BYTES + (
                column.nbytes / max(1, len(column)) if pa.types.is_string(column.type) else 0
            )
    return VALUE_BYTES


def mean_text_bytes(view: View, rows: NDArray) -> float:
    """Length of the texts that a column is to have, by a few of them."""
    sample = rows[:: max(1, len(rows) // SAMPLE_ROWS) | 1]
    match view:
        case TextView():
            return view.text_bytes(sample) / max(1, len(sample))
        case ShelvesView() if not view.is_fixed:
            refs = sample.tolist()
            found = [view.views[ref >> ROW_BITS].text_bytes(np.array([ref & ROW_MASK])) for ref in refs]
            return sum(found) / max(1, len(found))
    return 0
