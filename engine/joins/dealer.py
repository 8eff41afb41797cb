"""Deals the pairs of a join out to a few members that are given them, each looking at bits only.

In:      what the directions of a join have found, each in time order.
Out:     for each member the pairs it takes, in time order.

Which members take a row is settled when the row comes, a bit each, and kept with it. So who takes a pair is
the AND of two rows' bits and of those of its slice of age; pairs that nobody takes are not looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.deal import (
    LABELS,
    TAKERS,
    TS,
    count_takers,
    deal_pairs,
    label_pairs,
    order_runs,
)
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.restoring.in_order import expect, rising, within
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.window import MAX_TS

from .direction import Direction

Dealt = tuple[Member, NDArray, NDArray, NDArray]
"""A member and the times, left references and right references of its pairs."""


class Dealer:
    """For these members."""

    def __init__(self, roster: Roster) -> None:
        self._members = roster.members
        self._ends = [np.unique(sizes) for sizes in roster.sizes]
        bits = np.int64(1) << np.arange(len(roster))
        self._by_age = [
            ((sizes >= ends[:, None]) * bits).sum(axis=1)
            for sizes, ends in zip(roster.sizes, self._ends, strict=True)
        ]
        """By side: the members whose windows reach past none, one, ... of the ends."""

    def deal(self, directions: Sequence[Direction]) -> Iterator[Dealt]:
        """The pairs that may go out now."""
        ends = [one.last_ts for one in directions if not one.done and one.count]
        bound = min(ends, default=MAX_TS)
        labels = np.empty((LABELS, sum(one.pending for one in directions) + 1), np.int64)
        starts = [0]
        for direction in directions:
            if direction.pending:
                starts.append(self._label(direction, bound, labels, starts[-1]))
        count = starts[-1]
        if not count:
            return
        order = np.empty(count, np.int32)
        order_runs(labels[TS], np.array(starts, np.int64), order)
        counts = np.zeros(len(self._members), np.int64)
        count_takers(labels[TAKERS, :count], counts)
        for number, member in enumerate(self._members):
            if counts[number]:
                ts, left, right = (np.empty(counts[number] + 1, np.int64) for _ in range(3))
                deal_pairs(labels, order, number, ts, left, right)
                yield member, ts[:-1], left[:-1], right[:-1]

    def _label(self, direction: Direction, bound: int, labels: NDArray, start: int) -> int:
        """Label what a direction has found, up to a time; where the next run starts."""
        shelf, by, number = direction.shelf, direction.by, direction.side.number
        ends, pos, takers = self._ends[number], shelf.pos, shelf.takers
        ends = ends[ends < shelf.lifetime]  # older rows are gone
        if len(direction.young) != len(ends):
            direction.young = np.full(len(ends), pos.tail, np.int64)
        kept = (NO_ROWS, 0) if takers is None else (takers.data, takers.base)
        direction.at, end = label_pairs(
            (direction.prober, direction.row), direction.at, direction.count, bound,
            (by.ts, by.refs, by.takers), (pos.data, pos.base, pos.end, *kept, direction.base),
            ends, direction.young, self._by_age[number], number == 0, labels, start,
        )  # fmt: skip
        return int(end)

    def _check_restored(self) -> None:
        expect(len(self._ends) == len(self._by_age) == 2 and len(self._members) < 64, "few members")
        for ends, by_age in zip(self._ends, self._by_age, strict=True):
            rising(ends, "ends of windows")
            expect(len(by_age) == len(ends), "members by age")
            within(by_age, 0, 1 << len(self._members), "members by age")
