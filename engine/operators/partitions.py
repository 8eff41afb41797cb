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
from ..kernels.deal import order_runs
from ..types import SqlType


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
    _by: dict[int, NDArray] = field(default_factory=dict)
    """What has been asked for of these rows, by size."""

    def extend(self, keys: Sequence[pa.Array], types: Sequence[SqlType], length: int) -> None:
        """Take in the next rows, with these keys."""
        new = fingerprint(keys, types, length)
        a, b = (np.concatenate([old, one]) for old, one in zip(self.marks, new, strict=True))
        self.marks, self._by = (a, b), {}
        self.order = np.lexsort((b, a)) if b.any() else np.argsort(a, kind="stable")
        a, b = a[self.order], b[self.order]
        self.same = np.cumsum((np.diff(a, prepend=a[:1]) != 0) | (np.diff(b, prepend=b[:1]) != 0))

    def keep(self, rows: NDArray) -> None:
        """Forget all rows but these."""
        a, b = self.marks
        self.marks, self._by = (a[rows], b[rows]), {}
        new = np.full(len(a), -1)
        new[rows] = np.arange(len(rows))
        there = new[self.order] >= 0
        self.order, self.same = new[self.order[there]], self.same[there]

    def displacing(self, size: int) -> NDArray:
        """For each row the one `size` places later in its partition; the number of rows if none has come."""
        if size not in self._by:
            count = len(self.order)
            by = self._by[size] = np.full(count, count)
            if size < count:
                same = self.same[size:] == self.same[:-size]
                by[self.order[:-size][same]] = self.order[size:][same]
        return self._by[size]

    @property
    def nbytes(self) -> int:
        return sum(int(one.nbytes) for one in (*self.marks, self.order, self.same))

    def _check(self, rows: int) -> None:
        assert len(self.order) == len(self.same) == len(self.marks[0]) == rows, "rows in no partition"
        assert np.array_equal(np.sort(self.order), np.arange(rows)), "a row in two partitions"


Changes = tuple[NDArray, NDArray, NDArray]
"""Times, signs and rows."""


def displaced(by: NDArray, at: NDArray, begin: int, end: int, first: int) -> Changes:
    """What rows [begin, end) change in windows in which row i is displaced by row by[i].

    at: the instants of rows, whole from `begin` on; first: no row below it is in. At each instant what
    leaves comes before what enters.
    """
    by = by[:end]
    # 1. who leaves, in order of who displaces them: not what comes and goes in one instant
    gone = np.flatnonzero((by[first:] >= begin) & (by[first:] < end)) + first
    displaced_by = np.full(max(end - begin, 0), -1)
    displaced_by[by[gone] - begin] = gone
    comes = np.flatnonzero(displaced_by >= 0)
    leaving, comes = displaced_by[comes], comes + begin
    is_seen = (leaving < begin) | (at[comes] > at[leaving])
    leaving, comes = leaving[is_seen], comes[is_seen]
    # 2. who enters
    entering = np.arange(max(begin, first), end)
    until = np.minimum(by[entering], end)
    entering = entering[(until == end) | (at[np.minimum(until, end - 1)] > at[entering])]
    # 3. in time order
    times = np.concatenate([at[comes], at[entering]])
    order = np.arange(len(times), dtype=np.int32)
    order_runs(times, np.array([0, len(comes), len(times)]), order)
    sign = np.where(order < len(comes), np.int8(-1), np.int8(1))
    return times[order], sign, np.concatenate([leaving, entering])[order]
