"""The clauses behind the relational part of a query, which no other SQL has.

    [WINDOW duration | WINDOW n ROWS] [HOP BY duration [ORIGIN moment]] [EMIT kind] [LATE DROP | ERROR]

That order is the documented one; any other is as clear and is taken too. Each at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.rows.errors import ParseError
from penstock.engine.rows.window import MAX_TS
from penstock.optimizer.tree.logical import Hop

from .durations import read_duration
from .moments import read_moment
from .read_window import WINDOW_WORDS, read_tail_window
from .source import Token, fail, word_of, words
from .statements import Tail, WrittenWindow
from .token_reader import SEPARATED, STATEMENT_STARTS, TokenReader, spelling_hint

CLAUSES = ("WINDOW", "HOP", "EMIT", "LATE")
EMITS = ("INSERTS", "CHANGES", "DELTA", "COMPLETE", "FINAL")
LATES = ("DROP", "ERROR")

# A tail clause follows something that is complete; after one of these the word is a name instead.
_OPERAND_ENDS = frozenset(
    {"VAR", "IDENTIFIER", "NUMBER", "STRING", "R_PAREN", "R_BRACKET", "END", "TRUE", "FALSE", "NULL"}
)
_OPENING_WORDS = words(
    "SELECT DISTINCT ALL FROM WHERE GROUP HAVING ON AND OR NOT IN IS LIKE ILIKE BETWEEN CASE WHEN THEN ELSE "
    "AS JOIN UNION EXCEPT INTERSECT MINUS INTERVAL EXISTS BY USING WITH"
)


def begins_tail(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token begins a tail clause, and is not a column or an alias of that name."""
    word = word_of(tokens[index])
    if word not in CLAUSES or index == 0 or not ends_operand(tokens[index - 1]):
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    kind = "" if following is None else following.token_type.name
    if word == "WINDOW":
        # WINDOW w AS (...) is the standard's named window: the stock parser's, refused later by name.
        named = index + 2 < len(tokens) and word_of(tokens[index + 2]) == "AS"
        is_word = kind == "VAR" or word_of(following) in (*WINDOW_WORDS, "INTERVAL")
        return kind in ("", "NUMBER", "DASH", "STRING") or (is_word and not named)
    if word == "HOP":
        return kind in ("NUMBER", "INTERVAL") or word_of(following) == "BY"
    if word == "EMIT":
        return kind in ("", "VAR", "STRING") or word_of(following) in ("INSERT", "DELETE", "UPDATE", "ALL")
    return kind in ("", "VAR", "STRING") or word_of(following) in ("DROP", "IGNORE")


def ends_operand(token: Token) -> bool:
    """Whether a clause or a statement may begin after the token."""
    word = word_of(token)
    if word in _OPENING_WORDS:
        return False
    return token.token_type.name in _OPERAND_ENDS or word[:1].isalpha()


def read_tail(reader: TokenReader) -> Tail:
    """Everything up to the end of the statement."""
    found: dict[str, Any] = {}
    last = "the query"
    while not reader.at_end:
        position, clause = reader.position, reader.word()
        if clause not in CLAUSES:
            hint = spelling_hint(clause, ("WINDOW", "HOP BY", "EMIT", "LATE"))
            at_the_end = "WINDOW, HOP BY, EMIT and LATE are the last clauses of a query"
            if clause in STATEMENT_STARTS:
                at_the_end = SEPARATED
            rest = [
                f"`{name} BY`" if name == "HOP" else f"`{name}`"
                for name in CLAUSES
                if name.lower() not in found
            ]
            expected = ", ".join([*rest, "the end of the query"][:-1]) + " or the end of the query"
            raise reader.unexpected(
                f"{expected} after {last}" if rest else f"the end after {last}", hint or at_the_end
            )
        if clause.lower() in found:
            raise fail(ParseError, f"Expected {clause} once, found it twice", position)
        reader.advance()
        if clause == "WINDOW":
            found["window"] = WrittenWindow(read_tail_window(reader), position)
        elif clause == "HOP":
            reader.expect("BY")
            size = read_duration(reader)
            origin = _read_moment(reader) if reader.accept("ORIGIN") else 0
            found["hop"] = Hop(size, origin, position)
        elif clause == "EMIT":
            found["emit"] = reader.expect(*EMITS).text.lower()
            found["emit_position"] = position
        else:
            found["late"] = reader.expect(*LATES).text.lower()
        last = "HOP BY" if clause == "HOP" else clause
    return Tail(**found)


def _read_moment(reader: TokenReader) -> int:
    """A quoted moment, TIMESTAMP before it or not, or whole microseconds since the epoch."""
    reader.accept("TIMESTAMP")
    token = reader.peek()
    moment: int | None = None
    if token is not None and token.token_type.name == "STRING":
        moment = read_moment(token.text)
    elif token is not None and token.token_type.name == "NUMBER" and token.text.isdecimal():
        moment = int(token.text) if len(token.text) < 20 else None
    if moment is None or abs(moment) >= MAX_TS:
        raise reader.unexpected("a moment such as '2016-10-01 00:00:00' after ORIGIN")
    reader.advance()
    return moment
