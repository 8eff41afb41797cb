"""The rows of a stream that are kept once for all windows over it, found by reference or by place.

In:      rows of the stream, as a side of a join takes them in (see side.py).
Kept:    each row some window needs, on the shelf of its lifetime in RANGE windows, or apart if only windows
         of partitions need it (see partition_rows.py).
Dropped: from the shelf when it has come to that age and its place is below those that ROWS windows need, and
         the store has told of all that left.

A row's place is how many rows of the stream came before it. A ROWS window looks at all rows: where there is
one, all rows from some place on are there, on whatever shelves.

    shelf 0     0     3 4         7      places       from 3 on all are there; a window of the last
    shelf 1             5   6            on both      4 rows has 4 to 7, two runs of shelf 0, one of 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.indexes.build import NO_INDEX
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.plan.plan import CommonSide
from penstock.engine.restoring.in_order import distinct, expect
from penstock.engine.rows.batch import NO_ROWS, Batch, Gather, View, all_at
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.shelves.examined import Examined
from penstock.engine.shelves.side import Side, places_on
from penstock.engine.shelves.stored_rows import births_of
from penstock.engine.views.shelves_view import ShelvesView

from .partition_rows import PartitionRows, rows_on
from .window_member import WindowMember

NO_PLACES = np.empty(0, np.int64)
Views = dict[int, View]
"""Stored columns as they are now, by their numbers in the stream, as far as somebody asked."""


class StreamRows:
    """What is kept, and what of it windows are given."""

    def __init__(self, stream: str, types: Sequence[SqlType], queue: Queue, counters: Counters) -> None:
        self.side = Side(0, CommonSide(stream, "range", ()), types, queue, None)
        self.side.kept.reindex(NO_INDEX)
        self.apart = PartitionRows()
        self.over = 0
        """Rows below this place are of instants that are over."""
        self._counters = counters
        self._last_before = BEGINNING
        """The ts of the last row before the batch being worked."""

    def arrive(self, examined: Examined | None) -> None:
        """Take in a batch."""
        side = self.side
        if side.seen.first_ts is not None:
            self._last_before = side.seen.last_ts
        side.arrive(examined)
        if examined is not None:
            self._counters.took(examined.batch.length)

    def forget(
        self,
        now: int,
        firsts: Sequence[int],
        are_needed: Callable[[NDArray], NDArray],
        unneeded: NDArray,
    ) -> None:
        """Drop the rows that are in no window.

        firsts: the first place whose row each ROWS window needs on a shelf; are_needed: which of the rows at
        some places windows of partitions need; unneeded: places of rows that these need no more.
        """
        let_go = []
        first = min(firsts, default=self.come)
        for shelf in self.side.shelves:
            tail = shelf.store.ts.tail
            row = min(shelf.expired(now), tail + int(places_on(shelf).live.searchsorted(first)))
            if row > tail:
                there = np.flatnonzero(are_needed(places_on(shelf).run(tail, row)))
                if len(there):
                    let_go.append(rows_on(shelf, there + tail))
                shelf.drop(row)
        self.apart.keep(self.side, let_go, are_needed, unneeded)

    @property
    def come(self) -> int:
        """How many rows have come."""
        return self.side.arrival.end

    # -- by place -----------------------------------------------------------------------------------

    def pass_instants(self, until: int) -> tuple[int, int]:
        """Instants below a time are over now: the places of the rows of which that was not known."""
        side, begin = self.side, self.over
        if len(side.arrival.come_ts) and side.arrival.come_ts[0] < until:
            self.over = side.arrival.come + int(side.arrival.come_ts.searchsorted(until))
        elif self._last_before < until:
            self.over = side.arrival.come
        return begin, self.over

    @property
    def offset(self) -> int | None:
        """What is added to a place for a reference to its row, if one shelf has all rows without a gap."""
        if len(self.side.shelves) != 1:
            return None
        places = places_on(self.side.shelves[0])
        live = places.live
        if not len(live) or live[-1] - live[0] >= len(live):
            return None
        return places.tail - int(live[0])

    def place_after(self, ts: int) -> int:
        """The place of the first row after a time, if the one before that is there."""
        found, lowest = -1, self.come
        for shelf in self.side.shelves:
            places = places_on(shelf).live
            row = int(shelf.store.ts.live.searchsorted(ts, side="right"))
            if row:
                found = max(found, int(places[row - 1]) + 1)
            if len(places):
                lowest = min(lowest, int(places[0]))
        return lowest if found < 0 else found

    @property
    def places(self) -> NDArray:
        """Of the rows on shelves, in order."""
        found: NDArray = np.sort(
            np.concatenate([NO_ROWS, *(places_on(shelf).live for shelf in self.side.shelves)])
        )
        return found

    def whole_from(self, born: int) -> int:
        """The place from which on all rows are there, with all columns that were stored by this change of
        them (see side.py)."""
        assert not len(self.apart), "rows that newcomers do not find"
        shelves = self.side.shelves
        places = np.concatenate([NO_ROWS, *(places_on(shelf).live for shelf in shelves)])
        births = np.concatenate([NO_ROWS, *(births_of(shelf) for shelf in shelves)])
        places = np.sort(places[births >= born])
        is_there = places == np.arange(self.come - len(places), self.come)
        return self.come - int(is_there[::-1].cumprod().sum())

    def refs_at(self, places: NDArray) -> NDArray:
        """References to rows that are there, at places in order, on shelves or apart."""
        refs = np.full(len(places), -1)
        shelves = self.side.shelves if self.apart.shelf is None else [*self.side.shelves, self.apart.shelf]
        for number, shelf in enumerate(shelves):
            own = places_on(shelf)
            if len(own):
                at = np.minimum(own.live.searchsorted(places), len(own) - 1)
                there = np.flatnonzero(own.live[at] == places)
                refs[there] = at[there] + (own.tail + (number << ROW_BITS))
        assert bool((refs >= 0).all()), "a row is missing"
        return refs

    def times_between(self, first: int, end: int) -> NDArray:
        """The times of the rows at places [first, end), all of which are there."""
        rows = self._together(first, end)
        if rows is not None:
            return self.side.shelves[0].store.ts.run(rows.start, rows.stop)
        times = np.empty(end - first, np.int64)
        for _, ts, places in self._runs(first, end):
            times[places - first] = ts
        return times

    def refs_between(self, first: int, end: int) -> NDArray:
        """References to the rows at places [first, end), all of which are there."""
        rows = self._together(first, end)
        if rows is not None:
            return np.arange(rows.start, rows.stop)
        refs = np.empty(end - first, np.int64)
        for start, ts, places in self._runs(first, end):
            refs[places - first] = np.arange(start, start + len(ts))
        return refs

    def _together(self, first: int, end: int) -> range | None:
        """The numbers of the rows at places [first, end), if one shelf has all rows without a gap."""
        offset = self.offset
        if offset is None:
            return None
        ts = self.side.shelves[0].store.ts
        assert first == end or ts.tail <= first + offset <= end + offset <= ts.end, "a row is missing"
        return range(first + offset, end + offset)

    def _runs(self, first: int, end: int) -> list[tuple[int, NDArray, NDArray]]:
        """Of each shelf the rows at places [first, end): a reference to the first, times, places."""
        runs = []
        for number, shelf in enumerate(self.side.shelves):
            places, ts = places_on(shelf).live, shelf.store.ts
            begin, stop = places.searchsorted([first, end]).tolist()
            if begin < stop:
                ref = ts.tail + begin + (number << ROW_BITS)
                runs.append((ref, ts.live[begin:stop], places[begin:stop]))
        assert sum(len(places) for _, _, places in runs) == end - first, "a row is missing"
        return runs

    # -- to members ---------------------------------------------------------------------------------

    def columns(self, member: WindowMember, known: Views, is_apart: bool = False) -> list[View]:
        """The columns that a member asks for, as they are now; those looked up are added to the known.

        is_apart: also of the rows that are kept apart.
        """
        found = []
        for column in member.node.columns:
            view = known.get(column)
            if view is None:
                view = known[column] = self._with_apart(column) if is_apart else self.side.kept.view(column)
            found.append(view)
        return found

    def _with_apart(self, column: int) -> View:
        if self.apart.shelf is None:
            return self.side.kept.view(column)
        slot = self.side.kept.columns.index(column)
        shelves = [*self.side.shelves, self.apart.shelf]
        views = [shelf.store.columns[slot].view() for shelf in shelves]
        return ShelvesView(views, ARROW_TYPES[self.side.types[column]])

    def give(
        self,
        member: WindowMember,
        views: Views,
        ts: NDArray,
        sign: NDArray,
        refs: NDArray,
        ets: NDArray | None = None,
        is_apart: bool = False,
    ) -> None:
        """Pass changes on to a member."""
        if len(ts):
            columns = [Gather(view, refs) for view in self.columns(member, views, is_apart)]
            self._put(member, Batch(ts, columns, sign if sign.min() < 0 else None, ets))

    def show(
        self,
        member: WindowMember,
        views: Views,
        boundary: int,
        refs: NDArray,
        first: int | None,
        is_apart: bool = False,
    ) -> None:
        """Give a member all rows that are in its window at a boundary; first: the number of the first."""
        if len(refs):
            columns = [Gather(view, refs) for view in self.columns(member, views, is_apart)]
            self._put(member, Batch(all_at(boundary, len(refs)), columns), first)

    def show_run(self, member: WindowMember, views: Views, boundary: int, first: int, end: int) -> None:
        """The same of the rows at places [first, end), without copying them if they lie together."""
        rows = self._together(first, end)
        if rows is None:
            self.show(member, views, boundary, self.refs_between(first, end), first)
        elif rows:
            side = self.side
            stored = [
                side.shelves[0].store.columns[side.kept.columns.index(one)] for one in member.node.columns
            ]
            columns = [one.run(rows.start, rows.stop) for one in stored]
            self._put(member, Batch(all_at(boundary, end - first), columns), first)

    def _put(self, member: WindowMember, batch: Batch, first: int | None = None) -> None:
        if first is not None:
            batch.first_row = first
        self._counters.gave(batch.length)
        member.found += batch.length
        member.output.put(batch)

    def content(self, member: WindowMember, refs: NDArray, now: int, ends: NDArray | None = None) -> Batch:
        """Rows as a member asks for them, as if they came now."""
        if not len(refs):
            return Batch(refs, [pa.nulls(0, ARROW_TYPES[type_]) for type_ in member.node.input.types])
        columns = [Gather(view, refs) for view in self.columns(member, {}, bool(member.node.partition))]
        return Batch(np.full(len(refs), now), columns, None, ends)

    def __len__(self) -> int:
        return len(self.side) + len(self.apart)

    @property
    def nbytes(self) -> int:
        return self.side.nbytes + self.apart.nbytes

    def _check(self) -> None:
        self.side._check()
        self.apart._check()
        places = np.sort(np.concatenate([self.places, self.apart.places]))
        assert self.over <= self.come, "an instant is over of which rows have not come"
        assert bool((np.diff(places) > 0).all()), "a row is kept twice"
        assert not len(places) or (places[0] >= 0 and places[-1] < self.come), "a row that has not come"

    def _check_restored(self) -> None:
        shelves = [shelf.places for shelf in self.side.shelves]
        expect(None not in shelves, "places of rows")
        places = np.concatenate(
            [*(one.live for one in shelves if one is not None), self.apart.places, NO_PLACES]
        )
        expect(0 <= self.over <= self.come, "instants that are over")
        distinct(np.sort(places), max(self.come, 0), "places of rows")
