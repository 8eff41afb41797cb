"""Window join of three or more streams by equal keys, for one query or for many that have it in common.

In:      rows of all sides, each in time order.
Out:     to each member, for rows of all streams, one of each, with equal keys, while all of them are in its
         windows and satisfy its predicates, one row at the latest of their times: the columns it asked for.
Kept:    each side's rows that some member still needs, once (see many_side.py); nothing of what was found.
Dropped: a row when no row still to come can meet it, known from the punctuations of all inputs.

A new row looks for partners on one side after the other (probe_order.py); what it has found so far seeks on.
Law: a row of the join is found by the latest of its parts; of parts with one ts in one batch, by that of the
lowest side. So what it finds was there before it, and it has the time of what is found.

    a   1 . . . 5 . .       5 finds 2 of b, both find 3 of c:  one row at 5
    b   . 2 . . . 6 .       6 finds 5 of a, both find 3 of c:  one row at 6
    c   . . 3 . . . .       nothing is kept of the pairs that were found on the way

On a side of ROWS windows rows age by their place in the stream. Such a window is known when its instant is
over, so where one side has them, rows of all sides wait until all inputs have passed their ts, and whoever
has been displaced at its own instant seeks nothing. Members with other kinds of window have another join,
and do not wait.

One search serves all members, whatever the sizes of their windows: rows stay as long as the longest that
needs them, and who takes what is found is told from the ages and the lineage of its parts (row_giver.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import Queue
from penstock.engine.indexes.build import NO_INDEX
from penstock.engine.joins.members_join import MembersJoin
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.lineage import Demand
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.plan.plan import CommonManyJoin
from penstock.engine.rows.types import SqlType
from penstock.engine.shelves.coverage import note_coverage
from penstock.engine.shelves.next_rows import next_rows
from penstock.engine.shelves.stored_side import rearrange
from penstock.engine.windows.window_lanes import few_ends

from .many_seek import Found, Seen, take_step
from .many_side import Keys, ManySide
from .probe_order import Step, order_probes
from .row_giver import RowGiver

STEP_ROWS = 32_768  # of one side taken in at once
FIRST_ROWS = 256  # of one side that seek at once, before it is known how many rows they find
GOOD_ROWS = 65_536  # to be found by those that seek at once
MOST_SHELVES = 8  # of a side, each of which is looked up
FIRST_LOOK = 4_096  # rows in, after which the order of looking up is thought over; then at every doubling


class SideIndex(QueryIndex):
    """How long members need rows of one side: what they ask of the others does not count."""

    def __init__(self, sizes: NDArray, demand: Demand, side: ManySide) -> None:
        dimensions, words = side.tag_widths
        super().__init__(
            np.stack([sizes, sizes]), demand.low, demand.high, demand.bits,
            side.leaf_counts, [0] * dimensions, [0] * words,
        )  # fmt: skip

    def longest(self, side: int, of: int, leaves: NDArray, words: NDArray) -> NDArray:
        return super().longest(0, 0, leaves, words)


class ManyJoin(MembersJoin):
    """Joins three or more inputs; see the module's text."""

    sides: tuple[ManySide, ...]
    _giver: RowGiver

    def __init__(
        self,
        common: CommonManyJoin,
        types: Sequence[Sequence[SqlType]],
        queues: Sequence[Queue],
        name: str,
        strategy: str,
        on_failure: Callable[[Member, Exception], None],
    ) -> None:
        """strategy: with `mem-opt` rows stay exactly as long as some member needs them, with `pull-up` all as
        long as the longest window; else they leave at a few ages, as each is one more place to look up.
        """
        super().__init__(name, queues, on_failure)
        self.common = common
        self.sides = tuple(
            ManySide(number, side, own, queue)
            for number, (side, own, queue) in enumerate(zip(common.sides, types, queues, strict=True))
        )
        self._strategy = strategy
        self._instants = any(side.kind == "rows" for side in common.sides)
        """Whether rows wait until their instant is over."""
        self._giver = RowGiver(self.sides, self.counters)
        self.looked_up: dict[tuple[int, Keys, Keys], tuple[int, int]] = {}
        """How many have sought rows of a side by some of its keys, and how many they have found."""
        self.orders: list[tuple[Step, ...]] = []
        """For each side, how its rows look for partners."""
        self._look_after = FIRST_LOOK
        self._worked: list[int] = [0] * len(self.sides)
        """So many rows of each side's batch have sought."""
        self._seekers = FIRST_ROWS
        """Rows of one side that seek at once."""
        self._order_probes()

    # -- members ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring the counts of the members that only count up to date."""
        self._giver.settle()

    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""
        if not self._is_stale or self.is_working or not self.members:
            return
        self._is_stale = False
        self.settle()
        roster = self.roster = self.roster.after(self.members)
        new = [member for member in self.members if member.is_new]
        most = len(roster) if self._strategy == "mem-opt" else MOST_SHELVES
        ends = tuple(few_ends(sizes, most) for sizes in roster.sizes)
        layout = JoinLayout((NO_INDEX, NO_INDEX), ends, self._strategy != "pull-up")
        # 1. what is asked of rows  2. what newcomers miss  3. where rows are kept
        must_move = [side.prepare(roster, new, layout) for side in self.sides]
        self._giver.refresh(roster)
        note_coverage(roster, self.sides, self._now)
        for side, must in zip(self.sides, must_move, strict=True):
            side.forget_batch()
            side.file_by(SideIndex(roster.sizes[side.number], side.demands(roster), side))
            if must:
                rearrange(side)
            side.expire(self._now)
        self._worked = [0] * len(self.sides)

    # -- a batch ------------------------------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        """Whether rows of a batch have not sought yet."""
        return any(
            worked < len(side.arrival.ts) for worked, side in zip(self._worked, self.sides, strict=True)
        )

    def step(self, quantum: int) -> bool:
        self.refresh()
        if not self.is_working and not self._begin(min(quantum, STEP_ROWS)):
            return self._pass_time()
        if self.is_working:
            # 1. who seeks  2. find  3. pass on in time order
            bound, until = self._next_seekers()
            found = 0
            if bound is None:
                for ts, refs in self._find_all(until):
                    found += len(ts)
                    self._giver.give(ts, refs)
            else:
                parts = list(self._find_all(until))
                found = sum(len(ts) for ts, _ in parts)
                if found:
                    self._giver.give(*in_order(parts))
            rows = max(stop - at for at, stop in zip(self._worked, until, strict=True))
            self._worked = until
            if rows >= self._seekers // 2:
                self._seekers = max(1, min(STEP_ROWS, 4 * rows, GOOD_ROWS * rows // max(found, 1)))
        if not self.is_working:
            self._pass_time()
            self._report_faults()
        return True

    def _begin(self, rows: int) -> bool:
        """Take the next rows all inputs have reached, about `rows` of each; False if there are none."""
        if self.counters.rows_in >= self._look_after:
            self._look_after = 2 * self.counters.rows_in
            self._order_probes()
        taken, self._faults = next_rows(self.sides, self.inputs, self._instants, rows)
        if all(one is None for one in taken):
            return self._report_faults()
        for side, examined in zip(self.sides, taken, strict=True):
            side.arrive(examined)
            side.fill_lookups()
            self.counters.took(0 if examined is None else examined.batch.length)
        self._worked = [0] * len(self.sides)
        return True

    def _order_probes(self) -> None:
        """Settle how rows look for partners, by what was found so far."""
        self.orders = [
            order_probes(side.number, self.common.variables, self.common.bands, self._found_per_seeker)
            for side in self.sides
        ]
        steps = [step for order in self.orders for step in order]
        for side in self.sides:
            side.look_up_by(sorted({step.keys for step in steps if step.side == side.number and step.keys}))

    def _found_per_seeker(self, step: Step) -> float:
        sought, found = self.looked_up.get(step.how, (0, 0))
        return found / sought if sought else float(len(self.sides[step.side]))

    def _next_seekers(self) -> tuple[int | None, list[int]]:
        """Up to which row of each side those are that seek next; and up to which time, None if all have one.

        All of one time up to the last are among them.
        """
        waiting = [side.arrival.ts[at:] for side, at in zip(self.sides, self._worked, strict=True)]
        bound = min(int(ts[min(self._seekers, len(ts)) - 1]) for ts in waiting if len(ts))
        first = min(int(ts[0]) for ts in waiting if len(ts))
        until = [
            at + int(ts.searchsorted(bound, side="right"))
            for ts, at in zip(waiting, self._worked, strict=True)
        ]
        return None if bound == first else bound, until

    def _find_all(self, until: Sequence[int]) -> Iterator[tuple[NDArray, list[NDArray]]]:
        """What the next seekers of each side find: times, and references to a row of each side."""
        for side, at, stop in zip(self.sides, self._worked, until, strict=True):
            if at == stop:
                continue
            times = side.arrival.ts[at:stop]
            probers = side.seekers(at, stop)
            order = self.orders[side.number]
            seen = {step.side: self._seen(step.side, times, side.number) for step in order}
            refs = side.arrival.refs[at:stop]
            first = Found(probers, {side.number: refs if len(probers) == len(refs) else refs[probers]})
            for found in self._seek(order, first, seen):
                yield times[found.probers], [found.refs[number] for number in range(len(self.sides))]

    def _seen(self, number: int, times: NDArray, by: int) -> list[Seen]:
        """The rows of each shelf of a side that probers of side `by` see."""
        side = self.sides[number]
        return [side.bounds(shelf, times, number > by) for shelf in range(len(side.shelves))]

    def _seek(self, steps: tuple[Step, ...], known: Found, seen: dict[int, list[Seen]]) -> Iterator[Found]:
        """Take what is known one step further, and that on to the end, a chunk at a time."""
        if not steps:
            yield known
            return
        step = steps[0]
        total = 0
        for found in take_step(self.sides, step, known, seen[step.side]):
            total += len(found.probers)
            yield from self._seek(steps[1:], found, seen)
        sought_before, found_before = self.looked_up.get(step.how, (0, 0))
        self.looked_up[step.how] = sought_before + len(known.probers), found_before + total


def in_order(parts: Sequence[tuple[NDArray, list[NDArray]]]) -> tuple[NDArray, list[NDArray]]:
    """All that was found, in time order."""
    if len(parts) == 1:
        ts, refs = parts[0]
    else:
        ts = np.concatenate([times for times, _ in parts])
        refs = [np.concatenate(rows) for rows in zip(*(refs for _, refs in parts), strict=True)]
    if bool((np.diff(ts) >= 0).all()):
        return ts, refs
    order = np.argsort(ts, kind="stable")
    return ts[order], [rows[order] for rows in refs]
