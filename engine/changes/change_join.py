"""A join of two inputs whose rows come and go: inner, outer, semi, anti.

In: changes of two bags, each in time order.  Out: changes of their join, in time order. A pair enters with
its younger row and leaves by itself with the row that leaves first, or is withdrawn with the one that is.
Kept: the live rows of both sides by key; for outer, semi and anti joins how many partners each has. If the
other side is of tables alone, which is at its end and none of whose rows will leave, rows of an inner join
are not kept. Dropped: a row when it is withdrawn or when it is known that its ets has come.

With `messages` it tells those after it when pairs have left: a row knows how many pairs will leave with it
(the reference count of the incremental-evaluation paper), or, if it is not kept, its ets is remembered. So is
that of a pair that was withdrawn before: who keeps pairs until they leave has both to forget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.flow.heard_time import HeardTime, Learning
from penstock.engine.flow.operator import Counters, pass_time, pass_worked_time
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue, bound_of, instants_of
from penstock.engine.flow.told_times import ToldTimes
from penstock.engine.kernels.changes.change_join import (
    CURSOR,
    DONE,
    INSIDE,
    IS_COUNTED,
    IS_STORED,
    LATER,
    MISSING,
    OPTIONS,
    PATIENCE,
    SIDE,
    SLOT,
    count_ends,
    run_join,
)
from penstock.engine.kernels.changes.matches import NEITHER, WITH, WITHOUT, settle
from penstock.engine.plan.plan import ChangeJoinNode, JoinKind
from penstock.engine.plan.tellable import reads_stream
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.batch import Batch, Gather, LazyColumn
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType
from penstock.engine.views.outer_view import OuterView

from .change_side import ChangeSide
from .match_counts import MatchCounts

CHUNK_ROWS = 32_768
PATIENCE_CHANGES = 512
EVERY_PAIR = np.arange(CHUNK_ROWS)  # read, never written

WANTED: dict[JoinKind, tuple[int, int]] = {
    "inner": (NEITHER, NEITHER),
    "left": (WITHOUT, NEITHER),
    "right": (NEITHER, WITHOUT),
    "full": (WITHOUT, WITHOUT),
    "semi": (WITH, NEITHER),
    "anti": (WITHOUT, NEITHER),
}
"""Which rows of each side are given by themselves."""


@dataclass(slots=True)
class Work:
    """Changes taken and not joined yet."""

    events: tuple[tuple[Any, ...], tuple[Any, ...]]
    known: int
    cursor: NDArray = field(default_factory=lambda: np.zeros(CURSOR, np.int64))


class ChangeJoin:
    """Two sides, one kernel; see there for the order of changes."""

    _owned: ClassVar[tuple[str, ...]] = ("_carried", "_carry", "_out")

    def __init__(
        self,
        node: ChangeJoinNode,
        queues: tuple[Queue, Queue],
        types: tuple[Sequence[SqlType], Sequence[SqlType]],
        name: str,
        learning: Learning,
        messages: bool = False,
    ) -> None:
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(queue.punctuation for queue in queues))
        self.counters = Counters()
        self._node = node
        self._wanted = WANTED[node.kind]
        self._is_counted = any(self._wanted)
        self._is_static = not reads_stream(node.left), not reads_stream(node.right)
        self._sides = tuple(
            ChangeSide(types[side], keys, self._wanted[side])
            for side, keys in enumerate((node.left_keys, node.right_keys))
        )
        self._known = HeardTime(learning, queues)
        self._told = ToldTimes() if messages and not self._is_counted else None
        self.meetings = MatchCounts()
        self._work: Work | None = None
        self._carried = np.array([0, BEGINNING])
        self._carry = np.empty(0, np.int64)
        self._out = (
            np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int8),
            np.empty((2, CHUNK_ROWS), np.int64), np.empty((2, CHUNK_ROWS), np.int64),
        )  # fmt: skip

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "_out")

    def step(self, quantum: int) -> bool:
        if self._work is None and not self._take(quantum):
            told = self._told is not None and self._tell(self._told.until(self._known.ts))
            pass_on = pass_time if self._node.instants else pass_worked_time
            return pass_on(self.inputs, self.output) or told
        self._run()
        return True

    def _take(self, quantum: int) -> bool:
        """Begin with what has come; False if there is nothing to do."""
        if self._node.kind == "inner":
            self._forget_partners_of_tables()
        instants = self._node.instants
        bound = (instants_of if instants else bound_of)(self.inputs, quantum)
        taken = [queue.take(bound, not instants) for queue in self.inputs]
        known = self._known.learn(bound, taken)
        if not any(taken) and min(side.bag.first_due for side in self._sides) > known:
            return False
        self.counters.took(sum(batch.length for batch in taken if batch is not None))
        self._try(taken)
        left, right = (side.events(batch) for side, batch in zip(self._sides, taken, strict=True))
        last = max((int(batch.ts[-1]) for batch in taken if batch is not None), default=known)
        self._work = Work((left, right), max(known, last))
        return True

    def _try(self, taken: Sequence[Batch | None]) -> None:
        """Count the pairs that these changes might make or end."""
        before = [len(side.bag) for side in self._sides]
        came = [0 if one is None else entering(one) for one in taken]
        went = [0 if one is None else one.length - new for one, new in zip(taken, came, strict=True)]
        after = [rows + new - old for rows, new, old in zip(before, came, went, strict=True)]
        self.meetings.try_changes((before[0], before[1]), (went[0], went[1]))
        self.meetings.try_changes((after[0], after[1]), (came[0], came[1]))

    def _forget_partners_of_tables(self) -> None:
        """A side of tables that is at its end and whose rows all stay asks for no partner again.

        Not so one of streams, when they end: what is there may still be asked for.
        """
        for number, side in enumerate(self._sides):
            queue, other = self.inputs[number], self._sides[1 - number]
            is_over = self._is_static[number] and queue.closed and not queue.batches and not side.bag.finite
            if is_over and side.is_stored and other.is_stored:
                if self._told is not None:
                    self._told.add(other.bag.counted_ends())
                other.forget()

    def _run(self) -> None:
        """A chunk of output."""
        work = self._work
        assert work is not None
        left, right = self._sides
        options = np.zeros(OPTIONS, np.int64)
        options[IS_STORED : IS_STORED + 2] = left.is_stored, right.is_stored
        options[IS_COUNTED : IS_COUNTED + 2] = [wanted != NEITHER for wanted in self._wanted]
        options[PATIENCE] = PATIENCE_CHANGES
        options[LATER] = self._is_counted or self._told is not None
        found = run_join(
            left.bag.arrays, right.bag.arrays, *work.events, work.known, options, work.cursor, self._out
        )
        assert work.cursor[MISSING] == 0, "a row is withdrawn that is not there"
        is_done = bool(work.cursor[DONE])
        try:
            if self._is_counted:
                self._put_counted(found, work)
            else:
                self._put_pairs(found, work.known if is_done else BEGINNING)
        finally:
            if is_done:
                self._work = None
                for side in self._sides:
                    side.tidy()

    def _columns(self, rows: NDArray, padded: bool) -> list[LazyColumn]:
        """Columns of pairs by the numbers of their rows."""
        columns: list[LazyColumn] = []
        for side, numbers in zip(self._sides, rows, strict=True):
            for view in side.views():
                columns.append(Gather(OuterView(view) if padded else view, numbers))
        return columns

    def _satisfying(self, pairs: Batch) -> tuple[NDArray, DataError | None, int]:
        """Positions of the pairs that satisfy the residual; if it fails, of those before, why, and where."""
        residual = self._node.residual
        if residual is None:
            return EVERY_PAIR[: pairs.length], None, pairs.length
        try:
            return selected(evaluate_predicate(residual, pairs.column, pairs.length)), None, pairs.length
        except DataError as error:
            good, bad, why = 0, pairs.length, error  # the first `good` pairs do not fail, the first `bad` do
            while bad - good > 1:
                middle = (good + bad) // 2
                part = pairs.slice(good, middle)
                try:
                    evaluate_predicate(residual, part.column, part.length)
                except DataError as earlier:
                    bad, why = middle, earlier
                else:
                    good = middle
            part = pairs.slice(0, good)
            return selected(evaluate_predicate(residual, part.column, good)), why, good

    def _put_pairs(self, found: int, known: int) -> None:
        """Pairs of an inner join, and the times of those that have left."""
        ts, ets, sign, rows = (array[..., :found].copy() for array in self._out[:4])
        pairs = Batch(ts, self._columns(rows, False), sign, ets)
        kept, error, good = self._satisfying(pairs)
        self.meetings.count(found, len(kept))
        if len(kept) < found:
            pairs = pairs.take(kept)
        times: list[int] = []
        if self._told is not None:
            times = self._times(pairs, kept, known)
        if pairs.length:
            pairs.simplify()
            self.counters.gave(pairs.length)
            first = bisect_right(times, int(pairs.ts[-1]))  # younger rows come after them
            self._tell(times[:first])
            self.output.put(pairs)
            times = times[first:]
        self._tell(times)
        if error is not None:
            self.output.promise(int(ts[good]) - 1)  # the instants before the failure are whole
            raise error

    def _times(self, pairs: Batch, kept: NDArray, known: int) -> list[int]:
        """When pairs have left, of what is known to have left since last time."""
        assert self._told is not None
        left, right = self._sides
        if left.is_stored and right.is_stored:
            counts = left.bag.counts, right.bag.counts
            count_ends(left.bag.arrays, right.bag.arrays, counts, self._out[2], self._out[4], kept)
            early = pairs.ends[pairs.signs < 0]
            if len(early):  # whoever keeps a pair until its end lets go of both then
                self._told.add(early)
        else:
            self._told.add(pairs.ends[pairs.signs > 0])
        return self._told.until(known, np.concatenate([left.bag.release(), right.bag.release()]))

    def _tell(self, times: list[int]) -> bool:
        if times:
            self.output.tell(times)
        return bool(times)

    def _put_counted(self, found: int, work: Work) -> None:
        """Pairs of an outer join and rows by themselves. If the residual fails: up to the instant before."""
        ts, _, sign, rows, slots = (array[..., :found].copy() for array in self._out)
        kept, error = np.ones(found, np.uint8), None
        held = -1
        if work.cursor[INSIDE] and self._wanted[work.cursor[SIDE]] != NEITHER:
            held = 2 * int(work.cursor[SLOT]) + int(work.cursor[SIDE])
        pair_places = np.flatnonzero(np.abs(sign) == 1)
        satisfied = len(pair_places)
        if self._node.residual is not None:
            pairs = Batch(ts[pair_places], self._columns(rows[:, pair_places], False))
            satisfying, error, good = self._satisfying(pairs)
            kept[pair_places] = 0
            kept[pair_places[satisfying]] = 1
            satisfied = len(satisfying)
            if error is not None:
                failed_at = int(ts[pair_places[good]])
                found = int(np.searchsorted(ts, failed_at))
                held = int(self._carry[0]) if len(self._carry) else -1
        self.meetings.count(len(pair_places), satisfied)
        row_numbers, row_slots = (np.ascontiguousarray(array[:, :found]) for array in (rows, slots))
        entries = ts[:found], sign[:found], row_numbers, row_slots
        self._give(self._settled(entries, kept[:found], held))
        for side in self._sides:
            side.bag.release()
        if error is not None:
            self.output.promise(failed_at - 1)
            raise error

    def _settled(self, entries: tuple[NDArray, ...], kept: NDArray, held: int) -> Batch:
        """The rows of the result."""
        room, carried = 3 * len(kept) + 1, len(self._carry)
        touched = np.empty(2 * len(kept) + 1 + carried, np.int64)
        touched[:carried] = self._carry
        out = np.empty(room, np.int64), np.empty(room, np.int8), np.empty((2, room), np.int64)
        left, right = ((side.bag.arrays[0], side.bag.counts, side.bag.marks) for side in self._sides)
        has_pairs = self._node.kind not in ("semi", "anti")
        sent = settle(left, right, self._wanted, entries, kept, has_pairs, held, self._carried, touched, out)
        self._carry = touched[: self._carried[0]].copy()
        ts, sign, rows = (array[..., :sent] for array in out)
        if has_pairs:
            return Batch(ts, self._columns(rows, True), sign)
        return Batch(ts, [Gather(view, rows[0]) for view in self._sides[0].views()], sign)

    def _give(self, batch: Batch) -> None:
        if batch.length:
            batch.simplify()
            self.counters.gave(batch.length)
            self.output.put(batch)

    @property
    def node(self) -> ChangeJoinNode:
        return self._node

    def contents(self) -> list[Batch | None]:
        """The rows of each side that are there, with their ends; None: they are not kept."""
        return [side.content() for side in self._sides]

    @property
    def state_rows(self) -> int:
        return sum(len(side.bag) for side in self._sides)

    @property
    def state_bytes(self) -> int:
        told = 0 if self._told is None else self._told.nbytes
        return sum(side.bag.nbytes for side in self._sides) + told

    def _check(self) -> None:
        if self._told is not None:
            self._told._check()
        if self._work is not None:
            return
        assert self._carried[0] == 0, "a row is still to be looked at"
        for side in self._sides:
            side.bag._check()
            if side.bag.finite:
                assert int(side.bag.ends().min()) > self._known.ts, "a row is kept beyond its end"
            if side.wanted:
                side.check_given()

    def _check_restored(self) -> None:
        if self._work is not None:  # it failed in the midst of that, and gets no turns any more
            self._work, self._carry = None, np.empty(0, np.int64)
            self._carried[:] = 0
        expect([one.shape[-1] for one in self._out] == [CHUNK_ROWS] * 5, "room for pairs")
        expect(len(self._sides) == 2 and len(self._carried) == 2, "two sides")
        expect(int(self._carried[0]) == len(self._carry), "rows to be looked at")
        expect(not len(self._carry), "no rows to be looked at")
        expect(
            self._wanted == WANTED[self._node.kind] and self._is_counted == any(self._wanted),
            "a kind of join",
        )
        for side, keys in zip(self._sides, (self._node.left_keys, self._node.right_keys), strict=True):
            expect(side.keys == keys, "keys of the plan")


def entering(batch: Batch) -> int:
    """Rows that come."""
    return batch.length if batch.sign is None else int(np.count_nonzero(batch.sign > 0))
