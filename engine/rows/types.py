"""The five SQL types of a column, the two more that only expressions have, and their Arrow twins.

INT is BIGINT and FLOAT is DOUBLE: one width each, so that kernels and keys know one form. TIMESTAMP is
microseconds UTC, carried as Arrow timestamp[us] without a zone. INTERVAL (microseconds) and NULL are the
types of literals and of arithmetic on times, never of a stored column.
"""

from __future__ import annotations

import enum

import pyarrow as pa


class SqlType(enum.Enum):
    """A type as SQL spells it; the value is that spelling."""

    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    VARCHAR = "VARCHAR"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"
    NULL = "NULL"

    def __str__(self) -> str:
        return self.value

    @property
    def is_numeric(self) -> bool:
        return self in (SqlType.BIGINT, SqlType.DOUBLE)


ARROW_TYPES: dict[SqlType, pa.DataType] = {
    SqlType.BIGINT: pa.int64(),
    SqlType.DOUBLE: pa.float64(),
    SqlType.BOOLEAN: pa.bool_(),
    SqlType.VARCHAR: pa.string(),
    SqlType.TIMESTAMP: pa.timestamp("us"),
    SqlType.INTERVAL: pa.duration("us"),
    SqlType.NULL: pa.null(),
}


def from_arrow(type_: pa.DataType) -> SqlType | None:
    """The SQL type an Arrow column can be read as without loss, None if there is none."""
    if pa.types.is_boolean(type_):
        return SqlType.BOOLEAN
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return SqlType.BIGINT
    if pa.types.is_floating(type_):
        return SqlType.DOUBLE
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return SqlType.TIMESTAMP
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return SqlType.VARCHAR
    if pa.types.is_dictionary(type_):
        return from_arrow(type_.value_type)
    return None
