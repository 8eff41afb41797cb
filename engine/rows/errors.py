"""Every error a user can meet, one tree; each class owns the command line's exit code.

    PenstockError                1
    ├── UsageError               2   the call is wrong: unknown stream, pushing after close, a bad option
    │   └── DeadlockError            a subscriber holds the engine and may be waiting for who waits for that
    ├── QueryError               3   a statement is wrong; carries line, column and a hint
    │   ├── ParseError               not SQL as LANGUAGE defines it
    │   ├── BindError                unknown name, wrong type, a missing window
    │   └── UnsupportedError         understood, but not built: refused by name
    ├── DataError                4   the data is wrong, nothing is taken in; carries the source and the row
    │   ├── SchemaError              a missing column, a wrong type
    │   ├── LateError                time went backwards beyond the slack
    │   ├── AheadError               a time further ahead than the stream allows
    │   ├── HopsError                a query would be given more hops without rows than there may be in a call
    │   └── FileError                a file is missing, cut short or unreadable
    │       └── CheckpointError          the same of a checkpoint, or one of another version
    └── TakenError               4   all was done, rows are taken in: pushed again they would come twice
        ├── StoppedError             queries could not go on with the data, and have stopped
        └── SubscriberError      1   functions that take results raised; `__cause__` is what they raised

A message says what was expected, what was found and where, in one line, values in backticks.
A user's mistake raises one of these; a mistake of ours is an assertion.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Self

MOST_WORDS = 500


class PenstockError(Exception):
    """The root: catch this to catch everything Penstock raises on purpose."""

    exit_code = 1


class PenstockWarning(UserWarning):
    """A statement that is taken and is probably not what was meant; with the standard `warnings`."""


class UsageError(PenstockError):
    """The call is wrong, whatever the data and the queries are."""

    exit_code = 2


class DeadlockError(UsageError):
    """The engine was not free for long: a subscriber did not return, which may be waiting for this thread."""


class QueryError(PenstockError):
    """A statement is wrong; `line` and `column` count from 1 in the text that was given."""

    exit_code = 3

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, hint: str | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint
        super().__init__(self.text())

    def text(self, file: str | None = None) -> str:
        """The whole line, naming the file the statement stands in if there is one."""
        where = f", at line {self.line}, column {self.column}" if self.line is not None else ""
        where += f" of `{file}`" if file else ""
        return f"{self.message}{where}{f'. {self.hint}' if self.hint else ''}"


class ParseError(QueryError):
    """The text is not a statement of the language."""


class BindError(QueryError):
    """A name, a type or a window does not fit what is declared."""


class UnsupportedError(QueryError):
    """Understood, but not built: the message names it."""


class DataError(PenstockError):
    """The data is wrong, nothing of it is taken in; `source` is a stream or file, `row` counts from 1."""

    exit_code = 4

    def __init__(
        self, message: str, *, source: str | None = None, row: int | None = None, hint: str | None = None
    ) -> None:
        self.message = message
        self.source = source
        self.row = row
        self.hint = hint
        where = "" if source is None else f", in `{source}`"
        where += "" if row is None else f", row {row}"
        super().__init__(f"{message}{where}{f'. {hint}' if hint else ''}")


class SchemaError(DataError):
    """A column is missing or has a type that does not fit."""


class LateError(DataError):
    """A row is older than the stream's slack allows."""


class AheadError(DataError):
    """A row is further ahead of its stream than AHEAD AT MOST allows."""


class HopsError(DataError):
    """Time would pass so far that a hopping query had very many answers on the way, for no rows."""


class FileError(DataError):
    """A file is missing, cut short or not what its name says."""

    @classmethod
    def naming(cls, message: str, path: str) -> Self:
        """Of a message that says already which file it is about."""
        made = cls(message)
        made.source = path
        return made


class CheckpointError(FileError):
    """Not a checkpoint, cut short, damaged, or of another version."""


def of_state(error: Exception) -> CheckpointError:
    """That an engine which was restored has met what no engine should hold."""
    found = " ".join(f"{type(error).__name__} ({error})".split())[:MOST_WORDS]
    made = CheckpointError(f"Expected a checkpoint with what an engine holds, found {found}")
    made.__cause__ = error
    return made


class TakenError(PenstockError):
    """What was asked for was done, rows are taken in: pushed again they would come twice.

    `queries`: the names of those it is about; `others`: what else went wrong in the same call.
    """

    exit_code = 4

    def __init__(
        self, message: str, *, queries: Sequence[str] = (), others: Sequence[Exception] = ()
    ) -> None:
        self.queries = tuple(queries)
        self.others = tuple(others)
        super().__init__(message)

    def join(self, others: Sequence[Exception]) -> None:
        """These went wrong too, which a note on each says."""
        self.others += tuple(others)
        for other in others:
            self.add_note(f"also: {other}")


class StoppedError(TakenError):
    """Queries could not go on with the data (a division by zero, an overflow) and have stopped."""


class SubscriberError(TakenError):
    """Functions that take results raised, or what they asked of the engine did."""

    exit_code = 1


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint naming the known word closest to `name`, or the known words if there are few."""
    words = sorted(set(known))
    folded = {word.lower(): word for word in words}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"Did you mean `{folded[close[0]]}`?"
    if words and len(words) <= 8:
        return "Known: " + ", ".join(f"`{word}`" for word in words)
    return None


for _error in [one for one in vars().values() if isinstance(one, type) and issubclass(one, Exception)]:
    _error.__module__ = "penstock"  # what users call them by: so does a traceback
