"""UNION ALL: the rows of all inputs in time order.

In: rows, each input in time order.  Out: all of them, in time order; of one ts first what leaves, as whoever
joins them pairs what enters with all that is there, then the rest in the order of the inputs as far as they
have come. An input's own order stays: what leaves behind something that enters may be that very row.
Kept: nothing beyond its queues, where a row waits until every input has reached it; with `instants` (below a
join, if an input has ROWS windows, which tell of an instant when it is over) until all have passed it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters, Stateless, pass_time, pass_worked_time
from penstock.engine.flow.queue import Outlet, Queue, bound_of, instants_of
from penstock.engine.rows.batch import Batch, concatenate


class Union(Stateless):
    """Merges by the inputs' promises."""

    def __init__(self, queues: tuple[Queue, ...], name: str, instants: bool = False) -> None:
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(queue.punctuation for queue in queues))
        self.counters = Counters()
        self._instants = instants

    def step(self, quantum: int) -> bool:
        bound = (instants_of if self._instants else bound_of)(self.inputs, quantum)
        batches = [queue.take(bound, not self._instants) for queue in self.inputs]
        taken = [batch for batch in batches if batch is not None]
        if taken:
            rows = concatenate(taken)
            if len(taken) > 1:
                keys = [rows.ts] if rows.sign is None else [np.concatenate([*map(follows, taken)]), rows.ts]
                rows = rows.take(np.lexsort(keys))
            self.counters.took(rows.length)
            self.counters.gave(rows.length)
            self.output.put(rows)
        if messages := sorted({ts for queue in self.inputs for ts in queue.take_messages(bound)}):
            self.output.tell(messages)
        pass_on = pass_time if self._instants else pass_worked_time
        return pass_on(self.inputs, self.output) or bool(taken)


def follows(batch: Batch) -> NDArray:
    """Of each row whether it enters, or comes behind one of its ts that does."""
    enters = batch.signs > 0
    before: NDArray = np.cumsum(enters) - enters  # those that entered before it, at any ts
    return enters | (before > before[np.searchsorted(batch.ts, batch.ts)])
