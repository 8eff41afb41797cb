"""Whoever reads whole answers works a hop when all of it has come, and not before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.flow.queue import Queue
from penstock.engine.hopping.whole_operator import WholeOperator
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.window import FOREVER


class Counted(WholeOperator):
    """Answers each hop with how many rows it has."""

    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        rows = sum(batch.length for batch in taken if batch is not None)
        self.due = FOREVER
        yield Batch(np.array([ts]), [pa.array([rows])])

    @property
    def state_bytes(self) -> int:
        return 0


def counted(queues: int) -> tuple[Counted, Queue]:
    operator, out = Counted([Queue() for _ in range(queues)], "whole"), Queue()
    operator.output.queues.append(out)
    return operator, out


def work(operator: Counted, out: Queue) -> list[tuple[int, int]]:
    while operator.step(100):
        pass
    found = [(int(batch.ts[0]), batch.column(0)[0].as_py()) for batch in out.batches]
    out.clear()
    return found


def rows_at(*ts: int) -> Batch:
    return Batch(np.array(ts), [pa.array(ts)])


def test_a_hop_is_whole_when_all_inputs_are_beyond_it() -> None:
    operator, out = counted(2)
    left, right = operator.inputs
    left.put(rows_at(5, 5))
    left.promise(6)
    right.promise(5)
    assert work(operator, out) == []
    right.put(rows_at(5))
    assert work(operator, out) == []
    right.promise(6)
    assert work(operator, out) == [(5, 3)]


def test_a_hop_that_is_due_is_whole_when_all_inputs_are_beyond_it() -> None:
    """A promise of the hop itself says nothing of its rows."""
    operator, out = counted(2)
    operator.due = 5
    for queue in operator.inputs:
        queue.promise(5)
    assert work(operator, out) == []
    operator.inputs[0].put(rows_at(5))
    for queue in operator.inputs:
        queue.promise(6)
    assert work(operator, out) == [(5, 1)]
