"""Rows of a join that are not copied yet: for each, the numbers of the stored rows that it is made of.

A join gives many queries the rows that it has found at once. What they read, and where that is stored, is the
same for all that ask for the same columns; only which rows they take is their own:

    JoinedColumns    a few for each time that rows are given      views of stored columns
    JoinedBatch      one for each query                           times, row numbers

A batch of columns that are promises says the same with an object for each column. There may be thousands of
these in flight, and as many more as results wait to be read; whatever is there for long is looked at each
time that memory in cycles is sought.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch, Gather, LazyColumn
from penstock.engine.rows.store import FixedView

from .shelves_view import ShelvesView, Stored

Refs = Sequence[NDArray]
"""By side of a join, the row that is part of each result."""

NOT_MADE: list[LazyColumn] = []


class JoinedColumns:
    """Stored columns at one moment; `sides`: of each, the side of the join that has it."""

    __slots__ = ("_selected", "_used", "places", "texts", "views")

    def __init__(self, views: Sequence[Stored], sides: Sequence[int]) -> None:
        self.views = tuple(views)
        self._used = tuple(sorted(set(sides)))
        self.places = tuple(map(self._used.index, sides))
        """Of each column, where the numbers of its rows are among those of a batch."""
        self.texts = tuple(i for i, view in enumerate(views) if not is_fixed(view))
        """Columns whose values differ in length."""
        self._selected: dict[tuple[int, ...], JoinedColumns] = {}

    def batch(self, ts: NDArray, refs: Refs) -> JoinedBatch:
        """Rows with these columns."""
        return JoinedBatch(ts, self, tuple([refs[side] for side in self._used]))

    def select(self, indexes: tuple[int, ...]) -> JoinedColumns:
        """Some of the columns; asked for once by each query."""
        found = self._selected.get(indexes)
        if found is None:
            found = JoinedColumns([self.views[i] for i in indexes], [self.places[i] for i in indexes])
            self._selected[indexes] = found
        return found


class JoinedBatch(Batch):
    """Rows of a join; columns are made when somebody looks at them, after which it is a batch as any other.

    refs: int64 arrays, of each side that columns are read from.
    """

    __slots__ = ("of", "refs")

    def __init__(self, ts: NDArray, of: JoinedColumns, refs: tuple[NDArray, ...]) -> None:
        self.ts = ts
        self.length = len(ts)
        self._columns = NOT_MADE
        self.sign = self.ets = self.first_row = self.known = None
        self.of: JoinedColumns | None = of
        """None once columns are made."""
        self.refs = refs

    @property
    def width(self) -> int:
        return len(self._columns) if self.of is None else len(self.of.views)

    @property
    def lazy_columns(self) -> list[LazyColumn]:
        of = self.of
        if of is not None:
            columns = zip(of.views, of.places, strict=True)
            self._columns = [Gather(view, self.refs[place]) for view, place in columns]
            self.of, self.refs = None, ()
        return self._columns

    @property
    def text_bytes(self) -> int:
        of = self.of
        if of is None:
            return super().text_bytes
        return sum(of.views[i].text_bytes(self.refs[of.places[i]]) for i in of.texts)

    def select(self, indexes: Sequence[int]) -> Batch:
        if self.of is None:
            return super().select(indexes)
        return self.of.select(tuple(indexes)).batch(self.ts, self.refs)

    def take(self, positions: NDArray, ts: NDArray | None = None) -> Batch:
        if self.of is None:
            return super().take(positions, ts)
        refs = tuple([rows[positions] for rows in self.refs])
        return JoinedBatch(self.ts[positions] if ts is None else ts, self.of, refs)

    def slice(self, start: int, stop: int) -> Batch:
        if self.of is None:
            return super().slice(start, stop)
        return JoinedBatch(self.ts[start:stop], self.of, tuple([rows[start:stop] for rows in self.refs]))

    def _check(self) -> None:
        super()._check()
        assert self.of is None or not self._columns, "columns made and not made"
        assert all(len(rows) == self.length for rows in self.refs), "numbers of more or fewer rows"

    def _check_restored(self) -> None:
        super()._check_restored()
        expect(self.of is None or not self._columns, "columns made or not made")
        expect(all(len(rows) == self.length for rows in self.refs), "a number for each row")
        if self.of is not None:
            expect(len(self.of.views) == len(self.of.places), "a place of each column")
            for view, place in zip(self.of.views, self.of.places, strict=True):
                expect(0 <= place < len(self.refs), "rows of each column")
                view.check_rows(self.refs[place])


def is_fixed(view: Stored) -> bool:
    """Whether all values take the same room."""
    return view.is_fixed if isinstance(view, ShelvesView) else isinstance(view, FixedView)
