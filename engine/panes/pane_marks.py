"""What an array by slot was at each of many edges, kept whole or only where it differs from its neighbour.

In: at an edge, an array by slot, and the slots at which it differs from the one before (None: many).
Out: the array of any edge.  Kept: per edge the whole array, or those slots and their values alone.  Dropped:
edges nobody asks for any more; what the one behind needs of them moves there.

    edge          10                 20           30           40
    kept          [3 5 2 0 7 1]      2: 4         0: 5, 4: 8   [5 5 4 2 8 9]
    at 30         [5 5 4 0 8 1]      the whole array of 10, with what differs at 20 and at 30

So what is kept is bounded by the slots times the edges, and by the slots that rows were added to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, within


def taken(array: NDArray, slots: NDArray, fill: int) -> NDArray:
    """The array at these slots; `fill` where it is too short."""
    out = np.full((len(slots), *array.shape[1:]), fill, np.int64)
    known = slots < len(array)
    out[known] = array[slots[known]]
    return out


class Sparse:
    """Values at some slots, in order; elsewhere they are those of the mark before."""

    __slots__ = ("slots", "values")

    def __init__(self, slots: NDArray, values: NDArray) -> None:
        self.slots = slots
        self.values = values

    def over(self, before: Sparse) -> Sparse:
        """This one and what it leaves of another."""
        slots, first = np.unique(np.concatenate([self.slots, before.slots]), return_index=True)
        return Sparse(slots, np.concatenate([self.values, before.values])[first])

    def over_whole(self, whole: NDArray, fill: int) -> NDArray:
        """A new array, which has another's values elsewhere, and `fill` behind its end."""
        size = max(len(whole), int(self.slots[-1]) + 1 if len(self.slots) else 0)
        out = np.full((size, *whole.shape[1:]), fill, np.int64)
        out[: len(whole)] = whole
        out[self.slots] = self.values
        return out

    def _check_restored(self) -> None:
        expect(len(self.slots) == len(self.values), "a value for each slot")
        expect(self.slots.dtype == np.int32 and bool((np.diff(self.slots) > 0).all()), "slots in order")
        within(self.slots, 0, 1 << 31, "slots")


Mark = NDArray | Sparse


class Marks:
    """Marks one after the other.

    fill: what an array has behind its end, and before the first mark; is_shared: whether others have the
    whole arrays too, so that they are not written to.
    """

    def __init__(self, fill: int, is_shared: bool = False, found: dict[int, Mark] | None = None) -> None:
        self._fill = fill
        self._is_shared = is_shared
        self.found: dict[int, Mark] = found or {}
        """By edge, each behind the one it differs from."""
        self.has_sparse = any(isinstance(mark, Sparse) for mark in self.found.values())
        """Whether some may not be kept whole."""

    def put(self, edge: int, array: NDArray, slots: NDArray | None) -> None:
        """The array is this at an edge; slots: all at which it differs from the last one put."""
        if slots is None or not self.found:
            self.found[edge] = array.copy()
        else:
            self.found[edge] = Sparse(slots, array[slots])
            self.has_sparse = True

    def put_before(self, other: Marks) -> None:
        """The marks of another come before all that are there."""
        self.found = other.found | self.found
        self.has_sparse |= other.has_sparse

    def at(self, edge: int, used: int) -> NDArray | None:
        """The array at an edge, of as many slots as are in use or fewer; not to be written to. None: there is
        no such mark."""
        mark = self.found.get(edge)
        return self.new_at(edge, used) if isinstance(mark, Sparse) else mark

    def new_at(self, edge: int, used: int) -> NDArray | None:
        """A new array of all slots in use, as at an edge; None: there is no such mark."""
        mark = self.found.get(edge)
        if mark is None:
            return None
        after: list[Sparse] = []
        if isinstance(mark, Sparse):
            edges = list(self.found)
            at = edges.index(edge)
            while isinstance(mark, Sparse):
                after.append(mark)
                at -= 1
                mark = self.found[edges[at]] if at >= 0 else np.empty((0, *mark.values.shape[1:]), np.int64)
        out = np.empty((used, *mark.shape[1:]), np.int64)
        out[: len(mark)] = mark
        out[len(mark) :] = self._fill
        for one in reversed(after):
            out[one.slots] = one.values
        return out

    def drop(self, edges: Sequence[int]) -> None:
        """Forget these edges."""
        if not self.has_sparse:
            for edge in edges:
                self.found.pop(edge, None)
            return
        gone = set(edges)
        if gone.isdisjoint(self.found):
            return
        kept: dict[int, Mark] = {}
        waiting: Mark | None = None
        for edge, mark in self.found.items():
            one = mark if waiting is None else self._behind(waiting, mark)
            waiting = one if edge in gone else None
            if edge not in gone:
                kept[edge] = one
        self.found = kept
        self.has_sparse = any(isinstance(mark, Sparse) for mark in kept.values())

    def _behind(self, gone: Mark, mark: Mark) -> Mark:
        """A mark that does without the one before, which goes."""
        if not isinstance(mark, Sparse):
            return mark
        if isinstance(gone, Sparse):
            return mark.over(gone)
        if self._is_shared or (len(mark.slots) and mark.slots[-1] >= len(gone)):
            return mark.over_whole(gone, self._fill)
        gone[mark.slots] = mark.values
        return gone

    def keep(self, slots: NDArray) -> None:
        """Keep these slots alone, which are sorted and numbered anew."""
        for edge, mark in self.found.items():
            if not isinstance(mark, Sparse):
                self.found[edge] = taken(mark, slots, self._fill)
                continue
            places = np.minimum(slots.searchsorted(mark.slots), max(len(slots) - 1, 0))
            is_kept = slots[places] == mark.slots if len(slots) else np.zeros(len(places), bool)
            self.found[edge] = Sparse(places[is_kept].astype(np.int32), mark.values[is_kept])

    def change(self, changed: Callable[[NDArray], NDArray]) -> None:
        """Let all values be others."""
        for edge, mark in self.found.items():
            if isinstance(mark, Sparse):
                self.found[edge] = Sparse(mark.slots, changed(mark.values))
            else:
                self.found[edge] = changed(mark)

    @property
    def arrays(self) -> list[NDArray]:
        """All that is kept of values."""
        return [one.values if isinstance(one, Sparse) else one for one in self.found.values()]

    @property
    def nbytes(self) -> int:
        sparse = sum(int(one.slots.nbytes) for one in self.found.values() if isinstance(one, Sparse))
        return sparse + sum(int(one.nbytes) for one in self.arrays)

    def _check(self) -> None:
        for mark in self.found.values():
            if isinstance(mark, Sparse):
                assert len(mark.slots) == len(mark.values), "a slot without its value"
                assert bool((np.diff(mark.slots) > 0).all()), "slots out of order"

    def check_slots(self, used: int, width: tuple[int, ...]) -> None:
        """Raise Disorder unless all is about slots in use and has this width; of what was restored."""
        for mark in self.found.values():
            values = mark.values if isinstance(mark, Sparse) else mark
            expect(values.dtype == np.int64 and values.shape[1:] == width, "values as they are now")
            expect(len(values) <= used, "values of slots in use")
            if isinstance(mark, Sparse):
                expect(self.has_sparse, "whole marks")
                within(mark.slots, 0, used, "slots in use")
