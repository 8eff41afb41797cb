"""From what a file holds to what a stream declares: which columns, and each value in the declared type.

Nothing is lost on the way: a nanosecond that is not whole microseconds, a number that does not fit, a text
that is not a number is an error that names the first such row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.errors import DataError, SchemaError, did_you_mean
from penstock.engine.types import SqlType, from_arrow

US = pa.timestamp("us")
SHOWN_COLUMNS = 12
SHOWN_CHARACTERS = 60

# A text with a time of day that ends in a zone: `12:00Z`, `12:00 UTC`, `12:00:00.5+02`, `12:00 -05:30`.
ZONED = r"^(?P<time>.*\d:\d.*?)\s*(?P<zone>[Zz]|UTC|[+-]\d{2}(?::?\d{2})?)$"
WHOLE_NUMBER = r"^[+-]?\d{1,19}$"

WANTED = {
    SqlType.BIGINT: "BIGINT",
    SqlType.DOUBLE: "DOUBLE",
    SqlType.BOOLEAN: "BOOLEAN (true, false, 1, 0)",
    SqlType.VARCHAR: "VARCHAR (UTF-8 text)",
    SqlType.TIMESTAMP: "TIMESTAMP (ISO text or whole microseconds since 1970)",
}


def match_columns(declared: Sequence[str], found: Sequence[str], source: str) -> list[int]:
    """For each declared column its position in the file: the exact name, else the only one but for case."""
    positions = []
    for name in declared:
        exact = [at for at, other in enumerate(found) if other == name]
        folded = [at for at, other in enumerate(found) if other.strip().lower() == name.lower()]
        fitting = exact or folded
        if not fitting:
            hint = did_you_mean(name, found) or ""
            meant = f" ({hint[0].lower()}{hint[1:]})" if hint.startswith("Did") else ""
            raise SchemaError(f"Expected a column `{name}`, found {list_names(found)}{meant}", source=source)
        if len(fitting) > 1:
            raise SchemaError(f"Expected one column `{name}`, found {len(fitting)} of them", source=source)
        positions.append(fitting[0])
    return positions


def list_names(names: Sequence[str]) -> str:
    """The names in backticks, the first few if there are many."""
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN_COLUMNS])
    more = len(names) - SHOWN_COLUMNS
    return (shown or "no columns") + (f" and {more} more" if more > 0 else "")


def convert_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `batch`, which stand in the order of `schema`, in its types; errors have local rows."""
    columns = [convert_column(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def convert_rows(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, DataError | None]:
    """The rows before the first bad one, and what is wrong with that one; all rows and None if none is bad.

    What a run gives before it stops at a bad row must not depend on where batches were cut.
    """
    try:
        return convert_batch(batch, schema), None
    except DataError as error:
        if error.row is None:
            raise
        # Another column may have a bad value in an earlier row.
        good, earlier = convert_rows(batch.slice(0, error.row - 1), schema)
        return good, earlier or error


def convert_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column in the type of `field`, or a DataError with the row, from 1, of the first bad value."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
        column = column.cast(type_)
    if pa.types.is_null(type_):
        return pa.nulls(len(column), field.type)
    change = _find_change(type_, field)
    try:
        return change(column)
    except pa.ArrowInvalid:
        row = _first_bad(column, change)
        raise DataError(
            f"Expected {WANTED[sql_type(field)]} in column `{field.name}`, found `{_show(column[row])}`",
            row=row + 1,
        ) from None


def sql_type(field: pa.Field) -> SqlType:
    """The SQL type a declared column has."""
    declared = from_arrow(field.type)
    assert declared is not None, f"a stream cannot declare {field.type}"
    return declared


def _find_change(found: pa.DataType, field: pa.Field) -> Callable[[pa.Array], pa.Array]:
    """How values of type `found` become the field's, or a SchemaError if they never can."""
    declared = sql_type(field)
    is_text = pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
    if is_text and declared is not SqlType.VARCHAR:
        return parse_times if declared is SqlType.TIMESTAMP else (lambda column: _parse(column, field.type))
    is_binary = pa.types.is_binary(found) or pa.types.is_large_binary(found)
    kind = from_arrow(found)
    is_number = kind is SqlType.DOUBLE or pa.types.is_integer(found) or pa.types.is_decimal(found)
    fits = {
        SqlType.BIGINT: is_number,
        SqlType.DOUBLE: is_number,
        SqlType.BOOLEAN: kind is SqlType.BOOLEAN,
        SqlType.VARCHAR: is_text or is_binary,
        SqlType.TIMESTAMP: kind is SqlType.TIMESTAMP or pa.types.is_integer(found),
    }
    if not fits[declared]:
        raise SchemaError(f"Expected {declared} in column `{field.name}`, found {found}")
    if declared is SqlType.VARCHAR:
        return _check_text
    if declared is SqlType.TIMESTAMP and pa.types.is_integer(found):
        return lambda column: column.cast(pa.int64()).cast(US)
    return lambda column: column.cast(field.type)


def _check_text(column: pa.Array) -> pa.Array:
    """Text as UTF-8; the way through binary is what makes Arrow look at the bytes."""
    raw = column if pa.types.is_binary(column.type) else column.cast(pa.binary())
    return raw.cast(pa.string())


def _parse(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Text as numbers or truth values, blanks around them allowed."""
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        return pc.utf8_trim_whitespace(column.cast(pa.string())).cast(type_)


def parse_times(column: pa.Array) -> pa.Array:
    """Text as microseconds UTC: ISO without a zone (taken as UTC), ISO with one, or whole microseconds."""
    for form in (US, pa.timestamp("us", "UTC"), pa.int64()):  # a whole column in one form is the usual case
        with suppress(pa.ArrowInvalid):
            return column.cast(form).cast(US)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    nothing = pa.scalar(None, pa.string())
    is_number = pc.match_substring_regex(text, WHOLE_NUMBER)
    is_zoned = pc.and_not(pc.match_substring_regex(text, ZONED), is_number)
    numbers = pc.if_else(is_number, pc.utf8_ltrim(text, "+"), nothing).cast(pa.int64()).cast(US)
    parts = pc.extract_regex(pc.if_else(is_zoned, text, nothing), ZONED)
    zone = pc.replace_substring_regex(pc.struct_field(parts, "zone"), "^(z|UTC)$", "Z")
    zoned = pc.binary_join_element_wise(pc.struct_field(parts, "time"), zone, "")
    plain = pc.if_else(pc.or_(is_number, is_zoned), nothing, text)
    return pc.coalesce(numbers, _parse_iso(zoned, "UTC"), _parse_iso(plain, None))


def _parse_iso(text: pa.Array, zone: str | None) -> pa.Array:
    """ISO text to microseconds; more than six decimals are fine as long as the rest are zeros."""
    try:
        times = text.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        times = text.cast(pa.timestamp("ns", zone))
    return times.cast(US)


def _first_bad(column: pa.Array, change: Callable[[pa.Array], pa.Array]) -> int:
    """Position of the first value that `change` refuses, by halving; some value is known to be refused."""
    low, high = 0, len(column)  # the first bad one is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            change(column.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _show(value: pa.Scalar) -> str:
    """The value for a message: one line, not too long, also if it is not UTF-8."""
    if (
        pa.types.is_string(value.type)
        or pa.types.is_large_string(value.type)
        or pa.types.is_binary(value.type)
    ):
        text = value.as_buffer().to_pybytes().decode("utf-8", errors="replace")
    elif pa.types.is_timestamp(value.type):
        text = str(value.cast(pa.int64())) + f" {value.type.unit}"
    else:
        text = str(value.as_py())
    text = " ".join(text.split()) if text.strip() else text
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
