"""No index at all: the live keys in order of arrival, compared one by one.

Serves every condition, costs nothing to keep, and wins where windows are small or inserts far outnumber
probes. State: the live keys.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.indexes.scan import run_scan
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.buffer import RowBuffer

from .index import Probes


class ScanIndex:
    """Rows in order of arrival, for any range of keys."""

    kind: ClassVar[str] = "scan"

    def __init__(self, first_row: int = 0) -> None:
        self._keys = RowBuffer("int64", first_row)

    def extend(self, keys: NDArray) -> None:
        self._keys.append(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        probes.check(self._keys.tail, self._keys.end, self._keys.tail)
        found = run_scan(
            self._keys.data, self._keys.base, probes.key_low, probes.key_high, probes.row_from,
            probes.row_until, probes.cursor, out_prober, out_row, counting,
        )  # fmt: skip
        return int(found)

    def purge(self, row: int) -> None:
        self._keys.drop(row)

    @property
    def keys(self) -> NDArray:
        return self._keys.live

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes

    def _check(self) -> None:
        self._keys._check()

    def _check_restored(self) -> None:
        expect(self._keys.data.dtype == np.int64, "keys")
