"""The rows of a stream, kept once for all windows over it; a join that queries share has its own.

In:      rows of the stream.
Out:     to each member, which is a window and for RANGE windows a filter, +1 for a row that enters it and -1
         when it leaves: the columns that it asked for, as references to the rows that are kept.
Kept:    each row some member needs, once, whatever kinds of windows need it (see stream_rows.py).
Dropped: when it has left the last window that it was in.

    RANGE 5     +a at 3, -a at 8
    RANGE 9     +a at 3,            -a at 12
    ROWS 2      +a at 3,                  -a at 14         two rows come at 14: a is dropped then

Every condition is looked at once per row, when it comes; what the row satisfies is kept with it, and who lets
it go is known from that. RANGE windows are told at once (range_changes.py), ROWS windows of instants that are
over (rows_changes.py).

A member that comes later is given what is there of its rows (`content`), whoever kept them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.heard_time import HeardTime
from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue, bound_of
from penstock.engine.indexes.build import NO_INDEX
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.roster import Roster
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import MAX_TS
from penstock.engine.shelves.coverage import note_coverage
from penstock.engine.shelves.member_index import index_members
from penstock.engine.shelves.next_rows import Fault, next_rows
from penstock.engine.shelves.stored_side import rearrange

from .partition_changes import PartitionChanges
from .range_changes import RangeChanges
from .rows_changes import RowsChanges
from .stream_rows import StreamRows
from .window_lanes import few_ends
from .window_member import WindowMember

STEP_ROWS = 32_768
MOST_SHELVES = 8  # lifetimes in time


class WindowStore:
    """One for each stream."""

    def __init__(
        self,
        stream: str,
        types: Sequence[SqlType],
        queue: Queue,
        is_late: bool,
        on_failure: Callable[[WindowMember, Exception], None],
    ) -> None:
        """is_late: rows of the stream have come before. `on_failure` is told of a member whose predicate
        failed on the data."""
        self.name = f"window {stream}"
        self.stream = stream
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self.members: list[WindowMember] = []
        self._is_late = is_late
        self._on_failure = on_failure
        self._kept = StreamRows(stream, types, queue, self.counters)
        self._side = self._kept.side
        self._ranges = RangeChanges(self._kept, queue.punctuation)
        self._rows = RowsChanges(self._kept, queue.punctuation)
        self._partitions = PartitionChanges(self._kept, queue.punctuation)
        self._roster = Roster.of(())
        self._is_stale = False
        self._known = HeardTime("promises", self.inputs)
        self._faults: list[Fault] = []
        """What fails on the rows after those being worked."""

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: WindowMember) -> None:
        """Let a window in, when nothing is being worked: it can be given what is there at once."""
        assert not self.is_working, "a window would miss what is on its way"
        self.members.append(member)
        member.begin(self.output.punctuation, self.output.closed)
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
        return self._ranges.entered < len(self._side.arrival.ts) or self._ranges.told < self._known.ts

    def refresh(self) -> None:
        """Take changes of the members into account: what they miss is known then. Between batches only."""
        if not self._is_stale or self._is_unfinished or not self.members:
            return
        self._is_stale = False
        side = self._side
        side.forget_batch()
        self._ranges.entered = 0
        roster = self._roster = self._roster.after(self.members)
        by_rows = np.array([member.by_rows[0] for member in self.members])
        ranges = roster.take(~by_rows)
        new = [member for member in self.members if member.is_new]
        # 1. how rows are kept
        is_back = bool(new) and self._kept.apart.put_back(side, self._partitions.places)
        layout = JoinLayout(
            (NO_INDEX, NO_INDEX),
            (few_ends(ranges.sizes[0], MOST_SHELVES), None),
            is_numbered=True,
            keeps_all=bool(by_rows.any()),
        )
        in_time = replace(roster, sizes=np.where(by_rows, 0, roster.sizes))
        must_move = side.prepare(in_time, new, layout)
        side.file_by(index_members(ranges, (side,)))
        if must_move or is_back:
            rearrange(side)
        # 2. what newcomers find
        failed = [member.missing[0] for member in new]
        note_coverage(roster, (side,), self._ranges.told)
        for member, last in zip(new, failed, strict=True):
            self._find_rows(member, last)
        # 3. who is told
        self._ranges.refresh(ranges)
        self._rows.refresh([one for one in self.members if one.by_rows[0] and not one.node.partition])
        self._partitions.refresh([one for one in self.members if one.node.partition])
        self._forget()

    def _find_rows(self, member: WindowMember, failed: int) -> None:
        """Settle which rows a new member has, and whether they are all it would have.

        failed: the last row on which what it asks fails, if that is known of some.
        """
        kept, size, missing = self._kept, member.node.size, member.missing[0]
        if not member.by_rows[0]:
            if missing + size > self._ranges.told:
                member.missing[0] = max(failed, min(missing, self._missing_of(member)))
            return
        member.first = max(0, missing + 1)
        if missing == BEGINNING:
            return
        if member.node.partition or kept.come - member.first < size:
            member.first = min(member.first, kept.whole_from(member.born[0]))
            member.missing[0] = member.first - 1
        is_whole = not member.first and not self._is_late
        if member.node.partition:
            if is_whole or self._has_partitions(member):
                member.first, member.missing[0] = 0, BEGINNING
        elif is_whole:
            member.missing[0] = BEGINNING
        elif kept.come - member.first >= size:  # when the instant is over that it begins in
            member.filled[0] = member.started[0]
        else:
            return
        self._side.wait_no_more(member)

    def _missing_of(self, member: WindowMember) -> int:
        """The ts up to which rows of a RANGE window may be missing, from what there is of all rows."""
        kept = self._kept
        first = kept.whole_from(member.born[0])
        if first == kept.come:
            return MAX_TS
        if not first and not self._is_late:
            return BEGINNING
        return int(kept.times_between(first, first + 1)[0])  # some of that instant may be missing

    def _has_partitions(self, member: WindowMember) -> bool:
        """Whether another has kept as many rows of each partition, with all columns."""
        return self._side.kept.oldest_birth >= member.born[0] and any(
            one.node.partition == member.node.partition
            and one.node.size >= member.node.size
            and one.missing[0] == BEGINNING
            for one in self._partitions.members
            if one in self.members
        )

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        self.refresh()
        worked = self._is_unfinished or self._take(min(quantum, STEP_ROWS))
        if self._is_unfinished:
            # 1. how far  2. who is told what  3. drop
            until = self._ranges.bound(self._known.ts, len(self.members))
            until = self._partitions.bound(self._rows.bound(until))
            self._ranges.tell(until)
            self._tell_rows(until)
            self._forget()
        if self._is_unfinished:
            self._promise(self._ranges.told)
            return True
        moved = self._pass_time()
        return self._report_faults() or moved or worked

    def _take(self, rows: int) -> bool:
        """Take the next rows and hear how far time has come; False if neither is new."""
        queue = self.inputs[0]
        bound = bound_of(self.inputs, rows)
        (examined, *_), self._faults = next_rows((self._side,), self.inputs, False, rows)
        self._kept.arrive(examined)
        self._ranges.entered = 0
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

    def _tell_rows(self, until: int) -> None:
        """Tell ROWS windows, of the stream or of partitions, of the instants below a time, which are over."""
        begin, end = self._kept.pass_instants(until)
        self._rows.tell(begin, end, until)
        self._partitions.tell(begin, end, until)

    def _forget(self) -> None:
        """Drop the rows that are in no window."""
        self._rows.forget()
        let_go = self._partitions.forget()
        firsts = [one.first for one in self._rows.members]
        if self._partitions.members:
            firsts.append(self._kept.over)
        self._kept.forget(self._ranges.told, firsts, self._partitions.are_needed, let_go)

    # -- time ---------------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        """Promise as far as the input has come; False if that is no further than before."""
        (queue,), side = self.inputs, self._side
        is_end = queue.closed and not queue.batches and not self.output.closed
        if is_end:
            self._tell_rows(queue.punctuation + 1)
            for teller in (self._ranges, self._rows, self._partitions):
                teller.tell_last(queue.punctuation)
        now = min(self._ranges.told, queue.frontier - bool(self._faults), queue.punctuation)
        moved = self._promise(now)
        if moved and side.has_filled_up(self.members):
            self._is_stale = True
        if is_end:
            self.output.close()
            for member in self.members:
                member.close(queue.punctuation)
        return is_end or moved

    def _promise(self, now: int) -> bool:
        """Let all know that nothing before `now` follows; False if they know."""
        if now <= self.output.punctuation:
            return False
        self.output.promise(now)
        for member in self.members:
            member.promise(now)
        return True

    # -- what is there ------------------------------------------------------------------------------

    def content(self, member: WindowMember) -> Batch:
        """The rows that are in a member's window now, as if they came now, announced as it asks for."""
        refs = self.refs_of(member)
        if member.by_rows[0]:
            return self._kept.content(member, refs, max(self.output.punctuation, BEGINNING))
        ends = self._ranges.rows_of(member)[1] if member.node.announced else None
        return self._kept.content(member, refs, self._ranges.told, ends)

    def refs_of(self, member: WindowMember) -> NDArray:
        """References to the rows that are in a member's window now."""
        self.refresh()
        if member.node.partition:
            return self._partitions.rows_of(member)
        return self._rows.rows_of(member) if member.by_rows[0] else self._ranges.rows_of(member)[0]

    @property
    def state_rows(self) -> int:
        self.refresh()
        return len(self._kept)

    @property
    def state_bytes(self) -> int:
        return self._kept.nbytes + self._partitions.nbytes

    def _check(self) -> None:
        self.refresh()
        self._kept._check()
        self._partitions._check()
        told = self._ranges.told
        assert told <= max(self._known.ts, self.output.punctuation, MAX_TS), "told of what is to come"
