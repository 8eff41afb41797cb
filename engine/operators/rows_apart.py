"""Rows of a stream that no shelf keeps any more, and windows of partitions still need.

In:      rows that shelves let go, which of them are in a window of the last rows of their partition.
Kept:    these, in the order in which they came. They leave in any order.
Dropped: when displaced from the last such window; or put back on a shelf, when windows come that may ask for
         them, until these have been asked.

    PARTITION BY k ROWS 1, RANGE 5     k = a at 3, b at 4, b at 6, b at 9        at 9: a at 3 is apart,
                                       the rest is on the shelf of RANGE 5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS
from ..indexes.build import NO_INDEX
from ..known_tags import Known
from ..lineage import Lineage, Tags
from ..shelf import Shelf
from ..stored_rows import births_of
from ..window import FOREVER
from .side import Side, places_on


class LetGo(NamedTuple):
    """Rows of a shelf: times, places in the stream, births (see shelf.py), columns."""

    ts: NDArray
    places: NDArray
    births: NDArray
    arrays: list[pa.Array]


class RowsApart:
    """Rows by place, on a shelf of their own."""

    def __init__(self) -> None:
        self.shelf: Shelf | None = None

    @property
    def places(self) -> NDArray:
        return NO_ROWS if self.shelf is None else places_on(self.shelf).live

    def keep(self, side: Side, let_go: Sequence[LetGo], needed: NDArray) -> None:
        """Take in what shelves have let go, and keep only rows at places that are needed, in order."""
        let_go = [one for one in let_go if len(one.ts)]
        there = np.flatnonzero(is_among(self.places, needed))
        if not let_go and len(there) == len(self):
            return
        if self.shelf is not None and len(there):
            let_go = [rows_on(self.shelf, there + self.shelf.store.ts.tail), *let_go]
        self.shelf = None
        if not let_go:
            return
        ts, places, births = (np.concatenate(group) for group in list(zip(*let_go, strict=True))[:3])
        arrays = [pa.concat_arrays(columns) for columns in zip(*(one.arrays for one in let_go), strict=True)]
        if not (np.diff(places) > 0).all():
            order = np.argsort(places)
            ts, places, births = ts[order], places[order], births[order]
            arrays = [array.take(pa.array(order)) for array in arrays]
        self.shelf = Shelf(FOREVER, [side.types[i] for i in side.columns], False, True, NO_INDEX, 0, 0)
        self.shelf.append(ts, places, np.zeros(len(ts), np.int64), arrays, (), (), births)
        self.shelf.store.fit()
        places_on(self.shelf).fit()

    def put_back(self, side: Side) -> bool:
        """Give all rows to a side, tagged as its own are; False if there are none."""
        shelf, self.shelf = self.shelf, None
        if shelf is None:
            return False
        columns = dict(zip(side.columns, rows_on(shelf).arrays, strict=True))
        nothing = Known(Lineage([None]), Tags(*(np.empty((0, len(shelf)), kind) for kind in TAGS)))
        tags, _ = nothing.by(side.tagged_by, columns.__getitem__, len(shelf), is_past=True)
        shelf.tag(list(tags.leaves), list(tags.words), [])
        side.shelves.append(shelf)
        return True

    def __len__(self) -> int:
        return len(self.places)

    @property
    def nbytes(self) -> int:
        return 0 if self.shelf is None else self.shelf.nbytes

    def _check(self) -> None:
        if self.shelf is not None:
            self.shelf._check()
            assert bool((np.diff(self.places) > 0).all()), "rows out of order"


TAGS = np.int32, np.int64


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
