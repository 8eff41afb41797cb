"""What results that wait to be read keep alive, of all queries together.

They are row numbers, which hold the arrays that the rows were in when they were found (see buffer.py).

    array is stored    it costs nothing: the store has it anyway, and more results may come to hold it
    array is left      the store has moved on or is gone: the array lives for these results alone

An array that is left is worth keeping while the copies of all results that hold it would take at least half
as much: then they wait, and nothing is copied for those that nobody reads. Else all of these results are
copied, which takes less than it sets free. So results keep alive at most twice what their copies would take,
and MOST_HELD. What the copies of a batch take is shared out among the arrays that it holds, by their size;
what an array has of it, as a part of its size, is its worth.

That is looked at when all that was pushed is worked off: before, some queries have been given what others
are about to get.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from .batch import Batch
from .store import Viewed
from .view_memory import copied_bytes, memory_of

MOST_HELD = 1 << 17  # bytes that results which nobody reads may keep alive in any case
ENOUGH = 0.5


class HeldArray:
    """An array, and the results that hold it."""

    __slots__ = ("is_left", "viewed", "waiting", "worth")

    def __init__(self, viewed: Viewed) -> None:
        self.viewed = viewed
        self.waiting: set[WaitingRows] = set()
        self.worth = 0.0
        self.is_left = False

    @property
    def nbytes(self) -> int:
        return int(self.viewed.array.nbytes)

    @property
    def is_poor(self) -> bool:
        return self.is_left and self.worth < ENOUGH


class WaitingRows:
    """A batch of results: as row numbers, then copied."""

    __slots__ = ("_finish", "held", "rows", "worth")

    def __init__(self, batch: Batch, finish: Callable[[Batch], pa.RecordBatch]) -> None:
        self.rows: Batch | pa.RecordBatch = batch
        self._finish = finish
        self.held: Collection[HeldArray] = ()
        self.worth = 0.0
        """What it adds to that of each array that it holds."""

    def copy(self) -> None:
        if isinstance(self.rows, Batch):
            self.rows = self._finish(self.rows)

    @property
    def held_bytes(self) -> float:
        """Its share of what is kept alive for results alone."""
        return sum(one.nbytes * self.worth / one.worth for one in self.held if one.is_left)


class HeldMemory:
    """Arrays that are held by results, by their id."""

    def __init__(self) -> None:
        self._stored: dict[int, HeldArray] = {}
        self._left: dict[int, HeldArray] = {}
        self._poor: dict[int, HeldArray] = {}
        """Those of `_left` that were not worth keeping when that was last looked at, and maybe others."""

    def add(self, waiting: WaitingRows) -> bool:
        """Let results wait; False if they hold nothing that is known to stay as it is."""
        assert isinstance(waiting.rows, Batch), "copied already"
        memory = memory_of(waiting.rows)
        if not memory:
            return False
        waiting.worth = copied_bytes(waiting.rows) / sum(one.array.nbytes for one in memory.values())
        found = []
        for key, viewed in memory.items():
            held = self._left.get(key) or self._stored.get(key)
            if held is None:
                held = self._stored[key] = HeldArray(viewed)
            held.waiting.add(waiting)
            held.worth += waiting.worth
            found.append(held)
        waiting.held = found
        return True

    def forget(self, waiting: WaitingRows) -> None:
        """Results are read, or copied, or of no concern any more."""
        for held in waiting.held:
            key = id(held.viewed.array)
            held.waiting.discard(waiting)
            held.worth -= waiting.worth
            if not held.waiting:
                for arrays in (self._stored, self._left, self._poor):
                    arrays.pop(key, None)
            elif held.is_poor:
                self._poor[key] = held
        waiting.held = ()

    def look(self) -> None:
        """All that was pushed is worked off: copy what is not worth the memory that it keeps alive."""
        for key in [key for key, held in self._stored.items() if not held.viewed.is_stored]:
            held = self._left[key] = self._stored.pop(key)
            held.is_left = True
            if held.is_poor:
                self._poor[key] = held
        while sum(held.nbytes for held in self._poor.values() if held.is_poor) > MOST_HELD:
            poor, self._poor = self._poor, {}
            for held in poor.values():
                for waiting in list(held.waiting) if held.is_poor else ():
                    waiting.copy()
                    self.forget(waiting)

    @property
    def nbytes(self) -> int:
        """Of arrays that are kept alive for results alone."""
        return sum(held.nbytes for held in self._left.values())

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint copies of all results are a part, which hold nothing."""
        return HeldMemory().__dict__

    def _check(self) -> None:
        assert not self._stored.keys() & self._left.keys(), "an array both stored and left"
        for key, held in [*self._stored.items(), *self._left.items()]:
            assert key == id(held.viewed.array), "an array under the name of another"
            assert held.waiting and all(held in one.held for one in held.waiting), "held by nobody"
            assert abs(held.worth - sum(one.worth for one in held.waiting)) < 1e-6 * (1 + held.worth), "worth"
        poor = {key for key, held in self._left.items() if held.is_poor}
        assert poor <= self._poor.keys() <= self._left.keys(), "poor arrays overlooked"
