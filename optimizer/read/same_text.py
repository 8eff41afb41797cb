"""Whether two texts are the same query: white space and comments apart, and what LATE says.

LATE is left to the caller, as it changes no answer to rows that are in time.
"""

from __future__ import annotations

import json

from .source import Source, Token, word_of

LATES = ("DROP", "ERROR")


def is_same_text(one: str, other: str) -> bool:
    """Whether these texts, both of which can be parsed, are of one query.

    >>> is_same_text("SELECT x FROM s WINDOW 1 DAY", "SELECT x -- all\\n FROM s WINDOW 1 DAY LATE DROP")
    True
    """
    return one == other or bare_text(one) == bare_text(other)


def bare_text(sql: str) -> str:
    """Stands for a query's text: equal for texts that are the same query."""
    tokens: list[Token] = []
    for token in Source(sql).tokenize():
        if tokens and word_of(tokens[-1]) == "LATE" and word_of(token) in LATES:  # only the tail can be that
            tokens.pop()
        elif token.token_type.name != "SEMICOLON":
            tokens.append(token)
    return json.dumps([(token.token_type.name, token.text) for token in tokens])
