"""Several inputs, one sequence of steps: by time, so that no stream runs far ahead of another.

A stream that is behind is always read on first. The engine then holds, for each stream, at most one batch
that the others have not reached yet, whatever the length of the inputs.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from .batch import NO_TIME, Batch, merge_batches
from .inputs import Input
from .read_rules import STRICT, ReadRules

TICK_S = 0.02
LONGEST_SLEEP_S = 0.2


@dataclass(frozen=True, slots=True)
class Step:
    """Rows for a stream (None: only time has passed), and how far time has come once they are in.

    No input gives a row before `reached_us` any more; inputs that have ended no longer hold it back. None
    while some input has given nothing yet.
    """

    stream: str
    batch: Batch | None
    reached_us: int | None


class Feed:
    """All inputs of one stream as one; several are merged row by row, ties in the order they were given."""

    def __init__(
        self,
        stream: str,
        inputs: Sequence[Sequence[str]],
        schema: pa.Schema,
        time_column: str,
        slack_us: int = 0,
        rules: ReadRules = STRICT,
    ) -> None:
        self.stream = stream
        self.slack_us = slack_us
        names: list[str] = []
        self.inputs = [Input(paths, schema, time_column, names, rules) for paths in inputs]
        self._waiting: list[Batch | None] = [None] * len(self.inputs)
        self._ended = [False] * len(self.inputs)

    def read(self) -> Batch | None:
        """The next rows in time order, None at the end."""
        for at, input_ in enumerate(self.inputs):
            if self._waiting[at] is None and not self._ended[at]:
                self._waiting[at] = input_.read()
                self._ended[at] = self._waiting[at] is None
        waiting = [(at, batch) for at, batch in enumerate(self._waiting) if batch is not None]
        ready = []
        for at, batch in waiting:
            count = self._count_ready(at, batch, waiting)
            if count:
                ready.append(batch.slice(0, count))
                self._waiting[at] = batch.slice(count, len(batch)) if count < len(batch) else None
        return merge_batches(ready) if ready else None

    @staticmethod
    def _count_ready(at: int, batch: Batch, waiting: list[tuple[int, Batch]]) -> int:
        """How many rows can go: those that nothing still unread of another input comes before.

        What input i has not given yet comes at or after the last time it gave, and at that time after the
        rows of inputs before it. The input whose last time is smallest can always give all it has.
        """
        count = len(batch)
        for other, its_batch in waiting:
            if other != at:
                # What stands at the same time as the other's last goes first if its input does.
                side: Literal["left", "right"] = "right" if at < other else "left"
                count = min(count, int(np.searchsorted(batch.times, its_batch.times[-1], side=side)))
        return count

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all files, None if some input's size is not known."""
        sizes = [input_.bytes_total for input_ in self.inputs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def bytes_worked(self, rows: int) -> float:
        """Bytes that `rows` rows of this feed stand for: what was read ahead of them does not count."""
        decoded = sum(input_.rows_decoded for input_ in self.inputs)
        return sum(input_.bytes_done for input_ in self.inputs) * min(1.0, rows / max(1, decoded))

    def close(self) -> None:
        for input_ in self.inputs:
            input_.close()


def read_in_time_order(feeds: Sequence[Feed]) -> Iterator[Step]:
    """Batches of all feeds, each time from the feed that has come least far."""
    ahead = [(int(NO_TIME), at) for at in range(len(feeds))]  # a heap of the feeds that have not ended
    while ahead:
        _, at = ahead[0]
        batch = feeds[at].read()
        if batch is None:
            heapq.heappop(ahead)
            continue
        heapq.heapreplace(ahead, (int(batch.times[-1]) - feeds[at].slack_us, at))
        reached = ahead[0][0]
        yield Step(feeds[at].stream, batch, reached if reached > NO_TIME else None)


def replay(
    feeds: Sequence[Feed],
    speed: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Step]:
    """The same rows, each when its time has come: `speed` seconds of stream time per second of `clock`."""
    heads = [feed.read() for feed in feeds]
    start_us = min((int(head.times[0]) for head in heads if head is not None), default=0)
    started = clock()
    while True:
        now_us = start_us + int((clock() - started) * speed * 1e6)
        for at, feed in enumerate(feeds):
            while (head := heads[at]) is not None and head.times[0] <= now_us:
                count = int(np.searchsorted(head.times, now_us, side="right"))
                heads[at] = head.slice(count, len(head)) if count < len(head) else feed.read()
                yield Step(feed.stream, head.slice(0, count), None)
        live = [
            (feed, int(head.times[0])) for feed, head in zip(feeds, heads, strict=True) if head is not None
        ]
        if not live:
            return
        # What is still to come is newer than now, but for the slack of its stream.
        yield Step(live[0][0].stream, None, now_us - max(feed.slack_us for feed, _ in live))
        wait_s = (min(next_us for _, next_us in live) - now_us) / 1e6 / speed
        sleep(min(max(wait_s, TICK_S), LONGEST_SLEEP_S))
