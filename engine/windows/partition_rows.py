"""Rows of a stream that no shelf keeps any more, and windows of partitions still need.

In:      rows that shelves let go, which of them are in a window of the last rows of their partition.
Kept:    these, in the order in which they came. They leave in any order.
Dropped: when displaced from the last such window; or put back on a shelf, when windows come that may ask for
         them, until these have been asked.

    PARTITION BY k ROWS 1, RANGE 5     k = a at 3, b at 4, b at 6, b at 9        at 9: a at 3 is apart,
                                       the rest is on the shelf of RANGE 5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.indexes.build import NO_INDEX
from penstock.engine.members.lineage import Lineage, Tags
from penstock.engine.members.row_tags import RowTags
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.shelf import Shelf
from penstock.engine.shelves.side import Side, places_on
from penstock.engine.shelves.stored_rows import births_of

FEWEST_DEAD = 4  # rows are laid out anew when so many times those that are not needed are more than all
TAGS = np.int32, np.int64


class LetGo(NamedTuple):
    """Rows of a shelf: times, places in the stream, births (see shelf.py), columns."""

    ts: NDArray
    places: NDArray
    births: NDArray
    arrays: list[pa.Array]


class PartitionRows:
    """Rows by place, on a shelf of their own."""

    def __init__(self) -> None:
        self.shelf: Shelf | None = None
        self._live = 0
        """Rows on it that are needed."""

    @property
    def places(self) -> NDArray:
        return NO_ROWS if self.shelf is None else places_on(self.shelf).live

    def keep(
        self,
        side: Side,
        let_go: Sequence[LetGo],
        are_needed: Callable[[NDArray], NDArray],
        unneeded: NDArray,
    ) -> None:
        """Take in what shelves have let go and windows still need.

        unneeded: places of rows, here or on shelves, that no window needs from now on.
        """
        known = self.places
        if len(known) and len(unneeded):
            self._live -= int(is_among(unneeded, known).sum())
        is_worn = FEWEST_DEAD * (len(known) - self._live) > len(known)
        self._live += sum(len(one.ts) for one in let_go)
        parts = list(let_go)
        if not parts and not is_worn:
            return
        if self.shelf is not None and not is_worn:
            new = in_order(parts)
            if not len(known) or new.places[0] > known[-1]:
                self._append(new)
                return
        if self.shelf is not None:
            parts.append(rows_on(self.shelf, np.flatnonzero(are_needed(known)) + self.shelf.store.ts.tail))
        self._lay_out(side, parts)

    def _lay_out(self, side: Side, parts: Sequence[LetGo]) -> None:
        """Have these rows and no others."""
        self.shelf = None
        if self._live:
            self.shelf = Shelf(
                FOREVER, [side.types[i] for i in side.kept.columns], False, True, NO_INDEX, 0, 0
            )
            self._append(in_order(parts))
            self.shelf.store.fit()
            places_on(self.shelf).fit()

    def _append(self, rows: LetGo) -> None:
        assert self.shelf is not None, "rows are kept on a shelf"
        keys = np.zeros(len(rows.ts), np.int64)
        self.shelf.append(rows.ts, rows.places, keys, rows.arrays, (), (), rows.births)

    def put_back(self, side: Side, needed: NDArray) -> bool:
        """Give all rows at places that are needed to a side, tagged as its own are; False if none are."""
        there = np.flatnonzero(is_among(self.places, needed))
        if self.shelf is not None and len(there) < len(self.places):
            self._lay_out(side, [rows_on(self.shelf, there + self.shelf.store.ts.tail)])
        shelf, self.shelf, self._live = self.shelf, None, 0
        if shelf is None:
            return False
        columns = dict(zip(side.kept.columns, rows_on(shelf).arrays, strict=True))
        nothing = RowTags(Lineage([None]), Tags(*(np.empty((0, len(shelf)), kind) for kind in TAGS)))
        tags, _ = nothing.by(side.kept.tagged_by, columns.__getitem__, len(shelf), is_past=True)
        shelf.tag(list(tags.leaves), list(tags.words), [])
        side.shelves.append(shelf)
        return True

    def __len__(self) -> int:
        return self._live

    @property
    def nbytes(self) -> int:
        return 0 if self.shelf is None else self.shelf.nbytes

    def _check(self) -> None:
        if self.shelf is not None:
            self.shelf._check()
            assert bool((np.diff(self.places) > 0).all()), "rows out of order"
        dead = len(self.places) - self._live
        assert 0 <= FEWEST_DEAD * dead <= len(self.places), "rows that nobody needs take memory"

    def _check_restored(self) -> None:
        places = self.places
        expect(bool((np.diff(places) > 0).all()), "rows in the order of their places")
        expect(0 <= self._live <= len(places), "rows that are needed")
        expect(FEWEST_DEAD * (len(places) - self._live) <= len(places), "few rows that are not needed")


def in_order(parts: Sequence[LetGo]) -> LetGo:
    """The rows of all parts, by place."""
    ts, places, births = (np.concatenate(group) for group in list(zip(*parts, strict=True))[:3])
    arrays = [pa.concat_arrays(columns) for columns in zip(*(one.arrays for one in parts), strict=True)]
    if (np.diff(places) > 0).all():
        return LetGo(ts, places, births, arrays)
    order = np.argsort(places)
    taken = pa.array(order)
    return LetGo(ts[order], places[order], births[order], [array.take(taken) for array in arrays])


def rows_on(shelf: Shelf, rows: NDArray | None = None) -> LetGo:
    """Some rows of a shelf, by their numbers; None: all."""
    tail = shelf.store.ts.tail
    rows = np.arange(tail, shelf.store.ts.end) if rows is None else rows
    arrays = [column.view().take(rows) for column in shelf.store.columns]
    at = rows - tail
    return LetGo(shelf.store.ts.live[at], places_on(shelf).live[at], births_of(shelf)[at], arrays)


def is_among(places: NDArray, needed: NDArray) -> NDArray:
    """Which of these are among the needed; both in order."""
    if not len(needed):
        return np.zeros(len(places), bool)
    return needed[np.minimum(needed.searchsorted(places), len(needed) - 1)] == places
