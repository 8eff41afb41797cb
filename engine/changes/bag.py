"""The live rows of one input: columns, keys, when each leaves; found by key, taken out by their values.

Kept: a store of the columns, in which rows have numbers that grow, and per live row a slot in the arrays of
kernels/changes/bag.py. Rows come in by `append`, which numbers them, and by the kernel that says which of
them are alive and until when. Dropped: a slot as soon as its row has left. The store's oldest rows go by
moving its tail; when less than half of the numbered rows are alive the others move to a new store, with new
numbers. That is `tidy`, between two batches. Views of the old store stay valid.

What tells rows with one key apart, their fingerprint, is only worked out once a row is withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.changes import bag as kernels
from penstock.engine.kernels.changes.bag import (
    ALIVE,
    BASE,
    ETS,
    FINITE,
    FREED,
    FRESH,
    GONE,
    GONE_ROWS,
    KEY_A,
    LINKED,
    LIVE,
    NEWER,
    OLDER,
    PRINT_A,
    ROW,
)  # fmt: skip
from penstock.engine.kernels.rows.expiry import NEVER
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.restoring.in_order import chained, expect, size_of_two, within
from penstock.engine.rows.batch import View
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.expiry_queue import ExpiryQueue
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import ARROW_TYPES, SqlType

MIN_SLOTS = 64
FEW_ROWS = 1024
MANY_SLOTS = 262_144


class Bag:
    """Rows alive, and their arrays for the kernels."""

    _owned: ClassVar[tuple[str, ...]] = ("_heads", "_meta", "_rows", "_state", "counts", "marks")

    def __init__(self, types: Sequence[SqlType], unkeyed: Sequence[int], linked: bool = True) -> None:
        """unkeyed: the columns that are not part of the key. linked False: no chains before `link_all`."""
        self.types = tuple(types)
        self._unkeyed = tuple(unkeyed)
        self.has_prints = False
        self._reset(linked)

    def _reset(self, linked: bool) -> None:
        self._store = Store(self.types)
        self._alive = RowBuffer("uint8")
        self._due = ExpiryQueue()
        self._rows = np.empty((MIN_SLOTS, 8), np.int64)
        self._state = np.zeros(MIN_SLOTS, np.int8)
        self.counts = np.zeros(MIN_SLOTS, np.int64)
        self.marks = np.zeros(MIN_SLOTS, np.uint8)
        self._heads = np.full((MIN_SLOTS, 2), -1, np.int32)
        self._meta = np.zeros(8, np.int64)
        self._meta[FREED] = self._meta[GONE] = -1
        self._meta[LINKED] = linked

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernels take; to be asked for anew after any call here."""
        self._meta[BASE] = self._alive.base
        return (self._rows, self._state, self._heads, self._meta, self._alive.data, self._due.arrays)

    @property
    def linked(self) -> bool:
        return bool(self._meta[LINKED])

    @property
    def finite(self) -> int:
        """Rows alive that will leave by themselves."""
        return int(self._meta[FINITE])

    @property
    def first_due(self) -> int:
        """When the next row leaves by itself, or earlier; NEVER if none does."""
        return self._due.first

    def __len__(self) -> int:
        return int(self._meta[LIVE])

    def append(self, ts: NDArray, arrays: Sequence[pa.Array]) -> int:
        """Store rows, to be made alive by a kernel. Returns the first one's number."""
        first, count = self._store.ts.end, len(ts)
        self._store.append(ts, arrays)
        self._alive.append(np.zeros(count, np.uint8))
        self._due.reserve(count)
        slots = len(self._state)
        needed = int(self._meta[LIVE] + self._meta[GONE_ROWS]) + count
        if needed > slots:
            self._resize(max(needed, slots + slots // 2))
        buckets = len(self._heads)
        if max(len(self), needed // 4) > buckets and self.linked:
            while max(len(self), needed // 4) > buckets:
                buckets *= 2
            self._relink(buckets)
        return first

    def _resize(self, slots: int) -> None:
        """Make room for so many rows."""
        old = len(self._state)
        rows = np.empty((slots, 8), np.int64)
        rows[:old] = self._rows
        self._rows = rows
        for name in ("_state", "counts", "marks"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(slots - old, array.dtype)]))

    def live_slots(self) -> NDArray:
        """Slots of the rows alive, oldest row first."""
        slots = np.flatnonzero(self._state[: self._meta[FRESH]] == ALIVE)
        return slots[np.argsort(self._rows[slots, ROW])]

    def _relink(self, buckets: int, due: bool = False) -> None:
        self._heads = np.full((buckets, 2), -1, np.int32)
        kernels.relink(self.arrays, self.live_slots(), due)

    def link_all(self, keys: tuple[NDArray, NDArray]) -> None:
        """Begin with chains; keys: of the rows alive, oldest first."""
        slots = self.live_slots()
        self._rows[slots, KEY_A], self._rows[slots, KEY_A + 1] = keys
        self._meta[LINKED] = 1
        buckets = len(self._heads)
        while len(self) > buckets:
            buckets *= 2
        self._relink(buckets)

    def print_all(self) -> None:
        """Work out the fingerprints of the rows that are there; from now on they come with the rows."""
        self.has_prints = True
        slots = self.live_slots()
        rows = self._rows[slots, ROW]
        arrays: list[Any] = [None] * len(self.types)
        for column in self._unkeyed:
            arrays[column] = self._store.columns[column].view().take(rows)
        self._rows[slots, PRINT_A], self._rows[slots, PRINT_A + 1] = self.prints(arrays, len(rows))

    def prints(self, arrays: Sequence[pa.Array], length: int) -> tuple[NDArray, NDArray]:
        """What tells rows with these columns apart that have the same key."""
        types = [self.types[column] for column in self._unkeyed]
        return fingerprint([arrays[column] for column in self._unkeyed], types, length)

    def ends(self) -> NDArray:
        """When the rows alive leave, oldest row first."""
        return self._rows[self.live_slots(), ETS]

    def counted_ends(self) -> NDArray:
        """When those of them leave that have a count."""
        slots = self.live_slots()
        return self._rows[slots[self.counts[slots] > 0], ETS]

    def values(self) -> list[pa.Array]:
        """The columns of the rows alive, oldest first."""
        rows = self._rows[self.live_slots(), ROW]
        return [view.take(rows) for view in self.views()]

    def views(self) -> list[View]:
        """The columns as they are now, by row number."""
        return [column.view() for column in self._store.columns]

    def release(self) -> NDArray:
        """Free what the kernels left behind; the ets of those that expired with a count, in no order."""
        times = np.empty(int(self._meta[GONE_ROWS]), np.int64)
        if len(times):
            times = times[: kernels.release(self.arrays, self.counts, self.marks, times)]
        return times

    def clear(self) -> None:
        """Forget all rows."""
        self._reset(self.linked)

    def tidy(self) -> None:
        """Give back what dead rows hold; row numbers may change. Nothing may be gone and not released."""
        alive = self._alive
        tail = (
            int(kernels.first_alive(alive.data, alive.tail - alive.base, alive.end - alive.base)) + alive.base
        )
        if tail > alive.tail:
            alive.drop(tail)
            self._store.drop(tail)
        numbered, slots = len(alive), len(self._state)
        is_loose = numbered > FEW_ROWS and 2 * len(self) < numbered
        has_stale = len(self._due) > FEW_ROWS + 2 * self.finite
        if is_loose or has_stale or slots > max(MANY_SLOTS, 16 * len(self)):
            self._rebuild()

    def _rebuild(self) -> None:
        """Lay the rows alive out anew, oldest first."""
        assert self._meta[GONE_ROWS] == 0, "rows to be looked at would be lost"
        slots = self.live_slots()
        rows, counts, marks = self._rows[slots], self.counts[slots], self.marks[slots]
        ts = self._store.ts.data[rows[:, ROW] - self._store.ts.base]
        arrays = self.values()
        self._reset(self.linked)
        count = len(slots)
        self.append(ts, arrays)
        rows[:, ROW] = np.arange(count)
        self._rows[:count], self._state[:count] = rows, ALIVE
        self.counts[:count], self.marks[:count] = counts, marks
        self._alive.live[:] = 1
        self._meta[FRESH] = self._meta[LIVE] = count
        self._meta[FINITE] = np.count_nonzero(rows[:, ETS] != NEVER)
        buckets = len(self._heads)
        while count > buckets:
            buckets *= 2
        self._relink(buckets, due=True)

    @property
    def nbytes(self) -> int:
        own = (self._rows, self._state, self.counts, self.marks, self._heads)
        return sum(int(array.nbytes) for array in own) + sum(
            part.nbytes for part in (self._store, self._alive, self._due)
        )

    def _check(self) -> None:
        self._store._check()
        self._alive._check()
        self._due._check()
        assert self._alive.end == self._store.ts.end, "rows without a word on whether they are alive"
        slots = self.live_slots()
        rows = self._rows
        assert len(slots) == len(self), "the number of rows alive is wrong"
        assert bool(np.all(rows[slots, ROW] >= self._alive.tail)), "a live row was dropped"
        numbers = np.flatnonzero(self._alive.live) + self._alive.tail
        assert numbers.tolist() == rows[slots, ROW].tolist(), "slots and rows disagree on who is alive"
        finite = slots[rows[slots, ETS] != NEVER]
        assert len(finite) == self.finite, "the number of rows with an ets is wrong"
        due = set(zip(*(part.tolist() for part in self._due.entries()), strict=True))
        assert due >= set(zip(rows[finite, ETS].tolist(), finite.tolist(), strict=True)), (
            "a row without its end"
        )
        assert bool(np.all(self.counts[slots] >= 0)), "fewer than no matches"
        self._check_slots()
        if self.linked:
            self._check_chains(slots)

    def _check_slots(self) -> None:
        """Every slot is alive, gone or free, once."""
        seen = 0
        for start in (FREED, GONE):
            slot = int(self._meta[start])
            while slot >= 0:
                assert self._state[slot] != ALIVE, "the slot of a live row was given back"
                assert start == GONE or (self.counts[slot] == 0 and self.marks[slot] == 0), "traces of a row"
                seen += 1
                slot = int(self._rows[slot, OLDER])
        assert seen + len(self) == self._meta[FRESH], "slots were lost"

    def _check_chains(self, slots: NDArray) -> None:
        """Every live row is in one chain, links both ways agree, rows of a chain are in order."""
        linked = 0
        for newest, oldest in self._heads[self._heads[:, 0] >= 0].tolist():
            slot, newer = newest, -1
            while slot >= 0:
                assert self._state[slot] == ALIVE, "a row in a chain is not alive"
                assert self._rows[slot, NEWER] == newer, "links disagree"
                assert newer < 0 or self._rows[newer, ROW] > self._rows[slot, ROW], "a chain is out of order"
                linked += 1
                slot, newer = int(self._rows[slot, OLDER]), slot
            assert newer == oldest, "the oldest end of a chain is wrong"
        assert linked == len(slots), "a live row is in no chain"

    def _check_restored(self) -> None:
        rows, state, meta, alive = self._rows, self._state, self._meta, self._alive
        slots = len(state)
        expect(len(meta) == 8 and rows.shape == (slots, 8), "slots")
        expect(len(self.counts) == len(self.marks) == slots, "counts of all slots")
        size_of_two(len(self._heads), "chains")
        expect(self._heads.shape[1] == 2 and len(self._heads) > 1, "chains")
        fresh = int(meta[FRESH])
        expect(0 <= fresh <= slots, "slots that were used")
        within(state[:fresh], kernels.FREE, kernels.EXPIRED + 1, "states")
        expect(not state[fresh:].any(), "slots that were not used")
        expect(alive.data.dtype == np.uint8, "whether rows are alive")
        expect((alive.tail, alive.end) == (self._store.ts.tail, self._store.ts.end), "whether rows are alive")
        there = np.flatnonzero(state[:fresh] == ALIVE)
        expect(len(there) == int(meta[LIVE]), "rows alive")
        numbers = np.sort(rows[there, ROW])
        expect(np.array_equal(numbers, np.flatnonzero(alive.live) + alive.tail), "a slot for each row alive")
        expect(int(np.count_nonzero(rows[there, ETS] != NEVER)) == int(meta[FINITE]), "rows with an end")
        seen = state[:fresh] == ALIVE
        older = np.ascontiguousarray(rows[:, OLDER])
        gone = chained(meta[GONE : GONE + 1], older, seen, "slots that are gone")
        free = chained(meta[FREED : FREED + 1], older, seen, "free slots")
        expect(gone == int(meta[GONE_ROWS]) and gone + free + len(there) == fresh, "every slot free or not")
        expect(bool((self.counts[:fresh] >= 0).all()), "no fewer than no matches")
        _, ids = self._due.entries()
        within(ids, 0, fresh, "slots that are due")
        found = [column.view().arrow_type for column in self._store.columns]
        expect(found == [ARROW_TYPES[one] for one in self.types], "columns of these types")
        within(np.array(self._unkeyed, np.int64), 0, len(self.types), "columns")
        if self.linked:
            self._relink(len(self._heads))
