"""The head of a chain of sliced window joins: rows of two streams become references.

In:      rows of both sides, each in time order.
Out:     references in time order, for the first slice: each row that some member needs as a male and a
         female; a reference of kind TIME whenever time has come further.
Kept:    the rows themselves, columns and lineage, once, as long as any reference to them may be somewhere.
Dropped: a row when every member has been given all that it may be part of.

Law: a pair is found by the later of its rows; of rows with one ts, by the left's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.kernels.chain.slice_join import (
    CLOCK,
    FEMALE,
    FIELDS,
    HIGH_KEY,
    KEY,
    KIND,
    LIFETIME,
    LOW_KEY,
    MALE,
    OWN_AGE,
    POS,
    REACH,
    ROW,
    TIME,
    TS,
    write_references,
)
from penstock.engine.rows.window import MAX_TS
from penstock.engine.shelves.find_needed import as_matrix
from penstock.engine.shelves.next_rows import Fault, next_rows
from penstock.engine.shelves.side import Side

from .slice_pairs import References, room_for

STEP_ROWS = 8_192  # of one side taken at once
FIRST_LOOK_ROWS = 2_048  # after which, and again after four times as many, slices are thought over


class ChainHead:
    """Takes rows in; see the module's text. `sides` are told of their members by the chain."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        queues: tuple[Queue, Queue],
        name: str,
        passed: Callable[[], int],
        failed: Callable[[list[Fault]], None],
        look: Callable[[], None],
    ) -> None:
        """`passed`: time up to which members have been given everything; `failed` is told what fails.

        `look` is called between batches when enough rows have come to think the slices over.
        """
        self.name = name
        self.sides = sides
        self.inputs = queues
        self.now = min(queue.punctuation for queue in queues)
        """How far both inputs have come."""
        self.output = Outlet(self.now)
        self.counters = Counters()
        self._passed = passed
        self._failed = failed
        self._look = look
        self._looked_after = FIRST_LOOK_ROWS
        self._turns = 0
        """How often rows were passed on."""
        self._instants = any(side.by_place for side in sides)
        self._clocks: deque[tuple[int, tuple[int, ...]]] = deque()
        """Times, and from when on both sides' ages are counted at these times or later."""

    def step(self, quantum: int) -> bool:
        self._expire()
        if self.counters.rows_in >= self._looked_after:
            self._looked_after = 4 * self.counters.rows_in
            self._look()
        if any(side.query_index is None for side in self.sides):
            return False  # rows wait for the first member
        taken, faults = next_rows(self.sides, self.inputs, self._instants, min(quantum, STEP_ROWS))
        if taken[0] is None and taken[1] is None:
            if faults:
                self._failed(faults)
            return self._pass_time() or bool(faults)
        for side, examined in zip(self.sides, taken, strict=True):
            side.arrive(examined)
            self.counters.took(0 if examined is None else examined.batch.length)
        for side in self.sides:
            side.silence()
        tables = [self._references(side, self.sides[1 - side.number]) for side in self.sides]
        rows = sum(table.shape[1] for table in tables)
        out = room_for(2 * rows + 1)
        if rows:
            write_references(tables[0], tables[1], out)
            self.counters.gave(rows)
            self._turns += 1
        self._pass_time(out)
        if faults:
            self._failed(faults)
        return True

    def rows_per_turn(self) -> float | None:
        """How many rows each slice is given at once; None: none have come."""
        return self.counters.rows_out / self._turns if self._turns else None

    def _references(self, side: Side, other: Side) -> NDArray:
        """int64[2 * FIELDS, n]: each new row as a male, and below as a female."""
        arrived = side.arrival
        rows = len(arrived.ts)
        table = np.zeros((2 * FIELDS, rows), np.int64)
        if not rows:
            return table
        assert side.query_index is not None and len(side.shelves) == 1, "expected one shelf and its members"
        leaves, words = as_matrix(arrived.leaves, rows, np.int32), as_matrix(arrived.words, rows, np.int64)
        pos = arrived.places if side.by_place else arrived.ts
        male, female = table[:FIELDS], table[FIELDS:]
        male[TS] = female[TS] = arrived.ts
        male[KIND] = MALE + side.number
        female[KIND] = FEMALE + side.number
        male[ROW] = female[ROW] = arrived.refs
        male[CLOCK] = other.clock(arrived.ts)
        male[LOW_KEY] = arrived.low
        male[HIGH_KEY] = arrived.high
        male[REACH] = side.query_index.longest(side.number, other.number, leaves, words)
        if side.by_place:
            male[OWN_AGE] = side.clock(arrived.ts) - pos
        female[POS] = pos
        female[KEY] = side.shelves[0].index.keys[-rows:]
        female[LIFETIME] = side.query_index.longest(side.number, side.number, leaves, words)
        return table

    def _pass_time(self, references: NDArray | None = None) -> bool:
        """Let the slices know how far both inputs have come; False if that is no further than before.

        references: int64[FIELDS, n + 1], n to be passed on before that, and room for one.
        """
        now = min(queue.frontier for queue in self.inputs)
        moved = self.now < now < MAX_TS
        out = room_for(1) if references is None else references
        if moved:
            self.now = now
            clocks = tuple(side.arrival.end - 1 if side.by_place else now for side in self.sides)
            self._clocks.append((now, clocks))
            out[:, -1] = 0
            out[[TS, KIND, CLOCK, CLOCK + 1], -1] = now, TIME, *clocks
            self.output.put(References(out))
            self.output.promise(now)
        elif out.shape[1] > 1:
            self.output.put(References(out[:, :-1]))
        if now == MAX_TS and not self.output.closed:
            self.output.close()
            moved = True
        return moved

    def _expire(self) -> None:
        """Drop rows that nothing which is still to come out can contain."""
        if not self._clocks:
            return
        passed = self._passed()
        clocks: tuple[int, ...] | None = None
        while self._clocks and self._clocks[0][0] <= passed:
            clocks = self._clocks.popleft()[1]
        if clocks is not None:
            for side, clock in zip(self.sides, clocks, strict=True):
                for shelf in side.shelves:
                    shelf.expire(clock)

    @property
    def state_rows(self) -> int:
        """None: rows are counted where their females are."""
        return 0

    @property
    def state_bytes(self) -> int:
        return sum(side.nbytes for side in self.sides)

    def _check(self) -> None:
        for side in self.sides:
            side._check()
            assert len(side.shelves) <= 1, "references need no shelf"
