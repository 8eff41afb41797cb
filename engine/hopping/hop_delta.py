"""What has changed in a whole answer from one hop to the next.

In: at each hop the whole bag, and ticks if hops at which nothing changes are left out.  Out: at each hop -1
for rows that are no longer in it, +1 for new ones.  Kept: the bag of the hop before.  Dropped: when the next
has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import Queue
from penstock.engine.kernels.hopping.whole_set_operation import compare_rows
from penstock.engine.keys.key_slots import MIN_SLOTS, NO_SLOTS, KeySlots, SlotReader
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

from .whole_operator import CHUNK_ROWS, WholeOperator


class HopDelta(WholeOperator):
    """Compares each answer with the one before."""

    def __init__(self, queues: Sequence[Queue], types: Sequence[SqlType], name: str, hops: Hops) -> None:
        super().__init__(queues, name)
        self._hops = hops
        self._slots = KeySlots()
        self._reader = SlotReader(self._slots, types, range(len(types)), True, False)
        self._before: Batch | None = None
        self._before_slots = NO_SLOTS

    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        before, after = self._before, taken[0]
        before_slots, after_slots = self._before_slots, self._reader.read(after, True)
        counts = np.zeros(max(self._slots.used, 1), np.int64)
        gone, new = np.empty(len(before_slots), np.int64), np.empty(len(after_slots), np.int64)
        left, come = compare_rows(before_slots, after_slots, counts, gone, new)
        self._keep(after, after_slots)
        if len(self.inputs) == 1:  # else a tick says when there are no rows
            self.due = ts + self._hops.size if after is not None else FOREVER
        parts = [] if before is None else [signed(before.take(gone[:left]), ts, -1)]
        parts += [] if after is None else [signed(after.take(new[:come]), ts, 1)]
        changes = [part for part in parts if part.length]
        if changes:
            whole = concatenate(changes)
            for start in range(0, whole.length, CHUNK_ROWS):
                yield whole.slice(start, min(start + CHUNK_ROWS, whole.length))

    def _keep(self, batch: Batch | None, slots: NDArray) -> None:
        if batch is None:
            self._slots.clear()
        elif self._slots.used > max(MIN_SLOTS, 4 * len(slots)):
            self._slots.keep_only([slots])
        self._before, self._before_slots = batch, slots

    def content(self) -> Batch | None:
        """The answer that changes follow on."""
        return self._before

    @property
    def state_rows(self) -> int:
        return len(self._before_slots)

    @property
    def state_bytes(self) -> int:
        batch = self._before
        values = 0 if batch is None else sum(batch.column(i).nbytes for i in range(batch.width))
        return values + self._slots.nbytes + int(self._before_slots.nbytes)

    def _check(self) -> None:
        self._slots._check()
        rows = 0 if self._before is None else self._before.length
        assert rows == len(self._before_slots), "rows and their slots differ"

    def _check_restored(self) -> None:
        expect(
            self.due >= self.output.punctuation, "a hop that is not over"
        )  # or all since then would follow
        rows = 0 if self._before is None else self._before.length
        expect(rows == len(self._before_slots), "a slot for each row")
        within(self._before_slots, 0, self._slots.used, "slots of rows")


def signed(batch: Batch, ts: int, sign: int) -> Batch:
    """The same rows entering or leaving at a hop."""
    times, signs = np.full(batch.length, ts, np.int64), np.full(batch.length, sign, np.int8)
    return Batch(times, batch.lazy_columns, signs)
