"""Which rows have left windows of which sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.coverage import last_dropped

SIZES = np.array([1, 4, 5, 9, FOREVER])


@pytest.mark.parametrize(
    ("end", "first_ts", "by_rows", "expected"),
    [
        (5, 0, True, [3, 0, BEGINNING, BEGINNING, BEGINNING]),
        (0, None, True, [BEGINNING] * 5),
        (5, 16, False, [19, 16, BEGINNING, BEGINNING, BEGINNING]),
        (0, None, False, [BEGINNING] * 5),
    ],
)
def test_the_last_row_that_has_left(
    end: int, first_ts: int | None, by_rows: bool, expected: list[int]
) -> None:
    """Of five rows, by place, or at 20 of rows since 16; no row has left a window that was never full."""
    side: Any = SimpleNamespace(arrival=SimpleNamespace(end=end), seen=SimpleNamespace(first_ts=first_ts))
    assert last_dropped(side, SIZES, by_rows, 20).tolist() == expected
