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

from .frontiers import Frontiers
from .ordered_side import Examined


@dataclass(slots=True)
class SideArrivals:
    """Rows of one side that take part, by row: place, key, numbers (a line per numbering), below which keys
    rows of this side had gone, and of some other side. And the places of those that lack a key."""

    places: NDArray
    codes: NDArray
    numbers: NDArray
    ts: NDArray
    floors: NDArray
    limits: NDArray
    lowest: NDArray
    second: NDArray
    behind: NDArray
    keyless: NDArray
    has_cells: bool

    @property
    def cells(self) -> NDArray:
        """Which rows can meet at all."""
        return self.numbers[0]

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
    """Frontiers before all of them, of sides that have one each."""
    now: NDArray
    """And after."""

    @property
    def least(self) -> NDArray:
        """The least of all frontiers after each."""
        own = [
            np.maximum.accumulate(np.where(self.owners == side, self.frontiers, before))
            for side, before in enumerate(self.before.tolist())
        ]
        found: NDArray = np.minimum.reduce(own)
        return found


def line_up(frontiers: Frontiers, examined: Sequence[Examined | None]) -> Arrivals:
    """What comes, of batches of all sides."""
    rows = [0 if one is None else one.batch.length for one in examined]
    starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    before = np.array([nows[0] for nows in frontiers.nows], np.int64)
    # 1. which sequences the rows are of
    numbers = np.zeros((len(frontiers.numberings), int(starts[-1])), np.int64)
    if frontiers.has_values:
        for number, (start, one) in enumerate(zip(starts.tolist(), examined, strict=False)):
            if one is not None:
                numbers[:, start + one.there] = frontiers.numbers(number, one.keys, len(one.there))
    read = [frontiers.read(number, count) for number, count in enumerate(rows)]
    own, after, factors = (
        np.concatenate([getattr(one, name) for one in read]) for name in ("sequences", "frontiers", "factors")
    )
    # 2. who comes when
    ts = np.concatenate([np.empty(0, np.int64), *(one.batch.ts for one in examined if one is not None)])
    found = np.empty((4, len(ts)), np.int64)
    nows, begins = frontiers.side_by_side()
    order_arrivals(
        ts, starts, after, own, numbers, np.array(frontiers.of_side, np.int64), begins, nows, found
    )  # fmt: skip
    lowest, second, behind, places = found
    frontiers.move_to(nows, begins)
    # 3. by side
    order = np.empty(len(ts), np.int64)
    order[places] = np.arange(len(ts))
    owners = np.repeat(np.arange(len(rows)), rows)
    sides = []
    for number, (start, one) in enumerate(zip(starts.tolist(), examined, strict=False)):
        taken = np.empty(0, np.int64) if one is None else start + one.there
        is_behind = behind[taken] == number
        codes = np.empty(0, np.int64) if one is None else one.codes[0]
        keyless = np.empty(0, np.int64) if one is None else start + one.keyless
        sides.append(
            SideArrivals(
                places[taken],
                codes,
                numbers[:, taken],
                ts[taken],
                np.where(is_behind, second[taken], lowest[taken]),
                np.where(is_behind, lowest[taken], second[taken]),
                lowest[taken],
                second[taken],
                behind[taken],
                places[keyless],
                frontiers.has_values,
            )
        )
    now = np.array([nows[0] for nows in frontiers.nows], np.int64)
    return Arrivals(sides, ts[order], owners[order], after[order], factors[order], before, now)
