"""The next rows of all inputs of a join, up to where something fails on them.

A predicate or a key that fails on the data (an overflow, a bad cast) ends the queries that ask for it at the
instant of the first row on which it does: all that is older is answered, wherever batches were cut, and rows
from then on wait until these queries have gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.expressions.expression import Expression
from penstock.engine.flow.queue import Queue, bound_of, instants_of
from penstock.engine.members.member import Member
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError

from .examined import Examined
from .side import Side


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails: a predicate on a side, or (None) what all have in common."""

    side: int
    predicate: Expression | None
    error: DataError

    def concerns(self, member: Member) -> bool:
        return self.predicate is None or member.predicates[self.side] == self.predicate


def next_rows(
    sides: Sequence[Side], inputs: Sequence[Queue], instants: bool, rows: int, is_first: bool = False
) -> tuple[list[Examined | None], list[Fault]]:
    """About `rows` rows of each input that all have reached, and what fails right after them.

    is_first: not many more than `rows`, even if that means cutting a batch.
    """
    bound = (instants_of if instants else bound_of)(inputs, rows)
    last = bound - 1 if instants else bound
    if all(not queue.batches or queue.batches[0].ts[0] > last for queue in inputs):
        return [None] * len(sides), []
    if is_first and not instants:
        heads = [queue.batches[0] for queue in inputs if queue.batches]
        bound = min([bound, *(int(head.ts[min(rows, head.length) - 1]) for head in heads)])
    taken = [queue.take(bound, not instants) for queue in inputs]
    examined = examine(sides, taken)
    failures = [
        (int(one.batch.ts[failure.row]), side.number, failure)
        for side, one in zip(sides, examined, strict=True)
        if one is not None
        for failure in one.failures
    ]
    if not failures:
        return examined, []
    first = min(ts for ts, _, _ in failures)
    before: list[Batch | None] = []
    for queue, batch in zip(inputs, taken, strict=True):
        stop = 0 if batch is None else int(batch.ts.searchsorted(first))
        if batch is not None:
            queue.put_back(batch.slice(stop, batch.length))
        before.append(batch.slice(0, stop) if batch is not None and stop else None)
    faults = [Fault(side, failure.predicate, failure.error) for ts, side, failure in failures if ts == first]
    return examine(sides, before), faults


def examine(sides: Sequence[Side], batches: Sequence[Batch | None]) -> list[Examined | None]:
    return [
        None if batch is None else side.examine(batch) for side, batch in zip(sides, batches, strict=True)
    ]
