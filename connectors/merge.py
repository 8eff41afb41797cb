"""Several inputs, one sequence of steps: by time, so that no stream runs far ahead of another.

A stream that is behind is always read on first. The engine then holds, for each stream, at most one batch
that the others have not reached yet, whatever the length of the inputs.

But an input that is live (live.py) and has given nothing for SILENT_S holds only who is read together with
it: other live inputs are read on, as who writes them waits for that, and files that some query reads without
it. What such queries read together waits in the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from .batch import NO_TIME, Batch, merge_batches
from .inputs import Input
from .live import LOOK_S, Arrivals, LiveInput, is_live
from .read_rules import STRICT, ReadRules

SILENT_S = 1.0
TICK_S = 0.02
LONGEST_SLEEP_S = 0.2


@dataclass(frozen=True, slots=True)
class Step:
    """Rows for a stream (None: only time has passed), and how far time has come once they are in.

    No input gives a row before `reached_us` any more; inputs that have ended no longer hold it back. None
    while some input has given nothing yet.
    beside: while an input is silent, how far each stream has come.
    """

    stream: str
    batch: Batch | None
    reached_us: int | None
    beside: Beside | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """How far streams have come, NO_TIME: not at all; apart those that have ended."""

    going_on: Mapping[str, int]
    ended: Mapping[str, int]


def open_input(
    paths: Sequence[str],
    schema: pa.Schema,
    time_column: str | None,
    names: list[str],
    rules: ReadRules,
    arrivals: Arrivals | None,
) -> Input | LiveInput:
    """An input, read in a thread of its own if it is live."""
    if arrivals is None or not any(map(is_live, paths)):
        return Input(paths, schema, time_column, names, rules)

    def make(wake: int) -> Input:
        return Input(paths, schema, time_column, names, replace(rules, wake=wake))

    return LiveInput(make, arrivals)


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
        arrivals: Arrivals | None = None,
    ) -> None:
        """arrivals: where inputs that are live tell that something has come; None: they are waited for."""
        self.stream = stream
        self.arrivals = arrivals
        self.slack_us = slack_us
        names: list[str] = []
        self.inputs = [open_input(paths, schema, time_column, names, rules, arrivals) for paths in inputs]
        self.is_live = any(isinstance(one, LiveInput) for one in self.inputs)
        self._waiting: list[Batch | None] = [None] * len(self.inputs)
        self._ended = [False] * len(self.inputs)

    @property
    def is_ready(self) -> bool:
        """Whether `read` gives something, or the end, without waiting."""
        inputs = zip(self.inputs, self._waiting, self._ended, strict=True)
        return all(waiting is not None or ended or one.is_ready for one, waiting, ended in inputs)

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


def read_in_time_order(
    feeds: Sequence[Feed], queries: Iterable[Iterable[str]] = (), patience_s: float = SILENT_S
) -> Iterator[Step]:
    """Batches of all feeds, each time from the feed that has come least far, of those that are not silent.

    queries: the streams of each.
    """
    come = dict.fromkeys(range(len(feeds)), int(NO_TIME))  # of the feeds that have not ended
    ended: dict[int, int] = {}
    turns = Turns(feeds, [frozenset(streams) for streams in queries], patience_s)

    def step(at: int, batch: Batch | None) -> Step:
        reached = min(come.values())
        names = ({feeds[one].stream: ts for one, ts in some.items()} for some in (come, ended))
        beside = Beside(*names) if turns.silent else None
        return Step(feeds[at].stream, batch, reached if reached > NO_TIME else None, beside)

    while come:
        order = sorted(come, key=lambda at: (come[at], at))
        at = turns.next(order)
        if at is None:
            yield step(order[0], None)
            continue
        batch = feeds[at].read()
        if batch is not None:
            come[at] = int(batch.times[-1]) - feeds[at].slack_us
            yield step(at, batch)
        else:
            last = come.pop(at)
            ended[at] = last if last == NO_TIME else last + feeds[at].slack_us
            if come and turns.silent:
                yield step(at, None)


class Turns:
    """Which feed is read on, when some may keep us waiting."""

    def __init__(self, feeds: Sequence[Feed], queries: Sequence[frozenset[str]], patience_s: float) -> None:
        self._feeds = feeds
        self._queries = queries
        self._patience_s = patience_s
        self.silent: set[int] = set()
        """Feeds that have kept us waiting for too long, and have given nothing since."""

    def next(self, order: Sequence[int]) -> int | None:
        """The first of some feeds that is ready, if those before it are silent; waits for it. None when none
        has come for a while: whoever reads may have something else to do, and some are silent from then on.
        """
        feeds = self._feeds
        if self.silent:
            self.silent = {at for at in self.silent if at in order and not feeds[at].is_ready}
        if feeds[order[0]].is_ready:
            return order[0]
        arrivals = feeds[order[0]].arrivals
        assert arrivals is not None, "who is not ready is live"
        began = time.monotonic()
        with arrivals.changed:
            while not feeds[order[0]].is_ready:
                waiting = [at for at in order if not feeds[at].is_ready]
                is_late = time.monotonic() - began >= self._patience_s
                if self.silent.issuperset(waiting):
                    going_on = (at for at in order if feeds[at].is_ready and self._may_go_on(feeds[at]))
                    if (found := next(going_on, None)) is not None:
                        return found
                    arrivals.starve()
                if is_late:
                    self.silent.update(waiting)
                    return None
                arrivals.changed.wait(LOOK_S)
            arrivals.go_on()
            return order[0]

    def _may_go_on(self, feed: Feed) -> bool:
        """Whether it must not be held: it is live itself, or a query reads it without one that is silent."""
        silent = {self._feeds[at].stream for at in self.silent}
        return feed.is_live or any(feed.stream in one and one.isdisjoint(silent) for one in self._queries)


def replay(
    feeds: Sequence[Feed],
    speed: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Step]:
    """The same rows, each when its time has come: `speed` seconds of stream time per second of `clock`."""
    heads = [feed.read() for feed in feeds]  # waits for each
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
