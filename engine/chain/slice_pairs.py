"""What flows between the operators of a chain: references, and the pairs that slices find.

Pairs name their males by place in the table of references that was worked, and their females by row: three
numbers a pair. Who takes which of them is worked out by those who are given them. Members that ask the same
share the answer, which is kept here: a selection behind a slice is evaluated once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.chain.slice_join import (
    FIELDS,
    OF_MALE,
    PAIR_FIELDS,
    TS,
    count_ages,
    first_males,
    fit_tags,
    rows_of_pairs,
)
from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.shelves.side import Side

ANY_LOW, ANY_HIGH = -(1 << 63), (1 << 63) - 1


class Asked(NamedTuple):
    """What a member asks of the rows of a side: a tag between low and high, all of `bits` set."""

    side: int
    is_word: bool
    number: int
    """Of the dimension, or of the word."""
    low: int
    high: int
    bits: int


def room_for(references: int) -> NDArray:
    """int64[FIELDS, references], in the order of memory that they have in `References`."""
    return np.empty((references, FIELDS), np.int64).T


class References(Batch):
    """References in time order: `table` is int64[FIELDS, n], see kernels/chain/slice_join.py.

    The fields of a reference lie side by side, so that it is passed on as one line of memory.
    """

    __slots__ = ("table",)

    def __init__(self, table: NDArray) -> None:
        self.table = np.asfortranarray(table)
        super().__init__(self.table[TS], ())

    def slice(self, start: int, stop: int) -> References:
        return References(self.table[:, start:stop])

    def is_since(self, since: NDArray) -> bool:
        """Whether the males of each side are of rows from the one given on."""
        left, right = first_males(self.table)
        return bool(left >= since[0] and right >= since[1])

    def _check_restored(self) -> None:
        super()._check_restored()
        expect(self.table.shape == (FIELDS, self.length), "fields of all references")
        expect(np.array_equal(self.table[TS], self.ts), "times of all references")


class Pairs(Batch):
    """Pairs in time order: `table` is int64[PAIR_FIELDS, n], of males in `records`; times only if `timed`."""

    __slots__ = ("_first", "_fitting", "_rows", "_younger", "is_fresh", "parts", "records", "table")

    def __init__(self, table: NDArray, records: NDArray, timed: bool, parts: Slices | None = None) -> None:
        super().__init__(records[TS][table[OF_MALE]] if timed else NO_ROWS, ())
        self.length = table.shape[1]
        self.table = table
        self.records = records
        self.parts = parts
        """Where windows end within the slice."""
        self.is_fresh = True
        """Whether nobody has come or gone since: what is known of who takes what holds for these."""
        self._fitting: dict[tuple[Asked, ...], NDArray] = {}
        self._younger: NDArray | None = None
        self._rows: NDArray | None = None
        self._first: tuple[int, int] | None = None

    def slice(self, start: int, stop: int) -> Pairs:
        part = Pairs(self.table[:, start:stop], self.records, False, self.parts)
        part.ts, part._rows = self.ts[start:stop], self.rows[:, start:stop]
        part.is_fresh, part._first = self.is_fresh, self._first
        return part

    @property
    def rows(self) -> NDArray:
        """The rows of both sides, int64[2, n]; found once for all who take them."""
        if self._rows is None:
            self._rows = np.empty((2, self.length), np.int64)
            rows_of_pairs(self.table, self.records, self._rows)
        return self._rows

    def is_since(self, since: NDArray) -> bool:
        """Whether the males among the records are of rows from the ones given on."""
        if self._first is None:
            self._first = first_males(self.records)
        return bool(self._first[0] >= since[0] and self._first[1] >= since[1])

    def fitting(self, asked: tuple[Asked, ...], sides: Sequence[Side]) -> NDArray:
        """Which pairs (uint8 each) have rows as asked; all rows are there."""
        found = self._fitting.get(asked)
        if found is None:
            found = self._fitting[asked] = np.ones(self.length, np.uint8)
            self.fit(asked, sides, found)
        return found

    def younger(self, window: int) -> int:
        """How many are younger than a window which ends within the slice; counted once for all of these."""
        assert self.parts is not None, "no window ends within the slice"
        if self._younger is None:
            counts = np.zeros(len(self.parts.ends) + 1, np.int64)
            count_ages(self.table, self.parts.ends, self.parts.first, self.parts.shift, counts)
            self._younger = counts.cumsum()
        return int(self._younger[self.parts.ends.searchsorted(window)])

    def fit(self, asked: tuple[Asked, ...], sides: Sequence[Side], fits: NDArray) -> None:
        """Clear `fits` (uint8 each) where a row is not as asked; rows of the others may be gone."""
        for side, is_word, number, low, high, bits in asked:
            shelf = sides[side].shelves[0]
            tags = shelf.words[number] if is_word else shelf.leaves[number]
            fit_tags(self.table, self.records, side, tags.data, tags.base, low, high, bits, fits)

    def _check_restored(self) -> None:
        super()._check_restored()
        expect(self.table.shape == (PAIR_FIELDS, self.length), "fields of all pairs")
        expect(self.records.shape[0] == FIELDS, "fields of all references")
        within(self.table[OF_MALE], 0, self.records.shape[1], "males of pairs")
        expect(self._rows is None or self._rows.shape == (2, self.length), "rows of all pairs")
        self._fitting, self._younger, self._first = {}, None, None
