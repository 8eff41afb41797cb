"""The members of a common join filed by what they ask of a pair: its age, and the tags of both its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.members.cell_counts import CellCounts
from penstock.engine.members.lineage import Demand
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster

from .side import Side

OF_PAIRS = 2  # the side of leaves that are a pair's and no row's


def index_members(members: Roster, sides: Sequence[Side]) -> QueryIndex:
    """Which of these members take a row or a pair."""
    demand = demands_of(members, sides)
    beside = [side.rows_beside for side in sides if side.rows_beside is not None]
    return QueryIndex(
        members.ages if beside else members.sizes,
        demand.low,
        demand.high,
        demand.bits,
        [*(count for side in sides for count in side.leaf_counts), *(one.leaf_count for one in beside)],
        [*(side.number for side in sides for _ in range(side.tag_widths[0])), *(OF_PAIRS for _ in beside)],
        [side.number for side in sides for _ in range(side.tag_widths[1])],
    )


def index_rows(members: Roster, sides: Sequence[Side]) -> QueryIndex:
    """Which of these members take a row, for the windows that they have on its side."""
    demand = tag_demands(members, sides)
    return QueryIndex(
        members.sizes,
        demand.low,
        demand.high,
        demand.bits,
        [count for side in sides for count in side.leaf_counts],
        [side.number for side in sides for _ in range(side.tag_widths[0])],
        [side.number for side in sides for _ in range(side.tag_widths[1])],
    )


def demands_of(members: Roster, sides: Sequence[Side]) -> Demand:
    """What each member asks of both rows of a pair: of their tags, left's first, then of their places where
    ROWS windows stand beside RANGE windows; one row each."""
    demand = tag_demands(members, sides)
    last = [
        side.rows_beside.last_leaves(members, side.number) for side in sides if side.rows_beside is not None
    ]
    if not last:
        return demand
    high = np.stack(last, axis=1)
    return Demand(np.hstack([demand.low, np.zeros_like(high)]), np.hstack([demand.high, high]), demand.bits)


def tag_demands(members: Roster, sides: Sequence[Side]) -> Demand:
    """What each member asks of the tags of both rows of a pair, left's first; one row each."""
    demands = [side.demands(members) for side in sides]
    return Demand(
        np.hstack([demand.low for demand in demands]),
        np.hstack([demand.high for demand in demands]),
        np.hstack([demand.bits for demand in demands]),
    )


def cells_of(
    members: Roster, sides: Sequence[Side], slices: tuple[Slices, Slices], former: CellCounts | None
) -> CellCounts | None:
    """Counters by leaves and age, where those alone decide who takes a pair and there are few of them.

    slices: of the members' windows. The memory of `former`, which is settled, is used again.
    """
    widths = [side.tag_widths for side in sides]
    if all(width == (0, 0) for width in widths) or any(
        dimensions > 1 or words for dimensions, words in widths
    ):
        return None
    leaf_counts = [side.leaf_counts[0] if side.leaf_counts else 1 for side in sides]
    if not CellCounts.fit(slices, leaf_counts):
        return None
    low, high = np.zeros((2, len(members)), np.int32), np.zeros((2, len(members)), np.int32)
    for side in sides:
        if side.leaf_counts:
            demand = side.demands(members)
            low[side.number], high[side.number] = demand.low[:, 0], demand.high[:, 0]
    return CellCounts(members.sizes, low, high, leaf_counts, former, slices)
