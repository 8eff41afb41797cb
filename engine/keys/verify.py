"""Keys found equal by hash, compared as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows.keys import keep_equal, keep_equal_text
from penstock.engine.rows.store import FixedColumn, Store, TextColumn


def equal_keys(stores: tuple[Store, Store], rows: tuple[NDArray, NDArray], columns: int) -> NDArray:
    """Whether pairs of rows (numbers in the left and in the right store) agree in their first columns.

    Returns one byte per pair.
    """
    left, right = rows
    keep = np.ones(len(left), np.uint8)
    for slot in range(columns):
        a, b = (store.columns[slot] for store in stores)
        if isinstance(a, TextColumn) and isinstance(b, TextColumn):
            keep_equal_texts((a, b), rows, keep)
        else:
            assert isinstance(a, FixedColumn) and isinstance(b, FixedColumn), "keys of two kinds"
            keep_equal(a.values.data, a.values.base, left, b.values.data, b.values.base, right, keep)
    return keep


def keep_equal_texts(
    columns: tuple[TextColumn, TextColumn], rows: tuple[NDArray, NDArray], keep: NDArray
) -> None:
    """Clear the byte of each pair of rows whose texts differ."""
    (a, b), (left, right) = columns, rows
    keep_equal_text(
        a.starts.data, a.starts.base, a.data.data, a.data.base, left,
        b.starts.data, b.starts.base, b.data.data, b.data.base, right, keep,
    )  # fmt: skip
