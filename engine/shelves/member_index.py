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


def index_members(members: Roster, sides: Sequence[Side]) -> QueryIndex:
    """Which of these members take a row or a pair."""
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
