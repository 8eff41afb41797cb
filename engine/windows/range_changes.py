"""What RANGE windows over rows kept in common are told: at once, also of an instant that is not over.

Windows of one size have their changes put into order once: rows that leave are a stretch of each shelf, those
that enter are the batch. At one ts what leaves comes before what enters. Members of hopping queries are told
at their boundaries, or given all rows there are then (hop_lanes.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.kernels.windows.changes import find_few, take_changes
from penstock.engine.members.lineage import Demand, Tags
from penstock.engine.members.query_index import split_by_member
from penstock.engine.members.roster import Roster
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.selects.shared_select import MAX_ENTRIES, RowIndex
from penstock.engine.shelves.member_index import tag_demands
from penstock.engine.shelves.shelf import Shelf

from .hop_lanes import HopLane, changes_at_hops, hop_lanes_of, rows_between, windows_at_hops
from .stream_rows import StreamRows, Views
from .window_lanes import EARLIEST, Lane, Runs, WindowChanges, announced_ends, as_rows, lanes_of
from .window_member import WindowMember

MOST_CHANGES = 1 << 22  # of all members in flight
LEAST_CHANGES = 4_096  # of one size of window
FEW_LANES = 8  # whose changes are put into order for each
FEW_CHANGES = 16_384  # of all members, told in one go


class RangeChanges:
    """Of the members with RANGE windows."""

    def __init__(self, rows: StreamRows, told: int) -> None:
        self.rows = rows
        self._side = rows.side
        self.told = told
        """Members have been told of all that left up to this time."""
        self.entered = 0
        """Of the batch being worked, so many rows have entered."""
        self._hopping = self._sliding = Roster.of(())
        self._sizes: NDArray = NO_ROWS
        """Of the sliding windows, each once, in order."""
        self._lanes: list[Lane] = []
        """For each of them, made when it is first asked for."""
        self._demand = Demand(*(np.empty((0, 0), kind) for kind in (np.int32, np.int32, np.int64)))
        """What these members ask of the tags of rows, one row each."""
        self._hop_lanes: list[HopLane] = []

    def refresh(self, roster: Roster) -> None:
        """Take changed members into account, or rows that are kept in another way."""
        members = [one for one in roster.members if isinstance(one, WindowMember)]
        is_hopping = np.array([one.node.hops is not None for one in members], bool)
        self._sliding, self._hopping = roster.take(~is_hopping), roster.take(is_hopping)
        self._demand = tag_demands(self._sliding, (self._side,))
        self._sizes = np.unique(self._sliding.sizes[0])
        self._lanes = []
        self._find_hop_lanes()
        for member in members:
            member.pass_rows(len(self._side) + 1)  # rows may be in another order than before

    def _find_hop_lanes(self) -> None:
        demand = tag_demands(self._hopping, (self._side,))
        self._hop_lanes = hop_lanes_of(self._hopping, demand, self._side)

    def _check_restored(self) -> None:
        """What each size of window is told by is made anew when it is asked for."""
        self._lanes = []
        self._demand = tag_demands(self._sliding, (self._side,))
        self._sizes = np.unique(self._sliding.sizes[0])
        leaves, words = self._side.tag_widths
        for lane in self._hop_lanes:
            members = len(lane.members)
            expect(lane.demand.low.shape == (members, leaves), "what members ask of leaves")
            expect(lane.demand.bits.shape == (members, words), "what members ask of bits")
            if lane.index is not None:
                expect(lane.index.is_of(members, self._side.leaf_counts, words), "an index of members")

    # -- how far ------------------------------------------------------------------------------------

    def bound(self, known: int, members: int) -> int:
        """The time up to which members can be told now: all that is known, or less if that is very much."""
        if not len(self._sizes) and not self._hop_lanes:
            return known
        most = max(LEAST_CHANGES, MOST_CHANGES // members)
        little, much = self.told, known
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
        entering = int(self._side.arrival.ts.searchsorted(until, side="right")) - self.entered
        leaving = np.zeros(len(self._sizes), np.int64)
        for shelf in self._side.shelves:
            ts = shelf.store.ts.live
            before = ts.searchsorted(np.maximum(self.told - self._sizes, EARLIEST), side="right")
            leaving += ts.searchsorted(np.maximum(until - self._sizes, EARLIEST), side="right") - before
        by_hops = (lane.count(self._side, self.told, until) for lane in self._hop_lanes)
        return max(entering + int(leaving.max(initial=0)), *by_hops, 0)

    # -- what is told -------------------------------------------------------------------------------

    def tell(self, until: int) -> None:
        """Give members what enters and leaves up to a time; boundaries are over below it."""
        entered = int(self._side.arrival.ts.searchsorted(until, side="right"))
        if len(self._sizes) and not self._tell_few(until, entered):
            self._lanes = self._lanes or lanes_of(self._sliding, self._demand, self._side)
            for lane in self._lanes:
                self._tell(lane, self._between(lane.size, until, entered))
        self.tell_hops(until - 1)
        self.told, self.entered = until, entered

    def _leaving(self, shelf: Shelf, size: int, until: int) -> range:
        """The rows of a shelf that leave windows of a size up to a time, and have not yet been told of."""
        ts, tail = shelf.store.ts.live, shelf.store.ts.tail
        bounds = [max(self.told - size, EARLIEST), max(until - size, EARLIEST)]
        first, last = ts.searchsorted(bounds, side="right").tolist()
        return range(tail + first, tail + last)

    def _tell(self, lane: Lane, changes: WindowChanges) -> None:
        """Give the members of a lane what enters and leaves."""
        total = len(changes.order)
        if not total:
            return
        views: Views = {}
        if lane.index is not None:
            self._sort_out(lane, lane.index, changes, views)
            return
        for i, member in enumerate(lane.members):
            ts, sign, refs = (np.empty(total + 1, kind) for kind in (np.int64, np.int8, np.int64))
            found = take_changes(
                tuple(changes),
                (lane.demand.low[i], lane.demand.high[i], lane.demand.bits[i]),
                (ts, sign, refs),
            )
            self._put(member, views, ts[:found], sign[:found], refs[:found])

    def _tell_few(self, until: int, entered: int) -> bool:
        """Give all members what enters and leaves up to a time, in one go; False if that may be much.

        For many sizes of windows: putting the changes of each into order costs more than telling them.
        """
        side, demand = self._side, self._demand
        is_whole = not self.entered and entered == len(side.arrival.ts)
        if len(self._sizes) <= FEW_LANES or not is_whole or max(side.tag_widths) > 1:
            return False
        members, ts, refs = (np.empty(FEW_CHANGES, np.int64) for _ in range(3))
        sign = np.empty(FEW_CHANGES, np.int8)
        count = 0
        for number, shelf in enumerate(side.shelves):
            tail = shelf.store.ts.tail
            count = find_few(
                shelf.store.ts.live, shelf.first_row - tail, self.told, until, tail + (number << ROW_BITS),
                self._sliding.sizes[0], (demand.low, demand.high, demand.bits),
                as_rows([one.live for one in shelf.leaves], len(shelf), np.int32),
                as_rows([one.live for one in shelf.words], len(shelf), np.int64),
                count, (members, ts, sign, refs),
            )  # fmt: skip
            if count < 0:
                return False
        if not count:
            return True
        order = np.lexsort((sign[:count], ts[:count], members[:count]))
        views: Views = {}
        cuts = np.flatnonzero(np.diff(members[order], prepend=-1))
        for begin, end in zip(cuts.tolist(), [*cuts[1:].tolist(), count], strict=True):
            own = order[begin:end]
            member = self._sliding.members[members[own[0]]]
            self._put(member, views, ts[own], sign[own], refs[own])
        return True

    def _between(self, size: int, until: int, entered: int) -> WindowChanges:
        """What enters and leaves windows of a size up to a time."""
        side, runs = self._side, Runs(*self._side.tag_widths)
        for number, shelf in enumerate(side.shelves):
            if gone := self._leaving(shelf, size, until):
                runs.add(shelf, number, gone, shelf.store.ts.run(gone.start, gone.stop) + size)
        runs.begin_entering()
        batch = slice(self.entered, entered)
        tags = [one[batch] for one in side.arrival.leaves], [one[batch] for one in side.arrival.words]
        runs.put(side.arrival.ts[batch], side.arrival.refs[batch], *tags)
        return runs.in_order()

    def tell_last(self, now: int) -> None:
        """Let members of hopping queries know of the boundary at which they end, when time has ended."""
        self.tell_hops(now, True)

    def tell_hops(self, over: int, closed: bool = False) -> None:
        """Let members of hopping queries know of the boundaries up to a time, of which all rows have come."""
        is_new = False
        for lane in self._hop_lanes:
            end = lane.hops.last(min(lane.hops.first(over) if closed else over, lane.last_hop))
            if end <= lane.before(self.told):
                continue
            if lane.whole:
                self._show(lane, end)
            else:
                self._tell(lane, changes_at_hops(self._side, lane, self.told, end))
            is_new |= lane.is_new
            for member in lane.members:
                member.told()
        if is_new:
            self._find_hop_lanes()

    def _show(self, lane: HopLane, end: int) -> None:
        """Give the members of a lane what is in their windows at each boundary."""
        views: Views = {}
        for place, member in enumerate(lane.members):
            for boundary, first, refs in windows_at_hops(self._side, lane, place, self.told, end):
                self.rows.show(member, views, boundary, refs, first)

    def _sort_out(self, lane: Lane, index: RowIndex, changes: WindowChanges, views: Views) -> None:
        """Give many members their changes: who takes a row is looked up."""
        order, most = changes.order, len(lane.members)
        tags = Tags(changes.leaves[:, order], changes.words[:, order])
        ts, refs = changes.times[order], changes.refs[order]
        sign = np.where(order >= changes.entering, np.int8(1), np.int8(-1))
        members, places = np.empty((2, max(most, min(MAX_ENTRIES, len(order) * most))), np.int32)
        start = 0
        while start < len(order):
            count, start = index.report_rows(tags, start, members, places)
            ids, starts, taken = split_by_member(members[:count], places[:count], most)
            for i, one in enumerate(ids.tolist()):
                own = taken[starts[i] : starts[i + 1]]
                self._put(lane.members[one], views, ts[own], sign[own], refs[own])

    def _put(self, member: WindowMember, views: Views, ts: NDArray, sign: NDArray, refs: NDArray) -> None:
        ends = announced_ends(self._side, member.node, ts, sign, refs)
        self.rows.give(member, views, ts, sign, refs, ends)

    # -- what is there ------------------------------------------------------------------------------

    def rows_of(self, member: WindowMember) -> tuple[NDArray, NDArray]:
        """References to the rows that are in a member's window now, and when they leave it, in that order."""
        hops, now = member.node.hops, self.told
        if hops is not None:
            now = hops.last(now - 1) if member.begun else BEGINNING
        demand, size = self._side.demand_of(member), member.node.size
        ts, refs = rows_between(self._side, demand, 0, now - size, now)
        ends = ts + size
        return refs, ends if hops is None else hops.up(ends)
