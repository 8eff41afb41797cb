"""The rows of a stream that are kept: on a shelf each for those that live equally long.

In:      rows with their lifetimes, tags and columns.
Out:     what of them is stored, by reference: the number of a shelf above the number of a row.
Kept:    which columns are stored since when, by which index rows are found, by what they are tagged.
Dropped: each row at the age of its shelf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.pairs import ROW_BITS, gather_shelf
from penstock.engine.members.lineage import Lineage
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.views.shelves_view import ShelvesView, Stored

from .shelf import Shelf
from .stored_rows import births_of


class Shelves:
    """No rows yet."""

    def __init__(
        self, types: Sequence[SqlType], verified: Sequence[SqlType], by_place: bool, index_kind: str
    ) -> None:
        self._types = types
        self.verified = verified
        """Types of the keys kept to verify pairs found by hash; stored before the columns."""
        self._by_place = by_place
        self.index_kind = index_kind
        self.columns: list[int] = []
        """Columns of the stream that are stored, in order of their slots."""
        self.since: dict[int, int] = {}
        """The generation of rows from which on each of them is stored."""
        self.generation = 0
        self.shelves: list[Shelf] = []
        self.tagged_by = Lineage([None])
        """The lineage of the tags that stored rows have."""
        self.remembered_by: Lineage | None = None
        """That of what is kept for others."""

    # -- rows come and go ---------------------------------------------------------------------------

    def begin(self) -> None:
        """A batch is about to be worked."""
        for shelf in self.shelves:
            shelf.begin()

    def shelf_of(
        self, lifetime: int, is_numbered: bool, widths: tuple[int, int], memory: Lineage | None
    ) -> int:
        """Number of the shelf of a lifetime, set up if there is none."""
        for number, shelf in enumerate(self.shelves):
            if shelf.lifetime == lifetime:
                return number
        shelf = Shelf(lifetime, self.stored_types, self._by_place, is_numbered, self.index_kind, *widths)
        if memory is not None:
            shelf.remember(memory)
        self.shelves.append(shelf)
        return len(self.shelves) - 1

    def hold(self, shelves: Sequence[Shelf]) -> None:
        """Rows are on these shelves alone."""
        self.shelves = list(shelves)

    def tag_by(self, lineage: Lineage, memory: Lineage | None) -> None:
        """Rows have the tags of these: of members, and of what is kept for others."""
        self.tagged_by, self.remembered_by = lineage, memory

    def expire(self, clock: int) -> None:
        """Drop what has come to its age."""
        for shelf in self.shelves:
            shelf.expire(clock)

    def reindex(self, kind: str) -> None:
        """Change the index of all shelves, keeping what they hold; between batches only."""
        self.index_kind = kind
        for shelf in self.shelves:
            shelf.reindex(kind)

    # -- columns ------------------------------------------------------------------------------------

    @property
    def stored_types(self) -> list[SqlType]:
        """Of what a shelf stores."""
        return [*self.verified, *(self._types[i] for i in self.columns)]

    def store_columns(self, columns: set[int], has_rows: bool) -> bool:
        """Store these too; has_rows: here or elsewhere there are rows that came before, which lack them.

        True if rows that come from now on are of another birth.
        """
        fresh = sorted(columns.difference(self.columns))
        if not fresh:
            return False
        self.generation += has_rows
        self.since |= dict.fromkeys(fresh, self.generation)
        self.columns += fresh
        if not len(self):
            self.shelves.clear()
        for shelf in self.shelves:
            for i in fresh:
                shelf.store.add_column(self._types[i])
        return has_rows

    def follow(self, former: Shelves) -> None:
        """Store the columns that another side over the same stream has stored."""
        self.columns, self.generation = list(former.columns), former.generation
        self.since = dict(former.since)

    @property
    def oldest_birth(self) -> int:
        """The least birth of a stored row."""
        births = [int(births_of(shelf)[0]) for shelf in self.shelves if len(shelf)]
        return min(births, default=self.generation)

    # -- rows by reference --------------------------------------------------------------------------

    def gathered(self, of: Callable[[Shelf], RowBuffer], refs: NDArray) -> NDArray:
        """A buffer's values at the rows referred to."""
        if len(self.shelves) == 1:
            buffer = of(self.shelves[0])
            return buffer.data[refs - buffer.base]
        out: NDArray | None = None
        for number in np.flatnonzero(np.bincount(refs >> ROW_BITS)).tolist():  # of many shelves, often few
            buffer = of(self.shelves[number])
            out = np.empty(len(refs), buffer.data.dtype) if out is None else out
            gather_shelf(refs, number, buffer.data, buffer.base, out)
        return np.empty(0, np.int64) if out is None else out

    def view(self, column: int) -> Stored:
        """A column of the stream as it is stored now."""
        slot = len(self.verified) + self.columns.index(column)
        views = [shelf.store.columns[slot].view() for shelf in self.shelves]
        return views[0] if len(views) == 1 else ShelvesView(views, ARROW_TYPES[self._types[column]])

    def __len__(self) -> int:
        return sum(map(len, self.shelves))

    @property
    def nbytes(self) -> int:
        return sum(shelf.nbytes for shelf in self.shelves)

    def _check(self) -> None:
        for shelf in self.shelves:
            shelf._check()
            assert shelf.by_place == self._by_place, "rows leave by the wrong age"
            assert shelf.index.kind == self.index_kind, "rows are found by another index"
        ages = {shelf.lifetime for shelf in self.shelves}
        assert len(ages) == len(self.shelves), "two shelves of one age"

    def _check_restored(self) -> None:
        expect(self.generation >= 0, "counts")
        within(np.array(self.columns, np.int64), 0, len(self._types), "columns of the stream")
        counts, words = self.tagged_by.leaf_counts, self.tagged_by.words
        types = [ARROW_TYPES[one] for one in self.stored_types]
        for shelf in self.shelves:
            expect(shelf.index.kind == self.index_kind, "one kind of index")
            expect(shelf.by_place == self._by_place, "one kind of windows")
            ts = shelf.store.ts
            expect(0 <= shelf.first_row <= ts.end, "rows of the batch")
            if len(shelf.leaves) == len(counts) and len(shelf.words) == words:
                for leaves, count in zip(shelf.leaves, counts, strict=True):
                    within(leaves.live, 0, count, "leaves of rows")
            if shelf.births is not None:
                within(shelf.births.live, 0, self.generation + 1, "generations of rows")
            if len(shelf.store.columns) == len(types):
                found = [column.view().arrow_type for column in shelf.store.columns]
                expect(found == types, "columns of the stream's types")
