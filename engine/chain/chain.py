"""The chain of sliced window joins: the slices of a common join as operators of their own, joined by queues.

            head --> [0, w1) --> [w1, w2) --> [w2, w3)
                       |            |            |
    member 1  <--------+            |            |
    member 2  <--------+------------+            |
    member 3  <--------+------------+------------+          an ordered union per member

Ends of slices are the distinct windows of the members, of both sides together, or some of them. A member
takes the pairs of every slice below its longer window. Members come and go between two steps:

split   a slice's end shrinks, and an empty slice is put after it, which purging fills
merge   what is between two slices is worked, their states become one

What the others are given does not change thereby: a row stays in exactly one state or queue, and pairs that
have been found stay where they are. A new member takes the pairs found by rows that come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue, nobody
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.kernels.chain.slice_join import KIND, ROW
from penstock.engine.kernels.joins.slices import build_slices
from penstock.engine.members.join_layout import JoinLayout, LifetimeCut
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import CommonJoin, MemberNode
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER, MAX_TS
from penstock.engine.shelves.coverage import note_coverage
from penstock.engine.shelves.find_needed import as_matrix
from penstock.engine.shelves.member_index import index_members
from penstock.engine.shelves.next_rows import Fault
from penstock.engine.shelves.side import Side
from penstock.engine.shelves.stored_side import retag

from .chain_head import ChainHead
from .ordered_union import OrderedUnion
from .slice_counts import SliceCounts
from .slice_join import SliceJoin
from .slice_run import SliceRun

Ends = Callable[[Sequence[int]], Sequence[int]]


class ChainGroup:
    """A common join as a chain of slices."""

    def __init__(
        self,
        common: CommonJoin,
        types: tuple[Sequence[SqlType], Sequence[SqlType]],
        queues: tuple[Queue, Queue],
        name: str,
        on_failure: Callable[[Member, Exception], None],
        ends: Ends | None = None,
        changed: Callable[[], None] = nobody,
    ) -> None:
        """`ends` chooses, of the sorted distinct windows, those at which slices end; the last is among them.
        `changed` is called when it is time to refresh, as it may choose others.

        `on_failure` is told of a member whose predicate fails on the data, when what came before is out.
        """
        band = common.condition
        self.common = common
        self.members: list[Member] = []
        self.sides = (
            Side(0, common.left, types[0], queues[0], band),
            Side(1, common.right, types[1], queues[1], None if band is None else band.mirrored()),
        )
        self.head = ChainHead(self.sides, queues, f"{name}.head", self._passed, self._fail, self._look)
        self.slices: list[SliceJoin] = []
        """In order of age, each with `start`, `end`, `females(side)` and what is `waiting` in its queue."""
        self._unions: dict[Member, OrderedUnion] = {}
        self._tally = SliceCounts()
        self._runs: list[SliceRun] = []
        self._name = name
        self._on_failure = on_failure
        self.ends = ends
        self._changed = changed
        self._is_due = False
        """Whether enough has come to think the slices over."""

    @property
    def operators(self) -> list[Operator]:
        """Sources first, with what they have done so far."""
        for run in self._runs:
            run.report()
        return [self.head, *self.slices, *self._unions.values()]

    @property
    def state_rows(self) -> int:
        """Females in all slices."""
        return sum(slice_.state_rows for slice_ in self.slices)

    def refresh(self) -> bool:
        """Changes of the members are taken into account at once, those of the slices now."""
        if not self._is_due or not self.members:
            return False
        self._is_due = False
        ends = self._choose_ends()
        if ends == [slice_.end for slice_ in self.slices]:
            return False
        self._refresh([], ends)
        return True

    def _choose_ends(self) -> list[int]:
        """Where slices are to end now."""
        windows = sorted({size for member in self.members for size in member.sizes})
        ends = windows if self.ends is None else list(self.ends(windows))
        assert set(ends) <= {*windows} and ends[-1] == windows[-1], (
            f"expected some of {windows}, found {ends}"
        )
        return ends

    def present_ends(self) -> list[int]:
        """Where slices end that rows have come to."""
        return [slice_.end for slice_ in self.slices] if self.head.counters.rows_in else []

    def recut(self, ends: Ends) -> None:
        """Let `ends` choose from the next turn on."""
        self.ends = ends
        self._look()

    def _look(self) -> None:
        if self.ends is not None:
            self._is_due = True
            self._changed()

    def settle(self) -> None:
        """Bring the counts of members that only count up to date, as far as the slices have come."""
        self._tally.take()
        if self._tally.has_pairs:
            self._tally.has_pairs = False
            for member, union in self._unions.items():
                if member.counting:
                    union.count()

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Let a query in: it is given the pairs found by rows taken in from now on."""
        self.members.append(member)
        member.output.punctuation = max(member.output.punctuation, self.head.now)
        self._unions[member] = OrderedUnion(member, self.sides, f"{self._name}.union {member.name}")
        self._refresh([member])

    def drop(self, member: Member) -> None:
        """Let a query go; what it alone needed is forgotten."""
        self.members.remove(member)
        self._unions.pop(member).leave()
        self._forget_unfilled(member)
        self._refresh([])

    def alter(self, member: Member, node: MemberNode) -> None:
        """Let a query go on as `node`; rows that have been taken in are worked first, as it was."""
        self.drain()
        member.former = member.node if member.former is None else member.former
        member.become(node)
        member.is_new = True
        member.filled = [None, None]
        self._forget_unfilled(member)
        self._refresh([member])

    def _forget_unfilled(self, member: Member) -> None:
        for side in self.sides:
            side.wait_no_more(member)

    def drain(self) -> None:
        """Work all rows that have been taken in."""
        for slice_ in self.slices:
            slice_.drain()
        for union in list(self._unions.values()):
            while union.step(QUANTUM_ROWS):
                pass

    def _refresh(self, new: Sequence[Member], ends: list[int] | None = None) -> None:
        """Take changed members into account; let slices end at `ends`, if they have been chosen."""
        if not self.members:
            self._clear()
            return
        while self._runs:
            self._runs.pop().leave()
        # 1. what is known of rows
        left, right = (max(member.sizes[side] for member in self.members) for side in (0, 1))
        part = LifetimeCut(0, 0, FOREVER, (left, right))
        layout = JoinLayout(("scan", "scan"), by_lifetime=False, part=part)
        roster = Roster.of(self.members)
        must_tag = [side.prepare(roster, new, layout) for side in self.sides]
        index = index_members(roster, self.sides)
        note_coverage(roster, self.sides, self.head.now)
        for side, must in zip(self.sides, must_tag, strict=True):
            side.file_by(index)
            if must:
                retag(side)
                for shelf in side.shelves:
                    shelf.lifetime = side.terms.size
            if not side.shelves:  # rows are numbered from 0 again
                for union in self._unions.values():
                    union.since[side.number] = 0
            for shelf in side.shelves:
                lifetimes, reaches = (longest_of(side, index, of) for of in (side.number, 1 - side.number))
                for slice_ in self.slices:
                    slice_.renew(side.number, shelf.store.ts.tail, lifetimes, reaches)
                for member in new:
                    self._unions[member].since[side.number] = shelf.store.ts.end
        # 2. slices
        self._reshape(self._choose_ends() if ends is None else ends)
        # 3. who takes what
        for member, union in self._unions.items():
            union.refresh()
            union.connect(self._taken_by(member))
        self._spare(roster)

    def _spare(self, roster: Roster) -> None:
        """Tell slices and unions which pairs need not be tested: they are what the member asks for anyway.

        A row that is in a slice, or looks back into it, satisfies the predicate of some member whose windows
        reach there. If all these ask for no more than another asks, the row satisfies that one's too.
        """
        demands = [side.demands(roster) for side in self.sides]
        low, high, bits = (
            np.hstack([getattr(demand, name) for demand in demands]) for name in ("low", "high", "bits")
        )
        longest = roster.sizes.max(axis=0)
        is_timed = any(side.by_place for side in self.sides)
        self._tally.take()
        counting = roster.counting
        ends = np.union1d(longest, [slice_.end for slice_ in self.slices])
        takers = [(union.member, union.counters) for union in self._unions.values() if union.member.counting]
        windows = np.array([max(member.sizes) for member, _ in takers], np.int64)
        self._tally.renew(ends, takers, windows)
        for slice_ in self.slices:
            taking = np.flatnonzero(longest > slice_.start)
            least, most = low[taking].min(axis=0), high[taking].max(axis=0)
            common = np.bitwise_and.reduce(bits[taking], axis=0)
            is_within = np.logical_and(
                ((least >= low) & (most <= high)).all(axis=1), ((common & bits) == bits).all(axis=1)
            )
            is_whole = np.asarray((slice_.limits[:, None] <= roster.sizes).all(axis=0))
            is_even = roster.sizes[0] == roster.sizes[1]
            members = [roster.members[n] for n in taking.tolist()]
            for n, member in zip(taking.tolist(), members, strict=True):
                if is_timed:
                    continue
                if is_whole[n]:
                    self._unions[member].spare(slice_, not is_within[n])
                elif is_within[n] and is_even[n]:
                    self._unions[member].cut(slice_)
            inner = longest[(longest > slice_.start) & (longest < slice_.end)]
            slice_.parts = build_slices(inner) if len(inner) else None
            slice_.timed = not bool(counting[taking].all())
            takes_all = not slice_.timed and not is_timed and not self.sides[0].kept.verified
            takes_all = takes_all and bool((is_within & (is_whole | is_even))[taking].all())
            slice_.is_apart = not bool(is_whole[taking].all())
            slice_.takes_all = (
                np.max([self._unions[member].since for member in members], axis=0) if takes_all else None
            )
        self._lay_runs()

    def _lay_runs(self) -> None:
        """Neighbours of which all only count can be worked in one go."""
        for counts, group in groupby(self.slices, lambda slice_: slice_.takes_all is not None):
            if counts:
                self._runs.append(SliceRun(list(group), self.sides, self._tally))

    def _taken_by(self, member: Member) -> list[SliceJoin]:
        """The slices below the longer of its windows."""
        return [slice_ for slice_ in self.slices if slice_.start < max(member.sizes)]

    def _clear(self) -> None:
        """Nobody needs anything."""
        self.slices.clear()
        self._runs.clear()
        self.head.output.queues.clear()
        for side in self.sides:
            side.shelves.clear()
            side.file_by(None)

    # -- slices -------------------------------------------------------------------------------------

    def _reshape(self, ends: Sequence[int]) -> None:
        """Make the slices end at `ends`, by extending, splitting, cutting off and merging."""
        if not self.slices:
            self.slices.append(self._new_slice(0, ends[0], self.head.output, self.head.now))
        if self.slices[-1].end < ends[-1]:
            last = self.slices[-1]
            self.slices.append(self._new_slice(last.end, ends[-1], last.onward, last.output.punctuation))
        for end in ends:
            at = next(n for n, slice_ in enumerate(self.slices) if end <= slice_.end)
            if end < self.slices[at].end:
                self._split(at, end)
        while self.slices[-1].start >= ends[-1]:
            self.slices.pop()
            self.slices[-1].onward.queues.clear()
        for at in range(len(self.slices) - 2, -1, -1):
            if self.slices[at].end not in ends:
                self._merge(at)

    def _new_slice(self, start: int, end: int, source: Outlet, punctuation: int) -> SliceJoin:
        """An empty slice that takes what `source` gives from now on."""
        queue = Queue(punctuation)
        queue.closed = source.closed
        source.queues = [queue]
        return SliceJoin(start, end, queue, self.sides, f"{self._name}.slice", punctuation, self._tally)

    def _split(self, at: int, end: int) -> None:
        """Let a slice end at `end`, and an empty one take over from there."""
        former = self.slices[at]
        former.halt()
        onward = former.onward
        former.onward = Outlet(onward.punctuation)
        former.onward.closed = onward.closed
        later = self._new_slice(end, former.end, former.onward, former.output.punctuation)
        later.onward = onward
        former.end = end
        self.slices.insert(at + 1, later)

    def _merge(self, at: int) -> None:
        """Make one of two neighbours."""
        former, later = self.slices[at], self.slices.pop(at + 1)
        former.halt()
        later.drain()
        former.absorb(later)

    # -- what the head asks ---------------------------------------------------------------------------

    def _passed(self) -> int:
        """Time up to which all slices have worked and all members have been given all pairs."""
        passed = self.slices[-1].frontier if self.slices else MAX_TS  # the others have come further
        for union in self._unions.values():
            output = union.output
            if not union.member.counting:
                passed = min(passed, MAX_TS if output.closed else output.punctuation)
            elif self._tally.has_pairs and union.is_pending:
                return BEGINNING
        return passed

    def _fail(self, faults: list[Fault]) -> None:
        """Tell of members that fail on the rows to come; what was found before is out first."""
        self.drain()
        for fault in faults:
            for member in [one for one in self.members if fault.concerns(one)]:
                self._on_failure(member, fault.error)

    def _check(self) -> None:
        """States are disjoint, slices follow one another, and so do their rows."""
        for operator in self.operators:
            operator._check()
        self._tally._check()
        for run in self._runs:
            run._check()
        starts = [0, *(slice_.end for slice_ in self.slices)]
        assert [slice_.start for slice_ in self.slices] == starts[: len(self.slices)], "a gap between slices"
        for side in (0, 1):
            # 1. every row is in one state or queue
            rows = np.concatenate([np.empty(0, np.int64), *(held(slice_, side) for slice_ in self.slices)])
            assert len(np.unique(rows)) == len(rows), "a row is in two slices"
            # 2. what is referred to is there
            stored_rows = [shelf.store.ts for shelf in self.sides[side].shelves]
            if len(rows):
                assert rows.max() < stored_rows[0].end, "a reference to a row that never came"
            # 3. the later the slice, the older its females
            order = np.concatenate(
                [np.empty(0, np.int64), *(held(slice_, side) for slice_ in reversed(self.slices))]
            )
            assert bool(np.all(np.diff(order) > 0)), "an older row is in an earlier slice"
        for member, union in self._unions.items():
            assert list(union._sources) == self._taken_by(member), "a member misses a slice"


def held(slice_: SliceJoin, side: int) -> NDArray:
    """Rows of the females of a side in a slice and in its queue, oldest first."""
    waiting = slice_.waiting
    return np.concatenate([slice_.females(side), waiting[ROW, waiting[KIND] == side]])


def longest_of(side: Side, index: QueryIndex, of: int) -> NDArray:
    """The longest window on side `of` of those who need each stored row of a side; int64, oldest first."""
    shelf = side.shelves[0]
    rows = len(shelf)
    leaves = as_matrix([buffer.live for buffer in shelf.leaves], rows, np.int32)
    words = as_matrix([buffer.live for buffer in shelf.words], rows, np.int64)
    return index.longest(side.number, of, leaves, words)
