"""Window join of two streams, for one query or for many that have it in common.

In:      rows of both sides, each in time order.
Out:     to each member, for every pair that satisfies the key condition while both rows are in its windows
         and satisfy its predicates, one row at the later of the two times: the columns it asked for.
Kept:    each side's rows that some member still needs, once (see side.py).
Dropped: a row when no row still to come can meet it, known from both inputs' punctuations.

A batch is worked off in independent directions: the left's rows probe the right's shelves, into whose
indexes the right's rows of the batch are inserted as their turn comes, and the other way round. Pairs of all
directions are merged by time. Law: a pair is found by the later of its rows; of rows with one ts in one
batch, by the left's.

One probe serves all members: the slice of a pair, [w1, w2) between two members' windows, is looked up from
its age, and which members take it from the slice and the lineage of both rows (see query_index.py). No row
ever moves from slice to slice. Where results are only counted, each slice counts its pairs, and a member's
count is the sum over its slices, taken when somebody asks.

All windows of a side are RANGE windows, or all are ROWS windows. Within RANGE windows a row can be worked as
soon as both inputs have reached its ts. A ROWS window is only known once its instant is over: where a side
has them, rows wait until both inputs have passed their ts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.engine.flow.queue import Queue, nobody
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import CommonJoin
from penstock.engine.rows.types import SqlType
from penstock.engine.shelves.coverage import note_coverage
from penstock.engine.shelves.member_index import index_members
from penstock.engine.shelves.next_rows import next_rows
from penstock.engine.shelves.side import Side
from penstock.engine.shelves.stored_rows import StoredRows
from penstock.engine.shelves.stored_side import adopt, forget_memory, rearrange

from .direction import Direction, set_out
from .members_join import MembersJoin
from .pair_counter import PairCounter
from .pair_giver import PairGiver
from .reconsider import FIRST_ROWS, Reconsider

STEP_ROWS = 32_768  # of one side worked at once: what they need stays in the cache


class WindowJoin(MembersJoin):
    """Joins two inputs; see the module's text."""

    sides: tuple[Side, Side]
    _giver: PairGiver

    def __init__(
        self,
        common: CommonJoin,
        types: tuple[Sequence[SqlType], Sequence[SqlType]],
        queues: tuple[Queue, Queue],
        name: str,
        choose_layout: Callable[[WindowJoin], JoinLayout],
        on_failure: Callable[[Member, Exception], None],
    ) -> None:
        """`choose_layout` says how rows should be kept, given the members and what was measured so far."""
        super().__init__(name, queues, on_failure)
        self.common = common
        band = common.condition
        bands = band, None if band is None else band.mirrored()
        self.sides = (
            Side(0, common.left, types[0], queues[0], bands[0]),
            Side(1, common.right, types[1], queues[1], bands[1]),
        )
        self.layout = JoinLayout(("scan", "scan"))
        self.part_ways: Callable[[], None] = nobody
        """Called between batches if there should be several joins."""
        self._choose_layout = choose_layout
        self.again = Reconsider()
        """When how rows are kept is thought over."""
        self._counter = PairCounter(common, self.sides, self.counters)
        self._giver = PairGiver(self.sides, self._counter, self.counters)
        self._directions: list[Direction] = []
        self._working = False

    # -- members ------------------------------------------------------------------------------------

    def take_over(self, former: WindowJoin, rows: Sequence[StoredRows | None]) -> None:
        """Go on where another join of the same streams was, with rows that it and others like it held."""
        self._now = former._now
        self.again.take_over(former.again)
        self.output.promise(former.output.punctuation)
        for side, before, kept in zip(self.sides, former.sides, rows, strict=True):
            side.follow(before)
            if kept is not None:
                adopt(side, kept)
        self.go_on_for(former)

    def go_on_for(self, former: WindowJoin) -> None:
        """Know of the members that are here now what another join knew of them."""
        self.again.go_on_for(former.again)
        for side, before in zip(self.sides, former.sides, strict=True):
            for predicate, last in before.failed.items():
                side.note_failed(predicate, last)

    def move_to(
        self, queues: tuple[Queue, Queue], name: str, choose_layout: Callable[[WindowJoin], JoinLayout]
    ) -> None:
        """Go on with what comes by other queues; nobody else has joins over the same rows any more."""
        self.inputs, self.name, self._choose_layout = queues, name, choose_layout
        for side, queue in zip(self.sides, queues, strict=True):
            side.read_from(queue)
            forget_memory(side)

    def reconsider(self) -> None:
        """Ask again how rows should be kept, before a batch soon."""
        self.again.ask()

    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""
        if self._working or not self.members:
            return
        if not self.again.begin() and not self._is_stale:
            return
        if self._is_stale:
            self.roster = self.roster.after(self.members)
            self.again.stir()
        if self.again.is_due:
            for side in self.sides:
                side.seen.look()
        layout = self._choose_layout(self)
        self.again.end()
        if not self._is_stale and layout.apart:  # others are about to take over
            self.layout = replace(self.layout, apart=True)
            return
        if not self._is_stale and layout == self.layout:
            return
        self._is_stale = False
        self.layout = layout
        self.settle()
        roster = self.roster
        new = [member for member in self.members if member.is_new]
        must_move = [side.prepare(roster, new, self.layout) for side in self.sides]
        counted, delivered = roster.take(roster.counting), roster.take(~roster.counting)
        whole = index_members(roster, self.sides)
        indexes = whole, whole
        if len(counted) and len(delivered):
            indexes = index_members(counted, self.sides), index_members(delivered, self.sides)
        self._counter.refresh(roster, counted, indexes[0], whole, layout)
        self._giver.refresh(delivered, indexes[1], whole, layout)
        for shelf in (shelf for side in self.sides for shelf in side.shelves):
            shelf.count_by_key(None)  # rows move, and slices end elsewhere
        part = self.layout.part
        note_coverage(roster, self.sides, self._now, is_whole=part is None)
        others: dict[int, Roster] = {}  # of a part's other side, only rows that its members take
        if part is not None:
            others[1 - part.side] = roster.take(roster.sizes[part.side] <= part.up_to)
        for side, must, kind in zip(self.sides, must_move, self.layout.indexes, strict=True):
            other = others.get(side.number)
            side.file_by(whole if other is None else index_members(other, self.sides))
            if kind != side.kept.index_kind:
                side.kept.reindex(kind)
            if must:
                rearrange(side)
            side.expire(self._now)

    def settle(self) -> None:
        """Bring the counts of the members that only count up to date."""
        self._counter.settle()

    @property
    def may_count_by_key(self) -> bool:
        """Whether pairs need not be found to be counted."""
        return self._counter.may_count_by_key

    # -- a batch ------------------------------------------------------------------------------------

    @property
    def _instants(self) -> bool:
        """Whether rows are worked when their instants are over, and not before."""
        return any(side.by_place for side in self.sides)

    @property
    def is_working(self) -> bool:
        """Whether a batch is being worked."""
        return self._working

    def step(self, quantum: int) -> bool:
        self.refresh()
        if self.layout.apart and not self._working:
            self.part_ways()
            return True
        if not self._working and not self._begin(min(quantum, STEP_ROWS)):
            return self._pass_time()
        if not self._working:
            return True  # what failed has gone
        # 1. find  2. merge by time  3. pass on
        self._counter.is_unsettled = True
        if self._giver.members:
            self._giver.give(self._directions)
        else:
            self._counter.count(self._directions)
        if all(direction.done and not direction.pending for direction in self._directions):
            self._working = False
            self._pass_time()
            self._report_faults()
            self.again.look_at(sum(side.seen.rows_in for side in self.sides))
        return True

    def _begin(self, rows: int) -> bool:
        """Take the next rows both inputs have reached, about `rows` of each; False if there are none."""
        was_seen = self.again.was_seen
        rows = rows if was_seen else min(rows, FIRST_ROWS)
        taken, self._faults = next_rows(self.sides, self.inputs, self._instants, rows, is_first=not was_seen)
        if taken[0] is None and taken[1] is None:
            return self._report_faults()
        for side, examined in zip(self.sides, taken, strict=True):
            side.arrive(examined)
            self.counters.took(0 if examined is None else examined.batch.length)
        for side in self.sides:
            side.silence()
        set_out(self._directions, self.sides)
        self._working = True
        self.again.come(sum(0 if one is None else one.batch.length for one in taken))
        return True
