"""Join of two and more streams by a key that grows on all of them, without windows.

In:      rows of all streams, each in time order, and how far their keys have come.
Out:     for rows of all streams, one of each, with equal keys: their columns, at the latest of their times.
Kept:    rows that some row still to come can meet.
Dropped: a row when it leaves its window, if its side has one, and when the key frontiers of all other streams
         have passed its key: each result has a part that
         comes last, and none that comes now or later can have that key.

A new row looks for partners on one side after the other, as in a join of many streams (probe_order.py).

    a   1:5     3:6     4:8            row at 4 of a: the frontier of b is above 5, the 5 of a has gone
    b       2:6     3:7                the 6 of a stays: another 6 of b may come

Law: what is found depends on the order of arrivals and on what was known of their keys, not on batches: a row
meets rows that came before it and had not gone by then. With true declarations nothing that could be met has
gone. Else what came too late for rows that had gone is counted, and how many results that can have cost is
bounded: no more than the rows with its key that there can have been, on each of the other sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.key_log import KeyLog
from penstock.engine.flow.operator import Counters, pass_time
from penstock.engine.flow.queue import Outlet, Queue, bound_of
from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.joins.found_pairs import batches_of
from penstock.engine.many_joins.many_join import in_order
from penstock.engine.many_joins.many_seek import Found, Seen, take_step
from penstock.engine.many_joins.many_side import Keys
from penstock.engine.many_joins.probe_order import Step, order_probes
from penstock.engine.ordered_memory.all_in_memory import all_in_memory
from penstock.engine.ordered_memory.memory_rules import MemoryModel, MemoryRules, Strategy
from penstock.engine.plan.plan import OrderedJoinNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType
from penstock.engine.selects.select import first_bad_row
from penstock.engine.views.joined_batch import JoinedColumns

from .arrivals import Arrivals, line_up
from .buffers import AHEAD_ROWS, Buffers
from .frontiers import Frontiers
from .missed import Missed
from .ordered_side import Examined, OrderedSide
from .paper_buffer import Held, held_from
from .predict import lag_of, loads_of, predict

STEP_ROWS = 32_768  # of one side taken in at once
FIRST_ROWS = 256  # that seek at once, before it is known how many rows they find
GOOD_ROWS = 65_536  # to be found by those that seek at once
FIRST_LOOK = 4_096  # rows in, after which the order of looking up is thought over; then at every doubling


class OrderedJoin:
    """See the module's text."""

    side_type: ClassVar[type[OrderedSide]] = OrderedSide

    def __init__(
        self,
        node: OrderedJoinNode,
        types: Sequence[Sequence[SqlType]],
        queues: Sequence[Queue],
        readers: Sequence[KeyReader],
        name: str,
        has_rows: Sequence[bool],
        rules: MemoryRules | None = None,
    ) -> None:
        """types: of the columns of each input; readers: of the frontiers of their streams; has_rows: whether
        any have come on these before; rules: what is to be done about memory."""
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(min(min(queue.frontier, queue.punctuation) for queue in queues))
        self.counters = Counters()
        self.node = node
        key_types = [[key.type for key in side.keys] for side in node.sides]
        self.frontiers = Frontiers(node.variables, node.per or ((),) * len(queues), key_types, readers)
        by_key = node.evict == "key"
        self.sides: tuple[OrderedSide, ...] = tuple(
            self.side_type(number, side, own, reader, self.frontiers, by_key)
            for number, (side, own, reader) in enumerate(zip(node.sides, types, readers, strict=True))
        )
        for side, has in zip(self.sides, has_rows, strict=True):
            if has:
                side.note_lacking()
        self.buffers: Buffers | None = None
        """Where something has to be done to keep within memory."""
        if rules is not None and rules.is_needed and all_in_memory(node) is None:
            self.buffers = Buffers(rules, self.frontiers, self.sides, node.sides, self.inputs)
        self.complete_from: int | None = None
        """From this time on nothing is missed of what came before the join began; None: not yet."""
        self.missed = Missed()
        self.log = KeyLog()
        """How far the keys of what it gives have come."""
        self.looked_up: dict[tuple[int, Keys, Keys], tuple[int, int]] = {}
        self.orders: list[tuple[Step, ...]] = []
        self._look_after = FIRST_LOOK
        self._seekers = FIRST_ROWS
        self._fault: DataError | None = None
        """What fails on the next row."""
        self._worked_to = self.output.punctuation
        self._order_probes()
        self._note_complete()

    # -- a step -------------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        if self.counters.rows_in >= self._look_after:
            self._look_after = 2 * self.counters.rows_in
            self._order_probes()
        taken = self._take(min(quantum, STEP_ROWS))
        worked = any(batch is not None for batch in taken)
        if worked:
            self._enter(taken)
        if self._fault is None and all(queue.closed and not queue.batches for queue in self.inputs):
            self._end()
        if self._fault is not None:
            raise self._fault
        if self.buffers is not None:
            self.buffers.keep_within()
        moved = pass_time(self.inputs, self.output)
        for side in self.sides:
            side.leave_window(self.output.punctuation)
        return moved or worked

    def _end(self) -> None:
        """Nothing more comes."""
        if self.buffers is not None:
            last = self.buffers.flush(max(self._worked_to, self.output.punctuation))
            if last is not None:
                self._work(self._examine(last))
            self.buffers.clear()
        for side in self.sides:
            side.let_all_go()

    def _take(self, rows: int) -> list[Batch | None]:
        """The next rows that all inputs have reached, about so many of each."""
        if self.buffers is None:
            bound = bound_of(self.inputs, rows)
            return [queue.take(bound, True) for queue in self.inputs]
        bound = self.buffers.bound(rows)
        taken = [queue.take(bound, True) for queue in self.inputs]
        self.buffers.fill_queues()
        return taken

    def _enter(self, taken: list[Batch | None]) -> None:
        """Rows have come: work them, or those that they let go on."""
        going_on = taken if self.buffers is None else self.buffers.sort(taken)
        if any(batch is not None for batch in going_on):
            self._work(self._examine(going_on))

    def _examine(self, taken: Sequence[Batch | None]) -> list[Examined | None]:
        """Batches as the sides see them, up to where something fails."""
        faults: list[tuple[int, DataError]] = []
        examined = [
            self._examine_side(side, batch, faults) for side, batch in zip(self.sides, taken, strict=True)
        ]
        if not faults:
            return examined
        first, self._fault = min(faults, key=lambda one: one[0])
        found: list[Examined | None] = []
        for side, queue, batch in zip(self.sides, self.inputs, taken, strict=True):
            stop = 0 if batch is None else int(batch.ts.searchsorted(first))
            if batch is not None and stop < batch.length:
                queue.put_back(batch.slice(stop, batch.length))
                batch = batch.slice(0, stop) if stop else None
            found.append(None if batch is None else side.examine(batch))
        return found

    def _examine_side(
        self, side: OrderedSide, batch: Batch | None, faults: list[tuple[int, DataError]]
    ) -> Examined | None:
        if batch is None:
            return None
        try:
            return side.examine(batch)
        except DataError as some:
            error = some
        bad = first_bad_row(batch, side.examine)
        try:
            side.examine(batch.slice(bad, bad + 1))
        except DataError as first:
            error = first
        faults.append((int(batch.ts[bad]), error))
        return None

    def _work(self, examined: Sequence[Examined | None]) -> None:
        """Take rows in, let them find others, and let go what nothing can meet."""
        if all(one is None for one in examined):
            return
        arrivals = line_up(self.frontiers, examined)
        # 1. store
        by_key = self.node.evict == "key"
        stored = []
        for own, one in zip(arrivals.sides, examined, strict=True):
            stored.append(np.flatnonzero(own.codes >= own.lowest) if by_key else np.arange(len(own.codes)))
            self.counters.took(0 if one is None else one.batch.length)
        if self.buffers is not None:
            stored = self.buffers.to_store(arrivals, examined, stored)
        for side, own, one, kept in zip(self.sides, arrivals.sides, examined, stored, strict=True):
            side.arrive(one, kept, own.numbers)
        held = None
        if not by_key:
            held = [held_from(side, self.sides, arrivals, stored[side.number]) for side in self.sides]
        for side in self.sides:
            side.fill_lookups()
        # 2. find
        self._search(arrivals, stored, held, examined)
        # 3. count what came too late
        self.missed.count(self.sides, arrivals, held)
        # 4. let go
        for number, (side, own) in enumerate(zip(self.sides, arrivals.sides, strict=True)):
            if held is not None:
                side.let_go_before(held[number].after)
                continue
            passed = own.codes < own.lowest
            side.gone.note(own.cells[passed], own.codes[passed])
            side.let_go(len(arrivals.owners))
        if not self.frontiers.has_values:
            self.log.note(arrivals.ts, arrivals.least)
        self._worked_to = max(int(one.batch.ts[-1]) for one in examined if one is not None)
        self._note_complete()

    # -- search -------------------------------------------------------------------------------------

    def _order_probes(self) -> None:
        """Settle how rows look for partners, by what was found so far."""
        self.orders = [
            order_probes(side.number, self.node.variables, (), self._found_per_seeker) for side in self.sides
        ]
        steps = [step for order in self.orders for step in order]
        for side in self.sides:
            side.look_up_by(sorted({step.keys for step in steps if step.side == side.number}))
            side.fill_lookups()

    def _found_per_seeker(self, step: Step) -> float:
        sought, found = self.looked_up.get(step.how, (0, 0))
        return found / sought if sought else float(self.sides[step.side].end - self.sides[step.side].tail)

    def _search(
        self,
        arrivals: Arrivals,
        stored: Sequence[NDArray],
        held: Sequence[Held] | None,
        examined: Sequence[Examined | None],
    ) -> None:
        """Give what rows find, some rows at a time, in the order in which they come."""
        seeking = [
            kept if held is not None else kept[own.codes[kept] >= own.limits[kept]]
            for own, kept in zip(arrivals.sides, stored, strict=True)
        ]
        stored_places = [own.places[kept] for own, kept in zip(arrivals.sides, stored, strict=True)]
        start = 0
        while start < len(arrivals.owners):
            end = start + self._seekers
            parts = []
            for side, own, seekers, kept in zip(self.sides, arrivals.sides, seeking, stored, strict=True):
                places = own.places[seekers]
                now = seekers[places.searchsorted(start) : places.searchsorted(end)]
                if len(now):
                    rows = side.first_row + kept.searchsorted(now)
                    parts += list(self._find(side, own.places[now], own.ts[now], rows, stored_places, held))
            found = sum(len(ts) for ts, _ in parts)
            self._pass_on(parts, end)
            self._seekers = max(
                1, min(STEP_ROWS, 4 * self._seekers, GOOD_ROWS * self._seekers // max(found, 1))
            )
            start = end

    def _pass_on(self, parts: Sequence[tuple[NDArray, list[NDArray]]], end: int) -> None:
        """Give what the next rows have found, those with places below `end`."""
        if parts:
            self._give(*in_order(parts))

    def _find(
        self,
        side: OrderedSide,
        places: NDArray,
        ts: NDArray,
        rows: NDArray,
        stored_places: Sequence[NDArray],
        held: Sequence[Held] | None,
    ) -> Iterator[tuple[NDArray, list[NDArray]]]:
        """What rows of a side find: times, and the row of each side."""
        order = self.orders[side.number]
        seen: dict[int, list[Seen]] = {}
        for step in order:
            other = self.sides[step.side]
            until = other.first_row + stored_places[step.side].searchsorted(places)
            first = other.first_in_window(ts)
            if held is not None:
                first = np.maximum(first, held[step.side].first[places])
            seen[step.side] = [(first, until)]
        known = Found(np.arange(len(places)), {side.number: rows})
        for found in self._seek(order, known, seen):
            yield ts[found.probers], [found.refs[number] for number in range(len(self.sides))]

    def _seek(self, steps: tuple[Step, ...], known: Found, seen: dict[int, list[Seen]]) -> Iterator[Found]:
        """Take what is known one step further, and that on to the end, a chunk at a time."""
        if not steps:
            yield known
            return
        step, total = steps[0], 0
        for found in take_step(self.sides, step, known, seen[step.side]):
            total += len(found.probers)
            yield from self._seek(steps[1:], found, seen)
        sought_before, found_before = self.looked_up.get(step.how, (0, 0))
        self.looked_up[step.how] = sought_before + len(known.probers), found_before + total

    def _give(self, ts: NDArray, refs: list[NDArray]) -> None:
        columns = [
            (side, place) for side in self.sides for place in range(len(self.node.sides[side.number].columns))
        ]
        views = [side.view(place) for side, place in columns]
        for batch in batches_of(JoinedColumns(views, [side.number for side, _ in columns]), ts, refs):
            self.counters.gave(batch.length)
            self.output.put(batch)

    # -- what is known ------------------------------------------------------------------------------

    def _note_complete(self) -> None:
        """Whether all has gone that had come before the join began."""
        if self.complete_from is not None:
            return
        for side in self.sides:
            side.look_for_lacking(self._must_pass(side.number))
        if all(side.lacking is None for side in self.sides):
            self.complete_from = self._worked_to + 1

    def _must_pass(self, number: int) -> list[int]:
        """The sides that have passed a row of another one when it lacks nothing more."""
        return self.frontiers.others(number)

    def predicted_rows(self, number: int) -> int:
        """How many rows of a side the paper's buffer holds now, with rates and lags counted (equation 8); one
        for each sequence."""
        side = self.sides[number]
        sequences = len(side.reader.frontier.sequences)
        before = 0 if self.buffers is None else self.buffers.most_before(number)
        return max(1, int(np.count_nonzero(side.rows_ahead)) + sequences * side.reader.factor) + before

    def lag(self, number: int) -> int:
        """How many rows of a side have keys above all that have come of some other side."""
        away = self.buffers.leading[number].rows if self.buffers is not None and self.buffers.leading else 0
        return lag_of(self.sides[number], self.frontiers) + away

    def predicted(self, model: MemoryModel) -> dict[Strategy, list[int]]:
        """By strategy and side, how many rows would be held, as a model has it."""
        if self.buffers is None:
            return predict(model, loads_of(self.sides, self.frontiers, ()), AHEAD_ROWS)
        return self.buffers.predicted()

    @property
    def strategy(self) -> Strategy:
        """How it keeps within memory."""
        return "none" if self.buffers is None else self.buffers.strategy

    def spooled_rows(self, number: int) -> int:
        """Rows of a side on the disk."""
        return 0 if self.buffers is None else self.buffers.spooled_of(number)

    @property
    def rows_gone_early(self) -> int:
        """Rows that went as there was no memory for them."""
        return 0 if self.buffers is None else self.buffers.rows_gone_early

    def stop(self) -> None:
        """Nobody asks any more."""
        for side in self.sides:
            side.reader.leave()
        if self.buffers is not None:
            self.buffers.leave()

    def held_rows(self, number: int) -> int:
        """Rows of a side in memory that are stored, or wait to be sorted or written."""
        return len(self.sides[number]) + (0 if self.buffers is None else self.buffers.rows_of(number))

    @property
    def state_rows(self) -> int:
        return sum(self.held_rows(side.number) for side in self.sides)

    @property
    def state_bytes(self) -> int:
        before = 0 if self.buffers is None else self.buffers.nbytes
        return before + self.frontiers.nbytes + sum(side.nbytes for side in self.sides)

    def _check(self) -> None:
        self.frontiers._check()
        for side in self.sides:
            side._check()
        if self.buffers is not None:
            self.buffers._check()

    def _check_restored(self) -> None:
        expect(len(self.sides) == len(self.inputs) == len(self.node.sides) > 1, "an input for each side")
        expect([side.number for side in self.sides] == list(range(len(self.sides))), "sides by number")
        expect(len(self.orders) == len(self.sides), "an order for each side")
        for side, order in zip(self.sides, self.orders, strict=True):
            reached = {side.number}
            for step in order:
                expect(0 <= step.side < len(self.sides) and step.side not in reached, "sides, each once")
                expect(step.keys in self.sides[step.side].choices, "keys that rows are looked up by")
                expect(not step.bounds and len(step.keys) == len(step.sources), "a source for each key")
                for known, place in step.sources:
                    expect(known in reached, "keys of sides that have been reached")
                    expect(0 <= place < len(self.sides[known].key_types), "keys that there are")
                reached.add(step.side)
            expect(len(reached) == len(self.sides), "all sides")
