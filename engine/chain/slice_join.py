"""One slice [start, end) of a chain of window joins.

In:      references in time order, in one queue: females are to be kept, males seek among them.
Out:     pairs of a male and a female of the other side whose age is within the slice, or only how many there
         are, if nobody asks for more; and to the next slice the females that have come to the age `end` and
         every male.
Kept:    the females of both sides, by age.
Dropped: a female at the age `end` that nobody needs any longer, and any at the last slice's end.

A male first purges the other side: what has left the slice goes into the next queue, ahead of the male. Then
it probes, then it is passed on. So in every slice a male meets exactly the females whose age at its time is
within the slice, whoever runs when (State-Slice, lemma 1). A reference of kind TIME purges both sides.

    queue  m4 f3 m3 f2 |  [start ...... end)  |  m2 f1 m1   next queue
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.kernels.chain.slice_join import (
    AT_FEMALE,
    AT_RECORD,
    CURSOR_SLOTS,
    FIELDS,
    IS_PROBING,
    KIND,
    LIFETIME,
    MALE,
    PAIR_FIELDS,
    REACH,
    ROW,
    STATE_FIELDS,
    STATE_LIFETIME,
    STATE_POS,
    STATE_ROW,
    TS,
    count_ages,
    run_slice,
)
from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK
from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.keys.verify import equal_keys
from penstock.engine.restoring.in_order import expect, rising, within
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.window import MAX_TS
from penstock.engine.shelves.side import Side

from .slice_counts import SliceCounts
from .slice_pairs import Pairs, References, room_for
from .slice_run import SliceRun

STEP_RECORDS = 16_384
MIN_ROOM = 56  # as all rooms an odd number of cache lines, so that fields do not compete for the same ones
MIN_PAIRS = 1_024
MAX_PAIRS = 32_768  # found at once: bounds the output whatever one male may match


class SliceState:
    """The females of both sides, each side's in order of age: int64[2, 4, room], [span[0], span[1]) alive."""

    def __init__(self) -> None:
        self.data: NDArray = np.empty((2, STATE_FIELDS, MIN_ROOM), np.int64)
        self.spans: NDArray = np.zeros((2, 2), np.int64)

    def live(self, side: int) -> NDArray:
        """int64[4, n], oldest first; the state's own memory."""
        return self.data[side, :, self.spans[side, 0] : self.spans[side, 1]]

    def __len__(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    def reserve(self, rows: int) -> None:
        """Make room for `rows` more females on either side."""
        (_, left), (_, right) = self.spans.tolist()
        if max(left, right) + rows > self.data.shape[2]:
            self.fill([self.live(0), self.live(1)], rows)

    def fill(self, sides: Sequence[NDArray], rows: int = 0) -> None:
        """Hold these females and no others, with room for `rows` more and as many again."""
        room = max(MIN_ROOM, 2 * (max(part.shape[1] for part in sides) + rows) // 16 * 16 + 24)
        data = np.empty((2, STATE_FIELDS, room), np.int64)
        for side, part in enumerate(sides):
            data[side, :, : part.shape[1]] = part
            self.spans[side] = 0, part.shape[1]
        self.data = data

    def _check(self) -> None:
        assert bool((self.spans[:, 0] <= self.spans[:, 1]).all()), "a state ends before it begins"
        assert int(self.spans.max()) <= self.data.shape[2], "females outside the state"
        for side in (0, 1):
            live = self.live(side)
            assert bool(np.all(np.diff(live[STATE_POS]) >= 0)), "females out of order"
            assert bool(np.all(np.diff(live[STATE_ROW]) > 0)), "a female is there twice"

    def _check_restored(self) -> None:
        expect(
            self.data.shape[:2] == (2, STATE_FIELDS) and self.spans.shape == (2, 2), "females of both sides"
        )
        within(self.spans.ravel(), 0, self.data.shape[2] + 1, "females")
        expect(bool((self.spans[:, 0] <= self.spans[:, 1]).all()), "females")
        for side in (0, 1):
            live = self.live(side)
            rising(live[STATE_POS], "females")
            expect(bool((np.diff(live[STATE_ROW]) > 0).all()), "females, each once")
        self.data, self.spans = self.data.copy(), self.spans.copy()  # a run lays them side by side anew


class SliceJoin:
    """Joins what is in [start, end); `onward` leads to the next slice, or nowhere from the last."""

    _owned: ClassVar[tuple[str, ...]] = ("_cursor", "_pairs", "_passed")

    def __init__(
        self,
        start: int,
        end: int,
        queue: Queue,
        sides: tuple[Side, Side],
        name: str,
        punctuation: int,
        tally: SliceCounts,
    ) -> None:
        self.name = f"{name} {start}"
        self.start = start
        self.end = end
        self.inputs = (queue,)
        self.output = Outlet(punctuation)
        """To those who are given pairs in time order."""
        self.loose = Outlet(punctuation)
        """To those who count them: nobody tells them of time."""
        self.onward = Outlet(punctuation)
        self.tally = tally
        """Where pairs are counted if nobody asks for more."""
        self.counters = Counters()
        self.state = SliceState()
        self._sides = sides
        self._work: References | None = None
        self._counting = False
        """Whether pairs of what is being worked are counted and not written."""
        self._cursor = np.zeros(CURSOR_SLOTS, np.int64)
        self._pairs = np.empty((PAIR_FIELDS, MIN_PAIRS), np.int64)
        self._passed = room_for(MIN_ROOM)
        self.timed = True
        """Whether somebody is given the pairs in time order."""
        self.parts: Slices | None = None
        """Windows that end within the slice, if any."""
        self.takes_all: NDArray | None = None
        """If all who take the pairs count all that are young enough: those of males from these rows on;
        int64[2]."""
        self.is_apart = False
        """Whether a window of theirs ends within the slice, so that ages decide."""
        self.run: tuple[SliceRun, int] | None = None
        """Those with which it can be worked in one go, and its number among them."""

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "_pairs", "_passed")

    @property
    def limits(self) -> NDArray:
        """Age at which females of each side leave: `end`, or less if no member's window there is as long."""
        return np.array([min(self.end, side.terms.size) for side in self._sides], np.int64)

    @property
    def queue(self) -> Queue:
        return self.inputs[0]

    @property
    def is_busy(self) -> bool:
        """Whether something waits to be worked."""
        return self._work is not None or bool(self.inputs[0].batches)

    def step(self, quantum: int) -> bool:
        if not self.is_busy:
            return self.pass_time()
        if self.run is not None and self._work is None and self.queue.rows <= quantum:
            run, number = self.run
            if run.work(number):
                return True
        self._run(min(quantum, STEP_RECORDS))
        self.pass_time()
        return True

    def _run(self, records: int) -> None:
        """Work up to so many references; fewer if they give more than is passed on at once."""
        if self._work is None:
            work = self.queue.pop()
            assert isinstance(work, References), "expected references in the queue of a slice"
            self._work = work
            self._cursor[:] = 0
            self.state.reserve(work.table.shape[1])  # for all: a half-worked male knows places in the state
            self.counters.took(work.length)
            self._counting = self.takes_all is not None and work.is_since(self.takes_all)
        table = self._work.table
        stop = min(int(self._cursor[AT_RECORD]) + records, table.shape[1])
        if self._passed.shape[1] < stop - self._cursor[AT_RECORD]:
            self._passed = room_for(2 * (stop - int(self._cursor[AT_RECORD])))
        met = np.zeros(2, np.int64)
        passed, found = run_slice(
            table, stop, self._cursor, self.state.data, self.state.spans, self.start, self.end, self.limits,
            not self.onward.queues, self._passed, 0, self._pairs, self._counting and not self.is_apart, met,
        )  # fmt: skip
        self._sides[0].seen.find(int(found))
        for side, females in zip(self._sides, met.tolist(), strict=True):
            side.seen.meet(females)
        if found:
            if self._counting:
                self._count(int(found))
            else:
                self._emit(Pairs(self._pairs[:, :found].copy(), table, self.timed, self.parts))
            if found == self._pairs.shape[1] < MAX_PAIRS:
                self._pairs = np.empty((PAIR_FIELDS, min(4 * found, MAX_PAIRS)), np.int64)
        if passed:
            self.onward.put(References(self._passed[:, :passed].copy(order="F")))
        if self._cursor[AT_RECORD] == table.shape[1]:
            self._work = None

    def _count(self, found: int) -> None:
        """Add to the tally; by age if a window ends within the slice."""
        self.counters.gave(found)
        if self.is_apart:
            slices = self.tally.slices
            pairs = np.ascontiguousarray(self._pairs[:, :found])
            count_ages(pairs, slices.ends, slices.first, slices.shift, self.tally.counts)
        else:
            self.tally.counts[self.tally.place(self.start)] += found

    def _emit(self, pairs: Pairs) -> None:
        """Pass pairs on; of those found by hash, those whose keys are equal."""
        if self._sides[0].kept.verified:
            left, right = (side.shelves[0].store for side in self._sides)
            rows = pairs.rows[0], pairs.rows[1]
            kept = np.flatnonzero(equal_keys((left, right), rows, len(self._sides[0].kept.verified)))
            pairs = Pairs(pairs.table.take(kept, axis=1), pairs.records, self.timed, self.parts)
        self.counters.gave(pairs.length)
        self.output.put(pairs)
        self.loose.put(pairs)
        self.tally.has_pairs = True

    @property
    def frontier(self) -> int:
        """No reference still to be worked was written before this."""
        if self._work is None:
            return self.queue.frontier
        return int(self._work.ts[self._cursor[AT_RECORD]])

    def pass_time(self) -> bool:
        """Promise what is promised, less what is still to be worked; False if that is nothing new."""
        now = self.frontier
        moved = False
        for outlet in (self.output, self.onward):
            if now == MAX_TS and not outlet.closed:
                outlet.close()
                moved = True
            elif outlet.punctuation < now < MAX_TS:
                outlet.promise(now)
                moved = True
        if now == MAX_TS and not self.loose.closed:
            self.loose.close()
        return moved

    # -- migration ----------------------------------------------------------------------------------

    def halt(self) -> None:
        """Stop between two references, with all that are not worked in the queue."""
        while self._cursor[IS_PROBING]:
            self._run(1)
        if self._work is not None:
            at = int(self._cursor[AT_RECORD])
            rest = self._work.slice(at, self._work.length)
            self.queue.batches.appendleft(rest)
            self.queue.rows += rest.length
            self.counters.rows_in -= rest.length
            self._work = None
            self._cursor[:] = 0

    def drain(self) -> None:
        """Work all that has come."""
        while self._work is not None or self.queue.batches:
            self._run(STEP_RECORDS)
        self.pass_time()

    def absorb(self, older: SliceJoin) -> None:
        """Take over the state of the next slice, whose queue has been drained, and its place."""
        assert older.start == self.end and not older.queue.batches, "expected the next slice, drained"
        both = [np.concatenate([older.state.live(side), self.state.live(side)], axis=1) for side in (0, 1)]
        self.state.fill(both)
        self.end = older.end
        self.onward = older.onward
        self.takes_all = None  # of what was found there not all is everybody's
        self.counters.gave(older.counters.rows_out)

    def renew(self, side: int, first_row: int, lifetimes: NDArray, reaches: NDArray) -> None:
        """Rows of a side are asked for by others from now on: lifetimes[row - first_row] of females, int64,
        and how far males look back at most.

        Females that nobody who reaches this slice needs are forgotten, and those of rows no longer stored.
        """
        self.halt()
        live = self.state.live(side)
        rows = live[STATE_ROW]
        live[STATE_LIFETIME] = lifetimes_at(rows, first_row, lifetimes)
        kept = live[:, live[STATE_LIFETIME] > self.start]
        if kept.shape[1] < live.shape[1]:
            self.state.fill([kept, self.state.live(1)] if side == 0 else [self.state.live(0), kept])
        for n, batch in enumerate(self.queue.batches):
            assert isinstance(batch, References), "expected references in the queue of a slice"
            table = batch.table
            males = np.flatnonzero(table[KIND] == MALE + side)
            reach = lifetimes_at(table[ROW, males], first_row, reaches)
            table[REACH, males] = np.minimum(table[REACH, males], reach)
            mine = np.flatnonzero(table[KIND] == side)
            table[LIFETIME, mine] = lifetimes_at(table[ROW, mine], first_row, lifetimes)
            gone = mine[table[LIFETIME, mine] <= self.start]
            if len(gone):
                others = np.delete(np.arange(batch.length), gone)
                self.queue.batches[n] = References(table.take(others, axis=1))
                self.queue.rows -= len(gone)
        self.queue.batches = deque(batch for batch in self.queue.batches if batch.length)

    # -- for people and tests -----------------------------------------------------------------------

    def females(self, side: int) -> NDArray:
        """Row references of the females of a side, oldest first."""
        return self.state.live(side)[STATE_ROW].copy()

    @property
    def waiting(self) -> NDArray:
        """References not yet worked: int64[FIELDS, n]."""
        tables = [batch.table for batch in self.queue.batches if isinstance(batch, References)]
        if self._work is not None:
            tables.insert(0, self._work.table[:, self._cursor[AT_RECORD] :])
        return np.concatenate([np.empty((FIELDS, 0), np.int64), *tables], axis=1)

    @property
    def state_rows(self) -> int:
        return len(self.state)

    @property
    def state_bytes(self) -> int:
        return int(self.state.data.nbytes + self._pairs.nbytes + self._passed.nbytes)

    def _check(self) -> None:
        assert 0 <= self.start < self.end, "an empty slice"
        self.state._check()
        for side in (0, 1):
            lifetimes = self.state.live(side)[STATE_LIFETIME]
            assert bool((lifetimes > self.start).all()), "a female that nobody needs in this slice"
        waiting = self.waiting
        assert bool(np.all(np.diff(waiting[TS]) >= 0)), "references out of order"
        is_female = waiting[KIND] < MALE
        assert bool((waiting[LIFETIME, is_female] > self.start).all()), (
            "a female that nobody needs is on its way"
        )
        if self._cursor[IS_PROBING]:
            assert self._work is not None, "a male is half worked and not there"
            assert 0 <= self._cursor[AT_FEMALE] <= int(self.state.spans[:, 1].max()), (
                "probing beyond the state"
            )

    def is_of(self, sides: tuple[Side, Side], tally: SliceCounts) -> bool:
        """Whether it joins these sides and counts there."""
        return self._sides == sides and self.tally is tally

    def _check_restored(self) -> None:
        expect(0 <= self.start < self.end, "a slice")
        expect(self.takes_all is None or len(self.takes_all) == 2, "rows of both sides")
        expect(self._pairs.shape[0] == PAIR_FIELDS and self._pairs.shape[1] >= MIN_PAIRS, "room for pairs")
        expect(len(self._cursor) == CURSOR_SLOTS, "a cursor")
        expect(self._work is not None or not self._cursor[IS_PROBING], "a male that is there")
        for number, side in enumerate(self._sides):
            rows = self.state.live(number)[STATE_ROW]
            within(rows >> ROW_BITS, 0, max(len(side.shelves), 1), "shelves")
            for shelf_number, shelf in enumerate(side.shelves):
                own = rows[rows >> ROW_BITS == shelf_number] & ROW_MASK
                within(own, 0, shelf.store.ts.end, "rows of a shelf")  # some have gone


def lifetimes_at(rows: NDArray, first_row: int, lifetimes: NDArray) -> NDArray:
    """lifetimes[row - first_row], 0 for rows before the first."""
    known = rows >= first_row
    out = np.zeros(len(rows), np.int64)
    out[known] = lifetimes[rows[known] - first_row]
    return out
