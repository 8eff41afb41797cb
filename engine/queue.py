"""Between two operators: batches in timestamp order, and a promise about what is still to come.

A punctuation at T promises that nothing below T follows what is in the queue. It only grows, so the queue
keeps the last one. `closed` promises that nothing follows at all. What may be consumed is decided by these
promises alone, never by who runs when: that is what makes results independent of the scheduler.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from .batch import Batch, concatenate
from .window import MAX_TS

BEGINNING = -MAX_TS


class Queue:
    """First in, first out, one producer, one consumer."""

    __slots__ = ("batches", "closed", "punctuation", "rows")

    def __init__(self, punctuation: int = BEGINNING) -> None:
        self.batches: deque[Batch] = deque()
        self.punctuation = punctuation
        self.closed = False
        self.rows = 0

    def put(self, batch: Batch) -> None:
        """Add rows; the consumer sees them before any later promise."""
        if batch.length:
            self.batches.append(batch)
            self.rows += batch.length

    def pop(self) -> Batch:
        """The oldest batch, whole."""
        batch = self.batches.popleft()
        self.rows -= batch.length
        return batch

    def take(self, bound: int, inclusive: bool) -> Batch | None:
        """Rows of the oldest batch with ts below (or at) `bound`; None if there are none."""
        if not self.batches:
            return None
        batch = self.batches[0]
        if batch.ts[-1] < bound or (inclusive and batch.ts[-1] == bound):
            return self.pop()
        stop = int(np.searchsorted(batch.ts, bound, side="right" if inclusive else "left"))
        if stop == 0:
            return None
        self.batches[0] = batch.slice(stop, batch.length)
        self.rows -= stop
        return batch.slice(0, stop)

    def complete_instant(self) -> None:
        """Grow the oldest batch until it does not end in the middle of rows of one ts."""
        same = 1
        while same < len(self.batches) and self.batches[same - 1].ts[-1] == self.batches[same].ts[0]:
            same += 1
        if same > 1:
            self.batches.appendleft(concatenate([self.batches.popleft() for _ in range(same)]))

    @property
    def horizon(self) -> int:
        """How far the consumer may go with this input for now: the oldest batch's end, or the promise."""
        return int(self.batches[0].ts[-1]) if self.batches else self.punctuation


class Outlet:
    """Where an operator's output goes: the same batches into every queue."""

    __slots__ = ("closed", "punctuation", "queues")

    def __init__(self, punctuation: int = BEGINNING) -> None:
        self.queues: list[Queue] = []
        self.punctuation = punctuation
        self.closed = False

    def put(self, batch: Batch) -> None:
        for queue in self.queues:
            queue.put(batch)

    def promise(self, ts: int) -> None:
        """Nothing below `ts` follows."""
        if ts > self.punctuation:
            self.punctuation = ts
            for queue in self.queues:
                queue.punctuation = ts

    def close(self) -> None:
        """Nothing follows."""
        self.closed = True
        for queue in self.queues:
            queue.closed = True
