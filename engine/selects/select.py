"""Filter and projection in one pass: rows for which the predicate is true, as the output expressions.

In: rows.  Out: some of them, in the same order, with new columns.  Kept: nothing, as a rule.
Time-messages pass through, also those merged into rows, which may be dropped.

A row on which the condition or an output fails ends the query. But where rows are taken back within the
instant they came in, as those of an aggregate, it fails only if the row is there when the instant is over:
till then it is held back with what follows it, and what cancels is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.expressions.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.expressions.expression import Column
from penstock.engine.flow.operator import Counters, Stateless, pass_time_until
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.keys.net_changes import net_changes
from penstock.engine.plan.plan import SelectNode
from penstock.engine.plan.plan_parts import plan_types, takes_back
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.window import MAX_TS


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
            else tuple(output.index for output in outputs if isinstance(output, Column))
        )
        self._types = plan_types(node.input) if takes_back(node.input) else None
        self.held: Batch | None = None
        """Changes of an instant that is not over, the first of which would fail."""

    def give_to(self, output: Outlet) -> None:
        """What comes of it goes out there."""
        self.output = output

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            batch = queue.pop()
            quantum -= batch.length
            self.counters.took(batch.length)
            if queue.merged:
                self.output.tell(queue.take_messages(int(batch.ts[0])))
            self._pass_on(batch)
            worked = True
        if self.held is not None and not queue.batches and self._is_over(int(self.held.ts[0])):
            self._pass_on(self.held.slice(0, 0))
        if (queue.messages or queue.merged) and not queue.batches:
            self.output.tell(queue.take_messages(queue.punctuation))
        until = MAX_TS if self.held is None else int(self.held.ts[0])
        if queue.batches:  # as pass_worked_time does
            until = min(until, int(queue.batches[0].ts[0]) - 1)
        return pass_time_until(self.inputs, self.output, until) or worked

    def _pass_on(self, batch: Batch) -> None:
        if self.held is not None:
            batch, self.held = concatenate([self.held, batch]), None
            assert self._types is not None
            batch = net_changes(batch, self._types)
        try:
            self._put(self.apply(batch))
        except DataError:
            batch = self._up_to_bad_row(batch)
            if self._types is not None:
                batch = net_changes(batch, self._types)
                try:
                    self._put(self.apply(batch))
                except DataError:
                    batch = self._up_to_bad_row(batch)
                else:
                    return
                if batch.ts[0] == batch.ts[-1] and not self._is_over(int(batch.ts[0])):
                    self.held = batch
                    return
            self._pass_on_until(int(batch.ts[0]) - 1)
            raise

    def _up_to_bad_row(self, batch: Batch) -> Batch:
        """Pass on the rows before the first that fails; the rest."""
        bad = first_bad_row(batch, self.apply)
        self._put(self.apply(batch.slice(0, bad)))
        return batch.slice(bad, batch.length)

    def _is_over(self, ts: int) -> bool:
        """Whether no more changes of an instant can come."""
        queue = self.inputs[0]
        later = queue.batches[0].ts[0] if queue.batches else queue.punctuation
        return bool(later > ts) or (queue.closed and not queue.batches)

    def _put(self, batch: Batch) -> None:
        self.counters.gave(batch.length)
        self.output.put(batch)

    def _pass_on_until(self, now: int) -> None:
        """A row after `now` fails: the instants up to it are whole."""
        queue = self.inputs[0]
        self.output.tell(queue.take_messages(now))
        self.output.promise(now)

    @property
    def state_rows(self) -> int:
        return 0 if self.held is None else self.held.length

    def apply(self, batch: Batch) -> Batch:
        """What comes of these rows."""
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
