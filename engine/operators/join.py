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

Within RANGE windows a row can be worked as soon as both inputs have reached its ts. A ROWS window is only
known once its instant is over, so then rows wait until both inputs have passed their ts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrangement import Arrangement
from ..batch import NO_ROWS, View
from ..cell_counts import MAX_PAIRS as MAX_PAIRS_IN_CELLS
from ..cell_counts import CellCounts
from ..coverage import note_coverage
from ..indexes.hash import HashIndex
from ..indexes.index import Probes
from ..kernels.cells import TOGETHER, add_pairs
from ..kernels.pairs import take_pairs_of
from ..kernels.slices import Slices
from ..key_counts import MAX_WIDTH
from ..member import Member
from ..member_index import cells_of, demands_of, index_members
from ..operator import Counters
from ..plan import EQUALITY, CommonJoin, MemberNode
from ..query_index import QueryIndex, split_by_member
from ..queue import Outlet, Queue, nobody
from ..roster import Roster
from ..shelf import Shelf
from ..stored_rows import StoredRows
from ..types import SqlType
from ..window import MAX_TS
from .dealer import Dealer
from .direction import Direction, set_out
from .found_pairs import batches_of, merge_found, tags_of, verify_pairs
from .set_probes import is_worth_cutting
from .side import Side
from .stored_side import adopt, rearrange
from .take_rows import Fault, take_rows

FIRST_ROWS = 2_048  # of one side, worked before anything is known of them
STEP_ROWS = 32_768  # of one side worked at once: what they need stays in the cache
FEW_MEMBERS = 16  # up to so many, each looks at every pair: less work than sorting them out
QUIET_ROWS = 8_192  # after a change of members before what can wait is thought over: one pause, not two
MAX_ENTRIES = 1 << 20  # pairs times members sorted out at once


class WindowJoin:
    """Joins two inputs; see the module's text."""

    def __init__(
        self,
        common: CommonJoin,
        types: tuple[Sequence[SqlType], Sequence[SqlType]],
        queues: tuple[Queue, Queue],
        name: str,
        arrange: Callable[[WindowJoin], Arrangement],
        on_failure: Callable[[Member, Exception], None],
    ) -> None:
        """`arrange` says how rows should be kept, given the members and what was measured so far.

        `on_failure` is told of a member whose predicate failed on the data.
        """
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(min(queue.frontier, queue.punctuation) for queue in queues))
        self.counters = Counters()
        self.common = common
        band = common.condition
        bands = band, None if band is None else band.mirrored()
        self.left, self.right = self.sides = (
            Side(0, common.left, types[0], queues[0], bands[0]),
            Side(1, common.right, types[1], queues[1], bands[1]),
        )
        self.members: list[Member] = []
        self.roster = Roster.of(())
        """The members that have been taken in."""
        self.arrangement = Arrangement(("scan", "scan"))
        self.part_ways: Callable[[], None] = nobody
        """Called between batches if each member should have a join of its own."""
        self._arrange = arrange
        self._on_failure = on_failure
        self._instants = self.left.by_place or self.right.by_place
        self._is_stale = False
        """Whether members have come or gone."""
        self.is_due = False
        """Whether how rows are kept is to be thought over now."""
        self._is_put_off = False
        """Whether it is, when no member has come or gone for some rows."""
        self._was_seen = False
        """Whether enough rows have come to go by them."""
        self.is_first_look = False
        """Whether that was just now: what can wait for more of them is not thought over."""
        self._quiet = 0
        """Rows since members came or went."""
        self._counted: list[Member] = []
        self._delivered: list[Member] = []
        self._count_index: QueryIndex | None = None
        self._report_index: QueryIndex | None = None
        self._read: list[list[int]] = [[], []]
        """Columns of each side that members are given."""
        self._to_all = False
        self._demands: tuple[NDArray, NDArray, NDArray] = (NO_ROWS, NO_ROWS, NO_ROWS)
        """What the members that are given pairs ask of the tags of both rows (see lineage.py)."""
        self._dealer: Dealer | None = None
        self._cells: CellCounts | None = None
        self._in_cells = 0
        self._by_key = False
        """Whether pairs are counted by key and not found."""
        self._unsettled = False
        """Whether pairs have been counted since the members' counts were brought up to date."""
        self._directions: list[Direction] = []
        self._working = False
        self._faults: list[Fault] = []
        """What fails on the rows after those being worked."""
        self._now = self.output.punctuation

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Let a query in: it takes part from the next row on."""
        self.members.append(member)
        member.output.punctuation = self.output.punctuation
        member.output.closed = self.output.closed
        self._is_stale = True

    def drop(self, member: Member) -> None:
        """Let a query go; what it alone needed is forgotten."""
        self.settle()
        self.members.remove(member)
        for side in self.sides:
            side.unfilled = [one for one in side.unfilled if one is not member]
        self._is_stale = True

    def alter(self, member: Member, node: MemberNode) -> None:
        """Let a query go on with other windows."""
        self.settle()
        member.former = member.node if member.former is None else member.former
        member.become(node)
        member.is_new = True
        for side in self.sides:
            side.unfilled = [one for one in side.unfilled if one is not member]
            member.filled[side.number] = None
        self._is_stale = True

    def take_over(self, former: WindowJoin, rows: Sequence[StoredRows | None]) -> None:
        """Go on where another join of the same streams was, with rows that it and others like it held."""
        self._now = former._now
        self.output.promise(former.output.punctuation)
        for side, before, held in zip(self.sides, former.sides, rows, strict=True):
            side.follow(before)
            if held is not None:
                adopt(side, held)

    def reconsider(self) -> None:
        """Ask again how rows should be kept, before a batch soon; not when members have just changed."""
        self._is_put_off = True

    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""
        if self._working or not self.members:
            return
        self.is_due = self._is_put_off and self._quiet >= QUIET_ROWS
        if not (self._is_stale or self.is_first_look or self.is_due):
            return
        if self._is_stale:
            self.roster = self.roster.after(self.members)
            self._quiet = 0
        arrangement = self._arrange(self)
        self._is_put_off = self._is_put_off and not self.is_due
        self.is_first_look = False
        if not self._is_stale and arrangement == self.arrangement:
            return
        self._is_stale = False
        self.arrangement = arrangement
        self.settle()
        roster = self.roster
        new = [member for member in self.members if member.is_new]
        must_move = [side.prepare(roster, new, self.arrangement) for side in self.sides]
        counted, delivered = roster.take(roster.counting), roster.take(~roster.counting)
        self._counted, self._delivered = counted.members, delivered.members
        whole = index_members(roster, self.sides)
        self._count_index = self._report_index = whole
        if self._counted and self._delivered:
            self._count_index, self._report_index = (
                index_members(counted, self.sides),
                index_members(delivered, self.sides),
            )
        self._read = [
            sorted({i for member in self._delivered for i in member.node.sides[side].columns})
            for side in (0, 1)
        ]
        # Whether every pair that is found belongs to every member: all have the windows by which rows leave.
        self._to_all = (
            whole.is_plain
            and not self._instants
            and all((delivered.sizes[side.number] == side.size).all() for side in self.sides)
        )
        may_count = not (self._delivered or self._instants or self.left.verified or self.arrangement.routed)
        self._cells = cells_of(roster, self.sides, whole.slices, self._cells) if may_count else None
        self._by_key = self.arrangement.by_key and self.may_count_by_key
        for shelf in (shelf for side in self.sides for shelf in side.shelves):
            shelf.key_counts = None  # rows move, and slices end elsewhere
        if self._delivered:
            demand = demands_of(delivered, self.sides)
            self._demands = demand.low, demand.high, demand.bits
        self._dealer = Dealer(delivered) if self._may_deal else None
        for side in self.sides if self._dealer is not None else ():
            side.dealt = None if side.is_uniform else side.demands(delivered)
        note_coverage(roster, self.sides, self._now)
        part = self.arrangement.part
        others: dict[int, Roster] = {}  # of a part's other side, only rows that its members take
        if part is not None:
            others[1 - part.side] = roster.take(roster.sizes[part.side] <= part.up_to)
        for side, must, kind in zip(self.sides, must_move, self.arrangement.indexes, strict=True):
            other = others.get(side.number)
            side.query_index = whole if other is None else index_members(other, self.sides)
            if kind != side.index_kind:
                side.reindex(kind)
            if must:
                rearrange(side)
            side.expire(self._now)

    def settle(self) -> None:
        """Bring the counts of the members that only count up to date."""
        if self._count_index is None or not self._counted:
            return
        if not self._unsettled:
            return
        self._unsettled = False
        self._in_cells = 0
        found = self._count_index.settle() if self._cells is None else self._cells.settle()
        for at in np.flatnonzero(found).tolist():
            self._counted[at].found += int(found[at])
        self.counters.rows_out += int(found.sum())

    # -- a batch ------------------------------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        """Whether a batch is being worked."""
        return self._working

    def step(self, quantum: int) -> bool:
        self.refresh()
        if self.arrangement.is_apart and not self._working:
            self.part_ways()
            return True
        if not self._working and not self._begin(min(quantum, STEP_ROWS)):
            return self._pass_time()
        if not self._working:
            return True  # what failed has gone
        # 1. find  2. merge by time  3. pass on
        self._unsettled = True
        if self._report_index is None or not self._delivered:
            self._count()
        else:
            self._deliver()
        if all(direction.done and not direction.pending for direction in self._directions):
            self._working = False
            self._pass_time()
            self._report_faults()
            if not self._was_seen and sum(side.rows_in for side in self.sides) >= FIRST_ROWS:
                self._was_seen = self.is_first_look = True
        return True

    def _begin(self, rows: int) -> bool:
        """Take the next rows both inputs have reached, about `rows` of each; False if there are none."""
        rows = rows if self._was_seen else min(rows, FIRST_ROWS)
        taken, self._faults = take_rows(
            self.sides, self.inputs, self._instants, rows, is_first=not self._was_seen
        )
        if taken[0] is None and taken[1] is None:
            return self._report_faults()
        for side, examined in zip(self.sides, taken, strict=True):
            side.arrive(examined)
            self.counters.rows_in += 0 if examined is None else examined.batch.length
        for side in self.sides:
            side.silence()
        set_out(self._directions, self.sides, self._is_by_age)
        self._working = True
        self._quiet += sum(0 if one is None else one.batch.length for one in taken)
        return True

    def _report_faults(self) -> bool:
        """Tell of members that fail on the rows to come; what came before has been passed on."""
        faults, self._faults = self._faults, []
        told = False
        for fault in faults:
            for member in [one for one in self.members if fault.concerns(one) and not one.is_gone]:
                self._on_failure(member, fault.error)
                told = True
        return told

    # -- counting -----------------------------------------------------------------------------------

    @property
    def may_count_by_key(self) -> bool:
        """Whether pairs need not be found to be counted: equal keys decide, and by few enough counters."""
        index = self._count_index
        if index is None or self._delivered or self._instants or self.left.verified:
            return False
        if self.common.condition != EQUALITY or not (index.is_plain or self._cells is not None):
            return False
        leaves = [side.leaf_counts[0] if side.leaf_counts else 1 for side in self.sides]
        return all(n * len(s.ends) <= MAX_WIDTH for n, s in zip(leaves, index.slices, strict=True))

    def _is_by_age(self, side: Side, shelf: Shelf) -> bool:
        """Whether pairs with rows of a shelf are counted by age and leaves, straight from its chains."""
        index = self._count_index
        if index is None or self._delivered or self._instants or self._by_key or self.left.verified:
            return False
        if not isinstance(shelf.index, HashIndex) or not (index.is_plain or self._cells is not None):
            return False
        reach = self.sides[1 - side.number].reach
        if reach is not None and is_worth_cutting(side, reach, shelf, len(reach) * len(shelf)):
            return False
        return bool(index.slices[side.number].ends[-1] <= shelf.lifetime)

    def _count(self) -> None:
        index = self._count_index
        assert index is not None, "members without an index"
        for direction in self._directions:
            side, probes = direction.side, direction.probes
            assert probes is not None, "no batch is being worked"
            if probes.done:
                continue
            probed, number = direction.shelf.index, side.number
            if index.is_plain and not self._instants and not side.verified:
                slices, histogram = index.slices[number], index.histogram(number)
                if isinstance(probed, HashIndex) and probes.is_by_age:
                    times, pos, size = direction.by.ts, direction.shelf.pos, direction.shelf.lifetime
                    found, met = probed.run_ages(probes, times, pos, size, slices, histogram)
                    side.found += found
                    side.met += met
                elif len(slices.ends) == 1 and not self._by_key:
                    found = probed.run(probes, NO_ROWS, NO_ROWS, True)
                    histogram[0] += found
                    side.found += found
                else:
                    self._count_in(direction, probes, slices, histogram, None)
            elif self._cells is not None:
                slices, cells = self._cells.slices[number], self._cells.flat(number)
                strides = self._cells.strides(number)
                self._in_cells += self._count_in(direction, probes, slices, cells, strides)
                if self._in_cells > MAX_PAIRS_IN_CELLS:
                    self.settle()
            else:
                direction.fill()
                self._count_pairs(index, number, *verify_pairs(self.sides, *direction.pairs_until(None)))

    def _count_in(
        self,
        direction: Direction,
        probes: Probes,
        slices: Slices,
        histogram: NDArray,
        strides: tuple[int, int] | None,
    ) -> int:
        """Count pairs of a direction by the slice of their age and, with strides, their rows' leaves."""
        number, by, shelf = direction.side.number, direction.by, direction.shelf
        of_prober, leaves, stride = NO_ROWS, shelf.pos, 0
        if strides is not None:
            of_prober = np.zeros(len(by.ts), np.int64)
            if by.leaves:
                of_prober += by.leaves[0].astype(np.int64) * strides[1 - number]
            if shelf.leaves:
                leaves, stride = shelf.leaves[0], strides[number]
        if self._by_key:
            first = np.zeros(len(by.ts), np.int64) if strides is None else of_prober
            found = direction.key_counts(slices).run(
                probes, by.ts, by.reach, shelf.index.keys, shelf.pos, leaves if stride else None,
                (first, stride), histogram,
            )  # fmt: skip
            direction.side.found += found
            return found
        of_prober = np.zeros(len(by.ts), np.int64) if strides is None else of_prober
        if isinstance(shelf.index, HashIndex):
            cells = of_prober, leaves, stride
            if probes.is_by_age:
                found, met = shelf.index.run_young_cells(
                    probes, by.ts, shelf.pos, shelf.lifetime, slices, histogram, cells
                )
                direction.side.met += met
            else:
                found = shelf.index.run_cells(probes, by.ts, shelf.pos, slices, histogram, cells)
            direction.side.found += found
            return found
        direction.fill()
        found, direction.at = direction.count, direction.count
        add_pairs(
            direction.prober, direction.row, found, by.ts, shelf.pos.data, shelf.pos.base,
            of_prober, leaves.data, leaves.base, stride, slices.ends, slices.first, slices.shift, histogram,
            np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64),
        )  # fmt: skip
        return found

    def _count_pairs(
        self, index: QueryIndex, probed: int, ts: NDArray, left: NDArray, right: NDArray
    ) -> None:
        if not len(ts):
            return
        refs = left, right
        age = self.sides[probed].ages(ts, refs[probed])
        other = self.sides[1 - probed]
        own_age = other.ages(ts, refs[1 - probed]) if other.by_place else None
        tags = tags_of(self.sides, index, refs)
        if self.arrangement.routed:
            self._route(index, np.full(len(ts), probed, np.uint8), age, own_age, tags)
        else:
            index.count(probed, age, own_age, *tags)

    def _route(
        self,
        index: QueryIndex,
        probed: NDArray,
        age: NDArray,
        own_age: NDArray | None,
        tags: tuple[NDArray, NDArray],
    ) -> None:
        """Count pairs by testing each against each member."""
        room = max(len(self._counted), min(MAX_ENTRIES, len(age) * len(self._counted)))
        members, pairs = np.empty(room, np.int32), np.empty(room, np.int32)
        start = 0
        while start < len(age):
            count, start = index.report_each(probed, age, own_age, *tags, start, members, pairs)
            found = np.bincount(members[:count], minlength=len(self._counted))
            for member, more in zip(self._counted, found.tolist(), strict=True):
                member.found += more
                self.counters.rows_out += more

    # -- delivering ---------------------------------------------------------------------------------

    @property
    def _may_deal(self) -> bool:
        """Whether pairs are given to a few members, and to nobody else, who need not all take the same."""
        few = 0 < len(self._delivered) <= FEW_MEMBERS and not self._counted and not self._to_all
        return few and not (self._instants or self.left.verified or self.arrangement.routed)

    def _deliver(self) -> None:
        for direction in self._directions:
            direction.fill()
        if self._dealer is not None:
            views = self._views()
            for member, *pairs in self._dealer.deal(self._directions):
                self._emit(member, views, *pairs)
            return
        ts, left, right = verify_pairs(self.sides, *merge_found(self._directions, self.sides))
        if not len(ts):
            return
        index = self._report_index
        assert index is not None, "members without an index"
        views = self._views()
        if self._to_all:
            for member in self._delivered:
                self._emit(member, views, ts, left, right)
            if self._counted:
                self._count_merged(ts, (left, right))
            return
        ages = [side.ages(ts, rows) for side, rows in zip(self.sides, (left, right), strict=True)]
        tags = tags_of(self.sides, index, (left, right))
        if len(self._delivered) <= FEW_MEMBERS and not self.arrangement.routed:
            self._select(views, (ts, left, right), ages, tags)
            if self._counted:
                self._count_merged(ts, (left, right))
            return
        probed = (ages[1] > ages[0]).astype(np.uint8)
        age = np.maximum(*ages)
        own_age = np.minimum(*ages) if self._instants else None
        self._report(index, views, (ts, left, right), (probed, age, own_age, *tags))
        if self._counted:
            self._count_merged(ts, (left, right))

    def _count_merged(self, ts: NDArray, refs: tuple[NDArray, NDArray]) -> None:
        """Count pairs of both directions for the members that only count."""
        index = self._count_index
        assert index is not None, "members without an index"
        ages = [side.ages(ts, rows) for side, rows in zip(self.sides, refs, strict=True)]
        for probed in (0, 1):
            here = np.flatnonzero((ages[1] > ages[0]) == bool(probed))
            if len(here):
                own_age = ages[1 - probed][here] if self._instants else None
                tags = tags_of(self.sides, index, (refs[0][here], refs[1][here]))
                index.count(probed, ages[probed][here], own_age, *tags)

    def _select(
        self,
        views: tuple[dict[int, View], dict[int, View]],
        pairs: tuple[NDArray, NDArray, NDArray],
        ages: list[NDArray],
        tags: tuple[NDArray, NDArray],
    ) -> None:
        """Pass pairs on to a few members, each looking at all of them."""
        ts, left, right = pairs
        for member, low, high, bits in zip(self._delivered, *self._demands, strict=True):
            some_ts, some_left, some_right = (np.empty(len(ts) + 1, np.int64) for _ in range(3))
            count = take_pairs_of(
                ts, left, right, ages[0], ages[1], tags[0], tags[1], member.sizes[0], member.sizes[1],
                low, high, bits, some_ts, some_left, some_right,
            )  # fmt: skip
            if count == len(ts):
                self._emit(member, views, ts, left, right)
            elif count:
                self._emit(member, views, some_ts[:count], some_left[:count], some_right[:count])

    def _report(
        self,
        index: QueryIndex,
        views: tuple[dict[int, View], dict[int, View]],
        pairs: tuple[NDArray, NDArray, NDArray],
        known: tuple[NDArray, NDArray, NDArray | None, NDArray, NDArray],
    ) -> None:
        """Pass pairs on to the members that take them."""
        ts, left, right = pairs
        probed, age, own_age, leaves, words = known
        room = max(len(self._delivered), min(MAX_ENTRIES, len(ts) * len(self._delivered)))
        members, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        ask = index.report_each if self.arrangement.routed else index.report
        start = 0
        while start < len(ts):
            count, start = ask(probed, age, own_age, leaves, words, start, members, positions)
            ids, starts, sorted_positions = split_by_member(
                members[:count], positions[:count], len(self._delivered)
            )
            for i, one in enumerate(ids.tolist()):
                taken = sorted_positions[starts[i] : starts[i + 1]]
                member = self._delivered[one]
                if len(taken) == len(ts):
                    self._emit(member, views, ts, left, right)
                else:
                    self._emit(member, views, ts[taken], left[taken], right[taken])

    def _views(self) -> tuple[dict[int, View], dict[int, View]]:
        """The stored columns somebody reads, as they are now."""
        left, right = (
            {column: side.view(column) for column in columns}
            for side, columns in zip(self.sides, self._read, strict=True)
        )
        return left, right

    def _emit(
        self,
        member: Member,
        views: tuple[dict[int, View], dict[int, View]],
        ts: NDArray,
        left: NDArray,
        right: NDArray,
    ) -> None:
        for pairs in batches_of(member, views, ts, left, right):
            member.found += pairs.length
            self.counters.rows_out += pairs.length
            member.output.put(pairs)

    # -- time ---------------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        """Expire and promise as far as both inputs have come; False if that is no further than before."""
        now = min(queue.frontier for queue in self.inputs)
        moved = self._now < now < MAX_TS
        if moved:
            self._now = now
            for side in self.sides:
                side.expire(now)
                if side.births_matter and side.oldest_birth >= max(m.born[side.number] for m in self.members):
                    self._is_stale = True
            self.output.promise(now)
            for member in self._delivered:
                member.output.promise(now)
        if now == MAX_TS and not self.output.closed:
            self.output.close()
            for member in self.members:
                member.output.close()
            moved = True
        return moved

    @property
    def state_rows(self) -> int:
        self.refresh()
        return len(self.left) + len(self.right)

    @property
    def state_bytes(self) -> int:
        return self.left.nbytes + self.right.nbytes

    def _check(self) -> None:
        if not self._working:
            self.refresh()
            for side in self.sides:
                side._check()
