"""The text a user gave, its tokens, and where in it things stand.

Tokens are the stock tokenizer's: `start` and `end` are offsets into the text, the end included. Their own
line and column are not used (the column is that of the token's end); offsets are turned into positions here.
"""

from __future__ import annotations

import bisect
import re
from typing import Any, TypeVar

from penstock.engine.rows.errors import ParseError, QueryError
from penstock.optimizer.tree.logical import Position

from .load_parser import load_parser

E = TypeVar("E", bound=QueryError)

# A token of the stock tokenizer; its class differs between the plain and the compiled build.
Token = Any

NO_WORDS = frozenset(
    {"IDENTIFIER", "STRING", "NATIONAL_STRING", "RAW_STRING", "HEREDOC_STRING", "UNICODE_STRING"}
)
# What a message shows of a long token.
SHOWN_CHARACTERS = 40


class Source:
    """A text with its line starts."""

    __slots__ = ("_line_starts", "text")

    def __init__(self, text: str) -> None:
        # A byte order mark is not a part of the first word; a space keeps the offsets.
        self.text = " " + text[1:] if text.startswith("\ufeff") else text
        self._line_starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]

    def position(self, offset: int) -> Position:
        line = bisect.bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def show(self, token: Token) -> str:
        """The token as it was written, in backticks, cut if long."""
        return self.show_text(token.start, token.end + 1)

    def show_text(self, start: int, end: int) -> str:
        written = " ".join(self.text[start:end].split())
        if len(written) > SHOWN_CHARACTERS:
            written = written[: SHOWN_CHARACTERS - 3] + "..."
        return f"`{written}`"

    def tokenize(self) -> list[Token]:
        load_parser()
        from sqlglot.errors import SqlglotError
        from sqlglot.tokens import Tokenizer

        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            message = f"Expected text, found half a character `{self.text[error.start]!a}`"
            raise fail(ParseError, message, self.position(error.start)) from None
        try:
            return list(Tokenizer().tokenize(self.text))
        except SqlglotError:
            raise self._unclosed() from None

    def _unclosed(self) -> ParseError:
        """What the tokenizer stumbled over: a quote or a comment that has no end."""
        skip = re.compile(
            r"--[^\r\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^-/'\"]+|[-/]", re.DOTALL
        )
        offset = 0
        while offset < len(self.text):
            if self.text.startswith("/*", offset) and "*/" not in self.text[offset + 2 :]:
                return fail(ParseError, "Expected `*/` to end a comment, found none", self.position(offset))
            found = skip.match(self.text, offset)
            if found is None:
                break
            offset = found.end()
        if offset < len(self.text):
            quote = self.text[offset]
            return fail(ParseError, f"Expected a closing `{quote}`, found none", self.position(offset))
        return fail(ParseError, "Expected SQL, found text that has no tokens", self.position(0))


def words(text: str) -> frozenset[str]:
    """A set of words, written as one string."""
    return frozenset(text.split())


def word_of(token: Token | None) -> str:
    """The token as an upper-case word; empty for the end, quoted names and literals."""
    if token is None or token.token_type.name in NO_WORDS:
        return ""
    return str(token.text).upper()


def fail(kind: type[E], message: str, position: Position, hint: str | None = None) -> E:
    """The error, ready to raise: one line, whatever the names in it are made of."""
    hint = None if hint is None else printable(hint)
    return kind(printable(message), line=position.line, column=position.column, hint=hint)


def printable(text: str) -> str:
    """The text with control characters spelt out."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
