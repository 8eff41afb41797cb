"""The rows of a ROWS window, also one for each partition, as they enter and leave it.

In: rows of a stream.  Out: +1 for a row that is in the window at the end of its instant, -1 when it has been
displaced.  Kept: the rows in the window.  Dropped: when displaced.

    ROWS 2, rows at 3, 5, 5, 8:   +a at 3;  -a +b +c at 5;  -b +d at 8

A row displaced at its own instant was never in. So an instant's rows wait until the input has passed it.
In a hopping query boundaries are the instants (see hops.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS, Batch, concatenate
from ..fingerprint import fingerprint
from ..hops import Hops
from ..operator import Counters, pass_time
from ..queue import BEGINNING, Outlet, Queue, instants_of
from ..types import SqlType


class RowsWindow:
    """The last `size` rows, of each partition if there are columns to tell them apart by."""

    def __init__(
        self,
        size: int,
        partition: Sequence[int],
        queue: Queue,
        types: Sequence[SqlType],
        name: str,
        hops: Hops | None = None,
        taat: bool = False,
    ) -> None:
        """hops: rows come and leave at boundaries; taat: they do not wait until their hop is over."""
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation if hops is None else BEGINNING)
        self.counters = Counters()
        self._size = size
        self._partition = partition
        self._hops = hops
        self._is_waiting = not taat
        self._types = [types[column] for column in partition]
        self._kept: Batch | None = None
        self.filled: int | None = None
        """When the window first held as many rows as it can; None: not yet, or partitioned."""

    def step(self, quantum: int) -> bool:
        if self._hops is not None:
            return self._hop(self._hops, quantum)
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.counters.rows_in += batch.length
            changes = self._change(batch)
            self.counters.rows_out += changes.length
            self.output.put(changes)
        return pass_time(self.inputs, self.output) or batch is not None

    def _hop(self, hops: Hops, quantum: int) -> bool:
        """The same with boundaries for instants: what comes and goes between two was never in.

        Without waiting every instant speaks, as of the boundary it is seen at.
        """
        queue, over = self.inputs[0], hops.over(self.inputs[0])
        bound = instants_of(self.inputs, quantum)
        batch = queue.take(bound if not self._is_waiting else min(over, hops.first(bound)) + 1, False)
        if batch is not None:
            self.counters.rows_in += batch.length
            if self._is_waiting:
                batch = Batch(hops.up(batch.ts), batch.lazy_columns)
            changes = self._change(batch)
            changes.ts = hops.up(changes.ts)
            self.counters.rows_out += changes.length
            self.output.put(changes)
        if queue.batches and queue.batches[0].ts[0] <= over:
            return True
        return hops.pass_time(self.inputs, self.output, not self._is_waiting) or batch is not None

    def _change(self, batch: Batch) -> Batch:
        old = 0 if self._kept is None else self._kept.length
        rows = batch if self._kept is None else concatenate([self._kept, batch])
        ts, count = rows.ts, rows.length
        # 1. who displaces whom: the row `size` places later in the same partition
        by = self._displacing(rows)
        displaced = np.flatnonzero(by < count)
        at = ts[by[displaced]]
        # 2. who enters and who leaves: not what comes and goes in one instant
        entered = displaced < old
        leaving = displaced[entered | (at > ts[displaced])]
        leaves_at = ts[by[leaving]]
        gone_at_once = displaced[~entered & (at == ts[displaced])]
        enters = np.ones(count, bool)
        enters[:old] = False
        enters[gone_at_once] = False
        entering = np.flatnonzero(enters)
        # 3. in time order, leaving first
        positions = np.concatenate([leaving, entering])
        times = np.concatenate([leaves_at, ts[entering]])
        sign = np.ones(len(positions), np.int8)
        sign[: len(leaving)] = -1
        order = np.argsort(times, kind="stable")
        changes = rows.take(positions[order])
        changes.ts, changes.sign = times[order], sign[order]
        # 4. keep what is in the window
        stays = np.ones(count, bool)
        stays[displaced] = False
        kept = np.flatnonzero(stays)
        arrow = pa.array(kept)
        self._kept = Batch(ts[kept], [rows.column(i).take(arrow) for i in range(rows.width)])
        if self.filled is None and not self._partition and len(kept) == self._size:
            self.filled = int(ts[self._size - 1])
        return changes

    def _displacing(self, rows: Batch) -> NDArray:
        """For each row the position of the one that displaces it; the number of rows if none has come."""
        if not self._partition:
            return np.arange(rows.length) + self._size
        keys = [rows.column(i) for i in self._partition]
        return displacing(keys, self._types, rows.length, self._size)

    def content(self) -> Batch | None:
        """The rows in the window."""
        return self._kept

    @property
    def state_rows(self) -> int:
        return 0 if self._kept is None else self._kept.length

    @property
    def state_bytes(self) -> int:
        kept = self._kept
        return 0 if kept is None else sum(kept.column(i).nbytes for i in range(kept.width)) + kept.ts.nbytes

    def _check(self) -> None:
        if self._kept is not None:
            self._kept._check()
            assert self._partition or self._kept.length <= self._size, "more rows than the window holds"
            displaced = self._displacing(self._kept) if self._kept.length else NO_ROWS
            assert bool(np.all(displaced >= self._kept.length)), "a displaced row is kept"


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
