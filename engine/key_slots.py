"""Keys as small numbers, so that what is looked up by key is an array, and a row's key is hashed once.

In: rows, by what makes their keys equal (fingerprint.py).  Out: a slot per row, equal if and only if the keys
are, -1 for a key with a NULL in it.  Kept: every key that has come, and the slots of numbered rows (those of
a window, which come again at every hop).  Dropped: slots of rows below the first that came last; keys no
numbered row has, when they are many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .batch import Batch
from .buffer import RowBuffer
from .fingerprint import fingerprint
from .groups import frozen
from .kernels import key_slots as kernels
from .store import valid_bytes
from .types import SqlType

MIN_SLOTS = 1024
NO_SLOTS = np.empty(0, np.int64)
NO_BYTES = frozen(np.empty(0, np.uint8))


class KeySlots:
    """The keys that have come."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin with no key."""
        self.used = 0
        self._a, self._b = np.empty(MIN_SLOTS, np.int64), np.empty(MIN_SLOTS, np.int64)
        self._table = np.full(2 * MIN_SLOTS, -1, np.int32)

    def insert(self, a: NDArray, b: NDArray, null: NDArray) -> NDArray:
        """The slots of rows, new ones for new keys."""
        slots = np.empty(len(a), np.int64)
        at, rows = 0, (frozen(a), frozen(b), frozen(null))
        while True:
            at, self.used = kernels.insert_keys(*rows, at, self._table, self._a, self._b, self.used, slots)
            if at == len(a):
                return slots
            self._resize(2 * len(self._a))

    def find(self, a: NDArray, b: NDArray, null: NDArray) -> NDArray:
        """The slots of rows, -1 for keys that have none."""
        slots = np.empty(len(a), np.int64)
        kernels.find_keys(frozen(a), frozen(b), frozen(null), self._table, self._a, self._b, slots)
        return slots

    def _resize(self, size: int) -> None:
        old_a, old_b = self._a, self._b
        self._a, self._b = np.empty(size, np.int64), np.empty(size, np.int64)
        self._a[: self.used], self._b[: self.used] = old_a[: self.used], old_b[: self.used]
        self._table = np.full(2 * size, -1, np.int32)
        kernels.place_slots(self._table, self._a, self._b, self.used)

    def keep_only(self, rows: Sequence[NDArray]) -> None:
        """Forget the keys that none of these rows has; the rows' slots are changed in place."""
        old_a, old_b, used = self._a, self._b, self.used
        number = np.full(used, -1, np.int64)
        size = MIN_SLOTS
        while size < min(used, sum(map(len, rows))):
            size *= 2
        self._a, self._b, self.used = np.empty(size, np.int64), np.empty(size, np.int64), 0
        for slots in rows:
            self.used = kernels.renumber_slots(slots, number, old_a, old_b, self._a, self._b, self.used)
        self._table = np.full(2 * size, -1, np.int32)
        kernels.place_slots(self._table, self._a, self._b, self.used)

    @property
    def nbytes(self) -> int:
        return int(self._a.nbytes + self._b.nbytes + self._table.nbytes)

    def _check(self) -> None:
        there = np.sort(self._table[self._table >= 0])
        assert np.array_equal(there, np.arange(self.used)), "the table has other slots than are in use"
        pairs = np.stack([self._a[: self.used], self._b[: self.used]])
        assert np.unique(pairs, axis=1).shape[1] == self.used, "a key has two slots"


class SlotReader:
    """The slots of one input's rows, by some of its columns."""

    def __init__(
        self, slots: KeySlots, types: Sequence[SqlType], columns: Sequence[int], nulls: bool, numbered: bool
    ) -> None:
        """nulls: NULL is a value like any other; numbered: batches say the numbers of their rows."""
        self._slots = slots
        self._types = [types[column] for column in columns]
        self._columns = tuple(columns)
        self._nulls = nulls
        self.is_numbered = numbered
        self.kept = RowBuffer("int64")
        """By row number."""

    def read(self, batch: Batch | None, insert: bool) -> NDArray:
        """A slot per row; insert: new keys get one, else they have none. Keys of numbered rows always do."""
        if batch is None:
            return NO_SLOTS
        if not self._columns:
            return np.zeros(batch.length, np.int64)
        if not self.is_numbered:
            return (self._slots.insert if insert else self._slots.find)(*self._keys(batch))
        assert batch.first_row is not None, "rows without numbers"
        kept, first, end = self.kept, batch.first_row, batch.first_row + batch.length
        if first > kept.end:  # rows in between have come and gone unseen
            kept = self.kept = RowBuffer("int64", first)
        kept.drop(first)
        new = kept.end - first
        if new < batch.length:
            kept.append(self._slots.insert(*self._keys(batch.slice(new, batch.length))))
        return kept.run(first, end)

    def _keys(self, batch: Batch) -> tuple[NDArray, NDArray, NDArray]:
        arrays = [batch.column(column) for column in self._columns]
        a, b = fingerprint(arrays, self._types, batch.length)
        if self._nulls or not any(array.null_count for array in arrays):
            return a, b, NO_BYTES
        null = np.zeros(batch.length, np.uint8)
        for array in arrays:
            null |= valid_bytes(array) == 0
        return a, b, null


def tidy(slots: KeySlots, readers: Sequence[SlotReader]) -> None:
    """After a hop: forget all keys if no rows are numbered, else those no row has, if they are many."""
    kept = [reader.kept.live for reader in readers if reader.is_numbered]
    if not kept:
        if slots.used:
            slots.clear()
    elif slots.used > max(MIN_SLOTS, 4 * sum(map(len, kept))):
        slots.keep_only(kept)
