"""The rows of a micro-batch, as Arrow, become one table per stream in time order.

Spark gives the rows of a batch in no order. They are put into order here and not by Spark, whose sort reads
the input twice. Rows of equal time stay in the order they came. Rows without a time are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.rows.errors import DataError, UsageError

from .dropped import with_time
from .tag_streams import TAG


def split_batch(
    table: pa.Table, time_columns: Mapping[str, str], untimed: Counter[str] | None = None
) -> dict[str, pa.Table]:
    """Rows by stream, each in time order; streams without rows are left out.

    `time_columns`: by stream. The table has a column `_stream`, unless there is but one. `untimed`: takes, by
    stream, how many rows had no time.
    """
    if TAG not in table.schema.names:
        if len(time_columns) != 1:
            names = ", ".join(f"`{name}`" for name in time_columns)
            raise UsageError(
                f"Expected a column `{TAG}` that says whose a row is, as there are {names}, found none: "
                "unite the DataFrames with tag_streams"
            )
        parts = {next(iter(time_columns)): table}
    else:
        parts = _rows_by_tag(table, {name.lower(): name for name in time_columns})
    timed = {}
    for stream, part in parts.items():
        rows = with_time(part, time_columns[stream])
        if untimed is not None:
            untimed[stream] += part.num_rows - rows.num_rows
        if rows.num_rows:
            timed[stream] = in_time_order(rows, time_columns[stream])
    return timed


def _rows_by_tag(table: pa.Table, streams: Mapping[str, str]) -> dict[str, pa.Table]:
    tags = table.column(TAG).combine_chunks().dictionary_encode()
    names = tags.dictionary.to_pylist()
    codes = np.asarray(tags.indices.fill_null(len(names)))
    rest = table.drop_columns([TAG])
    parts: dict[str, pa.Table] = {}
    for code, name in enumerate([*names, None]):
        rows = np.flatnonzero(codes == code)
        if not len(rows):
            continue
        stream = None if name is None else streams.get(name.lower())
        if stream is None:
            known = ", ".join(f"`{one}`" for one in streams.values())
            raise DataError(
                f"Expected one of {known} in column `{TAG}`, found `{name or 'NULL'}`", row=int(rows[0]) + 1
            )
        parts[stream] = take_rows(rest, rows)
    return parts


def take_rows(table: pa.Table, rows: NDArray) -> pa.Table:
    """Some rows of the table, given in rising order; without copying if nothing lies between them."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return table.take(pa.array(rows))


def in_time_order(table: pa.Table, time_column: str) -> pa.Table:
    """The rows, all of which have a time, by it; the table itself if they are so already."""
    column = _find(table, time_column)
    if column is None:
        return table
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)))
    elif not pa.types.is_integer(column.type):
        return table
    times = column.cast(pa.int64()).to_numpy()
    if (times[1:] >= times[:-1]).all():
        return table
    return table.take(pa.array(np.argsort(times, kind="stable")))


def _find(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """The column of this name, whatever its case; None if there is none, or more than one."""
    found = [at for at, other in enumerate(table.schema.names) if other.lower() == name.lower()]
    return table.column(found[0]) if len(found) == 1 else None
