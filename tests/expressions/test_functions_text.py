"""Functions of text against DuckDB: parts of it, replacing, patterns, the case of every letter."""

from __future__ import annotations

import itertools

from functions_oracle import Table, crossed
from nasty_values import BIGINT, BOOLEAN, SMALL_INTEGERS, VARCHAR, words

from penstock.engine.expressions.expression import Call, Literal


def test_substring_oracle() -> None:
    texts = [None, "", "h", "hello", "日本語😀x", "e\u0301"]
    for some, positions in ((texts, SMALL_INTEGERS[:11]), (texts[3:4], SMALL_INTEGERS)):
        table = crossed((VARCHAR, some), (BIGINT, positions), (BIGINT, positions))
        columns = tuple(table.columns)
        table.check(Call(VARCHAR, "substring", columns[:2]), Call(VARCHAR, "substring", columns))
    table = Table([(VARCHAR, texts)])
    for pair in [*itertools.product(SMALL_INTEGERS[:10], repeat=2), (1, 2**32), (2**32,), (-2,)]:
        table.check(Call(VARCHAR, "substring", (*table.columns, *(Literal(BIGINT, n) for n in pair))))


def test_replace_oracle() -> None:
    texts = [None, "", "a", "aa", "aaa", "abcabc", "😀", "\\1", ".*"]
    table = crossed(*[(VARCHAR, texts)] * 3)
    table.check(Call(VARCHAR, "replace", tuple(table.columns)))
    text, old, _ = table.columns
    table.check(*(Call(VARCHAR, "replace", (text, old, Literal(VARCHAR, new))) for new in texts))
    table.check(
        *(Call(VARCHAR, "replace", (text, Literal(VARCHAR, "a"), Literal(VARCHAR, new))) for new in texts)
    )


def test_like_patterns_oracle() -> None:
    texts = [None, *words("|a|ab|a%b|a_b|a\\b|a\\%|A\nB|ÄB|İ|ß|日本|a.b|a+|(a|[ab]|\0")]
    patterns = [
        None,
        "a|b",
        *words("|%|_|__|a%|%b|a_b|a\\%|\\|%\\%|a%b|äb|i%|SS|_本|a.b|a+|(a|[ab]|%%|_%_|%_|ab$|^a"),
    ]
    patterns += ["\0", "a\n%", "A%B"]
    table = crossed((VARCHAR, texts), (VARCHAR, patterns))
    for function in ("like", "ilike"):
        table.check(Call(BOOLEAN, function, tuple(table.columns)))
        for pattern in patterns:
            Table([(VARCHAR, texts)]).check(
                Call(BOOLEAN, function, (table.columns[0], Literal(VARCHAR, pattern)))
            )


def test_case_of_every_letter_oracle() -> None:
    """But for letters that got their other case after Unicode 14: one of the two does not know it."""
    letters = [chr(code) for code in range(1, 0x1100) if chr(code) not in "\u019b\u0264\u0277\u027c"]
    table = Table([(VARCHAR, letters)])
    for function in ("lower", "upper", "trim"):
        table.check(Call(VARCHAR, function, tuple(table.columns)))
    table.check(Call(BIGINT, "length", tuple(table.columns)))
