"""`AHEAD AT MOST INTERVAL '1' HOUR AFTER 20 ROWS`, behind a stream's WATERMARK."""

from __future__ import annotations

from penstock.engine.intake.ahead_rule import AheadRule
from penstock.engine.rows.errors import ParseError
from penstock.engine.rows.window import MAX_TS

from .durations import read_duration
from .source import fail
from .token_reader import TokenReader

BELIEVED_ROWS = 10
"""How many rows ahead in a row are believed, if nothing is said."""


def read_ahead(reader: TokenReader) -> AheadRule | None:
    """How far ahead of its stream a row may be; None if nothing is said."""
    if not reader.accept("AHEAD"):
        return None
    reader.expect("AT")
    reader.expect("MOST")
    limit_us = read_duration(reader)
    return AheadRule(limit_us, _read_rows(reader) if reader.accept("AFTER") else BELIEVED_ROWS)


def _read_rows(reader: TokenReader) -> int:
    """`n ROWS`, n of 1 or more."""
    position, token = reader.position, reader.peek()
    if token is None or token.token_type.name != "NUMBER":
        raise reader.unexpected("a number of rows after AFTER")
    text = str(reader.advance().text)
    if not text.isdecimal() or not 0 < int(text) < MAX_TS:
        raise fail(
            ParseError, f"Expected a whole number of rows above 0 after AFTER, found `{text}`", position
        )
    reader.expect("ROWS", "ROW")
    return int(text)
