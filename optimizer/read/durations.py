"""Durations as users write them, to whole microseconds.

    5 MINUTES   60 min   0.5 SECONDS   INTERVAL '5' SECOND   INTERVAL 5 SECONDS   INTERVAL '1 hour 30 minutes'

A duration that is not a whole number of microseconds is refused, not rounded.
"""

from __future__ import annotations

import decimal
import re

from penstock.engine.rows.errors import ParseError
from penstock.engine.rows.window import MAX_TS
from penstock.optimizer.tree.logical import Position

from .source import fail
from .token_reader import TokenReader, spelling_hint

UNITS_US: dict[str, int] = {
    word: size
    for size, words in (
        (1, "MICROSECOND MICROSECONDS USEC USECS US"),
        (1_000, "MILLISECOND MILLISECONDS MSEC MSECS MS"),
        (1_000_000, "SECOND SECONDS SEC SECS S"),
        (60_000_000, "MINUTE MINUTES MIN MINS"),
        (3_600_000_000, "HOUR HOURS HR HRS H"),
        (86_400_000_000, "DAY DAYS D"),
    )
    for word in words.split()
}
UNIT_NAMES = ("MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
A_UNIT = "MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"
A_DURATION = "a duration such as 5 MINUTES"

_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)")


def count_microseconds(number: str, unit: str) -> int | None:
    """`number` units in microseconds; None if the number is none or the result is not whole.

    Raises OverflowError beyond what a window can span.
    """
    try:
        value = decimal.Decimal(number)
    except decimal.InvalidOperation:
        return None
    if not value.is_finite():
        return None
    # Powers of ten far out would take for ever to multiply out.
    if value and value.adjusted() > 20:
        raise OverflowError(number)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "finite numbers have an integer exponent"
    if value and exponent < -30:
        return None
    with decimal.localcontext(prec=100):
        size = value * UNITS_US[unit.upper()]
        if size != size.to_integral_value():
            return None
        if abs(size) >= MAX_TS:
            raise OverflowError(number)
        return int(size)


def read_interval_text(text: str) -> int | None:
    """`1 hour 30 minutes` in microseconds; None if it is not a list of numbers with units."""
    total, end = 0, 0
    while found := _PART.match(text, end):
        if found[2].upper() not in UNITS_US:
            return None
        size = count_microseconds(found[1], found[2])
        if size is None:
            return None
        total, end = total + size, found.end()
    if abs(total) >= MAX_TS:
        raise OverflowError(text)
    return total if end and not text[end:].strip() else None


def read_duration(reader: TokenReader) -> int:
    """A duration of more than nothing, in microseconds."""
    position, first = reader.position, reader.index
    size = _read_signed_duration(reader, position)
    if size <= 0:
        raise fail(
            ParseError, f"Expected a duration of more than 0, found {reader.show_since(first)}", position
        )
    return size


def read_slack(reader: TokenReader) -> int:
    """A duration of 0 or more, in microseconds."""
    position, first = reader.position, reader.index
    size = _read_signed_duration(reader, position)
    if size < 0:
        raise fail(
            ParseError, f"Expected a duration of 0 or more, found {reader.show_since(first)}", position
        )
    return size


def _read_signed_duration(reader: TokenReader, position: Position) -> int:
    first = reader.index
    with_interval = reader.accept("INTERVAL") is not None
    minus = not with_interval and reader.type() == "DASH" and reader.advance() is not None
    try:
        size = _read_size(reader, with_interval)
    except OverflowError:
        found = reader.show_since(first)
        message = f"Expected a duration of less than 2^62 microseconds, found {found}"
        raise fail(ParseError, message, position) from None
    return -size if minus else size


def _read_size(reader: TokenReader, with_interval: bool) -> int:
    minus = with_interval and reader.type() == "DASH" and reader.advance() is not None
    kinds = ("NUMBER", "STRING") if with_interval else ("NUMBER",)
    if reader.type() not in kinds:
        raise reader.unexpected(A_DURATION)
    position, token = reader.position, reader.advance()
    if token.token_type.name == "STRING" and reader.word() not in UNITS_US:
        size = read_interval_text(token.text)
        if size is None:
            expected = f"an interval such as '5 seconds' in {A_UNIT}"
            raise fail(ParseError, f"Expected {expected}, found {reader.source.show(token)}", position)
    else:
        unit = read_unit(reader, str(token.text))
        size = count_microseconds(str(token.text).strip(), unit)
        if size is None:
            message = f"Expected a whole number of microseconds, found `{token.text} {unit}`"
            raise fail(ParseError, message, position)
    return -size if minus else size


def read_unit(reader: TokenReader, number: str) -> str:
    """The unit after a number, as written."""
    if reader.word() not in UNITS_US:
        hint = spelling_hint(reader.word(), UNIT_NAMES)
        if reader.word() == "M":
            hint = "Write `min` for minutes, `ms` for milliseconds"
        raise reader.unexpected(f"a unit after {number[:40]}: {A_UNIT}", hint)
    return str(reader.advance().text)
