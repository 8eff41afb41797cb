"""MIN and MAX of texts: all that are there, in order, in a store of their own.

In: rows with texts.  Out: per point, the place of the group's least or greatest text in the store.  Kept: the
texts of rows that are there, and what was said last.  Dropped: texts that nobody refers to any more, when
they are more than the others; the rest then moves into a new store.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.changes.extremes import run_extremes
from penstock.engine.kernels.changes.ordered import USED
from penstock.engine.restoring.in_order import within
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import TextColumn, TextView, valid_bytes
from penstock.engine.rows.types import SqlType

from .aggregates import Trees
from .argument import NO_BYTES, NO_CODES, Argument, grown
from .group_table import Changes, GroupTable

MIN_TEXTS = 1024


class TextArgument(Argument):
    """A VARCHAR column whose codes are the texts' places in a store."""

    def __init__(self, index: int) -> None:
        super().__init__(index, SqlType.BIGINT, is_kept=True)
        self.store = TextColumn()

    def begin(self, batch: Batch | None) -> None:
        self.row_codes, self.valid = NO_CODES, NO_BYTES
        if batch is None:
            return
        array = batch.column(self.index)
        if array.null_count:
            self.valid = frozen(valid_bytes(array))
        first = self.texts
        self.store.append(array)
        self.row_codes = (frozen(np.arange(first, self.texts)),)

    @property
    def texts(self) -> int:
        """How many are in the store."""
        return self.store.starts.end - 1

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.store.nbytes

    def kept(self, entries: NDArray) -> tuple[NDArray, NDArray]:
        """Of these entries, those that have a text, and its place."""
        entries = entries[self._kept_valid[0][entries] != 0]
        return entries, self._kept[0][entries]

    def keep(self, places: NDArray, entries: NDArray, at: NDArray) -> None:
        """Keep the texts at these places alone; the texts of these entries are at these of them."""
        texts = self.store.view().take(places)
        self.store = TextColumn()
        self.store.append(texts)
        self._kept[0][entries] = places.searchsorted(at)


class TextExtreme:
    """MIN and MAX over VARCHAR, whether rows are withdrawn or not."""

    _owned: ClassVar[tuple[str, ...]] = ("_said",)

    def __init__(self, argument: TextArgument, smallest: bool) -> None:
        self._argument = argument
        self._smallest = smallest
        self._trees = Trees()
        self._said = np.zeros(0, np.int64)
        self._least = MIN_TEXTS

    def begin(self, ets: NDArray) -> None:
        pass

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        self._trees.reserve(slots, changes.count)
        known = len(self._said)
        if known < slots:
            self._said = grown(self._said, slots)
            self._said[known:] = -1
        store = self._argument.store
        run_extremes(
            changes.of_values(self._argument.sign, self._argument.codes[0]), changes.asked,
            (self._trees.roots, self._trees.arrays, (store.starts.data, store.data.data)), self._said,
            self._smallest, False, value, valid,
        )  # fmt: skip
        return changes.points

    def view(self) -> TextView:
        """The store at this moment."""
        return self._argument.store.view()

    def compact(self, groups: GroupTable, said: NDArray) -> None:
        """Let texts go that nobody refers to, if they are many. said: int64 by slot, what others remember.

        Call it when no rows are waiting to be worked.
        """
        argument = self._argument
        if argument.texts <= self._least:
            return
        keys, counts, _, _ = self._trees.arrays
        _, ids = groups.expiry.entries()
        entries, kept = argument.kept(ids)
        nodes = np.flatnonzero(counts)
        slots = np.flatnonzero(self._said >= 0)
        places = np.unique(np.concatenate([kept, keys[nodes], self._said[slots]]))
        argument.keep(places, entries, kept)
        keys[nodes] = np.searchsorted(places, keys[nodes])
        self._said[slots] = said[slots] = np.searchsorted(places, self._said[slots])
        self._least = max(MIN_TEXTS, 2 * len(places))

    @property
    def nbytes(self) -> int:
        return self._trees.nbytes + int(self._said.nbytes)

    def _check_restored(self) -> None:
        texts = self._argument.texts
        within(self._said, -1, texts, "texts that were said")
        keys, counts, _, meta = self._trees.arrays
        used = slice(1, int(meta[USED]) + 1)  # node 0 is nobody's
        within(keys[used][counts[used] > 0], 0, texts, "texts in trees")
