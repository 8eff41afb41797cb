"""Rows on their way from files to a stream, each knowing which row of which file it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Batch:
    """`times`: the running maximum of the time column over the whole input, in microseconds.

    Merging goes by it: a row that is late within its own input then comes as late, and no later, in
    the merged one. `files` holds positions in `names`, `rows` counts from 1 within the file.
    """

    data: pa.RecordBatch
    times: Int64s
    files: Int64s
    rows: Int64s
    names: list[str]

    def __len__(self) -> int:
        return len(self.times)

    def slice(self, start: int, stop: int) -> Batch:
        return Batch(
            self.data.slice(start, stop - start),
            self.times[start:stop],
            self.files[start:stop],
            self.rows[start:stop],
            self.names,
        )

    def place(self, row: int) -> tuple[str, int]:
        """File and row in it of the `row`th row here, from 1."""
        return self.names[self.files[row - 1]], int(self.rows[row - 1])


def running_times(column: pa.Array, start: int) -> Int64s:
    """The running maximum of a timestamp column from `start` on; a NULL changes nothing."""
    times = column.cast(pa.int64()).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    return np.maximum(np.maximum.accumulate(times), start) if len(times) else times


def rows_with_time(batch: Batch, time_column: str) -> Batch:
    """The rows that have a time; the batch itself if all do."""
    column = batch.data.column(time_column)
    if not column.null_count:
        return batch
    kept = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return Batch(
        batch.data.take(pa.array(kept)), batch.times[kept], batch.files[kept], batch.rows[kept], batch.names
    )


def merge_batches(batches: Sequence[Batch]) -> Batch:
    """One batch in order of `times`; equal times keep the order of `batches`."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches([batch.data for batch in batches])
    times = np.concatenate([batch.times for batch in batches])
    order = np.argsort(times, kind="stable")
    return Batch(
        table.take(order).combine_chunks().to_batches(len(order))[0],
        times[order],
        np.concatenate([batch.files for batch in batches])[order],
        np.concatenate([batch.rows for batch in batches])[order],
        batches[0].names,
    )
