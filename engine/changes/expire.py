"""Rows that leave by themselves become rows that are withdrawn: EXPIRE of the negative-tuples approach.

In: rows, some with an ets.  Out: the same without ets, and for each with a finite one a -1 at that time; in
time order, at one ts what is due before what comes.  Kept: rows with a finite ets until they are due or
withdrawn early; as long as no such row is withdrawn, nothing is looked up.
If it knows of less time than its input has come, it promises no more than the first row to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.heard_time import HeardTime, Learning
from penstock.engine.flow.operator import Counters, pass_worked_time
from penstock.engine.flow.queue import Outlet, Queue, bound_of
from penstock.engine.kernels.changes.expire import DONE, MISSING, SLOTS, run_expire
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.plan.plan import ExpireNode
from penstock.engine.rows.batch import Batch, Gather
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

from .bag import Bag

CHUNK_ROWS = 32_768
NOTHING = np.empty(0, np.int64)


class Expire:
    """One input, rows in time order out, each followed by its end."""

    def __init__(
        self, node: ExpireNode, queue: Queue, types: Sequence[SqlType], name: str, learning: Learning
    ) -> None:
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self._node = node
        self._types = tuple(types)
        self._known = HeardTime(learning, self.inputs)
        self._bag = Bag(types, (), linked=False)
        self._work: _Work | None = None

    def step(self, quantum: int) -> bool:
        worked = self._work is not None or self._take(quantum)
        if worked:
            self._run()
        return worked or pass_worked_time(self.inputs, self.output, self._bag.first_due)

    def _take(self, quantum: int) -> bool:
        """Begin with what has come; False if there is nothing to do."""
        bound = bound_of(self.inputs, quantum)
        batch = self.inputs[0].take(bound, True)
        known = self._known.learn(bound, [batch])
        if batch is None:
            if self._bag.first_due > known:
                return False
            self._work = _Work(NOTHING, np.empty(0, np.int8), NOTHING, (NOTHING, NOTHING), 0, known)
            return True
        self.counters.took(batch.length)
        arrays = [batch.column(i) for i in range(batch.width)]
        signs, ends = batch.signs, batch.ends
        may_withdraw = batch.sign is not None and batch.ets is not None
        if may_withdraw and not self._bag.linked and bool(np.any((signs < 0) & (ends != FOREVER))):
            self._link()
        keys = NOTHING, NOTHING
        if self._bag.linked:
            keys = fingerprint(arrays, self._types, batch.length, [ends])
        first = self._bag.append(batch.ts, arrays)
        self._work = _Work(batch.ts, signs, ends, keys, first, known)
        return True

    def _link(self) -> None:
        """The first row is withdrawn early: from now on rows can be found."""
        ends = self._bag.ends()
        self._bag.link_all(fingerprint(self._bag.values(), self._types, len(ends), [ends]))

    def _run(self) -> None:
        """A chunk of output."""
        work = self._work
        assert work is not None
        ts, rows = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int64)
        sign = np.empty(CHUNK_ROWS, np.int8)
        found = run_expire(
            self._bag.arrays, work.ts, work.sign, work.ets, *work.keys, work.first, work.known,
            work.cursor, (ts, sign, rows),
        )  # fmt: skip
        assert work.cursor[MISSING] == 0, "a row is withdrawn that is not there"
        if found:
            ts, rows, sign = ts[:found], rows[:found], sign[:found]
            columns = [Gather(view, rows) for view in self._bag.views()]
            self.counters.gave(found)
            self.output.put(Batch(ts, columns, None if sign.min() > 0 else sign))
        if work.cursor[DONE]:
            self._work = None
            self._bag.tidy()

    def content(self) -> Batch:
        """The rows that it will withdraw, as it has passed them on; the others it has forgotten."""
        return Batch(self._bag.ends(), self._bag.values())

    def kept(self) -> Batch:
        """The same with their ends."""
        ends = self._bag.ends()
        return Batch(ends, self._bag.values(), None, ends)

    @property
    def state_rows(self) -> int:
        return len(self._bag)

    @property
    def state_bytes(self) -> int:
        return self._bag.nbytes

    def _check_restored(self) -> None:
        self._work = None  # if there is any, it failed in the midst of that, and gets no turns any more

    def _check(self) -> None:
        self._bag._check()
        if self._work is None and self._bag.finite:
            assert int(self._bag.ends().min()) > self._known.ts, "a row is kept beyond its end"


class _Work:
    """Rows taken and not done with."""

    __slots__ = ("cursor", "ets", "first", "keys", "known", "sign", "ts")

    def __init__(
        self, ts: NDArray, sign: NDArray, ets: NDArray, keys: tuple[NDArray, NDArray], first: int, known: int
    ) -> None:
        self.ts, self.sign, self.ets, self.keys = ts, sign, ets, keys
        self.first, self.known = first, known
        self.cursor = np.zeros(SLOTS, np.int64)
