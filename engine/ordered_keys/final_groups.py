"""GROUP BY a key that grows: each group once, when no row to come can be in it.

In:      rows of a stream, or of a join on keys that grow, and how far their keys have come.
Out:     a row per group, in order of its key, at the time of the arrival by which the frontier has passed
         that; groups whose key is NULL at the end.
Kept:    the groups that are open, as any GROUP BY keeps those of a window (../changes/group_by.py).
Dropped: a group when it is given.

The groups are kept by the same code as those of a RANGE window, to which time is the frontier: a row enters
at the frontier, and its end is the key behind its own. So all rows of a group leave at once, in order of
keys, and what the group said last, which is taken back then, is what it is.

    rows  5 6 5 7     frontier 5  ->  7        5: 2 rows, 6: 1 row, given in this order; 7 is open

Law: a row with a key that the frontier has passed came too late: its group has been given. It is left out and
counted, and that does not depend on batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.changes.group_by import GroupBy
from penstock.engine.expressions.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.flow.key_log import LogReader
from penstock.engine.flow.operator import Counters, pass_time
from penstock.engine.flow.queue import Outlet, Queue, bound_of
from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.keys.keys import INT_MIN, encode_values
from penstock.engine.plan.plan import AggregateNode, FinalGroupNode, SourceNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.window import FOREVER, MAX_TS
from penstock.engine.selects.select import first_bad_row

STEP_ROWS = 32_768

Passed = tuple[NDArray, NDArray]
"""Times, and the frontiers from then on."""


class FinalGroups:
    """See the module's text."""

    def __init__(
        self,
        node: FinalGroupNode,
        queue: Queue,
        reader: KeyReader | LogReader,
        name: str,
        lacking: int | None,
    ) -> None:
        """reader: of the keys of what comes; lacking: the greatest key that had come before."""
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(min(queue.frontier, queue.punctuation))
        self.counters = Counters()
        self.node = node
        self.reader = reader
        self.lacking = lacking
        self.rows_late = 0
        """Rows whose group had been given."""
        self.complete_from: int | None = None
        """From this time on no group lacks rows that came before it began; None: not yet."""
        self._worked_to = self.output.punctuation
        self._rows, self._groups = Queue(INT_MIN), Queue()
        types = [column.type for column in node.columns]
        grouped = AggregateNode(SourceNode("", tuple(types)), node.keys, node.calls, False, node.names)
        self._inner = GroupBy(grouped, self._rows, types, name, "promises")
        self._inner.output.queues.append(self._groups)
        self._note_complete()

    def step(self, quantum: int) -> bool:
        bound = bound_of(self.inputs, min(quantum, STEP_ROWS))
        batch = self.inputs[0].take(bound, True)
        if batch is None:
            self._give(*self._read(None, bound))
        else:
            self._take(batch, bound)
        queue = self.inputs[0]
        if queue.closed and not queue.batches:
            self._end()
        return pass_time(self.inputs, self.output) or batch is not None

    def _take(self, batch: Batch, bound: int) -> None:
        """The next rows, which are all up to a time. What comes before a row that fails is worked."""
        try:
            rows = self._columns(batch)
        except DataError:
            bad = first_bad_row(batch, self._columns)
            if bad:
                good = batch.slice(0, bad)
                self._enter(good, self._columns(good), int(good.ts[-1]))
            self._columns(batch.slice(bad, bad + 1))
            raise
        self._enter(batch, rows, bound)

    def _columns(self, batch: Batch) -> tuple[NDArray, list[pa.Array]]:
        """Positions of the rows that take part, and their keys and arguments."""
        there, rows = np.arange(batch.length), batch
        if self.node.predicate is not None:
            there = selected(evaluate_predicate(self.node.predicate, batch.column, batch.length))
            rows = batch.take(there)
        return there, [evaluate(column, rows.column, rows.length) for column in self.node.columns]

    def _read(self, batch: Batch | None, bound: int) -> Passed:
        """How far keys have come with the next rows, which are all up to a time."""
        if isinstance(self.reader, LogReader):
            return self.reader.read(bound)
        if batch is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return batch.ts, self.reader.read(batch.length).frontiers

    def _enter(self, batch: Batch, rows: tuple[NDArray, list[pa.Array]], bound: int) -> None:
        """Rows enter their groups; groups that the frontier passes are given."""
        there, arrays = rows
        self.counters.took(batch.length)
        start = self.reader.now
        ts, frontiers = self._read(batch, bound)
        # 1. who is in time
        key = arrays[0]
        codes, valid = np.ascontiguousarray(encode_values(key, self.node.columns[0].type)), valid_bytes(key)
        came = there if not isinstance(self.reader, LogReader) else ts.searchsorted(batch.ts[there])
        before = np.concatenate([np.array([start]), frontiers])[came]
        late = (codes < before) & (valid > 0)
        self.rows_late += int(np.count_nonzero(late))
        # 2. into the groups, until the frontier comes behind their keys
        kept = np.flatnonzero(~late)
        if len(kept):
            outside = (codes[kept] <= -MAX_TS) | (codes[kept] >= MAX_TS)
            if bool((outside & (valid[kept] > 0)).any()):
                raise DataError("Expected keys between -2^62 and 2^62 in GROUP BY a column that is ORDERED")
            ends = np.where(valid[kept] > 0, codes[kept] + 1, FOREVER)
            at = np.full(len(kept), max(start, -MAX_TS))
            positions = pa.array(kept)
            self._rows.put(Batch(at, [array.take(positions) for array in arrays], None, ends))
            self._rows.promise(int(at[0]))
            self._work()
            self._groups.clear()
        self._worked_to = int(batch.ts[-1])
        # 3. out of them
        self._give(ts, frontiers)

    def _work(self) -> None:
        while self._inner.step(STEP_ROWS):
            pass

    def _give(self, ts: NDArray, frontiers: NDArray) -> None:
        """What the groups said last whose keys have been passed."""
        if not len(frontiers):
            return
        if frontiers[-1] > max(self._rows.punctuation, -MAX_TS):
            self._rows.promise(min(int(frontiers[-1]), MAX_TS))
            self._work()
            for batch in self._taken():
                self._put(batch, ts[frontiers.searchsorted(batch.ts)])
        self._note_complete()

    def _taken(self) -> list[Batch]:
        """What has left the groups: rows of them whose ts is behind the group's key."""
        batches = list(self._groups.batches)
        self._groups.clear()
        assert all(batch.sign is not None and int(batch.sign.max()) < 0 for batch in batches), "a group stays"
        return batches

    def _put(self, batch: Batch, ts: NDArray) -> None:
        self.counters.gave(batch.length)
        self.output.put(Batch(ts, batch.lazy_columns))

    def _end(self) -> None:
        """Nothing more comes: all groups are complete, those without a key behind the others."""
        if self.output.closed:
            return
        now = self.inputs[0].punctuation
        self._rows.promise(MAX_TS)
        self._work()
        for batch in self._taken():
            self._put(batch, np.full(batch.length, now))
        rest = self._inner.content()
        if rest.length:
            self._put(rest, np.full(rest.length, now))
        self._inner.forget()

    def _note_complete(self) -> None:
        if self.complete_from is None and (self.lacking is None or self.lacking < self.reader.now):
            self.complete_from = self._worked_to + 1

    def stop(self) -> None:
        """Nobody asks any more."""
        self.reader.leave()

    @property
    def groups(self) -> int:
        """Groups that are open."""
        return self._inner.answer_rows

    @property
    def state_rows(self) -> int:
        return self._inner.state_rows

    @property
    def state_bytes(self) -> int:
        return self._inner.state_bytes

    def _check(self) -> None:
        self._inner._check()

    def _check_restored(self) -> None:
        expect(0 < self.node.keys <= len(self.node.columns), "a key of the groups")
        expect(not self._rows.batches and not self._groups.batches, "no rows on their way")
