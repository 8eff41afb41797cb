"""A stored column in which some rows are missing: what an outer join gives for the side without a partner."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.rows.batch import View


class OuterView:
    """Row -1 is NULL."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def take(self, rows: NDArray) -> pa.Array:
        there = rows >= 0
        if there.all():
            return self._view.take(rows)
        values = self._view.take(rows[there])
        return values.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def text_bytes(self, rows: NDArray) -> int:
        return self._view.text_bytes(rows[rows >= 0])

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        self._view.check_rows(rows[rows >= 0])
