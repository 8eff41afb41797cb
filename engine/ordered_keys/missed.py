"""What a join without windows has missed, or can have: rows that came too late, and a bound of their results.

A row came too late if a row of another side had gone whose key is not less: it may have been its partner.
Each result that is missed has a part that came last, and that came too late. So it has missed no more than
the rows with its key that there can have been, on each of the other sides: those that were there together,
which are counted, and those that came when others of their key could have gone (late_counts.py).

    produced / (produced + bound)  <=  produced / all that there are
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.ordered_keys.too_late import came_too_late
from penstock.engine.keys.keys import combine

from .arrivals import Arrivals, SideArrivals
from .ordered_side import OrderedSide
from .paper_buffer import Held


class Missed:
    """Of one join."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows that came too late for some that had gone."""
        self.most = 0
        """No more results than this have been missed."""

    def count(self, sides: Sequence[OrderedSide], arrivals: Arrivals, held: Sequence[Held] | None) -> None:
        """Rows have arrived and have sought."""
        late = [self._late(side, sides, arrivals, held) for side in sides]
        for side, own in zip(sides, arrivals.sides, strict=True):
            side.behind.add(names_of(own, self._is_behind(side, arrivals, held)))
        for side, positions in zip(sides, late, strict=True):
            if len(positions):
                self.rows += len(positions)
                side.note_late(len(positions))
                for name in names_of(arrivals.sides[side.number], positions).tolist():
                    self.most += results_of(name, side, sides)

    def _is_behind(self, side: OrderedSide, arrivals: Arrivals, held: Sequence[Held] | None) -> NDArray:
        """Rows of which others with their key may not be there any more."""
        own = arrivals.sides[side.number]
        if held is None:
            return own.codes < own.lowest
        return (own.codes <= held[side.number].gone[own.places]) & held[side.number].has_gone[own.places]

    def _late(
        self,
        side: OrderedSide,
        sides: Sequence[OrderedSide],
        arrivals: Arrivals,
        held: Sequence[Held] | None,
    ) -> NDArray:
        """Positions of a side's rows that came too late."""
        own = arrivals.sides[side.number]
        late = np.zeros(len(own.codes), np.uint8)
        if held is not None:
            for other in sides:
                if other is not side:
                    gone = held[other.number]
                    late |= (own.codes <= gone.gone[own.places]) & gone.has_gone[own.places]
            return np.flatnonzero(late)
        asked = np.flatnonzero(own.codes < own.limits)
        if not len(asked):
            return asked
        found = np.zeros(len(asked), np.uint8)
        for other in sides:
            if other is not side:
                theirs = arrivals.sides[other.number]
                before = other.codes.run(other.tail, other.first_row)
                cells = other.numbers[0][: len(before)]
                until = len(before) + theirs.places.searchsorted(own.places[asked])
                other.gone.make_room(int(own.cells[asked].max()) + 1)
                came_too_late(
                    own.codes[asked], own.cells[asked], own.floors_of(other.number, asked), until,
                    np.concatenate([before, theirs.codes]), np.concatenate([cells, theirs.cells]),
                    other.gone.codes, other.gone.known, found,
                )  # fmt: skip
        return asked[found > 0]


def names_of(arrivals: SideArrivals, positions: NDArray) -> NDArray:
    """Rows with one key have one name, of one cell; others hardly ever."""
    codes, cells = arrivals.codes[positions], arrivals.cells[positions]
    return combine([cells, codes]) if arrivals.has_cells else codes


def results_of(code: int, side: OrderedSide, sides: Sequence[OrderedSide]) -> int:
    """At most so many results has a row of a side with this key."""
    most = 1
    for other in sides:
        if other is not side:
            most *= other.multiplicity + other.behind.of(code)
    return most
