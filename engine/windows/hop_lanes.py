"""Windows of hopping queries over rows that are kept in common: what a boundary changes, or what it sees.

Boundaries cut time, and what enters or leaves at one of them is a stretch of each shelf, as for sliding
windows; times are rounded up (see hops.py), and rows that no boundary sees are left out.

    hop 10, RANGE 15        rows  . .  | . .  .|    . .|      of what is told at 40:
    boundaries                   10    20      30      40     enters (30, 40], leaves (15, 25]

A member that is new is told of all that its first boundary sees, as entering there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.members.lineage import Demand
from penstock.engine.members.roster import Roster
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.shelf import Shelf
from penstock.engine.shelves.side import Side

from .window_lanes import EARLIEST, Lane, Runs, WindowChanges, index_lane
from .window_member import WindowMember

BATCH_ROWS = 128  # that take as much as a batch besides its rows


@dataclass(frozen=True, slots=True, eq=False)
class HopLane(Lane):
    """Members with windows and hops of one size, to which boundaries from `since` on are still to be told;
    BEGINNING: they know of all before. whole: they are given all rows at each boundary; changed: only where
    rows have come."""

    hops: Hops
    whole: bool
    changed: bool
    since: int
    is_new: bool

    @property
    def last_hop(self) -> int:
        """The last boundary of any of them."""
        return max(one.last_hop for one in self.members if isinstance(one, WindowMember))

    def before(self, told: int) -> int:
        """The last boundary they know of, if time has been told of up to here."""
        if self.is_new and self.since > BEGINNING:
            return self.since - self.hops.size
        return self.hops.last(told - 1)

    def count(self, side: Side, told: int, until: int) -> int:
        """How many changes, or rows, one of them is told of at most if time goes on."""
        begin, end = self.before(told), self.hops.last(until - 1)
        if end <= begin:
            return 0
        low = reach_of(self, begin) if self.whole else begin - self.size
        total = sum(len(between(shelf, low, end)) for shelf in side.shelves)
        if not self.whole:
            return 2 * total
        boundaries = (end - begin) // self.hops.size
        if self.changed:
            new = sum(len(between(shelf, begin, end)) for shelf in side.shelves)
            return total * min(boundaries, new + self.is_new)
        if self.size == FOREVER:  # all see something, and be it little
            return (total + BATCH_ROWS) * boundaries if total else 0
        return total * min(boundaries, total)


def hop_lanes_of(members: Roster, demand: Demand, side: Side) -> list[HopLane]:
    """Members whose windows are told of together; demand: of all of them, one row each."""
    found: dict[tuple[int, Hops, bool, bool, int, bool], list[int]] = {}
    for i, one in enumerate(members.members):
        assert isinstance(one, WindowMember) and one.node.hops is not None, "a window of a hopping query"
        since = BEGINNING if one.begun else one.since
        key = one.node.size, one.node.hops, one.node.whole, one.node.changed, since, not one.begun
        found.setdefault(key, []).append(i)
    lanes = []
    for (size, hops, whole, changed, since, is_new), here in found.items():
        own = Demand(demand.low[here], demand.high[here], demand.bits[here])
        index = None if whole else index_lane(own, side)
        some = [one for i in here if isinstance(one := members.members[i], WindowMember)]
        lanes.append(HopLane(size, some, own, index, hops, whole, changed, since, is_new))
    return lanes


def between(shelf: Shelf, after: int, until: int) -> range:
    """The rows of a shelf with a ts after one time and up to another."""
    ts, tail = shelf.store.ts.live, shelf.store.ts.tail
    first, last = ts.searchsorted([max(after, EARLIEST), max(until, EARLIEST)], side="right").tolist()
    return range(tail + first, tail + max(first, last))


def changes_at_hops(side: Side, lane: HopLane, told: int, end: int) -> WindowChanges:
    """What enters and leaves the windows of a lane after what was told, up to the boundary `end`."""
    size, hops, begin = lane.size, lane.hops, lane.before(told)
    runs = Runs(*side.tag_widths)
    for is_entering in (False, True):
        if is_entering:
            runs.begin_entering()
        for number, shelf in enumerate(side.shelves):
            if is_entering:
                rows = between(shelf, begin - size if lane.is_new else begin, end)
            else:
                rows = between(shelf, begin - size, end - size)
            if not rows:
                continue
            ts = shelf.store.ts.run(rows.start, rows.stop)
            if size >= hops.size and not lane.is_new:  # all are seen
                runs.add(shelf, number, rows, hops.up_in_order(ts if is_entering else ts + size))
                continue
            enters, leaves = hops.up_in_order(ts), hops.up_in_order(ts + size)
            if lane.is_new:
                enters = np.maximum(enters, lane.since)
            times = enters if is_entering else leaves
            runs.add(shelf, number, rows, times, np.flatnonzero(enters < leaves))
    return runs.in_order()


def reach_of(lane: HopLane, boundary: int) -> int:
    """Rows up to this ts are of no use to the boundaries after this one."""
    return boundary + lane.hops.size - lane.size


def windows_at_hops(
    side: Side, lane: HopLane, place: int, told: int, end: int
) -> Iterator[tuple[int, int, NDArray]]:
    """What each boundary after what was told, up to `end`, sees in the window of one of a lane's members: the
    boundary, the number of the first row, references to the rows. Boundaries that see none are left out, and
    those that see nothing new if the lane asks for that."""
    size, hops, begin = lane.size, lane.hops, lane.before(told)
    member = lane.members[place]
    ts, refs = rows_between(side, lane.demand, place, reach_of(lane, begin), end)
    boundary, known = begin + hops.size, begin - size if lane.is_new else begin
    while boundary <= end:
        since = max(boundary - size, EARLIEST)
        first, last, old = ts.searchsorted([since, boundary, max(known, EARLIEST)], side="right").tolist()
        if first < last and (last > old or not lane.changed):
            yield boundary, member.number + first, refs[first:last]
        known = boundary
        if first < last and not lane.changed:
            boundary += hops.size
        elif last < len(ts):
            boundary = hops.first(int(ts[last]))
        else:
            break
    member.pass_rows(int(ts.searchsorted(max(reach_of(lane, end), EARLIEST), side="right")))


def rows_between(side: Side, demand: Demand, place: int, after: int, until: int) -> tuple[NDArray, NDArray]:
    """Times of and references to the rows that one of those who demand takes, with a ts after one time and up
    to another, in their order."""
    times, refs = [NO_ROWS], [NO_ROWS]
    for number, shelf in enumerate(side.shelves):
        rows = between(shelf, after, until)
        there = np.ones(len(rows), bool)
        for d, leaves in enumerate(shelf.leaves):
            own = leaves.run(rows.start, rows.stop)
            there &= (own >= demand.low[place, d]) & (own <= demand.high[place, d])
        for w, words in enumerate(shelf.words):
            bits = demand.bits[place, w]
            there &= (words.run(rows.start, rows.stop) & bits) == bits
        found = np.flatnonzero(there) + rows.start
        times.append(shelf.store.ts.run(rows.start, rows.stop)[there])
        refs.append(found + (number << ROW_BITS))
    ts = np.concatenate(times)
    if sum(map(bool, map(len, times))) < 2:
        return ts, np.concatenate(refs)
    order = np.argsort(ts, kind="stable")
    return ts[order], np.concatenate(refs)[order]
