"""Windows as users write them: in brackets behind a stream, and after WINDOW at the end.

[RANGE 5 MINUTES]   [ROWS 100]   [PARTITION BY item, shop ROWS 1]   [NOW]   [RANGE UNBOUNDED]
WINDOW 5 MINUTES    WINDOW 100 ROWS
"""

from __future__ import annotations

from penstock.engine.rows.errors import ParseError
from penstock.engine.rows.window import MAX_TS, Window

from .durations import A_DURATION, A_UNIT, read_duration
from .source import fail
from .token_reader import TokenReader

WINDOW_WORDS = ("RANGE", "ROWS", "PARTITION", "PARTITION BY", "NOW")
A_WINDOW = "RANGE 5 MINUTES, ROWS 100, PARTITION BY a ROWS 1, NOW or RANGE UNBOUNDED"


def read_bracket_window(reader: TokenReader) -> Window:
    """What stands between `[` and `]`; both are read here."""
    reader.advance()
    word = reader.word()
    if word == "NOW":
        reader.advance()
        window = Window("range", 1)
    elif word == "RANGE":
        reader.advance()
        if reader.accept("UNBOUNDED"):
            window = Window("range", None)
        else:
            window = Window("range", read_duration(reader))
    elif word == "ROWS":
        reader.advance()
        window = Window("rows", _read_rows(reader))
    elif word in ("PARTITION", "PARTITION BY"):
        window = _read_partition(reader)
    else:
        hint = reader.spelling_hint(("RANGE", "ROWS", "PARTITION BY", "NOW"))
        if reader.type() == "NUMBER":
            hint = "Write RANGE before a duration, ROWS before a number of rows"
        raise reader.unexpected(f"a window ({A_WINDOW})", hint)
    if reader.type() != "R_BRACKET":
        raise reader.unexpected("`]` after the window")
    reader.advance()
    return window


def read_tail_window(reader: TokenReader) -> Window:
    """What stands behind WINDOW: a duration, or a number of rows."""
    number_at = 1 if reader.type() == "DASH" else 0
    if reader.type(number_at) == "NUMBER" and reader.word(number_at + 1) in ("ROWS", "ROW"):
        size = _read_rows(reader)
        reader.advance()
        return Window("rows", size)
    if reader.type() == "NUMBER" and (reader.peek(1) is None or reader.type(1) != "VAR"):
        reader.advance()
        raise reader.unexpected(
            f"a unit after WINDOW {reader.tokens[reader.index - 1].text}: {A_UNIT} or ROWS"
        )
    if reader.type() not in ("NUMBER", "DASH") and reader.word() != "INTERVAL":
        hint = None
        if reader.word() in (*WINDOW_WORDS, "UNBOUNDED"):
            hint = "Write windows other than a duration behind the stream, as in `s [NOW]`"
        raise reader.unexpected(f"{A_DURATION}, or 100 ROWS, after WINDOW", hint)
    return Window("range", read_duration(reader))


def _read_partition(reader: TokenReader) -> Window:
    if reader.advance().text.upper() == "PARTITION":
        reader.expect("BY")
    names = [reader.read_name("a column after PARTITION BY")[0]]
    while reader.type() == "COMMA":
        reader.advance()
        names.append(reader.read_name("a column after `,`")[0])
    reader.expect("ROWS")
    return Window("rows", _read_rows(reader), tuple(names))


def _read_rows(reader: TokenReader) -> int:
    position, first = reader.position, reader.index
    minus = reader.type() == "DASH" and reader.advance() is not None
    token = reader.peek()
    if token is None or token.token_type.name != "NUMBER" or not token.text.isdecimal():
        raise reader.unexpected("a whole number of rows")
    reader.advance()
    digits = token.text.lstrip("0")
    if minus or not digits:
        raise fail(ParseError, f"Expected 1 row or more, found {reader.show_since(first)}", position)
    if len(digits) > 18 or int(digits) >= MAX_TS:
        raise fail(ParseError, f"Expected fewer than 10^18 rows, found {reader.show_since(first)}", position)
    return int(digits)
