"""Gives the pairs of a join to the members that want them.

In:      what the directions of a batch have found, each in time order.
Out:     to each member the pairs that it takes, as row numbers into the stored columns, in time order.

Who takes a pair is known from its age and the lineage of both rows. How that is found out is chosen when
members have changed: all take all where they ask the same; a few look at every pair; of many the query index
lists those that take it, or, where that is asked for, each of them is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.kernels.joins.pairs import take_pairs_of
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex, split_by_member
from penstock.engine.members.roster import Roster
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.shelves.member_index import tag_demands
from penstock.engine.shelves.side import Side

from .direction import Direction
from .found_pairs import MAX_ENTRIES, Pairs, StoredNow, batches_of, merge_found, tags_of, verify_pairs
from .pair_counter import PairCounter

FEW_MEMBERS = 16  # up to so many, each looks at every pair: less work than sorting them out
Way = Literal["to all", "each looks", "by index", "each is asked"]


class PairGiver:
    """For the members of a join that are given pairs; those that only count have theirs counted beside."""

    def __init__(self, sides: tuple[Side, Side], counter: PairCounter, counters: Counters) -> None:
        self.sides = sides
        self.counter = counter
        self.counters = counters
        self.members: list[Member] = []
        self.index: QueryIndex | None = None
        self._way: Way = "to all"
        self._demands: tuple[NDArray, NDArray, NDArray] = (NO_ROWS, NO_ROWS, NO_ROWS)
        """What members ask of the tags of both rows (see lineage.py)."""
        self._windows = np.empty((0, 2), np.int64)
        """Their windows, left and right, as ages of the join."""
        self._instants = any(side.by_place for side in sides)

    def refresh(self, delivered: Roster, index: QueryIndex, whole: QueryIndex, layout: JoinLayout) -> None:
        """Give pairs to these members from now on; `whole` is the index of all that there are."""
        self.members, self.index = delivered.members, index
        self._windows = delivered.sizes.T.copy()
        if self.members:
            demand = tag_demands(delivered, self.sides)
            self._demands = demand.low, demand.high, demand.bits
        if whole.is_plain and not any(map(self._are_ages_asked, self.sides)):
            self._way = "to all"
        elif layout.routed:
            self._way = "each is asked"
        else:
            self._way = "each looks" if len(self.members) <= FEW_MEMBERS else "by index"

    def _are_ages_asked(self, side: Side) -> bool:
        """Whether some pair that is found is too old for some member, by the age of its row of this side."""
        return self._instants or bool((self._windows[:, side.number] < side.terms.size).any())

    def give(self, directions: Sequence[Direction]) -> None:
        """Pass on the next pairs of all directions that may go out now."""
        for direction in directions:
            direction.fill()
        ts, left, right = pairs = verify_pairs(self.sides, *merge_found(directions, self.sides))
        if not len(ts):
            return
        assert self.index is not None, "members without an index"
        stored = StoredNow(self.sides)
        if self._way == "to all":
            for member in self.members:
                self._emit(member, stored, *pairs)
        elif self._way == "each looks":
            self._select(stored, pairs, tags_of(self.sides, self.index, (left, right)))
        else:
            self._report(self.index, stored, pairs, tags_of(self.sides, self.index, (left, right)))
        if self.counter.members:
            self.counter.count_merged(ts, (left, right))

    def _select(self, stored: StoredNow, pairs: Pairs, tags: tuple[NDArray, NDArray]) -> None:
        """Pass pairs on to a few members, each looking at all of them."""
        ts, *refs = pairs
        ages = tuple(
            [
                side.ages(ts, rows) if self._are_ages_asked(side) else NO_ROWS
                for side, rows in zip(self.sides, refs, strict=True)
            ]
        )
        for member, sizes, *demand in zip(self.members, self._windows, *self._demands, strict=True):
            some = tuple([np.empty(len(ts) + 1, np.int64) for _ in pairs])
            count = take_pairs_of(pairs, ages, tags, sizes, tuple(demand), some)
            if count:
                self._emit(member, stored, *(pairs if count == len(ts) else [one[:count] for one in some]))

    def _report(
        self,
        index: QueryIndex,
        stored: StoredNow,
        pairs: Pairs,
        tags: tuple[NDArray, NDArray],
    ) -> None:
        """Pass pairs on to the members that take them."""
        ts, left, right = pairs
        ages = [side.ages(ts, rows) for side, rows in zip(self.sides, (left, right), strict=True)]
        probed, age = (ages[1] > ages[0]).astype(np.uint8), np.maximum(*ages)
        own_age = np.minimum(*ages) if self._instants else None
        room = max(len(self.members), min(MAX_ENTRIES, len(ts) * len(self.members)))
        members, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        ask = index.report_each if self._way == "each is asked" else index.report
        start = 0
        while start < len(ts):
            count, start = ask(probed, age, own_age, *tags, start, members, positions)
            ids, starts, sorted_positions = split_by_member(
                members[:count], positions[:count], len(self.members)
            )
            for i, one in enumerate(ids.tolist()):
                taken = sorted_positions[starts[i] : starts[i + 1]]
                member = self.members[one]
                if len(taken) == len(ts):
                    self._emit(member, stored, ts, left, right)
                else:
                    self._emit(member, stored, ts[taken], left[taken], right[taken])

    def _emit(
        self,
        member: Member,
        stored: StoredNow,
        ts: NDArray,
        left: NDArray,
        right: NDArray,
    ) -> None:
        columns = stored.columns_of(member.node)
        for pairs in batches_of(columns, ts, (left, right)):
            member.found += pairs.length
            self.counters.gave(pairs.length)
            member.output.put(pairs)

    def _check_restored(self) -> None:
        members = len(self.members)
        expect(self._windows.shape == (members, 2), "the windows of each member")
        if members:
            expect(all(len(one) == members for one in self._demands), "what each member asks for")
