"""The rows of a RANGE window, with the time at which each leaves it.

In: rows of a stream.  Out: the same with ets = ts + size; they leave by themselves, whoever keeps them lets
them go.  Kept: nothing; with time-messages, the times at which rows that were passed on leave.

    RANGE 10   row at 3:   3 |==========| 13

This is the paper's SSCAN. Its EXPIRE, which turns leaving into a -1, is an operator of its own (expire.py).

In a hopping query rows come and leave at boundaries (see hops.py); rows that no boundary sees are dropped.
They wait until the hop they are first seen at is over (window at a time), or are passed on as they come
(tuple at a time). A promise beyond a boundary says that it is over.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.due_times import DueTimes
from penstock.engine.flow.hop_time import last_over, pass_boundaries
from penstock.engine.flow.operator import Counters, pass_time
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.store import fixed_values
from penstock.engine.rows.window import MAX_TS


class RangeWindow:
    """Sets the ends of rows; see `ends`."""

    def __init__(
        self,
        size: int | None,
        queue: Queue,
        name: str,
        messages: bool,
        hops: Hops | None = None,
        taat: bool = False,
    ) -> None:
        """taat: in a hopping query rows do not wait until their hop is over."""
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation if hops is None else BEGINNING)
        self.counters = Counters()
        self._size = size
        self._due = DueTimes() if messages else None
        self._hops = hops
        self._is_waiting = not taat

    def ends(self, batch: Batch) -> Batch:
        """The rows with their ends."""
        if self._size is None:
            return batch
        return Batch(batch.ts, batch.lazy_columns, None, batch.ts + self._size)

    def give(self, ends: NDArray) -> None:
        """Its readers were given rows with these ends, as if it had passed them on."""
        if self._due is not None:
            self._due.add(np.sort(ends))

    def step(self, quantum: int) -> bool:
        return self._pass(quantum) if self._hops is None else self._hop(self._hops, quantum)

    def _hop(self, hops: Hops, quantum: int) -> bool:
        """Pass the rows of hops that are over on, or all there are, as of the boundaries that see them."""
        queue, output = self.inputs[0], self.output
        last = last_over(hops, queue) if self._is_waiting else MAX_TS
        worked = False
        while queue.batches and quantum > 0 and queue.batches[0].ts[0] <= last:
            batch = queue.pop()
            stop = int(batch.ts.searchsorted(last, side="right"))
            queue.put_back(batch.slice(stop, batch.length))
            batch = self.ends(batch.slice(0, stop))
            quantum -= batch.length
            self.counters.took(batch.length)
            ts, ets = hops.up(batch.ts), None if batch.ets is None else hops.up(batch.ets)
            batch = Batch(ts, batch.lazy_columns, None, ets)
            if ets is not None:
                seen = np.flatnonzero(ts < ets)
                batch = batch if len(seen) == batch.length else batch.take(seen)
            self.counters.gave(batch.length)
            output.put(batch)
            worked = True
        if queue.batches and queue.batches[0].ts[0] <= last:
            return True
        return pass_boundaries(hops, self.inputs, output, not self._is_waiting) or worked

    def _pass(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            batch = self.ends(queue.pop())
            quantum -= batch.length
            self.counters.took(batch.length)
            self.counters.gave(batch.length)
            self._tell(int(batch.ts[0]))
            self.output.put(batch)
            if self._due is not None and batch.ets is not None:
                self._due.add(batch.ets)
            worked = True
        if not queue.batches:
            self._tell(queue.punctuation)
        return pass_time(self.inputs, self.output) or worked

    def _tell(self, now: int) -> None:
        """Send messages for what has left by now, before anything younger is passed on."""
        if self._due is not None and (times := self._due.take(now)):
            self.output.tell(times)

    @property
    def state_rows(self) -> int:
        return 0

    @property
    def state_bytes(self) -> int:
        return 0 if self._due is None else 8 * len(self._due)

    def _check(self) -> None:
        pass


class Lifetime(RangeWindow):
    """Pairs of a join of two or more streams: each leaves when the first of its rows does.

    The last columns of the input, one for each stream, are the rows' own ts; they are not passed on.
    """

    def __init__(
        self,
        sizes: tuple[int | None, ...],
        queue: Queue,
        name: str,
        messages: bool,
        hops: Hops | None = None,
        taat: bool = False,
    ) -> None:
        super().__init__(None, queue, name, messages, hops, taat)
        self._sizes = sizes

    def ends(self, batch: Batch) -> Batch:
        last = batch.width - len(self._sizes)
        ends = [
            fixed_values(batch.column(last + side)) + size
            for side, size in enumerate(self._sizes)
            if size is not None
        ]
        ets = None if not ends else functools.reduce(np.minimum, ends)
        return Batch(batch.ts, batch.lazy_columns[:last], None, ets)
