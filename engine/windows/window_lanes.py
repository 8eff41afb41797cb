"""Members of a window store by the size of their windows, and what one such size changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.kernels.rows.merge import order_runs
from penstock.engine.members.lineage import Demand
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import StoredWindowNode
from penstock.engine.selects.shared_select import RowIndex
from penstock.engine.shelves.find_needed import as_matrix
from penstock.engine.shelves.shelf import Shelf
from penstock.engine.shelves.side import Side

from .window_member import WindowMember

FEW_MEMBERS = 8  # of one size, each of which looks at every row
EARLIEST = np.iinfo(np.int64).min


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


class Runs:
    """Rows that leave a window and then rows that enter it, run by run as they are kept, put into order."""

    def __init__(self, dimensions: int, words: int) -> None:
        """How many tags of each kind rows have."""
        self._times: list[NDArray] = []
        self._refs: list[NDArray] = []
        self._leaves: list[list[NDArray]] = [[] for _ in range(dimensions)]
        self._words: list[list[NDArray]] = [[] for _ in range(words)]
        self._entering: int | None = None

    def begin_entering(self) -> None:
        """What is added from now on enters."""
        self._entering = sum(map(len, self._times))

    def put(self, times: NDArray, refs: NDArray, leaves: Sequence[NDArray], words: Sequence[NDArray]) -> None:
        """Add a run of changes, in order of time, with the tags of their rows."""
        self._times.append(times)
        self._refs.append(refs)
        for into, values in zip((*self._leaves, *self._words), (*leaves, *words), strict=True):
            into.append(values)

    def add(
        self, shelf: Shelf, number: int, rows: range, times: NDArray, places: NDArray | None = None
    ) -> None:
        """Add rows of a shelf, by its number, with the times of their changes; places: only some of them."""
        refs = np.arange(rows.start, rows.stop) + (number << ROW_BITS)
        tags = [[one.run(rows.start, rows.stop) for one in kind] for kind in (shelf.leaves, shelf.words)]
        if places is not None and len(places) < len(rows):
            refs, times = refs[places], times[places]
            tags = [[one[places] for one in kind] for kind in tags]
        self.put(times, refs, *tags)

    def in_order(self) -> WindowChanges:
        """All of them; at one time what leaves comes first, then by run."""
        starts = np.cumsum([0, *map(len, self._times)])
        total = int(starts[-1])
        at, order = joined(self._times, np.int64), np.arange(total, dtype=np.int32)
        if np.count_nonzero(np.diff(starts)) > 1:
            order_runs(at, starts, order)
        assert self._entering is not None, "some changes enter"
        return WindowChanges(
            order, at, joined(self._refs, np.int64), self._entering,
            as_matrix([joined(one, np.int32) for one in self._leaves], total, np.int32),
            as_matrix([joined(one, np.int64) for one in self._words], total, np.int64),
        )  # fmt: skip


def joined(parts: Sequence[NDArray], dtype: type) -> NDArray:
    """All of these one after the other; none if there are none."""
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def index_lane(demand: Demand, side: Side) -> RowIndex | None:
    """Where to look up who of many takes a row; None if they are few, or take the same."""
    is_many = len(demand.low) > FEW_MEMBERS and any(side.tag_widths)
    return RowIndex(demand, side.leaf_counts) if is_many else None


def lanes_of(roster: Roster, demand: Demand, side: Side) -> list[Lane]:
    """Members with windows of one size together, the shortest first; demand: of all of them, one row each."""
    if not len(roster):
        return []
    order = np.argsort(roster.sizes[0], kind="stable")
    sizes, starts = np.unique(roster.sizes[0][order], return_index=True)
    lanes = []
    for size, here in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):
        own = Demand(demand.low[here], demand.high[here], demand.bits[here])
        members = [one for i in here.tolist() if isinstance(one := roster.members[i], WindowMember)]
        lanes.append(Lane(size, members, own, index_lane(own, side)))
    return lanes


def announced_ends(
    side: Side, node: StoredWindowNode, ts: NDArray, sign: NDArray, refs: NDArray
) -> NDArray | None:
    """When the rows of changes leave, if whoever reads them asks for that."""
    if not node.announced:
        return None
    if node.hops is None:
        return np.where(sign > 0, ts + node.size, ts)
    return node.hops.up(side.kept.gathered(lambda shelf: shelf.store.ts, refs) + node.size)


def as_rows(rows: Sequence[NDArray], length: int, dtype: type) -> NDArray:
    """At most one row as a matrix, without copying it."""
    return rows[0].reshape(1, -1) if rows else np.empty((0, length), dtype)


def few_ends(sizes: NDArray, most: int) -> tuple[int, ...] | None:
    """Ages at which rows may leave: each window's (None), or some of them if these are many."""
    sizes = np.unique(sizes)
    if len(sizes) <= most:
        return None
    return tuple(sizes[np.linspace(0, len(sizes) - 1, most).astype(int)].tolist())
