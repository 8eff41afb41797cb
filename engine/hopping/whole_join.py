"""A join of two whole answers at each hop: inner, outer, semi, anti.

In: two bags per hop.  Out: their join per hop.  Kept: no rows. The keys of rows straight from a window are
hashed once: their slots are kept by row number, and a hop looks them up in an array (key_slots.py).

A hop's right rows are sorted by slot, and the left ones walk through them; pairs come in bounded chunks, the
condition that is left is evaluated on each. Rows of an outer join without a partner follow. A semi or anti
join by keys alone makes no pairs: it marks the right's slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.changes.match_counts import MatchCounts
from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.flow.queue import Queue
from penstock.engine.kernels.hopping.whole_join import AT, CURSOR, pair_rows, select_matched, sort_by_slot
from penstock.engine.keys.key_slots import KeySlots, SlotReader, tidy
from penstock.engine.plan.plan import ChangeJoinNode
from penstock.engine.rows.batch import NO_ROWS, Batch, ColumnView, Gather, LazyColumn, all_at
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.views.outer_view import OuterView

from .whole_operator import CHUNK_ROWS, WholeOperator, chunks, forget_left, next_hop


class WholeJoin(WholeOperator):
    """numbered: of each side, whether its batches come straight from a window."""

    _owned: ClassVar[tuple[str, ...]] = ("_room",)

    def __init__(
        self,
        node: ChangeJoinNode,
        queues: tuple[Queue, Queue],
        types: tuple[Sequence[SqlType], Sequence[SqlType]],
        name: str,
        numbered: tuple[bool, bool],
    ) -> None:
        super().__init__(queues, name)
        self._node = node
        self._types = types
        self._slots = KeySlots()
        self._room = np.empty(0, np.int64)
        self.meetings = MatchCounts()
        self._left, self._right = (
            SlotReader(self._slots, types[side], keys, False, numbered[side])
            for side, keys in enumerate((node.left_keys, node.right_keys))
        )

    def next_hop(self, ts: int) -> int | None:
        return next_hop(self._node.whole, ts)

    def forget(self) -> None:
        forget_left(self._slots, (self._left, self._right), (self._node.left, self._node.right))

    def answer(self, ts: int, taken: Sequence[Batch | None]) -> Iterator[Batch]:
        left, right = taken
        kind = self._node.kind
        if left is not None and right is not None:
            self.meetings.try_all(left.length, right.length)
        # 1. keys: those of numbered rows have slots, else the right's; what is left is looked up
        if self._left.is_numbered:
            left_slots = self._left.read(left, True)
            right_slots = self._right.read(right, False)
        else:
            right_slots = self._right.read(right, True)
            left_slots = self._left.read(left, False)
        # 2. rows or pairs
        if kind in ("semi", "anti"):
            if left is not None:
                keep = self._matched(left, right, left_slots, right_slots)
                for rows in chunks(keep):
                    yield left.take(rows, all_at(ts, len(rows)))
        else:
            yield from self._pairs(ts, left, right, left_slots, right_slots)
        tidy(self._slots, (self._left, self._right))

    def _matched(
        self, left: Batch, right: Batch | None, left_slots: NDArray, right_slots: NDArray
    ) -> NDArray:
        """The rows of the left that a semi or anti join gives."""
        wanted = self._node.kind == "semi"
        if self._node.residual is None:
            if len(self._room) < left.length:
                self._room = np.empty(2 * left.length, np.int64)
            marks = np.zeros(max(self._slots.used, 1), np.uint8)
            found = select_matched(left_slots, right_slots, marks, wanted, self._room)
            keys = np.count_nonzero(marks)
            if keys:  # as many pairs as there are if all keys have as many rows of the right
                matched = found if wanted else left.length - found
                met = matched * np.count_nonzero(right_slots >= 0) / keys
                self.meetings.count(met, met)
            return self._room[:found].copy()
        is_matched = np.zeros(left.length, bool)
        if right is not None:
            for lefts, _ in self._found(left, right, left_slots, right_slots):
                is_matched[lefts] = True
        return np.flatnonzero(is_matched == wanted)

    def _pairs(
        self, ts: int, left: Batch | None, right: Batch | None, left_slots: NDArray, right_slots: NDArray
    ) -> Iterator[Batch]:
        """Pairs, then what has no partner and is given all the same."""
        outer = self._node.kind in ("left", "full"), self._node.kind in ("right", "full")
        matched = tuple(np.zeros(len(slots), bool) for slots in (left_slots, right_slots))
        if left is not None and right is not None:
            for lefts, rights in self._found(left, right, left_slots, right_slots):
                if outer[0]:
                    matched[0][lefts] = True
                if outer[1]:
                    matched[1][rights] = True
                if len(lefts):
                    columns = left.take(lefts).lazy_columns + right.take(rights).lazy_columns
                    yield Batch(np.full(len(lefts), ts, np.int64), columns)
        for side, batch in enumerate((left, right)):
            if outer[side] and batch is not None:
                for rows in chunks(np.flatnonzero(~matched[side])):
                    own = batch.take(rows).lazy_columns
                    missing = nothing(self._types[1 - side], len(rows))
                    columns = missing + own if side else own + missing
                    yield Batch(np.full(len(rows), ts, np.int64), columns)

    def _found(
        self, left: Batch, right: Batch, left_slots: NDArray, right_slots: NDArray
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """Rows that belong together, in chunks."""
        starts = np.zeros(max(self._slots.used, 1) + 2, np.int64)
        places = np.empty(right.length, np.int64)
        sort_by_slot(right_slots, starts, places)
        cursor = np.zeros(CURSOR, np.int64)
        residual = self._node.residual
        while cursor[AT] < left.length:
            out = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int64)
            found = pair_rows(left_slots, starts, places, cursor, *out)
            lefts, rights = out[0][:found], out[1][:found]
            if residual is not None and found:
                columns = left.take(lefts).lazy_columns + right.take(rights).lazy_columns
                pairs = Batch(lefts, columns)
                kept = selected(evaluate_predicate(residual, pairs.column, found))
                lefts, rights = lefts[kept], rights[kept]
            self.meetings.count(found, len(lefts))
            yield lefts, rights

    @property
    def state_rows(self) -> int:
        return len(self._left.kept) + len(self._right.kept)

    @property
    def state_bytes(self) -> int:
        return self._slots.nbytes + self._left.kept.nbytes + self._right.kept.nbytes

    def _check(self) -> None:
        self._slots._check()


def nothing(types: Sequence[SqlType], length: int) -> list[LazyColumn]:
    """Columns of nothing but NULL."""
    rows = np.full(length, -1, np.int64)
    empty = Batch(NO_ROWS, [pa.nulls(0, ARROW_TYPES[type_]) for type_ in types])
    return [Gather(OuterView(ColumnView(empty, i)), rows) for i in range(len(types))]
