"""The last rows of a stream, kept once for all ROWS windows over it that are not joined.

In:      rows of the stream.
Out:     to each member, a window of some size, +1 for a row that is in it at the end of its instant and -1
         when it has been displaced: the columns that it asked for, as references to rows that are kept.
Kept:    as many rows as the largest window holds, once.
Dropped: when displaced from it.

    rows at 3, 5, 5, 8      a   b c   d
    ROWS 2      +a at 3;  -a +b +c at 5;  -b +d at 8
    ROWS 1      +a at 3;  -a +c at 5;     -c +d at 8         b was displaced at its own instant: never in

Rows are numbered as they come. A row is in a window of n at the end of an instant if fewer than n came after
it until then; so what leaves and enters at an instant are two runs of numbers. An instant's rows wait until
the input has passed it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..batch import Batch, Gather, View
from ..kernels.changes import displace_rows
from ..operator import Counters
from ..queue import BEGINNING, Outlet, Queue, instants_of
from ..store import Store
from ..stream_store import admit, close, give, promise
from ..types import SqlType
from ..window_member import WindowMember


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
            self._store.drop(self._store.ts.end - max(member.node.size for member in self.members))

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.counters.rows_in += batch.length
            begin = self._store.ts.end
            self._store.append(batch.ts, [batch.column(column) for column in self._slots])
            self._tell(begin)
            self._note_filled()
            self._forget()
        (queue,) = self.inputs
        moved = promise(self, min(queue.frontier, queue.punctuation))
        return close(self) or moved or batch is not None

    def _tell(self, begin: int) -> None:
        """Give all members what the rows from `begin` on change."""
        rows, views = self._store.ts, self._views()
        room = 2 * (rows.end - begin)
        found: dict[tuple[int, int], tuple[NDArray, NDArray, NDArray]] = {}
        for member in self.members:
            size = member.node.size
            first = max(member.first, begin - size)  # before that it has no rows to lose
            if (size, first) not in found:
                out = [np.empty(room, kind) for kind in (np.int64, np.int8, np.int64)]
                count = displace_rows(rows.data, rows.base, begin, rows.end, size, first, *out)
                found[size, first] = out[0][:count], out[1][:count], out[2][:count]
            give(self, member, views, *found[size, first])

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
        rows, views = self._store.ts, self._views()
        there = np.arange(max(member.first, rows.end - member.node.size), rows.end)
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
        most = max((member.node.size for member in self.members), default=0)
        assert len(self._store) <= most, "a displaced row is kept"
