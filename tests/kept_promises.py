"""Every queue of every test holds its producer to its word.

    put      rows at or above what was promised, none after the end; but what a plan that starts late begins
             with, or a table holds, is there before all time. Pairs that are only counted have no time.
    promise  never falls, and nothing is promised after the end but what was promised
    tell     messages in order

An operator that promises too much shows only where somebody above it believes the promise in the same draw;
here it shows at once, whoever reads the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.engine.batch import Batch
from penstock.engine.queue import Queue
from penstock.engine.static_table import TABLE_TIME


class BrokenPromise(AssertionError):
    """An operator said that something would not come, and it came."""


def put(queue: Queue, batch: Batch) -> None:
    if not batch.length:
        return
    if queue.closed:
        raise BrokenPromise(f"expected nothing after the end, found {batch.length} rows")
    timed = batch.ts[batch.ts > TABLE_TIME]
    if len(timed) and timed[0] < queue.punctuation:
        raise BrokenPromise(f"expected no rows below {queue.punctuation}, found one at {timed[0]}")


def promise(queue: Queue, ts: int) -> None:
    if ts < queue.punctuation:
        raise BrokenPromise(f"expected a promise of {queue.punctuation} or later, found {ts}")
    if queue.closed and ts > queue.punctuation:
        raise BrokenPromise(f"expected no promise after the end, found {ts}")


def tell(queue: Queue, times: Sequence[int]) -> None:
    if list(times) != sorted(times) or (queue.messages and times and times[0] < queue.messages[-1]):
        raise BrokenPromise(f"expected messages in order, found {list(times)} after {queue.messages[-1:]}")


CHECKS: dict[str, Callable[..., None]] = {"put": put, "promise": promise, "tell": tell}


def checked(check: Callable[..., None], method: Callable[..., None]) -> Callable[..., None]:
    def watched(queue: Queue, given: Any) -> None:
        check(queue, given)
        method(queue, given)

    return watched


@contextmanager
def kept_promises() -> Iterator[None]:
    """Until the end of the block no queue takes what its producer had promised would not come."""
    before = {name: getattr(Queue, name) for name in CHECKS}
    for name, check in CHECKS.items():
        setattr(Queue, name, checked(check, before[name]))
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Queue, name, method)
