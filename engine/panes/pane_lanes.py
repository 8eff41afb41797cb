"""What panes keep for one call: counts and sums as they grow, extremes by pane.

In: rows with their slots, and the edges between panes.  Out: what a window that begins at an edge, and goes
on until now, says per slot.  Kept: per edge an array by slot, or what rows have changed of it
(pane_marks.py).  Dropped: edges nobody asks for any more.

Counts and sums are running totals. At an edge they are copied, and a window is now less then:

    edge          |          |          |  now
    total         3          5          9  12          the window from the second edge on: 12 - 5

Extremes cannot be taken back. Each edge has the extreme from there on to the end of its block; blocks of
panes are joined when there are two of one size, so that there are few, and an edge is touched only as often
as its block is joined. A window is its edge's extreme and those of the blocks behind:

    edge          |     |     |     |     |  now
    blocks        [-----------------------|-----------|-----]
    kept          8     7     7     2       total 9     total 4       from the third edge on: max(7, 9, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.changes.argument import grown
from penstock.engine.changes.group_table import NO_INTS
from penstock.engine.kernels.changes import exact_sum
from penstock.engine.kernels.hopping import panes as kernels
from penstock.engine.restoring.in_order import expect, rising, within

from .pane_marks import Mark, Marks, Sparse, taken
from .pane_texts import PaneTexts

NOTHING = kernels.NOTHING


class Counts:
    """Rows per slot since ever, and at each edge."""

    _owned: ClassVar[tuple[str, ...]] = ("totals",)

    def __init__(self) -> None:
        self.totals = np.zeros(0, np.int64)
        self.marks = Marks(0)

    def reserve(self, slots: int) -> None:
        if len(self.totals) < slots:
            self.totals = grown(self.totals, max(slots, 2 * len(self.totals)))

    def mark(self, edge: int, used: int, slots: NDArray | None = None) -> None:
        """A pane ends at this edge; slots: all that have rows in it, if they are few."""
        if len(self.totals):
            self.reserve(used)
            self.marks.put(edge, self.totals[:used], slots)

    def since(self, edge: int, used: int) -> NDArray:
        """What has been added after an edge, by slot."""
        if not len(self.totals):
            return np.zeros(used, np.int64)
        self.reserve(used)
        out = np.empty(used, np.int64)
        before = self.marks.at(edge, used)
        kernels.less_before(self.totals, NO_INTS if before is None else before, used, out)
        return out

    def drop(self, edges: Sequence[int]) -> None:
        """Forget these edges."""
        self.marks.drop(edges)

    def keep(self, slots: NDArray) -> None:
        """Keep these slots alone."""
        self.totals = taken(self.totals, slots, 0) if len(self.totals) else self.totals
        self.marks.keep(slots)

    def clear(self) -> None:
        """Forget everything: nothing is in any pane."""
        self.totals = self.totals[:0].copy()
        self.marks = Marks(0)

    @property
    def nbytes(self) -> int:
        return int(self.totals.nbytes) + self.marks.nbytes

    def _check(self) -> None:
        self.marks._check()

    def check_slots(self, used: int) -> None:
        """Raise Disorder unless all is about slots in use; of what was restored."""
        self.marks.check_slots(used, ())


class Sums:
    """Exact sums per slot (see kernels/changes/exact_sum.py): digits in words that wrap around, so that the
    difference of two moments is exact as well."""

    _owned: ClassVar[tuple[str, ...]] = ("_totals",)

    def __init__(self, doubles: bool) -> None:
        self.doubles = doubles
        self._marks = Marks(0)
        # Digits of the whole range: doubles begin in [low, high], and reach two further.
        self._low, self._high = (1, 0) if self.doubles else (0, 0)
        self._totals = np.zeros((0, exact_sum.DIGITS + (1 if self.doubles else 2)), np.int64)

    @property
    def _base(self) -> int:
        return exact_sum.DIGIT * self._low if self.doubles else exact_sum.ONE

    def widen(self, codes: NDArray, valid: NDArray) -> None:
        """Have the digits that these doubles need."""
        low, high = exact_sum.digit_range(codes, valid)
        if low > high:
            return
        before, is_new = self._low, self._low > self._high
        if not is_new:
            low, high = min(low, self._low), max(high, self._high)
        if (low, high) == (self._low, self._high):
            return
        first = exact_sum.DIGITS
        at = first if is_new else first + before - low

        def wider(sums: NDArray) -> NDArray:
            out = np.zeros((len(sums), first + high - low + 4), np.int64)
            out[:, :first] = sums[:, :first]
            out[:, at : at + sums.shape[1] - first] = sums[:, first:]
            return out

        self._totals = wider(self._totals)
        self._marks.change(wider)
        self._low, self._high = low, high

    def add(self, slots: NDArray, codes: NDArray, valid: NDArray, start: int, stop: int, used: int) -> None:
        """Add rows [start, stop), whose digits there are."""
        if len(self._totals) < used:
            self._totals = grown(self._totals, max(used, 2 * len(self._totals)))
        kernels.add_sums(slots, codes, valid, start, stop, self.doubles, self._base, self._totals)

    def mark(self, edge: int, used: int, slots: NDArray | None = None) -> None:
        if len(self._totals) < used:
            self._totals = grown(self._totals, used)
        self._marks.put(edge, self._totals[:used], slots)

    def since(self, edge: int, used: int, as_double: bool) -> tuple[NDArray, NDArray, int]:
        """Sums, how many values they are of, and the first slot whose sum is no int64, -1: there is none."""
        if len(self._totals) < used:
            self._totals = grown(self._totals, used)
        value, counts = np.empty(used, np.int64), np.empty(used, np.int64)
        before = self._marks.at(edge, used)
        bad = kernels.read_sums(
            self._totals[:used], self._totals[:0] if before is None else before, self.doubles, as_double,
            self._base, value, counts,
        )  # fmt: skip
        return value, counts, int(bad)

    def drop(self, edges: Sequence[int]) -> None:
        self._marks.drop(edges)

    def keep(self, slots: NDArray) -> None:
        self._totals = taken(self._totals, slots, 0)
        self._marks.keep(slots)

    def clear(self) -> None:
        self._marks = Marks(0)
        self._totals = self._totals[:0].copy()  # as wide as before: rows that need it may be on the way

    @property
    def nbytes(self) -> int:
        return int(self._totals.nbytes) + self._marks.nbytes

    def _check(self) -> None:
        self._marks._check()

    def check_slots(self, used: int) -> None:
        """Raise Disorder unless all is about slots in use; of what was restored."""
        digits = 1 if self.doubles else 2
        if self.doubles and self._low <= self._high:
            digits = self._high - self._low + 4
            expect(self._low > -64 and self._high < 64, "digits of doubles")
        expect(self._totals.shape[1] == exact_sum.DIGITS + digits, "digits of all sums")
        self._marks.check_slots(used, self._totals.shape[1:])


class Block:
    """Panes one after the other: 2 ** rank of them."""

    __slots__ = ("begin", "from_edges", "rank", "sparse", "total")

    def __init__(self, begin: int, pane: NDArray, slots: NDArray | None) -> None:
        """A pane, which begins at an edge; slots: all that have rows in it, if they are few."""
        self.begin = begin
        self.rank = 0
        self.total = pane
        """The extremes of all its panes."""
        first: Mark = pane if slots is None else Sparse(slots, pane[slots])
        self.from_edges = Marks(NOTHING, True, {begin: first})
        """By the edge a pane begins at, latest first: the extremes from there to the end of the block. Of the
        first, if that is kept whole, the very array of all its panes."""
        self.sparse = 0 if slots is None else len(slots)
        """Slots of edges that are not kept whole, from the first edge to one that is."""

    def append(self, other: Block, raised: Callable[[NDArray, NDArray], NDArray]) -> None:
        """Take the panes right behind in; raised: what is greater, in place of the first if it is as long."""
        first, least, marks = self.total, other.total, self.from_edges.found
        self.total = raised(first, least)
        for edge, one in marks.items():
            if isinstance(one, Sparse):
                marks[edge] = Sparse(one.slots, raised(one.values, taken(least, one.slots, NOTHING)))
            else:
                marks[edge] = self.total if one is first else raised(one, least)
        # The edge between both is the other's total; it becomes whole if it is far from one that is, or gone.
        behind, is_kept = other.from_edges.found, other.begin in other.from_edges.found
        if is_kept and other.sparse > len(least):
            behind[other.begin] = least
            other.sparse = 0
        last = next(iter(marks.values()), None)
        if not is_kept and isinstance(last, Sparse):
            marks[next(iter(marks))] = last.over_whole(least, NOTHING)
            self.sparse -= len(last.slots)
        if self.sparse and all(isinstance(one, Sparse) for one in marks.values()):
            self.sparse += other.sparse
        self.from_edges.put_before(other.from_edges)
        self.rank += 1

    def keep(self, slots: NDArray) -> None:
        """Keep these slots alone, which are numbered anew."""
        self.from_edges.keep(slots)
        self.total = taken(self.total, slots, NOTHING)

    def take_memory(self) -> None:
        """Have arrays that nobody else has, as they are written to; of what was restored."""
        marks, total = self.from_edges.found, self.total
        self.total = total.copy()
        for edge, one in marks.items():
            if isinstance(one, Sparse):
                marks[edge] = Sparse(one.slots, one.values.copy())
            else:
                marks[edge] = self.total if one is total else one.copy()

    @property
    def arrays(self) -> list[NDArray]:
        """All that is kept, each array once."""
        return list({id(one): one for one in (self.total, *self.from_edges.arrays)}.values())

    @property
    def nbytes(self) -> int:
        is_shared = any(one is self.total for one in self.from_edges.found.values())
        return self.from_edges.nbytes + (0 if is_shared else int(self.total.nbytes))


class Extremes:
    """The greatest code per slot, of each pane and from each edge on; `flip` -1: the least."""

    _owned: ClassVar[tuple[str, ...]] = ("pane",)

    def __init__(self, doubles: bool, smallest: bool) -> None:
        self.doubles = doubles
        self.flip = -1 if smallest else 0
        self.pane = np.full(0, NOTHING, np.int64)
        """Of the pane that is open."""
        self._blocks: list[Block] = []
        self._behind: list[NDArray] | None = None
        """Per block the extremes of all behind it."""

    def reserve(self, slots: int) -> None:
        if len(self.pane) < slots:
            longer = np.full(max(slots, 2 * len(self.pane)), NOTHING, np.int64)
            longer[: len(self.pane)] = self.pane
            self.pane = longer

    def add(self, slots: NDArray, values: NDArray, valid: NDArray, start: int, stop: int, used: int) -> None:
        """Take rows [start, stop) into the open pane; values: bits of doubles, or whole numbers."""
        self.reserve(used)
        kernels.raise_extremes(slots, values, valid, start, stop, self.flip, self.doubles, self.pane)

    def mark(self, begin: int, used: int, slots: NDArray | None = None) -> None:
        """The open pane ends; it began at the edge `begin`. slots: all that have rows in it, if few."""
        self.reserve(used)
        total = self.pane[:used].copy()
        self.pane[:used] = NOTHING
        self._blocks.append(Block(begin, total, slots))
        while len(self._blocks) > 1 and self._blocks[-1].rank == self._blocks[-2].rank:
            last = self._blocks.pop()
            self._blocks[-1].append(last, self._raised)
        self._behind = None

    def since(self, edge: int, used: int) -> tuple[NDArray, bool]:
        """Codes by slot of all panes that have ended since an edge, NOTHING where there is none; whether all
        values since then are known, or some came before anybody asked for them."""
        behind = self._totals_behind()
        for at in range(len(self._blocks) - 1, -1, -1):
            found = self._blocks[at].from_edges.new_at(edge, used)
            if found is not None:
                return self._raised(found, behind[at]), True
        known = bool(self._blocks) and next(reversed(self._blocks[0].from_edges.found), edge) <= edge
        if known or not self._blocks:
            return np.full(used, NOTHING, np.int64), bool(self._blocks)
        return self._fitted(self._blocks[0].total, behind[0], used), False

    def _totals_behind(self) -> list[NDArray]:
        if self._behind is None:
            behind = [np.full(0, NOTHING, np.int64)]
            for block in reversed(self._blocks[1:]):
                behind.append(self._raised(block.total.copy(), behind[-1]))
            self._behind = behind[::-1]
        return self._behind

    def _fitted(self, array: NDArray, least: NDArray, used: int) -> NDArray:
        """A new array for the slots in use, of the greater of both."""
        out = np.full(used, NOTHING, np.int64)
        out[: len(array)] = array
        return self._raised(out, least)

    def _raised(self, array: NDArray, least: NDArray) -> NDArray:
        """The array, no less than `least` anywhere; in place if it is as long."""
        if len(array) < len(least):
            longer = least.copy()
            self._raise(longer[: len(array)], array)
            return longer
        self._raise(array[: len(least)], least)
        return array

    def _raise(self, array: NDArray, least: NDArray) -> None:
        """Both are as long."""
        np.maximum(array, least, out=array)

    def drop(self, edges: Sequence[int]) -> None:
        for block in self._blocks:
            block.from_edges.drop(edges)
        while self._blocks and not self._blocks[0].from_edges.found:
            del self._blocks[0]
        self._behind = None

    def keep(self, slots: NDArray) -> None:
        self.pane = taken(self.pane, slots, NOTHING)
        for block in self._blocks:
            block.keep(slots)
        self._behind = None

    def clear(self) -> None:
        self.pane = np.full(0, NOTHING, np.int64)
        self._blocks, self._behind = [], None

    @property
    def nbytes(self) -> int:
        return int(self.pane.nbytes) + sum(block.nbytes for block in self._blocks)

    def _check(self) -> None:
        for block in self._blocks:
            block.from_edges._check()
            edges = list(block.from_edges.found)
            assert edges == sorted(edges, reverse=True), "edges out of order"

    def check_slots(self, used: int) -> None:
        """Raise Disorder unless all is about slots in use; of what was restored."""
        self._behind = None
        for block in self._blocks:
            expect(len(block.total) <= used and block.total.ndim == 1, "extremes of slots in use")
            block.from_edges.check_slots(used, ())
            block.take_memory()
            rising(-np.array(list(block.from_edges.found), np.int64), "edges, latest first,")


class TextExtremes(Extremes):
    """The same of texts: by slot the place of the greatest among those that are kept."""

    _owned: ClassVar[tuple[str, ...]] = ("pane",)

    def __init__(self, texts: PaneTexts, smallest: bool) -> None:
        super().__init__(False, False)
        self._texts = texts
        self._smallest = smallest

    def add(self, slots: NDArray, values: NDArray, valid: NDArray, start: int, stop: int, used: int) -> None:
        """Take rows [start, stop) into the open pane; values: the places of their texts."""
        self.reserve(used)
        kernels.raise_texts(
            slots, values, valid, start, stop, self._smallest, self._texts.buffers, self.pane
        )  # fmt: skip

    def _raise(self, array: NDArray, least: NDArray) -> None:
        kernels.join_texts(array, least, self._smallest, self._texts.buffers)

    @property
    def places(self) -> list[NDArray]:
        """All arrays of places; texts may move, so they may be written to."""
        self._behind = None
        return [self.pane, *(one for block in self._blocks for one in block.arrays)]

    def check_slots(self, used: int) -> None:
        super().check_slots(used)
        for places in self.places:
            within(places[places != NOTHING], 0, self._texts.count, "texts that are kept")
