"""The members of a common join filed by what they ask of a pair: its age, and the tags of both its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .cell_counts import CellCounts
from .lineage import Demand
from .member import Member
from .operators.side import Side
from .query_index import QueryIndex


def index_members(members: Sequence[Member], sides: Sequence[Side]) -> QueryIndex:
    """Which of these members take a row or a pair."""
    demand = demands_of(members, sides)
    return QueryIndex(
        sizes_of(members),
        demand.low,
        demand.high,
        demand.bits,
        [count for side in sides for count in side.leaf_counts],
        [side.number for side in sides for _ in range(side.tag_widths[0])],
        [side.number for side in sides for _ in range(side.tag_widths[1])],
    )


def demands_of(members: Sequence[Member], sides: Sequence[Side]) -> Demand:
    """What each member asks of the tags of both rows of a pair, left's first; one row each."""
    demands = [side.demands(members) for side in sides]
    return Demand(
        np.hstack([demand.low for demand in demands]),
        np.hstack([demand.high for demand in demands]),
        np.hstack([demand.bits for demand in demands]),
    )


def cells_of(
    members: Sequence[Member], sides: Sequence[Side], former: CellCounts | None
) -> CellCounts | None:
    """Counters by leaves and age, where those alone decide who takes a pair and there are few of them.

    The memory of `former`, which is settled, is used again.
    """
    widths = [side.tag_widths for side in sides]
    if all(width == (0, 0) for width in widths) or any(
        dimensions > 1 or words for dimensions, words in widths
    ):
        return None
    leaf_counts = [side.leaf_counts[0] if side.leaf_counts else 1 for side in sides]
    windows = sizes_of(members)
    if not CellCounts.fit(windows, leaf_counts):
        return None
    low, high = np.zeros((2, len(members)), np.int32), np.zeros((2, len(members)), np.int32)
    for side in sides:
        if side.leaf_counts:
            demand = side.demands(members)
            low[side.number], high[side.number] = demand.low[:, 0], demand.high[:, 0]
    return CellCounts(windows, low, high, leaf_counts, former)


def sizes_of(members: Sequence[Member]) -> NDArray:
    """Windows of left and right, int64[2, M]."""
    return np.array([member.sizes for member in members], np.int64).reshape(-1, 2).T.copy()
