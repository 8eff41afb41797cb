"""Rows that nobody looks up: no index, and no keys. For rows that are kept and only ever read in order."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import FAR, expect

from .index import Probes


class NoIndex:
    """Knows how many rows there are."""

    kind: ClassVar[str] = "none"

    def __init__(self, first_row: int = 0) -> None:
        self._tail = self._end = first_row

    def extend(self, keys: NDArray) -> None:
        self._end += len(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        raise AssertionError("rows without an index are not looked up")

    def purge(self, row: int) -> None:
        self._tail = min(max(self._tail, row), self._end)

    @property
    def keys(self) -> NDArray:
        return np.zeros(self._end - self._tail, np.int64)

    @property
    def nbytes(self) -> int:
        return 0

    def _check(self) -> None:
        assert self._tail <= self._end, "fewer than no rows"

    def _check_restored(self) -> None:
        expect(0 <= self._tail <= self._end < FAR and self._end - self._tail < 1 << 40, "rows with numbers")
