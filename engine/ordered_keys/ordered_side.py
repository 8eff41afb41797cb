"""One input of a join without windows: its rows, by key, until no row to come can meet them.

In:      rows of a stream in time order, and its key frontier after each of them.
Kept:    rows that satisfy the side's predicate and have all keys, as they came: codes of the keys, texts of
         those that are text, the columns that are passed on; an index for each choice of keys that somebody
         looks up.
Dropped: rows whose key is below `floor`: they count no more and are found no more at once. They lie there
         until all streams have passed them, this one too, so that it is known how many had one key; memory is
         given back when more than half of the rows that lie there are of no use.

    codes   [ 4  9  3  8  5  9 ]     floor 6:  4, 3 and 5 have gone, three rows are kept
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
from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.keys.keys import INT_MIN, combine, encode_values
from penstock.engine.keys.verify import keep_equal_texts
from penstock.engine.many_joins.many_side import Keys, codes_on
from penstock.engine.plan.plan import SideNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import Store, TextColumn, valid_bytes
from penstock.engine.rows.types import SqlType
from penstock.engine.views.shelves_view import Stored

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


class OrderedSide:
    """Looked up by choices of its keys; the first of them grows."""

    def __init__(self, number: int, node: SideNode, types: Sequence[SqlType], reader: KeyReader) -> None:
        self.number = number
        self.reader = reader
        """Of the frontier of its stream."""
        self.key_types = [key.type for key in node.keys]
        texts = [place for place, type_ in enumerate(self.key_types) if type_ is SqlType.VARCHAR]
        self.text_slots = {place: len(self.key_types) + slot for slot, place in enumerate(texts)}
        self.choices: list[Keys] = []
        """By which keys rows are looked up, in the order of the indexes."""
        self.floor = INT_MIN
        """Rows with a key below it have gone."""
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
        self.lacking: int | None = None
        """The greatest key of the rows that had come before the join began; None: none had."""
        self._node = node
        self._types = [SqlType.BIGINT] * len(self.key_types)
        self._types += [SqlType.VARCHAR] * len(texts)
        self._columns_from = len(self._types)
        self._types += [types[column] for column in node.columns]
        self._passed = INT_MIN
        """Rows with a key below it are of no use."""
        self._gone: int | None = None
        """The greatest key of rows that are not there any more; None: no row has gone."""
        self._unseen = 0
        """Rows worked since it was last seen which have gone."""
        self.shelf = KeptRows(self._types)

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

    def arrive(self, examined: Examined | None, kept: NDArray) -> None:
        """Keep rows of a batch; kept: which of those that take part."""
        self.first_row = self.end
        if examined is None or not len(kept):
            return
        all_kept = len(kept) == len(examined.there)
        positions = pa.array(kept)
        texts = [examined.keys[place] for place in self.text_slots]
        arrays = [pa.array(np.ascontiguousarray(codes[kept])) for codes in examined.codes]
        arrays += texts if all_kept else [text.take(positions) for text in texts]
        there = examined.there[kept]
        rows = examined.batch
        if len(there) < rows.length:
            rows = rows.take(there)
        arrays += [rows.column(column) for column in self._node.columns]
        self.shelf.store.append(np.ascontiguousarray(rows.ts), arrays)

    def look_up_by(self, choices: Sequence[Keys]) -> None:
        """Rows are looked up by these keys from now on."""
        if list(choices) != self.choices:
            self.choices = list(choices)
            self.shelf.lookups = []

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

    def let_go(self, floor: int, passed: int, worked: int) -> None:
        """Rows with a key below `floor` meet nothing any more, those below `passed` are of no use; so many
        rows were worked since the last time."""
        self.floor, self._passed = max(self.floor, floor), max(self._passed, passed)
        self._unseen += worked
        if self._unseen >= max(FEW_ROWS, self.end - self.tail):
            self._tidy()

    def let_go_before(self, row: int) -> None:
        """Rows below this one have gone."""
        self.held_factor = self.reader.factor
        codes = self.codes.run(self.tail, row)
        if len(codes):
            self._note_gone(codes)
            self._drop(row)

    def let_all_go(self) -> None:
        """Nothing more comes on any side."""
        if self.end > self.tail:
            self._drop(self.end)

    def pass_by(self, codes: NDArray) -> None:
        """Rows with these keys have gone at once."""
        if len(codes):
            self._note_gone(codes)

    def _note_gone(self, codes: NDArray) -> None:
        most = int(codes.max())
        self._gone = most if self._gone is None else max(self._gone, most)

    @property
    def gone(self) -> tuple[int, bool]:
        """The greatest key of rows that are not there any more, if any has gone."""
        return (0, False) if self._gone is None else (self._gone, True)

    def _tidy(self) -> None:
        """Give back the memory of rows that have gone."""
        self._unseen = 0
        codes = self.codes.live
        alive = codes >= self._passed
        left = np.flatnonzero(alive)
        if len(left) == len(codes):
            return
        first = int(left[0]) if len(left) else len(codes)
        if first:
            self._note_gone(codes[:first])
            self._drop(self.tail + first)
        if 2 * len(left) < len(codes) - first and len(codes) - first > FEW_ROWS:
            self._note_gone(codes[first:][~alive[first:]])
            self._lay_anew(self.tail - first + left)

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

    def __len__(self) -> int:
        """Rows that some row to come can meet."""
        return int(np.count_nonzero(self.codes.live >= self.floor))

    @property
    def nbytes(self) -> int:
        return self.shelf.store.nbytes + sum(lookup.nbytes for lookup in self.shelf.lookups)

    def rows_from(self, code: int) -> int:
        """How many rows that are kept have this key or a greater one."""
        return int(np.count_nonzero(self.codes.live >= max(code, self.floor)))

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
        expect(self._passed <= self.floor or self.floor == INT_MIN, "rows that count and are of use")
        expect(len(store.columns) == len(self._types), "the columns of a side")
        expect(len(self.shelf.lookups) in (0, len(self.choices)), "an index for each choice of keys")
        for lookup in self.shelf.lookups:
            expect(lookup.end == store.ts.end, "indexes of all rows")
            expect(len(lookup.keys) == len(store), "indexes of all rows")
        for keys in self.choices:
            expect(all(0 <= place < len(self.key_types) for place in keys), "keys that there are")
