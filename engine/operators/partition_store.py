"""The last rows of each partition of a stream, kept once for all windows PARTITION BY ... ROWS n over it that
are not joined, whatever they are partitioned by.

In:      rows of the stream.
Out:     to each member, a window of some size for each partition, +1 for a row that is in at the end of its
         instant and -1 when it has been displaced: the columns that it asked for, as references to rows that
         are kept. In a hopping query boundaries are the instants (see hops.py), or each gives all rows.
Kept:    each row that is in some member's window, once; in a hopping query, as of its last boundary.
Dropped: when displaced from the last of them.

    rows of k: at 3, 4, 5, 8        a1  b1  a2  a3
    PARTITION BY k ROWS 1           +a1 at 3;  +b1 at 4;  -a1 +a2 at 5;  -a2 +a3 at 8
    PARTITION BY k ROWS 2           +a1 at 3;  +b1 at 4;      +a2 at 5;  -a1 +a3 at 8     a2 is kept for it

A row is displaced by the one n places later among those with equal keys. Of a row in some window all later
ones of its partition are in it too, so these places are the same among the rows that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS, Batch, ColumnView, Gather, View, all_at, concatenate
from ..fingerprint import fingerprint
from ..hop_steps import boundaries_between, hops_until
from ..hops import Hops
from ..operator import Counters
from ..queue import BEGINNING, Outlet, Queue, instants_of
from ..stream_store import admit, close, give, promise
from ..types import ARROW_TYPES, SqlType
from ..window import FOREVER
from ..window_member import WindowMember


@dataclass(eq=False)
class Partitions:
    """The kept rows told apart by some columns of the stream."""

    columns: tuple[int, ...]
    depth: int
    """Of each partition all of the last so many rows are there; FOREVER: all that have come."""
    marks: tuple[NDArray, NDArray] = (NO_ROWS, NO_ROWS)
    """What tells them apart, two int64 a row."""
    order: NDArray = field(default_factory=lambda: NO_ROWS)
    """The places of rows, those of a partition together, as they came."""
    same: NDArray = field(default_factory=lambda: NO_ROWS)
    """In that order, the number of each row's partition."""
    _by: dict[int, NDArray] = field(default_factory=dict)
    """What has been asked for of these rows, by size."""

    def extend(self, rows: Batch, types: Sequence[SqlType], slots: dict[int, int], begin: int) -> None:
        """Take in the rows from place `begin` on."""
        keys = [rows.column(slots[one]).slice(begin) for one in self.columns]
        new = fingerprint(keys, [types[one] for one in self.columns], rows.length - begin)
        a, b = (np.concatenate([old, one]) for old, one in zip(self.marks, new, strict=True))
        self.marks, self._by = (a, b), {}
        self.order = np.lexsort((b, a)) if b.any() else np.argsort(a, kind="stable")
        a, b = a[self.order], b[self.order]
        self.same = np.cumsum((np.diff(a, prepend=a[:1]) != 0) | (np.diff(b, prepend=b[:1]) != 0))

    def keep(self, places: NDArray) -> None:
        """Forget all rows but those at these places."""
        a, b = self.marks
        self.marks, self._by = (a[places], b[places]), {}
        new = np.full(len(a), -1)
        new[places] = np.arange(len(places))
        there = new[self.order] >= 0
        self.order, self.same = new[self.order[there]], self.same[there]

    def displacing(self, size: int) -> NDArray:
        """For each row the place of the one `size` places later in its partition; the number of rows if none
        has come."""
        if size not in self._by:
            count = len(self.order)
            by = self._by[size] = np.full(count, count)
            if size < count:
                same = self.same[size:] == self.same[:-size]
                by[self.order[:-size][same]] = self.order[size:][same]
        return self._by[size]


class PartitionStore:
    """One for each stream."""

    def __init__(self, stream: str, types: Sequence[SqlType], queue: Queue, is_late: bool) -> None:
        """is_late: rows of the stream have come before."""
        self.name = f"window {stream} partitions"
        self.stream = stream
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self.members: list[WindowMember] = []
        self._types = types
        self._is_whole = not is_late
        """Whether all rows that have come are there."""
        self._rows = Batch(NO_ROWS, ())
        self._numbers = NO_ROWS
        """Of the rows, by how many came before them."""
        self._come = 0
        self._slots: dict[int, int] = {}
        """Where each column of the stream is that is stored."""
        self._since: dict[int, int] = {}
        """The number of the first row that has it."""
        self._partitions: dict[tuple[int, ...], Partitions] = {}
        self._told = queue.punctuation
        """Members of hopping queries have been told of the boundaries below this."""

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: WindowMember) -> None:
        """Let a window in, with the rows that are there."""
        admit(self, member)
        node, rows = member.node, self._rows
        for column in node.columns:
            if column not in self._slots:
                self._slots[column] = len(self._slots)
                self._since[column] = self._come
                nulls = pa.nulls(rows.length, ARROW_TYPES[self._types[column]])
                rows = self._rows = Batch(rows.ts, [*rows.lazy_columns, nulls])
        if node.partition not in self._partitions:
            found = Partitions(node.partition, FOREVER if self._is_whole else 0)
            found.extend(rows, self._types, self._slots, 0)
            self._partitions[node.partition] = found
        member.first = max(self._since[column] for column in node.columns)
        if member.first or node.size > self._partitions[node.partition].depth:
            member.missing[0] = member.first

    def drop(self, member: WindowMember) -> None:
        self.members.remove(member)
        used = {one.node.partition for one in self.members}
        self._partitions = {key: one for key, one in self._partitions.items() if key in used}
        self._forget()

    def refresh(self) -> None:
        """Members are taken in as they come."""

    def _forget(self) -> None:
        """Drop the rows that are in no window."""
        asked: dict[tuple[tuple[int, ...], int, int], int] = {}
        for member in self.members:
            key = member.node.partition, self._known_to(member), self._first(member)
            asked[key] = max(asked.get(key, 0), member.node.size)
        needed = np.zeros(self._rows.length, bool)
        for (partition, end, first), size in asked.items():
            needed[first:] |= self._partitions[partition].displacing(size)[first:] >= end
        if needed.all():
            return
        self._is_whole = False
        for one in self._partitions.values():
            full = [
                member.node.size
                for member in self.members
                if member.node.partition == one.columns and member.missing[0] == BEGINNING
            ]
            one.depth = min(one.depth, max(full, default=0))
        kept = np.flatnonzero(needed)
        places, rows = pa.array(kept), self._rows
        self._rows = Batch(rows.ts[kept], [rows.column(i).take(places) for i in range(rows.width)])
        self._numbers = self._numbers[kept]
        for one in self._partitions.values():
            one.keep(kept)

    def _displacing(self, member: WindowMember) -> NDArray:
        """For each row the place of the one that displaces it from a member's window."""
        return self._partitions[member.node.partition].displacing(member.node.size)

    def _first(self, member: WindowMember) -> int:
        """The place of the first row that may be in a member's window."""
        return int(self._numbers.searchsorted(member.first))

    def _known_to(self, member: WindowMember) -> int:
        """The place of the first row that a member has not been told of, or is not to be told of alone, as
        the next boundary sees a whole window."""
        hops = member.node.hops
        if hops is None:
            return self._rows.length
        is_next = member.node.whole or not member.begun
        return self._place(hops.last(self._told - 1) + hops.size * is_next)

    def _place(self, ts: int) -> int:
        """The place of the first row after a time."""
        return int(self._rows.ts.searchsorted(ts, side="right"))

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self._take(batch)
        (queue,) = self.inputs
        come = min(queue.frontier, queue.punctuation)
        over = come + (queue.closed and not queue.batches)  # all rows below this have come
        ts = self._rows.ts
        until = hops_until(self.members, self._told, over, int(ts[0]) if len(ts) else None)
        told = self._tell_hops(until)
        if batch is not None or told:
            self._forget()
        moved = promise(self, min(come, until))
        return until < over or close(self) or moved or batch is not None

    def _take(self, batch: Batch) -> None:
        """Take rows in, and give all members what they change at once."""
        self.counters.rows_in += batch.length
        begin = self._rows.length
        new = Batch(batch.ts, [batch.column(column) for column in self._slots])
        self._rows = concatenate([self._rows, new]) if begin else new
        self._numbers = np.concatenate([self._numbers, np.arange(self._come, self._come + batch.length)])
        self._come += batch.length
        for one in self._partitions.values():
            one.extend(self._rows, self._types, self._slots, begin)
        views = self._views()
        found: dict[tuple[tuple[int, ...], int, int], Changes] = {}
        for member in self.members:
            if member.node.hops is None:
                key = member.node.partition, member.node.size, self._first(member)
                if key not in found:
                    by = self._displacing(member)
                    found[key] = displaced(by, self._rows.ts, begin, self._rows.length, key[2])
                self._give(member, views, *found[key])

    def _give(
        self, member: WindowMember, views: dict[int, View], ts: NDArray, sign: NDArray, rows: NDArray
    ) -> None:
        if len(ts):
            give(self, member, views, ts, sign, rows)

    def _tell_hops(self, until: int) -> bool:
        """Let members of hopping queries know of the boundaries below a time, of which all rows have come;
        False if there are none."""
        ts, views = self._rows.ts, self._views()
        told = False
        for member in self.members:
            hops = member.node.hops
            if hops is None or hops.last(until - 1) <= hops.last(self._told - 1) or not len(ts):
                continue
            by, first = self._displacing(member), self._first(member)
            if member.node.whole:
                self._show(member, hops, until, by, first)
            else:
                begin, end = self._known_to(member), self._place(hops.last(until - 1))
                at = np.maximum(hops.up(ts), member.since)
                self._give(member, views, *displaced(by, at, begin if member.begun else first, end, first))
            told = member.begun = True
        self._told = until
        return told

    def _show(self, member: WindowMember, hops: Hops, until: int, by: NDArray, first: int) -> None:
        """Give a member what is in its window at each boundary below a time."""
        views, last, places = self._views(), -1, NO_ROWS
        for boundary in boundaries_between(hops, self._told, until, int(self._rows.ts[0])):
            end = self._place(boundary)
            if end != last:
                last, places = end, np.flatnonzero(by[first:end] >= end) + first
            if len(places):
                columns = [Gather(views[column], places) for column in member.node.columns]
                batch = Batch(all_at(boundary, len(places)), columns)
                self.counters.rows_out += batch.length
                member.found += batch.length
                member.output.put(batch)

    # -- what is there ------------------------------------------------------------------------------

    def _views(self) -> dict[int, View]:
        """The stored columns as they are now."""
        return {column: ColumnView(self._rows, slot) for column, slot in self._slots.items()}

    def content(self, member: WindowMember) -> Batch:
        end, views = self._known_to(member), self._views()
        places = NO_ROWS
        if member.node.hops is None or member.begun:
            by, first = self._displacing(member), self._first(member)
            places = np.flatnonzero(by[first:end] >= end) + first
        now = max(self.output.punctuation, BEGINNING)
        return Batch(np.full(len(places), now), [Gather(views[one], places) for one in member.node.columns])

    @property
    def state_rows(self) -> int:
        return self._rows.length

    @property
    def state_bytes(self) -> int:
        rows = self._rows
        marks = sum(a.nbytes + b.nbytes for a, b in (one.marks for one in self._partitions.values()))
        return sum(rows.column(i).nbytes for i in range(rows.width)) + int(rows.ts.nbytes) + marks

    def _check(self) -> None:
        self._rows._check()
        assert len(self._numbers) == self._rows.length and bool((np.diff(self._numbers) > 0).all()), "numbers"
        for one in self._partitions.values():
            assert len(one.order) == len(one.marks[0]) == self._rows.length, "rows in no partition"
            assert np.array_equal(np.sort(one.order), np.arange(self._rows.length)), "a row in two partitions"


Changes = tuple[NDArray, NDArray, NDArray]
"""Times, signs and places of rows."""


def displaced(by: NDArray, at: NDArray, begin: int, end: int, first: int) -> Changes:
    """What the rows at places [begin, end) change in windows in which row i is displaced by row by[i].

    at: the instants of rows, whole from `begin` on; first: no row below it is in. At each instant what
    leaves comes before what enters.
    """
    by = np.minimum(by[:end], end)
    # 1. who leaves: not what was gone before, nor what comes and goes in one instant
    gone = np.flatnonzero((by >= begin) & (by < end))
    gone = gone[gone >= first]
    leaving = gone[(gone < begin) | (at[by[gone]] > at[gone])]
    # 2. who enters
    come = np.arange(max(begin, first), end)
    stays = by[come] == end
    stays[~stays] = at[by[come[~stays]]] > at[come[~stays]]
    entering = come[stays]
    # 3. in time order
    rows = np.concatenate([leaving, entering])
    times = np.concatenate([at[by[leaving]], at[entering]])
    sign = np.ones(len(rows), np.int8)
    sign[: len(leaving)] = -1
    order = np.argsort(times, kind="stable")
    return times[order], sign[order], rows[order]
