"""ROWS windows on a side of a join where other members have RANGE windows.

A row has two ages then. In time, at an instant: that less its ts. By place: the rows of its stream up to the
end of that instant, less its own place among them, less 1. Each member asks for one of both on each side. The
ages in time are those of the join; of the age by place, a pair only needs to know how many of the members'
ROWS windows it has outgrown:

    windows of 2, 5 and 9 rows    0 1 | 2 3 4 | 5 6 7 8 | 9 ...    age by place
                                   0  |   1   |    2    |   3      leaf: below the windows from this one on

That is a leaf like those of a row's values (see lineage.py), and a member with a ROWS window takes leaves up
to that of its window. A row stays while it is young enough by either age.

Rows that were kept before anybody had a ROWS window have no places. Where all rows of a stream are kept, on
one shelf, the last ones are counted back from the end; others get numbers below 0 that keep them apart and
are older than any window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.joins.place_leaves import place_leaves
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster
from penstock.engine.restoring.in_order import expect, rising

from .shelf import Shelf, filled

MOST_SHELVES = 256  # lifetimes in time, times those by place, up to which a row leaves with its last window
FEWEST_LIMITS = 4  # by place, however many lifetimes in time there are
NO_PLACE = 1 << 61  # what numbers of rows without a place are lowered by


class RowsBeside:
    """The ROWS windows of a side; in time, its rows leave at so many different ages."""

    def __init__(self, sizes: NDArray, ages: int, is_merged: bool) -> None:
        """sizes: int64, ascending and distinct; is_merged: rows need not leave with their last window."""
        self.sizes = sizes
        most = ages if is_merged else max(FEWEST_LIMITS, MOST_SHELVES // max(1, ages))
        step = -(-len(sizes) // most)
        self.limits = sizes[::-1][::step][::-1]
        """Ages by place at which rows may leave; the longest window among them."""
        self.index: QueryIndex | None = None
        """The members that have these windows."""

    @property
    def longest(self) -> int:
        return int(self.sizes[-1])

    @property
    def leaf_count(self) -> int:
        return len(self.sizes) + 1

    def leaves(self, ts: NDArray, places: NDArray, come_ts: NDArray, come: int) -> NDArray:
        """How many of the windows rows at these places have left at these times, which are in order.

        come_ts, come: the rows of the stream that came last, and how many came before them.
        """
        leaves = np.empty(len(ts), np.int32)
        place_leaves(ts, places, come_ts, come, self.sizes, leaves)
        return leaves

    def last_leaves(self, roster: Roster, side: int) -> NDArray:
        """The last leaf that each member takes."""
        ranks = self.sizes.searchsorted(roster.sizes[side])
        return np.where(roster.by_rows[side], ranks, len(self.sizes)).astype(np.int32)

    def limits_of(self, side: int, leaves: NDArray, words: NDArray) -> NDArray:
        """By how many rows those with these tags are displaced from all windows, 0 if from the start."""
        assert self.index is not None, "windows without members"
        longest = self.index.longest(side, side, leaves, words)
        if len(self.limits) == len(self.sizes):
            return longest
        return np.where(longest == 0, 0, self.limits[self.limits.searchsorted(longest)])

    def _check_restored(self) -> None:
        expect(0 < len(self.limits) <= len(self.sizes), "windows")
        rising(self.sizes, "windows")
        rising(self.limits, "windows")
        expect(int(self.limits[-1]) == int(self.sizes[-1]) and int(self.sizes[0]) > 0, "the longest window")


def number_rows(shelves: Sequence[Shelf], end: int, last_gap: int) -> None:
    """Give stored rows places that have none.

    end: rows of the stream so far; last_gap: a place after which all rows were kept, if there is one shelf.
    """
    if all(shelf.places is not None for shelf in shelves):
        return
    ts = np.concatenate([shelf.store.ts.live for shelf in shelves])
    places = np.empty(len(ts), np.int64)
    places[np.argsort(ts, kind="stable")] = np.arange(len(ts)) - NO_PLACE
    if len(shelves) == 1:
        known = min(len(ts), end - 1 - last_gap)
        places[len(ts) - known :] = np.arange(end - known, end)
    start = 0
    for shelf in shelves:
        shelf.places = filled(places[start : start + len(shelf)], shelf.store.ts.tail)
        start += len(shelf)


def other_measure(
    ts: NDArray, places: NDArray, last: NDArray, to_places: bool, now: int, end: int
) -> NDArray:
    """Up to where rows may be missing, by place if that is known by ts, or by ts if by place.

    ts, places: of the rows that are there; last: int64, the last that may be missing, BEGINNING if none is.
    Where no row that is there lies behind it, all may be missing: up to `now`, or up to the place before
    `end`.
    """
    known = places >= 0
    is_none = last == BEGINNING
    if to_places:
        is_none = is_none & bool(known.all())
    order = np.argsort(places[known], kind="stable")
    ts, places = ts[known][order], places[known][order]
    if to_places:
        first, values, none_left = ts.searchsorted(last, side="right"), places - 1, end - 1
    else:  # of the rows of one instant, some may be there and some not
        first, values, none_left = places.searchsorted(last, side="right"), ts, now
    found = np.append(values, none_left)[first]
    return np.where(is_none, BEGINNING, found)
