"""Window join of two streams.

In:      rows of both sides, each in time order.
Out:     for every pair that satisfies the key condition while both rows are in their windows, one row at the
         later of the two times: the left's columns, then the right's.
Kept:    each side's live rows (store) and their keys (index).
Dropped: a row when no row still to come can meet it, known from both inputs' punctuations.

A batch is worked off in two independent directions: the left's rows probe the right's index, in which the
right's rows of the batch are inserted as their turn comes, and the other way round. Each direction has the
index that suits it. Pairs of the two directions are merged by time. Law: a pair is found by the later of its
rows; of rows with one ts in one batch, by the left's.

Within RANGE windows a row can be worked as soon as both inputs have reached its ts. A ROWS window is only
known once its instant is over, so then rows wait until both inputs have passed their ts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS, Batch, Gather
from ..buffer import RowBuffer
from ..evaluate import evaluate, evaluate_predicate, selected
from ..indexes.build import build_index
from ..indexes.index import Probes
from ..kernels.bounds import first_alive, first_places, meet, silence_displaced
from ..kernels.keys import keep_equal, keep_equal_text
from ..kernels.merge import merge_pairs
from ..keys import INT_MAX, INT_MIN, combine, encode_values, is_hashed, seek
from ..operator import Counters
from ..plan import EQUALITY, Band, JoinNode, SideNode
from ..queue import Outlet, Queue, bound_of, instants_of
from ..store import FixedColumn, Store, TextColumn, valid_bytes
from ..types import SqlType
from ..window import MAX_TS, Window

STEP_ROWS = 32_768  # of one side worked at once: what they need stays in the cache
MIN_PAIRS = 1_024
MAX_TEXT_BYTES = 1 << 30  # in one batch of pairs: Arrow's strings end at twice that
MAX_PAIRS = 32_768  # of one direction in flight: bounds the output buffer whatever one probe may match


class Side:
    """One input of the join: its queue, its live rows, their index."""

    def __init__(self, node: SideNode, types: tuple[SqlType, ...], queue: Queue, band: Band | None) -> None:
        self.node = node
        self.queue = queue
        self.band = band
        """What a row of this side seeks on the other: other key - own key."""
        self.types = types
        self.key_types = tuple(key.type for key in node.keys)
        stored = [types[i] for i in node.columns]
        self.verify: tuple[int, ...] = ()
        if is_hashed(self.key_types):
            self.verify = tuple(range(len(stored), len(stored) + len(node.keys)))
            stored += [t if t is SqlType.VARCHAR else SqlType.BIGINT for t in self.key_types]
        self.store = Store(stored)
        self.index = build_index(node.index)
        self.window: Window = node.window
        self.size = INT_MAX if node.window.size is None else node.window.size
        self.rows_in = 0
        self.found = 0
        """Pairs found by probing this side."""
        self.met = 0
        """Live rows of this side that its probers could have matched: found / met is the selectivity."""
        self.first_ts: int | None = None
        self.last_ts = 0
        # a ROWS window counts all rows of the stream, also those that are not stored
        self.places = RowBuffer("int64")
        self.come = 0
        self.filled_ts: int | None = None
        """When as many rows had come as a ROWS window holds."""
        # rows of the batch being worked
        self.come_ts: NDArray = NO_ROWS
        self.first_row = 0
        self.ts: NDArray = NO_ROWS
        self.low: NDArray = NO_ROWS
        self.high: NDArray = NO_ROWS

    def arrive(self, batch: Batch | None) -> None:
        """Store the rows of a batch that can meet others, and settle what they seek."""
        self.first_row = self.store.ts.end
        self.come += len(self.come_ts)
        if batch is None:
            self.come_ts = self.ts = self.low = self.high = NO_ROWS
            return
        self.rows_in += batch.length
        self.first_ts = int(batch.ts[0]) if self.first_ts is None else self.first_ts
        self.last_ts = int(batch.ts[-1])
        self.come_ts = batch.ts
        # 1. rows that take part
        there: NDArray | None = None
        if self.node.predicate is not None:
            there = selected(evaluate_predicate(self.node.predicate, batch.column, batch.length))
            batch = batch if len(there) == batch.length else batch.take(there)
        keys = [evaluate(key, batch.column, batch.length) for key in self.node.keys]
        if any(key.null_count for key in keys):  # a NULL key meets nothing
            known = np.flatnonzero(np.logical_and.reduce([valid_bytes(key) for key in keys]))
            there = known if there is None else there[known]
            batch = batch.take(known)
            positions = pa.array(known)
            keys = [key.take(positions) for key in keys]
        self.ts = batch.ts
        if self.window.kind == "rows":
            places = np.arange(len(self.come_ts)) if there is None else there
            self.places.append(places + self.come)
            if self.filled_ts is None and self.come + len(self.come_ts) >= self.size:
                self.filled_ts = int(self.come_ts[self.size - self.come - 1])
        # 2. what they seek, and what they are found by
        codes = [encode_values(key, type_) for key, type_ in zip(keys, self.key_types, strict=True)]
        if self.band is None:
            self.low = np.full(batch.length, INT_MIN)
            self.high = np.full(batch.length, INT_MAX)
            own = np.zeros(batch.length, np.int64)
        else:
            own = combine(codes)
            if self.band == EQUALITY:
                self.low = self.high = own
            else:
                self.low, self.high = seek(keys[0], self.key_types[0], self.band)
        # 3. keep
        arrays = [batch.column(i) for i in self.node.columns]
        if self.verify:
            arrays += [
                key if type_ is SqlType.VARCHAR else pa.array(code)
                for key, code, type_ in zip(keys, codes, self.key_types, strict=True)
            ]
        self.store.append(batch.ts, arrays)
        self.index.extend(own)

    def silence(self) -> None:
        """Rows of a ROWS window displaced at their own instant were never there: they seek nothing."""
        if self.window.kind == "rows" and len(self.ts):
            self.low, self.high = self.low.copy(), self.high.copy()
            places = self.places.live[-len(self.ts) :]
            silence_displaced(self.ts, places, self.come_ts, self.come, self.size, self.low, self.high)

    def probes_by(self, other: Side, row_until: NDArray) -> Probes:
        """The work of `other`'s new rows probing this side, of which each sees the rows below row_until."""
        row_from = np.empty(len(row_until), np.int64)
        ts = self.store.ts
        if self.window.kind == "rows":
            seen = first_places(
                other.ts, row_until, self.places.data, self.places.base, ts.tail,
                self.come_ts, self.come, self.size, row_from,
            )  # fmt: skip
        elif self.window.size is None:
            row_from.fill(ts.tail)
            seen = row_until.sum() - row_from.sum()
        else:
            seen = first_alive(other.ts, row_until, self.size, ts.data, ts.base, ts.tail, ts.end, row_from)
        self.met += int(seen)
        return Probes(other.low, other.high, row_from, row_until, ts.end)

    def expire(self, now: int) -> None:
        """Drop what no row at `now` or later can meet."""
        ts = self.store.ts
        if self.window.kind == "rows":
            come = self.come + len(self.come_ts)
            tail = self.places.tail + int(self.places.live.searchsorted(come - self.size))
            self.places.drop(tail)
        elif self.window.size is None:
            return
        else:
            tail = ts.tail + int(ts.live.searchsorted(now - self.size, side="right"))
        if tail > ts.tail:
            self.store.drop(tail)
            self.index.purge(tail)

    def reindex(self, kind: str) -> None:
        """Change the index, keeping what it holds; between batches only."""
        self.index = build_index(kind, self.store.ts.tail, self.index.keys)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.index.nbytes + (self.places.nbytes if self.places.end else 0)

    def _check(self) -> None:
        self.store._check()
        self.index._check()
        assert len(self.index.keys) == len(self.store), "index and store hold different rows"


class Direction:
    """One side's new rows probing the other side: pairs found and not yet passed on."""

    def __init__(self) -> None:
        self.prober = np.empty(MIN_PAIRS, np.int64)
        self.row = np.empty(MIN_PAIRS, np.int64)
        self.at = self.count = 0
        self.probes: Probes | None = None

    def begin(self, probes: Probes) -> None:
        self.probes = probes
        self.at = self.count = 0

    def fill(self, probed: Side) -> None:
        """Find more pairs if all found so far have been passed on."""
        assert self.probes is not None, "no batch is being worked"
        if self.at < self.count or self.probes.done:
            return
        if self.count == len(self.row) < MAX_PAIRS:
            self.prober, self.row = (np.empty(2 * self.count, np.int64) for _ in range(2))
        self.at = 0
        self.count = probed.index.run(self.probes, self.prober, self.row, False)
        probed.found += self.count

    @property
    def done(self) -> bool:
        return self.probes is None or self.probes.done


class WindowJoin:
    """Joins two inputs; see the module's text."""

    def __init__(
        self,
        node: JoinNode,
        types: tuple[tuple[SqlType, ...], tuple[SqlType, ...]],
        queues: tuple[Queue, Queue],
        name: str,
        counting: bool,
    ) -> None:
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(queue.punctuation for queue in queues))
        self.counters = Counters()
        self.condition = band = node.condition
        self.left = Side(node.left_side, types[0], queues[0], band)
        self.right = Side(node.right_side, types[1], queues[1], None if band is None else band.mirrored())
        self._instants = "rows" in (self.left.window.kind, self.right.window.kind)
        self._counting = counting and not self.left.verify
        self._count_after = counting and not self._counting
        self._by_left = Direction()
        self._by_right = Direction()
        self._working = False
        self._now = self.output.punctuation

    def step(self, quantum: int) -> bool:
        if not self._working and not self._begin(min(quantum, STEP_ROWS)):
            return self._pass_time()
        # 1. find  2. merge by time  3. pass on
        if self._counting:
            self._count()
        else:
            self._by_left.fill(self.right)
            self._by_right.fill(self.left)
            self._merge()
        if self._by_left.done and self._by_right.done and not self._pending:
            self._working = False
            self._pass_time()
        return True

    @property
    def _pending(self) -> int:
        left, right = self._by_left, self._by_right
        return left.count - left.at + right.count - right.at

    def _begin(self, rows: int) -> bool:
        """Take the next rows both inputs have reached, about `rows` of each; False if there are none."""
        bound = (instants_of if self._instants else bound_of)(self.inputs, rows)
        taken = [queue.take(bound, not self._instants) for queue in self.inputs]
        if taken[0] is None and taken[1] is None:
            return False
        for side, batch in zip((self.left, self.right), taken, strict=True):
            side.arrive(batch)
            self.counters.rows_in += 0 if batch is None else batch.length
        for side in (self.left, self.right):
            side.silence()
        left, right = self.left, self.right
        seen_by_left, seen_by_right = np.empty(len(left.ts), np.int64), np.empty(len(right.ts), np.int64)
        meet(left.ts, right.ts, left.first_row, right.first_row, seen_by_left, seen_by_right)
        self._by_left.begin(right.probes_by(left, seen_by_left))
        self._by_right.begin(left.probes_by(right, seen_by_right))
        self._working = True
        return True

    def _count(self) -> None:
        nothing = NO_ROWS
        found = 0
        for direction, probed in ((self._by_left, self.right), (self._by_right, self.left)):
            assert direction.probes is not None, "no batch is being worked"
            pairs = probed.index.run(direction.probes, nothing, nothing, True)
            probed.found += pairs
            found += pairs
        self._emit(Batch.counted(found))

    def _merge(self) -> None:
        a, b, left, right = self._by_left, self._by_right, self.left, self.right
        room = self._pending
        if not room:
            return
        ts, left_rows, right_rows = (np.empty(room, np.int64) for _ in range(3))
        count, a.at, b.at = merge_pairs(
            a.prober, a.row, a.at, a.count, a.done, left.ts, left.first_row,
            b.prober, b.row, b.at, b.count, b.done, right.ts, right.first_row,
            ts, left_rows, right_rows,
        )  # fmt: skip
        if count < room:
            ts, left_rows, right_rows = ts[:count], left_rows[:count], right_rows[:count]
        if left.verify:
            keep = self._verified(left_rows, right_rows)
            if len(keep) < count:
                ts, left_rows, right_rows = ts[keep], left_rows[keep], right_rows[keep]
        if self._count_after:
            self._emit(Batch.counted(len(ts)))
            return
        columns = [
            Gather(side.store.columns[k].view(), rows)
            for side, rows in ((left, left_rows), (right, right_rows))
            for k in range(len(side.node.columns))
        ]
        self._emit_within(Batch(ts, columns))

    def _emit_within(self, pairs: Batch) -> None:
        """Pass pairs on in batches whose text Arrow can address."""
        if pairs.length > 1 and pairs.text_bytes > MAX_TEXT_BYTES:
            half = pairs.length // 2
            self._emit_within(pairs.slice(0, half))
            self._emit_within(pairs.slice(half, pairs.length))
        else:
            self._emit(pairs)

    def _verified(self, left_rows: NDArray, right_rows: NDArray) -> NDArray:
        """Positions of the pairs whose keys, found equal by hash, are equal."""
        keep = np.ones(len(left_rows), np.uint8)
        for i, j in zip(self.left.verify, self.right.verify, strict=True):
            a, b = self.left.store.columns[i], self.right.store.columns[j]
            if isinstance(a, TextColumn) and isinstance(b, TextColumn):
                keep_equal_text(
                    a.starts.data, a.starts.base, a.data.data, a.data.base, left_rows,
                    b.starts.data, b.starts.base, b.data.data, b.data.base, right_rows, keep,
                )  # fmt: skip
            else:
                assert isinstance(a, FixedColumn) and isinstance(b, FixedColumn), "keys of two kinds"
                keep_equal(
                    a.values.data, a.values.base, left_rows, b.values.data, b.values.base, right_rows, keep
                )
        return np.flatnonzero(keep)

    def _emit(self, batch: Batch) -> None:
        self.counters.rows_out += batch.length
        self.output.put(batch)

    def _pass_time(self) -> bool:
        """Expire and promise as far as both inputs have come; False if that is no further than before."""
        now = min(queue.frontier for queue in self.inputs)
        moved = self._now < now < MAX_TS
        if moved:
            self._now = now
            self.left.expire(now)
            self.right.expire(now)
            self.output.promise(now)
        if now == MAX_TS and not self.output.closed:
            self.output.close()
            moved = True
        return moved

    @property
    def state_rows(self) -> int:
        return len(self.left.store) + len(self.right.store)

    @property
    def state_bytes(self) -> int:
        return self.left.nbytes + self.right.nbytes

    def _check(self) -> None:
        if not self._working:
            self.left._check()
            self.right._check()
