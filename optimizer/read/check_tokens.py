"""Refuses what the stock parser would let pass silently.

It skips empty items of a list, a dot before a name in FROM, AS behind SELECT and EXCEPT behind `*`, and takes
AND after BETWEEN, THEN after WHEN and ON's condition as optional; it joins strings that stand side by side.
Each of those is a slip, and the query would mean something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.rows.errors import ParseError, UnsupportedError

from .read_tail import EMITS, LATES, begins_tail
from .source import Source, Token, fail, word_of
from .token_reader import TokenReader

# Words that end a list or a condition: nothing that needs an operand may stand before one.
_BOUNDARIES = frozenset(
    {"FROM", "WHERE", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "JOIN", "ON"}
    | {"R_PAREN", "R_BRACKET", "COMMA"}
)
_CONDITIONS = frozenset({"ON", "WHERE", "HAVING"})
_NEEDS_OPERAND = _CONDITIONS | {"COMMA", "GROUP_BY", "SELECT", "ALIAS", "DISTINCT"}
# A comma in FROM is followed by a stream, not by a join, whose first word the parser takes all the same.
_JOINS = frozenset({"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF"})
# What may stand between BETWEEN and its AND, or WHEN and its THEN, only next to an operator.
_OPERAND_ENDS = frozenset({"NUMBER", "VAR", "IDENTIFIER", "R_PAREN"})
# What the stock parser skips behind a `*` if no brackets follow; EXCEPT may also begin a set operation.
_STAR_WORDS = ("EXCEPT", "EXCLUDE", "REPLACE", "RENAME")
_BEFORE_NAMES = frozenset({"FROM", "JOIN", "COMMA", "L_PAREN"})
_OPERANDS = frozenset({"NUMBER", "STRING", "IDENTIFIER", "VAR"})


def check_token(source: Source, tokens: Sequence[Token], index: int, clause: str) -> None:
    """Refuses the token at `index` if what follows it is not what it needs; `clause` is where it stands."""
    token = tokens[index]
    kind = token.token_type.name
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    next_kind = "" if following is None else following.token_type.name
    touches = following is not None and following.start == token.end + 1
    reader = TokenReader(source, tokens, index + 1)
    if kind in _NEEDS_OPERAND:
        _check_operand(reader, kind, clause)
    elif kind == "BETWEEN":
        _check_until(reader, "AND", "BETWEEN")
    elif kind == "WHEN":
        _check_until(reader, "THEN", "WHEN")
    elif kind == "USING" and next_kind == "L_PAREN":
        _check_names(reader)
    elif kind == "L_PAREN" and next_kind == "COMMA":
        raise reader.unexpected("an expression after `(`")
    elif kind == "STRING" and next_kind == "STRING":
        raise reader.unexpected("a comma or an operator between two strings")
    elif kind == "DOT" and index and tokens[index - 1].token_type.name in _BEFORE_NAMES:
        raise fail(ParseError, "Expected a name, found `.`", source.position(token.start))
    elif kind == "STAR" and clause == "from":
        raise fail(ParseError, "Expected a stream in FROM, found `*`", source.position(token.start))
    elif kind == "NUMBER" and next_kind == "VAR" and touches and following is not None:
        written = source.text[token.start : following.end + 1]
        raise fail(ParseError, f"Expected a number, found `{written[:40]}`", source.position(token.start))
    elif kind in ("COLON_EQ", "PIPE_GT"):
        raise fail(
            ParseError, f"Expected an operator, found {source.show(token)}", source.position(token.start)
        )
    elif kind == "STAR" and word_of(following) in _STAR_WORDS:
        reader.advance()
        if reader.type() not in ("L_PAREN", "SELECT") and reader.word() not in ("ALL", "DISTINCT"):
            raise reader.unexpected(f"`(` after `{word_of(following)}`")
    elif kind in ("ARRAY", "MAP", "STRUCT", "NESTED") and next_kind == "LT":
        # The stock parser's compiled build has no limit to how deep such types may nest.
        message = f"Expected BIGINT, DOUBLE, BOOLEAN, VARCHAR or TIMESTAMP, found `{word_of(token)}<`"
        raise fail(UnsupportedError, message, source.position(token.start))


def _check_operand(reader: TokenReader, kind: str, clause: str) -> None:
    index = reader.index - 1
    if kind == "DISTINCT" and reader.type() in ("FROM", "ON"):
        # IS DISTINCT FROM, DISTINCT ON.
        return
    if kind == "SELECT" and reader.word() == "ALL":
        reader.advance()
    if kind in ("SELECT", "DISTINCT") and reader.word() == "AS":
        raise reader.unexpected(f"an expression after {reader.source.show(reader.tokens[index])}")
    joins = kind == "COMMA" and clause == "from" and _begins_join(reader)
    if not joins and not reader.at_end and reader.type() not in _BOUNDARIES and not _follows_tail(reader):
        return
    what = "a condition" if kind in _CONDITIONS else "a name" if kind == "ALIAS" else "an expression"
    if kind == "COMMA" and clause == "from":
        what = "a stream, a table or a sub-query"
    raise reader.unexpected(f"{what} after {reader.source.show(reader.tokens[index])}")


def _begins_join(reader: TokenReader) -> bool:
    """Whether the words of a JOIN follow, and not a name that is one of them."""
    ahead = 0
    while reader.word(ahead) in _JOINS:
        ahead += 1
    return ahead > 0 and reader.word(ahead) == "JOIN"


def _check_names(reader: TokenReader) -> None:
    """Refuses a qualified name in USING, whose qualifier the stock parser drops."""
    while not reader.at_end and reader.type() != "R_PAREN":
        if reader.type() == "DOT":
            raise reader.unexpected("plain column names in USING")
        reader.advance()


def _follows_tail(reader: TokenReader) -> bool:
    """Whether a tail clause follows where an operand is missing: `ON EMIT CHANGES`."""
    if reader.word() == "WINDOW":
        return reader.type(1) == "NUMBER"
    choices = {"EMIT": EMITS, "HOP": ("BY",), "LATE": LATES}
    return reader.word(1) in choices.get(reader.word(), ())


def _check_until(reader: TokenReader, wanted: str, after: str) -> None:
    """Refuses an operand that ends without `wanted` behind it."""
    depth = cases = 0
    while not reader.at_end:
        kind = reader.type()
        if kind in ("L_PAREN", "L_BRACKET"):
            depth += 1
        elif kind in ("R_PAREN", "R_BRACKET") and depth:
            depth -= 1
        elif depth:
            pass
        elif kind == "CASE":
            cases += 1
        elif kind == "END" and cases:
            cases -= 1
        elif cases:
            pass
        elif reader.word() == wanted:
            return
        elif kind in _BOUNDARIES - {"FROM"} or kind in ("WHEN", "ELSE", "END") or _is_apart(reader):
            break
        reader.advance()
    raise reader.unexpected(f"`{wanted}` after {after}")


def _is_apart(reader: TokenReader) -> bool:
    """Whether the next token begins an operand where an operator should stand."""
    if begins_tail(reader.tokens, reader.index):
        return True
    before, kind = reader.tokens[reader.index - 1].token_type.name, reader.type()
    if before == "NUMBER" and kind == "VAR":
        # INTERVAL 5 SECONDS
        return word_of(reader.tokens[reader.index - 2]) not in ("INTERVAL", "-")
    return before in _OPERAND_ENDS and kind in _OPERANDS
