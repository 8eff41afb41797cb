"""What operators that read whole answers have in common: they work hop by hop.

In: at each hop the whole bag as rows with the hop's ts; a promise above it says that it is whole.  Out: the
same, in batches of at most CHUNK_ROWS.  Kept: nothing from hop to hop but what saves work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters, Stateless, pass_time_until
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.keys.key_slots import KeySlots, SlotReader, tidy
from penstock.engine.plan.plan import PlanNode
from penstock.engine.plan.plan_parts import has_standing_window
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.window import FOREVER

CHUNK_ROWS = 32_768


class WholeOperator(Stateless, ABC):
    """Works the earliest hop that some input has rows of, once all inputs are beyond it."""

    def __init__(self, queues: Sequence[Queue], name: str) -> None:
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._work: Iterator[Batch] | None = None
        self.due = FOREVER
        """A hop that is to be worked even if no input has rows of it."""
        self._until: int | None = None
        """The hop after the one that was worked last, as long as nothing is known of it."""

    def next_hop(self, ts: int) -> int | None:
        """The hop after this one; None: whoever keeps nothing from hop to hop need not know."""
        return None

    def forget(self) -> None:
        """A hop had no rows at all: what was kept to save work is of rows that are not there any more."""

    @abstractmethod
    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        """The answer of a hop from the inputs' rows of it."""

    def step(self, quantum: int) -> bool:
        if self._work is None:
            ts = self._next()
            if self._until is not None and min(queue.frontier for queue in self.inputs) > self._until:
                self._until = None
                self.forget()
            if ts is None:
                return pass_time_until(self.inputs, self.output, self.due)
            taken = [queue.take(ts, True) for queue in self.inputs]
            self.counters.took(sum(batch.length for batch in taken if batch is not None))
            self._work, self._until = self.answer(ts, taken), self.next_hop(ts)
        for batch in self._work:
            self.counters.gave(batch.length)
            self.output.put(batch)
            quantum -= batch.length
            if quantum <= 0:
                return True
        self._work = None
        return True

    def stop(self) -> None:
        """Nobody asks any more for the rest of a hop that was begun."""
        self._work = None

    def _check_restored(self) -> None:
        expect(self.due == FOREVER, "no hop that is due without rows")

    def _next(self) -> int | None:
        """The next hop, if all of it has come."""
        ts = min((int(queue.batches[0].ts[0]) for queue in self.inputs if queue.batches), default=FOREVER)
        if self.due < ts:
            return self.due if all(queue.punctuation > self.due for queue in self.inputs) else None
        if ts == FOREVER or any(queue.punctuation <= ts and not queue.closed for queue in self.inputs):
            return None
        return ts


def next_hop(hops: Hops | None, ts: int) -> int:
    """The boundary after one."""
    assert hops is not None, "whole answers are of hops"
    return hops.first(ts + 1)


def forget_left(slots: KeySlots, readers: Sequence[SlotReader], inputs: Sequence[PlanNode]) -> None:
    """Forget the slots of rows that leave by themselves. Others are there, even if a hop at which nothing can
    have changed is left out."""
    for reader, below in zip(readers, inputs, strict=True):
        if not has_standing_window(below):
            reader.forget()
    tidy(slots, readers)


def chunks(rows: NDArray) -> Iterator[NDArray]:
    """Row numbers, so many at a time as make a batch."""
    for start in range(0, len(rows), CHUNK_ROWS):
        yield rows[start : start + CHUNK_ROWS]
