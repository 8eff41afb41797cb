"""The groups that panes know of: a slot per key, in the order in which keys came.

In: batches with their keys.  Out: a slot per row.  Kept: a key per slot.  Dropped: keys of slots that have
nothing in any pane, all at once when they are many (`keep`); slots are numbered anew then.
Keys are never overwritten: those that stay move into a new store, so what was gathered lazily stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.changes.argument import grown
from penstock.engine.changes.group_table import NO_INTS, NullView
from penstock.engine.kernels.hopping import panes as kernels
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.restoring.in_order import expect, size_of_two
from penstock.engine.rows.batch import View
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import FixedColumn, TextColumn, fixed_values
from penstock.engine.rows.types import ARROW_TYPES, SqlType

MIN_SLOTS = 256
WHOLE = (SqlType.BIGINT, SqlType.TIMESTAMP)
"""Types whose values are their own fingerprint, as they stand in memory."""


class PaneSlots:
    """Finds and makes slots. Without keys there is one slot, always."""

    _owned: ClassVar[tuple[str, ...]] = ("_a", "_b", "_table")

    def __init__(self, types: Sequence[SqlType]) -> None:
        self._types = tuple(types)
        self.is_single = not types
        self.used = 0
        self.clear()

    def clear(self) -> None:
        """Forget all keys."""
        self._a, self._b = np.empty(MIN_SLOTS, np.int64), np.empty(MIN_SLOTS, np.int64)
        self._table = np.full(4 * MIN_SLOTS, -1, np.int32)
        self._keys = self._key_columns()
        self.used = 1 if self.is_single else 0
        self._whole: tuple[int, list[pa.Array]] = (-1, [])

    def _key_columns(self) -> list[FixedColumn | TextColumn | None]:
        return [
            None if t is SqlType.NULL else TextColumn() if t is SqlType.VARCHAR else FixedColumn(t)
            for t in self._types
        ]

    def find(self, keys: Sequence[pa.Array], length: int) -> NDArray:
        """The slot (int32) of each row."""
        if self.is_single:
            return np.zeros(length, np.int32)
        if len(keys) == 1 and self._types[0] in WHOLE and not keys[0].null_count:
            a, b = fixed_values(keys[0]), NO_INTS
        else:
            a, b = fingerprint(keys, self._types, length)
        a, b = frozen(a), frozen(b)
        out = np.empty(length, np.int32)
        new_rows = np.empty(min(length, max(MIN_SLOTS, len(self._a))), np.int32)
        at = 0
        while True:
            before = self.used
            at, self.used = kernels.find_slots(
                a, b, at, self._table, self._a, self._b, before, new_rows, out
            )  # fmt: skip
            if self.used > before:
                rows = pa.array(new_rows[: self.used - before])
                for column, array in zip(self._keys, keys, strict=True):
                    if column is not None:
                        column.append(array.take(rows))
            if at == length:
                return out
            if self.used == len(self._a):
                self._grow()

    def _grow(self) -> None:
        size = 2 * len(self._a)
        self._a, self._b = grown(self._a, size), grown(self._b, size)
        self._table = np.full(4 * size, -1, np.int32)
        kernels.file_slots(self._a, self._b, self.used, self._table)

    def views(self) -> list[View]:
        """The key columns by slot, as they are now."""
        return [NullView() if column is None else column.view() for column in self._keys]

    def whole(self) -> list[pa.Array]:
        """The keys of all slots."""
        if self._whole[0] != self.used:
            every = np.arange(self.used)
            self._whole = self.used, [view.take(every) for view in self.views()]
        return self._whole[1]

    def keep(self, slots: NDArray) -> None:
        """Keep these slots alone, in this order: they are numbered from 0 on now."""
        old, self._keys = self._keys, self._key_columns()
        for column, new in zip(old, self._keys, strict=True):
            if column is not None and new is not None:
                new.append(column.view().take(slots))
        size = MIN_SLOTS
        while size < 2 * len(slots):
            size *= 2
        self._a, self._b = grown(self._a[slots], size), grown(self._b[slots], size)
        self.used = len(slots)
        self._table = np.full(4 * size, -1, np.int32)
        kernels.file_slots(self._a, self._b, self.used, self._table)
        self._whole = (-1, [])

    @property
    def nbytes(self) -> int:
        keys = sum(column.nbytes for column in self._keys if column is not None)
        return keys + int(self._a.nbytes + self._b.nbytes + self._table.nbytes)

    def _check(self) -> None:
        if self.is_single:
            assert self.used == 1, "one group has one slot"
            return
        filed = np.sort(self._table[self._table >= 0])
        assert np.array_equal(filed, np.arange(self.used)), "the table has other slots than those in use"
        for column in self._keys:
            if column is not None:
                rows = column.starts.end - 1 if isinstance(column, TextColumn) else column.values.end
                assert rows == self.used, "there are more or fewer keys than slots"
        pairs = {(int(a), int(b)) for a, b in zip(self._a[: self.used], self._b[: self.used], strict=True)}
        assert len(pairs) == self.used, "two slots have the same key"

    def _check_restored(self) -> None:
        size = len(self._a)
        size_of_two(len(self._table), "cells")
        expect(len(self._b) == size and len(self._table) >= 2 * size, "keys of all slots")
        expect(0 <= self.used <= size and self.is_single == (not self._types), "slots that are used")
        expect(not self.is_single or self.used == 1, "one slot without a key")
        for column, type_ in zip(self._keys, self._types, strict=True):
            if column is not None:
                expect(column.view().arrow_type == ARROW_TYPES[type_], "keys of their types")
                buffer = column.buffers()[0]
                end = buffer.end - 1 if isinstance(column, TextColumn) else buffer.end
                expect(end == self.used and buffer.tail == 0, "keys of all slots")
        self._whole = (-1, [])
        if not self.is_single:
            self._table[:] = -1
            kernels.file_slots(self._a, self._b, self.used, self._table)
