"""What a window join asks of an index: one direction of the join, run over a batch in arrival order.

The direction A -> B concerns only the structure on B: rows of B are inserted, rows of A probe, expired rows
of B are dropped. Who comes before whom and who is still alive is settled beforehand, in row numbers: prober
i sees the rows of the other side in [row_from[i], row_until[i]), both non-decreasing in i. So an index knows
nothing of time, of windows or of the other direction, and each direction can have an index of its own.

    for each prober i:   insert rows up to row_until[i]   drop rows below row_from[i]
                         emit rows with key_low[i] <= key <= key_high[i]

Who finds the output full stops there; the cursor remembers where, and the next call goes on.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.cursor import CURSOR_SLOTS, DONE, PROBER, RESUME
from penstock.engine.restoring.in_order import FAR, expect, rising, within


class Probes:
    """The work of one direction for one batch: who probes for what, and how far the work has come.

    key_low, key_high    int64, inclusive range of keys sought; low > high seeks nothing
    row_from, row_until  int64, the rows of the probed side that the prober sees
    end                  rows of the probed side below this are to be inserted when all is done
    """

    _owned: ClassVar[tuple[str, ...]] = ("cursor",)

    __slots__ = ("cursor", "end", "key_high", "key_low", "one_by_one", "row_from", "row_until")

    def __init__(
        self,
        key_low: NDArray,
        key_high: NDArray,
        row_from: NDArray,
        row_until: NDArray,
        end: int,
    ) -> None:
        self.key_low = key_low
        self.key_high = key_high
        self.row_from = row_from
        self.row_until = row_until
        self.end = end
        self.cursor = np.zeros(CURSOR_SLOTS, np.int64)
        self.one_by_one = False
        """Whether an index that can serve many probers at once has found that not worth it."""

    @property
    def done(self) -> bool:
        return bool(self.cursor[DONE])

    def walk_alone(self) -> None:
        """They have many matches each: serving many probers at once does not pay any more."""
        self.one_by_one = True

    def check(self, tail: int, end: int, inserted: int) -> None:
        """Assert that the probers see no row that is gone, not there yet, or to be hidden again: kernels read
        by row number and check nothing.

        Keys are there of the rows [tail, end). Rows below `inserted` are in the index, so the first prober
        must be allowed to see all of them.
        """
        assert len(self.row_from) == len(self.key_low), "where each prober begins"
        assert self.end <= end, f"expected keys of rows below {self.end}, found {end}"
        if len(self.key_low):
            oldest, newest = int(self.row_from.min()), int(self.row_until[-1])
            assert oldest >= tail, f"expected rows from {oldest} on, found those below {tail} purged"
            assert newest <= end, f"expected keys of rows below {newest}, found {end}"
            if not (self.cursor[PROBER] or self.cursor[RESUME] or self.one_by_one):
                first = int(self.row_until[0])
                assert first >= inserted, f"expected a prober of rows below {inserted}, found {first}"

    def _check_restored(self) -> None:
        expect(len(self.cursor) == CURSOR_SLOTS, "a cursor")
        expect(len(self.key_low) == len(self.key_high), "a range of keys for each prober")
        expect(len(self.row_from) == len(self.row_until) == len(self.key_low), "rows for each prober")
        rising(self.row_until, "rows that probers see")
        within(self.cursor, 0, FAR, "where to go on")
        expect(int(self.cursor[PROBER]) <= len(self.key_low), "a prober that there is")


class Index(Protocol):
    """Live rows of one side of a join by key."""

    kind: ClassVar[str]

    def extend(self, keys: NDArray) -> None:
        """Take the keys of the rows that come next; `run` inserts them when their turn has come."""

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        """Serve probers until all are served or there is no room for the next; how many pairs were found.

        That is none only if all are served.

        Pairs go into out_prober (position of the prober) and out_row (row number), same length, at least 1.
        When counting, nothing is written and the output is never full.
        """

    def purge(self, row: int) -> None:
        """No later prober sees rows below `row`."""

    @property
    def keys(self) -> NDArray:
        """Keys of the live rows, oldest first."""

    @property
    def nbytes(self) -> int:
        """Bytes held, keys and structure."""

    def _check(self) -> None: ...
