"""Neighbouring slices of a chain of which everybody only counts the pairs, worked in one go.

In:      the references that wait before one of them, while nothing waits before those after it.
Out:     what the last of them passes on; pairs are counted where they are found.
Kept:    where the slices' states are; these are laid side by side, so that a kernel finds them all.

It is a turn of each slice, one after the other: every slice has its own state, and what it passes on is in a
queue until the next one has worked it. Slices that are given short turns are worked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.chain.slice_join import NOBODY, PAIR_FIELDS, STATE_FIELDS, first_males
from penstock.engine.kernels.chain.slice_run import RANGE_SLOTS, run_slices
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.window import MAX_TS
from penstock.engine.shelves.side import Side

from .slice_counts import SliceCounts
from .slice_pairs import References, room_for

if TYPE_CHECKING:
    from .slice_join import SliceJoin

QUEUE_ROOM = 1_024
PAIRS = 1_024


class SliceRun:
    """Slices in order of age; each knows the run it is in."""

    _owned: ClassVar[tuple[str, ...]] = ("_flows", "_met", "_regions")

    def __init__(self, slices: Sequence[SliceJoin], sides: tuple[Side, Side], tally: SliceCounts) -> None:
        self.slices = list(slices)
        self._sides = sides
        self._tally = tally
        since = np.max([slice_.takes_all for slice_ in slices], axis=0)  # type: ignore[arg-type]
        self._since: NDArray | None = since if since.any() else None
        """Males of rows from these on are everybody's; None: all that come."""
        self._ranges: NDArray = np.zeros((len(slices), RANGE_SLOTS), np.int64)
        for n, slice_ in enumerate(slices):
            place = tally.place(slice_.start)
            self._ranges[n] = slice_.start, slice_.end, *slice_.limits, place, slice_.is_apart
            slice_.run = self, n
        self._flows: NDArray = np.zeros((len(slices), 2), np.int64)
        self._spans: NDArray = np.zeros((len(slices), 2, 2), np.int64)
        self._regions: NDArray = np.zeros((len(slices), 2), np.int64)
        self._states: NDArray = np.empty(0, np.int64)
        self._queues = room_for(QUEUE_ROOM), room_for(QUEUE_ROOM)
        self._pairs: NDArray = np.empty((PAIR_FIELDS, PAIRS), np.int64)
        self._met: NDArray = np.zeros(2, np.int64)

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "_queues", "_pairs")

    def _check_restored(self) -> None:
        """Ranges follow from the slices; states are laid side by side when there is something to work."""
        slices = len(self.slices)
        expect(
            slices > 0 and [one.run for one in self.slices] == [(self, n) for n in range(slices)], "slices"
        )
        expect(all(one.is_of(self._sides, self._tally) for one in self.slices), "slices of one chain")
        expect(self._flows.shape == (slices, 2) and self._regions.shape == (slices, 2), "slices of one run")
        expect(self._spans.shape == (slices, 2, 2) and len(self._met) == 2, "both sides of each slice")
        expect(self._since is None or len(self._since) == 2, "rows of both sides")
        for n, slice_ in enumerate(self.slices):
            place = self._tally.place(slice_.start)
            found = slice_.start, slice_.end, *slice_.limits, place, slice_.is_apart
            expect(self._ranges[n].tolist() == list(found), "ranges of slices")
        self._states = np.empty(0, np.int64)
        self._queues = room_for(QUEUE_ROOM), room_for(QUEUE_ROOM)
        self._pairs = np.empty((PAIR_FIELDS, PAIRS), np.int64)

    def work(self, number: int) -> bool:
        """Work what waits before a slice, in it and in all after it; False if they must be worked apart."""
        slices = self.slices[number:]
        first = slices[0]
        for later in slices[1:]:
            if later.is_busy:
                return False
        while first.queue.batches:
            head = first.queue.batches[0]
            assert isinstance(head, References), "expected references in the queue of a slice"
            if not self._are_everybodys(head.table):
                return False
            first.queue.pop()
            self._work(number, head.table)
        self._pass_time(slices)
        return True

    def _are_everybodys(self, table: NDArray) -> bool:
        """Whether the males are of rows that came when all members were there; their rows only grow."""
        if self._since is None:
            return True
        first = first_males(table)
        if first[0] < self._since[0] or first[1] < self._since[1]:
            return False
        if max(first) < NOBODY:
            self._since = None
        return True

    def _work(self, number: int, table: NDArray) -> None:
        self._settle(number)
        last, slices = self.slices[-1], self._tally.slices
        before = int(self._flows[:, 1].sum())
        while True:
            number, queue, stop = run_slices(
                table, number, self._states, self._regions, self._spans, self._ranges, not last.onward.queues,
                self._queues, self._pairs, (slices.ends, slices.first, slices.shift), self._tally.counts,
                self._flows, self._met,
            )  # fmt: skip
            if queue >= 0:
                table = self._queues[queue][:, :stop].copy(order="F")
            if number == len(self.slices):
                break
            self._make_room(number, stop)
        self._sides[0].seen.find(int(self._flows[:, 1].sum()) - before)
        for side, females in zip(self._sides, self._met.tolist(), strict=True):
            side.seen.meet(females)
        self._met[:] = 0
        if stop:
            last.onward.put(References(table))

    def report(self) -> None:
        """Bring the slices' counters up to date."""
        for slice_, (rows_in, rows_out) in zip(self.slices, self._flows.tolist(), strict=True):
            slice_.counters.took(rows_in)
            slice_.counters.gave(rows_out)
        self._flows[:] = 0

    def leave(self) -> None:
        """From now on the slices are worked one by one."""
        self.report()
        for slice_ in self.slices:
            slice_.run = None

    def _make_room(self, number: int, rows: int) -> None:
        """So many references come into a slice, and as many and all of its females may leave it."""
        most = rows + len(self.slices[number].state)
        if most > self._queues[0].shape[1]:
            self._queues = room_for(2 * most), room_for(2 * most)
        for later in self.slices[number:]:  # about as many will come there
            later.state.reserve(rows)
        self._settle(number)

    def _settle(self, number: int) -> None:
        """See to it that the states from a slice on lie side by side."""
        for slice_ in self.slices[number:]:
            if slice_.state.data.base is not self._states:
                self._lay_out()
                break

    def _lay_out(self) -> None:
        rooms = [slice_.state.data.size for slice_ in self.slices]
        states = np.empty(sum(rooms), np.int64)
        self._regions[:, 1] = np.cumsum(rooms)
        self._regions[1:, 0] = self._regions[:-1, 1]
        for slice_, (begin, end), spans in zip(self.slices, self._regions.tolist(), self._spans, strict=True):
            state, room = slice_.state, states[begin:end].reshape(2, STATE_FIELDS, -1)
            for side in (0, 1):
                low, high = state.spans[side].tolist()
                room[side, :, low:high] = state.data[side, :, low:high]
            spans[:] = state.spans
            state.data, state.spans = room, spans
        self._states = states

    def _pass_time(self, slices: Sequence[SliceJoin]) -> None:
        """What the first was promised holds for all; none of them need be woken to hear it. That nothing
        follows, each hears in its next turn."""
        now = slices[0].queue.frontier
        for slice_, later in pairwise(slices):
            slice_.output.promise(now)
            slice_.onward.punctuation = later.queue.punctuation = now
        slices[-1].pass_time()

    def _check(self) -> None:
        assert bool((self._regions[1:, 0] >= self._regions[:-1, 1]).all()), "states overlap"
        assert bool((np.diff(self._ranges[:, :2].ravel()) >= 0).all()), "slices out of order"
        for slice_, spans in zip(self.slices, self._spans, strict=True):
            if slice_.state.data.base is self._states:
                assert slice_.state.spans is spans or np.shares_memory(slice_.state.spans, spans), (
                    "a state that nobody else knows"
                )
        assert MAX_TS > int(self._flows.min()) >= 0, "fewer than no references"
