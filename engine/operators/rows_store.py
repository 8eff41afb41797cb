"""The last rows of a stream, kept once for all ROWS windows over it that are not joined.

In:      rows of the stream.
Out:     to each member, a window of some size, +1 for a row that is in it at the end of its instant and -1
         when it has been displaced: the columns that it asked for, as references to rows that are kept. In a
         hopping query boundaries are the instants (see hops.py), or each gives all rows that are in then.
Kept:    as many rows as the largest window holds, once; in a hopping query, as of its last boundary.
Dropped: when displaced from it.

    rows at 3, 5, 5, 8      a   b c   d
    ROWS 2      +a at 3;  -a +b +c at 5;  -b +d at 8
    ROWS 1      +a at 3;  -a +c at 5;     -c +d at 8         b was displaced at its own instant: never in

Rows are numbered as they come. A row is in a window of n at the end of an instant if fewer than n came after
it until then; so what leaves and enters at an instant are two runs of numbers. An instant's rows wait until
the input has passed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..batch import Batch, Gather, View, all_at
from ..hop_steps import boundaries_between, hops_until
from ..hops import Hops
from ..kernels.changes import displace_rows
from ..operator import Counters
from ..queue import BEGINNING, Outlet, Queue, instants_of
from ..store import Store
from ..stream_store import admit, close, give, promise
from ..types import SqlType
from ..window_member import WindowMember

Changes = tuple[NDArray, NDArray, NDArray]
"""Times, signs and numbers of rows."""


class RowsStore:
    """One for each stream."""

    def __init__(self, stream: str, types: Sequence[SqlType], queue: Queue, is_late: bool) -> None:
        """is_late: rows of the stream have come before."""
        self.name = f"window {stream} rows"
        self.stream = stream
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self.members: list[WindowMember] = []
        self._types = types
        self._is_late = is_late
        self._store = Store(())
        self._slots: dict[int, int] = {}
        """Where each column of the stream is that is stored."""
        self._since: dict[int, int] = {}
        """The first row that has it."""
        self._unfilled: list[WindowMember] = []
        """Members that lack rows which a window of their size would hold."""
        self._told = queue.punctuation
        """Members of hopping queries have been told of the boundaries below this."""

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: WindowMember) -> None:
        """Let a window in, with the rows that are there."""
        admit(self, member)
        rows = self._store.ts
        for column in member.node.columns:
            if column not in self._slots:
                self._slots[column] = len(self._slots)
                self._since[column] = rows.end if len(rows) else 0
                self._store.add_column(self._types[column])
        since = [self._since[column] for column in member.node.columns]
        member.first = max([rows.tail, rows.end - member.node.size, *since])
        is_full = rows.end - member.first >= member.node.size
        if not is_full and (self._is_late or member.first > 0):
            member.missing[0] = member.first - 1
            self._unfilled.append(member)

    def drop(self, member: WindowMember) -> None:
        self.members.remove(member)
        self._unfilled = [one for one in self._unfilled if one is not member]
        self._forget()

    def refresh(self) -> None:
        """Members are taken in as they come."""

    def _forget(self) -> None:
        """Drop the rows that are in no window."""
        if self.members:
            self._store.drop(min(self._known_to(one) - one.node.size for one in self.members))

    def _known_to(self, member: WindowMember) -> int:
        """The number of the first row that a member has not been told of, or is not to be told of alone, as
        the next boundary sees a whole window."""
        hops = member.node.hops
        if hops is None:
            return self._store.ts.end
        is_next = member.node.whole or not member.begun
        return self._place(hops.last(self._told - 1) + hops.size * is_next)

    def _place(self, ts: int) -> int:
        """The number of the first row after a time."""
        rows = self._store.ts
        return rows.tail + int(rows.live.searchsorted(ts, side="right"))

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.counters.rows_in += batch.length
            begin = self._store.ts.end
            self._store.append(batch.ts, [batch.column(column) for column in self._slots])
            self._tell(begin)
            self._note_filled()
        (queue,) = self.inputs
        come = min(queue.frontier, queue.punctuation)
        over = come + (queue.closed and not queue.batches)  # all rows below this have come
        rows = self._store.ts
        until = hops_until(self.members, self._told, over, int(rows.live[0]) if len(rows) else None)
        self._tell_hops(until)
        self._forget()
        moved = promise(self, min(come, until))
        return until < over or close(self) or moved or batch is not None

    def _tell(self, begin: int) -> None:
        """Give all members what the rows from `begin` on change."""
        rows, views = self._store.ts, self._views()
        found: dict[tuple[int, int], Changes] = {}
        for member in self.members:
            size = member.node.size
            first = max(member.first, begin - size)  # before that it has no rows to lose
            if member.node.hops is not None:
                continue
            if (size, first) not in found:
                found[size, first] = displaced(rows.run(begin, rows.end), begin, size, first)
            give(self, member, views, *found[size, first])

    def _tell_hops(self, until: int) -> None:
        """Let members of hopping queries know of the boundaries below a time, of which all rows have come."""
        rows, views = self._store.ts, self._views()
        for member in self.members:
            hops, size = member.node.hops, member.node.size
            if hops is None or hops.last(until - 1) <= hops.last(self._told - 1) or not len(rows):
                continue
            if member.node.whole:
                self._show(member, hops, until)
            else:
                begin, end = self._known_to(member), self._place(hops.last(until - 1))
                first = max(member.first, begin - size)
                if not member.begun:  # it has no rows to lose
                    begin = first = max(member.first, rows.tail)
                if begin < end:
                    at = np.maximum(hops.up(rows.run(begin, end)), member.since)
                    give(self, member, views, *displaced(at, begin, size, first))
            member.begun = True
        self._told = until

    def _show(self, member: WindowMember, hops: Hops, until: int) -> None:
        """Give a member what is in its window at each boundary below a time."""
        columns = [self._store.columns[self._slots[one]] for one in member.node.columns]
        for boundary in self._boundaries(member, hops, until):
            end = self._place(boundary)
            first = max(member.first, self._store.ts.tail, end - member.node.size)
            if first < end:
                batch = Batch(all_at(boundary, end - first), [one.run(first, end) for one in columns])
                batch.first_row = first
                self.counters.rows_out += batch.length
                member.found += batch.length
                member.output.put(batch)

    def _boundaries(self, member: WindowMember, hops: Hops, until: int) -> Iterable[int]:
        """Those from what was told on, and below a time, at which a member is given its window."""
        rows = self._store.ts
        if not member.node.changed:
            return boundaries_between(hops, self._told, until, int(rows.live[0]))
        new = rows.live[self._place(hops.last(self._told - 1)) - rows.tail :]
        come = hops.up(new if member.begun else rows.live)
        last = hops.last(until - 1)
        found: list[int] = np.unique(np.maximum(come[come <= last], member.since)).tolist()
        return found

    def _note_filled(self) -> None:
        """When the windows of members came to hold as many rows as they can."""
        rows = self._store.ts
        for member in list(self._unfilled):
            last = member.first + member.node.size - 1
            if last < rows.end:
                member.filled[0] = int(rows.run(last, last + 1)[0])
                self._unfilled.remove(member)

    # -- what is there ------------------------------------------------------------------------------

    def _views(self) -> dict[int, View]:
        """The stored columns as they are now."""
        return {column: self._store.columns[slot].view() for column, slot in self._slots.items()}

    def content(self, member: WindowMember) -> Batch:
        views, end = self._views(), self._known_to(member)
        is_begun = member.node.hops is None or member.begun
        there = np.arange(max(member.first, end - member.node.size) if is_begun else end, end)
        now = max(self.output.punctuation, BEGINNING)
        return Batch(np.full(len(there), now), [Gather(views[one], there) for one in member.node.columns])

    @property
    def state_rows(self) -> int:
        return len(self._store)

    @property
    def state_bytes(self) -> int:
        return self._store.nbytes

    def _check(self) -> None:
        self._store._check()
        end = self._store.ts.end
        most = max((one.node.size + end - self._known_to(one) for one in self.members), default=0)
        assert len(self._store) <= most, "a displaced row is kept"


def displaced(ts: NDArray, begin: int, size: int, first: int) -> Changes:
    """What rows from number `begin` on, at these times, change in a window that has none below `first`."""
    out = [np.empty(2 * len(ts), kind) for kind in (np.int64, np.int8, np.int64)]
    count = displace_rows(ts, begin, begin, begin + len(ts), size, first, *out)
    return out[0][:count], out[1][:count], out[2][:count]
