"""Members of a window store by the size of their windows, and what one such size changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lineage import Demand
from ..roster import Roster
from ..window_member import WindowMember
from .shared_select import RowIndex
from .side import Side

FEW_MEMBERS = 8  # of one size, each of which looks at every row
MOST_SHELVES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Members with windows of one size, what each asks of the tags of rows, one row each, and where to look
    up who takes a row if they are many."""

    size: int
    members: list[WindowMember]
    demand: Demand
    index: RowIndex | None


class WindowChanges(NamedTuple):
    """Rows that leave a window and, from `entering` on, rows that enter it; `order` is that of their times.

    times, refs: int64 each; leaves: int32[D, n]; words: int64[W, n].
    """

    order: NDArray
    times: NDArray
    refs: NDArray
    entering: int
    leaves: NDArray
    words: NDArray


def lanes_of(roster: Roster, demand: Demand, side: Side) -> list[Lane]:
    """Members with windows of one size together, the shortest first; demand: of all of them, one row each."""
    order = np.argsort(roster.sizes[0], kind="stable")
    sizes, starts = np.unique(roster.sizes[0][order], return_index=True)
    lanes = []
    for size, here in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):
        own = Demand(demand.low[here], demand.high[here], demand.bits[here])
        is_many = len(here) > FEW_MEMBERS and any(side.tag_widths)
        index = RowIndex(own, side.leaf_counts) if is_many else None
        members = [one for i in here.tolist() if isinstance(one := roster.members[i], WindowMember)]
        lanes.append(Lane(size, members, own, index))
    return lanes


def as_rows(rows: Sequence[NDArray], length: int, dtype: type) -> NDArray:
    """At most one row as a matrix, without copying it."""
    return rows[0].reshape(1, -1) if rows else np.empty((0, length), dtype)


def few_ends(sizes: NDArray, most: int) -> tuple[int, ...] | None:
    """Ages at which rows may leave: each window's (None), or some of them if these are many."""
    sizes = np.unique(sizes)
    if len(sizes) <= most:
        return None
    return tuple(sizes[np.linspace(0, len(sizes) - 1, most).astype(int)].tolist())
