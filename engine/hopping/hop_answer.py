"""The whole answer of a hopping query at each of its boundaries.

In: changes at boundaries.  Out: at each boundary that is over, every row of the answer as +1.  Kept: the
answer.  Dropped: rows that leave it.

The first boundary is the first at or after the first row of any of the query's streams; one without rows has
its answer like any other. Where ticks say the boundaries there is an answer at every tick.
Changes of a hop that cancel each other are flips: counted, and no part of any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.keys.net_changes import cancel_equal, net_changes
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

CHUNK_ROWS = 32_768


class HopAnswer:
    """Keeps the answer and says it at every boundary."""

    def __init__(
        self,
        queues: Sequence[Queue],
        types: Sequence[SqlType],
        name: str,
        hops: Hops,
        first_hop: Callable[[], int | None],
    ) -> None:
        """queues: changes, and ticks if there are any; first_hop: the first boundary to answer at if there
        are none, None as long as no row has come."""
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._hops = hops
        self._types = types
        self._first_hop = first_hop
        self._answer: Batch | None = None
        self._next: int | None = None
        """The next boundary to answer at."""
        self.last_hop = FOREVER
        """The last boundary to answer at."""
        self.flips = 0
        """Changes that cancelled within a hop."""

    def step(self, quantum: int) -> bool:
        queue, output = self.inputs[0], self.output
        worked = False
        going_on = [queue for queue in self.inputs if not queue.closed]
        over = min(queue.punctuation for queue in going_on or self.inputs[-1:]) - 1  # a table ends at once
        over = min(over, self.last_hop)
        self._find_next(over)
        while self._next is not None and self._next <= over and quantum > 0:
            changes = queue.take(self._next, True)
            if changes is not None:
                self.counters.took(changes.length)
                self._apply(changes)
            quantum -= self._say(self._next) + 1
            output.promise(self._next + 1)
            self._go_on(over)
            worked = True
        is_over = self._next is None or self._next > over
        if is_over and over >= output.punctuation:
            output.promise(over + 1)
            worked = True
        if all(queue.closed for queue in self.inputs) and is_over and not output.closed:
            output.close()
            worked = True
        return worked

    def _check_restored(self) -> None:
        """All boundaries from the next one on will be said."""
        expect(self._next is None or self._next >= self.output.punctuation, "a boundary that is not over")

    def _find_next(self, over: int) -> None:
        """The first boundary, as soon as it is known."""
        if len(self.inputs) > 1:
            ticks = self.inputs[1]
            self._next = int(ticks.batches[0].ts[0]) if ticks.batches else None
        elif self._next is None:
            first = self._first_hop()
            self._next = None if first is None or first > over else first  # else an earlier row may come

    def _go_on(self, over: int) -> None:
        """To the next boundary."""
        queue, said = self.inputs[0], self._next
        assert said is not None
        if len(self.inputs) > 1:
            self.inputs[1].take(said, True)
            self._find_next(over)
            return
        later = queue.batches[0].ts[0] if queue.batches else over + 1
        ahead = self._hops.size
        if self._answer is None:  # nothing to say until something comes
            ahead = max(ahead, self._hops.first(int(min(later, over + 1))) - said)
        self._next = said + ahead

    def _apply(self, changes: Batch) -> None:
        """The answer with the changes: pairs of +1 and -1 of equal rows cancel."""
        come = changes.length
        changes = net_changes(changes, self._types)
        self.flips += come - changes.length
        rows = changes if self._answer is None else concatenate([self._answer, changes])
        columns = [rows.column(i) for i in range(rows.width)]
        if rows.sign is not None:
            a, b = fingerprint(columns, self._types, rows.length)
            kept = np.flatnonzero(cancel_equal(np.zeros(rows.length, np.int64), rows.sign, a, b))
            assert bool((rows.sign[kept] > 0).all()), "a row left that was not there"
            places = pa.array(kept)
            columns = [column.take(places) for column in columns]
            length = len(kept)
        else:
            length = rows.length
        self._answer = Batch(np.zeros(length, np.int64), columns) if length else None

    def _say(self, boundary: int) -> int:
        """Pass the answer on; how many rows it has."""
        answer = self._answer
        if answer is None:
            return 0
        ts = np.full(answer.length, boundary, np.int64)
        whole = Batch(ts, answer.lazy_columns)
        for start in range(0, answer.length, CHUNK_ROWS):
            self.output.put(whole.slice(start, min(start + CHUNK_ROWS, answer.length)))
        self.counters.gave(answer.length)
        return answer.length

    @property
    def state_rows(self) -> int:
        return 0 if self._answer is None else self._answer.length

    @property
    def state_bytes(self) -> int:
        answer = self._answer
        return 0 if answer is None else sum(answer.column(i).nbytes for i in range(answer.width))

    def _check(self) -> None:
        if self._answer is not None:
            self._answer._check()
            assert self._answer.length, "an answer without rows is kept"
