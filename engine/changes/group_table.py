"""Groups of rows that have equal keys: who is in which group, until when, and what the groups' keys are.

In: batches of changes and the time.  Out: events and points (see kernels/changes/groups.py), a bounded number
at a time.  Kept: a slot per group, its key once, and an entry per row that will leave by itself.  Dropped: an
entry when it is due, a slot when its group is empty and nothing refers to it, its key when enough keys are
dead.
Keys are never overwritten: those alive move into a new store, so what was gathered lazily stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.changes import groups as kernels
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.restoring.in_order import (
    chained,
    distinct,
    expect,
    rising,
    same_length,
    size_of_two,
    within,
)
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.batch import Batch, Gather, LazyColumn, View
from penstock.engine.rows.expiry_queue import ExpiryQueue
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import FixedColumn, TextColumn
from penstock.engine.rows.types import ARROW_TYPES, SqlType

MIN_SLOTS = 256
MIN_KEYS = 1024
MAX_EVENTS = 32_768
MAX_POINTS = 16_384
NO_INTS = np.empty(0, np.int64)
NO_SIGNS = np.empty(0, np.int8)


NO_ROWS = (frozen(NO_INTS), frozen(NO_SIGNS), frozen(NO_INTS), frozen(NO_INTS), frozen(NO_INTS))


@dataclass(slots=True)
class Changes:
    """What happened: `count` events and, between them, `points`. See kernels/changes/groups.py."""

    count: int
    slot: NDArray
    sign: NDArray
    row: NDArray
    entry: NDArray
    points: int
    point_ts: NDArray
    point_slot: NDArray
    point_until: NDArray
    point_rows: NDArray
    point_key: NDArray

    def of_values(self, sign: NDArray, codes: NDArray) -> tuple[NDArray, NDArray, NDArray, int]:
        """The events, of these values with these signs, as kernels of aggregates take them."""
        return self.slot, sign, codes, self.count

    @property
    def asked(self) -> tuple[NDArray, NDArray, int]:
        """The points, as they take them."""
        return self.point_slot, self.point_until, self.points


class GroupTable:
    """`run` gives changes until `is_done`; then `begin` with the next batch."""

    _owned: ClassVar[tuple[str, ...]] = (
        "_slots",
        "_table",
        "_entries",
        "_touched",
        "_new_rows",
        "_meta",
        "_events",
        "_points",
    )

    def __init__(self, types: Sequence[SqlType], *, single: bool = False, rows_only: bool = False) -> None:
        self._types = tuple(types)
        self._single = single
        self._slots = np.zeros((MIN_SLOTS, kernels.LINE), np.int64)
        self._table = np.full(4 * MIN_SLOTS, -1, np.int32)
        self._entries = np.empty(MIN_SLOTS, np.int64)
        self._touched = np.empty(MIN_SLOTS, np.int32)
        self._new_rows = np.empty(MAX_EVENTS, np.int32)
        self.expiry = ExpiryQueue()
        self._meta = np.zeros(kernels.META, np.int64)
        self._meta[[kernels.FREE_SLOT, kernels.FREE_ENTRY]] = -1
        if single:
            self._meta[[kernels.USED_SLOTS, kernels.UNSAID]] = 1
        self._keys = self._key_columns()
        self._events = tuple(np.empty(MAX_EVENTS, t) for t in (np.int32, np.int8, np.int32, np.int32))
        self._points = tuple(
            np.empty(MAX_POINTS, t) for t in (np.int64, np.int32, np.int32, np.int64, np.int64)
        )
        self._rows = NO_ROWS
        self._arrays: list[pa.Array] = []
        self._known = self._limit = BEGINNING
        self.is_done = True
        self.rows_only = rows_only
        """Whether nobody asks for the events of expiries, nor for signs and entries."""

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "_events", "_points", "_new_rows")

    def _key_columns(self) -> list[FixedColumn | TextColumn | None]:
        return [
            None if t is SqlType.NULL else TextColumn() if t is SqlType.VARCHAR else FixedColumn(t)
            for t in self._types
        ]

    @property
    def capacity(self) -> int:
        """Slots there are."""
        return len(self._slots)

    @property
    def entries(self) -> int:
        """Entries there is room for."""
        return len(self._entries)

    @property
    def live(self) -> int:
        """Groups that are remembered; one without a key is not counted."""
        return int(self._meta[kernels.LIVE])

    @property
    def rows(self) -> int:
        """Rows of the batch being worked."""
        return len(self._rows[0])

    def begin(self, batch: Batch | None, known: int) -> None:
        """Take the next rows; all that is due by `known`, or by the time of a row, will happen."""
        assert self.is_done, "the rows before are not worked yet"
        meta = self._meta
        meta[kernels.AT_ROW] = 0
        self._known = BEGINNING  # the one group without a key has been there before all time
        self._limit = known
        self._rows = NO_ROWS
        self._arrays = []
        if batch is not None:
            self._limit = max(known, int(batch.ts[-1]))
            a = b = NO_INTS
            if not self._single:
                self._arrays = [batch.column(i) for i in range(len(self._types))]
                a, b = fingerprint(self._arrays, self._types, batch.length)
            sign = NO_SIGNS if batch.sign is None else batch.sign
            ets = NO_INTS if batch.ets is None else batch.ets
            self._rows = (frozen(batch.ts), frozen(sign), frozen(ets), frozen(a), frozen(b))
        self.is_done = not (batch is not None or self.expiry.first <= self._limit or meta[kernels.UNSAID])

    def run(self) -> Changes:
        """The next events and points. Valid until the next call."""
        meta = self._meta
        meta[[kernels.EVENTS, kernels.POINTS, kernels.NEW]] = 0
        if len(self._rows[2]):
            self._reserve_entries(min(MAX_EVENTS, len(self._rows[0]) - int(meta[kernels.AT_ROW])))
        while True:
            status = kernels.run_changes(
                self._rows, self._slots, self._table, self._entries, self.expiry.arrays, self._events,
                self._points, self._touched, self._new_rows, meta, self._known, self._limit, self._single,
                self.rows_only,
            )  # fmt: skip
            if status != kernels.GROW:
                break
            self._grow()
        self.is_done = status == kernels.DONE
        new = int(meta[kernels.NEW])
        if new:
            rows = pa.array(self._new_rows[:new])
            for column, array in zip(self._keys, self._arrays, strict=True):
                if column is not None:
                    column.append(array.take(rows))
        count, points = int(meta[kernels.EVENTS]), int(meta[kernels.POINTS])
        return Changes(count, *self._events, points, *self._points)  # type: ignore[call-arg, arg-type]

    def _reserve_entries(self, count: int) -> None:
        self.expiry.reserve(count)
        need = max(int(self._meta[kernels.USED_ENTRIES]), len(self.expiry) + count)
        if not self.rows_only and need > len(self._entries):
            entries = np.empty(2 * need, np.int64)
            entries[: len(self._entries)] = self._entries
            self._entries = entries

    def _grow(self) -> None:
        used = len(self._slots)
        slots = np.zeros((2 * used, self._slots.shape[1]), np.int64)
        slots[:used] = self._slots
        self._slots = slots
        touched = np.empty(2 * used, np.int32)
        touched[:used] = self._touched
        self._touched = touched
        self._table = np.full(8 * used, -1, np.int32)
        kernels.fill_table(slots, self._table, used)

    def keys(self, rows: NDArray) -> list[LazyColumn]:
        """The key columns at these rows of keys."""
        return [Gather(NullView() if column is None else column.view(), rows) for column in self._keys]

    def key_rows(self, slots: NDArray) -> NDArray:
        """The rows of keys of these slots."""
        return self._slots[slots, kernels.KEY]

    def key_views(self, rows: NDArray) -> list[View]:
        """Views of the key columns in which row i is rows[i] of the keys."""
        return [NullView() if column is None else IndirectView(column.view(), rows) for column in self._keys]

    def compact(self) -> None:
        """Let dead keys go, if they are many. Call it when the last changes have been passed on."""
        kept, live = int(self._meta[kernels.KEYS]), self.live
        if kept <= max(MIN_KEYS, 4 * live):
            return
        used = int(self._meta[kernels.USED_SLOTS])
        slots = np.flatnonzero(self._slots[:used, kernels.MARK] != kernels.FREE)
        rows = self._slots[slots, kernels.KEY]
        old, self._keys = self._keys, self._key_columns()
        for column, new in zip(old, self._keys, strict=True):
            if column is not None and new is not None:
                new.append(column.view().take(rows))
        self._slots[slots, kernels.KEY] = np.arange(len(slots))
        self._meta[kernels.KEYS] = len(slots)

    @property
    def nbytes(self) -> int:
        """Bytes held for groups and entries."""
        keys = sum(column.nbytes for column in self._keys if column is not None)
        arrays = (self._slots, self._table, self._entries, self._touched)
        return keys + self.expiry.nbytes + sum(int(array.nbytes) for array in arrays)

    def _check(self) -> None:
        meta = self._meta
        used = int(meta[kernels.USED_SLOTS])
        self.expiry._check()
        live = np.flatnonzero(self._slots[:used, kernels.MARK] != kernels.FREE)
        if self._single:
            assert list(live) == [0] and used == 1, "one group has one slot"
        else:
            assert len(live) == self.live, "live groups are not counted right"
            there = np.sort(self._table[self._table >= 0])
            assert np.array_equal(there, live), "the table has other slots than live ones"
            assert 2 * len(live) <= len(self._table), "the table is more than half full"
        for column in self._keys:
            if column is not None:
                rows = column.starts.end - 1 if isinstance(column, TextColumn) else column.values.end
                assert rows == meta[kernels.KEYS], "keys are not counted right"
        _, ids = self.expiry.entries()
        if not self.rows_only:
            assert len(np.unique(ids)) == len(ids), "an entry is due twice"
            ids = self._entries[ids]
        slots = ids >> 1
        refs = np.bincount(slots, minlength=used)
        assert bool(np.all(refs[live] == self._slots[live, kernels.REFS])), "entries are not counted right"
        assert int(refs.sum()) == int(refs[live].sum()), "an entry refers to a free slot"
        if self.is_done:
            assert bool(np.all(self._slots[live, kernels.MARK] == kernels.IDLE)), "a point is missing"
            assert bool(np.all(self._slots[live, kernels.ROWS] >= 0)), "a group has fewer than no rows"

    def _check_restored(self) -> None:
        meta, expiry = self._meta, self.expiry
        expect(len(meta) == kernels.META, "what a kernel remembers")
        used, capacity = int(meta[kernels.USED_SLOTS]), len(self._slots)
        expect(0 <= used <= capacity and self._slots.shape[1] == kernels.LINE, "slots")
        size_of_two(len(self._table), "cells")
        expect(len(self._touched) >= capacity, "room for what was touched")
        slots = self._slots[:used]
        marks = slots[:, kernels.MARK]
        within(marks, kernels.FREE, kernels.TOUCHED + 1, "marks of slots")
        live = np.flatnonzero(marks != kernels.FREE)
        seen = marks != kernels.FREE
        free = chained(
            meta[kernels.FREE_SLOT : kernels.FREE_SLOT + 1], slots[:, kernels.KEY], seen, "free slots"
        )
        expect(free + len(live) == used, "every slot free or not")
        keys = int(meta[kernels.KEYS])
        if self._single:
            expect(used == 1 and len(live) == 1 and not self._keys, "one group without a key")
        else:
            expect(len(live) == int(meta[kernels.LIVE]) and 2 * len(live) <= len(self._table), "live groups")
            within(slots[live, kernels.KEY], 0, keys, "rows of keys")
        for column, type_ in zip(self._keys, self._types, strict=True):
            if column is not None:
                expect(column.view().arrow_type == ARROW_TYPES[type_], "keys of their types")
                buffer = column.buffers()[0]
                end = buffer.end - 1 if isinstance(column, TextColumn) else buffer.end
                expect(end == keys and buffer.tail == 0, "keys of all groups")
        _, ids = expiry.entries()
        if not self.rows_only:
            entries = int(meta[kernels.USED_ENTRIES])
            expect(0 <= entries <= len(self._entries), "entries")
            distinct(ids, entries, "entries")
            seen = np.zeros(entries, np.bool_)
            seen[ids] = True
            chained(meta[kernels.FREE_ENTRY : kernels.FREE_ENTRY + 1], self._entries, seen, "free entries")
            ids = self._entries[ids]
        within(ids >> 1, 0, used, "slots of entries")
        refs = np.bincount(ids >> 1, minlength=used)
        expect(
            np.array_equal(refs, np.where(marks != kernels.FREE, slots[:, kernels.REFS], 0)),
            "entries of groups",
        )
        rows = int(meta[kernels.AT_ROW])
        expect(0 <= rows <= max(len(self._rows[0]), 0), "a row of the batch")
        same_length("rows", self._rows[0], *(one for one in self._rows[1:] if len(one)))
        rising(self._rows[0], "rows")
        expect(len(self._rows[3]) == len(self._rows[4]), "fingerprints")
        expect(
            int(meta[kernels.UNSAID]) in (0, 1) and (self._single or not meta[kernels.UNSAID]),
            "who is heard of",
        )
        stage = int(meta[kernels.OPEN])
        expect(0 <= stage <= 2, "a stage of the work")
        listed, at = int(meta[kernels.LISTED]), int(meta[kernels.AT_POINT]) if stage == 2 else 0
        expect(0 <= at <= listed <= capacity and (stage or not listed), "points to be made")
        touched = self._touched[at:listed]
        distinct(touched, used, "groups that were touched")
        expect(bool((marks[touched] == kernels.TOUCHED).all()), "groups that were touched")
        waiting = int(np.count_nonzero(marks == kernels.TOUCHED))
        expect(waiting == listed - at, "groups that were touched, and no others")
        expect(len(self._new_rows) >= MAX_EVENTS, "room for new rows")
        expect([len(one) for one in self._events] == [MAX_EVENTS] * 4, "room for events")
        expect([len(one) for one in self._points] == [MAX_POINTS] * 5, "room for points")
        if not self._single:
            filed = self._table[self._table >= 0]
            distinct(filed, used, "slots in the table")
            expect(len(filed) == len(live) and bool((marks[filed] != kernels.FREE).all()), "all live slots")


class IndirectView:
    """Rows of a view by their places in a list of rows."""

    __slots__ = ("_rows", "_view")

    def __init__(self, view: View, rows: NDArray) -> None:
        self._view = view
        self._rows = rows

    def take(self, rows: NDArray) -> pa.Array:
        return self._view.take(self._rows[rows])

    def text_bytes(self, rows: NDArray) -> int:
        return self._view.text_bytes(self._rows[rows])

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows, 0, len(self._rows), "rows of groups")
        self._view.check_rows(self._rows[rows])


class NullView:
    """A column of nothing but NULL."""

    def take(self, rows: NDArray) -> pa.Array:
        return pa.nulls(len(rows))

    def text_bytes(self, rows: NDArray) -> int:
        return 0

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
