"""Text as times, and as numbers and truth values where a format has nothing but text."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from .time_units import US, WHOLE_NUMBER, Column, TimeUnit, from_integers, to_microseconds

# A text with a time of day that ends in a zone: `12:00Z`, `12:00 UTC`, `12:00:00.5+02`, `12:00 -05:30`.
ZONED = r"^(?P<time>.*\d:\d.*?)\s*(?P<zone>[Zz]|UTC|[+-]\d{2}(?::?\d{2})?)$"


WHOLE_DECIMAL = r"^([+-]?\d+)\.0+$"  # as integers among NULLs are often written


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
