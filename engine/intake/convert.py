"""Arrow columns as users have them become the five types of the engine, or an error that names the row.

This is the only way in: for what is pushed and for what is read from files. Nothing is lost on the way: a
nanosecond that is not whole microseconds, a number that does not fit are refused.

    declared     reads
    BIGINT       integers, whole floats, whole decimals
    DOUBLE       floats, decimals, integers that a double can hold
    BOOLEAN      booleans
    VARCHAR      text, bytes that are UTF-8
    TIMESTAMP    timestamps of any unit and zone, dates, ISO text, integers in the column's unit

Any of these may come in a dictionary, and a column without a type is all NULL. Text of a format that has
nothing but text (CSV) also becomes numbers and truth values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.rows.errors import SchemaError
from penstock.engine.rows.types import ARROW_TYPES, SqlType, from_arrow

from .sound import check_sound, first_bad, shorten, without_null_views
from .time_units import UNIT_WORDS, US, WHOLE_NUMBER, Column, TimeUnit, from_integers, to_microseconds

# A text with a time of day that ends in a zone: `12:00Z`, `12:00 UTC`, `12:00:00.5+02`, `12:00 -05:30`.
ZONED = r"^(?P<time>.*\d:\d.*?)\s*(?P<zone>[Zz]|UTC|[+-]\d{2}(?::?\d{2})?)$"
WHOLE_DECIMAL = r"^([+-]?\d+)\.0+$"  # as integers among NULLs are often written

WANTED = {
    SqlType.BIGINT: "BIGINT",
    SqlType.DOUBLE: "DOUBLE",
    SqlType.BOOLEAN: "BOOLEAN (true, false, 1, 0)",
    SqlType.VARCHAR: "VARCHAR (UTF-8 text)",
}


def wanted(type_: SqlType, unit: TimeUnit = "us") -> str:
    """What values of a declared type may be, for a message."""
    times = f"TIMESTAMP (ISO text or whole {UNIT_WORDS[unit].lower()} since 1970)"
    return WANTED.get(type_, times)


def convert_column(
    column: Column,
    type_: SqlType,
    name: str,
    source: str | None = None,
    unit: TimeUnit = "us",
    is_written: bool = False,
) -> Column:
    """The column as `type_` is carried; values that do not fit raise, with their row (from 1).

    unit: of integers that are times. is_written: the column is of a format that has nothing but text.
    """
    found = column.type
    change = find_change(found, type_, name, source, unit, is_written)
    check_sound(column, name, source)
    if found == ARROW_TYPES[type_]:
        return column
    try:
        return change(column)
    except pa.ArrowException:
        row = first_bad(column, change)
        assert row is not None, "some value does not fit"
        raise SchemaError(
            f"Expected {wanted(type_, unit)} in column `{name}`, found `{show(column[row])}`",
            source=source,
            row=row + 1,
        ) from None


def check_type(found: pa.DataType, type_: SqlType, name: str, source: str | None = None) -> None:
    """Raises SchemaError if columns of an Arrow type are never read as `type_`, whatever is in them."""
    find_change(found, type_, name, source, "us", False)


def find_change(
    found: pa.DataType, type_: SqlType, name: str, source: str | None, unit: TimeUnit, is_written: bool
) -> Callable[[Column], Column]:
    """How values of type `found` become those of `type_`, or a SchemaError if they never can."""
    target = ARROW_TYPES[type_]
    if pa.types.is_dictionary(found):
        value = found.value_type
        if pa.types.is_string_view(value):
            value = pa.string()
        elif pa.types.is_binary_view(value):
            value = pa.binary()
        rest = find_change(value, type_, name, source, unit, is_written)
        return lambda column: rest(decode(column))
    if pa.types.is_null(found) or found == target:
        return lambda column: column.cast(target)
    known = from_arrow(found)
    is_integer = pa.types.is_integer(found)
    if type_ is SqlType.TIMESTAMP:
        if is_integer:
            return lambda column: from_integers(column, unit)
        if known is SqlType.VARCHAR:
            return lambda column: parse_times(own_text(column), unit)
        if known is SqlType.TIMESTAMP:
            return lambda column: to_microseconds(without_zone(column), unit)
    elif type_ is SqlType.VARCHAR:
        if known is SqlType.VARCHAR:
            return own_text
        if pa.types.is_binary(found) or pa.types.is_large_binary(found):
            return lambda column: as_text(column, name, source)
        if pa.types.is_binary_view(found):
            return lambda column: as_text(plain(column), name, source)
    elif known is SqlType.VARCHAR and is_written:
        return lambda column: parse_values(column, target)
    elif known is type_ or (
        type_.is_numeric and (is_integer or known is SqlType.DOUBLE or pa.types.is_decimal(found))
    ):
        return lambda column: column.cast(target)
    raise SchemaError(f"Expected {type_} in column `{name}`, found {found}", source=source)


def decode(column: Column) -> Column:
    """The values of a dictionary, one for each row."""
    if isinstance(column, pa.ChunkedArray):
        values = column.type.value_type
        if is_view(values):
            values = plain(pa.array([], values)).type
        return pa.chunked_array([decode(chunk) for chunk in column.chunks], values)
    if is_view(column.type.value_type):  # Arrow cannot take from views by number
        column = pa.DictionaryArray.from_arrays(column.indices, plain(column.dictionary))
    return column.dictionary_decode()


def is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def plain(column: Column) -> Column:
    """Views of text or bytes, as polars has them, as text or bytes."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [plain(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, plain(pa.array([], column.type)).type)
    text = pa.string() if pa.types.is_string_view(column.type) else pa.binary()
    return without_null_views(column).cast(text)


def without_zone(column: Column) -> Column:
    """Instants: with a zone Arrow already counts from the epoch in UTC, and only the label goes."""
    zone = getattr(column.type, "tz", None)
    if zone is None:
        return column.cast(US) if pa.types.is_date(column.type) else column
    return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))


def own_text(column: Column) -> Column:
    """Text of any type as VARCHAR."""
    return plain(column) if is_view(column.type) else column.cast(pa.string())


def as_text(column: Column, name: str, source: str | None) -> Column:
    """Bytes as text, or DataError."""
    text = pa.large_string() if pa.types.is_large_binary(column.type) else pa.string()
    if isinstance(column, pa.ChunkedArray):
        seen = pa.chunked_array([chunk.view(text) for chunk in column.chunks], text)
    else:
        seen = column.view(text)
    check_sound(seen, name, source)
    return seen.cast(pa.string())


def show(value: pa.Scalar) -> str:
    """The value for a message: one line, not too long."""
    if pa.types.is_timestamp(value.type):
        return f"{value.cast(pa.int64())} {value.type.unit}"
    try:
        return shorten(str(value.as_py()))
    except (ValueError, OverflowError):  # what Python has no value for, a year beyond 9999
        return shorten(str(value))


def parse_values(column: Column, type_: pa.DataType) -> Column:
    """Text as numbers or truth values, blanks around them allowed."""
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
        if pa.types.is_integer(type_):
            text = pc.replace_substring_regex(text, WHOLE_DECIMAL, r"\1")
        return text.cast(type_)


def parse_times(column: Column, unit: TimeUnit = "us") -> Column:
    """Text as microseconds UTC: ISO with a zone or without (then UTC), or whole numbers in a unit."""
    for form in (US, pa.timestamp("us", "UTC")):  # a whole column in one form is the usual case
        with suppress(pa.ArrowInvalid):
            return column.cast(form).cast(US)
    with suppress(pa.ArrowInvalid):
        return from_integers(column.cast(pa.int64()), unit)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    nothing = pa.scalar(None, pa.string())
    is_number = pc.match_substring_regex(text, WHOLE_NUMBER)
    is_zoned = pc.and_not(pc.match_substring_regex(text, ZONED), is_number)
    numbers = from_integers(pc.if_else(is_number, pc.utf8_ltrim(text, "+"), nothing).cast(pa.int64()), unit)
    parts = pc.extract_regex(pc.if_else(is_zoned, text, nothing), ZONED)
    zone = pc.replace_substring_regex(pc.struct_field(parts, "zone"), "^(z|UTC)$", "Z")
    zoned = pc.binary_join_element_wise(pc.struct_field(parts, "time"), zone, "")
    plain = pc.if_else(pc.or_(is_number, is_zoned), nothing, text)
    return pc.coalesce(numbers, _parse_iso(zoned, "UTC", unit), _parse_iso(plain, None, unit))


def _parse_iso(text: Column, zone: str | None, unit: TimeUnit) -> Column:
    """ISO text to microseconds; more than six decimals are fine as long as the rest are zeros, or cut off."""
    try:
        return text.cast(pa.timestamp("us", zone)).cast(US)
    except pa.ArrowInvalid:
        times = text.cast(pa.timestamp("ns", zone))
        return to_microseconds(times.cast(pa.int64()).cast(pa.timestamp("ns")), unit)
