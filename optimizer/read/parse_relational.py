"""The plain SQL of a query, through the stock parser; its complaints in our words.

The stock parser's messages carry terminal codes and names of its classes, so they are only read, never shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.engine.rows.errors import ParseError, QueryError, UnsupportedError

from .read_tail import ends_operand
from .read_window import WINDOW_WORDS
from .source import Source, Token, fail, word_of, words
from .token_reader import SEPARATED, STATEMENT_STARTS, spelling_hint

KEYWORDS = words(
    "SELECT DISTINCT FROM WHERE JOIN INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI HAVING UNION EXCEPT "
    "INTERSECT BETWEEN EXISTS WINDOW EMIT LATE CASE WHEN THEN ELSE"
) | {"GROUP BY", "ORDER BY", "HOP BY"}
_HALVES = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "HOP": "HOP BY"}


def parse_relational(source: Source, tokens: Sequence[Token], after: Token | None) -> Any:
    """The tree of one query; `after` is the token behind the relational part, None at the statement's end."""
    from sqlglot.errors import ParseError as StockParseError
    from sqlglot.parser import Parser

    assert tokens, "a query has at least its first word"
    try:
        with _silence():
            trees = Parser().parse(list(tokens), source.text)
    except StockParseError as error:
        raise _translate(source, tokens, after, error.errors[0] if error.errors else {}) from None
    except RecursionError:
        message = "Expected a query less deeply nested, found one too deep to parse"
        raise fail(UnsupportedError, message, source.position(tokens[0].start)) from None
    except Exception:
        # The stock parser guards its own input less well than it parses good SQL.
        message = "Expected a query, found text that cannot be read as one"
        raise fail(ParseError, message, source.position(tokens[0].start)) from None
    tree = trees[0] if len(trees) == 1 else None
    if type(tree).__name__ not in ("Select", "Union", "Except", "Intersect", "Subquery", "Alias"):
        message = f"Expected a query, found {source.show(tokens[0])}"
        raise fail(ParseError, message, source.position(tokens[0].start))
    return tree


@contextmanager
def _silence() -> Iterator[None]:
    """Without what the stock parser logs when it gives up on a statement: the error says it all."""

    def drop(record: logging.LogRecord) -> bool:
        return False

    logger = logging.getLogger("sqlglot")
    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


def _translate(
    source: Source, tokens: Sequence[Token], after: Token | None, error: dict[str, Any]
) -> QueryError:
    description = str(error.get("description", ""))
    place = (error.get("line"), error.get("col"))
    index = next((i for i, token in enumerate(tokens) if (token.line, token.col) == place), 0)
    expected = "an operator, a comma or the next clause"
    missing = True
    if description.startswith("Expecting "):
        expected = f"`{description.removeprefix('Expecting ')[:20]}`"
    elif description.startswith("Required"):
        expected = "an expression"
    elif description.startswith("Expected table name"):
        expected = "a stream, a table or a sub-query"
    elif description.startswith("Expected END"):
        expected = "`END` after CASE"
        index = min(index + 1, len(tokens) - 1)
    elif description.startswith("The number of provided arguments"):
        expected, missing = "fewer arguments of a function", False
    else:
        missing = False
    # At the end of its input the stock parser points at the last token instead.
    if missing and index == len(tokens) - 1:
        found = "the end of the query" if after is None else source.show(after)
        where = tokens[-1].end + 1 if after is None else after.start
    else:
        found, where = source.show(tokens[index]), tokens[index].start
    message = f"Expected {expected}, found {found}"
    return fail(ParseError, message, source.position(where), _hint(tokens, index))


def _hint(tokens: Sequence[Token], index: int) -> str | None:
    """What was probably forgotten before `index`, or which keyword one of the last words was meant to be."""
    if index and word_of(tokens[index]) in STATEMENT_STARTS and ends_operand(tokens[index - 1]):
        return SEPARATED
    if any(word_of(token) in WINDOW_WORDS for token in tokens[max(0, index - 2) : index + 1]):
        return "Write windows in brackets, as in `s [RANGE 5 MINUTES]`"
    for token in reversed(tokens[max(0, index - 2) : index + 1]):
        word = word_of(token)
        if token.token_type.name != "VAR" or len(word) < 3:
            continue
        if word in _HALVES:
            return f"Did you mean `{_HALVES[word]}`?"
        if hint := spelling_hint(
            word, [keyword for keyword in sorted(KEYWORDS) if abs(len(keyword) - len(word)) <= 2]
        ):
            return hint
    return None
