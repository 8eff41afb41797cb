"""Keys as small numbers, so that what is looked up by key is an array, and a row's key is hashed once.

In: rows, by what makes their keys equal (fingerprint.py).  Out: a slot per row, equal if and only if the keys
are, -1 for a key with a NULL in it.  Kept: every key that has come, and the slots of numbered rows (those of
a window, which come again at every hop).  Dropped: slots of rows below the first that came last, all when
none is there; keys no numbered row has, when they are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.rows import key_slots as kernels
from penstock.engine.restoring.in_order import expect, size_of_two, within
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType

from .fingerprint import fingerprint
from .keys import encode_values

MIN_SLOTS = 1024
MAX_KEY = (1 << 63) - 1
NO_SLOTS = np.empty(0, np.int32)
NO_INTS = frozen(np.empty(0, np.int64))
NO_BYTES = frozen(np.empty(0, np.uint8))
Keys: TypeAlias = "tuple[NDArray, NDArray, NDArray]"
"""The fingerprints of rows and which have a NULL in them, as the kernels read them."""


class KeySlots:
    """The keys that have come."""

    _owned: ClassVar[tuple[str, ...]] = ("_keys", "_table")

    def __init__(self) -> None:
        self._keys = np.empty((0, 2), np.int64)
        self._table = np.empty(0, np.int32)
        self.clear()

    def clear(self) -> None:
        """Begin with no key."""
        self.used = 0
        self._low = self._high = 0
        """Keys of one word between these have the slots from 0 on, in their order."""
        self._make_room(MIN_SLOTS)

    def insert(self, keys: Keys, slots: NDArray) -> NDArray:
        """The slots of rows, new ones for new keys, written to `slots`."""
        if not len(keys[1]) and not len(keys[2]) and self._in_line(keys[0], slots):
            return slots
        at = 0
        while True:
            at, self.used = kernels.insert_keys(
                *keys, at, self._table, self._keys, self._low, self._high, self.used, slots
            )
            if at == len(slots):
                return slots
            self._make_room(2 * len(self._keys))

    def _in_line(self, keys: NDArray, slots: NDArray) -> bool:
        """Whether all keys of one word have slots in their order; these are written to `slots`."""
        if not self.used and len(slots) > MIN_SLOTS:
            self._line_up(int(keys.min()), int(keys.max()), len(slots))
        return self._high > self._low and not kernels.line_up(keys, self._low, self._high, slots)

    def _line_up(self, low: int, last: int, rows: int) -> None:
        """Give the keys from `low` to `last` slots in their order, if they are no more than rows."""
        high = min(last + 1, MAX_KEY)
        if high - low <= rows:
            self._make_room(max(MIN_SLOTS, 1 << (high - low).bit_length()))
            self._low, self._high, self.used = low, high, high - low
            self._keys[: self.used, 0] = np.arange(low, high)
            self._keys[: self.used, 1] = 0

    def find(self, keys: Keys, slots: NDArray) -> NDArray:
        """The slots of rows, -1 for keys that have none, written to `slots`."""
        kernels.find_keys(*keys, self._table, self._keys, self._low, self._high, slots)
        return slots

    def fingerprints(self, first: int) -> Keys:
        """Those of the keys with slots from `first` on, in the order of these."""
        a, b = np.ascontiguousarray(self._keys[first : self.used].T)
        return frozen(a), frozen(b), NO_BYTES

    def keep_only(self, rows: Sequence[NDArray]) -> None:
        """Forget the keys that none of these rows has; the rows' slots are changed in place."""
        old, number = self._keys, np.full(self.used, -1, np.int64)
        size = MIN_SLOTS
        while size < min(self.used, sum(map(len, rows))):
            size *= 2
        self._keys, self.used = np.empty((size, 2), np.int64), 0
        self._low = self._high = 0
        for slots in rows:
            self.used = kernels.renumber_slots(slots, number, old, self._keys, self.used)
        self._make_room(size)

    def _make_room(self, size: int) -> None:
        """For so many slots, and a table for them."""
        keys, table = np.empty((size, 2), np.int64), np.full(2 * size, -1, np.int32)
        if self.used:
            keys[: self.used] = self._keys[: self.used]
            kernels.place_slots(table, keys, self._high - self._low, self.used)
        self._keys, self._table = keys, table

    @property
    def nbytes(self) -> int:
        return int(self._keys.nbytes + self._table.nbytes)

    def _check(self) -> None:
        there = np.sort(self._table[self._table >= 0])
        in_line = self._high - self._low
        assert np.array_equal(there, np.arange(in_line, self.used)), (
            "the table has other slots than are in use"
        )
        assert len(np.unique(self._keys[: self.used], axis=0)) == self.used, "a key has two slots"
        lined = self._keys[:in_line]
        assert not lined[:, 1].any() and np.array_equal(lined[:, 0], np.arange(self._low, self._high)), (
            "no line"
        )

    def _check_restored(self) -> None:
        size = len(self._keys)
        size_of_two(size, "slots")
        in_line = self._high - self._low
        expect(self._keys.shape[1] == 2 and len(self._table) == 2 * size, "a table of all slots")
        expect(0 <= in_line <= self.used <= size and abs(self._low) <= MAX_KEY + 1, "slots that are used")
        lined = self._keys[:in_line]
        expect(not lined[:, 1].any(), "keys in line")
        expect(np.array_equal(lined[:, 0], np.arange(self._low, self._high)), "keys in line")
        self._table[:] = -1
        kernels.place_slots(self._table, self._keys, in_line, self.used)


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
        self.kept = self._begin(0)
        """By row number."""

    def _begin(self, first: int) -> RowBuffer:
        """Keep slots from this row on."""
        self.kept = RowBuffer("int32", first)
        self.kept.slide()
        return self.kept

    def forget(self) -> None:
        """No row that has come is there any more."""
        if len(self.kept):
            self._begin(self.kept.end)

    def read(self, batch: Batch | None, insert: bool) -> NDArray:
        """A slot per row; insert: new keys get one, else they have none. Keys of numbered rows always do."""
        if batch is None:
            self.forget()
            return NO_SLOTS
        if not self._columns:
            return np.zeros(batch.length, np.int32)
        if not self.is_numbered:
            slots = np.empty(batch.length, np.int32)
            return (self._slots.insert if insert else self._slots.find)(self._keys(batch), slots)
        assert batch.first_row is not None, "rows without numbers"
        kept, first, end = self.kept, batch.first_row, batch.first_row + batch.length
        if not kept.tail <= first <= kept.end:  # rows in between have come and gone unseen, or were forgotten
            kept = self._begin(first)
        kept.drop(first)
        seen = kept.end - first
        if seen < batch.length:
            self._slots.insert(self._keys(batch, seen), kept.extend(batch.length - seen))
        return kept.run(first, end)

    def _keys(self, batch: Batch, first: int = 0) -> Keys:
        """Those of a batch's rows from `first` on; of the others nothing is gathered."""
        rows = batch.slice(first, batch.length) if first else batch
        arrays = [rows.column(column) for column in self._columns]
        return keys_of(arrays, self._types, batch.length - first, self._nulls)

    def _check_restored(self) -> None:
        within(self.kept.live, -1, self._slots.used, "slots of rows")


def keys_of(arrays: Sequence[pa.Array], types: Sequence[SqlType], rows: int, nulls: bool = False) -> Keys:
    """Those of rows of some columns; nulls: NULL is a value like any other."""
    has_nulls = any(array.null_count for array in arrays)
    if len(arrays) == 1 and not has_nulls and types[0] is not SqlType.VARCHAR:
        return frozen(encode_values(arrays[0], types[0])), NO_INTS, NO_BYTES
    a, b = fingerprint(arrays, types, rows)
    null = np.zeros(rows if has_nulls and not nulls else 0, np.uint8)
    if len(null):
        for array in arrays:
            null |= valid_bytes(array) == 0
    return frozen(a), frozen(b), frozen(null)


def tidy(slots: KeySlots, readers: Sequence[SlotReader]) -> None:
    """After a hop: forget all keys if no rows are numbered, else those no row has, if they are many."""
    kept = [reader.kept.live for reader in readers if reader.is_numbered]
    if not any(map(len, kept)):
        if slots.used:
            slots.clear()
    elif slots.used > max(MIN_SLOTS, 4 * sum(map(len, kept))):
        slots.keep_only(kept)
