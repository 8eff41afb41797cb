"""The rows of a ROWS window, also one for each partition, as they enter and leave it.

In: rows of a stream.  Out: +1 for a row that is in the window at the end of its instant, -1 when it has been
displaced.  Kept: the rows in the window.  Dropped: when displaced; where partitions lose rows out of order,
when as many rows are gone as are there.

    ROWS 2, rows at 3, 5, 5, 8:   +a at 3;  -a +b +c at 5;  -b +d at 8

A row displaced at its own instant was never in. So an instant's rows wait until the input has passed it.
In a hopping query boundaries are the instants (see hops.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.hop_time import last_over, pass_boundaries
from penstock.engine.flow.operator import Counters, pass_time
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue, instants_of
from penstock.engine.kernels.windows.changes import displace_rows
from penstock.engine.rows.batch import Batch, Gather, LazyColumn
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import SqlType
from penstock.engine.shelves.stored_rows import stored

from .partitions import FEW_ROWS, FEWEST_GONE, Changes, LastRows, Partitions


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
        self._hops = hops
        self._is_waiting = not taat
        self._types = types
        self._columns = [i for i, type_ in enumerate(types) if type_ is not SqlType.NULL]
        """Those that are kept."""
        self._store = self._empty()
        self._window = LastRows(Partitions(partition), size) if partition else None
        """Of partitions: rows are numbered as they are stored."""
        self._gone = 0
        """Of partitions: stored rows that are not in the window."""
        self.filled: int | None = None
        """When the window first held as many rows as it can; None: not yet, or partitioned."""

    def _empty(self) -> Store:
        return Store([self._types[i] for i in self._columns])

    def step(self, quantum: int) -> bool:
        if self._hops is not None:
            return self._hop(self._hops, quantum)
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.counters.took(batch.length)
            changes = self._change(batch)
            self.counters.gave(changes.length)
            self.output.put(changes)
        return pass_time(self.inputs, self.output) or batch is not None

    def _hop(self, hops: Hops, quantum: int) -> bool:
        """The same with boundaries for instants: what comes and goes between two was never in.

        Without waiting every instant speaks, as of the boundary it is seen at.
        """
        queue, over = self.inputs[0], last_over(hops, self.inputs[0])
        bound = instants_of(self.inputs, quantum)
        batch = queue.take(bound if not self._is_waiting else min(over, hops.first(bound)) + 1, False)
        if batch is not None:
            self.counters.took(batch.length)
            if self._is_waiting:
                batch = Batch(hops.up(batch.ts), batch.lazy_columns)
            changes = self._change(batch)
            self.counters.gave(changes.length)
            self.output.put(changes.with_times(hops.up(changes.ts)))
        if queue.batches and queue.batches[0].ts[0] <= over:
            return True
        return pass_boundaries(hops, self.inputs, self.output, not self._is_waiting) or batch is not None

    def _change(self, batch: Batch) -> Batch:
        # 1. keep the rows
        store, begin = self._store, self._store.ts.end
        store.append(batch.ts, [batch.column(i) for i in self._columns])
        times = store.ts.run(begin, store.ts.end)
        # 2. who leaves and who enters
        ts, sign, rows = self._displaced(times, begin) if self._window is None else self._taken(batch, times)
        changes = Batch(ts, self._gathered(rows), sign)
        # 3. drop the rows that have left
        self._drop()
        return changes

    def _displaced(self, times: NDArray, begin: int) -> Changes:
        """What the rows from `begin` on change in a window of the stream."""
        tail, end = self._store.ts.tail, self._store.ts.end
        if self.filled is None and end >= self._size:
            self.filled = int(self._store.ts.run(self._size - 1, self._size)[0])
        out: list[NDArray] = [np.empty(2 * len(times), kind) for kind in (np.int64, np.int8, np.int64)]
        count = displace_rows(times, begin, begin, end, self._size, tail, *out)
        return out[0][:count], out[1][:count], out[2][:count]

    def _taken(self, batch: Batch, times: NDArray) -> Changes:
        """The same in windows of partitions."""
        assert self._window is not None, "a window of partitions"
        partitions = self._window.partitions
        keys = [batch.column(i) for i in partitions.columns]
        partitions.extend(keys, [self._types[i] for i in partitions.columns], batch.length)
        changes, gone = self._window.take(times)
        self._gone += len(gone)
        return changes

    def _drop(self) -> None:
        store, window = self._store, self._window
        if window is None:
            store.drop(store.ts.end - self._size)
        elif self._gone > FEW_ROWS and FEWEST_GONE * self._gone > len(store):
            rows = window.rows()
            arrow = pa.array(rows)
            self._store, self._gone = self._empty(), 0
            self._store.append(store.ts.live[rows], [stored(one).take(arrow) for one in store.columns])
            window.partitions.keep(rows)
            window.renumber(rows)

    def _gathered(self, rows: NDArray) -> list[LazyColumn]:
        """The columns of rows, copied when somebody reads them."""
        columns: list[LazyColumn] = [pa.nulls(len(rows))] * len(self._types)
        for i, column in zip(self._columns, self._store.columns, strict=True):
            columns[i] = Gather(column.view(), rows)
        return columns

    def content(self) -> Batch | None:
        """The rows in the window."""
        times = self._store.ts
        if not times.end:
            return None
        rows = np.arange(times.tail, times.end) if self._window is None else self._window.rows()
        return Batch(times.data[rows - times.base], self._gathered(rows))

    @property
    def state_rows(self) -> int:
        return len(self._store) - self._gone

    @property
    def state_bytes(self) -> int:
        window = self._window
        return self._store.nbytes + (0 if window is None else window.nbytes + window.partitions.nbytes)

    def _check(self) -> None:
        store, window = self._store, self._window
        store._check()
        if window is None:
            assert len(store) <= self._size, "more rows than the window holds"
        else:
            window.partitions._check()
            window._check()
            assert len(window.partitions) == window.end == len(store), "rows in no partition"
            assert self._gone == len(store) - len(window.rows()), "other rows are gone than are counted"
