"""A cursor over the tokens of one statement, for the parts of the language we parse ourselves."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from penstock.engine.rows.errors import ParseError
from penstock.optimizer.tree.logical import Position

from .source import Source, Token, fail, word_of, words

# Words that cannot be a name unless quoted: they begin a clause, so a missing name would swallow them.
RESERVED = words(
    "SELECT FROM WHERE GROUP ORDER HAVING JOIN ON UNION EXCEPT INTERSECT AS WITH CREATE DROP ALTER SET "
    "AND OR NOT NULL CASE WHEN THEN ELSE END IN IS BETWEEN LIKE DISTINCT EXISTS INTERVAL USING BY"
)

STATEMENT_STARTS = ("SELECT", "WITH", "CREATE", "DROP", "ALTER")
SEPARATED = "Statements are separated by `;`"


class TokenReader:
    """Reads tokens one by one; every complaint carries the position of the token it is about."""

    def __init__(self, source: Source, tokens: Sequence[Token], index: int = 0) -> None:
        self.source = source
        self.tokens = tokens
        self.index = index

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def position(self) -> Position:
        """Where the next token stands; at the end, just behind the last one."""
        if not self.at_end:
            return self.source.position(self.tokens[self.index].start)
        return self.source.position(self.tokens[-1].end + 1 if self.tokens else 0)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.index + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        return word_of(self.peek(ahead))

    def type(self, ahead: int = 0) -> str:
        """The stock tokenizer's name for the kind of token; empty at the end."""
        token = self.peek(ahead)
        return "" if token is None else token.token_type.name

    def advance(self) -> Token:
        self.index += 1
        return self.tokens[self.index - 1]

    def accept(self, *words: str) -> Token | None:
        """The next token if it is one of the words, else None and nothing is read."""
        return self.advance() if self.word() in words else None

    def expect(self, *words: str, hint: str | None = None) -> Token:
        token = self.accept(*words)
        if token is None:
            raise self.unexpected(join_words(words), hint or self.spelling_hint(words))
        return token

    def expect_end(self, after: str) -> None:
        if not self.at_end:
            raise self.unexpected(f"the end of the statement after {after}", SEPARATED)

    def read_name(self, what: str) -> tuple[str, Position]:
        """A plain or quoted name."""
        position, token = self.position, self.peek()
        if token is None or not is_name(token):
            raise self.unexpected(what)
        self.advance()
        return str(token.text), position

    def unexpected(self, expected: str, hint: str | None = None) -> ParseError:
        """The error: `expected` is what should have stood where the next token stands."""
        token = self.peek()
        found = "the end of the statement" if token is None else self.source.show(token)
        return fail(ParseError, f"Expected {expected}, found {found}", self.position, hint)

    def show_since(self, index: int) -> str:
        """What was read since the token at `index`, as written, in backticks."""
        first, last = self.tokens[index], self.tokens[self.index - 1]
        return self.source.show_text(first.start, last.end + 1)

    def spelling_hint(self, words: Iterable[str]) -> str | None:
        """`Did you mean` one of the words, if the next token looks like one."""
        return spelling_hint(self.word(), words)


def is_name(token: Token) -> bool:
    """Whether the token can name a stream, a column or a query."""
    if token.token_type.name == "IDENTIFIER":
        return bool(token.text)
    word = word_of(token)
    return bool(word) and (word[0].isalpha() or word[0] == "_") and " " not in word and word not in RESERVED


def spelling_hint(word: str, known: Iterable[str]) -> str | None:
    """A hint only if a keyword is close; of several, one with the same letters in another order."""
    right = list(known)
    close = difflib.get_close_matches(word, right, n=5, cutoff=0.7) if word and word not in right else []
    close.sort(key=lambda keyword: sorted(keyword) != sorted(word))
    return f"Did you mean `{close[0]}`?" if close else None


def join_words(words: Sequence[str]) -> str:
    """`A`, `B` or `C`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
