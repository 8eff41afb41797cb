"""Columns that lie on several shelves, read by references to their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK, gather_shelf
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.store import FixedView, TextView


class ShelvesView:
    """A column that lies on several shelves, by references."""

    __slots__ = ("_type", "is_fixed", "views")

    def __init__(self, views: Sequence[FixedView | TextView], type_: pa.DataType) -> None:
        self.views = views
        self._type = type_
        self.is_fixed = len(views) > 0 and all(isinstance(view, FixedView) for view in views)

    def take(self, rows: NDArray) -> pa.Array:
        if self.is_fixed:
            return gather_fixed(cast("Sequence[FixedView]", self.views), rows)
        # Text: from each shelf what it has, and that put into order.
        shelf_of = rows >> ROW_BITS
        order = np.argsort(shelf_of, kind="stable")
        cuts = shelf_of[order].searchsorted(np.arange(len(self.views) + 1)).tolist()
        parts = [
            view.take(rows[order[start:stop]] & ROW_MASK)
            for view, start, stop in zip(self.views, cuts[:-1], cuts[1:], strict=True)
            if stop > start
        ]
        if not parts:
            return pa.nulls(0, self._type)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(places))

    def text_bytes(self, rows: NDArray) -> int:
        if self.is_fixed:
            return 0
        shelf_of = rows >> ROW_BITS
        return sum(
            self.views[number].text_bytes(rows[shelf_of == number] & ROW_MASK)
            for number in np.unique(shelf_of).tolist()
        )

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows >> ROW_BITS, 0, len(self.views), "shelves")
        expect(
            self.is_fixed == (len(self.views) > 0 and all(isinstance(one, FixedView) for one in self.views)),
            "views",
        )
        for number in np.unique(rows >> ROW_BITS).tolist():
            self.views[number].check_rows(rows[rows >> ROW_BITS == number] & ROW_MASK)


Stored = FixedView | TextView | ShelvesView
"""A stored column at one moment, of one shelf or of several."""


def gather_fixed(views: Sequence[FixedView], refs: NDArray) -> pa.Array:
    """Values of a fixed-width column that lies on several shelves."""
    # Of many queries each has a few rows, and most shelves none of them.
    numbers = np.unique(refs >> ROW_BITS).tolist() if len(refs) < len(views) else range(len(views))
    read = [(number, views[number]) for number in numbers]
    values = np.empty(len(refs), views[0].data.dtype)
    valid = np.ones(len(refs), np.uint8) if any(view.valid is not None for _, view in read) else None
    for number, view in read:
        gather_shelf(refs, number, view.data, view.base, values)
        if valid is not None and view.valid is not None:
            gather_shelf(refs, number, *view.valid, valid)
    return views[0].array(values, valid)
