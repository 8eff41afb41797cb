"""Many small chunks as one: each chunk costs as much as some hundred rows, wherever it goes.

What chunks say of themselves is looked at before they are copied, as copying relies on it. Arrow walks over
all chunks for the one and for the other, and takes as long for a chunk as for a few dozen numbers; numpy's
copies are the quickest there are, several times as quick as Arrow's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.rows.errors import DataError

from .sound import check_sound

MIN_CHUNK_ROWS = 1_024
"""Chunks of fewer rows on the average are put together."""
FEW_ROWS = 4
"""Texts in chunks of fewer rows are made anew one by one, which costs more per row and less per chunk."""


def is_cut_small(table: pa.Table) -> bool:
    """Whether a table should be put together first."""
    return len(table) < MIN_CHUNK_ROWS * (max((one.num_chunks for one in table.columns), default=0) - 1)


def put_together(table: pa.Table, names: Sequence[str], source: str) -> pa.Table:
    """The same rows in few chunks; names: of the columns, for errors."""
    columns = [put_column(column, name, source) for column, name in zip(table.columns, names, strict=True)]
    return pa.Table.from_arrays(columns, names=table.column_names)


def put_column(column: pa.ChunkedArray, name: str, source: str) -> pa.Array | pa.ChunkedArray:
    """One column's chunks as one."""
    type_ = column.type
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    has_few = is_text and len(column) < FEW_ROWS * column.num_chunks
    try:
        column.validate(full=has_few or pa.types.is_dictionary(type_))
    except pa.ArrowException as error:
        check_sound(column, name, source)  # says where
        reason = " ".join(str(error).split())
        raise DataError(
            f"Expected sound Arrow data in column `{name}`, found {reason}", source=source
        ) from None
    if has_few:
        return pa.array(column.to_numpy(), type_)
    if is_number(type_) and not column.null_count:
        return from_numbers(column.to_numpy(), type_)
    return pa.table([column], ["column"]).combine_chunks().column(0)  # a column's own method is slower


def is_number(type_: pa.DataType) -> bool:
    """Whether numpy has the same values in the same bytes."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_timestamp(type_))


def from_numbers(values: np.ndarray, type_: pa.DataType) -> pa.Array:
    """Times as integers, as numpy has a time that is none and Arrow makes it NULL."""
    if not pa.types.is_timestamp(type_):
        return pa.array(values, type_)
    return pa.array(values.view(np.int64)).view(type_)
