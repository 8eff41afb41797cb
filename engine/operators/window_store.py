"""The rows of a stream, kept once for all RANGE windows over it that are not joined.

In:      rows of the stream.
Out:     to each member, which is a window with a filter, +1 for a row that enters it and -1 when it leaves:
         the columns that it asked for, as references to the rows that are kept.
Kept:    each row some member needs, once, on the shelf of its lifetime (see side.py).
Dropped: when it has left the last window that it was in.

    RANGE 5     +a at 3, -a at 8
    RANGE 9     +a at 3,            -a at 12         a is dropped at 12

Members of hopping queries are told at their boundaries, or given all rows there are then (hop_lanes.py).

Every condition is looked at once per row, when it comes; what the row satisfies is kept with it, and who lets
it go is known from that. Windows of one size have their changes put into order once: rows that leave are a
stretch of each shelf, those that enter are the batch. At one ts what leaves comes before what enters.

A member that comes later is given what is there of its rows (`content`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..arrangement import Arrangement
from ..batch import NO_ROWS, Batch, Gather, View, all_at
from ..coverage import note_coverage
from ..indexes.build import NO_INDEX
from ..kernels.changes import find_few, take_changes
from ..kernels.pairs import ROW_BITS
from ..known_time import KnownTime
from ..lineage import Demand, Tags
from ..member_index import demands_of, index_members
from ..operator import Counters
from ..plan import CommonSide
from ..query_index import split_by_member
from ..queue import BEGINNING, Outlet, Queue, bound_of
from ..roster import Roster
from ..shelf import Shelf
from ..stream_store import admit, close, give, promise
from ..types import ARROW_TYPES, SqlType
from ..window import MAX_TS
from ..window_member import WindowMember
from .hop_lanes import HopLane, changes_at_hops, hop_lanes_of, rows_between, windows_at_hops
from .shared_select import MAX_ENTRIES, RowIndex
from .side import Side
from .stored_side import rearrange
from .take_rows import Fault, take_rows
from .window_lanes import (
    EARLIEST,
    MOST_SHELVES,
    Lane,
    Runs,
    WindowChanges,
    announced_ends,
    as_rows,
    few_ends,
    lanes_of,
)

STEP_ROWS = 32_768
MOST_CHANGES = 1 << 22  # of all members in flight
LEAST_CHANGES = 4_096  # of one size of window
FEW_LANES = 8  # whose changes are put into order for each
FEW_CHANGES = 16_384  # of all members, told in one go


class WindowStore:
    """One for each stream."""

    def __init__(
        self,
        stream: str,
        types: Sequence[SqlType],
        queue: Queue,
        on_failure: Callable[[WindowMember, Exception], None],
    ) -> None:
        """`on_failure` is told of a member whose predicate failed on the data."""
        self.name = f"window {stream}"
        self.stream = stream
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self.members: list[WindowMember] = []
        self._on_failure = on_failure
        self._side = Side(0, CommonSide(stream, "range", ()), types, queue, None)
        self._side.index_kind = NO_INDEX
        self._roster = self._sliding = Roster.of(())
        """Of all members, and of those that are told of changes as they happen."""
        self._sizes: NDArray = NO_ROWS
        """Of the windows of these, each once, in order."""
        self._lanes: list[Lane] = []
        """For each of them, made when it is first asked for."""
        self._demand = Demand(*(np.empty((0, 0), kind) for kind in (np.int32, np.int32, np.int64)))
        """What they ask of the tags of rows, one row each."""
        self._hop_lanes: list[HopLane] = []
        """Of the others."""
        self._is_stale = False
        self._known = KnownTime("promises", self.inputs)
        self._told = queue.punctuation
        """Members have been told of all that left up to this time."""
        self._entered = 0
        """Of the batch being worked, so many rows have entered."""
        self._faults: list[Fault] = []
        """What fails on the rows after those being worked."""

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: WindowMember) -> None:
        """Let a window in, when nothing is being worked: it can be given what is there at once."""
        assert not self.is_working, "a window would miss what is on its way"
        admit(self, member)
        self._is_stale = True

    def drop(self, member: WindowMember) -> None:
        """Let a window go; what it alone needed is forgotten."""
        self.members.remove(member)
        self._is_stale = True

    @property
    def is_working(self) -> bool:
        """Whether rows that have come have not been passed on."""
        return bool(self.inputs[0].batches) or self._is_unfinished

    @property
    def _is_unfinished(self) -> bool:
        return self._entered < len(self._side.ts) or self._told < self._known.ts

    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""
        if not self._is_stale or self._is_unfinished or not self.members:
            return
        self._is_stale = False
        side = self._side
        side.forget_batch()
        self._entered = 0
        roster = self._roster = self._roster.after(self.members)
        new = [member for member in self.members if member.is_new]
        must_move = side.prepare(
            roster, new, Arrangement((NO_INDEX, NO_INDEX), (few_ends(roster.sizes[0], MOST_SHELVES), None))
        )
        side.query_index = index_members(roster, (side,))
        if must_move:
            rearrange(side)
        note_coverage(roster, (side,), self._told)
        side.expire(self._told)
        is_sliding = np.array([one.node.hops is None for one in self.members])
        self._sliding = roster.take(is_sliding)
        self._demand = demands_of(self._sliding, (side,))
        self._sizes = np.unique(self._sliding.sizes[0])
        self._lanes = []
        for member in self.members:
            member.number += len(side) + 1  # rows may be in another order than before
        self._find_hop_lanes()

    def _find_hop_lanes(self) -> None:
        hopping = self._roster.take(np.array([one.node.hops is not None for one in self.members]))
        self._hop_lanes = hop_lanes_of(hopping, demands_of(hopping, (self._side,)), self._side)

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        self.refresh()
        worked = self._is_unfinished or self._take(min(quantum, STEP_ROWS))
        if self._is_unfinished:
            # 1. how far  2. who is told what, and at boundaries  3. drop
            until = self._bound()
            entered = int(self._side.ts.searchsorted(until, side="right"))
            if not self._tell_few(until, entered):
                self._lanes = self._lanes or lanes_of(self._sliding, self._demand, self._side)
                for lane in self._lanes:
                    self._tell(lane, self._between(lane.size, until, entered))
            self._tell_hops(until - 1)
            self._told, self._entered = until, entered
            self._side.expire(until)
        if self._is_unfinished:
            promise(self, self._told)
            return True
        moved = self._pass_time()
        return self._report_faults() or moved or worked

    def _take(self, rows: int) -> bool:
        """Take the next rows and hear how far time has come; False if neither is new."""
        queue, side = self.inputs[0], self._side
        bound = bound_of(self.inputs, rows)
        (examined, *_), self._faults = take_rows((side,), self.inputs, False, rows)
        side.arrive(examined)
        self._entered = 0
        if examined is not None:
            self.counters.rows_in += examined.batch.length
        # the instant on which something fails is not answered to whoever asks for that
        self._known.learn(min(bound, queue.frontier - bool(self._faults)), [])
        return examined is not None or self._is_unfinished

    def _report_faults(self) -> bool:
        """Tell of members that fail on the rows to come; what came before has been passed on."""
        faults, self._faults = self._faults, []
        failed = [(one, fault.error) for fault in faults for one in self.members if fault.concerns(one)]
        for member, error in failed:
            self._on_failure(member, error)
        return bool(failed)

    def _bound(self) -> int:
        """The time up to which members can be told now: all that is known, or less if that is very much."""
        most = max(LEAST_CHANGES, MOST_CHANGES // len(self.members))
        little, much = self._told, self._known.ts
        if self._changes(much) <= most:
            return much
        while much - little > 1:
            middle = (little + much) // 2
            if self._changes(middle) <= most:
                little = middle
            else:
                much = middle
        return little if self._changes(little) else much

    def _changes(self, until: int) -> int:
        """How many rows enter or leave up to a time, of the windows of which these are most."""
        entering = int(self._side.ts.searchsorted(until, side="right")) - self._entered
        leaving = np.zeros(len(self._sizes), np.int64)
        for shelf in self._side.shelves:
            ts = shelf.store.ts.live
            before = ts.searchsorted(np.maximum(self._told - self._sizes, EARLIEST), side="right")
            leaving += ts.searchsorted(np.maximum(until - self._sizes, EARLIEST), side="right") - before
        by_hops = (lane.count(self._side, self._told, until) for lane in self._hop_lanes)
        return max(entering + int(leaving.max(initial=0)), *by_hops, 0)

    def _leaving(self, shelf: Shelf, size: int, until: int) -> range:
        """The rows of a shelf that leave windows of a size up to a time, and have not yet been told of."""
        ts, tail = shelf.store.ts.live, shelf.store.ts.tail
        bounds = [max(self._told - size, EARLIEST), max(until - size, EARLIEST)]
        first, last = ts.searchsorted(bounds, side="right").tolist()
        return range(tail + first, tail + last)

    def _tell(self, lane: Lane, changes: WindowChanges) -> None:
        """Give the members of a lane what enters and leaves."""
        total = len(changes.order)
        if not total:
            return
        views: dict[int, View] = {}
        if lane.index is not None:
            self._sort_out(lane, lane.index, changes, views)
            return
        for i, member in enumerate(lane.members):
            ts, sign, rows = (np.empty(total + 1, kind) for kind in (np.int64, np.int8, np.int64))
            found = take_changes(
                *changes, lane.demand.low[i], lane.demand.high[i], lane.demand.bits[i], ts, sign, rows
            )
            if found:
                self._put(member, views, ts[:found], sign[:found], rows[:found])

    def _tell_few(self, until: int, entered: int) -> bool:
        """Give all members what enters and leaves up to a time, in one go; False if that may be much.

        For many sizes of windows: putting the changes of each into order costs more than telling them.
        """
        side, demand = self._side, self._demand
        is_whole = not self._entered and entered == len(side.ts)
        if len(self._sizes) <= FEW_LANES or not is_whole or max(side.tag_widths) > 1:
            return False
        members, ts, rows = (np.empty(FEW_CHANGES, np.int64) for _ in range(3))
        sign = np.empty(FEW_CHANGES, np.int8)
        count = 0
        for number, shelf in enumerate(side.shelves):
            tail = shelf.store.ts.tail
            count = find_few(
                shelf.store.ts.live, shelf.first_row - tail, self._told, until, tail + (number << ROW_BITS),
                self._sliding.sizes[0], demand.low, demand.high, demand.bits,
                as_rows([one.live for one in shelf.leaves], len(shelf), np.int32),
                as_rows([one.live for one in shelf.words], len(shelf), np.int64),
                count, members, ts, sign, rows,
            )  # fmt: skip
            if count < 0:
                return False
        if not count:
            return True
        order = np.lexsort((sign[:count], ts[:count], members[:count]))
        views: dict[int, View] = {}
        cuts = np.flatnonzero(np.diff(members[order], prepend=-1))
        for begin, end in zip(cuts.tolist(), [*cuts[1:].tolist(), count], strict=True):
            own = order[begin:end]
            self._put(self._sliding.members[members[own[0]]], views, ts[own], sign[own], rows[own])
        return True

    def _between(self, size: int, until: int, entered: int) -> WindowChanges:
        """What enters and leaves windows of a size up to a time."""
        side, runs = self._side, Runs(*self._side.tag_widths)
        for number, shelf in enumerate(side.shelves):
            if gone := self._leaving(shelf, size, until):
                runs.add(shelf, number, gone, shelf.store.ts.run(gone.start, gone.stop) + size)
        runs.begin_entering()
        batch = slice(self._entered, entered)
        tags = [one[batch] for one in side.leaves], [one[batch] for one in side.words]
        runs.put(side.ts[batch], side.refs[batch], *tags)
        return runs.in_order()

    def _tell_hops(self, over: int) -> None:
        """Let members of hopping queries know of the boundaries up to a time, of which all rows have come."""
        is_new = False
        for lane in self._hop_lanes:
            end = lane.hops.last(over)
            if end <= lane.before(self._told):
                continue
            if lane.whole:
                self._show(lane, end)
            else:
                self._tell(lane, changes_at_hops(self._side, lane, self._told, end))
            is_new |= lane.is_new
            for member in lane.members:
                member.begun = True
        if is_new:
            self._find_hop_lanes()

    def _show(self, lane: HopLane, end: int) -> None:
        """Give the members of a lane what is in their windows at each boundary."""
        views: dict[int, View] = {}
        for place, member in enumerate(lane.members):
            for boundary, first, refs in windows_at_hops(self._side, lane, place, self._told, end):
                columns = [Gather(view, refs) for view in self._views(member, views)]
                batch = Batch(all_at(boundary, len(refs)), columns)
                batch.first_row = first
                self.counters.rows_out += batch.length
                member.found += batch.length
                member.output.put(batch)

    def _sort_out(self, lane: Lane, index: RowIndex, changes: WindowChanges, views: dict[int, View]) -> None:
        """Give many members their changes: who takes a row is looked up."""
        order, most = changes.order, len(lane.members)
        tags = Tags(changes.leaves[:, order], changes.words[:, order])
        ts, rows = changes.times[order], changes.refs[order]
        sign = np.where(order >= changes.entering, np.int8(1), np.int8(-1))
        members, places = np.empty((2, max(most, min(MAX_ENTRIES, len(order) * most))), np.int32)
        start = 0
        while start < len(order):
            count, start = index.report_rows(tags, start, members, places)
            ids, starts, taken = split_by_member(members[:count], places[:count], most)
            for i, one in enumerate(ids.tolist()):
                own = taken[starts[i] : starts[i + 1]]
                self._put(lane.members[one], views, ts[own], sign[own], rows[own])

    def _put(
        self, member: WindowMember, views: dict[int, View], ts: NDArray, sign: NDArray, rows: NDArray
    ) -> None:
        self._views(member, views)
        give(self, member, views, ts, sign, rows, announced_ends(self._side, member.node, ts, sign, rows))

    def _views(self, member: WindowMember, known: dict[int, View]) -> list[View]:
        """The columns that a member asks for, as they are now; those looked up are added to the known."""
        for column in member.node.columns:
            if column not in known:
                known[column] = self._side.view(column)
        return [known[column] for column in member.node.columns]

    # -- time ---------------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        """Promise as far as the input has come; False if that is no further than before."""
        (queue,), side = self.inputs, self._side
        if queue.closed and not queue.batches and not self.output.closed:
            self._tell_hops(queue.punctuation)
        moved = promise(self, min(self._told, queue.frontier - bool(self._faults), queue.punctuation))
        if moved and side.births_matter and side.oldest_birth >= max(one.born[0] for one in self.members):
            self._is_stale = True
        return close(self) or moved

    # -- what is there ------------------------------------------------------------------------------

    def content(self, member: WindowMember) -> Batch:
        """The rows that are in a member's window now, as if they came now, announced as it asks for."""
        if not len(self._side):  # members are taken in when there are rows to look at
            return Batch(NO_ROWS, [pa.nulls(0, ARROW_TYPES[type_]) for type_ in member.node.input.types])
        refs, ends = self.rows_of(member)
        columns = [Gather(self._side.view(column), refs) for column in member.node.columns]
        return Batch(np.full(len(refs), self._told), columns, None, ends if member.node.announced else None)

    def rows_of(self, member: WindowMember) -> tuple[NDArray, NDArray]:
        """References to the rows that are in a member's window now, and when they leave it, in that order."""
        self.refresh()
        hops, now = member.node.hops, self._told
        if hops is not None:
            now = hops.last(now - 1) if member.begun else BEGINNING
        demand, size = self._side.demand_of(member), member.node.size
        ts, refs = rows_between(self._side, demand, 0, now - size, now)
        ends = ts + size
        return refs, ends if hops is None else hops.up(ends)

    @property
    def state_rows(self) -> int:
        self.refresh()
        return len(self._side)

    @property
    def state_bytes(self) -> int:
        return self._side.nbytes

    def _check(self) -> None:
        self.refresh()
        self._side._check()
        assert self._told <= max(self._known.ts, self.output.punctuation, MAX_TS), "told of what is to come"
