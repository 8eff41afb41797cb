"""Arrow columns as users have them become the five types of the engine, or an error that names the row."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from .errors import SchemaError
from .types import ARROW_TYPES, SqlType, from_arrow

READABLE = {
    SqlType.BIGINT: (SqlType.BIGINT, SqlType.DOUBLE),
    SqlType.DOUBLE: (SqlType.DOUBLE, SqlType.BIGINT),
    SqlType.BOOLEAN: (SqlType.BOOLEAN,),
    SqlType.VARCHAR: (SqlType.VARCHAR,),
    SqlType.TIMESTAMP: (SqlType.TIMESTAMP, SqlType.BIGINT),
}
"""Which columns a declared type reads: whole doubles as BIGINT, integers as TIMESTAMP in microseconds."""


def convert_column(column: pa.ChunkedArray, type_: SqlType, name: str, source: str) -> pa.ChunkedArray:
    """The column as `type_` is carried; values that do not fit raise, with their row (from 1)."""
    target = ARROW_TYPES[type_]
    found = column.type
    if found == target:
        return column
    if pa.types.is_null(found):
        return column.cast(target)
    known = SqlType.BIGINT if found == pa.uint64() else from_arrow(found)
    if known not in READABLE[type_]:
        is_text = type_ is SqlType.TIMESTAMP and known is SqlType.VARCHAR
        hint = (
            "Make times of the text first: pandas.to_datetime, or polars str.to_datetime" if is_text else None
        )
        raise SchemaError(f"Expected {type_} in column `{name}`, found {found}", source=source, hint=hint)

    def read(part: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_dictionary(found):
            part = part.cast(found.value_type)
        if type_ is not SqlType.TIMESTAMP:
            return part.cast(target)
        if known is SqlType.BIGINT:
            return part.cast(pa.int64()).cast(target)
        zone = getattr(part.type, "tz", None)
        # With a zone Arrow already counts from the epoch in UTC: only the label goes.
        return part.cast(pa.timestamp("us", zone)).cast(pa.int64()).cast(target)

    try:
        return read(column)
    except pa.ArrowInvalid:
        row = first_bad_row(column, read)
        value = column[row].as_py() if not pa.types.is_timestamp(found) else column[row].value
        raise SchemaError(
            f"Expected {type_} in column `{name}`, found `{value}` ({found}), which does not fit",
            source=source,
            row=row + 1,
        ) from None


def first_bad_row(column: pa.ChunkedArray, read: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> int:
    """Position of the first value that `read` refuses, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            read(column.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low
