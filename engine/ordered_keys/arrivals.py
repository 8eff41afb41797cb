"""The next rows of all sides of a join without windows, in the order in which they come.

A row's place is how many rows of any side come before it. Of rows with one ts in one batch, those of the last
side come first. What all frontiers were before a row says what had gone by then, so that it does not matter
how rows are cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.ordered_keys.order_arrivals import order_arrivals

from .ordered_side import Examined, OrderedSide


@dataclass(slots=True)
class SideArrivals:
    """Rows of one side that take part, by row: place, key, below which keys rows of this side had gone, and
    of some other side. And the places of those that lack a key."""

    places: NDArray
    codes: NDArray
    ts: NDArray
    floors: NDArray
    limits: NDArray
    lowest: NDArray
    second: NDArray
    behind: NDArray
    keyless: NDArray

    def floors_of(self, side: int, positions: NDArray) -> NDArray:
        """Below which keys rows of a side had gone when these rows came."""
        is_behind = self.behind[positions] == side
        return np.where(is_behind, self.second[positions], self.lowest[positions])


@dataclass(slots=True)
class Arrivals:
    """By side; and of all rows, in order of their places: time, side, frontier and factor after it."""

    sides: list[SideArrivals]
    ts: NDArray
    owners: NDArray
    frontiers: NDArray
    factors: NDArray
    before: NDArray
    """Frontiers before all of them."""
    now: NDArray
    """And after."""


def line_up(sides: Sequence[OrderedSide], examined: Sequence[Examined | None]) -> Arrivals:
    """What comes, of batches of all sides."""
    rows = [0 if one is None else one.batch.length for one in examined]
    starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    before = np.array([side.reader.now for side in sides], np.int64)
    read = [side.reader.read(count) for side, count in zip(sides, rows, strict=True)]
    frontiers, factors = (np.concatenate(values) for values in zip(*read, strict=True))
    ts = np.concatenate([np.empty(0, np.int64), *(one.batch.ts for one in examined if one is not None)])
    now = before.copy()
    lowest, second, behind, places = np.empty((4, len(ts)), np.int64)
    order_arrivals(ts, starts, frontiers, now, lowest, second, behind, places)
    order = np.empty(len(ts), np.int64)
    order[places] = np.arange(len(ts))
    owners = np.repeat(np.arange(len(sides)), rows)
    own = []
    for number, (start, one) in enumerate(zip(starts.tolist(), examined, strict=False)):
        taken = np.empty(0, np.int64) if one is None else start + one.there
        is_behind = behind[taken] == number
        codes = np.empty(0, np.int64) if one is None else one.codes[0]
        keyless = np.empty(0, np.int64) if one is None else start + one.keyless
        own.append(
            SideArrivals(
                places[taken],
                codes,
                ts[taken],
                np.where(is_behind, second[taken], lowest[taken]),
                np.where(is_behind, lowest[taken], second[taken]),
                lowest[taken],
                second[taken],
                behind[taken],
                places[keyless],
            )
        )
    return Arrivals(own, ts[order], owners[order], frontiers[order], factors[order], before, now)
