"""One input of a join without windows: its rows, by key, until no row to come can meet them.

In:      rows of a stream in time order, and its key frontier after each of them.
Kept:    rows that satisfy the side's predicate and have all keys, as they came: codes of the keys, texts of
         those that are text, the columns that are passed on; an index for each choice of keys that somebody
         looks up.
Dropped: rows that have left the side's window, if it has one. Rows whose key all others have passed: they
         count no more and are found no more at once, but lie there until all streams have passed them, this
         one too, so that it is known how many had one key; memory is given back when more than half of the
         rows that lie there are of no use.

    codes   [ 4  9  3  8  5  9 ]     others at 6:  4, 3 and 5 have gone, three rows are kept
              .  9  .  8  .  9
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.keys.keys import combine, encode_values
from penstock.engine.keys.verify import keep_equal_texts
from penstock.engine.many_joins.many_side import Keys, codes_on
from penstock.engine.ordered_memory.frontier_reader import FrontierReader
from penstock.engine.plan.plan import SideNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import Store, TextColumn, valid_bytes
from penstock.engine.rows.types import SqlType
from penstock.engine.views.shelves_view import Stored

from .frontiers import Frontiers
from .greatest_gone import GreatestGone
from .late_counts import LateCounts

FEW_ROWS = 256  # are not worth looking through


@dataclass(slots=True)
class Examined:
    """A batch as a side sees it: positions of the rows that take part, their keys, the codes of these; and of
    those that lack a key."""

    batch: Batch
    there: NDArray
    keys: list[pa.Array]
    codes: list[NDArray]
    keyless: NDArray


class KeptRows:
    """Where a side's rows lie, and how they are found."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        self.store = Store(types)
        self.lookups: list[HashIndex] = []

    def forget_lookups(self) -> None:
        """Rows are to be found in other ways."""
        self.lookups = []


class OrderedSide:
    """Looked up by choices of its keys; the first of them grows."""

    def __init__(
        self,
        number: int,
        node: SideNode,
        types: Sequence[SqlType],
        reader: FrontierReader,
        frontiers: Frontiers,
        by_key: bool,
    ) -> None:
        """by_key: rows go when the others have passed their keys, not first in, first out."""
        self.number = number
        self.reader: FrontierReader = reader
        """Of the frontier of its stream."""
        self.key_types = [key.type for key in node.keys]
        texts = [place for place, type_ in enumerate(self.key_types) if type_ is SqlType.VARCHAR]
        self.text_slots = {place: len(self.key_types) + slot for slot, place in enumerate(texts)}
        self.choices: list[Keys] = []
        """By which keys rows are looked up, in the order of the indexes."""
        self.gone = GreatestGone()
        self.multiplicity = 0
        """The most rows with one key that there were at once."""
        self.behind = LateCounts()
        """Rows that were never there together with others of their key, as these could have gone before."""
        self.rows_late = 0
        """Rows that came when some that they would have met had gone."""
        self.held_factor = reader.factor
        """The factor of its stream when its rows were last let go, first in, first out."""
        self.first_row = 0
        """The first row of those that came last."""
        self.lacking: tuple[NDArray, NDArray] | None = None
        """Of the rows that had come before the join began, numbers and greatest keys; None: none had, or
        nothing is lacking any more."""
        self._frontiers, self._by_key = frontiers, by_key
        self._node = node
        self._types = [SqlType.BIGINT] * len(self.key_types)
        self._types += [SqlType.VARCHAR] * len(texts)
        self._types += [SqlType.BIGINT] * (len(frontiers.numberings) if frontiers.has_values else 0)
        self._columns_from = len(self._types)
        self._types += [types[column] for column in node.columns]
        self._unseen = 0
        """Rows worked since it was last seen which have gone."""
        self.shelf = KeptRows(self._types)

    def note_lacking(self) -> None:
        """What has come by now came before the join."""
        self.lacking = self._frontiers.come_before(self.number)

    def look_for_lacking(self, others: Sequence[int]) -> None:
        """Whether these sides have passed all of that."""
        if self.lacking is not None and self._frontiers.have_passed(others, self.number, self.lacking):
            self.lacking = None

    def read_from(self, reader: FrontierReader) -> None:
        """Rows come another way from now on, and so does how far their keys have come."""
        self.reader = reader
        self._frontiers.read_from(self.number, reader)

    # -- what comes ---------------------------------------------------------------------------------

    def examine(self, batch: Batch) -> Examined:
        """Which rows take part; nothing changes yet."""
        there = np.arange(batch.length)
        rows = batch
        if self._node.predicate is not None:
            there = selected(evaluate_predicate(self._node.predicate, batch.column, batch.length))
            rows = batch if len(there) == batch.length else batch.take(there)
        keys = [evaluate(key, rows.column, rows.length) for key in self._node.keys]
        keyless = NO_ROWS
        if any(key.null_count for key in keys):  # a NULL key meets nothing
            has_all = np.logical_and.reduce([valid_bytes(key) for key in keys])
            known, keyless = np.flatnonzero(has_all), there[~has_all]
            there, positions = there[known], pa.array(known)
            keys = [key.take(positions) for key in keys]
        codes = [encode_values(key, type_) for key, type_ in zip(keys, self.key_types, strict=True)]
        return Examined(batch, there, keys, codes, keyless)

    def arrive(self, examined: Examined | None, kept: NDArray, numbers: NDArray) -> None:
        """Keep rows of a batch; kept: which of those that take part; numbers: of all that do."""
        self.first_row = self.end
        if examined is not None and len(kept):
            self.shelf.store.append(*self.stored_form(examined, kept, numbers))

    def stored_form(
        self, examined: Examined, kept: NDArray, numbers: NDArray
    ) -> tuple[NDArray, list[pa.Array]]:
        """Times and columns of rows as they are stored; kept, numbers: as of rows that arrive."""
        all_kept = len(kept) == len(examined.there)
        positions = pa.array(kept)
        texts = [examined.keys[place] for place in self.text_slots]
        arrays = [pa.array(np.ascontiguousarray(codes[kept])) for codes in examined.codes]
        arrays += texts if all_kept else [text.take(positions) for text in texts]
        if self._frontiers.has_values:
            arrays += [pa.array(np.ascontiguousarray(line[kept])) for line in numbers]
        there = examined.there[kept]
        rows = examined.batch
        if len(there) < rows.length:
            rows = rows.take(there)
        arrays += [rows.column(column) for column in self._node.columns]
        return np.ascontiguousarray(rows.ts), arrays

    def store(self, ts: NDArray, arrays: Sequence[pa.Array]) -> None:
        """Keep rows that came before those that come next, and perhaps before some that are stored: as if
        they came behind these."""
        times = self.shelf.store.ts.live
        self.shelf.store.append(np.maximum(ts, times[-1]) if len(times) else ts, arrays)

    def look_up_by(self, choices: Sequence[Keys]) -> None:
        """Rows are looked up by these keys from now on."""
        if list(choices) != self.choices:
            self.choices = list(choices)
            self.shelf.forget_lookups()

    def note_late(self, rows: int) -> None:
        """So many came too late for some that they would have met."""
        self.rows_late += rows

    def fill_lookups(self) -> None:
        """Let all rows that are stored be found."""
        shelf, ts = self.shelf, self.shelf.store.ts
        while len(shelf.lookups) < len(self.choices):
            shelf.lookups.append(HashIndex(ts.tail))
        for keys, lookup in zip(self.choices, shelf.lookups, strict=True):
            first = lookup.end
            if first < ts.end:
                lookup.insert(combine([codes_on(shelf, place).run(first, ts.end) for place in keys]))
                self.multiplicity = max(self.multiplicity, lookup.most_alike(first))

    # -- what goes ----------------------------------------------------------------------------------

    def let_go(self, worked: int) -> None:
        """So many rows of all sides were worked, and frontiers have moved."""
        self._unseen += worked
        if self._unseen >= max(FEW_ROWS, self.end - self.tail):
            self._tidy()

    def first_in_window(self, ts: NDArray) -> NDArray:
        """The first row that is in the side's window at these times; without one, the first that is there."""
        size = self._node.window.size
        if size is None:
            return np.full(len(ts), self.tail)
        found: NDArray = self.tail + self.shelf.store.ts.live.searchsorted(ts - size, side="right")
        return found

    def leave_window(self, ts: int) -> None:
        """Time has come so far: rows go that have left the side's window, whatever keys are still to come."""
        if self._node.window.size is not None and self.end > self.tail:
            first = int(self.first_in_window(np.array([ts], np.int64))[0])
            if first > self.tail:
                self._drop(first)

    def let_go_before(self, row: int) -> None:
        """Rows below this one have gone."""
        self.held_factor = self.reader.factor
        codes = self.codes.run(self.tail, row)
        if len(codes):
            self.gone.note(np.zeros(len(codes), np.int64), codes)
            self._drop(row)

    def let_all_go(self) -> None:
        """Nothing more comes on any side."""
        if self.end > self.tail:
            self._drop(self.end)

    def _tidy(self) -> None:
        """Give back the memory of rows that have gone."""
        self._unseen = 0
        codes, numbers = self.codes.live, self.numbers
        every = range(len(self._frontiers.nows))
        alive = codes >= self._frontiers.least(every, numbers)
        left = np.flatnonzero(alive)
        if len(left) == len(codes):
            return
        first = int(left[0]) if len(left) else len(codes)
        is_sparse = 2 * len(left) < len(codes) - first and len(codes) - first > FEW_ROWS
        goes = np.flatnonzero(~alive) if is_sparse else np.arange(first)
        self.gone.note(numbers[0][goes], codes[goes])
        if first:
            self._drop(self.tail + first)
        if is_sparse:
            self._lay_anew(self.tail - first + left)

    def cut(self, code: int) -> int:
        """Rows with a lesser key go though some could still be met; how many."""
        codes = self.codes.live
        goes = np.flatnonzero(codes < code)
        if len(goes):
            self.gone.note(self.numbers[0][goes], codes[goes])
            self._lay_anew(self.tail + np.flatnonzero(codes >= code))
        return len(goes)

    def lift(self, code: int) -> tuple[NDArray, list[pa.Array]]:
        """Take rows with a greater key out, in the form in which they were stored."""
        codes = self.codes.live
        rows = self.tail + np.flatnonzero(codes > code)
        store = self.shelf.store
        ts = store.ts.data[rows - store.ts.base]
        arrays = [column.view().take(rows) for column in store.columns]
        if len(rows):
            self._lay_anew(self.tail + np.flatnonzero(codes <= code))
        return ts, arrays

    def _drop(self, row: int) -> None:
        self.shelf.store.drop(row)
        for lookup in self.shelf.lookups:
            lookup.purge(row)

    def _lay_anew(self, rows: NDArray) -> None:
        """Keep these rows alone. Who still reads the others has the memory in which they lie."""
        old = self.shelf.store
        ts = old.ts.data[rows - old.ts.base]
        arrays = [column.view().take(rows) for column in old.columns]
        self.shelf = KeptRows(self._types)
        self.shelf.store.append(ts, arrays)
        self.first_row = self.end
        for keys in self.choices:
            lookup = HashIndex()
            lookup.insert(combine([codes_on(self.shelf, place).live for place in keys]))
            self.shelf.lookups.append(lookup)

    # -- what is there ------------------------------------------------------------------------------

    @property
    def shelves(self) -> Sequence[KeptRows]:
        return (self.shelf,)

    @property
    def codes(self) -> RowBuffer:
        """Of the key that grows."""
        return codes_on(self.shelf, 0)

    @property
    def tail(self) -> int:
        return self.shelf.store.ts.tail

    @property
    def end(self) -> int:
        return self.shelf.store.ts.end

    @property
    def numbers(self) -> NDArray:
        """Of the rows that are there, a line per numbering."""
        found = np.zeros((len(self._frontiers.numberings), self.end - self.tail), np.int64)
        if self._frontiers.has_values:
            first = self._columns_from - len(found)
            for line, place in zip(found, range(first, self._columns_from), strict=True):
                line[:] = codes_on(self.shelf, place).live
        return found

    @property
    def rows_ahead(self) -> NDArray:
        """Which rows the others have not passed yet, all of them."""
        others = self._frontiers.others(self.number)
        return self.codes.live >= self._frontiers.least(others, self.numbers)

    def __len__(self) -> int:
        """Rows that some row to come can meet, or that are kept first in, first out."""
        return int(np.count_nonzero(self.rows_ahead)) if self._by_key else self.end - self.tail

    @property
    def nbytes(self) -> int:
        lookups = sum(lookup.nbytes for lookup in self.shelf.lookups)
        return self.shelf.store.nbytes + lookups + self.gone.nbytes

    def view(self, column: int) -> Stored:
        """A column that is passed on, by its place among these."""
        return self.shelf.store.columns[self._columns_from + column].view()

    def codes_at(self, place: int, refs: NDArray) -> NDArray:
        codes = codes_on(self.shelf, place)
        return codes.data[refs - codes.base] if len(refs) else NO_ROWS

    def same_texts(
        self, place: int, refs: NDArray, other: OrderedSide, other_place: int, other_refs: NDArray
    ) -> NDArray:
        """Whether rows of this side and another, given in pairs, have the same text as a key; a byte each."""
        one = self.shelf.store.columns[self.text_slots[place]]
        two = other.shelf.store.columns[other.text_slots[other_place]]
        assert isinstance(one, TextColumn) and isinstance(two, TextColumn), "keys of two kinds"
        same = np.ones(len(refs), np.uint8)
        keep_equal_texts((one, two), (refs, other_refs), same)
        return same

    def _check(self) -> None:
        self.shelf.store._check()
        for lookup in self.shelf.lookups:
            lookup._check()
            assert len(lookup.keys) + self.end - lookup.end == self.end - self.tail, (
                "rows that cannot be found"
            )

    def _check_restored(self) -> None:
        store = self.shelf.store
        expect(len(store.columns) == len(self._types), "the columns of a side")
        expect(len(self.shelf.lookups) in (0, len(self.choices)), "an index for each choice of keys")
        for lookup in self.shelf.lookups:
            expect(lookup.end == store.ts.end, "indexes of all rows")
            expect(len(lookup.keys) == len(store), "indexes of all rows")
        for keys in self.choices:
            expect(all(0 <= place < len(self.key_types) for place in keys), "keys that there are")
