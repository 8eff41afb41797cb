"""What it costs to try queries for a pair of rows with two ages, in time and by place (kinds_cost.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.members.query_index import QueryIndex
from penstock.engine.rows.window import FOREVER

PAIRS = 4_096  # counted at once
FEW, MANY = 4, 16  # queries, of which each is tried


def beside_time(runs: int, clock: Callable[[], float]) -> float:
    """Seconds by which counting a pair takes longer for each query more."""
    ages, *leaves = np.random.default_rng(1).integers(0, MANY, (3, PAIRS))
    few, many = (
        min(count_time(queries, ages, leaves, clock) for _ in range(8 * runs)) for queries in (FEW, MANY)
    )
    return max(many - few, 1e-9) / ((MANY - FEW) * PAIRS)


def count_time(queries: int, ages: NDArray, leaves: Sequence[NDArray], clock: Callable[[], float]) -> float:
    """Seconds to count pairs for queries of which half ask for an age in time, half for one by place."""
    half = queries // 2
    windows = np.concatenate([np.arange(1, half + 1) * MANY // half, np.full(half, FOREVER)])
    last = np.concatenate([np.full(half, MANY - 1), np.arange(1, half + 1) * MANY // half - 1])
    high = np.stack([last, last], axis=1).astype(np.int32)
    index = QueryIndex(
        np.stack([windows, windows]), np.zeros_like(high), high, np.empty((queries, 0), np.int64),
        [MANY, MANY], [0, 1], [],
    )  # fmt: skip
    tags = np.stack(leaves).astype(np.int32), np.empty((0, PAIRS), np.int64)
    index.count(0, ages, None, *tags)  # members are filed when the first pair is asked about
    began = clock()
    index.count(0, ages, None, *tags)
    return clock() - began
