"""What windows PARTITION BY ... ROWS n over rows that are kept in common are told: when an instant is over.

    rows of k: at 3, 4, 5, 8        a1  b1  a2  a3
    PARTITION BY k ROWS 1           +a1 at 3;  +b1 at 4;  -a1 +a2 at 5;  -a2 +a3 at 8
    PARTITION BY k ROWS 2           +a1 at 3;  +b1 at 4;      +a2 at 5;  -a1 +a3 at 8     a2 is kept for it

Here rows are known by their places in the stream, and their columns are wherever they are kept: on a shelf,
or apart (partition_rows.py). In a hopping query boundaries are the instants (see hops.py), or each gives all
rows, and rows are needed as of the last one. A row that the last window lets go is marked; when as many are
marked as are not, those that are needed are numbered anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, rising, same_length, within
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.hops import Hops

from .hop_steps import boundaries_between, boundaries_of, hops_until
from .partitions import FEW_ROWS, FEWEST_GONE, Changes, LastRows, Partitions
from .stream_rows import StreamRows, Views
from .window_member import WindowMember


class PartitionChanges:
    """Of the members with windows of partitions, whatever they are partitioned by."""

    def __init__(self, rows: StreamRows, told: int) -> None:
        self.rows = rows
        self.members: list[WindowMember] = []
        self._told = told
        """Members of hopping queries have been told of the boundaries below this."""
        self._begin()

    def _begin(self) -> None:
        """Have no rows."""
        self._places, self._ts, self._is_gone = RowBuffer("int64"), RowBuffer("int64"), RowBuffer("uint8")
        """Of rows of instants that are over; gone are those that are in no window."""
        self._gone = 0
        self._partitions: dict[tuple[int, ...], Partitions] = {}
        """Of these rows."""
        self._windows: list[LastRows] = []
        """Of each member; those that are told alike have one in common."""
        self._left: list[NDArray] = []
        """Rows that have left a window, and may be in no other."""

    def refresh(self, members: Sequence[WindowMember]) -> None:
        """Take changed members into account. Of those that are new, all rows that are there are looked at."""
        is_new = not set(members) <= set(self.members)
        windows = dict(zip(self.members, self._windows, strict=True))
        self.members = list(members)
        if is_new:
            self._begin()
            self._partitions = {one.node.partition: Partitions(one.node.partition) for one in members}
            places = self.rows.places
            places = places[: int(places.searchsorted(self.rows.over))]
            if len(places):
                refs = self.rows.refs_at(places)
                self._extend(places, refs, self.rows.side.kept.gathered(lambda shelf: shelf.store.ts, refs))
            self._open_windows()
        else:
            self._windows = [windows[one] for one in members]
            used = {one.node.partition for one in members}
            self._partitions = {key: one for key, one in self._partitions.items() if key in used}
        self._left = [np.arange(len(self._places))]

    def _check_restored(self) -> None:
        rows = len(self._places)
        same_length(
            "something of each row", self._places, self._ts, self._is_gone, *self._partitions.values()
        )
        expect(self._places.tail == self._ts.tail == self._is_gone.tail == 0, "rows from the first on")
        expect(self._is_gone.data.dtype == np.uint8, "whether rows are gone")
        rising(self._places.live, "places of rows")
        rising(self._ts.live, "times of rows")
        expect(self._gone == int(np.count_nonzero(self._is_gone.live)), "rows that are gone")
        expect(len(self._windows) == len(self.members), "a window for each member")
        for member, window in zip(self.members, self._windows, strict=True):
            expect(window.partitions is self._partitions.get(member.node.partition), "windows of these rows")
        for left in self._left:
            within(left, 0, rows, "rows that have left")

    def _open_windows(self) -> None:
        """Take in what members have been told of."""
        alike: dict[tuple[tuple[int, ...], int, int], LastRows] = {}
        for member in self.members:
            node = member.node
            window = LastRows(self._partitions[node.partition], node.size, self._first(member))
            if node.hops is None:
                window = alike.setdefault((node.partition, node.size, member.first), window)
            self._windows.append(window)
            self._pass_rows(member, window)

    def _extend(self, places: NDArray, refs: NDArray, ts: NDArray) -> None:
        """Take in rows on shelves that came after those that are here."""
        side = self.rows.side
        types = side.types
        self._places.append(places)
        self._ts.append(ts)
        self._is_gone.append(np.zeros(len(places), np.uint8))
        keys = {column: side.kept.view(column).take(refs) for key in self._partitions for column in key}
        for one in self._partitions.values():
            one.extend([keys[i] for i in one.columns], [types[i] for i in one.columns], len(places))
        for member, window in zip(self.members, self._windows, strict=False):  # new ones are opened after
            if window.is_new:
                window.begin(self._first(member))

    def _first(self, member: WindowMember) -> int:
        """The first of the rows that may be in a member's window, as far as rows have come."""
        return int(self._places.live.searchsorted(member.first))

    def bound(self, until: int) -> int:
        """The time up to which members can be told now, of those up to `until`."""
        ts = self._ts.live
        return hops_until(self.members, self._told, until, int(ts[0]) if len(ts) else None)

    def _after(self, ts: int) -> int:
        """The first row after a time."""
        return int(self._ts.live.searchsorted(ts, side="right"))

    # -- which rows are needed ------------------------------------------------------------------------

    @property
    def places(self) -> NDArray:
        """Of the rows, of instants that are over, that are in some window."""
        return self._places.live[self._is_gone.live == 0]

    def are_needed(self, places: NDArray) -> NDArray:
        """Whether the rows at these places are in some window."""
        if not len(self._places):
            return np.zeros(len(places), bool)
        known = self._places.live
        at = np.minimum(known.searchsorted(places), len(known) - 1)
        found: NDArray = (known[at] == places) & (self._is_gone.live[at] == 0)
        return found

    def forget(self) -> NDArray:
        """Let go of the rows that are in no window: their places."""
        for member, window in zip(self.members, self._windows, strict=True):
            self._pass_rows(member, window)
        if not self._left:
            return NO_ROWS
        rows, self._left = np.unique(np.concatenate(self._left)), []
        is_needed = np.zeros(len(rows), bool)
        for window in self._windows:
            is_needed |= window.needs(rows)
        rows = rows[~is_needed & (self._is_gone.live[rows] == 0)]
        places = self._places.live[rows]
        self._is_gone.live[rows] = 1
        self._gone += len(rows)
        if not self.members:
            self._begin()
        elif self._gone > FEW_ROWS and FEWEST_GONE * self._gone > len(self._places):
            self._keep(np.flatnonzero(self._is_gone.live == 0))
        return places

    def _keep(self, rows: NDArray) -> None:
        """Number the rows anew that are needed."""
        old = self._places, self._ts, self._is_gone
        self._places, self._ts, self._is_gone = RowBuffer("int64"), RowBuffer("int64"), RowBuffer("uint8")
        for new, was in zip((self._places, self._ts, self._is_gone), old, strict=True):
            new.append(was.live[rows])
        self._gone = 0
        for one in self._partitions.values():
            one.keep(rows)
        is_seen: list[LastRows] = []
        for window in self._windows:
            if not any(window is one for one in is_seen):
                window.renumber(rows)
                is_seen.append(window)

    def _known_to(self, member: WindowMember) -> int:
        """The first row that a member has not been told of, or is not to be told of alone, as the next
        boundary sees a whole window. The rows here are of instants that are over."""
        hops = member.node.hops
        if hops is None or member.node.whole:
            return len(self._places)
        return self._after(hops.last(self._told - 1) if member.begun else member.since)

    def _pass_rows(self, member: WindowMember, window: LastRows, end: int | None = None) -> None:
        """Take in rows of which a member is not told, one by one: those below `end`, or that it knows of."""
        end = self._known_to(member) if end is None else end
        if window.end < end:
            _, left = window.take(self._ts.run(window.end, end))
            self._left.append(left)

    # -- what is told -------------------------------------------------------------------------------

    def tell(self, begin: int, end: int, until: int) -> None:
        """Give members what the rows at places [begin, end), whole instants, change; boundaries are over
        below a time."""
        if self.members:
            begin = max(begin, min(one.first for one in self.members))
            if begin < end:
                new = self.rows.refs_between(begin, end), self.rows.times_between(begin, end)
                self._extend(np.arange(begin, end), *new)
            if begin < end or self._has_hops(until):
                views = Views()
                self._tell_sliding(views)
                for member, window in zip(self.members, self._windows, strict=True):
                    self._tell_hops(member, window, min(until - 1, member.last_hop), views)
        self._told = max(self._told, until)

    def tell_last(self, now: int) -> None:
        """Give members of hopping queries what the boundary sees at which they end, when time has ended."""
        views = Views()
        for member, window in zip(self.members, self._windows, strict=True):
            self._tell_hops(member, window, member.last_boundary(now), views)

    def _has_hops(self, until: int) -> bool:
        """Whether some boundary is over below a time, of which nobody has been told."""
        hops = [one.node.hops for one in self.members if one.node.hops is not None]
        return any(one.last(until - 1) > one.last(self._told - 1) for one in hops)

    def _taken(self, window: LastRows, at: NDArray) -> Changes:
        """What the next rows change in a window, at these instants, as references."""
        (ts, sign, rows), left = window.take(at)
        self._left.append(left)
        return ts, sign, self._refs(rows)

    def _refs(self, rows: NDArray) -> NDArray:
        return self.rows.refs_at(self._places.live[rows])

    def _tell_sliding(self, views: Views) -> None:
        """Let members know of the rows that have come."""
        told: list[tuple[LastRows, Changes]] = []
        for member, window in zip(self.members, self._windows, strict=True):
            if member.node.hops is None:
                changes = next((found for one, found in told if one is window), None)
                if changes is None:
                    changes = self._taken(window, self._ts.run(window.end, len(self._ts)))
                    told.append((window, changes))
                self.rows.give(member, views, *changes, is_apart=True)

    def _tell_hops(self, member: WindowMember, window: LastRows, over: int, views: Views) -> None:
        """Let a member of a hopping query know of the boundaries up to a time, which are over."""
        hops = member.node.hops
        if hops is None or hops.last(over) <= hops.last(self._told - 1) or not len(self._places):
            return
        if member.node.whole:
            self._show(member, window, over + 1, views)
        else:
            end = self._after(hops.last(over))
            if not member.begun:
                self._pass_rows(member, window, min(end, self._after(member.since)))
                refs = self._refs(window.rows())
                self.rows.give(
                    member, views, np.full(len(refs), member.since), np.ones(len(refs), np.int8), refs,
                    is_apart=True,
                )  # fmt: skip
            if window.end < end:
                at = np.maximum(hops.up(self._ts.run(window.end, end)), member.since)
                self.rows.give(member, views, *self._taken(window, at), is_apart=True)
        member.told()

    def _show(self, member: WindowMember, window: LastRows, until: int, views: Views) -> None:
        """Give a member what is in its window at each boundary below a time."""
        assert member.node.hops is not None, "a window of a hopping query"
        known, refs = -1, NO_ROWS
        for boundary in self._boundaries(member, member.node.hops, window, until):
            self._pass_rows(member, window, self._after(boundary))
            if window.end != known:
                known, refs = window.end, self._refs(window.rows())
            self.rows.show(member, views, boundary, refs, None, is_apart=True)

    def _boundaries(self, member: WindowMember, hops: Hops, window: LastRows, until: int) -> Iterable[int]:
        """Those from what was told on, and below a time, at which a member is given its window."""
        ts = self._ts.live
        if not member.node.changed:
            return boundaries_between(hops, self._told, until, int(ts[0]))
        begin = self._after(hops.last(self._told - 1)) if member.begun else window.first
        return boundaries_of(hops, ts[begin:], until, member.since)

    # -- what is there ------------------------------------------------------------------------------

    def rows_of(self, member: WindowMember) -> NDArray:
        """References to the rows that are in a member's window now."""
        if member.node.hops is not None and not member.begun:
            return NO_ROWS
        window = self._windows[self.members.index(member)]
        self._pass_rows(member, window)
        return self._refs(window.rows())

    @property
    def nbytes(self) -> int:
        windows = {id(one): one.nbytes for one in self._windows}
        buffers = sum(one.nbytes for one in (self._places, self._ts, self._is_gone))
        return buffers + sum(one.nbytes for one in self._partitions.values()) + sum(windows.values())

    def _check(self) -> None:
        rows = len(self._places)
        assert rows == len(self._ts) == len(self._is_gone), "rows without times"
        assert bool((np.diff(self._places.live) > 0).all()), "rows out of order"
        assert self._gone == int(self._is_gone.live.sum()), "other rows are gone than are counted"
        assert len(self._windows) == len(self.members), "a member without a window"
        for one in self._partitions.values():
            one._check()
            assert len(one) == rows, "rows in no partition"
        for window in self._windows:
            window._check()
            assert not self._is_gone.live[window.rows()].any(), "a row of a window is gone"
