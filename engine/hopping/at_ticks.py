"""A window of the last rows at each tick, where its rows are kept in common.

In: the rows of the window, whole, at each boundary at which some have come; ticks.  Out: at each tick the
rows as of then.  Kept: no rows, but references to those that came last.
"""

from __future__ import annotations

from penstock.engine.flow.operator import Counters, Stateless, pass_time
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.rows.batch import Batch, all_at


class AtTicks(Stateless):
    """Says the window again as long as it stays what it is."""

    def __init__(self, rows: Queue, ticks: Queue, name: str) -> None:
        self.name = name
        self.inputs = (rows, ticks)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._last: Batch | None = None

    def step(self, quantum: int) -> bool:
        rows, ticks = self.inputs
        worked = False
        while ticks.batches and quantum > 0:
            tick = int(ticks.batches[0].ts[0])
            if rows.punctuation <= tick and not rows.closed:
                break
            ticks.take(tick, True)
            quantum -= self._say(tick) + 1
            self.output.promise(tick + 1)
            worked = True
        if ticks.closed and not ticks.batches:
            rows.clear()  # what comes after the last tick is never seen
        return pass_time(self.inputs, self.output) or worked

    def _say(self, tick: int) -> int:
        """Pass on what is in the window at a tick; how many rows."""
        rows, _ = self.inputs
        while rows.batches and rows.batches[0].ts[0] <= tick:
            self._last = rows.pop()
            self.counters.took(self._last.length)
        last = self._last
        if last is None:
            return 0
        batch = Batch(all_at(tick, last.length), last.lazy_columns, first_row=last.first_row)
        self.counters.gave(batch.length)
        self.output.put(batch)
        return batch.length
