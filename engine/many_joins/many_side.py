"""One input of a join of many streams: a side of a join that is looked up by several of its keys.

Kept: what a side keeps (side.py), and of each row the codes of its keys, before its texts and columns. Rows
are looked up by whichever keys are known by then of the rows that seek them, so a shelf has a hash index for
each choice of keys that somebody looks up; it is filled from the codes when rows have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.queue import Queue
from penstock.engine.indexes.build import NO_INDEX
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.joins.bounds import first_alive, precede
from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK
from penstock.engine.keys.keys import combine
from penstock.engine.keys.verify import keep_equal_texts
from penstock.engine.plan.plan import CommonSide
from penstock.engine.rows.band import EQUALITY
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import FixedColumn, Store, TextColumn
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.side import Side

Keys = tuple[int, ...]
"""Places of some keys among those of a side."""


class HasStore(Protocol):
    @property
    def store(self) -> Store:
        """Its rows."""


class ManySide(Side):
    """Looked up by choices of its keys."""

    has_reach = False

    def __init__(self, number: int, common: CommonSide, types: Sequence[SqlType], queue: Queue) -> None:
        super().__init__(number, common, types, queue, EQUALITY)
        self.kept.reindex(NO_INDEX)
        texts = [place for place, type_ in enumerate(self.key_types) if type_ is SqlType.VARCHAR]
        self.text_slots = {place: len(self.key_types) + slot for slot, place in enumerate(texts)}
        """Where the texts of keys are stored, of which codes are only hashes."""
        self.choices: list[Keys] = []
        """By which keys rows are looked up, in the order of a shelf's indexes."""

    def types_of_keys(self) -> list[SqlType]:
        texts = [type_ for type_ in self.key_types if type_ is SqlType.VARCHAR]
        return [SqlType.BIGINT] * len(self.key_types) + texts

    def kept_keys(self, keys: Sequence[pa.Array], codes: Sequence[NDArray]) -> list[pa.Array]:
        return [*map(pa.array, codes), *(keys[place] for place in self.text_slots)]

    def look_up_by(self, choices: Sequence[Keys]) -> None:
        """Rows are looked up by these keys from now on."""
        if list(choices) != self.choices:
            self.choices = list(choices)
            for shelf in self.shelves:
                shelf.look_up_by_none()

    def fill_lookups(self) -> None:
        """Let all rows that are stored be found."""
        for shelf in self.shelves:
            ts = shelf.store.ts
            while len(shelf.lookups) < len(self.choices):
                shelf.lookups.append(HashIndex(ts.tail))
            for keys, lookup in zip(self.choices, shelf.lookups, strict=True):
                if lookup.end < ts.end:
                    codes = [codes_on(shelf, place).run(lookup.end, ts.end) for place in keys]
                    lookup.insert(combine(codes))

    def codes_at(self, place: int, refs: NDArray) -> NDArray:
        """The codes of one of the keys of the rows referred to."""
        return self.kept.gathered(lambda shelf: codes_on(shelf, place), refs)

    def seekers(self, at: int, stop: int) -> NDArray:
        """Which of these rows of the batch seek, from 0 on: not those displaced at their own instant from
        every member's ROWS window, which were never there."""
        if not self.by_place:
            return np.arange(stop - at)
        return np.flatnonzero(
            self.arrival.last_places(self.arrival.ts[at:stop]) - self.arrival.places[at:stop]
            < self.terms.size
        )

    def bounds(self, number: int, times: NDArray, is_later: bool) -> tuple[NDArray, NDArray]:
        """The rows of a shelf that probers at these times see: from, and below, row numbers.

        is_later: of rows with one ts in one batch, this side's come first.
        """
        shelf = self.shelves[number]
        ts = shelf.store.ts
        row_from, row_until = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
        precede(times, shelf.new_ts, shelf.first_row, is_later, row_until)
        if shelf.lifetime == FOREVER:
            row_from.fill(ts.tail)
        elif self.by_place:
            displaced = self.arrival.last_places(times) - shelf.lifetime
            row_from = shelf.pos.tail + shelf.pos.live.searchsorted(displaced, side="right")
        else:
            first_alive(times, row_until, shelf.lifetime, ts.data, ts.base, ts.tail, ts.end, row_from)
        return row_from, row_until

    def same_texts(
        self, place: int, refs: NDArray, other: ManySide, other_place: int, other_refs: NDArray
    ) -> NDArray:
        """Whether rows of this side and another, given in pairs, have the same text as a key; a byte each."""
        keep = np.ones(len(refs), np.uint8)
        numbers = (refs >> ROW_BITS) << 20 | (other_refs >> ROW_BITS)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            one = self.shelves[number >> 20].store.columns[self.text_slots[place]]
            two = other.shelves[number & 0xFFFFF].store.columns[other.text_slots[other_place]]
            assert isinstance(one, TextColumn) and isinstance(two, TextColumn), "keys of two kinds"
            same = np.ones(len(here), np.uint8)
            keep_equal_texts((one, two), (refs[here] & ROW_MASK, other_refs[here] & ROW_MASK), same)
            keep[here] = same
        return keep

    def _check(self) -> None:
        super()._check()
        for shelf in self.shelves:
            for lookup in shelf.lookups:
                behind = shelf.store.ts.end - lookup.end
                assert behind >= 0, "rows are found that are not there"
                assert len(lookup.keys) + behind == len(shelf), "rows that have left can be found"


def codes_on(shelf: HasStore, place: int) -> RowBuffer:
    column = shelf.store.columns[place]
    assert isinstance(column, FixedColumn), "codes are numbers"
    return column.values
