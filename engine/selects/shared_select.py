"""Filters of many queries over one stream, every distinct condition looked at once per row.

In:   rows of the stream.
Out:  to each query the rows that satisfy its predicate, in the same order, with the columns it asked for;
      expressions over them are for a Select behind. What is only counted is counted here.
Kept: nothing but counts.

Queries with equal predicates are a lane. A row's lanes are found in time that grows with their number, not
with that of all: the row's tags (see lineage.py) say where its values lie among the constants, and from
there the lanes are listed (see query_index.py). A lane whose condition has no interval is the rows that have
its bit.

A predicate that fails on the data ends its queries at the first row on which it does, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Expression, conjunction, conjuncts
from penstock.engine.flow.operator import Counters, Stateless, pass_time
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.kernels.joins.shared_select import count_bit, find_bit, gather_rows, report_rows
from penstock.engine.members.lineage import Demand, Lineage, Tags
from penstock.engine.members.query_index import QueryIndex, split_by_member
from penstock.engine.members.reader import Reader
from penstock.engine.plan.plan import SharedSelectNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.results.sink import Sink
from penstock.engine.rows.batch import Batch, ColumnView, Gather
from penstock.engine.rows.store import fixed_values, text_buffers

MAX_ENTRIES = 1 << 20  # rows times lanes sorted out at once
TIMES = pa.timestamp("us")
BLOCK_BYTES = 1 << 17  # of rows for several queries: what one of them that nobody reads holds on to


@dataclass(eq=False)
class Share(Reader):
    """What one query takes of a stream: rows that satisfy the predicate, some of their columns."""

    node: SharedSelectNode
    number: int = 0
    """Of the node in the query's plan."""
    sink: Sink | None = None
    """Where the rows go if there is no operator between."""
    predicate: Expression | None = None
    """That of the node, or a narrower one for who came while rows were waiting."""

    def __post_init__(self) -> None:
        self.predicate = self.node.common_predicate

    def run_alone(self, output: Outlet) -> None:
        """A select of its own does its work, and its sink counts."""
        self.counting, self.output = False, output

    def go_over(self, counting: bool) -> None:
        """It is run with others from now on."""
        self.counting, self.output = counting, Outlet()

    @property
    def timed(self) -> bool:
        """Whether whoever gets the rows has to know how far time has come, as a union does and a sink does
        not."""
        return self.number > 0

    @property
    def columns(self) -> tuple[int, ...]:
        return self.node.columns

    def narrow(self, more: Expression) -> None:
        """It takes only rows that satisfy this as well."""
        self.predicate = conjunction((*conjuncts(self.predicate), more))

    def count(self, rows: int) -> None:
        """So many more rows are its."""
        self.found += rows


@dataclass(frozen=True, eq=False)
class Format:
    """What a sink keeps: these columns of the stream, as record batches of this schema. One for all alike."""

    columns: tuple[int, ...]
    schema: pa.Schema


class Lane:
    """Queries with one predicate: those that only count, and the others by what they take.

    delivered: to other operators, by columns. kept: by sinks, by format.
    """

    __slots__ = ("counted", "delivered", "kept", "pending", "predicate")

    def __init__(self, predicate: Expression | None) -> None:
        self.predicate = predicate
        self.counted: list[Share] = []
        self.delivered: dict[tuple[int, ...], list[Share]] = {}
        self.kept: dict[Format, list[tuple[Share, Sink]]] = {}
        self.pending = 0
        """Rows counted here and not settled; below 0 where the index has counted too many."""

    def add(self, share: Share, form: Format | None) -> None:
        if share.counting:
            self.counted.append(share)
        elif form is None or share.sink is None:
            self.delivered.setdefault(share.columns, []).append(share)
        else:
            self.kept.setdefault(form, []).append((share, share.sink))

    def count(self, rows: int) -> None:
        """So many more rows are those of the queries that only count; below 0: so many fewer."""
        self.pending += rows

    def settle(self) -> int:
        """Tell the queries that only count; how many rows they have together."""
        rows, self.pending = self.pending, 0
        for share in self.counted if rows else ():
            share.count(rows)
        return rows * len(self.counted)

    @property
    def shares(self) -> list[Share]:
        kept = [share for pairs in self.kept.values() for share, _ in pairs]
        return [*self.counted, *(share for shares in self.delivered.values() for share in shares), *kept]


class Stretch(NamedTuple):
    """The rows of a lane: from `begin` to `end` of some row numbers."""

    lane: Lane
    begin: int
    end: int


class RowIndex(QueryIndex):
    """Which lanes a row belongs to: to the index it is a pair with one side only, age 0 in windows of 1."""

    def __init__(self, demands: Demand, leaf_counts: Sequence[int]) -> None:
        """`demands`: one row per lane."""
        lanes, words = demands.bits.shape
        windows, sides = np.ones((2, lanes), np.int64), [0] * len(leaf_counts)
        super().__init__(
            windows, demands.low, demands.high, demands.bits, leaf_counts, sides, [0] * words
        )  # fmt: skip

    def is_of(self, lanes: int, leaf_counts: Sequence[int], words: int) -> bool:
        """Whether there are so many lanes, and rows that are looked up have tags like these."""
        known = self._leaf_counts.tolist(), len(self._word_sides)
        return len(self._members.low) == lanes and known == (list(leaf_counts), words)

    def report_rows(self, tags: Tags, start: int, out_lane: NDArray, out_row: NDArray) -> tuple[int, int]:
        """Write one entry (int32, int32) for each lane of each row from `start` on, in order of rows.

        Returns (entries written, next row): it stops before a row whose entries do not fit. Room for all
        lanes is enough for a row.
        """
        self._file()
        count, row = report_rows(
            tags.leaves, tags.words, self._members, self._filing, start, out_lane, out_row
        )  # fmt: skip
        return int(count), int(row)


class Directory:
    """Where to find the lanes of a row: those that take every row, those of a bit, those in the index."""

    def __init__(self, lanes: Sequence[Lane], lineage: Lineage) -> None:
        demands = lineage.demands([lane.predicate for lane in lanes])
        last_leaves = np.array(lineage.leaf_counts, np.int32) - 1
        has_interval = ((demands.low > 0) | (demands.high < last_leaves)).any(axis=1)
        has_bit = (demands.bits != 0).any(axis=1)
        filed = np.flatnonzero(has_interval)
        self.filed = [lanes[i] for i in filed.tolist()]
        self.whole = [lanes[i] for i in np.flatnonzero(~has_interval & ~has_bit).tolist()]
        self.by_bit: list[tuple[Lane, int, np.int64]] = []
        for i in np.flatnonzero(~has_interval & has_bit).tolist():
            word = int(np.flatnonzero(demands.bits[i])[0])
            self.by_bit.append((lanes[i], word, demands.bits[i, word]))
        self.index: RowIndex | None = None
        if len(filed):
            own = Demand(demands.low[filed], demands.high[filed], demands.bits[filed])
            self.index = RowIndex(own, lineage.leaf_counts)


class SharedSelect(Stateless):
    """Stateless but for counts: what comes in goes out at once."""

    def __init__(self, queue: Queue, name: str, on_failure: Callable[[Share, Exception], None]) -> None:
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self.members: list[Share] = []
        self._timed: list[Share] = []
        self._on_failure = on_failure  # told of a query that was dropped because its predicate failed
        self._is_stale = False
        self._lineage = Lineage(())
        self._lanes: dict[Expression | None, Lane] = {}
        self._formats: dict[tuple[tuple[int, ...], tuple[str, ...]], Format] = {}
        self._counting = self._delivering = Directory((), self._lineage)
        self._no_ages = np.zeros(0, np.int64)
        self._entries = np.empty((2, 0), np.int32)

    # -- members ------------------------------------------------------------------------------------

    def add(self, share: Share) -> None:
        """Let a query in, when nothing is in the queue: it takes part from the next row on."""
        assert not self.inputs[0].batches, "a query would get rows from before it came"
        self._admit(share)

    def _admit(self, share: Share) -> None:
        self.members.append(share)
        if share.timed:
            self._timed.append(share)
        self._is_stale = True

    def drop(self, share: Share) -> None:
        """Let a query go."""
        self.settle()
        self.members.remove(share)
        if share.timed:
            self._timed.remove(share)
        self._is_stale = True

    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""
        if not self._is_stale:
            return
        self._is_stale = False
        self.settle()
        self._lanes, self._formats = {}, {}
        for share in self.members:
            lane = self._lanes.get(share.predicate)
            if lane is None:
                lane = self._lanes[share.predicate] = Lane(share.predicate)
            lane.add(share, self._format(share))
        self._lineage = Lineage(self._lanes, self._lineage)
        numbers = {form: number for number, form in enumerate(self._formats.values())}
        # lanes with the same formats one after the other: their rows are laid out together
        lanes = sorted(self._lanes.values(), key=lambda lane: [numbers[form] for form in lane.kept])
        self._counting = Directory([lane for lane in lanes if lane.counted], self._lineage)
        self._delivering = Directory([lane for lane in lanes if lane.delivered or lane.kept], self._lineage)

    def _format(self, share: Share) -> Format | None:
        """What the query's sink keeps, None if the rows do not go there."""
        if share.sink is None:
            return None
        schema = share.sink.schema
        key = share.columns, tuple(schema.names)
        if key not in self._formats:
            self._formats[key] = Format(share.columns, schema)
        return self._formats[key]

    def settle(self) -> None:
        """Bring the counts of the queries that only count up to date."""
        here = self._counting
        if here.index is not None:
            for lane, count in zip(here.filed, here.index.settle().tolist(), strict=True):
                lane.count(count)
        self.counters.gave(sum(lane.settle() for lane in self._lanes.values()))

    # -- a batch ------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        while queue.batches and quantum > 0:
            self.refresh()
            batch = queue.pop()
            quantum -= batch.length
            self.counters.took(batch.length)
            self._select(batch)
            worked = True
        return self._pass_time() or worked

    def _select(self, batch: Batch) -> None:
        # 1. tag  2. count  3. pass on  4. stop who failed, last: others may come and go thereby
        tags, failures = self._lineage.tag(batch.column, batch.length)
        ends = {failure.predicate: failure.row for failure in failures}
        self._count(tags, batch.length, ends)
        self._deliver(batch, tags, ends)
        failed = [(share, one.error) for one in failures for share in self._lanes[one.predicate].shares]
        for share, _ in failed:
            self.drop(share)
        for share, error in failed:
            self._on_failure(share, error)

    def _count(self, tags: Tags, length: int, ends: dict[Expression | None, int]) -> None:
        here = self._counting
        for lane in here.whole:
            lane.count(length)
        for lane, word, bit in here.by_bit:
            lane.count(int(count_bit(tags.words[word], bit)))
        if here.index is not None:
            here.index.count(0, self._ages(length), None, tags.leaves, tags.words)
        for predicate, end in ends.items():
            lane = self._lanes[predicate]
            if lane.counted:
                lane.count(-count_from(tags, self._lineage.demand(predicate), end))

    def _deliver(self, batch: Batch, tags: Tags, ends: dict[Expression | None, int]) -> None:
        here = self._delivering
        parts = Parts(batch)
        for lane in here.whole:
            self._pass_on(parts, [Stretch(lane, 0, batch.length)], None)
        if here.by_bit:
            room = np.empty(batch.length, np.int32)
            for lane, word, bit in here.by_bit:
                rows = room[: find_bit(tags.words[word], bit, room)].copy()
                self._pass_on(parts, cut([Stretch(lane, 0, len(rows))], rows, ends), rows)
        if here.index is None:
            return
        most = len(here.filed)
        lanes, rows = self._room(max(most, min(MAX_ENTRIES, batch.length * most)))
        start = 0
        while start < batch.length:
            count, start = here.index.report_rows(tags, start, lanes, rows)
            ids, starts, by_lane = split_by_member(lanes[:count], rows[:count], most)
            bounds = starts.tolist()
            found = map(here.filed.__getitem__, ids.tolist())
            stretches = list(map(Stretch, found, bounds, bounds[1:]))
            self._pass_on(parts, cut(stretches, by_lane, ends), by_lane)

    def _pass_on(self, parts: Parts, stretches: list[Stretch], rows: NDArray | None) -> None:
        """Give the queries of each lane their stretch of `rows`, positions in the batch; None: all."""
        # 1. to other operators, which may never read the columns
        by_format: dict[Format, list[Stretch]] = {}
        for stretch in stretches:
            for columns, shares in stretch.lane.delivered.items():
                self._put(shares, parts.take(rows, stretch, columns))
            for form in stretch.lane.kept:
                by_format.setdefault(form, []).append(stretch)
        # 2. to sinks, several lanes out of one block
        for form, own in by_format.items():
            for block in blocks_of(own, parts.rows_within(form, BLOCK_BYTES)):
                self._keep(block, parts.record_batch(rows, block[0].begin, block[-1].end, form), form)

    def _put(self, shares: list[Share], rows: Batch) -> None:
        self.counters.gave(rows.length * len(shares))
        for share in shares:
            share.count(rows.length)
            share.output.put(rows)

    def _keep(self, block: list[Stretch], rows: pa.RecordBatch, form: Format) -> None:
        """Leave each stretch with its sinks; what subscribers do with it must wait until we are done."""
        first = block[0].begin
        for lane, begin, end in block:
            own, length = rows.slice(begin - first, end - begin), end - begin
            self.counters.gave(length * len(lane.kept[form]))
            for share, sink in lane.kept[form]:
                share.count(length)
                if sink.subscribers or sink.inputs[0].batches:
                    share.output.put(Batch(fixed_values(own.column(0)), own.columns[1:]))
                else:
                    sink.counters.took(length)
                    sink._deliver(own)

    def _ages(self, length: int) -> NDArray:
        if len(self._no_ages) < length:
            self._no_ages = np.zeros(length, np.int64)
        return self._no_ages[:length]

    def _room(self, entries: int) -> NDArray:
        """Room for as many (lane, row), int32[2, entries] or more; the same from batch to batch."""
        if self._entries.shape[1] < entries:
            self._entries = np.empty((2, entries), np.int32)
        return self._entries

    # -- time ---------------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        if not pass_time(self.inputs, self.output):
            return False
        for share in self._timed:
            share.output.promise(self.output.punctuation)
        if self.output.closed:
            for share in self.members:
                share.output.close()
        return True

    def _check_restored(self) -> None:
        """Ages and entries are room that is filled when it is needed."""
        self._no_ages, self._entries = np.zeros(0, np.int64), np.empty((2, 0), np.int32)
        for here in (self._counting, self._delivering):
            if here.index is not None:
                lineage = self._lineage
                expect(
                    here.index.is_of(len(here.filed), lineage.leaf_counts, lineage.words), "an index of lanes"
                )
            for _, word, _ in here.by_bit:
                expect(0 <= word < self._lineage.words, "words of tags")

    def _check(self) -> None:
        self.refresh()
        assert sorted(map(id, self.members)) == sorted(
            id(share) for lane in self._lanes.values() for share in lane.shares
        ), "a query is in no lane, or in two"
        for here in (self._counting, self._delivering):
            if here.index is not None:
                here.index._check()


class Parts:
    """The rows of a batch for those who take part of them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._views: dict[int, CommonColumn] = {}

    def take(self, rows: NDArray | None, stretch: Stretch, columns: Sequence[int]) -> Batch:
        """A stretch of the rows, with these columns, which are copied when somebody reads them."""
        if rows is None or stretch.end - stretch.begin == self._batch.length:
            return self._batch.select(columns)
        own = rows[stretch.begin : stretch.end]
        ts = np.frombuffer(gather(self._batch.ts, own), np.int64)
        return Batch(ts, [Gather(self._view(column), own) for column in columns])

    def record_batch(self, rows: NDArray | None, begin: int, end: int, form: Format) -> pa.RecordBatch:
        """The rows from `begin` to `end`, as sinks keep them."""
        views = [self._view(column) for column in form.columns]
        if rows is None:
            ts, columns = pa.py_buffer(self._batch.ts), [view.array for view in views]
            times = pa.Array.from_buffers(TIMES, self._batch.length, [None, ts])
        else:
            own = rows[begin:end]
            times = pa.Array.from_buffers(TIMES, len(own), [None, gather(self._batch.ts, own)])
            columns = [times if view.is_time else view.take(own) for view in views]
        return pa.RecordBatch.from_arrays([times, *columns], schema=form.schema)

    def rows_within(self, form: Format, size: int) -> int:
        """How many rows, whichever they are, have together at most `size` bytes."""
        return size // (8 + sum(self._view(column).row_bytes for column in form.columns))

    def _view(self, column: int) -> CommonColumn:
        view = self._views.get(column)
        if view is None:
            view = self._views[column] = CommonColumn(self._batch, column)
        return view


class CommonColumn(ColumnView):
    """A column from which many gather a few rows each: what they all need of it is looked up once."""

    @cached_property
    def array(self) -> pa.Array:
        return self.batch.column(self.index)

    @cached_property
    def values(self) -> NDArray | None:
        """Its values, if they are 8 bytes each and none is NULL."""
        array = self.array
        is_plain = not array.null_count and pa.types.is_primitive(array.type) and array.type.bit_width == 64
        return fixed_values(array) if is_plain else None

    @cached_property
    def is_time(self) -> bool:
        """Whether it is the very memory of the rows' times."""
        if self.values is None or self.array.type != TIMES:
            return False
        pointers = [one.__array_interface__["data"][0] for one in (self.values, self.batch.ts)]
        return bool(pointers[0] == pointers[1])

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of the largest value."""
        if not pa.types.is_string(self.array.type):
            return 8
        offsets, _ = text_buffers(self.array)
        return 8 + int(np.diff(offsets).max(initial=0))

    def take(self, rows: NDArray) -> pa.Array:
        values = self.values
        if values is None:
            return self.array.take(pa.array(rows))
        return pa.Array.from_buffers(self.array.type, len(rows), [None, gather(values, rows)])


def gather(values: NDArray, rows: NDArray) -> pa.Buffer:
    """The values (int64) at these rows, in memory of Arrow's: what is given back there is soon used again."""
    buffer = pa.allocate_buffer(8 * len(rows))
    gather_rows(values, rows, np.frombuffer(buffer, np.int64))
    return buffer


def cut(stretches: list[Stretch], rows: NDArray, ends: dict[Expression | None, int]) -> list[Stretch]:
    """The stretches up to where their predicates fail, which `ends` says for those that do."""
    if not ends:
        return stretches
    return [
        Stretch(lane, begin, begin + int(rows[begin:end].searchsorted(ends[lane.predicate])))
        if lane.predicate in ends
        else Stretch(lane, begin, end)
        for lane, begin, end in stretches
    ]


def blocks_of(stretches: list[Stretch], most: int) -> Iterator[list[Stretch]]:
    """Stretches one right after the other, together of at most so many rows unless it is only one."""
    first = 0
    for at in range(1, len(stretches) + 1):
        if (
            at == len(stretches)
            or stretches[at].begin != stretches[at - 1].end
            or stretches[at].end - stretches[first].begin > most
        ):
            yield stretches[first:at]
            first = at


def count_from(tags: Tags, demand: Demand, start: int) -> int:
    """How many rows from `start` on the tags let through."""
    leaves, words = tags.leaves[:, start:], tags.words[:, start:]
    within = (leaves >= demand.low[:, None]) & (leaves <= demand.high[:, None])
    has_bits = (words & demand.bits[:, None]) == demand.bits[:, None]
    return int(np.count_nonzero(within.all(axis=0) & has_bits.all(axis=0)))
