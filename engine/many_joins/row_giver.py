"""Gives the rows of a join of many streams to the members that take them, or counts them.

In:   rows that have been found: a time, and a reference to a row of each side.
Out:  to each member those within its windows whose rows satisfy its predicates, in time order, as references.

Who takes a row is known from the ages and the lineage of its parts, by the same index as of pairs. Where each
member has windows of one size for all streams, only the greatest age of a part counts, be it in time or by
place. Else on each side on which windows differ, how many of them a part has outlived is one more leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.joins.found_pairs import MAX_ENTRIES, StoredNow, batches_of
from penstock.engine.members.lineage import Demand
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex, split_by_member
from penstock.engine.members.roster import Roster
from penstock.engine.restoring.in_order import expect, rising
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.shelves.find_needed import as_matrix
from penstock.engine.shelves.member_index import tag_demands

from .many_side import ManySide

FEW_MEMBERS = 8  # up to so many, each looks at every row

Refs = Sequence[NDArray]


class MemberIndex:
    """Which of some members take a row."""

    def __init__(self, roster: Roster, sides: Sequence[ManySide]) -> None:
        self.members = roster.members
        self._sides = sides
        self.is_by_oldest = bool((roster.sizes == roster.sizes[0]).all())
        self._windows: list[tuple[ManySide, NDArray]] = []
        """Sides on which windows differ, if members have different ones by side, and their sizes in order."""
        demand = tag_demands(roster, sides)
        leaf_counts = [count for side in sides for count in side.leaf_counts]
        sizes = roster.sizes[0]
        if not self.is_by_oldest:
            sizes = np.ones(len(roster), np.int64)
            for side in sides:
                distinct = np.unique(roster.sizes[side.number])
                if len(distinct) > 1 or distinct[0] < side.terms.size:
                    last = distinct.searchsorted(roster.sizes[side.number]).astype(np.int32)[:, None]
                    demand = Demand(
                        np.hstack([demand.low, np.zeros_like(last)]),
                        np.hstack([demand.high, last]),
                        demand.bits,
                    )
                    leaf_counts.append(len(distinct) + 1)
                    self._windows.append((side, distinct))
        self.demand = demand
        self.sizes = sizes
        self.takes_all = (
            not leaf_counts
            and not demand.bits.shape[1]
            and all((roster.sizes[side.number] == side.terms.size).all() for side in sides)
        )
        """Whether every row that is found is for every member."""
        words = demand.bits.shape[1]
        self.index = QueryIndex(
            np.stack([sizes, sizes]), demand.low, demand.high, demand.bits,
            leaf_counts, [0] * len(leaf_counts), [0] * words,
        )  # fmt: skip

    def known(self, ts: NDArray, refs: Refs) -> tuple[NDArray, NDArray, NDArray]:
        """Of rows, the ages by which windows tell them, and the leaves and words of their parts."""
        tags = [side.tags_at(rows) for side, rows in zip(self._sides, refs, strict=True)]
        leaves = [one for own, _ in tags for one in own]
        for side, distinct in self._windows:
            ages = side.ages(ts, refs[side.number])
            leaves.append(distinct.searchsorted(ages, side="right").astype(np.int32))
        ages = np.zeros(len(ts), np.int64)
        if self.is_by_oldest:
            for side, rows in zip(self._sides, refs, strict=True):
                np.maximum(ages, side.ages(ts, rows), out=ages)
        words = [one for _, own in tags for one in own]
        return ages, as_matrix(leaves, len(ts), np.int32), as_matrix(words, len(ts), np.int64)

    def _check_restored(self) -> None:
        expect(len(self.sizes) == len(self.members), "a window for each member")
        for _, sizes in self._windows:
            rising(sizes, "windows")


class RowGiver:
    """For the members of a join that are given rows and for those that only count them."""

    def __init__(self, sides: Sequence[ManySide], counters: Counters) -> None:
        self._sides = sides
        self._counters = counters
        self.members: list[Member] = []
        """Those that are given rows."""
        self._given: MemberIndex | None = None
        self._counted: MemberIndex | None = None
        self._for_all = 0
        """Rows that are for all who count, and not settled."""
        self._is_unsettled = False
        """Whether some have been counted that are not."""

    def refresh(self, roster: Roster) -> None:
        """Serve these members from now on; counts have been settled."""
        counted, delivered = roster.take(roster.counting), roster.take(~roster.counting)
        self.members = delivered.members
        self._given = MemberIndex(delivered, self._sides) if len(delivered) else None
        self._counted = MemberIndex(counted, self._sides) if len(counted) else None

    def settle(self) -> None:
        """Bring the counts of the members that only count up to date."""
        counted = self._counted
        if counted is None or not self._is_unsettled:
            return
        self._is_unsettled = False
        counts = counted.index.settle() + self._for_all
        self._for_all = 0
        self._counters.gave(int(counts.sum()))
        for member, count in zip(counted.members, counts.tolist(), strict=True):
            member.found += count

    def give(self, ts: NDArray, refs: Refs) -> None:
        """Pass rows on, which are in time order and not younger than any before."""
        if self._counted is not None:
            self._is_unsettled = True
            if self._counted.takes_all:
                self._for_all += len(ts)
            else:
                ages, leaves, words = self._counted.known(ts, refs)
                self._counted.index.count(0, ages, None, leaves, words)
        given = self._given
        if given is None:
            return
        stored = StoredNow(self._sides)
        if given.takes_all:
            for member in given.members:
                self._emit(member, stored, ts, refs)
            return
        ages, leaves, words = given.known(ts, refs)
        if len(given.members) <= FEW_MEMBERS:
            for at, member in enumerate(given.members):
                self._emit_some(member, stored, ts, refs, taken_by(given, at, ages, leaves, words))
            return
        most = len(given.members)
        room = max(most, min(MAX_ENTRIES, len(ts) * most))
        members, positions = np.empty((2, room), np.int32)
        probed = np.zeros(len(ts), np.uint8)
        start = 0
        while start < len(ts):
            count, start = given.index.report(probed, ages, None, leaves, words, start, members, positions)
            ids, starts, taken = split_by_member(members[:count], positions[:count], most)
            for i, one in enumerate(ids.tolist()):
                self._emit_some(given.members[one], stored, ts, refs, taken[starts[i] : starts[i + 1]])

    def _emit_some(self, member: Member, stored: StoredNow, ts: NDArray, refs: Refs, taken: NDArray) -> None:
        if len(taken) == len(ts):
            self._emit(member, stored, ts, refs)
        elif len(taken):
            self._emit(member, stored, ts[taken], [rows[taken] for rows in refs])

    def _emit(self, member: Member, stored: StoredNow, ts: NDArray, refs: Refs) -> None:
        for rows in batches_of(stored.columns_of(member.node), ts, refs):
            member.found += rows.length
            self._counters.gave(rows.length)
            member.output.put(rows)


def taken_by(index: MemberIndex, at: int, ages: NDArray, leaves: NDArray, words: NDArray) -> NDArray:
    """Positions of the rows that a member takes, by its number."""
    demand = index.demand
    keep = ages < index.sizes[at]
    for leaf, low, high in zip(leaves, demand.low[at], demand.high[at], strict=True):
        keep &= (leaf >= low) & (leaf <= high)
    for word, bits in zip(words, demand.bits[at], strict=True):
        keep &= (word & bits) == bits
    return np.flatnonzero(keep) if len(ages) else NO_ROWS
