"""Where a query's answer leaves the engine.

In: result rows.  Out: Arrow record batches, to whoever subscribed, else kept until asked for.  Kept: rows not
asked for yet, none if the query only counts.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ..batch import Batch
from ..operator import Counters
from ..queue import Outlet, Queue

Subscriber = Callable[[pa.RecordBatch], None]


class Sink:
    """Turns batches into record batches that start with `_ts`."""

    def __init__(
        self, schema: pa.Schema, queue: Queue, name: str, counting: bool, failed: Callable[[Exception], None]
    ) -> None:
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet()
        self.counters = Counters()
        self.schema = schema
        self.subscribers: list[Subscriber] = []
        self.is_counting = counting
        self._failed = failed
        self._kept: list[pa.RecordBatch] = []

    @property
    def count(self) -> int:
        """Result rows so far."""
        return self.counters.rows_in

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            batch = queue.pop()
            quantum -= batch.length
            self.counters.rows_in += batch.length
            if not self.is_counting:
                self._deliver(self._record_batch(batch))
            worked = True
        return worked

    def _deliver(self, rows: pa.RecordBatch) -> None:
        if not self.subscribers:
            self._kept.append(rows)
        for subscriber in list(self.subscribers):
            try:
                subscriber(rows)
            except Exception as error:  # one subscriber's trouble is not the others', nor the other queries'
                self._failed(error)

    def _record_batch(self, batch: Batch) -> pa.RecordBatch:
        ts = pa.Array.from_buffers(pa.timestamp("us"), batch.length, [None, pa.py_buffer(batch.ts)])
        columns = [batch.column(i) for i in range(batch.width)]
        return pa.RecordBatch.from_arrays([ts, *columns], schema=self.schema)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hand over what was kept, and from now on everything; if it raises, the rest stays kept."""
        while self._kept:
            subscriber(self._kept[0])
            del self._kept[0]
        self.subscribers.append(subscriber)

    def drain(self) -> pa.Table:
        """What came since the last call."""
        kept, self._kept = self._kept, []
        return pa.Table.from_batches(kept, self.schema)

    @property
    def state_rows(self) -> int:
        return sum(rows.num_rows for rows in self._kept)

    @property
    def state_bytes(self) -> int:
        return sum(rows.get_total_buffer_size() for rows in self._kept)

    def _check(self) -> None:
        assert not (self.is_counting and self._kept), "a query that only counts keeps rows"
