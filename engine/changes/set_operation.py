"""DISTINCT, UNION, INTERSECT [ALL] and EXCEPT [ALL]: rows by how often they come.

In: changes of one bag or two, n and m copies of a row.  Out: per instant, as many -1 or +1 of a row as the
answer has fewer or more of it now.  Kept: each distinct row once, with n and m, and an entry per row that
will leave by itself.  Dropped: an entry when it is due, a row when there is no copy of it on either side.

    distinct  n > 0     union  n + m > 0     intersect  n > 0 and m > 0     except  n > 0 and m = 0
                                             intersect all  min(n, m)       except all  max(0, n - m)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.heard_time import HeardTime, Learning
from penstock.engine.flow.operator import Counters, pass_time_until
from penstock.engine.flow.queue import Outlet, Queue, bound_of
from penstock.engine.kernels.changes import set_operation as kernels
from penstock.engine.plan.plan import SetOperationNode
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.types import SqlType

from .argument import Argument, grown
from .group_by import BURST_BYTES
from .group_table import MAX_EVENTS, MAX_POINTS, NO_INTS, Changes, GroupTable

KINDS = {
    ("distinct", False): kernels.DISTINCT,
    ("union", False): kernels.UNION,
    ("intersect", False): kernels.INTERSECT,
    ("intersect", True): kernels.INTERSECT_ALL,
    ("except", False): kernels.EXCEPT,
    ("except", True): kernels.EXCEPT_ALL,
}
MAX_ROWS = MAX_EVENTS


class SetOperator:
    """Takes what all inputs promise, in time order."""

    _owned: ClassVar[tuple[str, ...]] = ("_counts", "_said", "_target")

    def __init__(
        self,
        node: SetOperationNode,
        queues: tuple[Queue, ...],
        types: Sequence[SqlType],
        name: str,
        learning: Learning,
    ) -> None:
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(queue.punctuation for queue in queues))
        self.counters = Counters()
        self._kind = KINDS[node.kind, node.all]
        self._known = HeardTime(learning, queues)
        self._types = tuple(types)
        self._forget()

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "_target")

    def _forget(self) -> None:
        """Begin with nothing in mind."""
        self._groups = GroupTable(self._types)
        self._side = Argument(0, SqlType.BIGINT)
        self._counts = np.zeros((0, 2), np.int64)
        self._said = np.zeros(0, np.int64)
        self._target = np.empty(MAX_POINTS, np.int64)
        self._changes: Changes | None = None
        self._at_point = 0

    def step(self, quantum: int) -> bool:
        worked = goes_on = not self._is_done
        if self._is_done:
            bound = bound_of(self.inputs, quantum)
            taken = [queue.take(bound, True) for queue in self.inputs]
            known = self._known.learn(bound, taken)
            worked = any(batch is not None for batch in taken)
            self._begin(taken, known)
        if not self._is_done:
            self._run()
            worked = True
        if not self._is_done:
            return True
        if worked and not self.state_rows and self.state_bytes > BURST_BYTES:
            self._forget()  # a burst is over: give its memory back
        if goes_on:
            return True  # time may have come further meanwhile: what leaves until then comes first
        return pass_time_until(self.inputs, self.output, self._groups.expiry.first) or worked

    @property
    def _is_done(self) -> bool:
        return self._groups.is_done and self._changes is None

    def _begin(self, taken: Sequence[Batch | None], known: int) -> None:
        there = [batch for batch in taken if batch is not None]
        batch = concatenate(there) if there else None
        side: NDArray = NO_INTS
        if batch is not None and len(taken) > 1:
            side = np.repeat(np.arange(2), [0 if one is None else one.length for one in taken])
            if len(there) > 1:
                order = np.argsort(batch.ts, kind="stable")
                batch, side = batch.take(order), side[order]
        self._side.begin_with(side)
        self._groups.begin(batch, known)
        if batch is not None:
            self.counters.took(batch.length)

    def _run(self) -> None:
        groups = self._groups
        # 1. how many copies there should be
        if self._changes is None:
            changes = self._changes = groups.run()
            self._at_point = 0
            if len(self._said) < groups.capacity:
                self._counts, self._said = (
                    grown(self._counts, groups.capacity),
                    grown(self._said, groups.capacity),
                )
            side = NO_INTS
            if len(self.inputs) > 1:
                self._side.run(changes, groups.entries)
                side = self._side.codes[0]
            kernels.run_set_operation(
                changes.slot, changes.sign, side, changes.count, changes.point_slot, changes.point_until,
                changes.points, self._counts, self._kind, self._target,
            )  # fmt: skip
        # 2. what that changes
        changes = self._changes
        ts, sign, key = (np.empty(MAX_ROWS, t) for t in (np.int64, np.int8, np.int64))
        self._at_point, count = kernels.tell_copies(
            changes.point_ts, changes.point_slot, changes.point_key, self._at_point, changes.points,
            self._target, self._said, ts, sign, key,
        )  # fmt: skip
        if count:
            self.counters.gave(count)
            self.output.put(Batch(ts[:count], groups.keys(key[:count]), sign[:count]))
        if self._at_point == changes.points:
            self._changes = None
            groups.compact()

    def content(self) -> Batch:
        """What it has said: each row as often as the answer has it."""
        slots = np.flatnonzero(self._said)
        rows = np.repeat(self._groups.key_rows(slots), self._said[slots])
        return Batch(np.zeros(len(rows), np.int64), self._groups.keys(rows))

    @property
    def answer_rows(self) -> int:
        """Rows of its answer, each as often as it is there."""
        return int(self._said.sum())

    @property
    def state_rows(self) -> int:
        return len(self._groups.expiry) + self._groups.live

    @property
    def state_bytes(self) -> int:
        return self._groups.nbytes + self._side.nbytes + int(self._counts.nbytes + self._said.nbytes)

    def _check(self) -> None:
        self._groups._check()
        if self._is_done:
            assert bool(np.all(self._counts >= 0)), "fewer than no rows"
            if not self._groups.live:
                assert not self._counts.any() and not self._said.any(), "counts of rows that are gone"

    def _check_restored(self) -> None:
        self._changes = None  # if there are any, it failed in the midst of them, and gets no turns any more
        slots = len(self._said)
        expect(self._counts.shape == (slots, 2) and len(self._target) == MAX_POINTS, "counts of groups")
        within(self._said, 0, 1 << 40, "copies of rows")
        kept = self._side._kept[0]
        within(kept[self._side._kept_valid[0] != 0], 0, 2, "inputs")
        for codes in self._side.row_codes:
            within(codes, 0, 2, "inputs")
        expect(self._kind in KINDS.values(), "a kind of set operation")
