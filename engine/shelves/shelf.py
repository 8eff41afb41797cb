"""Rows of one side of a join that live equally long: their store, their index, what is known of them.

Rows have numbers that only grow; the oldest leave first, all at the same age, so leaving is moving a tail.

    pos     when a row came, in the unit of its window: its ts (RANGE) or its place in the stream (ROWS)
    leaves  per dimension of the side's predicates, between which constants its value lies (see lineage.py)
    words   bits of the predicates that no dimension covers
    memory  tags by a lineage of others than the side's own members (see side.py)
    births  how often the stored columns had changed when it came; what came before a column was kept lacks it
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.indexes.build import build_index
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.members.lineage import Lineage
from penstock.engine.restoring.in_order import expect, rising
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

from .key_counts import KeyCounts


class Shelf:
    """Rows that leave at the age `lifetime`."""

    def __init__(
        self,
        lifetime: int,
        types: Sequence[SqlType],
        by_place: bool,
        numbered: bool,
        index: str,
        dimensions: int,
        words: int,
    ) -> None:
        """`numbered`: places are kept even if rows leave by their ts."""
        self.lifetime = lifetime
        self.by_place = by_place
        self.store = Store(types)
        self.index = build_index(index)
        self.places = RowBuffer("int64") if by_place or numbered else None
        self.leaves = [RowBuffer("int32") for _ in range(dimensions)]
        self.words = [RowBuffer("int64") for _ in range(words)]
        self.memory: list[RowBuffer] = []
        """Leaves, then words."""
        self.births: RowBuffer | None = None
        self.key_counts: KeyCounts | None = None
        """Where pairs are counted by key and not found in the index."""
        self.lookups: list[HashIndex] = []
        """Rows by some of their keys, one for each choice of these that a join of many streams looks up."""
        self.first_row = 0
        """Of the batch being worked."""
        self.new_ts: NDArray = NO_ROWS

    @property
    def pos(self) -> RowBuffer:
        if not self.by_place:
            return self.store.ts
        assert self.places is not None, "rows of a ROWS window have places"
        return self.places

    def append(
        self,
        ts: NDArray,
        places: NDArray | None,
        keys: NDArray,
        arrays: Sequence[pa.Array],
        leaves: Sequence[NDArray],
        words: Sequence[NDArray],
        births: int | NDArray,
        memory: Sequence[NDArray] = (),
    ) -> None:
        """Add rows, none older than those there; the index takes their keys and inserts them when probed."""
        if self.births is None and not (isinstance(births, int) and births == 0):
            self.births = RowBuffer("int32", self.store.ts.tail)
            self.births.append(np.zeros(len(self.store), np.int32))
        self.store.append(ts, arrays)
        self.index.extend(keys)
        if self.places is not None:
            assert places is not None, "rows of a ROWS window have places"
            self.places.append(places)
        tags = (*self.leaves, *self.words, *self.memory)
        for buffer, values in zip(tags, (*leaves, *words, *memory), strict=True):
            buffer.append(values)
        if self.births is not None:
            self.births.append(np.broadcast_to(np.asarray(births, np.int32), len(ts)))

    def begin(self) -> None:
        """A batch is about to be worked, of which no row is here yet."""
        self.first_row, self.new_ts = self.store.ts.end, NO_ROWS

    def take(
        self,
        ts: NDArray,
        places: NDArray | None,
        keys: NDArray,
        arrays: Sequence[pa.Array],
        leaves: Sequence[NDArray],
        words: Sequence[NDArray],
        births: int | NDArray,
        memory: Sequence[NDArray],
    ) -> None:
        """Add rows of the batch being worked: see `append`."""
        self.append(ts, places, keys, arrays, leaves, words, births, memory)
        self.new_ts = ts

    def remember(self, lineage: Lineage) -> None:
        """Rows to come are also tagged by this."""
        kinds = ["int32"] * len(lineage.dimensions) + ["int64"] * lineage.words
        self.memory = [RowBuffer(kind) for kind in kinds]

    def count_by_key(self, counts: KeyCounts | None) -> None:
        """Pairs are counted by these; None: rows of the shelf are found in its index."""
        self.key_counts = counts

    def look_up_by_none(self) -> None:
        """Rows are looked up by other keys from now on."""
        self.lookups = []

    def number(self, places: NDArray) -> None:
        """Rows have these places, or numbers by which copies are known."""
        self.places = filled(places, self.store.ts.tail)

    def forget_tags(self) -> None:
        """All rows satisfy what members ask."""
        self.leaves, self.words = [], []

    def forget_memory(self) -> None:
        """Nobody else wants to know anything of the rows."""
        self.memory = []

    def live_for(self, lifetime: int) -> None:
        """Rows leave at this age from now on."""
        self.lifetime = lifetime

    def expire(self, clock: int) -> None:
        """Drop what has come to its age at `clock`."""
        self.drop(self.expired(clock))

    def expired(self, clock: int) -> int:
        """The first row that has not come to its age then."""
        pos = self.pos
        if self.lifetime == FOREVER:
            return pos.tail
        return pos.tail + int(pos.live.searchsorted(clock - self.lifetime, side="right"))

    def drop(self, row: int) -> None:
        """Rows below `row` are dead."""
        if row > self.store.ts.tail:
            if self.key_counts is not None:
                self.key_counts.forget(row)
            self.store.drop(row)
            self.index.purge(row)
            for lookup in self.lookups:
                lookup.purge(row)
            for buffer in self.buffers:
                buffer.drop(row)

    @property
    def buffers(self) -> list[RowBuffer]:
        """What is kept beside the store and the index."""
        extra = [one for one in (self.places, self.births) if one is not None]
        return [*extra, *self.leaves, *self.words, *self.memory]

    def tag(self, leaves: Sequence[NDArray], words: Sequence[NDArray], memory: Sequence[NDArray]) -> None:
        """Give all rows other tags; who has the old ones keeps them."""
        tail = self.store.ts.tail
        self.leaves, self.words, self.memory = (
            [filled(values, tail) for values in group] for group in (leaves, words, memory)
        )

    def reindex(self, kind: str) -> None:
        """Change the index, keeping what it holds; between batches only."""
        self.index = build_index(kind, self.store.ts.tail, self.index.keys)

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        counts = 0 if self.key_counts is None else self.key_counts.nbytes
        structures = self.index.nbytes + sum(lookup.nbytes for lookup in self.lookups)
        return self.store.nbytes + structures + counts + sum(b.nbytes for b in self.buffers)

    def _check(self) -> None:
        self.store._check()
        self.index._check()
        for lookup in self.lookups:
            lookup._check()
        if self.key_counts is not None:
            self.key_counts._check()
        assert len(self.index.keys) == len(self.store), "index and store hold different rows"
        for buffer in self.buffers:
            buffer._check()
            assert (buffer.tail, buffer.end) == (self.store.ts.tail, self.store.ts.end), "rows without tags"

    def _check_restored(self) -> None:
        ts = self.store.ts
        same = [self.index.keys, *(one.keys for one in self.lookups)]
        expect(all(len(keys) == len(ts) for keys in same), "keys of all rows")
        for buffer in self.buffers:
            expect((buffer.tail, buffer.end) == (ts.tail, ts.end), "tags of all rows")
        for buffers, dtype in ((self.leaves, np.int32), (self.words, np.int64)):
            expect(all(one.data.dtype == dtype for one in buffers), "tags of rows")
        expect(self.births is None or self.births.data.dtype == np.int32, "members of rows")
        expect(not self.by_place or self.places is not None, "places of rows")
        if self.places is not None:
            expect(self.places.data.dtype == np.int64, "places of rows")
            rising(self.places.live, "places of rows")
        expect(self.lifetime >= 0, "an age at which rows leave")


def filled(values: NDArray, first_row: int) -> RowBuffer:
    """A buffer that holds these from a row number on."""
    buffer = RowBuffer(values.dtype, first_row)
    buffer.append(values)
    return buffer
