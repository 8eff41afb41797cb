"""What results that wait to be read keep alive, of all queries together.

They are row numbers, which hold the arrays that the rows were in when they were found (see buffer.py).

    array is stored    it costs nothing: the store has it anyway, and more results may come to hold it
    array is left      the store has moved on or is gone: the array lives for these results alone

An array that is left is worth keeping while the copies of all results that hold it would take at least half
as much: then they wait, and nothing is copied for those that nobody reads. Else all of these results are
copied, which takes less than it sets free. So results keep alive at most twice what their copies would take,
and MOST_HELD. What the copies of a batch take is shared out among the arrays that it holds, by their size;
what an array has of it, as a part of its size, is its worth.

A column may lie in hundreds of arrays, one for each shelf. All queries that are given pairs at once read the
same views of columns. So batches are noted with the views, and arrays are asked what their views are worth
when that is looked at:

    batches, many  ->  views, a few for each push  ->  arrays, as many as shelves

That is looked at when all that was pushed is worked off: before, some queries have been given what others
are about to get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from penstock.engine.rows.batch import Batch
from penstock.engine.rows.store import Viewed
from penstock.engine.views.joined_batch import JoinedBatch, JoinedColumns
from penstock.engine.views.shelves_view import Stored
from penstock.engine.views.view_memory import arrays_of, copied_bytes, stored_views

MOST_HELD = 1 << 17  # bytes that results which nobody reads may keep alive in any case
ENOUGH = 0.5


class HeldArray:
    """An array, and the views through which results hold it."""

    __slots__ = ("is_left", "viewed", "views")

    def __init__(self, viewed: Viewed) -> None:
        self.viewed = viewed
        self.views: list[HeldView] = []
        self.is_left = False

    def leave(self) -> None:
        """The store has moved on: results alone hold it."""
        self.is_left = True

    @property
    def nbytes(self) -> int:
        return int(self.viewed.array.nbytes)

    @property
    def worth(self) -> float:
        return sum(view.worth for view in self.views)

    @property
    def is_poor(self) -> bool:
        return self.is_left and self.worth < ENOUGH


class HeldView:
    """A column as it was at one moment, and the results that are to be copied from it."""

    __slots__ = ("arrays", "nbytes", "share", "view", "waiting", "worth")

    def __init__(self, view: Stored, arrays: Sequence[HeldArray]) -> None:
        self.view = view
        self.arrays = arrays
        self.nbytes = sum(one.nbytes for one in arrays)
        self.waiting: set[WaitingRows] = set()
        self.worth = 0.0
        """What the results add to the worth of each array."""
        self.share: float | None = None
        """Bytes kept alive for results alone that one of worth 1 answers for; None: not worked out."""

    def add(self, waiting: WaitingRows) -> None:
        self.waiting.add(waiting)
        self.worth += waiting.worth

    def discard(self, waiting: WaitingRows) -> None:
        self.waiting.discard(waiting)
        self.worth -= waiting.worth

    def work_out_share(self) -> float:
        """Its share, until it is forgotten."""
        if self.share is None:
            self.share = sum(array.nbytes / array.worth for array in self.arrays if array.is_left)
        return self.share

    def forget_share(self) -> None:
        """Results have come or gone, or arrays are left."""
        self.share = None


class WaitingRows:
    """A batch of results: as row numbers, then copied."""

    __slots__ = ("_finish", "held", "rows", "worth")

    def __init__(self, batch: Batch, finish: Callable[[Batch], pa.RecordBatch]) -> None:
        self.rows: Batch | pa.RecordBatch = batch
        self._finish = finish
        self.held: Sequence[HeldView] = ()
        self.worth = 0.0
        """What it adds to that of each array that it holds."""

    def hold(self, rows: Batch, held: Sequence[HeldView]) -> None:
        """They keep these views alive from now on."""
        self.worth = copied_bytes(rows) / sum(one.nbytes for one in held)
        self.held = held
        for one in held:
            one.add(self)

    def let_go(self) -> Sequence[HeldView]:
        """They keep nothing alive any more; what they did."""
        held, self.held = self.held, ()
        for one in held:
            one.discard(self)
        return held

    def copy(self) -> None:
        if isinstance(self.rows, Batch):
            self.rows = self._finish(self.rows)


class ResultsMemory:
    """Views and arrays that are held by results, by their id."""

    def __init__(self) -> None:
        self._views: dict[int, HeldView] = {}
        self._stored: dict[int, HeldArray] = {}
        self._left: dict[int, HeldArray] = {}
        self._poor: dict[int, HeldArray] = {}
        """Those of `_left` that were not worth keeping when that was last looked at."""
        self._lighter: dict[int, HeldView] = {}
        """Views of which results have been read since then."""
        self._recent: dict[JoinedColumns, Sequence[HeldView]] = {}
        """What batches read that have come since then; all of it is held."""
        self._has_shares = False
        """Whether some view knows its share of what is kept alive, which changes with every result."""

    def add(self, waiting: WaitingRows) -> bool:
        """Let results wait; False if they hold nothing that is known to stay as it is."""
        assert isinstance(waiting.rows, Batch), "copied already"
        held = self._held_by(waiting.rows)
        if not held:
            return False
        waiting.hold(waiting.rows, held)
        self._forget_shares()
        return True

    def _held_by(self, batch: Batch) -> Sequence[HeldView]:
        """The views that a batch reads; of those that read the same, always the same list."""
        of = batch.of if isinstance(batch, JoinedBatch) else None
        held = None if of is None else self._recent.get(of)
        if held is None:
            held = [self._views.get(id(view)) or self._hold(view) for view in stored_views(batch)]
            if of is not None:
                self._recent[of] = held
        return held

    def _hold(self, view: Stored) -> HeldView:
        """Begin with a view."""
        arrays = []
        for viewed in arrays_of(view):
            key = id(viewed.array)
            array = self._left.get(key) or self._stored.get(key)
            if array is None:
                array = self._stored[key] = HeldArray(viewed)
            arrays.append(array)
        held = self._views[id(view)] = HeldView(view, arrays)
        for array in arrays:
            array.views.append(held)
        return held

    def forget(self, waiting: WaitingRows) -> None:
        """Results are read, or copied, or of no concern any more."""
        for held in waiting.let_go():
            if held.waiting:
                self._lighter[id(held.view)] = held
            else:
                self._let_go(held)
        self._forget_shares()

    def _let_go(self, held: HeldView) -> None:
        """A view that no result is to be copied from any more."""
        self._recent.clear()
        for views in (self._views, self._lighter):
            views.pop(id(held.view), None)
        for array in held.arrays:
            array.views.remove(held)
            if not array.views:
                for arrays in (self._stored, self._left, self._poor):
                    arrays.pop(id(array.viewed.array), None)
            elif array.is_left:
                self._note(array)

    def look(self) -> None:
        """All that was pushed is worked off: copy what is not worth the memory that it keeps alive."""
        for key in [key for key, held in self._stored.items() if not held.viewed.is_stored]:
            array = self._left[key] = self._stored.pop(key)
            array.leave()
            self._note(array)
            self._forget_shares()
        self._recent.clear()
        self._note_lighter()
        while sum(array.nbytes for array in self._poor.values() if array.is_poor) > MOST_HELD:
            poor, self._poor = self._poor, {}
            for array in poor.values():
                for waiting in self._waiting_for(array) if array.is_poor else ():
                    waiting.copy()
                    self.forget(waiting)
            self._note_lighter()

    def _waiting_for(self, array: HeldArray) -> Iterable[WaitingRows]:
        """The results that hold an array, each once."""
        return {waiting: None for view in array.views for waiting in view.waiting}

    def _note(self, array: HeldArray) -> None:
        if array.is_poor:
            self._poor[id(array.viewed.array)] = array

    def _note_lighter(self) -> None:
        """Note which arrays are not worth keeping any more since results were read."""
        lighter, self._lighter = self._lighter, {}
        for array in {array for view in lighter.values() for array in view.arrays if array.is_left}:
            self._note(array)

    def held_bytes(self, waiting: WaitingRows) -> float:
        """The share of some results in what is kept alive for results alone."""
        self._has_shares = True
        return waiting.worth * sum(view.work_out_share() for view in waiting.held)

    def _forget_shares(self) -> None:
        if self._has_shares:
            self._has_shares = False
            for view in self._views.values():
                view.forget_share()

    @property
    def nbytes(self) -> int:
        """Of arrays that are kept alive for results alone."""
        return sum(held.nbytes for held in self._left.values())

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint copies of all results are a part, which hold nothing."""
        return ResultsMemory().__dict__

    def _check(self) -> None:
        assert not self._stored.keys() & self._left.keys(), "an array both stored and left"
        for key, array in [*self._stored.items(), *self._left.items()]:
            assert key == id(array.viewed.array), "an array under the name of another"
            assert array.views and all(array in one.arrays for one in array.views), "held by nobody"
        for key, view in self._views.items():
            assert key == id(view.view), "a view under the name of another"
            assert view.waiting and all(view in one.held for one in view.waiting), "held by nobody"
            assert abs(view.worth - sum(one.worth for one in view.waiting)) < 1e-6 * (1 + view.worth), "worth"
        lighter = {array for view in self._lighter.values() for array in view.arrays}
        poor = {key for key, array in self._left.items() if array.is_poor and array not in lighter}
        assert poor <= self._poor.keys() <= self._left.keys(), "poor arrays overlooked"
