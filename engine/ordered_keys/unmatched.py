"""Rows of one side that no row to come can meet, in the order in which that becomes known.

    left   5:at 2   7:at 3   NULL:at 4        frontier of the other, by place    3: 4    5: 6    6: 8
           the 5 at place 5, the 7 at place 6, the row without a key at 4, at once

Law: where a row becomes known to be without a partner depends on its own place and on the frontiers of the
other stream, not on batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.rows.batch import NO_ROWS, Batch

from .arrivals import Arrivals
from .final_side import FinalSide
from .ordered_side import Examined


@dataclass(slots=True)
class Unmatched:
    """Of one side, while rows arrive. Places and, in their order, rows that are stored: they are without a
    partner unless they meet one up to there. And rows that were never stored, as they came."""

    side: FinalSide
    places: NDArray
    rows: NDArray
    lone_places: NDArray
    lone: Batch | None
    at: int = 0
    lone_at: int = 0

    def until(self, end: int) -> tuple[NDArray, NDArray]:
        """Those that are known to be without a partner with the arrivals below place `end`: place, row."""
        first, self.at = self.at, int(self.places.searchsorted(end))
        rows = self.rows[first : self.at]
        waits = self.side.unsettled(rows)
        self.side.settle(rows[waits])
        return self.places[first : self.at][waits], rows[waits]

    def lone_until(self, end: int) -> Batch | None:
        """The same of those that were never stored."""
        first, self.lone_at = self.lone_at, int(self.lone_places.searchsorted(end))
        return None if self.lone is None else self.lone.slice(first, self.lone_at)


def unmatched_of(
    side: FinalSide, other: int, arrivals: Arrivals, examined: Examined | None, stored: NDArray
) -> Unmatched:
    """other: the side that its partners would come from; stored: which of the rows that have come with all
    keys have been stored. The others came when all frontiers had passed their keys."""
    # 1. stored before, and now
    own = arrivals.sides[side.number]
    now, before = int(arrivals.now[other]), int(arrivals.before[other])
    rows = side.without_partner(now, side.tail if now > before else side.first_row)
    came = np.full(len(rows), -1, np.int64)
    is_new = rows >= side.first_row
    came[is_new] = own.places[stored[rows[is_new] - side.first_row]]
    passed = passed_at(side.codes_of(rows), other, arrivals)
    places = np.maximum(came, passed)
    order = np.argsort(places, kind="stable")
    # 2. never stored: without a key, or too late for all
    if examined is None:
        return Unmatched(side, places[order], rows[order], NO_ROWS, None)
    left = np.ones(len(own.places), np.bool_)
    left[stored] = False
    lone_places = np.concatenate([own.places[left], own.keyless])
    positions = np.concatenate([examined.there[left], examined.keyless])
    lone_order = np.argsort(lone_places, kind="stable")
    lone = examined.batch.take(positions[lone_order]) if len(positions) else None
    return Unmatched(side, places[order], rows[order], lone_places[lone_order], lone)


def passed_at(codes: NDArray, other: int, arrivals: Arrivals) -> NDArray:
    """With which arrival the frontier of a side passes keys, by place; -1: it had before."""
    events = np.flatnonzero(arrivals.owners == other)
    frontiers = np.concatenate([arrivals.before[other : other + 1], arrivals.frontiers[events]])
    places = np.concatenate([np.array([-1]), events])
    return places[frontiers.searchsorted(codes, side="right")]
