"""What a member of a chain of sliced joins is given: the pairs of its slices, in time order.

In:      pairs of each slice below the member's longer window, in time order; punctuations, which are the
         males having passed the slice.
Out:     the pairs that are within its windows and whose rows satisfy its predicates, as its columns.
Kept:    nothing beyond its queues, where a pair waits until every slice has reached its time.

Predicates are not evaluated: the lineage of the two rows tells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batch import Batch, Gather
from ..kernels.slice_join import LEFT_ROW, PAIR_FIELDS, RIGHT_ROW, TS, take_pairs
from ..member import Member
from ..operator import Counters, Stateless, pass_time
from ..queue import Queue, bound_of
from .side import Side
from .slice_join import References, SliceJoin

NEVER = (1 << 63) - 1
MAX_TEXT_BYTES = 1 << 30  # in one batch of pairs: Arrow's strings end at twice that


class Asked(NamedTuple):
    """What a member asks of the rows of a side: leaf between low and high, or all of `bits` set."""

    side: int
    number: int
    """Of the dimension, or of the word."""
    low: int
    high: int
    bits: int


class OrderedUnion(Stateless):
    """Merges by the slices' promises."""

    def __init__(self, member: Member, sides: tuple[Side, Side], name: str) -> None:
        self.name = name
        self.member = member
        self.output = member.output
        self.counters = Counters()
        self.inputs: list[Queue] = []
        self.since = np.zeros(2, np.int64)
        """It takes pairs found by rows from this one on, of each side."""
        """And below this one."""
        self._sides = sides
        self._sources: dict[SliceJoin, Queue] = {}
        self._retired: list[Queue] = []
        """Of slices that are no more; what they have found may still wait here."""
        self._windows = np.zeros(2, np.int64)
        self._dimensions: list[Asked] = []
        self._words: list[Asked] = []

    def step(self, quantum: int) -> bool:
        if not self.inputs:
            return False
        if self.member.counting:
            worked = self.count()
        else:
            pairs = self._taken(bound_of(self.inputs, quantum))
            worked = pairs.shape[1] > 0
            self._emit(self._matching(pairs))
        if self._retired:
            self._forget_retired()
        return pass_time(self.inputs, self.output) or worked

    def count(self) -> bool:
        """Count all pairs that have come: their order does not matter; False if there were none."""
        pairs = self._taken(NEVER)
        found = self._matching(pairs).shape[1]
        self.member.found += found
        self.counters.rows_out += found
        return pairs.shape[1] > 0

    def _taken(self, bound: int) -> NDArray:
        """The waiting pairs up to a time, in time order: int64[PAIR_FIELDS, n]."""
        taken: list[NDArray] = []
        inputs = 0
        for queue in self.inputs:
            come = len(taken)
            while queue.batches and queue.batches[0].ts[0] <= bound:
                batch = queue.pop()
                assert isinstance(batch, References), "expected pairs in the queue of a union"
                if batch.ts[-1] > bound:
                    stop = int(batch.ts.searchsorted(bound, side="right"))
                    queue.batches.appendleft(rest := batch.slice(stop, batch.length))
                    queue.rows += rest.length
                    batch = batch.slice(0, stop)
                taken.append(batch.table)
            inputs += len(taken) > come
        if not taken:
            return np.empty((PAIR_FIELDS, 0), np.int64)
        pairs = taken[0] if len(taken) == 1 else np.concatenate(taken, axis=1)
        self.counters.rows_in += pairs.shape[1]
        if inputs > 1 and not self.member.counting:
            pairs = pairs.take(np.argsort(pairs[TS], kind="stable"), axis=1)
        return pairs

    def _matching(self, pairs: NDArray) -> NDArray:
        """The pairs that are the member's."""
        if not pairs.shape[1]:
            return pairs
        # 1. windows; rows out of all windows may be gone, so this comes first
        kept = np.empty(pairs.shape[1], np.int64)
        count = take_pairs(pairs, self._windows, self.since, kept)
        pairs = pairs if count == pairs.shape[1] else pairs.take(kept[:count], axis=1)
        if not count or not (self._dimensions or self._words):
            return pairs
        # 2. lineage
        fits = np.ones(pairs.shape[1], np.bool_)
        for side, number, low, high, _ in self._dimensions:
            leaves = self._sides[side].shelves[0].leaves[number]
            values = leaves.data[pairs[LEFT_ROW + side] - leaves.base]
            fits &= (values >= low) & (values <= high)
        for side, number, _, _, bits in self._words:
            words = self._sides[side].shelves[0].words[number]
            fits &= (words.data[pairs[LEFT_ROW + side] - words.base] & bits) == bits
        return pairs if fits.all() else pairs.take(np.flatnonzero(fits), axis=1)

    def _emit(self, pairs: NDArray) -> None:
        if not pairs.shape[1]:
            return
        node = self.member.node
        columns = [
            [Gather(self._sides[side].view(column), rows) for column in node.sides[side].columns]
            for side, rows in ((0, pairs[LEFT_ROW]), (1, pairs[RIGHT_ROW]))
        ]
        if node.swapped:
            columns.reverse()
        self._emit_within(Batch(pairs[TS], columns[0] + columns[1]))

    def _emit_within(self, pairs: Batch) -> None:
        """Pass pairs on in batches whose text Arrow can address."""
        if pairs.length > 1 and pairs.text_bytes > MAX_TEXT_BYTES:
            half = pairs.length // 2
            self._emit_within(pairs.slice(0, half))
            self._emit_within(pairs.slice(half, pairs.length))
            return
        self.member.found += pairs.length
        self.counters.rows_out += pairs.length
        self.output.put(pairs)

    # -- migration ----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Learn anew what the member asks for: it, or the lineage of its sides, has changed."""
        self._windows[:] = self.member.sizes
        self._dimensions, self._words = [], []
        for side in self._sides:
            demand = side.demand_of(self.member)
            for d, count in enumerate(side.leaf_counts):
                low, high = int(demand.low[0, d]), int(demand.high[0, d])
                if (low, high) != (0, count - 1):
                    self._dimensions.append(Asked(side.number, d, low, high, 0))
            for w, bits in enumerate(demand.bits[0].tolist()):
                if bits:
                    self._words.append(Asked(side.number, w, 0, 0, bits))

    def connect(self, slices: list[SliceJoin]) -> None:
        """Take the pairs of these slices from now on, and what others have given before."""
        for slice_, queue in self._sources.items():
            if slice_ not in slices:
                slice_.output.queues.remove(queue)
                queue.closed = True
                self._retired.append(queue)
        self._sources = {slice_: self._sources.get(slice_) or self._tap(slice_) for slice_ in slices}
        self.inputs = [*self._retired, *self._sources.values()]

    def leave(self) -> None:
        """Take nothing any more."""
        self.connect([])
        self.inputs, self._retired = [], []

    def _tap(self, slice_: SliceJoin) -> Queue:
        queue = Queue(slice_.output.punctuation)
        queue.closed = slice_.output.closed
        if self.inputs:
            queue.wake = self.inputs[0].wake
        slice_.output.queues.append(queue)
        return queue

    def _forget_retired(self) -> None:
        """Let go of the emptied queues of slices that are no more."""
        self._retired = [queue for queue in self._retired if queue.batches]
        self.inputs = [*self._retired, *self._sources.values()]

    def _check(self) -> None:
        for queue in self.inputs:
            for batch in queue.batches:
                assert isinstance(batch, References), "expected pairs in the queue of a union"
                batch._check()
            assert queue.rows == sum(batch.length for batch in queue.batches), "rows of a queue miscounted"
        assert len(self._sources) + len(self._retired) == len(self.inputs), "a slice without a queue"
