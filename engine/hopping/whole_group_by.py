"""GROUP BY of whole answers at each hop.

In: a bag per hop; without keys also a tick per hop, so that there is a row even if nothing came.  Out: a row
per group and hop.  Kept: nothing from hop to hop: the groups of a hop are made anew by the same code that
keeps them up to date elsewhere (group_by.py), fed with all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.engine.changes.group_by import GroupBy
from penstock.engine.flow.queue import Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.plan.plan import AggregateNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

from .whole_operator import WholeOperator


class WholeGroupBy(WholeOperator):
    """Groups the rows of each hop."""

    def __init__(
        self, node: AggregateNode, queues: tuple[Queue, ...], types: Sequence[SqlType], name: str
    ) -> None:
        super().__init__(queues, name)
        self._rows, self._groups = Queue(), Queue()
        self._single = node.keys == 0
        self._inner = GroupBy(replace(node, withdrawn=False), self._rows, types, name, "promises")
        self._inner.output.queues.append(self._groups)

    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        if taken[0] is not None:
            self._rows.put(Batch(taken[0].ts, taken[0].lazy_columns))
        self._rows.promise(ts)
        last: Batch | None = None
        while self._inner.step(QUANTUM_ROWS):
            while self._groups.batches:
                batch = self._groups.pop()
                if self._single:
                    last = batch
                else:
                    assert batch.sign is None or bool((batch.sign > 0).all()), "a group is given twice"
                    yield batch.without_signs()
        if last is not None:  # the one without rows came first, and was taken back
            yield last.slice(last.length - 1, last.length).without_signs().as_of(ts)
        self._inner.forget()

    @property
    def state_bytes(self) -> int:
        return self._inner.state_bytes

    def _check(self) -> None:
        self._inner._check()
