"""What a member of a chain of sliced joins is given: the pairs of its slices, in time order.

In:      pairs of each slice below the member's longer window, in time order; punctuations, which are the
         males having passed the slice. A member that only counts is given pairs that have to be tested, in
         any order and without punctuations; the others are counted where they are found (slice_counts.py).
Out:     the pairs that are within its windows and whose rows satisfy its predicates, as its columns.
Kept:    nothing beyond its queues, where a pair waits until every slice has reached its time.

Predicates are not evaluated: the lineage of the two rows tells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters, Stateless, pass_time
from penstock.engine.flow.queue import Outlet, Queue, bound_of, nobody
from penstock.engine.joins.found_pairs import StoredNow, batches_of
from penstock.engine.kernels.chain.slice_join import fit_windows, merge_runs
from penstock.engine.members.member import Member
from penstock.engine.restoring.in_order import expect
from penstock.engine.shelves.side import Side

from .slice_join import SliceJoin
from .slice_pairs import ANY_HIGH, ANY_LOW, Asked, Pairs


class OrderedUnion(Stateless):
    """Merges by the slices' promises."""

    _owned: ClassVar[tuple[str, ...]] = ("_windows",)

    def __init__(self, member: Member, sides: tuple[Side, Side], name: str) -> None:
        self.name = name
        self.member = member
        self.output = member.output
        self.counters = Counters()
        self.queues: list[Queue] = []
        self.inputs: list[Queue] = []
        """Those of the queues that give it a turn when something comes in."""
        self.since = np.zeros(2, np.int64)
        """It takes pairs found by rows from this one on, of each side."""
        self._sides = sides
        self._sources: dict[SliceJoin, Queue] = {}
        self._retired: list[Queue] = []
        """Of slices that are no more; what they have found may still wait here."""
        self._windows = np.zeros(2, np.int64)
        self._asked: tuple[Asked, ...] = ()
        self._spared: dict[Queue, tuple[Asked, ...]] = {}
        """Of slices all of whose ages are within the windows: what is to be asked of their pairs."""
        self._cut: set[Queue] = set()
        """Of slices in which the windows end, both at one age, and nothing else decides."""

    def step(self, quantum: int) -> bool:
        if not self.inputs:
            return False
        worked = self.count() if self.member.counting else self._pass_on(bound_of(self.queues, quantum))
        if self._retired:
            self._forget_retired()
        if not self.member.counting:
            return pass_time(self.queues, self.output) or worked
        if not self.output.closed and all(queue.closed for queue in self.queues):
            self.output.close()
            worked = True
        return worked

    def count(self) -> bool:
        """Count all pairs that have come: their order does not matter; False if there were none."""
        found = come = 0
        for queue in self.queues:
            while queue.batches:
                batch = queue.pop()
                assert isinstance(batch, Pairs), "expected pairs in the queue of a union"
                come += batch.length
                found += self._count(batch, queue)
        self.member.found += found
        self.counters.took(come)
        self.counters.gave(found)
        return come > 0

    def _count(self, pairs: Pairs, queue: Queue) -> int:
        """How many of the pairs are the member's."""
        if queue in self._cut and pairs.is_fresh and pairs.is_since(self.since):
            return pairs.younger(int(self._windows[0]))
        fits = self._fits(pairs, queue)
        return pairs.length if fits is None else int(np.count_nonzero(fits))

    def _pass_on(self, bound: int) -> bool:
        """Give out the waiting pairs up to a time, in time order; False if none were waiting."""
        times: list[NDArray] = []
        rows: list[NDArray] = []
        ends: list[int] = []
        come = given = 0
        for queue in self.queues:
            before = given
            while queue.batches and queue.batches[0].ts[0] <= bound:
                batch = queue.pop()
                assert isinstance(batch, Pairs), "expected pairs in the queue of a union"
                if batch.ts[-1] > bound:
                    stop = int(batch.ts.searchsorted(bound, side="right"))
                    queue.put_back(batch.slice(stop, batch.length))
                    batch = batch.slice(0, stop)
                come += batch.length
                fits = self._fits(batch, queue)
                if fits is None:
                    times.append(batch.ts)
                    rows.append(batch.rows)
                else:
                    kept = np.flatnonzero(fits)
                    times.append(batch.ts[kept])
                    rows.append(batch.rows.take(kept, axis=1))
                given += len(times[-1])
            if given > before:
                ends.append(given)
        self.counters.took(come)
        if given:
            self._emit(*merged(times, rows, ends))
        return come > 0

    def _fits(self, pairs: Pairs, queue: Queue) -> NDArray | None:
        """Which pairs are the member's, uint8 each; None: all."""
        spared = self._spared.get(queue) if pairs.is_fresh and pairs.is_since(self.since) else None
        if spared is not None:
            return pairs.fitting(spared, self._sides) if spared else None
        fits = np.empty(pairs.length, np.uint8)
        fit_windows(pairs.table, pairs.records, self._windows, self.since, fits)
        pairs.fit(self._asked, self._sides, fits)
        return fits

    def _emit(self, ts: NDArray, rows: NDArray) -> None:
        columns = StoredNow(self._sides).columns_of(self.member.node)
        for pairs in batches_of(columns, ts, (rows[0], rows[1])):
            self.member.found += pairs.length
            self.counters.gave(pairs.length)
            self.output.put(pairs)

    # -- migration ----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Learn anew what the member asks for: it, or the lineage of its sides, has changed."""
        self._windows[:] = self.member.sizes
        asked: list[Asked] = []
        for side in self._sides:
            demand = side.demand_of(self.member)
            for d, count in enumerate(side.leaf_counts):
                low, high = int(demand.low[0, d]), int(demand.high[0, d])
                if (low, high) != (0, count - 1):
                    asked.append(Asked(side.number, False, d, low, high, 0))
            for w, bits in enumerate(demand.bits[0].tolist()):
                if bits:
                    asked.append(Asked(side.number, True, w, ANY_LOW, ANY_HIGH, bits))
        self._asked = tuple(asked)
        self._spared, self._cut = {}, set()
        for queue in self.queues:
            for batch in queue.batches:
                if isinstance(batch, Pairs):
                    batch.is_fresh = False

    def spare(self, slice_: SliceJoin, needs_asking: bool) -> None:
        """All ages in a slice are within the windows; nor need rows be asked, unless `needs_asking`."""
        self._spared[self._sources[slice_]] = self._asked if needs_asking else ()

    def cut(self, slice_: SliceJoin) -> None:
        """Of a slice, the member takes what is younger than its window."""
        self._cut.add(self._sources[slice_])

    def connect(self, slices: list[SliceJoin]) -> None:
        """Take the pairs of these slices, in order of age, from now on, and what others have given before."""
        wake = self.inputs[0].wake if self.inputs else nobody
        for slice_, queue in self._sources.items():
            if slice_ not in slices:
                self._outlet(slice_).queues.remove(queue)
                queue.closed = True
                self._retired.append(queue)
        self._sources = {slice_: self._sources.get(slice_) or tap(self._outlet(slice_)) for slice_ in slices}
        self._set_inputs(wake)

    def _outlet(self, slice_: SliceJoin) -> Outlet:
        return slice_.loose if self.member.counting else slice_.output

    @property
    def is_pending(self) -> bool:
        """Whether pairs wait."""
        return any(queue.batches for queue in self.queues)

    def leave(self) -> None:
        """Take nothing any more."""
        self.connect([])
        self.inputs, self.queues, self._retired = [], [], []

    def _forget_retired(self) -> None:
        """Let go of the emptied queues of slices that are no more."""
        wake = self.inputs[0].wake
        self._retired = [queue for queue in self._retired if queue.batches]
        self._set_inputs(wake)

    def _set_inputs(self, wake: Callable[[], None]) -> None:
        """What has passed the last slice has passed the others: that is when there is something to do.

        But more rows may come of an instant that all slices have reached, and find partners in one alone. Who
        counts need not wait for the others.
        """
        self.queues = [*self._retired, *self._sources.values()]
        self.inputs = self.queues
        if not self.member.counting:
            self.inputs = [*self._retired, *list(self._sources.values())[-1:]]
            for queue in self.queues:
                queue.wake = partial(self._wake_for, queue)
        for queue in self.inputs:
            queue.wake = wake

    def _wake_for(self, queue: Queue) -> None:
        """Pairs of an instant that all have reached."""
        last = self.inputs[-1]
        if queue.batches and len(ts := queue.batches[0].ts) and ts[0] <= last.punctuation:
            last.wake()

    def _check(self) -> None:
        for queue in self.queues:
            for batch in queue.batches:
                if isinstance(batch, Pairs):
                    batch._check()
            assert queue.rows == sum(batch.length for batch in queue.batches), "rows of a queue miscounted"
        assert len(self._sources) + len(self._retired) == len(self.queues), "a slice without a queue"

    def _check_restored(self) -> None:
        expect(len(self.since) == len(self._windows) == len(self._sides) == 2, "something of each side")
        expect(
            all(isinstance(one, Pairs) for queue in self.queues for one in queue.batches), "pairs that wait"
        )


def merged(times: list[NDArray], rows: list[NDArray], ends: list[int]) -> tuple[NDArray, NDArray]:
    """Pairs in time order, from some that are so up to each of the ends: ts, and int64[2, n]."""
    ts = times[0] if len(times) == 1 else np.concatenate(times)
    both = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
    if len(ends) == 1:
        return ts, both
    out_ts, out_rows = np.empty_like(ts), np.empty_like(both)
    merge_runs(np.array(ends), ts, both, out_ts, out_rows)
    return out_ts, out_rows


def tap(outlet: Outlet) -> Queue:
    """A queue that is given what a slice finds."""
    queue = Queue(outlet.punctuation)
    queue.closed = outlet.closed
    outlet.queues.append(queue)
    return queue
