"""What indexes cost as a function of how many rows they hold, for many of them at once."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .cost import ACCESSES, OURS, Accesses
from .weights import Weights

GRID_ROWS = np.concatenate(([0.0], 2 ** np.arange(0, 60.25, 0.25)))  # sizes of index to know the accesses of


@cache
def accesses_by_rows(kind: str) -> tuple[NDArray, NDArray, Accesses]:
    """Accesses of a fruitless probe and of an update at GRID_ROWS, and what a match adds to a probe."""
    none = [ACCESSES[kind](rows, 0.0, OURS) for rows in GRID_ROWS.tolist()]
    match = ACCESSES[kind](1.0, 1.0, OURS)
    more = Accesses(match.search - none[1].search, 0.0, match.walk - none[1].walk)
    return np.array([a.search for a in none]), np.array([a.update for a in none]), more


def direction_costs(
    kind: str,
    probe_rate: float | NDArray,
    insert_rate: float | NDArray,
    rows: float | NDArray,
    matches: float | NDArray,
    weights: Weights,
) -> NDArray:
    """direction_cost of cost.py over arrays; trees grow by degrees, over a quarter of an octave of rows."""
    searches, updates, match = accesses_by_rows(kind)
    search, update = weights.of(kind)
    rows = np.asarray(rows, np.float64)
    probe = np.interp(rows, GRID_ROWS, searches) * search
    probe = probe + matches * (match.search * search + match.walk * weights.walk(kind))
    return np.asarray(probe_rate * probe + insert_rate * np.interp(rows, GRID_ROWS, updates) * update)


def fixed_cost(kind: str, weights: Weights) -> float:
    """Seconds of a probe that meets nothing."""
    return float(direction_costs(kind, 1.0, 0.0, 0.0, 0.0, weights))
