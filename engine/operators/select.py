"""Filter and projection in one pass: rows for which the predicate is true, as the output expressions.

In: rows.  Out: some of them, in the same order, with new columns.  Kept: nothing.
Time-messages pass through, also those merged into rows, which may be dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from ..batch import Batch
from ..errors import DataError
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
            if queue.merged:
                self.output.tell(queue.take_messages(int(batch.ts[0])))
            try:
                self._put(self._select(batch))
            except DataError:
                bad = first_bad_row(batch, self._select)
                self._put(self._select(batch.slice(0, bad)))
                self._pass_on_until(int(batch.ts[bad]) - 1)
                raise
            worked = True
        if (queue.messages or queue.merged) and not queue.batches:
            self.output.tell(queue.take_messages(queue.punctuation))
        return pass_time(self.inputs, self.output) or worked

    def _put(self, batch: Batch) -> None:
        self.counters.rows_out += batch.length
        self.output.put(batch)

    def _pass_on_until(self, now: int) -> None:
        """A row after `now` fails: the instants up to it are whole."""
        queue = self.inputs[0]
        times = queue.take_messages(now)
        if queue.messages and queue.piggyback:  # a later message stands for those up to now as well
            times.append(now)
        self.output.tell(times)
        self.output.promise(now)

    def _select(self, batch: Batch) -> Batch:
        if self._node.predicate is not None:
            rows = selected(evaluate_predicate(self._node.predicate, batch.column, batch.length))
            if len(rows) < batch.length:
                batch = batch.take(rows)
        if self._only_columns is not None:
            return batch.select(self._only_columns)
        if self._node.outputs is not None:
            columns = [evaluate(output, batch.column, batch.length) for output in self._node.outputs]
            return batch.with_columns(columns)
        return batch


def first_bad_row(batch: Batch, work: Callable[[Batch], object]) -> int:
    """Position of the first row that fails, by halving: what comes before it is part of the answer."""
    good, bad = 0, batch.length  # the first `good` rows do not fail, the first `bad` do
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            work(batch.slice(good, middle))
        except DataError:
            bad = middle
        else:
            good = middle
    return good
