"""The boundaries of a hopping query, for those that have an answer even if nothing comes.

In: the query's streams, of which only the time counts.  Out: a row without columns at each boundary that is
over on all of them, from the first at or after their first row on.  Kept: nothing, or, with a window, the
boundaries of rows that are not over yet.

With a window only those count at which a row comes or may be in it, and the first that finds it empty:

    hop 10, window 25      row at 3                 row at 2,000,007
    ticks                  10  20  30               2,000,010 ...       30: the row has left
    hop 10, window 0       10                       2,000,010           rows leave only when others come
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.engine.flow.hop_time import last_over
from penstock.engine.flow.operator import Counters, Stateless
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.window import FOREVER

CHUNK_ROWS = 32_768


class Ticks(Stateless):
    """Says each boundary."""

    def __init__(
        self,
        queues: Sequence[Queue],
        name: str,
        hops: Hops,
        first_hop: Callable[[], int | None],
        window: int | None = None,
    ) -> None:
        """first_hop: the first boundary, None as long as no row has come.

        window: the longest from which rows leave by themselves, if boundaries count only as long as rows may
        be in it.
        """
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._hops = hops
        self._first_hop = first_hop
        self.last_hop = FOREVER
        """The last boundary there is."""
        self._next: int | None = None
        self._reach = None if window is None else -(-window // hops.size) * hops.size
        """How long after its boundary a row may still be seen to have left."""
        self._ahead = NO_ROWS
        """Boundaries of rows that have come, from the next on."""
        self._until = BEGINNING
        """The last boundary that counts because of rows before the next."""

    def step(self, quantum: int) -> bool:
        output = self.output
        self._read()
        over = min(last_over(self._hops, *self.inputs), self.last_hop)
        if self._next is None:
            first = self._first_hop()
            self._next = None if first is None or first > over else first  # else an earlier row may come
            if self._next is not None and self._reach is not None:
                self._until = self._next + self._reach  # windows may have begun with rows
        worked = False
        if self._reach is not None and self._next is not None:
            self._next = self._skip(self._next, over)
        last = over if self._reach is None else min(over, self._until)
        if self._next is not None and self._next <= last:
            stop = min(last + 1, self._next + CHUNK_ROWS * self._hops.size)
            ts = np.arange(self._next, stop, self._hops.size)
            self._next = int(ts[-1]) + self._hops.size
            self.counters.gave(len(ts))
            output.put(Batch(ts, []))
            output.promise(int(ts[-1]) + 1)
            return True
        if over >= output.punctuation:
            output.promise(over + 1)
            worked = True
        if all(queue.closed for queue in self.inputs) and not output.closed:
            output.close()
            worked = True
        return worked

    def _check_restored(self) -> None:
        """All boundaries from the next one on will be said, but those that are skipped."""
        is_skipped = self._next is not None and self._reach is not None and self._next > self._until
        is_over = self._next is not None and self._next < self.output.punctuation
        expect(not is_over or is_skipped, "a boundary that is not over")

    def _read(self) -> None:
        """Note the boundaries of rows that have come."""
        for queue in self.inputs:
            if self._reach is not None and queue.batches:
                come = [self._hops.up(batch.ts) for batch in queue.batches]
                self._ahead = np.unique(np.concatenate([self._ahead, *come]))
            queue.clear()

    def _skip(self, due: int, over: int) -> int:
        """The next boundary that counts, at or after this one; it and those up to `_until` do."""
        assert self._reach is not None, "boundaries may be left out"
        ahead = self._ahead
        if due > self._until and len(ahead) and due < ahead[0] <= over:
            due = int(ahead[0])
        passed = int(ahead.searchsorted(due, side="right"))
        if passed:
            self._until = max(self._until, int(ahead[passed - 1]) + self._reach)
            self._ahead = ahead[passed:]
        return due

    def _check(self) -> None:
        assert bool((np.diff(self._ahead) > 0).all()), "boundaries out of order"


class WholeTable(Stateless):
    """The rows of a table at every tick: it is the same at every hop.

    In: the table's rows, and ticks.  Kept: the rows, as they came.
    """

    def __init__(self, table: Queue, ticks: Queue, name: str) -> None:
        self.name = name
        self.inputs = (table, ticks)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._rows: list[Batch] = []

    def step(self, quantum: int) -> bool:
        table, ticks = self.inputs
        worked = False
        while table.batches:
            self._rows.append(table.pop())
            self.counters.took(self._rows[-1].length)
            worked = True
        if not table.closed:
            return worked
        while ticks.batches and quantum > 0:
            boundary = int(ticks.batches[0].ts[0])
            ticks.take(boundary, True)
            for rows in self._rows:
                self.output.put(Batch(np.full(rows.length, boundary, np.int64), rows.lazy_columns))
                self.counters.gave(rows.length)
                quantum -= rows.length
            quantum -= 1
            self.output.promise(boundary + 1)
            worked = True
        if ticks.batches:
            return True
        if ticks.punctuation > self.output.punctuation:
            self.output.promise(ticks.punctuation)
            worked = True
        if ticks.closed and not self.output.closed:
            self.output.close()
            worked = True
        return worked

    @property
    def state_rows(self) -> int:
        return sum(rows.length for rows in self._rows)

    @property
    def state_bytes(self) -> int:
        return sum(rows.column(i).nbytes for rows in self._rows for i in range(rows.width))
