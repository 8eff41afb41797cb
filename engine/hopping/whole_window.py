"""A window's rows at each hop, whole.

In: rows of a stream, and ticks if boundaries are left out at which nothing can have changed.  Out: at each
boundary, or each tick, when it is over, all rows in the window.  Kept: each row once,
however many hops it is part of.  Dropped: a row that no later boundary sees.

    hop 10, RANGE 25        rows   . . | .  . .|  .  |. .
    boundaries                    10      20   30    40      what goes out at 40: rows in (15, 40]

What goes out at a boundary is a run of rows as they are stored: nothing is copied, and the batch says the
number of its first row, so that others can remember what they know of a row. Rows of a window per partition
are no run and have no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.hop_time import last_over, pass_boundaries
from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.rows.batch import Batch, LazyColumn, all_at, concatenate
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.store import new_column, slide
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER, Window
from penstock.engine.windows.row_times import RowTimes


class WholeWindow:
    """The rows of a window at each boundary."""

    def __init__(
        self,
        window: Window,
        partition: Sequence[int],
        hops: Hops,
        queues: Sequence[Queue],
        types: Sequence[SqlType],
        name: str,
    ) -> None:
        """queues: rows, and ticks if there are any."""
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(BEGINNING)
        self.counters = Counters()
        self._window = window
        self._partition = partition
        self._types = types
        self._hops = hops
        self._stored = [i for i, type_ in enumerate(types) if type_ is not SqlType.NULL]
        self._times = RowTimes()
        self._columns = [new_column(types[i]) for i in self._stored]
        slide(self._columns)
        self._last: Batch | None = None
        """Of a window per partition: its rows at the boundary before."""
        self._next: int | None = None
        """The next boundary with rows; None: not before a row comes."""
        self.last_hop = FOREVER
        """The last boundary there is."""
        self.filled: int | None = None
        """When a ROWS window first held as many rows as it can; None: not yet, or partitioned."""

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        over = min(last_over(self._hops, *self.inputs), self.last_hop)
        worked = False
        while quantum > 0:
            # A row that waits is beyond all boundaries before it: their rows are stored.
            known = min(over, int(queue.batches[0].ts[0]) - 1) if queue.batches else over
            due = self._due()
            if due is not None and due <= known:
                quantum -= self._say(due) + 1
            elif queue.batches:
                quantum -= self._take(queue.pop())
            else:
                break
            worked = True
        due = self._due()
        if queue.batches or (due is not None and due <= over):
            return True
        return pass_boundaries(self._hops, self.inputs, self.output) or worked

    def _due(self) -> int | None:
        """The next boundary to speak at, as far as it is known."""
        if len(self.inputs) == 1:
            return self._next
        ticks = self.inputs[1].batches
        return int(ticks[0].ts[0]) if ticks else None

    def _take(self, batch: Batch) -> int:
        """Store rows; how many."""
        self.counters.took(batch.length)
        self._times.append(batch.ts)
        for i, column in zip(self._stored, self._columns, strict=True):
            column.append(batch.column(i))
        if self._next is None:
            self._next = self._hops.first(int(batch.ts[0]))
        self._forget(self._next)
        return batch.length

    def _forget(self, boundary: int) -> None:
        """Drop the rows that neither this boundary nor a later one sees."""
        size = self._window.size
        if self._window.kind == "range" and size is not None:
            self._drop(self._times.until(boundary - size))

    def _drop(self, row: int) -> None:
        """Drop the rows below a number."""
        if row > self._times.tail:
            self._times.drop(row)
            for column in self._columns:
                column.drop(row)

    def _say(self, boundary: int) -> int:
        """Pass on what is in the window at a boundary; how many rows."""
        self._forget(boundary)
        times = self._times
        end = times.until(boundary)
        batch = self._run(boundary, end) if not self._partition else self._partitions(boundary, end)
        if batch is not None:
            self.counters.gave(batch.length)
            self.output.put(batch)
            self._next = boundary + self._hops.size
        else:
            self._next = self._hops.first(times.at(times.tail)) if len(times) else None
        for ticks in self.inputs[1:]:
            ticks.take(boundary, True)
        self.output.promise(boundary + 1)
        return 0 if batch is None else batch.length

    def _run(self, boundary: int, end: int) -> Batch | None:
        """The rows up to number `end`, or as many of them as a ROWS window holds."""
        times, size = self._times, self._window.size
        if self._window.kind == "rows" and size is not None:
            self._drop(end - size)
            if self.filled is None and end - times.tail == size:
                self.filled = times.at(end - 1)
        first = times.tail
        if first == end:
            return None
        return self._run_of(boundary, first, end, is_numbered=True)

    def _partitions(self, boundary: int, end: int) -> Batch | None:
        """The last rows of each partition, of those there were before and those up to number `end`."""
        first, last, size = self._times.tail, self._last, self._window.size
        assert size is not None, "a ROWS window has a size"
        if first < end:
            new = self._run_of(boundary, first, end)
            rows = new if last is None else concatenate([last, new])
            keys = [rows.column(i) for i in self._partition]
            by = displacing(keys, [self._types[i] for i in self._partition], rows.length, size)
            kept = np.flatnonzero(by == rows.length)
            places = pa.array(kept)
            self._last = Batch(rows.ts[kept], [rows.column(i).take(places) for i in range(rows.width)])
            self._drop(end)
        last = self._last
        return None if last is None else Batch(all_at(boundary, last.length), last.lazy_columns)

    def _run_of(self, boundary: int, first: int, end: int, is_numbered: bool = False) -> Batch:
        columns: list[LazyColumn] = [pa.nulls(end - first)] * len(self._types)
        for i, column in zip(self._stored, self._columns, strict=True):
            columns[i] = column.run(first, end)
        return Batch(all_at(boundary, end - first), columns, first_row=first if is_numbered else None)

    @property
    def state_rows(self) -> int:
        return len(self._times) + (0 if self._last is None else self._last.length)

    @property
    def state_bytes(self) -> int:
        last = self._last
        kept = 0 if last is None else sum(last.column(i).nbytes for i in range(last.width))
        return self._times.nbytes + sum(column.nbytes for column in self._columns) + kept

    def _check(self) -> None:
        times = self._times
        times._check()
        for column in self._columns:
            for buffer in column.buffers()[:1]:
                buffer._check()
                assert buffer.tail == times.tail, "a column begins at another row"
        if self._next is None:
            assert not len(times), "rows are kept for no boundary"


def displacing(keys: Sequence[pa.Array], types: Sequence[SqlType], count: int, size: int) -> NDArray:
    """For each of `count` rows the position of the one `size` places later with equal keys, else `count`."""
    a, b = fingerprint(keys, types, count)
    order = np.lexsort((b, a))
    later = np.concatenate([order[size:], np.full(min(size, count), -1)])
    same = later >= 0
    same[same] &= (a[order] == a[later])[same] & (b[order] == b[later])[same]
    by = np.full(count, count)
    by[order[same]] = later[same]
    return by
