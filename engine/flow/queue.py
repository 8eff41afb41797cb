"""Between two operators: batches in timestamp order, and a promise about what is still to come.

A punctuation at T promises that nothing below T follows what is in the queue. It only grows, so the queue
keeps the last one. `closed` promises that nothing follows at all. What may be consumed is decided by these
promises alone, never by who runs when: that is what makes results independent of the scheduler.

A time-message at T says that rows with ets <= T which have passed through the queue are gone. With
`piggyback` a message is purged as soon as anything younger comes in, which tells the time as well: then at
most one message is in the queue, and it is the last thing in it. Its time stays with the row that purged it
(PGFlag in the incremental-evaluation paper, in `merged` here): the row may have to wait for another input, or
be dropped, and the time is to be heard of all the same. A message that is purged by a later one leaves no
time behind. The later one speaks of all before it as well, so a reader that another input holds back is told
of the time up to which it may go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from penstock.engine.restoring.in_order import expect, rising
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.window import MAX_TS

BEGINNING = -MAX_TS


class Queue:
    """First in, first out, one producer, one consumer."""

    __slots__ = (
        "batches", "closed", "columns", "merged", "messages", "messages_in", "messages_purged",
        "piggyback", "punctuation", "rows", "told", "wake",
    )  # fmt: skip

    def __init__(self, punctuation: int = BEGINNING, columns: tuple[int, ...] | None = None) -> None:
        self.columns = columns
        """What the consumer wants of each batch; None: everything."""
        self.wake: Callable[[], None] = nobody
        """Called when something comes in: rows, a promise, the end."""
        self.batches: deque[Batch] = deque()
        self.punctuation = punctuation
        self.closed = False
        self.rows = 0
        self.piggyback = False
        self.messages: list[int] = []
        """Times of messages not yet read, in order."""
        self.merged: list[int] = []
        """Times of messages that rows have purged and nobody has read, in order."""
        self.messages_in = self.messages_purged = 0
        self.told = BEGINNING
        """The last time that was read of messages."""

    def call(self, wake: Callable[[], None]) -> None:
        """Call this, and nobody else, whenever something comes in."""
        self.wake = wake

    def want(self, columns: tuple[int, ...] | None) -> None:
        """The consumer reads these columns of each batch; None: everything."""
        self.columns = columns

    def let_rows_purge(self, piggyback: bool) -> None:
        """Whether messages are purged by rows that come behind them."""
        self.piggyback = piggyback

    def put(self, batch: Batch) -> None:
        """Add rows; the consumer sees them before any later promise."""
        if batch.length:
            if self.messages and self.piggyback:
                self.merged += self.messages
                self._purge()
            self.batches.append(batch if self.columns is None else batch.select(self.columns))
            self.rows += batch.length
            self.wake()

    def tell(self, times: Sequence[int]) -> None:
        """Add time-messages, in order."""
        if not times:
            return
        self.messages_in += len(times)
        if self.messages and self.piggyback:
            self._purge()
        self.messages_purged += len(times) - 1 if self.piggyback else 0
        self.messages += times[-1:] if self.piggyback else times
        self.wake()

    def _purge(self) -> None:
        self.messages_purged += len(self.messages)
        self.messages.clear()

    def take_messages(self, bound: int) -> list[int]:
        """The times of the messages up to `bound`, also of merged ones, which are read thereby."""
        times = cut_off(self.merged, bound) if self.merged else []
        times += cut_off(self.messages, bound)
        self.told = max([self.told, *times])
        if self.piggyback and (self.merged or self.messages) and self.told < bound:
            times.append(bound)  # what is still there speaks of all before it
            self.told = bound
        return times

    def read_messages(self, bound: int) -> int:
        """The time of the last message up to `bound`, taken with all before it; BEGINNING if none."""
        times = self.take_messages(bound)
        return times[-1] if times else BEGINNING

    def put_back(self, batch: Batch) -> None:
        """Return rows that were taken: they are the oldest."""
        if batch.length:
            self.batches.appendleft(batch)
            self.rows += batch.length

    def promise(self, ts: int) -> None:
        """Nothing below `ts` follows."""
        self.punctuation = ts
        self.wake()

    def close(self) -> None:
        """Nothing follows."""
        self.closed = True
        self.wake()

    def clear(self) -> None:
        """Forget what is in the queue."""
        self.batches.clear()
        self.messages.clear()
        self.merged.clear()
        self.rows = 0

    def pop(self) -> Batch:
        """The oldest batch, whole."""
        batch = self.batches.popleft()
        self.rows -= batch.length
        return batch

    def take(self, bound: int, inclusive: bool) -> Batch | None:
        """All rows with ts below (or at) `bound`, as one batch; None if there are none."""
        last = bound if inclusive else bound - 1
        taken: list[Batch] = []
        while self.batches:
            batch = self.batches[0]
            if batch.ts[-1] <= last:
                taken.append(self.pop())
                continue
            stop = int(batch.ts.searchsorted(last, side="right"))
            if stop:
                taken.append(batch.slice(0, stop))
                self.batches[0] = batch.slice(stop, batch.length)
                self.rows -= stop
            break
        return concatenate(taken) if taken else None

    def cut_tail(self, keep: int) -> list[Batch]:
        """Take out all rows but the first so many."""
        taken: list[Batch] = []
        while self.rows > keep:
            batch = self.batches.pop()
            self.rows -= batch.length
            left = max(0, keep - self.rows)
            if left:
                self.batches.append(batch.slice(0, left))
                self.rows += left
                batch = batch.slice(left, batch.length)
            taken.append(batch)
        return taken[::-1]

    def return_behind(self, batch: Batch) -> None:
        """Return rows that were cut off: they are the youngest."""
        self.batches.append(batch)
        self.rows += batch.length

    @property
    def frontier(self) -> int:
        """No row that is still to be consumed is older than this."""
        if self.batches:
            return int(self.batches[0].ts[0])
        return MAX_TS if self.closed else self.punctuation

    def _check_restored(self) -> None:
        expect(all(one.length > 0 and len(one.ts) == one.length for one in self.batches), "batches with rows")
        expect(self.rows == sum(one.length for one in self.batches), "the number of rows that wait")
        for one in self.batches:
            rising(one.ts, "rows that wait")
        rising(
            np.array([time for one in self.batches for time in one.ts[[0, -1]]], np.int64), "rows that wait"
        )
        for times in (self.messages, self.merged):
            rising(np.array(times, np.int64), "messages")


def cut_off(times: list[int], bound: int) -> list[int]:
    """Take those up to `bound` out of a sorted list."""
    stop = bisect_right(times, bound)
    found = times[:stop]
    del times[:stop]
    return found


def nobody() -> None:
    """Wakes nobody."""


def bound_of(queues: Sequence[Queue], rows: int) -> int:
    """How far a consumer of all these may go in one step: rows up to here have come on every one of them.

    That is what all promise, or less if that would be many more than `rows` rows of one of them.
    """
    bound = min(MAX_TS if queue.closed else queue.punctuation for queue in queues)
    for queue in queues:
        come = 0
        for batch in queue.batches:
            if batch.ts[0] > bound:
                break
            come += batch.length
            if come >= rows:
                bound = min(bound, int(batch.ts[-1]))
                break
    return bound


def instants_of(queues: Sequence[Queue], rows: int) -> int:
    """The same where the rows of one ts must be consumed together: all rows *below* this have come."""
    bound = min(MAX_TS if queue.closed else queue.punctuation for queue in queues)
    for queue in queues:
        come = 0
        for batch in queue.batches:
            if batch.ts[0] >= bound:
                break
            come += batch.length
            if come >= rows:
                bound = min(bound, int(batch.ts[-1]) + 1)
                break
    return bound


class Outlet:
    """Where an operator's output goes: the same batches into every queue."""

    __slots__ = ("closed", "punctuation", "queues")

    def __init__(self, punctuation: int = BEGINNING) -> None:
        self.queues: list[Queue] = []
        self.punctuation = punctuation
        self.closed = False

    def begin(self, punctuation: int, closed: bool) -> None:
        """So much has been promised before anybody reads."""
        self.punctuation, self.closed = punctuation, closed

    def put(self, batch: Batch) -> None:
        for queue in self.queues:
            queue.put(batch)

    def tell(self, times: Sequence[int]) -> None:
        """Send time-messages, in order: what has gone by these times had been passed on."""
        for queue in self.queues:
            queue.tell(times)

    def promise(self, ts: int) -> None:
        """Nothing below `ts` follows."""
        if ts > self.punctuation:
            self.punctuation = ts
            for queue in self.queues:
                queue.promise(ts)

    def close(self) -> None:
        """Nothing follows."""
        self.closed = True
        for queue in self.queues:
            queue.close()
