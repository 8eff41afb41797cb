"""One input of an outer, semi or anti join on keys that grow: it also knows which of its rows have met one.

In, Kept, Dropped: as of a side of any such join (ordered_side.py); and of each row a byte, whether it has met
a partner, or has been given as one that never will.
Law: where rows are given without a partner, one that is not marked has a key that the other stream's frontier
has not passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.plan.plan import SideNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.types import SqlType

from .frontiers import Frontiers
from .ordered_side import Examined, OrderedSide


class FinalSide(OrderedSide):
    """See the module's text."""

    def __init__(
        self,
        number: int,
        node: SideNode,
        types: Sequence[SqlType],
        reader: KeyReader,
        frontiers: Frontiers,
        by_key: bool,
    ) -> None:
        super().__init__(number, node, types, reader, frontiers, by_key)
        self._settled = RowBuffer("uint8")

    def arrive(self, examined: Examined | None, kept: NDArray, numbers: NDArray) -> None:
        super().arrive(examined, kept, numbers)
        self._settled.append(np.zeros(self.end - self.first_row, np.uint8))

    def settle(self, rows: NDArray) -> None:
        """These rows have met a partner, or have been given as rows without one."""
        self._settled.data[rows - self._settled.base] = 1

    def unsettled(self, rows: NDArray) -> NDArray:
        """Which of these rows have not, as truths."""
        found: NDArray = self._settled.data[rows - self._settled.base] == 0
        return found

    def without_partner(self, frontier: int | None, first: int) -> NDArray:
        """Rows from `first` on that are not settled and have a key below a frontier; None: with any key."""
        waits = self._settled.run(first, self.end) == 0
        if frontier is not None:
            waits &= self.codes.run(first, self.end) < frontier
        return first + np.flatnonzero(waits)

    def codes_of(self, rows: NDArray) -> NDArray:
        """Of the key that grows, of these rows."""
        return self.codes_at(0, rows)

    def _drop(self, row: int) -> None:
        super()._drop(row)
        self._settled.drop(row)

    def _lay_anew(self, rows: NDArray) -> None:
        settled = self._settled.data[rows - self._settled.base]
        super()._lay_anew(rows)
        self._settled = RowBuffer("uint8", self.tail)
        self._settled.append(settled)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._settled.nbytes

    def _check(self) -> None:
        super()._check()
        assert (self._settled.tail, self._settled.end) == (self.tail, self.end), "a mark for each row"

    def _check_restored(self) -> None:
        super()._check_restored()
        expect((self._settled.tail, self._settled.end) == (self.tail, self.end), "a mark for each row")
        expect(self._settled.data.dtype == np.uint8, "marks of rows")
