"""Where a query's answer leaves the engine.

In: changes of the answer.  Out: Arrow record batches, to whoever subscribed, else kept until asked for.
Kept: rows not asked for yet, none if the query only counts (see pending_results.py); of changes, those of the
last instant until all that has come of it is worked off, so that only its net changes come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.engine.flow.delays import Delays
from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue, nobody
from penstock.engine.intake.static_table import TABLE_TIME
from penstock.engine.intake.stream_clock import StreamClock
from penstock.engine.keys.net_changes import net_changes
from penstock.engine.plan.approach import Netting
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

from .pending_results import FEW_QUERIES, PendingResults
from .results_memory import ResultsMemory

Subscriber = Callable[[pa.RecordBatch], None]


class Company(Protocol):
    """Queries that have a join in common."""

    @property
    def members(self) -> Sequence[object]:
        """One for each."""


class Sink:
    """Turns batches into record batches that start with `_ts`, and `_diff` if they are changes."""

    def __init__(
        self,
        schema: pa.Schema,
        queue: Queue,
        name: str,
        counting: bool,
        refused: Callable[[Exception], None],
        changes: bool = False,
        netting: Netting = "none",
        types: Sequence[SqlType] = (),
        memory: ResultsMemory | None = None,
    ) -> None:
        """refused: told what subscribers raise; memory: what results keep alive, this query's and others'."""
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet()
        self.counters = Counters()
        self.schema = schema
        self.subscribers: list[Subscriber] = []
        self.is_counting = counting
        self.is_changes = changes
        self._netting = netting
        self._types = types
        self.refused = refused
        self._kept = PendingResults(self._record_batch, memory or ResultsMemory())
        self.company: Company | None = None
        """Of pairs of a window join: who else is given some. Many copy columns only when they are read."""
        self.entered_before = BEGINNING
        """What was in the answer when the query began enters at this time, which is no news to INSERTS."""
        self.by_hops = False
        """Whether changes of an instant come out only when it is over."""
        self.last_ts = BEGINNING
        """The time of the last row given."""
        self.flips = 0
        """Changes of a hopping query that cancelled within a hop."""
        self.starts_full = False
        """Whether the answer can have rows before any have come."""
        self._initial: list[Batch] = []
        """What was there before all time: it enters with the first time that is heard of."""
        self._last: Batch | None = None
        """The changes of the last instant, if they may still cancel with more of it."""
        self.hold: Callable[[], None] = nobody
        """Called when there are changes that `settle` has to bring out."""
        self.clock: StreamClock | None = None
        self.last_hop = FOREVER
        """Of a hopping query: nothing is given after this."""
        self.begins: Callable[[], int | None] = nobody
        """The first time there is an answer at, as far as that is known."""
        self.stream_delays = Delays()
        self.processing_delays = Delays()

    @property
    def count(self) -> int:
        """Result rows so far."""
        return self.counters.rows_in

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            if self.by_hops and queue.batches[0].ts[0] >= queue.punctuation:
                break
            batch = self._begin(self._next(queue))
            quantum -= batch.length
            if not batch.length:
                pass
            elif self._netting == "none":
                self.settle()  # what was there before all time may be held yet
                self._take(batch)
            else:
                self._net(batch)
            worked = True
        if self._initial:
            first, waiting = self.begins(), queue.batches  # of a hop that is not over
            is_next = first is not None and (not waiting or first < waiting[0].ts[0])
            if first is not None and is_next and first + self.by_hops <= queue.punctuation:
                initial = self._stamped(first)
                if initial.length:  # else all of it was taken back at once
                    self._net(initial)
        if queue.messages or queue.merged:
            queue.read_messages(queue.punctuation)
        return worked

    def _next(self, queue: Queue) -> Batch:
        """The next rows to work: whole instants of a hopping query if they can cancel."""
        if not self.by_hops or (self._netting == "none" and queue.batches[0].ts[-1] < queue.punctuation):
            return queue.pop()
        batch = queue.take(queue.punctuation, False)
        assert batch is not None, "there are rows of hops that are over"
        return batch

    def _begin(self, batch: Batch) -> Batch:
        """The batch with what was there before it, if it is the first; nothing if it has no time yet."""
        if not self.starts_full:
            return batch
        if batch.ts[0] <= TABLE_TIME:
            stop = int(batch.ts.searchsorted(TABLE_TIME, side="right"))
            self._initial.append(batch.slice(0, stop))
            batch = batch.slice(stop, batch.length)
        if self._initial and batch.length:
            first, latest = self.begins(), int(batch.ts[0])
            batch = concatenate([self._stamped(latest if first is None else min(first, latest)), batch])
            if self._netting == "between":
                batch = net_changes(batch, self._types)
        return batch

    def _stamped(self, ts: int) -> Batch:
        """What was there before all time, as of the first time there is."""
        batch, self._initial = concatenate(self._initial), []
        return net_changes(batch.as_of(ts), self._types)

    def net_all(self, types: Sequence[SqlType]) -> None:
        """From now on any changes of an instant may cancel."""
        self.net("all", types)

    def net(self, netting: Netting, types: Sequence[SqlType]) -> None:
        """From now on these changes of an instant may cancel."""
        self._netting, self._types = netting, types

    def take_initial(self) -> list[Batch]:
        """What was there before all time and has not been given, which is forgotten."""
        initial, self._initial = self._initial, []
        return initial

    def settle(self) -> None:
        """All that has come is worked off: bring out what was held of the last instant."""
        last, self._last = self._last, None
        if last is not None:
            self._take(last)

    def _net(self, batch: Batch) -> None:
        """Take the net changes of all but the last instant, and hold those of the last."""
        meets = self._last is not None and self._last.ts[-1] == batch.ts[0]
        if self._last is not None:
            if meets:
                batch = concatenate([self._last, batch])
            else:
                self._take(self._last)
            self._last = None
        if meets or self._netting == "all":
            come = batch.length
            batch = net_changes(batch, self._types)
            self.flips += come - batch.length if self.by_hops else 0
        if not batch.length:
            return
        stop = int(batch.ts.searchsorted(batch.ts[-1]))
        if stop:
            self._take(batch.slice(0, stop))
        self._last = batch.slice(stop, batch.length)
        self.hold()

    def _take(self, batch: Batch) -> None:
        if not self.is_changes and batch.sign is not None:
            batch = batch.take(np.flatnonzero(batch.sign > 0))  # what enters: INSERTS
        if not self.is_changes and not self.by_hops and batch.length and batch.ts[0] <= self.entered_before:
            batch = batch.slice(int(batch.ts.searchsorted(self.entered_before, side="right")), batch.length)
        if self.by_hops and not self.is_changes and batch.length:
            first = self.begins()
            if first is not None and batch.ts[0] < first:  # a hop before the query began
                batch = batch.slice(int(batch.ts.searchsorted(first)), batch.length)
        if batch.length and batch.ts[-1] > self.last_hop:  # what others go on with
            batch = batch.slice(0, int(batch.ts.searchsorted(self.last_hop, side="right")))
        if not batch.length:
            return
        self.counters.took(batch.length)
        if len(batch.ts):
            self.last_ts = int(batch.ts[-1])
        if self.clock is not None:
            self.clock.note(batch.ts, self.stream_delays, self.processing_delays)
        if self.subscribers:
            self._deliver(self._record_batch(batch))
        elif not self.is_counting:
            if self.company is not None and len(self.company.members) > FEW_QUERIES:
                self._kept.add(batch)
            else:
                self._kept.add_finished(self._record_batch(batch))

    def _deliver(self, rows: pa.RecordBatch) -> None:
        if not self.subscribers:
            self._kept.add_finished(rows)
        for subscriber in list(self.subscribers):
            try:
                subscriber(rows)
            except Exception as error:  # one subscriber's trouble is not the others', nor the other queries'
                self.refused(error)

    def _record_batch(self, batch: Batch) -> pa.RecordBatch:
        times = pa.py_buffer(np.ascontiguousarray(batch.ts))
        arrays = [pa.Array.from_buffers(pa.timestamp("us"), batch.length, [None, times])]
        if self.is_changes:
            arrays.append(pa.array(batch.signs))
        columns = [batch.column(i) for i in range(batch.width)]
        return pa.RecordBatch.from_arrays([*arrays, *columns], schema=self.schema)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hand over what was kept, and from now on everything; if it raises, the rest stays kept."""
        while (rows := self._kept.first()) is not None:
            subscriber(rows)
            self._kept.drop_first()
        self.subscribers.append(subscriber)

    def drain(self) -> pa.Table:
        """What came since the last call."""
        return pa.Table.from_batches(self._kept.drain(), self.schema)

    def leave(self) -> None:
        """The query is no more."""
        self._kept.leave()

    @property
    def state_rows(self) -> int:
        return len(self._kept)

    @property
    def state_bytes(self) -> int:
        return self._kept.nbytes

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint subscribers are no part."""
        return {**self.__dict__, "subscribers": []}

    def _check(self) -> None:
        assert not (self.is_counting and len(self._kept)), "a query that only counts keeps rows"
