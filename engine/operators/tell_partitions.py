"""What windows PARTITION BY ... ROWS n over rows that are kept in common are told: when an instant is over.

    rows of k: at 3, 4, 5, 8        a1  b1  a2  a3
    PARTITION BY k ROWS 1           +a1 at 3;  +b1 at 4;  -a1 +a2 at 5;  -a2 +a3 at 8
    PARTITION BY k ROWS 2           +a1 at 3;  +b1 at 4;      +a2 at 5;  -a1 +a3 at 8     a2 is kept for it

Here rows are known by their places in the stream, and their columns are wherever they are kept: on a shelf,
or apart (rows_apart.py). In a hopping query boundaries are the instants (see hops.py), or each gives all
rows, and rows are needed as of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..batch import NO_ROWS
from ..hop_steps import boundaries_between, boundaries_of, hops_until
from ..hops import Hops
from ..window_member import WindowMember
from .partitions import Changes, Partitions
from .stream_rows import StreamRows, Views


class PartitionTeller:
    """Of the members with windows of partitions, whatever they are partitioned by."""

    def __init__(self, rows: StreamRows, told: int) -> None:
        self.rows = rows
        self.members: list[WindowMember] = []
        self.places: NDArray = NO_ROWS
        """Of the rows, of instants that are over, that are in some window."""
        self._ts: NDArray = NO_ROWS
        self._partitions: dict[tuple[int, ...], Partitions] = {}
        """Of these rows."""
        self._told = told
        """Members of hopping queries have been told of the boundaries below this."""
        self._may_forget = False
        """Whether some of the rows may have left all windows."""

    def refresh(self, members: Sequence[WindowMember]) -> None:
        """Take changed members into account. Of those that are new, all rows that are there are looked at."""
        is_new = not set(members) <= set(self.members)
        self.members = list(members)
        self._may_forget = True
        used = dict.fromkeys(one.node.partition for one in members)
        if not is_new:
            self._partitions = {key: one for key, one in self._partitions.items() if key in used}
            if not members:
                self.places = self._ts = NO_ROWS
            return
        self.places = self._ts = NO_ROWS
        self._partitions = {key: Partitions(key) for key in used}
        places = self.rows.places
        places = places[: int(places.searchsorted(self.rows.over))]
        if len(places):
            refs = self.rows.refs_at(places)
            self._extend(places, refs, self.rows.side.gathered(lambda shelf: shelf.store.ts, refs))

    def _extend(self, places: NDArray, refs: NDArray, ts: NDArray) -> None:
        """Take in rows on shelves that came after those that are here."""
        side = self.rows.side
        types = side.types
        self.places, self._ts = np.concatenate([self.places, places]), np.concatenate([self._ts, ts])
        keys = {column: side.view(column).take(refs) for key in self._partitions for column in key}
        for one in self._partitions.values():
            one.extend([keys[i] for i in one.columns], [types[i] for i in one.columns], len(places))

    def bound(self, until: int) -> int:
        """The time up to which members can be told now, of those up to `until`."""
        return hops_until(self.members, self._told, until, int(self._ts[0]) if len(self._ts) else None)

    def forget(self) -> None:
        """Let go of the rows that are in no window."""
        if not self._may_forget:
            return
        self._may_forget = False
        asked: dict[tuple[tuple[int, ...], int, int], int] = {}
        for member in self.members:
            key = member.node.partition, self._known_to(member), self._first(member)
            asked[key] = max(asked.get(key, 0), member.node.size)
        needed = np.zeros(len(self.places), bool)
        for (partition, end, first), size in asked.items():
            needed[first:] |= self._partitions[partition].displacing(size)[first:] >= end
        if not needed.all():
            kept = np.flatnonzero(needed)
            self.places, self._ts = self.places[kept], self._ts[kept]
            for one in self._partitions.values():
                one.keep(kept)

    def _first(self, member: WindowMember) -> int:
        """The first of the rows that may be in a member's window."""
        return int(self.places.searchsorted(member.first))

    def _known_to(self, member: WindowMember) -> int:
        """The first row that a member has not been told of, or is not to be told of alone, as the next
        boundary sees a whole window."""
        hops = member.node.hops
        if hops is None:
            return len(self.places)
        is_next = member.node.whole or not member.begun
        return self._after(hops.last(self._told - 1) + hops.size * is_next)

    def _after(self, ts: int) -> int:
        """The first row after a time."""
        return int(self._ts.searchsorted(ts, side="right"))

    # -- what is told -------------------------------------------------------------------------------

    def tell(self, begin: int, end: int, until: int) -> None:
        """Give members what the rows at places [begin, end), whole instants, change; boundaries are over
        below a time."""
        if self.members:
            first = len(self.places)
            begin = max(begin, min(one.first for one in self.members))
            if begin < end:
                new = self.rows.refs_between(begin, end), self.rows.times_between(begin, end)
                self._extend(np.arange(begin, end), *new)
            if begin < end or self._has_hops(until):
                self._may_forget = True
                refs, views = self.rows.refs_at(self.places), Views()
                self._tell_sliding(first, refs, views)
                for member in self.members:
                    self._tell_hops(member, min(until - 1, member.last_hop), refs, views)
        self._told = max(self._told, until)

    def tell_last(self, now: int) -> None:
        """Give members of hopping queries what the boundary sees at which they end, when time has ended."""
        if self.members:
            self._may_forget = True
            refs, views = self.rows.refs_at(self.places), Views()
            for member in self.members:
                self._tell_hops(member, member.last_boundary(now), refs, views)

    def _has_hops(self, until: int) -> bool:
        """Whether some boundary is over below a time, of which nobody has been told."""
        hops = [one.node.hops for one in self.members if one.node.hops is not None]
        return any(one.last(until - 1) > one.last(self._told - 1) for one in hops)

    def _tell_sliding(self, begin: int, refs: NDArray, views: Views) -> None:
        """Let members know of the rows from `begin` on."""
        if begin == len(refs):
            return
        found: dict[tuple[tuple[int, ...], int, int], Changes] = {}
        for member in self.members:
            if member.node.hops is None:
                key = member.node.partition, member.node.size, self._first(member)
                if key not in found:
                    partitions = self._partitions[member.node.partition]
                    ts, sign, rows = partitions.changes(key[1], self._ts, begin, len(refs), key[2])
                    found[key] = ts, sign, refs[rows]
                self.rows.give(member, views, *found[key], is_apart=True)

    def _tell_hops(self, member: WindowMember, over: int, refs: NDArray, views: Views) -> None:
        """Let a member of a hopping query know of the boundaries up to a time, which are over."""
        hops = member.node.hops
        if hops is None or hops.last(over) <= hops.last(self._told - 1) or not len(refs):
            return
        if member.node.whole:
            self._show(member, over + 1, refs, views)
        else:
            first, end = self._first(member), self._after(hops.last(over))
            begin = self._known_to(member) if member.begun else first
            at = np.maximum(hops.up(self._ts), member.since)
            partitions = self._partitions[member.node.partition]
            ts, sign, rows = partitions.changes(member.node.size, at, begin, end, first)
            self.rows.give(member, views, ts, sign, refs[rows], is_apart=True)
        member.begun = True

    def _show(self, member: WindowMember, until: int, refs: NDArray, views: Views) -> None:
        """Give a member what is in its window at each boundary below a time."""
        assert member.node.hops is not None, "a window of a hopping query"
        by, first = self._displacing(member), self._first(member)
        last, rows = -1, NO_ROWS
        for boundary in self._boundaries(member, member.node.hops, until):
            end = self._after(boundary)
            if end != last:
                last, rows = end, np.flatnonzero(by[first:end] >= end) + first
            self.rows.show(member, views, boundary, refs[rows], None, is_apart=True)

    def _boundaries(self, member: WindowMember, hops: Hops, until: int) -> Iterable[int]:
        """Those from what was told on, and below a time, at which a member is given its window."""
        if not member.node.changed:
            return boundaries_between(hops, self._told, until, int(self._ts[0]))
        begin = self._after(hops.last(self._told - 1)) if member.begun else self._first(member)
        return boundaries_of(hops, self._ts[begin:], until, member.since)

    # -- what is there ------------------------------------------------------------------------------

    def _displacing(self, member: WindowMember) -> NDArray:
        """For each row the one that displaces it from a member's window."""
        return self._partitions[member.node.partition].displacing(member.node.size)

    def rows_of(self, member: WindowMember) -> NDArray:
        """References to the rows that are in a member's window now."""
        if member.node.hops is not None and not member.begun:
            return NO_ROWS
        first, end = self._first(member), self._known_to(member)
        rows = np.flatnonzero(self._displacing(member)[first:end] >= end) + first
        return self.rows.refs_at(self.places[rows])

    @property
    def nbytes(self) -> int:
        return int(self.places.nbytes + self._ts.nbytes) + sum(
            one.nbytes for one in self._partitions.values()
        )

    def _check(self) -> None:
        assert len(self.places) == len(self._ts), "rows without times"
        assert bool((np.diff(self.places) > 0).all()), "rows out of order"
        for one in self._partitions.values():
            one._check(len(self.places))
