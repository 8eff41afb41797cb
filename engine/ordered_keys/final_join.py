"""Outer, semi and anti joins of two streams by a key that grows: each row of the answer once, and finally.

In:      as of an inner join (ordered_join.py).
Out:     left, full: each pair, when its later row comes. left, full, anti: each row without a partner, once
         the other stream's frontier has passed its key, at the time of the arrival by which it has; a row
         that lacks a key at once. semi: each row that has a partner, when the first is there.
Kept:    as of an inner join; of each row, whether it has met a partner.
Dropped: as of an inner join, by key: what waits for a partner cannot go by its age.

    a   1:5     2:6                        a LEFT JOIN b:   (5, NULL) at 3: b has come to 6
    b               3:6     4:9                             (6, 6) at 3

Law: no row is taken back, and none is given twice. What is given up to an arrival is all that is final then:
a row of the answer depends on rows with its key alone, and none with a key below the frontier comes any more.
What comes too late nevertheless finds nothing, and is counted; it is given as a row without a partner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.flow.queue import Queue
from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.joins.found_pairs import cut_by_text
from penstock.engine.many_joins.many_join import in_order
from penstock.engine.plan.plan import OrderedJoinNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch, Gather, LazyColumn, concatenate
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.selects.select import first_bad_row
from penstock.engine.views.outer_view import OuterView

from .arrivals import Arrivals
from .final_side import FinalSide
from .ordered_join import OrderedJoin
from .ordered_side import Examined
from .paper_buffer import Held
from .unmatched import Unmatched, unmatched_of

GIVEN_ALONE = {"left": (0,), "anti": (0,), "full": (0, 1), "semi": ()}
"""Sides whose rows are given without a partner."""

Rows = tuple[NDArray, list[NDArray]]
"""Times, and of each side the rows, -1 for none."""


class FinalJoin(OrderedJoin):
    """See the module's text."""

    side_type = FinalSide
    sides: tuple[FinalSide, ...]

    def __init__(
        self,
        node: OrderedJoinNode,
        types: Sequence[Sequence[SqlType]],
        queues: Sequence[Queue],
        readers: Sequence[KeyReader],
        name: str,
        has_rows: Sequence[bool],
    ) -> None:
        super().__init__(node, types, queues, readers, name, has_rows)
        self._column_types = [
            [own[column] for column in side.columns] for own, side in zip(types, node.sides, strict=True)
        ]
        self._unmatched: list[Unmatched] = []
        """While rows arrive."""
        self._arrived: NDArray = np.empty(0, np.int64)
        """Their times."""

    def _search(
        self,
        arrivals: Arrivals,
        stored: Sequence[NDArray],
        held: Sequence[Held] | None,
        examined: Sequence[Examined | None],
    ) -> None:
        self._arrived = arrivals.ts
        self._unmatched = [
            unmatched_of(self.sides[number], 1 - number, arrivals, examined[number], stored[number])
            for number in GIVEN_ALONE[self.node.kind]
        ]
        super()._search(arrivals, stored, held, examined)
        self._unmatched, self._arrived = [], np.empty(0, np.int64)

    def _pass_on(self, parts: Sequence[Rows], end: int) -> None:
        """Pairs that were found, and rows that are known to find nothing with the arrivals below `end`."""
        given, error, failed = self._meet(parts)
        batches = []
        for one in self._unmatched:
            places, rows = one.until(end)
            if len(rows):
                given.append((self._arrived[places], self._alone(one.side.number, rows)))
            lone = one.lone_until(end)
            if lone is not None and lone.length:
                batches.append(self._padded(one.side.number, lone))
        if given:
            batches.insert(0, self._batch(*in_order(given)))
        if error is not None:  # what was there before the instant at which it fails is given
            batches = [batch.slice(0, int(batch.ts.searchsorted(failed))) for batch in batches]
        self._put(batches)
        if error is not None:
            self.output.promise(failed - 1)
            raise error

    def _end(self) -> None:
        """Nothing more comes: what waits for a partner finds none. Its time is as far as any stream came."""
        if self.output.closed:
            return
        given = []
        for number in GIVEN_ALONE[self.node.kind]:
            side = self.sides[number]
            rows = side.without_partner(None, side.tail)
            rows = rows[np.argsort(side.codes_of(rows), kind="stable")]
            side.settle(rows)
            if len(rows):
                ts = np.full(len(rows), max(queue.punctuation for queue in self.inputs))
                given.append((ts, self._alone(number, rows)))
        if given:
            self._put([self._batch(*in_order(given))])
        super()._end()

    # -- pairs --------------------------------------------------------------------------------------

    def _meet(self, parts: Sequence[Rows]) -> tuple[list[Rows], DataError | None, int]:
        """Note which rows have met; what of that is given. If the condition fails on the data: why, when."""
        if not parts:
            return [], None, 0
        ts, refs = in_order(parts)
        kept, error, failed = self._partners(ts, refs)
        ts, refs = ts[kept], [rows[kept] for rows in refs]
        if self.node.kind == "semi":
            fresh = np.flatnonzero(self.sides[0].unsettled(refs[0]))
            first = np.sort(fresh[np.unique(refs[0][fresh], return_index=True)[1]])
            self.sides[0].settle(refs[0][first])
            return ([(ts[first], [rows[first] for rows in refs])] if len(first) else []), error, failed
        for side, rows in zip(self.sides, refs, strict=True):
            side.settle(rows)
        return ([(ts, refs)] if self._has_pairs and len(ts) else []), error, failed

    def _partners(self, ts: NDArray, refs: list[NDArray]) -> tuple[NDArray, DataError | None, int]:
        """Which pairs satisfy the residual; if it fails on one, of those before, why, and its time."""
        residual = self.node.residual
        if residual is None:
            return np.arange(len(ts)), None, 0
        columns: list[LazyColumn] = []
        for side, rows in zip(self.sides, refs, strict=True):
            columns += [Gather(side.view(i), rows) for i in range(len(self.node.sides[side.number].columns))]

        def satisfying(pairs: Batch) -> NDArray:
            return selected(evaluate_predicate(residual, pairs.column, pairs.length))

        pairs = Batch(ts, columns)
        try:
            return satisfying(pairs), None, 0
        except DataError as some:
            error = some
        bad = first_bad_row(pairs, satisfying)
        try:
            satisfying(pairs.slice(bad, bad + 1))
        except DataError as first:
            error = first
        return satisfying(pairs.slice(0, bad)), error, int(ts[bad])

    # -- what is given ------------------------------------------------------------------------------

    @property
    def _has_pairs(self) -> bool:
        return self.node.kind in ("left", "full")

    @property
    def _given_sides(self) -> tuple[FinalSide, ...]:
        return self.sides if self._has_pairs else self.sides[:1]

    def _alone(self, number: int, rows: NDArray) -> list[NDArray]:
        """Rows of a side, and none of the other."""
        none = np.full(len(rows), -1, np.int64)
        return [rows if side.number == number else none for side in self.sides]

    def _batch(self, ts: NDArray, refs: list[NDArray]) -> Batch:
        columns: list[LazyColumn] = []
        for side in self._given_sides:
            rows = refs[side.number]
            for place in range(len(self._column_types[side.number])):
                columns.append(Gather(OuterView(side.view(place)), rows))
        return Batch(ts, columns)

    def _padded(self, number: int, rows: Batch) -> Batch:
        """Rows of a stream as rows without a partner."""
        columns: list[LazyColumn] = []
        for side in self._given_sides:
            for column, type_ in zip(
                self.node.sides[side.number].columns, self._column_types[side.number], strict=True
            ):
                is_own = side.number == number
                columns.append(rows.column(column) if is_own else pa.nulls(rows.length, ARROW_TYPES[type_]))
        return Batch(rows.ts, columns)

    def _put(self, batches: Sequence[Batch]) -> None:
        """Rows in order of time."""
        if not batches:
            return
        whole = concatenate(batches)
        if len(batches) > 1:
            whole = whole.take(np.argsort(whole.ts, kind="stable"))
        if whole.length:
            for batch in cut_by_text(whole):
                self.counters.gave(batch.length)
                self.output.put(batch)

    # -- what is known ------------------------------------------------------------------------------

    def _must_pass(self, number: int) -> list[int]:
        """Of a side's rows that all have passed, all has been given, or never will be."""
        return list(range(len(self.sides)))

    def _check(self) -> None:
        super()._check()
        for number in GIVEN_ALONE[self.node.kind]:
            side = self.sides[number]
            waits = side.without_partner(None, side.tail) - side.tail
            assert bool(side.rows_ahead[waits].all()), "a row without a partner that was not given"

    def _check_restored(self) -> None:
        super()._check_restored()
        expect(len(self.sides) == 2 and self.node.kind in GIVEN_ALONE, "two sides of a kind of join")
        expect(not self._unmatched and not len(self._arrived), "no rows that arrive")
