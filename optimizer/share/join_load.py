"""A common join as the cost model of sharing sees it: its queries, rates and shares, expected or measured."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Expression, conjuncts
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.statistics import DEFAULT_PASS, MIN_MEASURED_ROWS, JoinEstimate

from .workload import Asked, IndependentShares, QueryLoad, Workload

Ends = tuple[tuple[int, ...] | None, ...]

MOST_SAMPLED = 64  # queries of which it is looked up what share of the sampled rows each takes


class MeasuredShares(IndependentShares):
    """Shares of rows by how long they live, as they came; of single predicates, as they are expected."""

    def __init__(self, shares: Mapping[Hashable, float], sizes: NDArray, lifetimes: NDArray) -> None:
        """sizes: windows of the queries (int64); lifetimes: of rows that came."""
        super().__init__(shares)
        windows, self._group = np.unique(sizes, return_inverse=True)
        starts = np.concatenate(([0], windows[:-1]))
        self._longer = 1 - np.sort(lifetimes).searchsorted(starts, side="right") / len(lifetimes)

    def of_rest(self, group: NDArray, asked: Asked) -> NDArray:
        if not np.array_equal(group, self._group):
            return super().of_rest(group, asked)
        if None not in asked.predicates:
            return self._longer
        up_to = group[asked.numbers == asked.predicates.index(None)].max()
        return np.where(np.arange(len(self._longer)) <= up_to, 1.0, self._longer)


def seconds(size: int, by_rows: bool, rate: float) -> float:
    """A window in seconds; one of rows by the stream's rate."""
    if size == FOREVER:
        return math.inf
    return size / rate if by_rows else size / 1e6


def is_by_rows(members: Sequence[Member], number: int) -> bool:
    """Whether the windows of a side are ROWS windows, and ages are counted in rows."""
    return all(member.by_rows[number] for member in members)


def windows_in_seconds(members: Sequence[Member], number: int, rate: float) -> list[float]:
    """The members' windows on a side."""
    is_in_rows = is_by_rows(members, number)
    sizes = [member.size(number) for member in members]
    known = {size: seconds(size, is_in_rows, rate) for size in set(sizes)}
    return [known[size] for size in sizes]


def workload_of(
    members: Sequence[Member],
    sides: Sequence[Side],
    estimate: JoinEstimate,
    apart: Sequence[WindowJoin] = (),
) -> Workload:
    """The load of a common join at the rates and the selectivity of an estimate.

    apart: the joins of its members, if each has one: what these let in tells the shares.
    """
    shares = [
        shares_of(members, side, [join.sides[number] for join in apart]) for number, side in enumerate(sides)
    ]
    rates = estimate.left.rate, estimate.right.rate
    left_s, right_s = (windows_in_seconds(members, number, rate) for number, rate in enumerate(rates))
    queries = tuple(
        QueryLoad(member.name, left, right, *member.predicates)
        for member, left, right in zip(members, left_s, right_s, strict=True)
    )
    return Workload(queries, *rates, estimate.selectivity, shares[0], shares[1])


def shares_of(members: Sequence[Member], side: Side, apart: Sequence[Side]) -> IndependentShares:
    """Of a side's rows, the share that satisfies predicates: as measured, where enough rows have come.

    apart: the same side of joins that members have to themselves.
    """
    expected = expected_shares(members, side.number)
    if len(members) <= MOST_SAMPLED:
        expected |= sampled_shares(members, side)
    for own in apart:
        come = own.seen.rows_in - own.seen.rows_before[0]
        if own.terms.predicate in expected and come >= MIN_MEASURED_ROWS:
            expected[own.terms.predicate] = (own.seen.rows_kept - own.seen.rows_before[1] + 0.5) / (come + 1)
    if len(side.seen.lifetimes) < MIN_MEASURED_ROWS or side.seen.rows_in < MIN_MEASURED_ROWS:
        return IndependentShares(expected)
    sizes = np.array([member.sizes[side.number] for member in members], np.int64)
    return MeasuredShares(expected, sizes, side.seen.lifetimes)


def expected_shares(members: Sequence[Member], number: int) -> dict[Hashable, float]:
    """Of the rows of a side of which nothing is known, the share that satisfies each predicate."""
    predicates = {member.predicates[number] for member in members}
    return {predicate: expected_share(predicate) for predicate in predicates if predicate is not None}


def sampled_shares(members: Sequence[Member], side: Side) -> dict[Hashable, float]:
    """The same of those that came last, as far as something is known of them."""
    known = [member for member in members if side.terms.lineage.knows(member.predicates[side.number])]
    return measured_shares(known, side, *side.seen.sample) if known and side.seen.sample is not None else {}


def measured_shares(
    members: Sequence[Member], side: Side, leaves: NDArray, words: NDArray
) -> dict[Hashable, float]:
    """Of rows with these tags, the share that satisfies each member's predicate; never quite none."""
    demands = [side.demand_of(member) for member in members]
    low, high, bits = (
        np.concatenate([getattr(one, name) for one in demands]) for name in ("low", "high", "bits")
    )
    fits = ((leaves >= low[:, :, None]) & (leaves <= high[:, :, None])).all(axis=1)
    fits &= ((words & bits[:, :, None]) == bits[:, :, None]).all(axis=1)
    found = (fits.sum(axis=1) + 0.5) / (leaves.shape[1] + 1)
    pairs = zip(members, found.tolist(), strict=True)
    return {
        member.predicates[side.number]: share for member, share in pairs if member.predicates[side.number]
    }


@lru_cache(maxsize=16_384)
def expected_share(predicate: Expression) -> float:
    return DEFAULT_PASS ** len(conjuncts(predicate))


def ends_in_units(
    ends_s: tuple[Sequence[float], Sequence[float]], join: WindowJoin, estimate: JoinEstimate
) -> Ends:
    """Ends in seconds as the windows they stand for."""
    rates = estimate.left.rate, estimate.right.rate
    found: list[tuple[int, ...]] = []
    for number, (ends, rate) in enumerate(zip(ends_s, rates, strict=True)):
        is_in_rows = is_by_rows(join.members, number)
        sizes = {member.size(number) for member in join.members}
        windows = {seconds(size, is_in_rows, rate): size for size in sizes}
        found.append(tuple(windows[end] for end in ends))
    return found[0], found[1]


def ends_in_seconds(
    ends: Ends, join: WindowJoin, estimate: JoinEstimate
) -> tuple[Sequence[float], Sequence[float]]:
    """The opposite; where rows leave at every window, every window."""
    rates = estimate.left.rate, estimate.right.rate
    found: list[list[float]] = []
    for number, (own, rate) in enumerate(zip(ends, rates, strict=True)):
        windows = sorted(set(windows_in_seconds(join.members, number, rate)))
        if own is not None:
            is_in_rows = is_by_rows(join.members, number)
            chosen = {seconds(end, is_in_rows, rate) for end in own}
            windows = sorted({*chosen, windows[-1]})
        found.append(windows)
    return found[0], found[1]


def still_there(ends: Ends, roster: Roster) -> Ends:
    """Ends without those at windows that no query has any more; always with the longest one."""
    found: list[tuple[int, ...] | None] = []
    for own, windows in zip(ends, roster.sizes, strict=True):
        if own is None:
            found.append(None)
        else:
            kept = np.array(own, np.int64)[np.isin(own, windows)]
            found.append(tuple(np.union1d(kept, windows.max()).tolist()))
    return found[0], found[1]
