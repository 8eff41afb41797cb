"""DISTINCT, UNION, INTERSECT [ALL] and EXCEPT [ALL] of whole answers at each hop.

In: one bag or two per hop.  Out: the rows of the answer, of each value as many as set_operation.py says.
Kept: no rows. The values of rows straight from a window are hashed once: their slots are kept by row number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.engine.changes.set_operation import KINDS
from penstock.engine.flow.queue import Queue
from penstock.engine.kernels.changes import set_operation as kinds
from penstock.engine.kernels.hopping.whole_set_operation import keep_copies
from penstock.engine.keys.key_slots import NO_SLOTS, KeySlots, SlotReader, tidy
from penstock.engine.plan.plan import SetOperationNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

from .whole_operator import WholeOperator, chunks, forget_left, next_hop


class WholeSetOperator(WholeOperator):
    """numbered: of each input, whether its batches come straight from a window."""

    def __init__(
        self,
        node: SetOperationNode,
        queues: tuple[Queue, ...],
        types: Sequence[SqlType],
        name: str,
        numbered: Sequence[bool],
    ) -> None:
        super().__init__(queues, name)
        self._node = node
        self._kind = KINDS[node.kind, node.all]
        self._slots = KeySlots()
        self._readers = [
            SlotReader(self._slots, types, range(len(types)), True, is_numbered) for is_numbered in numbered
        ]

    def next_hop(self, ts: int) -> int | None:
        return next_hop(self._node.whole, ts)

    def forget(self) -> None:
        forget_left(self._slots, self._readers, self._node.inputs)

    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        left = self._readers[0].read(taken[0], True)
        right = NO_SLOTS
        if len(taken) > 1:
            right = self._readers[1].read(taken[1], self._kind == kinds.UNION)
        counts = np.zeros((max(self._slots.used, 1), 3), np.int64)
        out = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
        found = keep_copies(self._kind, left, right, counts, *out)
        for batch, rows, count in zip(taken, out, found, strict=False):
            if batch is not None:
                for part in chunks(rows[:count]):
                    yield batch.take(part).as_of(ts)
        tidy(self._slots, self._readers)

    @property
    def state_rows(self) -> int:
        return sum(len(reader.kept) for reader in self._readers)

    @property
    def state_bytes(self) -> int:
        return self._slots.nbytes + sum(reader.kept.nbytes for reader in self._readers)

    def _check(self) -> None:
        self._slots._check()
