"""Takes our own clauses out of a query's tokens, so that the stock parser can read the rest.

What it lifts: the windows `[...]` behind from-items, and the tail. What it rewrites, because the stock
parser reads it differently or not at all: `//`, MINUS, and a bare JOIN (to INNER JOIN, so that it can be told
from a comma). What it refuses: brackets that do not match or are nested so deep that a recursive parser could
overrun its stack, and what `check_tokens.py` finds.
Tokens keep their offsets: positions in the rest stay true.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.engine.rows.errors import ParseError, UnsupportedError

from .check_tokens import check_token
from .read_tail import begins_tail, read_tail
from .read_window import WINDOW_WORDS, read_bracket_window
from .refuse_foreign import refuse_foreign
from .source import Source, Token, fail, word_of, words
from .statements import Tail, WrittenWindow
from .token_reader import TokenReader

MAX_DEPTH = 32
# The stock parser nests a JOIN without ON into the one before it.
MAX_JOINS = 100

_OPENERS = {"L_PAREN": ")", "L_BRACKET": "]", "L_BRACE": "}"}
_CLOSERS = {"R_PAREN": ")", "R_BRACKET": "]", "R_BRACE": "}"}
_LEAVES_FROM = frozenset({"WHERE", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT"})
_BEFORE_ITEMS = frozenset({"FROM", "JOIN", "COMMA", "L_PAREN"})
_JOIN_WORDS = words(
    "INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI NATURAL ASOF POSITIONAL STRAIGHT_JOIN GLOBAL ARRAY ANY"
)


@dataclass(slots=True)
class Lifted:
    """The tokens for the stock parser, and what was taken out."""

    tokens: list[Token] = field(default_factory=list)
    windows: dict[int, WrittenWindow] = field(default_factory=dict)
    item_texts: dict[int, str] = field(default_factory=dict)
    tail: Tail = field(default_factory=Tail)


@dataclass(slots=True)
class _Level:
    """One level of brackets: which clause we are in, and the first token of the SELECT item we are in."""

    closer: str = ""
    opened: Token | None = None
    clause: str = ""
    item: int | None = None

    def enter(self, clause: str, item: int | None = None) -> None:
        """A clause begins, perhaps with an item."""
        self.clause, self.item = clause, item

    def end_item(self, index: int) -> int | None:
        """An item ends before `index`, if one has begun; its first token, None if it has none."""
        first, self.item = self.item, None
        return first if first is not None and first < index else None


def lift(source: Source, tokens: Sequence[Token]) -> Lifted:
    """Splits the tokens of one query into what is ours and what is plain SQL."""
    lifted, levels, joins = Lifted(), [_Level()], 0
    index = 0
    while index < len(tokens):
        token, level = tokens[index], levels[-1]
        kind = token.token_type.name
        if begins_tail(tokens, index):
            if len(levels) > 1:
                message = f"Expected {word_of(token)} at the end of the outermost query, found it in brackets"
                raise fail(ParseError, message, source.position(token.start))
            _end_item(source, tokens, level, index, lifted)
            lifted = replace(lifted, tail=read_tail(TokenReader(source, tokens[index:])))
            break
        if kind == "L_BRACKET" and _is_window(tokens, index, level, source):
            index += _lift_window(source, tokens, index, lifted)
            continue
        if kind in _OPENERS:
            if len(levels) > MAX_DEPTH:
                message = f"Expected at most {MAX_DEPTH} nested brackets, found more"
                raise fail(UnsupportedError, message, source.position(token.start))
            levels.append(_Level(_OPENERS[kind], token, _clause_inside(tokens, index, level)))
        elif kind in _CLOSERS:
            if level.closer != _CLOSERS[kind]:
                raise _unbalanced(source, level, token)
            _end_item(source, tokens, level, index, lifted)
            levels.pop()
        else:
            joins += kind == "JOIN" or (kind == "COMMA" and level.clause == "from")
            if joins > MAX_JOINS:
                message = f"Expected at most {MAX_JOINS} joins in one query, found more"
                raise fail(UnsupportedError, message, source.position(token.start))
            _enter_clause(source, tokens, level, index, lifted)
        refuse_foreign(source, tokens, index, level.clause)
        check_token(source, tokens, index, levels[-1].clause)
        index += _keep(tokens, index, lifted)
    else:
        _end_item(source, tokens, levels[-1], index, lifted)
    if len(levels) > 1:
        raise _unbalanced(source, levels[-1], None)
    return lifted


def _lift_window(source: Source, tokens: Sequence[Token], index: int, lifted: Lifted) -> int:
    """Reads the window at `index`; the number of tokens it takes."""
    reader = TokenReader(source, tokens[index:])
    position = reader.position
    window = read_bracket_window(reader)
    before = tokens[index - 1].start
    if before in lifted.windows or tokens[index - 1].token_type.name == "R_BRACKET":
        raise fail(ParseError, "Expected one window on a stream, found a second", position)
    lifted.windows[before] = WrittenWindow(window, position)
    return reader.index


def _is_window(tokens: Sequence[Token], index: int, level: _Level, source: Source) -> bool:
    """Whether `[` opens a window, which may stand only behind a from-item; elsewhere it is an index."""
    if level.clause == "from" and index:
        return True
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if word_of(following) in WINDOW_WORDS:
        message = f"Expected a window behind a stream in FROM, found {source.show(tokens[index])}"
        raise fail(
            ParseError, message, source.position(tokens[index].start), "Write `FROM s [RANGE 5 MINUTES] AS a`"
        )
    return False


def _clause_inside(tokens: Sequence[Token], index: int, level: _Level) -> str:
    """The clause that a bracket begins in: in FROM, where an item may stand, brackets may hold joins."""
    opens_item = index > 0 and tokens[index - 1].token_type.name in _BEFORE_ITEMS
    return "from" if level.clause == "from" and opens_item else ""


def _enter_clause(source: Source, tokens: Sequence[Token], level: _Level, index: int, lifted: Lifted) -> None:
    kind = tokens[index].token_type.name
    if kind == "COMMA" and level.clause == "select":
        _end_item(source, tokens, level, index, lifted)
        level.enter("select", index + 1)
    elif kind == "SELECT":
        is_after_word = index + 1 < len(tokens) and word_of(tokens[index + 1]) in ("DISTINCT", "ALL")
        level.enter("select", index + 1 + is_after_word)
    elif kind in ("FROM", "JOIN") and not _compares_distinct(tokens, index):
        _end_item(source, tokens, level, index, lifted)
        level.enter("from")
    elif kind in ("ON", "USING"):
        level.enter("on", level.item)
    elif kind in _LEAVES_FROM:
        _end_item(source, tokens, level, index, lifted)
        level.enter("")
    elif kind == "COMMA" and level.clause == "on":
        level.enter("from", level.item)


def _compares_distinct(tokens: Sequence[Token], index: int) -> bool:
    """IS [NOT] DISTINCT FROM is a comparison, not a clause."""
    return (
        index >= 2
        and word_of(tokens[index - 1]) == "DISTINCT"
        and word_of(tokens[index - 2]) in ("IS", "NOT")
    )


def _end_item(source: Source, tokens: Sequence[Token], level: _Level, index: int, lifted: Lifted) -> None:
    """Keeps the text of the SELECT item that ends before `index`, blanks squeezed and comments left out."""
    first = level.end_item(index)
    if first is None:
        return
    item = tokens[first:index]
    parts = [source.text[item[0].start : item[0].end + 1]]
    for before, token in itertools.pairwise(item):
        parts.append(" " if token.start > before.end + 1 else "")
        parts.append(source.text[token.start : token.end + 1])
    lifted.item_texts[item[0].start] = "".join(parts)


def _keep(tokens: Sequence[Token], index: int, lifted: Lifted) -> int:
    """Hands the token at `index` on to the stock parser, in its words; the number of tokens read."""
    token = tokens[index]
    kind = token.token_type.name
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    next_kind = "" if following is None else following.token_type.name
    touches = following is not None and following.start == token.end + 1
    if kind == "SLASH" and next_kind == "SLASH" and touches:
        lifted.tokens.append(_retype(token, "DIV"))
        return 2
    if word_of(token) == "MINUS" and next_kind in ("SELECT", "L_PAREN", "ALL", "DISTINCT") and index:
        token = _retype(token, "EXCEPT")
    elif kind == "JOIN" and (index == 0 or word_of(tokens[index - 1]) not in _JOIN_WORDS):
        lifted.tokens.append(_retype(token, "INNER", "INNER"))
    lifted.tokens.append(token)
    return 1


def _retype(token: Token, kind: str, text: str | None = None) -> Token:
    from sqlglot.tokens import TokenType

    return type(token)(TokenType[kind], text or token.text, token.line, token.col, token.start, token.end)


def _unbalanced(source: Source, level: _Level, found: Token | None) -> ParseError:
    if level.opened is None:
        assert found is not None, "nothing is open, so something closed"
        return fail(
            ParseError, f"Expected no {source.show(found)}, found one too many", source.position(found.start)
        )
    what = "the end of the query" if found is None else source.show(found)
    where = source.position(level.opened.start)
    message = f"Expected `{level.closer}` to close {source.show(level.opened)}, found {what}"
    return fail(ParseError, message, where)
