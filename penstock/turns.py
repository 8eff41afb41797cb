"""Whose turn it is: an engine works one call at a time, whatever the threads.

    thread 1   push ───────────────────── returns                    rows, then what its subscribers asked for
                 │ subscriber: query, push  ↑ done here, in this order
    thread 2        results ··· waits ······ gives rows

Every public call of an engine and of its queries takes a turn; who comes meanwhile waits in line, first come,
first served. So results are those of the calls one after the other, in the order of their turns. Within a
turn a subscriber may call the same engine again, in its own thread: what only looks (`@turn`) is answered at
once, in the midst of the running call; what changes something (`@change`) is put off until that is done, and
worked before it returns, in the order in which it was asked for; what needs all to be at rest (`@between`) is
refused. So nothing changes under the hands of operators at work, and a call has done all it caused when it
returns. The same holds for the handler of a signal that comes while a call is worked.

What goes wrong after rows were taken in (queries that stop, subscribers that raise, what they asked for) ends
nothing: all of it is collected and raised by the outermost call when all is done.

Who waits while a subscriber does not return may be waited for by it. After `deadlock_after_s` they give up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from penstock.engine.rows.errors import (
    DeadlockError,
    PenstockError,
    StoppedError,
    SubscriberError,
    TakenError,
    UsageError,
    of_state,
)

if TYPE_CHECKING:
    from penstock.engine.running.runtime import Runtime

DEADLOCK_AFTER_S = 60.0
LONGEST_CHAIN = 1_000  # calls, each asked for while the one before was worked
MOST_PUT_OFF = 100_000  # calls put off within one
LOOK_S = 1.0  # between two looks at whom one waits for

TAKEN = "What was pushed is taken in: do not push it again"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class TakesTurns(Protocol):
    """An engine, or what belongs to one."""

    @property
    def _turns(self) -> Turns: ...


INSIDE = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What is raised by mistake."""

Owner = TypeVar("Owner", bound=TakesTurns)
Method = Callable[Concatenate[Owner, Parameters], Result]


class Asked(NamedTuple):
    """A call that was put off, and whose subscriber asked for it: of a query, or a signal's handler."""

    call: Callable[[], object]
    what: str
    query: str
    depth: int
    """How many calls that were put off led to it, with itself."""


class Hearing(NamedTuple):
    """A subscriber at work."""

    query: str
    since: float
    thread: str


def turn(method: Method[Owner, Parameters, Result]) -> Method[Owner, Parameters, Result]:
    """Let a call that changes nothing wait for its turn; a subscriber is answered at once."""

    @wraps(method)
    def in_turn(self: Owner, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        turns = self._turns
        lock = turns.lock
        if lock._is_owned():
            return method(self, *args, **kwargs)
        try:
            if turns.line or not lock.acquire(False):
                turns.wait()
            result = method(self, *args, **kwargs)
            if turns.asked:  # by a signal
                turns.end()
            return result
        except INSIDE as error:
            turns.blame(error)
            raise
        finally:
            if lock._is_owned():  # an interrupt may come before the lock does
                lock.release()

    in_turn.takes_turn = "turn"  # type: ignore[attr-defined]
    return in_turn


def change(method: Method[Owner, Parameters, None]) -> Method[Owner, Parameters, None]:
    """Let a call that changes something wait for its turn; in the midst of another, until that is done."""

    @wraps(method)
    def in_turn(self: Owner, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        turns = self._turns
        lock = turns.lock
        if lock._is_owned():
            turns.put_off(partial(method, self, *args, **kwargs), method.__name__)
            return
        try:
            if turns.line or not lock.acquire(False):
                turns.wait()
            try:
                method(self, *args, **kwargs)
            except BaseException as error:
                turns.end(error)
                raise
            if turns.asked or turns.stopped or turns.refused:
                turns.end()
        except INSIDE as error:
            turns.blame(error)
            raise
        finally:
            if lock._is_owned():
                lock.release()

    in_turn.takes_turn = "change"  # type: ignore[attr-defined]
    return in_turn


def between(method: Method[Owner, Parameters, Result]) -> Method[Owner, Parameters, Result]:
    """Let a call wait for its turn that needs all to be at rest; in the midst of another it is refused."""
    waiting = turn(method)

    @wraps(method)
    def in_turn(self: Owner, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if self._turns.is_ours:
            what = f"{method.__name__}()"
            raise UsageError(f"Expected {what} between two pushes, found it asked for in the midst of one")
        return waiting(self, *args, **kwargs)

    in_turn.takes_turn = "between"  # type: ignore[attr-defined]
    return in_turn


class Turns:
    """The line in front of one engine."""

    def __init__(self, runtime: Runtime, deadlock_after_s: float) -> None:
        self.lock: Any = threading.RLock()
        self.line: deque[Any] = deque()
        """A lock for each who waits, held until they are the first in line."""
        self.hearing: Hearing | None = None
        self.asked: deque[Asked] = deque()
        self.stopped = runtime.failures.stopped
        self.refused = runtime.failures.refused
        self.deadlock_after_s = deadlock_after_s
        self._runtime = runtime
        self._depth = 0
        self._put_off = 0

    def wait_at_most(self, deadlock_after_s: float) -> None:
        """How long others wait from now on for a subscriber that does not return."""
        self.deadlock_after_s = deadlock_after_s

    def blame(self, error: Exception) -> None:
        """Raise CheckpointError for a mistake inside of an engine that was restored: nobody knows by whom."""
        if self._runtime.is_restored:
            raise of_state(error) from error

    # -- the line -----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Return with the lock; raises DeadlockError if a subscriber is in the way and does not return."""
        began = time.monotonic()
        mine = threading.Lock()
        mine.acquire()
        self.line.append(mine)
        try:
            while not self._comes(mine):
                self._refuse_deadlock(began)
        finally:
            self.line.remove(mine)
            with suppress(IndexError, RuntimeError):  # nobody is there, or they know already
                self.line[0].release()

    def _comes(self, mine: Any) -> bool:
        """Whether the lock was given, to the first in line only; the others wait until they are that."""
        look_s = min(LOOK_S, self.deadlock_after_s / 4)
        if self.line[0] is mine:
            return bool(self.lock.acquire(timeout=look_s))
        mine.acquire(timeout=look_s)
        return False

    def _refuse_deadlock(self, began: float) -> None:
        hearing = self.hearing
        if hearing is None or time.monotonic() - max(began, hearing.since) < self.deadlock_after_s:
            return
        raise DeadlockError(
            f"Expected the engine to be free within {self.deadlock_after_s:g} s, found the subscriber of "
            f"`{hearing.query}` at work all the time, in thread `{hearing.thread}`. A subscriber must not "
            "wait for a thread that uses the engine; if it is only slow: Engine(deadlock_after_s=...)"
        )

    # -- subscribers --------------------------------------------------------------------------------

    @property
    def is_ours(self) -> bool:
        """Whether who asks is in the midst of a call, and not another thread meanwhile."""
        return bool(self.lock._is_owned())

    def heard(self, query: str, callback: Callable[[Any], object]) -> Callable[[Any], None]:
        """A subscriber of whom it is known that it is at work."""
        return partial(self._hear, query, callback)

    def _hear(self, query: str, callback: Callable[[Any], object], rows: Any) -> None:
        before = self.hearing
        self.hearing = Hearing(query, time.monotonic(), threading.current_thread().name)
        try:
            callback(rows)
        finally:
            self.hearing = before

    def put_off(self, call: Callable[[], object], what: str) -> None:
        """Work a call when the one in whose midst it is asked for is done; refused if that never ended."""
        query = "a signal" if self.hearing is None else self.hearing.query
        if self._depth >= LONGEST_CHAIN or self._put_off >= MOST_PUT_OFF:
            found = f"a chain of {LONGEST_CHAIN:,}" if self._depth >= LONGEST_CHAIN else f"{MOST_PUT_OFF:,}"
            raise UsageError(
                f"Expected subscribers that come to an end, found {found} calls that they asked for within "
                f"one, the last `{what.strip('_')}` by that of `{query}`"
            )
        self._put_off += 1
        self.asked.append(Asked(call, what.strip("_"), query, self._depth + 1))

    # -- the end of a call --------------------------------------------------------------------------

    def end(self, error: BaseException | None = None) -> None:
        """Work what was put off, then raise what went wrong, or note it with the error that is raised.

        After an interrupt nothing more is worked.
        """
        try:
            while self.asked and (error is None or isinstance(error, Exception)):
                self._work(self.asked.popleft())
            trouble = self._trouble()
        finally:
            self.asked.clear()
            self._depth = self._put_off = 0
        if trouble is None:
            return
        if error is None:
            raise trouble from trouble.__cause__
        error.add_note(f"also: {trouble}")

    def _work(self, asked: Asked) -> None:
        self._depth = asked.depth
        try:
            asked.call()
        except Exception as error:
            error.add_note(f"asked for by a subscriber of `{asked.query}`, with `{asked.what}`")
            self.refused.append((asked.query, error))

    def _trouble(self) -> TakenError | None:
        """What went wrong in all that was done, as one error; first what can be heard of nowhere else."""
        found: list[TakenError] = []
        if self.refused:
            found.append(of_subscribers(self.refused))
        if self.stopped:
            found.append(of_stopped(self.stopped))
        self.refused.clear()
        self.stopped.clear()
        if not found:
            return None
        error, *others = found
        error.join(others)
        return error


def of_stopped(failures: list[tuple[str, Exception]]) -> StoppedError:
    """That queries have stopped: the first one's reason, with those of the others as notes."""
    (name, first), *others = failures
    is_known = isinstance(first, PenstockError)
    reason = str(first) if is_known else f"Query `{name}` was stopped by {type(first).__name__}: {first}"
    queries = list(dict.fromkeys(name for name, _ in failures))
    error = StoppedError(f"{reason}. {TAKEN}", queries=queries)
    error.__cause__ = first.__cause__ if is_known else first
    for note in getattr(first, "__notes__", ()):
        error.add_note(note)
    error.join([other for _, other in others])
    return error


def of_subscribers(refused: list[tuple[str, Exception]]) -> SubscriberError:
    """That subscribers raised: all their queries by name, the first error of each."""
    first: dict[str, Exception] = {}
    for name, error in refused:
        first.setdefault(name, error)
    found = "; ".join(f"{type(one).__name__} from that of `{name}`: {one}" for name, one in first.items())
    error = SubscriberError(
        f"Expected subscribers to return, found {found}. {TAKEN}",
        queries=list(first),
        others=[other for _, other in refused[1:]],
    )
    error.__cause__ = refused[0][1]
    return error
