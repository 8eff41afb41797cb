"""Filter and projection in one pass: rows for which the predicate is true, as the output expressions.

In: rows.  Out: some of them, in the same order, with new columns.  Kept: nothing.
"""

from __future__ import annotations

from ..batch import Batch
from ..evaluate import evaluate, evaluate_predicate, selected
from ..expression import Column
from ..operator import Counters, Stateless, pass_time
from ..plan import SelectNode
from ..queue import Outlet, Queue


class Select(Stateless):
    """Stateless: what comes in goes out at once."""

    def __init__(self, node: SelectNode, queue: Queue, name: str) -> None:
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self._node = node
        outputs = node.outputs
        self._only_columns = (
            None
            if outputs is None or not all(isinstance(output, Column) for output in outputs)
            else [output.index for output in outputs if isinstance(output, Column)]
        )

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            batch = queue.pop()
            quantum -= batch.length
            self.counters.rows_in += batch.length
            batch = self._select(batch)
            self.counters.rows_out += batch.length
            self.output.put(batch)
            worked = True
        return pass_time(self.inputs, self.output) or worked

    def _select(self, batch: Batch) -> Batch:
        if self._node.predicate is not None:
            rows = selected(evaluate_predicate(self._node.predicate, batch.column, batch.length))
            if len(rows) < batch.length:
                batch = batch.take(rows)
        if self._only_columns is not None:
            return batch.select(self._only_columns)
        if self._node.outputs is not None:
            columns = [evaluate(output, batch.column, batch.length) for output in self._node.outputs]
            return Batch(batch.ts, columns)
        return batch
