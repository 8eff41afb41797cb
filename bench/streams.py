"""Inputs of the benches: Poisson streams of rows (ts, key, value), the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

VALUES = 1_000  # values are whole numbers below this: their sums are exact


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows as arrays: ts (int64, microseconds, in order), key (int64), value (float64)."""

    ts: NDArray
    key: NDArray
    value: NDArray

    @property
    def table(self) -> pa.Table:
        """The rows as a user would push them."""
        return pa.table({"ts": pa.array(self.ts, pa.timestamp("us")), "key": self.key, "value": self.value})

    def head(self, rows: int) -> Stream:
        return Stream(self.ts[:rows], self.key[:rows], self.value[:rows])

    def __len__(self) -> int:
        return len(self.ts)


def poisson_stream(rows: int, rows_per_s: float, keys: int, seed: int) -> Stream:
    """Rows that come at random, `rows_per_s` on average, with keys drawn from `keys` many."""
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.exponential(1e6 / rows_per_s, rows)).astype(np.int64)
    return Stream(ts, rng.integers(0, keys, rows), rng.integers(0, VALUES, rows).astype(np.float64))


def cut_by_rows(rows: int, size: int) -> list[tuple[int, int]]:
    """[start, stop) of slices of `size` rows."""
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def cut_by_time(ts: NDArray, step_us: int, until: int) -> list[tuple[int, int]]:
    """[start, stop) of the rows of each step of time up to `until`, empty ones too."""
    ends = np.searchsorted(ts, np.arange(step_us, until + step_us, step_us))
    return [(int(start), int(stop)) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
