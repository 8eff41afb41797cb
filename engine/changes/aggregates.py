"""What the calls of a GROUP BY keep per group, and what they say at each point.

In: events with the values of their arguments.  Out: a value per point.  Kept: per group a count, a sum in
digits, the values in order, or the stairs of a skyline; all of it is empty again when the group is, so a slot
can be used again as it stands.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.changes import exact_sum, ordered, skyline
from penstock.engine.kernels.changes.distinct import copy_cells, run_distinct
from penstock.engine.kernels.changes.extremes import run_extremes
from penstock.engine.kernels.changes.publish import run_counts
from penstock.engine.kernels.rows.chains import are_apart, walk_trees
from penstock.engine.restoring.in_order import FAR, chained, distinct, expect, size_of_two, within
from penstock.engine.rows.types import SqlType

from .argument import Argument, grown
from .group_table import MAX_EVENTS, NO_INTS, Changes

MIN_POOL = 256
NO_TEXTS = (NO_INTS, np.empty(0, np.uint8))


class Aggregate(Protocol):
    """One call."""

    def begin(self, ets: NDArray) -> None:
        """New rows have come: their arguments have begun with them, and they leave at `ets`."""

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        """The value at each point; the first point at which there cannot be one."""

    @property
    def nbytes(self) -> int: ...


class Distinct:
    """The signs of an argument's events, if a value counts once however often it is there."""

    _owned: ClassVar[tuple[str, ...]] = ("_cells", "_meta", "sign")

    def __init__(self, argument: Argument) -> None:
        self._argument = argument
        self._cells = np.zeros((256, 4), np.int64)
        self._meta = np.zeros(1, np.int64)
        self.sign = np.empty(MAX_EVENTS, np.int8)

    def run(self, changes: Changes) -> None:
        codes = self._argument.codes
        second = codes[1] if len(codes) > 1 else NO_INTS
        event = 0
        while True:
            event = run_distinct(
                changes.slot, self._argument.sign, codes[0], second, event, changes.count, self._cells,
                self._meta, self.sign,
            )  # fmt: skip
            if event == changes.count:
                break
            cells = np.zeros((2 * len(self._cells), 4), np.int64)
            copy_cells(self._cells, cells)
            self._cells = cells

    @property
    def values(self) -> int:
        """Values that are there."""
        return int(self._meta[0])

    @property
    def nbytes(self) -> int:
        return int(self._cells.nbytes)

    def _check_restored(self) -> None:
        size_of_two(len(self._cells), "cells")
        expect(self._cells.shape[1] == 4 and len(self._meta) == 1, "cells")
        used = int(np.count_nonzero(self._cells[:, 3]))
        expect(
            int(self._meta[0]) == used and 2 * used <= len(self._cells), "cells, at most half of them in use"
        )
        expect(bool((self._cells[:, 3] >= 0).all()), "no fewer than no values")
        expect(len(self.sign) >= MAX_EVENTS, "room for signs")
        cells = np.zeros_like(self._cells)
        copy_cells(self._cells, cells)
        self._cells = cells


class CountRows:
    """COUNT(*): the groups know."""

    nbytes = 0

    def begin(self, ets: NDArray) -> None:
        pass

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        value[: changes.points] = changes.point_rows[: changes.points]
        valid[: changes.points] = 1
        return changes.points


class CountValues:
    """COUNT(x), COUNT(DISTINCT x); `signs` has the events' signs."""

    _owned: ClassVar[tuple[str, ...]] = ("_counts",)

    def __init__(self, signs: Argument | Distinct) -> None:
        self._signs = signs
        self._counts = np.zeros(0, np.int64)

    def begin(self, ets: NDArray) -> None:
        pass

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        if len(self._counts) < slots:
            self._counts = grown(self._counts, slots)
        run_counts(
            changes.slot, self._signs.sign, changes.count, changes.point_slot, changes.point_until,
            changes.points, self._counts, value,
        )  # fmt: skip
        valid[: changes.points] = 1
        return changes.points

    @property
    def nbytes(self) -> int:
        return int(self._counts.nbytes)


class Sum:
    """SUM and AVG, exact; `signs` has the events' signs. All groups' digits are those of the same bits."""

    _owned: ClassVar[tuple[str, ...]] = ("_counts", "_read", "_sums")

    def __init__(self, argument: Argument, signs: Argument | Distinct, average: bool) -> None:
        self._argument = argument
        self._signs = signs
        self._doubles = argument.type is SqlType.DOUBLE
        self._average = average
        self._counts = np.empty(MAX_EVENTS if average else 0, np.int64)
        self._read = NO_INTS
        # Digits of the whole range: doubles begin in [low, high], and reach two further.
        self._low, self._high = (1, 0) if self._doubles else (0, 0)
        words = exact_sum.DIGITS + (1 if self._doubles else 2)
        self._sums = np.zeros((0, words), np.int64)

    def begin(self, ets: NDArray) -> None:
        if self._doubles:
            low, high = exact_sum.digit_range(self._argument.row_codes[0], self._argument.valid)
            if low <= high:
                self._widen(low, high)

    def _widen(self, low: int, high: int) -> None:
        """Let the digits hold doubles that begin in [low, high]."""
        is_new = self._low > self._high
        if not is_new:
            low, high = min(low, self._low), max(high, self._high)
            if (low, high) == (self._low, self._high):
                return
        first = exact_sum.DIGITS
        sums = np.zeros((len(self._sums), first + high - low + 4), np.int64)
        sums[:, :first] = self._sums[:, :first]
        if not is_new:
            # The old last digit has a sign and carries: it may be wider than a digit, which is no harm.
            at = first + self._low - low
            sums[:, at : at + self._sums.shape[1] - first] = self._sums[:, first:]
        self._sums, self._low, self._high = sums, low, high

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        if len(self._sums) < slots:
            self._sums = grown(self._sums, slots)
        bad = exact_sum.run_sums(
            changes.of_values(self._signs.sign, self._argument.codes[0]), changes.asked, self._sums,
            self._base, self._doubles, value, valid, self._counts,
        )  # fmt: skip
        if len(self._read):
            self._read[: changes.points] = value[: changes.points]
        if self._average:
            self._divide(value[: changes.points])
        return int(bad)

    def _divide(self, value: NDArray) -> None:
        """Sums at points become averages; bits of doubles."""
        with np.errstate(all="ignore"):
            sums = value.view(np.float64)
            sums /= self._counts[: len(value)]

    def share(self) -> None:
        """Another call asks for the same sums, of doubles; before the first row."""
        assert self._doubles, "what is read of integers depends on the call"
        self._counts, self._read = np.empty(MAX_EVENTS, np.int64), np.empty(MAX_EVENTS, np.int64)

    def repeat(self, average: bool, value: NDArray, valid: NDArray) -> None:
        """What the last `run` read, for the other call."""
        value[:] = self._read[: len(value)]
        valid[:] = self._counts[: len(value)] != 0
        if average:
            self._divide(value)

    @property
    def _base(self) -> int:
        return exact_sum.DIGIT * self._low if self._doubles else exact_sum.ONE

    @property
    def nbytes(self) -> int:
        return int(self._sums.nbytes + self._counts.nbytes + self._read.nbytes)

    def _check_restored(self) -> None:
        digits = 1 if self._doubles else 2
        if self._doubles and self._low <= self._high:
            digits = self._high - self._low + 4
            expect(self._low > -64 and self._high < 64, "digits of doubles")
        expect(self._sums.shape[1] == exact_sum.DIGITS + digits, "digits of all sums")
        expect(self._doubles == (self._argument.type is SqlType.DOUBLE), "sums of the argument's type")
        expect(len(self._counts) in (0, MAX_EVENTS) and len(self._read) in (0, MAX_EVENTS), "room for sums")
        expect(len(self._counts) or not self._average, "room for counts")


class SameSum:
    """SUM or AVG of doubles that a call before it adds up."""

    nbytes = 0

    def __init__(self, other: Sum, average: bool) -> None:
        other.share()
        self._other = other
        self._average = average

    def begin(self, ets: NDArray) -> None:
        pass

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        self._other.repeat(self._average, value[: changes.points], valid[: changes.points])
        return changes.points


class Trees:
    """Ordered trees of int64 in common arrays (see kernels/changes/ordered.py), one per slot."""

    _owned: ClassVar[tuple[str, ...]] = ("_child", "_keys", "_meta", "roots")

    def __init__(self) -> None:
        self.roots = np.zeros(0, np.int64)
        self._keys = [np.empty(1, np.int64), np.empty(1, np.int64)]
        self._child = np.zeros(2, np.int64)
        self._meta = np.zeros(2, np.int64)

    def reserve(self, slots: int, nodes: int) -> None:
        """Have so many slots, and room for so many nodes more."""
        if len(self.roots) < slots:
            self.roots = grown(self.roots, slots)
        need = int(self._meta[ordered.USED]) + nodes + 1
        if need > len(self._keys[0]):
            self._keys = [grown(array, 2 * need) for array in self._keys]
            self._child = grown(self._child, 4 * need)

    @property
    def arrays(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        return self._keys[0], self._keys[1], self._child, self._meta

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in (self.roots, *self.arrays))

    def _check_restored(self) -> None:
        keys, counts, child, meta = self.arrays
        expect(len(keys) == len(counts) and len(child) == 2 * len(keys) and len(meta) == 2, "nodes")
        used = int(meta[ordered.USED])
        expect(0 <= used < len(keys), "nodes that are used")
        pairs = child.reshape(-1, 2)[: used + 1]
        within(pairs[1:].ravel(), 0, used + 1, "nodes below others")
        within(self.roots, 0, used + 1, "roots of trees")
        below = pairs[1:][counts[1 : used + 1] != 0].ravel()
        free = np.flatnonzero(counts[1 : used + 1] == 0) + 1
        met = np.concatenate([self.roots[self.roots > 0], below[below > 0], free])
        distinct(met, used + 1, "nodes")
        expect(len(met) == used and walk_trees(self.roots, pairs, used) == used - len(free), "trees")
        following = np.where(pairs[:, 0] > 0, pairs[:, 0], -1)
        seen = np.arange(used + 1) == 0
        head = meta[ordered.FREE :] if meta[ordered.FREE] else np.array([-1])
        expect(chained(head, following, seen, "free nodes") == len(free), "free nodes")
        expect(not len(free) or bool(seen[free].all()), "free nodes")


class Extreme:
    """MIN and MAX of rows that may be withdrawn: all values in order."""

    def __init__(self, argument: Argument, smallest: bool) -> None:
        self._argument = argument
        self._smallest = smallest
        self._doubles = argument.type is SqlType.DOUBLE
        self._trees = Trees()

    def begin(self, ets: NDArray) -> None:
        pass

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        self._trees.reserve(slots, changes.count)
        run_extremes(
            changes.of_values(self._argument.sign, self._argument.codes[0]), changes.asked,
            (self._trees.roots, self._trees.arrays, NO_TEXTS), NO_INTS, self._smallest, self._doubles,
            value, valid,
        )  # fmt: skip
        return changes.points

    @property
    def nbytes(self) -> int:
        return self._trees.nbytes


class Skyline:
    """MIN and MAX of rows that leave by themselves, or never: the values that can still become it.

    Rings, until a row leaves earlier than one before it in its group; trees from then on.
    """

    _owned: ClassVar[tuple[str, ...]] = ("_meta", "_pool", "_rings")

    def __init__(self, argument: Argument, smallest: bool) -> None:
        self._argument = argument
        self._flip = -1 if smallest else 0
        self._doubles = argument.type is SqlType.DOUBLE
        self._rings = np.zeros((0, 4), np.int64)
        self._pool = np.zeros((MIN_POOL, 2), np.int64)
        self._meta = np.zeros(skyline.CLASSES + 1, np.int64)
        self._meta[skyline.USED] = 1  # 0 is no block
        self._trees: Trees | None = None
        self._row_ets = NO_INTS

    def begin(self, ets: NDArray) -> None:
        self._row_ets = ets

    def run(self, changes: Changes, slots: int, value: NDArray, valid: NDArray) -> int:
        start = np.zeros(2, np.int64)
        rows = self._argument.row_codes[0], self._argument.valid, self._row_ets
        happened = changes.slot, changes.row, changes.count
        arguments = happened, (changes.point_ts, *changes.asked), rows, start
        results = (self._flip, self._doubles, value, valid)
        if len(self._rings) < slots and self._trees is None:
            self._rings = grown(self._rings, slots)
        while self._trees is None:
            status = skyline.run_skyline(*arguments, (self._rings, self._pool, self._meta), *results)
            if status == skyline.DONE:
                return changes.points
            if status == skyline.GROW:
                self._pool = grown(self._pool, 2 * len(self._pool))
                continue
            self._trees = Trees()
            self._trees.reserve(slots, int(self._rings[:, skyline.COUNT].sum()))
            skyline.rings_to_trees(self._rings, self._pool, self._trees.roots, self._trees.arrays, NO_TEXTS)
            self._rings, self._pool = self._rings[:0].copy(), self._pool[:0].copy()
        self._trees.reserve(slots, changes.count)
        skyline.run_stairs(*arguments, (self._trees.roots, self._trees.arrays, NO_TEXTS), *results)
        return changes.points

    @property
    def nbytes(self) -> int:
        return int(self._rings.nbytes + self._pool.nbytes) + (
            0 if self._trees is None else self._trees.nbytes
        )

    def _check_restored(self) -> None:
        expect(len(self._meta) == skyline.CLASSES + 1 and self._rings.shape[1] == 4, "rings")
        expect(self._pool.shape[1] == 2 and self._flip in (-1, 0), "rings")
        used = int(self._meta[skyline.USED])
        expect(self._trees is not None or 1 <= used <= len(self._pool), "blocks in the pool")
        block, size, head, count = (self._rings[:, one] for one in range(4))
        is_there = size > 0
        expect(not (size & (size - 1)).any() and bool((size >= 0).all()), "powers of two")
        within(head[is_there], 0, FAR, "where rings begin")
        expect(bool((head[is_there] < size[is_there]).all()), "where rings begin")
        expect(bool(((count >= 0) & (count <= size)).all()), "no more than a ring holds")
        within(block[is_there], 1, max(used, 1), "blocks")
        expect(bool((block[is_there] + size[is_there] <= used).all()), "blocks in the pool")
        blocks, sizes = [block[is_there]], [size[is_there]]
        following = self._pool[:, 0]
        for number in range(skyline.CLASSES):
            at, size_of = int(self._meta[number]), skyline.FIRST_SIZE << number
            while at:
                expect(at > 0 and at + size_of <= used and len(blocks) <= used, "free blocks in the pool")
                blocks.append(np.array([at]))
                sizes.append(np.array([size_of]))
                at = int(following[at])
        expect(are_apart(np.concatenate(blocks), np.concatenate(sizes), used), "blocks apart")
