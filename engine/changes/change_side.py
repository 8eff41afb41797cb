"""One side of a join of changes: its live rows, and what the kernel is told of a batch of it.

In: a batch of changes.  Out: the arrays of kernels/changes/change_join.py, and views of the columns of its
rows.
Kept: the live rows, in a bag, by join key; nothing if nobody will ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.changes.matches import GIVEN, PRESENT, WITH
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import Batch, ColumnView, View
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

from .bag import Bag

NO_INTS = np.empty(0, np.int64)
NO_BYTES = np.empty(0, np.uint8)
NO_EVENTS = (NO_INTS, NO_INTS, np.empty(0, np.int8), NO_INTS, NO_INTS, NO_BYTES, NO_INTS, NO_INTS, NO_INTS)


class ChangeSide:
    """wanted: which rows are counted (kernels/changes/matches.py); those with NULL in their key are kept too
    then."""

    def __init__(self, types: Sequence[SqlType], keys: Sequence[int], wanted: int) -> None:
        self.types = tuple(types)
        self.keys = tuple(keys)
        self.wanted = wanted
        self.bag = Bag(types, [column for column in range(len(types)) if column not in keys])
        self.is_stored = True
        self._unstored: Batch | None = None

    def forget(self) -> None:
        """Nobody will ask for rows of this side any more."""
        self.is_stored = False
        self.bag.clear()

    def events(self, batch: Batch | None) -> tuple[Any, ...]:
        """Store the rows that enter, and tell the kernel of all."""
        if batch is None:
            return NO_EVENTS
        signs, ends, length = batch.signs, batch.ends, batch.length
        assert not self.wanted or batch.ets is None or bool(np.all(ends == FOREVER)), "a row with an end"
        arrays = [batch.column(column) for column in range(batch.width)]
        a, b, nulls = self._key(arrays, length)
        prints = NO_INTS, NO_INTS
        if self.is_stored:
            self._unstored = None
            if batch.sign is not None and not self.bag.has_prints and bool(np.any(signs < 0)):
                self.bag.print_all()
            if self.bag.has_prints:
                prints = self.bag.prints(arrays, length)
            numbers = self._store(batch, arrays)
        else:
            self._unstored = batch
            numbers = np.arange(length)
        return (
            owned(batch.ts), owned(ends), owned(signs), owned(a), owned(b), nulls,
            owned(prints[0]), owned(prints[1]), numbers,
        )  # fmt: skip

    def _key(self, arrays: Sequence[pa.Array], length: int) -> tuple[NDArray, NDArray, NDArray]:
        """Two int64 per row and whether there is a NULL in it; such a row is kept by all its values."""
        own = [arrays[key] for key in self.keys]
        a, b = fingerprint(own, [self.types[key] for key in self.keys], length)
        if not any(array.null_count for array in own):
            return a, b, NO_BYTES
        nulls = np.zeros(length, np.uint8)
        for array in own:
            nulls |= valid_bytes(array) == 0
        if self.wanted:
            rows = fingerprint(arrays, self.types, length)
            a, b = np.where(nulls, rows[0], a), np.where(nulls, rows[1], b)
        return a, b, nulls

    def _store(self, batch: Batch, arrays: Sequence[pa.Array]) -> NDArray:
        """The numbers of the rows; those that leave have none of their own."""
        if batch.sign is None:
            return self.bag.append(batch.ts, arrays) + np.arange(batch.length)
        enters = batch.sign > 0
        places = np.flatnonzero(enters)
        if len(places) < batch.length:
            arrow = pa.array(places)
            arrays = [array.take(arrow) for array in arrays]
        first = self.bag.append(batch.ts[places], arrays)
        return first - 1 + np.cumsum(enters)

    def views(self) -> list[View]:
        """The columns by number."""
        batch = self._unstored
        return self.bag.views() if batch is None else [ColumnView(batch, i) for i in range(batch.width)]

    def content(self) -> Batch | None:
        """The rows that are there, with their ends; None: they are not kept."""
        if not self.is_stored:
            return None
        ends = self.bag.ends()
        return Batch(np.zeros(len(ends), np.int64), self.bag.values(), None, ends)

    def check_given(self) -> None:
        """Every row is given by itself that should be, and no other."""
        slots = self.bag.live_slots()
        marks, is_matched = self.bag.marks[slots], self.bag.counts[slots] > 0
        should = is_matched if self.wanted == WITH else ~is_matched
        assert bool(np.all((marks & PRESENT) != 0)), "a row is alive and has not come"
        assert bool(np.all(((marks & GIVEN) != 0) == should)), "a row is given that should not be, or not"

    def tidy(self) -> None:
        """Between two batches: give back what is not needed."""
        self._unstored = None
        self.bag.tidy()

    def _check_restored(self) -> None:
        expect(self.bag.linked, "rows by their keys")
        within(np.array(self.keys, np.int64), 0, len(self.types), "keys among the columns")
        expect(self.bag.types == self.types, "rows of these types")


def owned(array: NDArray) -> NDArray:
    """The array, or a copy if it may not be written or has gaps: kernels are compiled for one form."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
