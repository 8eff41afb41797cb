"""Gives the pairs of a join to the members that want them.

In:      what the directions of a batch have found, each in time order.
Out:     to each member the pairs that it takes, as row numbers into the stored columns, in time order.

Who takes a pair is known from its age and the lineage of both rows: all members where they ask the same; a
few look at every pair, or have a bit each (dealer.py); of many the query index lists those that take it.
"""

from __future__ import annotations

from collections.abc import Sequence

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

from .dealer import Dealer
from .direction import Direction
from .found_pairs import MAX_ENTRIES, StoredNow, batches_of, merge_found, tags_of, verify_pairs
from .pair_counter import PairCounter

FEW_MEMBERS = 16  # up to so many, each looks at every pair: less work than sorting them out


class PairGiver:
    """For the members of a join that are given pairs; those that only count have theirs counted beside."""

    def __init__(self, sides: tuple[Side, Side], counter: PairCounter, counters: Counters) -> None:
        self.sides = sides
        self.counter = counter
        self.counters = counters
        self.members: list[Member] = []
        self.index: QueryIndex | None = None
        self._to_all = False
        self._routed = False
        self._demands: tuple[NDArray, NDArray, NDArray] = (NO_ROWS, NO_ROWS, NO_ROWS)
        """What members ask of the tags of both rows (see lineage.py)."""
        self._windows: list[list[int]] = []
        """Their windows, left and right, as ages of the join."""
        self._dealer: Dealer | None = None
        self._instants = any(side.by_place for side in sides)

    def refresh(self, delivered: Roster, index: QueryIndex, whole: QueryIndex, layout: JoinLayout) -> None:
        """Give pairs to these members from now on; `whole` is the index of all that there are."""
        self.members, self.index = delivered.members, index
        self._windows = delivered.sizes.T.tolist()
        self._routed = layout.routed
        # Whether every pair that is found belongs to every member: all have the windows by which rows leave.
        self._to_all = (
            whole.is_plain
            and not self._instants
            and all((delivered.sizes[side.number] == side.size).all() for side in self.sides)
        )
        if self.members:
            demand = tag_demands(delivered, self.sides)
            self._demands = demand.low, demand.high, demand.bits
        self._dealer = Dealer(delivered) if self._may_deal else None
        for side in self.sides if self._dealer is not None else ():
            side.dealt = None if side.is_uniform else side.demands(delivered)

    @property
    def _may_deal(self) -> bool:
        """Whether pairs are given to a few members, and to nobody else, who need not all take the same."""
        few = 0 < len(self.members) <= FEW_MEMBERS and not self.counter.members and not self._to_all
        by_bits = not (self._instants or self.sides[0].verified or self._routed)
        return few and by_bits

    def give(self, directions: Sequence[Direction]) -> None:
        """Pass on the next pairs of all directions that may go out now."""
        for direction in directions:
            direction.fill()
        if self._dealer is not None:
            stored = StoredNow(self.sides)
            for member, *pairs in self._dealer.deal(directions):
                self._emit(member, stored, *pairs)
            return
        ts, left, right = verify_pairs(self.sides, *merge_found(directions, self.sides))
        if not len(ts):
            return
        index = self.index
        assert index is not None, "members without an index"
        stored = StoredNow(self.sides)
        if self._to_all:
            for member in self.members:
                self._emit(member, stored, ts, left, right)
            if self.counter.members:
                self.counter.count_merged(ts, (left, right))
            return
        ages = [side.ages(ts, rows) for side, rows in zip(self.sides, (left, right), strict=True)]
        tags = tags_of(self.sides, index, (left, right))
        if len(self.members) <= FEW_MEMBERS and not self._routed:
            self._select(stored, (ts, left, right), ages, tags)
            if self.counter.members:
                self.counter.count_merged(ts, (left, right))
            return
        probed = (ages[1] > ages[0]).astype(np.uint8)
        age = np.maximum(*ages)
        own_age = np.minimum(*ages) if self._instants else None
        self._report(index, stored, (ts, left, right), (probed, age, own_age, *tags))
        if self.counter.members:
            self.counter.count_merged(ts, (left, right))

    def _select(
        self,
        stored: StoredNow,
        pairs: tuple[NDArray, NDArray, NDArray],
        ages: list[NDArray],
        tags: tuple[NDArray, NDArray],
    ) -> None:
        """Pass pairs on to a few members, each looking at all of them."""
        ts, left, right = pairs
        asked = zip(self.members, self._windows, *self._demands, strict=True)
        for member, windows, low, high, bits in asked:
            some_ts, some_left, some_right = (np.empty(len(ts) + 1, np.int64) for _ in range(3))
            count = take_pairs_of(
                ts, left, right, ages[0], ages[1], tags[0], tags[1], windows[0], windows[1],
                low, high, bits, some_ts, some_left, some_right,
            )  # fmt: skip
            if count == len(ts):
                self._emit(member, stored, ts, left, right)
            elif count:
                self._emit(member, stored, some_ts[:count], some_left[:count], some_right[:count])

    def _report(
        self,
        index: QueryIndex,
        stored: StoredNow,
        pairs: tuple[NDArray, NDArray, NDArray],
        known: tuple[NDArray, NDArray, NDArray | None, NDArray, NDArray],
    ) -> None:
        """Pass pairs on to the members that take them."""
        ts, left, right = pairs
        probed, age, own_age, leaves, words = known
        room = max(len(self.members), min(MAX_ENTRIES, len(ts) * len(self.members)))
        members, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        ask = index.report_each if self._routed else index.report
        start = 0
        while start < len(ts):
            count, start = ask(probed, age, own_age, leaves, words, start, members, positions)
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
        if members:
            expect(all(len(one) == members for one in self._demands), "what each member asks for")
