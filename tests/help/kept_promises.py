"""Every queue of every test holds its producer to its word.

    put      rows in order, at or above what was promised, none after the end; but what a plan that starts
             late begins with, or a table holds, is there before all time. Counted pairs have no time.
    promise  never falls, whoever writes it, and nothing is promised after the end but what was promised
    tell     messages in order

An operator that promises too much shows only where somebody above it believes the promise in the same draw;
here it shows at once, whoever reads the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock import StoppedError
from penstock.engine.flow.queue import Queue
from penstock.engine.intake.static_table import TABLE_TIME
from penstock.engine.rows.batch import Batch

SEEN: list[str] = []
"""What has been seen in this test: an engine stops a query for it, and a test may expect that of others."""


class BrokenPromise(AssertionError):
    """An operator said that something would not come, and it came."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        SEEN.append(message)


@contextmanager
def broken(match: str) -> Iterator[None]:
    """A promise is broken in the block, and nothing else is wrong."""
    with pytest.raises((BrokenPromise, StoppedError), match=match):
        yield
    assert SEEN
    SEEN.clear()


def put(queue: Queue, batch: Batch) -> None:
    if not batch.length:
        return
    if queue.closed:
        raise BrokenPromise(f"expected nothing after the end, found {batch.length} rows")
    timed = batch.ts[batch.ts > TABLE_TIME]
    if len(timed) and timed.min() < queue.punctuation:
        raise BrokenPromise(f"expected no rows below {queue.punctuation}, found one at {timed.min()}")
    before = queue.batches[-1].ts[-1:] if queue.batches else batch.ts[:1]
    times = np.concatenate([before, batch.ts])
    if len(batch.ts) and (np.diff(times) < 0).any():
        raise BrokenPromise(f"expected rows in order, found {times.tolist()[:100]}")


def promise(queue: Queue, ts: int) -> None:
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


def watched_slot(slot: Any) -> property:
    """Where the promise is written: whoever does it, it does not fall."""

    def write(queue: Queue, ts: int) -> None:
        try:
            before = slot.__get__(queue)
        except AttributeError:  # a queue that is being made
            before = ts
        if ts < before:
            raise BrokenPromise(f"expected a promise of {before} or later, found {ts}")
        slot.__set__(queue, ts)

    return property(slot.__get__, write)


@contextmanager
def kept_promises() -> Iterator[None]:
    """Until the end of the block no queue takes what its producer had promised would not come."""
    before = {name: getattr(Queue, name) for name in (*CHECKS, "punctuation")}
    for name, check in CHECKS.items():
        setattr(Queue, name, checked(check, before[name]))
    Queue.punctuation = watched_slot(before["punctuation"])
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Queue, name, method)
