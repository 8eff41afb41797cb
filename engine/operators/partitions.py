"""Rows of a stream told apart by some of its columns: which row displaces which from a window of the last n
of each partition.

A row is displaced by the one n places later among those with equal keys. Of a row in some window all later
ones of its partition are in it too, so these places are the same among the rows that are kept. Rows are
sorted by what tells them apart once per batch; who displaces whom is then so many places further for every
size of window.

    keys    a b a a b      by size 1: 2 4 3 - -      by size 2: 3 - - - -       - is the number of rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS
from ..fingerprint import fingerprint
from ..kernels.changes import displace_in_partitions
from ..types import SqlType

Changes = tuple[NDArray, NDArray, NDArray]
"""Times, signs and rows."""


@dataclass(eq=False)
class Partitions:
    """Rows, each known by how many of those that are kept came before it."""

    columns: tuple[int, ...]
    """Of the stream, that tell rows apart."""
    marks: tuple[NDArray, NDArray] = (NO_ROWS, NO_ROWS)
    """What tells them apart, two int64 a row."""
    order: NDArray = field(default_factory=lambda: NO_ROWS)
    """The rows, those of a partition together, as they came."""
    same: NDArray = field(default_factory=lambda: NO_ROWS)
    """In that order, the number of each row's partition."""
    rank: NDArray = field(default_factory=lambda: NO_ROWS)
    """Where in that order each row is."""

    def extend(self, keys: Sequence[pa.Array], types: Sequence[SqlType], length: int) -> None:
        """Take in the next rows, with these keys."""
        new = fingerprint(keys, types, length)
        a, b = (np.concatenate([old, one]) for old, one in zip(self.marks, new, strict=True))
        self.marks = a, b
        self.order = np.lexsort((b, a)) if b.any() else np.argsort(a, kind="stable")
        a, b = a[self.order], b[self.order]
        self.same = np.cumsum((np.diff(a, prepend=a[:1]) != 0) | (np.diff(b, prepend=b[:1]) != 0))
        self._find_ranks()

    def _find_ranks(self) -> None:
        self.rank = np.empty(len(self.order), np.int64)
        self.rank[self.order] = np.arange(len(self.order))

    def keep(self, rows: NDArray) -> None:
        """Forget all rows but these."""
        a, b = self.marks
        self.marks = a[rows], b[rows]
        new = np.full(len(a), -1)
        new[rows] = np.arange(len(rows))
        there = new[self.order] >= 0
        self.order, self.same = new[self.order[there]], self.same[there]
        self._find_ranks()

    def displacing(self, size: int) -> NDArray:
        """For each row the one `size` places later in its partition; the number of rows if none has come."""
        count = len(self.order)
        by = np.full(count, count)
        if size < count:
            same = self.same[size:] == self.same[:-size]
            by[self.order[:-size][same]] = self.order[size:][same]
        return by

    def changes(self, size: int, at: NDArray, begin: int, end: int, first: int) -> Changes:
        """What rows [begin, end) change in windows of the last `size` of each partition.

        at: the instants of rows, whole from `begin` on; first: no row below it is in. At each instant what
        leaves comes before what enters.
        """
        room = 2 * max(end - begin, 0)
        out: list[NDArray] = [np.empty(room, kind) for kind in (np.int64, np.int8, np.int64)]
        order, same, rank = self.order, self.same, self.rank
        count = displace_in_partitions(order, same, rank, at, begin, end, size, first, *out)
        return out[0][:count], out[1][:count], out[2][:count]

    @property
    def nbytes(self) -> int:
        return sum(int(one.nbytes) for one in (*self.marks, self.order, self.same, self.rank))

    def _check(self, rows: int) -> None:
        assert len(self.order) == len(self.same) == len(self.marks[0]) == rows, "rows in no partition"
        assert np.array_equal(np.sort(self.order), np.arange(rows)), "a row in two partitions"
