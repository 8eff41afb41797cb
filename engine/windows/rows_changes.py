"""What ROWS windows over rows that are kept in common are told: when an instant is over.

    rows at 3, 5, 5, 8      a   b c   d
    ROWS 2      +a at 3;  -a +b +c at 5;  -b +d at 8
    ROWS 1      +a at 3;  -a +c at 5;     -c +d at 8         b was displaced at its own instant: never in

A row is in a window of n at the end of an instant if fewer than n came after it until then; so what leaves
and enters at an instant are two runs of places. In a hopping query boundaries are the instants (see hops.py),
or each gives all rows that are in then. The rows of a window that is told of at boundaries are needed as of
the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.windows.changes import displace_rows
from penstock.engine.rows.hops import Hops

from .hop_steps import boundaries_between, boundaries_of, hops_until
from .stream_rows import StreamRows, Views
from .window_member import WindowMember

Changes = tuple[NDArray, NDArray, NDArray]
"""Times and signs, and references to rows."""


class RowsChanges:
    """Of the members with ROWS windows."""

    def __init__(self, rows: StreamRows, told: int) -> None:
        self.rows = rows
        self.members: list[WindowMember] = []
        self._sliding: list[WindowMember] = []
        self._hopping: list[WindowMember] = []
        self._told = told
        """Members of hopping queries have been told of the boundaries below this."""

    def refresh(self, members: Sequence[WindowMember]) -> None:
        """Take changed members into account."""
        self.members = list(members)
        self._sliding = [one for one in members if one.node.hops is None]
        self._hopping = [one for one in members if one.node.hops is not None]

    def bound(self, until: int) -> int:
        """The time up to which members can be told now, of those up to `until`."""
        if not any(one.node.whole for one in self._hopping):
            return until
        first = min(one.first for one in self._hopping)
        ts = int(self.rows.times_between(first, first + 1)[0]) if first < self.rows.come else None
        return hops_until(self._hopping, self._told, until, ts)

    def known_to(self, member: WindowMember) -> int:
        """The place of the first row that a member has not been told of, or is not to be told of alone, as
        the next boundary sees a whole window."""
        hops = member.node.hops
        if hops is None:
            return self.rows.over
        is_next = member.node.whole or not member.begun
        return self._place(member, hops.last(self._told - 1) + hops.size * is_next)

    def _place(self, member: WindowMember, ts: int) -> int:
        """The place of the first row after a time, of those that a member has."""
        return max(self.rows.place_after(ts), member.first)

    def forget(self) -> None:
        """Members have no more use of rows that have left their windows."""
        for member in self.members:
            member.forget_before(self.known_to(member) - member.node.size)

    # -- what is told -------------------------------------------------------------------------------

    def tell(self, begin: int, end: int, until: int) -> None:
        """Give members what the rows at places [begin, end), whole instants, change; boundaries are over
        below a time."""
        views: Views = {}
        self._tell_sliding(begin, end, views)
        for member in self._hopping:
            self._tell_hops(member, min(until - 1, member.last_hop), views)
        self._told = max(self._told, until)

    def tell_last(self, now: int) -> None:
        """Give members of hopping queries what the boundary sees at which they end, when time has ended."""
        views: Views = {}
        for member in self._hopping:
            self._tell_hops(member, member.last_boundary(now), views)

    def _tell_sliding(self, begin: int, end: int, views: Views) -> None:
        members = [one for one in self._sliding if one.first < end]
        if begin == end or not members:
            return
        low = max(begin, min(one.first for one in members))  # some of an instant may have come before them
        ts, offset = self.rows.times_between(low, end), self.rows.offset
        found: dict[tuple[int, int], Changes] = {}
        for member in members:
            own, size = max(begin, member.first), member.node.size
            key = size, max(member.first, own - size)  # before that it has no rows to lose
            if key not in found:
                found[key] = self._displaced(ts[own - low :], own, *key, offset)
            self.rows.give(member, views, *found[key])

    def _displaced(self, ts: NDArray, begin: int, size: int, first: int, offset: int | None) -> Changes:
        """What rows from place `begin` on, at these times, change in a window that has none below `first`.

        offset: of references to rows from their places, if one shelf has them all.
        """
        out: list[NDArray] = [np.empty(2 * len(ts), kind) for kind in (np.int64, np.int8, np.int64)]
        end = begin + len(ts)
        count = displace_rows(ts, begin, begin, end, size, first, *out)
        times, sign, places = (one[:count] for one in out)
        if offset is not None:
            return times, sign, places + offset if offset else places
        leaving = self.rows.refs_between(first, max(first, end - size))
        entering = self.rows.refs_between(begin, end)
        at = np.where(sign < 0, places - first, places - begin + len(leaving))
        return times, sign, np.concatenate([leaving, entering])[at]

    def _tell_hops(self, member: WindowMember, over: int, views: Views) -> None:
        """Let a member of a hopping query know of the boundaries up to a time, which are over."""
        hops, size = member.node.hops, member.node.size
        if hops is None or hops.last(over) <= hops.last(self._told - 1) or member.first >= self.rows.come:
            return
        if member.node.whole:
            for boundary in self._boundaries(member, hops, over + 1):
                end = self._place(member, boundary)
                self.rows.show_run(member, views, boundary, max(member.first, end - size), end)
        else:
            begin, end = self.known_to(member), self._place(member, hops.last(over))
            first = max(member.first, begin - size)
            if not member.begun:  # it has no rows to lose
                begin = first = member.first
            if begin < end:
                at = np.maximum(hops.up(self.rows.times_between(begin, end)), member.since)
                self.rows.give(member, views, *self._displaced(at, begin, size, first, self.rows.offset))
        member.told()

    def _boundaries(self, member: WindowMember, hops: Hops, until: int) -> Iterable[int]:
        """Those from what was told on, and below a time, at which a member is given its window."""
        rows = self.rows
        if not member.node.changed:
            first = int(rows.times_between(member.first, member.first + 1)[0])
            return boundaries_between(hops, self._told, until, first)
        begin = self._place(member, hops.last(self._told - 1)) if member.begun else member.first
        return boundaries_of(hops, rows.times_between(begin, rows.come), until, member.since)

    # -- what is there ------------------------------------------------------------------------------

    def rows_of(self, member: WindowMember) -> NDArray:
        """References to the rows that are in a member's window now."""
        end = self.known_to(member)
        is_begun = member.node.hops is None or member.begun
        first = max(member.first, end - member.node.size) if is_begun else end
        return self.rows.refs_between(min(first, end), end)
