"""The rows of a ROWS window, as they enter it.

In: rows.  Out: those that are in the window at the end of their own instant.  Kept: nothing beyond its queue.

    ROWS 2, four rows at one instant:    x x o o      only the last two were ever in the window

So an instant's rows wait until the input has passed it.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.flow.operator import Counters, Stateless, pass_time
from penstock.engine.flow.queue import Outlet, Queue, instants_of
from penstock.engine.plan.plan import WindowNode


class RowsEntering(Stateless):
    """Drops rows displaced at their own instant."""

    def __init__(self, node: WindowNode, queue: Queue, name: str) -> None:
        assert node.window.kind == "rows" and node.window.size is not None, "every row enters a RANGE window"
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self._size = node.window.size

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        batch = queue.take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.counters.took(batch.length)
            come = np.searchsorted(batch.ts, batch.ts, side="right")
            rows = np.flatnonzero(np.arange(batch.length) >= come - self._size)
            self.counters.gave(len(rows))
            self.output.put(batch if len(rows) == batch.length else batch.take(rows))
        return pass_time(self.inputs, self.output) or batch is not None
