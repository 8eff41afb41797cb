"""GROUP BY: a row per group of equal keys, with aggregates over the rows that are in it.

In: changes of a bag.  Out: per instant, for each group whose row is another one now, the old row as -1 and
the new one as +1, as far as there was or is one.  Kept: see groups.py and aggregates.py.  Dropped: a row's
entry when it is due, a group when nothing is in it.
Without keys there is always one row, which stands before all time (BEGINNING) until rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.heard_time import HeardTime, Learning
from penstock.engine.flow.operator import Counters, pass_time_until
from penstock.engine.flow.queue import Outlet, Queue, bound_of
from penstock.engine.kernels.base.gather import gather
from penstock.engine.kernels.changes.publish import publish
from penstock.engine.plan.plan import AggregateCallNode, AggregateNode
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import Batch, Gather, LazyColumn, View
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import TextView, bitmap
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .aggregates import Aggregate, CountRows, CountValues, Distinct, Extreme, SameSum, Skyline, Sum
from .argument import Argument, grown
from .group_table import NO_INTS, Changes, GroupTable
from .text_extreme import TextArgument, TextExtreme

BURST_BYTES = 1 << 25


class GroupBy:
    """Takes what its input promises, and passes the groups' changes on in bounded batches."""

    _owned: ClassVar[tuple[str, ...]] = ("_last", "_said", "_said_valid")

    def __init__(
        self, node: AggregateNode, queue: Queue, types: Sequence[SqlType], name: str, learning: Learning
    ) -> None:
        self.name = name
        self.inputs = (queue,)
        self.output = Outlet(queue.punctuation)
        self.counters = Counters()
        self._node = node
        self._types = tuple(types)
        self._calls = node.calls
        self._known = HeardTime(learning, self.inputs)
        self._single = node.keys == 0
        self.forget()

    def forget(self) -> None:
        """Begin with nothing in mind."""
        node, types = self._node, self._types
        self._arguments: dict[int, Argument] = {}
        self._distinct: dict[int, Distinct] = {}
        self._sums: dict[tuple[int, bool], Sum] = {}
        self._aggregates = [self._aggregate(call, types) for call in node.calls]
        is_kept = any(argument.is_kept for argument in self._arguments.values())
        self._groups = GroupTable(
            types[: node.keys], single=self._single, rows_only=not node.announced and not is_kept
        )
        calls = len(node.calls)
        self._value = np.empty((calls, 0), np.int64)
        self._valid = np.empty((calls, 0), np.uint8)
        self._last = np.zeros(0, np.int64)
        self._base = 1
        self._said = np.zeros((0, calls), np.int64)
        self._said_valid = np.zeros((0, calls + 1), np.uint8)

    def _aggregate(self, call: AggregateCallNode, types: Sequence[SqlType]) -> Aggregate:
        if call.argument is None:
            return CountRows()
        type_ = types[call.argument]
        if call.function in ("min", "max") and type_ is SqlType.VARCHAR:
            texts = self._arguments[-1 - len(self._arguments)] = TextArgument(call.argument)
            return TextExtreme(texts, call.function == "min")
        is_kept = any(self._asks_what_leaves(one) for one in self._calls if one.argument == call.argument)
        argument = self._arguments.setdefault(call.argument, Argument(call.argument, type_, is_kept))
        if call.function in ("min", "max"):
            kind = Extreme if self._asks_what_leaves(call) else Skyline
            return kind(argument, call.function == "min")
        signs: Argument | Distinct = argument
        if call.distinct:
            signs = self._distinct.setdefault(call.argument, Distinct(argument))
        if call.function == "count":
            return CountValues(signs)
        average = call.function == "avg"
        if (other := self._sums.get((call.argument, call.distinct))) is not None:
            return SameSum(other, average)
        made = Sum(argument, signs, average)
        if type_ is SqlType.DOUBLE:
            self._sums[call.argument, call.distinct] = made
        return made

    def _asks_what_leaves(self, call: AggregateCallNode) -> bool:
        """Whether it wants to know the values of rows as they leave."""
        is_skyline = not self._node.withdrawn or self._node.announced
        return call.function not in ("min", "max") or not is_skyline

    def step(self, quantum: int) -> bool:
        worked, goes_on = False, not self._groups.is_done
        if self._groups.is_done:
            bound = bound_of(self.inputs, quantum)
            batch = self.inputs[0].take(bound, True)
            self._begin(batch, self._known.learn(bound, [batch]))
            worked = batch is not None
        if not self._groups.is_done:
            self._run()
            worked = True
        if not self._groups.is_done:
            return True
        if worked and not self._single and not self.state_rows and self.state_bytes > BURST_BYTES:
            self.forget()  # a burst is over: give its memory back
        if goes_on:
            return True  # time may have come further meanwhile: what leaves until then comes first
        return pass_time_until(self.inputs, self.output, self._groups.expiry.first) or worked

    def _begin(self, batch: Batch | None, known: int) -> None:
        rows = batch
        if batch is not None and self._node.announced:  # who leaves is told to leave
            rows = Batch(batch.ts, batch.lazy_columns, batch.sign)
        self._groups.begin(rows, known)
        if self._groups.is_done:
            return
        for argument in self._arguments.values():
            argument.begin(batch)
        ets = NO_INTS if batch is None or batch.ets is None else batch.ets
        for aggregate in self._aggregates:
            aggregate.begin(frozen(ets))
        if batch is not None:
            self.counters.took(batch.length)

    def _run(self) -> None:
        # 1. who changed
        groups = self._groups
        changes = groups.run()
        for argument in self._arguments.values():
            if argument.is_kept:
                argument.run(changes, groups.entries)
        for distinct in self._distinct.values():
            distinct.run(changes)
        # 2. what each aggregate is now
        points, failed = changes.points, None
        self._value = np.empty((len(self._calls), 2 * points), np.int64)
        self._valid = np.empty((len(self._calls), 2 * points), np.uint8)
        entering = changes
        if self._node.announced:
            sign, row = changes.sign[: changes.count], changes.row[: changes.count]
            entering = replace(changes, row=np.where(sign > 0, row, np.int32(-1)))
        for number, aggregate in enumerate(self._aggregates):
            seen = entering if isinstance(aggregate, Skyline) else changes
            good = aggregate.run(seen, groups.capacity, self._value[number], self._valid[number])
            if good < points:
                points, failed = good, self._calls[number]
        if failed is not None:
            points = int(np.searchsorted(changes.point_ts[:points], changes.point_ts[points]))
        # 3. what that is to others
        if points:
            self._publish(changes, points)
        groups.compact()
        if groups.is_done:
            for number, aggregate in enumerate(self._aggregates):
                if isinstance(aggregate, TextExtreme):
                    aggregate.compact(groups, self._said[:, number])
        if failed is not None:
            raise DataError(f"int64 overflow in `{failed.function.upper()}`")

    def _publish(self, changes: Changes, points: int) -> None:
        groups = self._groups
        if len(self._said) < groups.capacity:
            self._said = grown(self._said, groups.capacity)
            self._said_valid = grown(self._said_valid, groups.capacity)
            self._last = grown(self._last, groups.capacity)
        room = 2 * points
        ts, sign, rows = np.empty(room, np.int64), np.empty(room, np.int8), np.empty(room, np.int64)
        key = np.empty(room, np.int64)
        count = publish(
            (changes.point_ts, changes.point_slot, changes.point_rows, changes.point_key, points),
            self._value, self._valid, key, (self._last, self._said, self._said_valid), self._base,
            self._single, (ts, sign, rows),
        )  # fmt: skip
        self._base += room + 1
        if count:
            rows = rows[:count]
            columns: list[LazyColumn] = [Gather(view, rows) for view in groups.key_views(key)]
            columns += [
                Gather(self._view(number, self._value[number], self._valid[number]), rows)
                for number in range(len(self._calls))
            ]
            self.counters.gave(count)
            self.output.put(Batch(ts[:count], columns, sign[:count]))

    def _view(self, number: int, value: NDArray, valid: NDArray) -> View:
        """What one call says at points."""
        aggregate = self._aggregates[number]
        if isinstance(aggregate, TextExtreme):
            return TextPointView(value, valid, aggregate.view())
        return PointView(value, valid, self._calls[number].type)

    def content(self) -> Batch:
        """What it has said: a row per group."""
        slots = np.flatnonzero(self._said_valid[:, -1])
        places = np.arange(len(slots))
        columns = self._groups.keys(self._groups.key_rows(slots))
        for number in range(len(self._calls)):
            said, valid = self._said[slots, number], self._said_valid[slots, number]
            columns.append(Gather(self._view(number, said, valid), places))
        return Batch(np.zeros(len(slots), np.int64), columns)

    @property
    def answer_rows(self) -> int:
        """Rows of its answer: groups that have one."""
        return int(np.count_nonzero(self._said_valid[:, -1]))

    @property
    def state_rows(self) -> int:
        return len(self._groups.expiry) + self._groups.live

    @property
    def state_bytes(self) -> int:
        said = int(self._said.nbytes + self._said_valid.nbytes)
        values = sum(argument.nbytes for argument in self._arguments.values())
        values += sum(distinct.nbytes for distinct in self._distinct.values())
        return self._groups.nbytes + said + values + sum(aggregate.nbytes for aggregate in self._aggregates)

    def _check(self) -> None:
        self._groups._check()
        if self._groups.is_done and not self._groups.live and not self._single:
            assert all(distinct.values == 0 for distinct in self._distinct.values()), "values are left over"

    def _check_restored(self) -> None:
        calls, slots = len(self._calls), len(self._last)
        expect(len(self._aggregates) == calls, "an aggregate for each call")
        expect(self._said.shape == (slots, calls), "what groups have said")
        expect(self._said_valid.shape == (slots, calls + 1), "what groups have said")
        groups = self._groups
        _, ids = groups.expiry.entries()
        for argument in self._arguments.values():
            if isinstance(argument, TextArgument) and not groups.rows_only:
                within(argument.kept(ids)[1], 0, argument.texts, "texts of rows")
            if not groups.is_done:
                expect(len(argument.row_codes[0]) == groups.rows, "values of all rows")
        self._last[:] = 0  # points of the last batch are not kept: `said` has what they said
        self._base = 1


class PointView:
    """What one call said at points: codes, or bits of doubles."""

    __slots__ = ("_type", "_valid", "_values")

    def __init__(self, values: NDArray, valid: NDArray, type_: SqlType) -> None:
        self._values = values
        self._valid = valid
        self._type = type_

    def take(self, rows: NDArray) -> pa.Array:
        values = gather(self._values, 0, rows)
        if self._type is SqlType.BOOLEAN:
            values = np.packbits(values.astype(np.uint8), bitorder="little")
        buffers = [bitmap(gather(self._valid, 0, rows)), pa.py_buffer(values)]
        return pa.Array.from_buffers(ARROW_TYPES[self._type], len(rows), buffers)

    def text_bytes(self, rows: NDArray) -> int:
        return 0

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows, 0, min(len(self._values), len(self._valid)), "points")


class TextPointView:
    """What a call said at points that gives texts: their places in a store."""

    __slots__ = ("_texts", "_valid", "_values")

    def __init__(self, values: NDArray, valid: NDArray, texts: TextView) -> None:
        self._values = values
        self._valid = valid
        self._texts = texts

    def take(self, rows: NDArray) -> pa.Array:
        valid = gather(self._valid, 0, rows)
        if valid.all():
            return self._texts.take(gather(self._values, 0, rows))
        places = pa.array(np.where(valid, np.cumsum(valid) - 1, 0), mask=valid == 0)
        return self._texts.take(gather(self._values, 0, rows[valid != 0])).take(places)

    def text_bytes(self, rows: NDArray) -> int:
        return self._texts.text_bytes(self._values[rows[self._valid[rows] != 0]])

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows, 0, min(len(self._values), len(self._valid)), "points")
        self._texts.check_rows(self._values[rows[self._valid[rows] != 0]])
