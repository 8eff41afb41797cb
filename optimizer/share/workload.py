"""Many joins of the same two streams as a load: what queries ask, and what that means for rows of each side.

The queries have the condition in common; each has its own windows and its own selections (Wang,
Rundensteiner, Ganguly, Bhatnagar: State-Slice, VLDB 2006). A window says how long rows of that side are met
by rows of the other. Of one side, these are known at every age at which a window ends:

    share of    1 |######                       needed: of its rows, those some query needs beyond the age
    its rows      |######......                 a row's lifetime: the age up to which it is needed
                  |######......:::::::::
                  +-----|-----|---------|--> age
                  0    b1    b2        b3       b1 < b2 < b3: the distinct windows on this side

and in the same way `reached`: of the other side's rows, those that look back further than the age, which is
no further than the longest window of the queries they satisfy themselves.

"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.optimizer.costs.statistics import UNBOUNDED_S

Share = Callable[[frozenset[Hashable]], float]
Ends = tuple[float, ...]


class QueryLoad(NamedTuple):
    """A query: its windows in seconds, math.inf if unbounded; its predicates, None where it has none."""

    name: str
    left_window_s: float
    right_window_s: float
    left_predicate: Hashable = None
    right_predicate: Hashable = None


class Asked(NamedTuple):
    """What queries ask of one side: windows float64[M]; predicates, the distinct ones; numbers int64[M]."""

    windows_s: NDArray
    predicates: tuple[Hashable, ...]
    numbers: NDArray


@dataclass(frozen=True)
class Workload:
    """Queries that join the same streams; rates in rows per second.

    selectivity: share of all pairs that satisfy the condition.
    left_pass, right_pass: of a stream's rows, the share that satisfies at least one of a set of predicates;
    never asked of a set with None in it, which all rows satisfy. `independent` makes one.
    """

    queries: tuple[QueryLoad, ...]
    left_rate: float
    right_rate: float
    selectivity: float
    left_pass: Share
    right_pass: Share

    def __post_init__(self) -> None:
        assert self.queries, "expected at least one query"
        for asked in self.asked:
            at = int(asked.windows_s.argmin())
            assert asked.windows_s[at] > 0, f"{self.queries[at].name} has an empty window"

    @cached_property
    def asked(self) -> tuple[Asked, Asked]:
        """What is asked of the left and of the right, side by side."""
        _, left_s, right_s, left, right = zip(*self.queries, strict=True)
        return asked_of(left_s, left), asked_of(right_s, right)

    @cached_property
    def sides(self) -> tuple[Probed, Probed]:
        """The left as the right's rows meet it, and the right as the left's do."""
        return probed_side(self, 0), probed_side(self, 1)

    @cached_property
    def alone(self) -> Alone:
        """Each query by itself."""
        return each_alone(self)

    @cached_property
    def horizon_s(self) -> float:
        """What to reckon with for an unbounded window: never less than for a bounded one."""
        windows = np.concatenate([asked.windows_s for asked in self.asked])
        return float(windows[windows < math.inf].max(initial=UNBOUNDED_S))


def asked_of(windows_s: Sequence[float], predicates: Sequence[Hashable]) -> Asked:
    known: dict[Hashable, int] = {}
    numbers = [known.setdefault(predicate, len(known)) for predicate in predicates]
    return Asked(np.array(windows_s, np.float64), tuple(known), np.array(numbers, np.int64))


class IndependentShares:
    """Each predicate is satisfied by its share of the rows, whatever others they satisfy."""

    def __init__(self, shares: Mapping[Hashable, float]) -> None:
        for predicate, share in shares.items():
            assert 0 <= share <= 1, f"expected the share of rows that satisfy {predicate}, found {share}"
        self._shares = shares

    def __call__(self, predicates: frozenset[Hashable]) -> float:
        if None in predicates:
            return 1.0
        return 1.0 - math.prod(1.0 - self._shares[predicate] for predicate in predicates)

    def of_each(self, predicates: Sequence[Hashable]) -> NDArray:
        """The shares of single predicates."""
        return np.array([1.0 if predicate is None else self._shares[predicate] for predicate in predicates])

    def of_rest(self, group: NDArray, asked: Asked) -> NDArray:
        """For each group of queries, the share that satisfies a predicate of it or of a later one."""
        last = np.zeros(len(asked.predicates), np.int64)  # the last group that asks for a predicate
        np.maximum.at(last, asked.numbers, group)
        none = np.ones(int(group.max()) + 1)  # share that satisfies nothing of the group's
        np.multiply.at(none, last, 1.0 - self.of_each(asked.predicates))
        return 1.0 - np.cumprod(none[::-1])[::-1]


def independent(shares: Mapping[Hashable, float]) -> IndependentShares:
    """A left_pass or right_pass from the share of each predicate alone.

    >>> independent({"x > 1": 0.5, "y > 1": 0.5})(frozenset({"x > 1", "y > 1"}))
    0.75
    """
    return IndependentShares(shares)


def rest_shares(share_of: Share, group: NDArray, asked: Asked) -> NDArray:
    """For each group, the share of rows that satisfy a predicate of it or of a later one; then 0.

    group: int64[M], the group of each query; none is empty.
    """
    out = np.ones(int(group.max()) + 2)
    out[-1] = 0.0
    if isinstance(share_of, IndependentShares):
        out[:-1] = share_of.of_rest(group, asked)
    else:
        groups = grouped(group, [asked.predicates[number] for number in asked.numbers.tolist()])
        known: frozenset[Hashable] = frozenset()
        for place in range(len(groups) - 1, -1, -1):
            if None in groups[place]:
                break
            grown = known.union(groups[place])
            out[place] = out[place + 1] if len(grown) == len(known) else share_of(grown)
            known = grown
    # measured shares may contradict each other: a greater set is satisfied by no fewer rows
    return np.minimum(np.maximum.accumulate(out[::-1])[::-1], 1.0)


@dataclass(frozen=True, slots=True)
class Probed:
    """One side of the join as the other's rows meet it; arrays by position in `windows`.

    rate, prober_rate: rows per second of this side and of the other, before any selection.
    windows: 0, then the distinct windows, ascending; `ends`: the same with a number for an unbounded one.
    needed, reached: as in the picture above, just beyond the age; 0 at the last.
    looked: seconds that a row of the other side looks back up to the age, on average over all of them.
    tests: conditions that a pair of a greater age is tested for, where no row is kept beyond its lifetime.
    """

    rate: float
    prober_rate: float
    windows: NDArray
    ends: NDArray
    needed: NDArray
    reached: NDArray
    looked: NDArray
    tests: NDArray

    @property
    def kept_prober_rate(self) -> float:
        """Rows per second of the other side that some query takes."""
        return self.prober_rate * float(self.reached[0])

    def at(self, windows: NDArray, horizon_s: float) -> Probed:
        """The same at other ages: 0, then ascending, the last not below the longest window.

        Ages beyond that end with it: slices of a chain go up to the longest window of either side, and hold
        no row of a side that all of its own windows have left.
        """
        longest = self.windows[-1]
        assert windows[-1] >= longest, "expected ends up to the longest window"
        place = self.windows.searchsorted(windows, side="right") - 1
        ends = bounded(np.minimum(windows, longest), horizon_s)
        looked = np.interp(ends, self.ends, self.looked)
        return Probed(
            self.rate, self.prober_rate, windows, ends,
            self.needed[place], self.reached[place], looked, self.tests[place],
        )  # fmt: skip


def bounded(windows: NDArray, horizon_s: float) -> NDArray:
    """Windows with a number for the unbounded one."""
    finite = windows[np.isfinite(windows)]
    return np.where(np.isfinite(windows), windows, max(horizon_s, float(finite.max(initial=0.0))))


def probed_side(load: Workload, side: int) -> Probed:
    """Side 0 or 1 as the other's rows meet it."""
    own, other = load.asked[side], load.asked[1 - side]
    rates, passes = (load.left_rate, load.right_rate), (load.left_pass, load.right_pass)
    distinct, group = np.unique(own.windows_s, return_inverse=True)
    needed, reached = rest_shares(passes[side], group, own), rest_shares(passes[1 - side], group, other)
    windows = np.concatenate(([0.0], distinct))
    ends = bounded(windows, load.horizon_s)
    looked = np.concatenate(([0.0], np.cumsum(reached[:-1] * np.diff(ends))))
    tests = tests_of_rest(group, own, other)
    return Probed(rates[side], rates[1 - side], windows, ends, needed, reached, looked, tests)


def tests_of_rest(group: NDArray, own: Asked, other: Asked) -> NDArray:
    """For each group, the conditions on pairs that queries of it or of a later one have; then 0."""
    pairs, inverse = np.unique(own.numbers * len(other.predicates) + other.numbers, return_inverse=True)
    last = np.zeros(len(pairs), np.int64)
    np.maximum.at(last, inverse, group)
    asked = np.bincount(last, minlength=int(group.max()) + 1)[::-1].cumsum()[::-1]
    # where all that are left ask the same, whatever is kept satisfies it
    tests = np.where(asked == 1, 0, asked)
    if None in own.predicates and None in other.predicates:
        plain = own.predicates.index(None) * len(other.predicates) + other.predicates.index(None)
        up_to = last[pairs == plain].max(initial=-1) + 1
        tests[:up_to] -= asked[:up_to] > 1
    return np.append(tests, 0)


def grouped(group: NDArray, predicates: Sequence[Hashable]) -> list[set[Hashable]]:
    """The predicates of each group of queries."""
    out: list[set[Hashable]] = [set() for _ in range(int(group.max()) + 1)]
    for place, predicate in zip(group.tolist(), predicates, strict=True):
        out[place].add(predicate)
    return out


@dataclass(frozen=True, slots=True)
class Alone:
    """Each query by itself, an entry each: rates of the rows it takes, its windows, its pairs per second."""

    left_rate: NDArray
    right_rate: NDArray
    left_s: NDArray
    right_s: NDArray
    pairs: NDArray


def each_alone(load: Workload) -> Alone:
    (left, left_s), (right, right_s) = (
        (rate * shares_of_each(share_of, asked), bounded(asked.windows_s, load.horizon_s))
        for rate, share_of, asked in zip(
            (load.left_rate, load.right_rate), (load.left_pass, load.right_pass), load.asked, strict=True
        )
    )
    return Alone(left, right, left_s, right_s, left * right * load.selectivity * (left_s + right_s))


def shares_of_each(share_of: Share, asked: Asked) -> NDArray:
    """For each query, the share of a side's rows that satisfy its predicate."""
    if isinstance(share_of, IndependentShares):
        return share_of.of_each(asked.predicates)[asked.numbers]
    shares = [1.0 if one is None else share_of(frozenset((one,))) for one in asked.predicates]
    return np.array(shares)[asked.numbers]
