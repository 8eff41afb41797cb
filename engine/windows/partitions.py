"""Rows of a stream told apart by some of its columns: which are in a window of the last n of each partition.

    rows          0  1  2  3  4
    keys          a  b  a  a  b
    following     2  4  3  -  -       the next row of the same partition
    oldest        a: 2, b: 1          of the window of the last 2

Of a row in some window all later ones of its partition are in it too. So a window is, of each partition, its
oldest row and how many there are; the links are the same for windows of every size. A row costs the same
however many partitions there are: its key is looked up, one row comes and at most one goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.windows.changes import displace_in_partitions, link_rows
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.keys.key_slots import NO_BYTES, NO_INTS, KeySlots
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.types import SqlType

Changes = tuple[NDArray, NDArray, NDArray]
"""Times, signs and rows."""
FEWEST_GONE = 2  # rows are laid out anew when so many times those that are gone are more than all
FEW_ROWS = 256


class Partitions:
    """Rows, numbered from 0 on as they came, each linked to the next one of its partition."""

    _owned: ClassVar[tuple[str, ...]] = ("_last",)

    def __init__(self, columns: Sequence[int]) -> None:
        """columns: of the stream, that tell rows apart."""
        self.columns = tuple(columns)
        self.slots = RowBuffer("int32")
        """By row, a number for its partition."""
        self.following = RowBuffer("int64")
        self._keys = KeySlots()
        self._last = np.empty(0, np.int64)

    def extend(self, keys: Sequence[pa.Array], types: Sequence[SqlType], length: int) -> None:
        """Take in the next rows, with these keys."""
        a, b = fingerprint(keys, types, length)
        words = frozen(a), frozen(b) if b.any() else NO_INTS, NO_BYTES
        begin = len(self.slots)
        self.slots.append(self._keys.insert(words, np.empty(length, np.int32)))
        self._link(begin)

    def _link(self, begin: int) -> None:
        self.following.extend(len(self.slots) - begin)
        self._last = fitted(self._last, self.count, -1)
        link_rows(self.slots.live, self.following.live, self._last, begin)

    @property
    def count(self) -> int:
        """Of partitions that have come."""
        return self._keys.used

    def keep(self, rows: NDArray) -> None:
        """Forget all rows but these, which are numbered anew."""
        slots, self.slots, self.following = self.slots.live[rows], RowBuffer("int32"), RowBuffer("int64")
        self.slots.append(slots)
        self._last[:] = -1
        self._link(0)

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.following.nbytes + self._keys.nbytes + int(self._last.nbytes)

    def _check(self) -> None:
        self._keys._check()
        slots, following = self.slots.live, self.following.live
        assert len(slots) == len(following), "rows without links"
        assert bool(((slots >= 0) & (slots < self.count)).all()), "a row in no partition"
        again, last = np.empty(len(slots), np.int64), np.full(len(self._last), -1)
        link_rows(slots, again, last, 0)
        assert np.array_equal(again, following) and np.array_equal(last, self._last), "rows linked to others"

    def _check_restored(self) -> None:
        slots = self.slots
        expect(slots.data.dtype == np.int32 and self.following.data.dtype == np.int64, "rows and links")
        expect(
            (slots.tail, self.following.tail) == (0, 0) and len(slots) == len(self.following),
            "links of all rows",
        )
        within(slots.live, 0, self.count, "partitions of rows")
        self._last = fitted(self._last, self.count, -1)
        self._last[:] = -1
        link_rows(slots.live, self.following.live, self._last, 0)


class LastRows:
    """A window of the last `size` rows of each partition, as of some row."""

    _owned: ClassVar[tuple[str, ...]] = ("_count", "_oldest")

    def __init__(self, partitions: Partitions, size: int, first: int = 0) -> None:
        """first: no row below it is in the window."""
        self.partitions = partitions
        self.size = size
        self._oldest = np.empty(0, np.int64)
        self._count = np.empty(0, np.int64)
        self.begin(first)

    def begin(self, first: int) -> None:
        """Take in rows from this one on."""
        self.first = self.end = first
        """The rows from the one on and below the other have been taken in."""

    @property
    def is_new(self) -> bool:
        return self.first == self.end

    def take(self, at: NDArray) -> tuple[Changes, NDArray]:
        """Take in the next rows, whole instants at these times: what changes, and the rows displaced."""
        self.fit()
        begin, rows = self.end, len(at)
        self.end += rows
        out: list[NDArray] = [np.empty(2 * rows, kind) for kind in (np.int64, np.int8, np.int64)]
        gone = np.empty(rows, np.int64)
        slots, following = self.partitions.slots.live, self.partitions.following.live
        count, left = displace_in_partitions(
            slots, following, at, begin, self.size, self._oldest, self._count, out[0], out[1], out[2], gone
        )
        return (out[0][:count], out[1][:count], out[2][:count]), gone[:left]

    def fit(self) -> None:
        """Have room for all partitions that have come."""
        self._oldest = fitted(self._oldest, self.partitions.count, -1)
        self._count = fitted(self._count, self.partitions.count, 0)

    def rows(self) -> NDArray:
        """Those in the window."""
        slots = self.partitions.slots.run(self.first, self.end)
        return np.flatnonzero(self._oldest[slots] <= np.arange(self.first, self.end)) + self.first

    def needs(self, rows: NDArray) -> NDArray:
        """Which of these are in the window, or may come to be."""
        self.fit()
        slots = self.partitions.slots.live[rows]
        found: NDArray = (rows >= self.end) | ((rows >= self.first) & (rows >= self._oldest[slots]))
        return found

    def renumber(self, kept: NDArray) -> None:
        """Only these rows are there from now on, numbered anew; all that the window needs are."""
        is_there = self._count > 0
        self._oldest[is_there] = kept.searchsorted(self._oldest[is_there])
        self.first, self.end = kept.searchsorted([self.first, self.end]).tolist()

    @property
    def nbytes(self) -> int:
        return int(self._oldest.nbytes + self._count.nbytes)

    def _check(self) -> None:
        assert 0 <= self.first <= self.end <= len(self.partitions), "a row that has not come"
        assert len(self._oldest) == len(self._count), "a partition without rows"
        self.fit()
        slots = self.partitions.slots.run(self.first, self.end)
        rows = self.rows()
        assert np.array_equal(
            np.bincount(self.partitions.slots.live[rows], minlength=len(self._count)), self._count
        ), "other rows are in the window than are counted"
        full = np.minimum(np.bincount(slots, minlength=len(self._count)), self.size)
        assert bool((self._count <= full).all()), "more rows than the window holds"

    def _check_restored(self) -> None:
        rows = len(self.partitions.slots)
        expect(0 <= self.first <= self.end <= rows and self.size >= 0, "rows that have come")
        expect(len(self._oldest) == len(self._count), "the oldest row of each partition")
        within(self._oldest, -1, rows, "rows that have come")
        within(self._count, 0, rows + 1, "rows in the window")
        known = np.arange(len(self._oldest)) < self.partitions.count
        expect(not self._count[~known].any(), "partitions that have come")
        if self.end > self.first:
            slots = self.partitions.slots.run(self.first, self.end)
            expect(len(self._oldest) > int(slots.max()), "partitions that have come")
            counts = np.bincount(
                slots[self._oldest[slots] <= np.arange(self.first, self.end)], minlength=len(self._count)
            )
            expect(np.array_equal(counts, self._count), "rows in the window of each partition")
            oldest = self._oldest[self._count > 0]
            expect(
                np.array_equal(self.partitions.slots.live[oldest], np.flatnonzero(self._count)), "oldest rows"
            )


def fitted(values: NDArray, length: int, fill: int) -> NDArray:
    """An array with room for as many, filled up."""
    if len(values) >= length:
        return values
    grown = np.full(max(FEW_ROWS, 2 * length), fill, values.dtype)
    grown[: len(values)] = values
    return grown
