"""A common join as the cost model of sharing sees it: its queries, rates and shares, expected or measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expression import Expression, conjuncts
from penstock.engine.member import Member
from penstock.engine.operators.join import WindowJoin
from penstock.engine.operators.side import Side
from penstock.engine.window import FOREVER

from .sharing_cost import IndependentShares, QueryLoad, Workload
from .statistics import DEFAULT_PASS, MIN_MEASURED_ROWS, JoinEstimate

Ends = tuple[tuple[int, ...] | None, tuple[int, ...] | None]


class MeasuredShares(IndependentShares):
    """Shares of rows by how long they live, as they came; of single predicates, as they are expected."""

    def __init__(
        self, shares: Mapping[Hashable, float], groups: Mapping[int, set[Hashable]], lifetimes: NDArray
    ) -> None:
        """groups: predicates by the window of their queries; lifetimes: of rows that came."""
        super().__init__(shares)
        windows = sorted(groups)
        self._groups = [groups[window] for window in windows]
        self._longer = np.array([np.mean(lifetimes > start) for start in [0, *windows[:-1]]])

    def of_rest(self, groups: Sequence[Collection[Hashable]]) -> NDArray:
        if [set(group) for group in groups] != self._groups:
            return super().of_rest(groups)
        return np.where([None in group for group in groups], 1.0, self._longer)


def is_selective(members: Sequence[Member]) -> bool:
    """Whether queries differ in which rows of a stream they need."""
    return any(len({member.predicates[side] for member in members}) > 1 for side in (0, 1))


def seconds(size: int, side: Side, rate: float) -> float:
    """A window in seconds; one of rows by the stream's rate."""
    if size == FOREVER:
        return math.inf
    return size / rate if side.by_place else size / 1e6


def workload_of(members: Sequence[Member], sides: Sequence[Side], estimate: JoinEstimate) -> Workload:
    """The load of a common join at the rates and the selectivity of an estimate."""
    rates = estimate.left.rate, estimate.right.rate
    queries = tuple(
        QueryLoad(
            member.name,
            *(seconds(member.size(n), sides[n], rates[n]) for n in (0, 1)),
            *(member.predicates[n] for n in (0, 1)),
        )
        for member in members
    )
    shares = [shares_of(members, side) for side in sides]
    return Workload(queries, *rates, estimate.selectivity, shares[0], shares[1])


def shares_of(members: Sequence[Member], side: Side) -> IndependentShares:
    """Of a side's rows, the share that satisfies predicates: as measured, where enough rows have come."""
    predicates = {member.predicates[side.number] for member in members}
    expected: dict[Hashable, float] = {
        predicate: expected_share(predicate) for predicate in predicates if predicate is not None
    }
    if len(side.lifetimes) < MIN_MEASURED_ROWS or side.rows_in < MIN_MEASURED_ROWS:
        return IndependentShares(expected)
    groups: dict[int, set[Hashable]] = {}
    for member in members:
        predicate = member.predicates[side.number]
        groups.setdefault(member.size(side.number), set()).add(predicate)
    return MeasuredShares(expected, groups, side.lifetimes)


def expected_share(predicate: Expression) -> float:
    return DEFAULT_PASS ** len(conjuncts(predicate))


def ends_in_units(
    ends_s: tuple[Sequence[float], Sequence[float]], join: WindowJoin, estimate: JoinEstimate
) -> Ends:
    """Ends in seconds as the windows they stand for."""
    rates = estimate.left.rate, estimate.right.rate
    found: list[tuple[int, ...]] = []
    for side, ends, rate in zip(join.sides, ends_s, rates, strict=True):
        windows = {seconds(size, side, rate): size for size in {m.size(side.number) for m in join.members}}
        found.append(tuple(windows[end] for end in ends))
    return found[0], found[1]


def ends_in_seconds(
    ends: Ends, join: WindowJoin, estimate: JoinEstimate
) -> tuple[Sequence[float], Sequence[float]]:
    """The opposite; where rows leave at every window, every window."""
    rates = estimate.left.rate, estimate.right.rate
    found: list[list[float]] = []
    for side, own, rate in zip(join.sides, ends, rates, strict=True):
        windows = sorted({member.sizes[side.number] for member in join.members})
        found.append([seconds(end, side, rate) for end in (windows if own is None else own)])
    return found[0], found[1]


def still_there(ends: Ends, members: Sequence[Member]) -> Ends:
    """Ends without those at windows that no query has any more; always with the longest window."""
    found: list[tuple[int, ...] | None] = []
    for side, own in enumerate(ends):
        windows = {member.sizes[side] for member in members}
        kept = None if own is None else tuple(sorted({*windows.intersection(own), max(windows)}))
        found.append(kept)
    return found[0], found[1]
