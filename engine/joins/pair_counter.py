"""Counts the pairs of a join for the members that only want to know how many they have.

In:      the directions of a batch, or pairs that were found for others.
Kept:    counters by slice of age, and by leaves of both rows where members differ in what they ask.
Out:     each member's count, when somebody asks (`settle`).

Where slice and leaves decide who takes a pair, a pair adds 1 to one counter and is not looked at again; where
equal keys decide, pairs are not even found (see key_counts.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.joins.cells import TOGETHER, add_pairs
from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.members.cell_counts import MAX_PAIRS as MAX_PAIRS_IN_CELLS
from penstock.engine.members.cell_counts import CellCounts
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import CommonJoin
from penstock.engine.rows.band import EQUALITY
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.shelves.key_counts import MAX_WIDTH
from penstock.engine.shelves.member_index import cells_of
from penstock.engine.shelves.side import Side

from .direction import Direction
from .found_pairs import MAX_ENTRIES, tags_of, verify_pairs


class PairCounter:
    """For the members of a join that only count."""

    def __init__(self, common: CommonJoin, sides: tuple[Side, Side], counters: Counters) -> None:
        self.common = common
        self.sides = sides
        self.counters = counters
        self.members: list[Member] = []
        self.index: QueryIndex | None = None
        self.by_key = False
        """Whether pairs are counted by key and not found."""
        self._cells: CellCounts | None = None
        self._in_cells = 0
        self._is_alone = True
        """Whether nobody is given pairs, and none has to be verified or waited for."""
        self._routed = False
        self.is_unsettled = False
        """Whether pairs have been counted since the members' counts were brought up to date."""
        self._instants = any(side.by_place for side in sides)

    def refresh(
        self, roster: Roster, counted: Roster, index: QueryIndex, whole: QueryIndex, layout: JoinLayout
    ) -> None:
        """Count for these members from now on; `roster` and `whole` are of all that there are."""
        self.members, self.index = counted.members, index
        is_known = not (self._instants or self.sides[0].kept.verified)
        self._is_alone = len(counted) == len(roster) and is_known
        self._routed = layout.routed
        may_count = self._is_alone and not self._routed
        self._cells = cells_of(roster, self.sides, whole.slices, self._cells) if may_count else None
        self.by_key = layout.by_key and self.may_count_by_key

    def settle(self) -> None:
        """Bring the members' counts up to date."""
        if self.index is None or not self.members or not self.is_unsettled:
            return
        self.is_unsettled = False
        self._in_cells = 0
        found = self.index.settle() if self._cells is None else self._cells.settle()
        for at in np.flatnonzero(found).tolist():
            self.members[at].found += int(found[at])
        self.counters.gave(int(found.sum()))

    @property
    def may_count_by_key(self) -> bool:
        """Whether pairs need not be found to be counted: equal keys decide, and by few enough counters."""
        index = self.index
        if index is None or not self._is_alone:
            return False
        if self.common.condition != EQUALITY or not (index.is_plain or self._cells is not None):
            return False
        leaves = [side.leaf_counts[0] if side.leaf_counts else 1 for side in self.sides]
        return all(n * len(s.ends) <= MAX_WIDTH for n, s in zip(leaves, index.slices, strict=True))

    def count(self, directions: Sequence[Direction]) -> None:
        """Count the next pairs of each direction, which nobody else wants."""
        index = self.index
        assert index is not None, "members without an index"
        for direction in directions:
            side, probes = direction.side, direction.probes
            assert probes is not None, "no batch is being worked"
            if probes.done:
                continue
            probed, number = direction.shelf.index, side.number
            if index.is_plain and not self._instants and not side.kept.verified:
                slices, histogram = index.slices[number], index.histogram(number)
                if len(slices.ends) == 1 and not self.by_key:
                    found = probed.run(probes, NO_ROWS, NO_ROWS, True)
                    histogram[0] += found
                    side.seen.find(found)
                else:
                    self._count_in(direction, probes, slices, histogram, None)
            elif self._cells is not None:
                slices, cells = self._cells.slices[number], self._cells.flat(number)
                strides = self._cells.strides(number)
                self._in_cells += self._count_in(direction, probes, slices, cells, strides)
                if self._in_cells > MAX_PAIRS_IN_CELLS:
                    self.settle()
            else:
                direction.fill()
                self._count_pairs(index, number, *verify_pairs(self.sides, *direction.pairs_until(None)))

    def _count_in(
        self,
        direction: Direction,
        probes: Probes,
        slices: Slices,
        histogram: NDArray,
        strides: tuple[int, int] | None,
    ) -> int:
        """Count pairs of a direction by the slice of their age and, with strides, their rows' leaves."""
        number, by, shelf = direction.side.number, direction.by.arrival, direction.shelf
        of_prober, leaves, stride = NO_ROWS, shelf.pos, 0
        if strides is not None:
            of_prober = np.zeros(len(by.ts), np.int64)
            if by.leaves:
                of_prober += by.leaves[0].astype(np.int64) * strides[1 - number]
            if shelf.leaves:
                leaves, stride = shelf.leaves[0], strides[number]
        if self.by_key:
            first = np.zeros(len(by.ts), np.int64) if strides is None else of_prober
            found = direction.key_counts(slices).run(
                probes, by.ts, by.reach, shelf.index.keys, shelf.pos, leaves if stride else None,
                (first, stride), histogram,
            )  # fmt: skip
            direction.side.seen.find(found)
            return found
        if isinstance(shelf.index, HashIndex):
            sliced = probes, by.ts, shelf.pos, slices, histogram
            if strides is None:
                found = shelf.index.run_ages(*sliced)
            else:
                found = shelf.index.run_cells(*sliced, (of_prober, leaves, stride))
            direction.side.seen.find(found)
            return found
        direction.fill()
        found, direction.at = direction.count, direction.count
        of_prober = np.zeros(len(by.ts), np.int64) if strides is None else of_prober
        add_pairs(
            direction.prober, direction.row, found, by.ts, shelf.pos.data, shelf.pos.base,
            of_prober, leaves.data, leaves.base, stride, slices.ends, slices.first, slices.shift, histogram,
            np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64),
        )  # fmt: skip
        return found

    def _count_pairs(
        self, index: QueryIndex, probed: int, ts: NDArray, left: NDArray, right: NDArray
    ) -> None:
        if not len(ts):
            return
        refs = left, right
        age = self.sides[probed].ages(ts, refs[probed])
        other = self.sides[1 - probed]
        own_age = other.ages(ts, refs[1 - probed]) if other.by_place else None
        tags = tags_of(self.sides, index, refs)
        if self._routed:
            self._route(index, np.full(len(ts), probed, np.uint8), age, own_age, tags)
        else:
            index.count(probed, age, own_age, *tags)

    def _route(
        self,
        index: QueryIndex,
        probed: NDArray,
        age: NDArray,
        own_age: NDArray | None,
        tags: tuple[NDArray, NDArray],
    ) -> None:
        """Count pairs by testing each against each member."""
        room = max(len(self.members), min(MAX_ENTRIES, len(age) * len(self.members)))
        members, pairs = np.empty(room, np.int32), np.empty(room, np.int32)
        start = 0
        while start < len(age):
            count, start = index.report_each(probed, age, own_age, *tags, start, members, pairs)
            found = np.bincount(members[:count], minlength=len(self.members))
            for member, more in zip(self.members, found.tolist(), strict=True):
                member.found += more
                self.counters.gave(more)

    def count_merged(self, ts: NDArray, refs: tuple[NDArray, NDArray]) -> None:
        """Count pairs of both directions for the members that only count."""
        index = self.index
        assert index is not None, "members without an index"
        ages = [side.ages(ts, rows) for side, rows in zip(self.sides, refs, strict=True)]
        for probed in (0, 1):
            here = np.flatnonzero((ages[1] > ages[0]) == bool(probed))
            if len(here):
                own_age = ages[1 - probed][here] if self._instants else None
                tags = tags_of(self.sides, index, (refs[0][here], refs[1][here]))
                index.count(probed, ages[probed][here], own_age, *tags)
