"""What it costs to run many joins of the same two streams together: rows kept and cores busy, by strategy.

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

Costs are in seconds of one core per second of stream, as in cost.py. Delivered pairs cost the same however
they were found. Evaluating predicates is not counted: once per row and distinct predicate, whatever is chosen
(but for `unshared`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cheapest_chain import cheapest_chain_by_row, coarsen
from .cost import ACCESSES, OURS, Accesses
from .statistics import UNBOUNDED_S
from .weights import Weights

MOST_ENDS = 200  # between which the cheapest chain is sought
DEALT_TO = 4  # queries among which pairs are dealt out when that is timed: half the time is for them
MOST_DEALT_TO = 16  # of more, those that take a pair are looked up
MIN_GAIN = 0.1  # of mem-opt's cost that another strategy must save to be preferred: it may keep more rows
GRID_ROWS = np.concatenate(([0.0], 2 ** np.arange(0, 60.25, 0.25)))  # sizes of index to know the accesses of

STRATEGIES = ("unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain")

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


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """Rows kept on both sides together, cores busy, and of what the strategy is made here."""

    state_rows: float
    cores: float
    note: str


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


# -- one side, probed by the other ---------------------------------------------------------------------


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
        """The same at other ages: 0, then ascending, the last not below the longest window."""
        assert windows[-1] >= self.windows[-1], "expected ends up to the longest window"
        place = self.windows.searchsorted(windows, side="right") - 1
        ends = bounded(windows, horizon_s)
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


# -- indexes and shelves -------------------------------------------------------------------------------


@cache
def accesses_by_rows(kind: str) -> tuple[NDArray, NDArray, Accesses]:
    """Accesses of a fruitless probe and of an update at GRID_ROWS, and what a match adds to a probe."""
    none = [ACCESSES[kind](rows, 0.0, OURS) for rows in GRID_ROWS.tolist()]
    match = ACCESSES[kind](1.0, 1.0, OURS)
    more = Accesses(match.search - none[1].search, 0.0, match.walk - none[1].walk)
    return np.array([a.search for a in none]), np.array([a.update for a in none]), more


def direction_costs(
    kind: str,
    probe_rate: float | NDArray,
    insert_rate: float | NDArray,
    rows: float | NDArray,
    matches: float | NDArray,
    weights: Weights,
) -> NDArray:
    """direction_cost of cost.py over arrays; trees grow by degrees, over a quarter of an octave of rows."""
    searches, updates, match = accesses_by_rows(kind)
    search, update = weights.of(kind)
    rows = np.asarray(rows, np.float64)
    probe = np.interp(rows, GRID_ROWS, searches) * search
    probe = probe + matches * (match.search * search + match.walk * weights.walk(kind))
    return np.asarray(probe_rate * probe + insert_rate * np.interp(rows, GRID_ROWS, updates) * update)


def fixed_cost(kind: str, weights: Weights) -> float:
    """Seconds of a probe that meets nothing."""
    return float(direction_costs(kind, 1.0, 0.0, 0.0, 0.0, weights))


def shelf_costs(
    side: Probed, start: NDArray, end: NDArray, selectivity: float, kind: str, weights: Weights
) -> NDArray:
    """Cores for the shelf of the rows whose lifetime lies above ends[start] and up to ends[end].

    Each row stays until ends[end] and is met by those who look back as far; each probe has a fixed cost, each
    pair found is looked up once. A shelf for nobody's rows is not there.
    """
    share = side.needed[start] - side.needed[end]
    probers = side.kept_prober_rate
    held = side.rate * share * side.ends[end]
    met = side.rate * share * side.looked[end] / max(float(side.reached[0]), 1e-300)
    found = met * selectivity
    rows = met if kind == "scan" else held
    cores = direction_costs(kind, probers, side.rate * share, rows, found, weights)
    cores += probers * (weights.shelf_probe - fixed_cost(kind, weights) + found * weights.route)
    return np.where(share > 0, cores, 0.0)


def shelved(
    side: Probed, nodes: NDArray, selectivity: float, kind: str, weights: Weights
) -> tuple[float, float]:
    """(rows, cores) of one side kept on shelves that end at these positions, the first of which is 0."""
    start, end = nodes[:-1], nodes[1:]
    share = side.needed[start] - side.needed[end]
    cores = float(shelf_costs(side, start, end, selectivity, kind, weights).sum())
    if share.any():  # the first shelf is the index a join has anyway
        cores += side.kept_prober_rate * (fixed_cost(kind, weights) - weights.shelf_probe)
    return side.rate * float((share * side.ends[end]).sum()), cores


def cheapest_nodes(side: Probed, selectivity: float, kind: str, weights: Weights) -> NDArray:
    """Positions at which the shelves of the cheapest chain end, after a 0."""
    every = np.arange(len(side.windows))
    if (side.needed[:-1] == side.needed[0]).all():  # all rows live equally long: one shelf
        return every
    nodes = np.array([0, *coarsen(every[1:].tolist(), MOST_ENDS)])
    costs = shelf_costs(side, nodes[:, None], nodes[None, :], selectivity, kind, weights)
    best = nodes[[0, *cheapest_chain_by_row(len(nodes) - 1, costs)]]
    if len(nodes) < len(every):  # not all were looked at, so all together may be better
        cost, fine = (shelved(side, chain, selectivity, kind, weights)[1] for chain in (best, every))
        best = every if fine <= cost else best
    return best


def cpu_opt_ends(load: Workload, weights: Weights, kinds: tuple[str, str]) -> tuple[Ends, Ends]:
    """The ages in seconds at which rows leave, left and right, that cost least; kinds of index: on each."""
    left, right = (
        tuple(side.windows[cheapest_nodes(side, load.selectivity, kind, weights)[1:]].tolist())
        for side, kind in zip(load.sides, kinds, strict=True)
    )
    return left, right


# -- strategies ----------------------------------------------------------------------------------------


def estimate_strategies(
    load: Workload,
    weights: Weights,
    kinds: tuple[str, str],
    left_ends: Sequence[float] | None = None,
    right_ends: Sequence[float] | None = None,
    names: Sequence[str] = STRATEGIES,
    is_delivering: bool = True,
) -> dict[str, StrategyCost]:
    """What each strategy keeps and costs. kinds: the index on the left's and on the right's rows.

    left_ends, right_ends: ages in seconds at which rows leave under cpu-opt; None: those that cost least.
    names: of the strategies asked for. is_delivering: results are passed on, not only counted.
    """
    sides = load.sides
    fine = [np.arange(len(side.windows)) for side in sides]
    merged = []
    for side, kind, ends in zip(sides, kinds, (left_ends, right_ends), strict=True):
        if ends is None:
            merged.append((side, cheapest_nodes(side, load.selectivity, kind, weights)))
        else:
            chosen = side.at(np.array([0.0, *sorted(set(ends))]), load.horizon_s)
            merged.append((chosen, np.arange(len(chosen.windows))))
    pairs = float(load.alone.pairs.sum()) * weights.pair if is_delivering else 0.0
    forms: dict[str, Callable[[], StrategyCost]] = {
        "unshared": lambda: unshared(load, weights, kinds),
        "pull-up": lambda: pull_up(load, sides, weights, kinds),
        "push-down": lambda: push_down(load, sides, weights, kinds),
        "mem-opt": lambda: in_shelves(load, list(zip(sides, fine, strict=True)), weights, kinds),
        "cpu-opt": lambda: in_shelves(load, merged, weights, kinds),
        "chain": lambda: in_chain(load, sides, weights),
    }
    costs = {name: forms[name]() for name in names}
    return {
        name: StrategyCost(cost.state_rows, cost.cores + pairs, cost.note) for name, cost in costs.items()
    }


def strategy(load: Workload, weights: Weights, kinds: tuple[str, str]) -> str:
    """The strategy to choose: mem-opt, which keeps the fewest rows, unless another is clearly cheaper."""
    costs = estimate_strategies(load, weights, kinds)
    names = ("cpu-opt", "unshared", "pull-up", "push-down")
    best = min(names, key=lambda name: costs[name].cores)
    return best if costs[best].cores < (1 - MIN_GAIN) * costs["mem-opt"].cores else "mem-opt"


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


def joined(
    load: Workload,
    rates: tuple[float | NDArray, float | NDArray],
    windows: tuple[float | NDArray, float | NDArray],
    weights: Weights,
    kinds: tuple[str, str],
) -> tuple[NDArray, NDArray, NDArray]:
    """(rows kept, cores of both directions, pairs per second) of plain joins; all arguments left, right."""
    (left, right), (left_s, right_s) = rates, windows
    cores = direction_costs(kinds[0], right, left, left * left_s, left * left_s * load.selectivity, weights)
    cores += direction_costs(
        kinds[1], left, right, right * right_s, right * right_s * load.selectivity, weights
    )
    pairs = left * right * load.selectivity * (left_s + right_s)
    return np.asarray(left * left_s + right * right_s), cores, np.asarray(pairs)


def unshared(load: Workload, weights: Weights, kinds: tuple[str, str]) -> StrategyCost:
    """One join per query, with its own windows and the rows that satisfy its predicates."""
    alone = load.alone
    rates, windows = (alone.left_rate, alone.right_rate), (alone.left_s, alone.right_s)
    rows, cores, _ = joined(load, rates, windows, weights, kinds)
    taken = len(load.queries) * (load.left_rate + load.right_rate)
    note = f"{counted(len(load.queries), 'join')}, one per query"
    return StrategyCost(float(rows.sum()), float(cores.sum()) + taken * weights.row, note)


def pull_up(
    load: Workload, sides: tuple[Probed, Probed], weights: Weights, kinds: tuple[str, str]
) -> StrategyCost:
    """One join of all rows with the longest windows; every query tests every pair."""
    windows = float(sides[0].ends[-1]), float(sides[1].ends[-1])
    rows, cores, pairs = joined(load, (load.left_rate, load.right_rate), windows, weights, kinds)
    tests = len(load.queries)
    handled = (load.left_rate + load.right_rate) * weights.row + float(pairs) * tests * weights.route
    return StrategyCost(float(rows), float(cores) + handled, f"1 join, {counted(tests, 'test')} of each pair")


def push_down(
    load: Workload, sides: tuple[Probed, Probed], weights: Weights, kinds: tuple[str, str]
) -> StrategyCost:
    """One join per lifetime of the rows of one side, that with more predicates.

    Each join has the rows of that lifetime, and those of the other side that a query with no longer window on
    the first takes: no other can take rows of the part. Those queries test its pairs, unless it is only one.
    Pairs of a query that come from several joins are brought into order: a comparison each, as in equation 2.
    """
    left, right = load.asked
    by_left = len(left.predicates) >= len(right.predicates)
    side = sides[0 if by_left else 1]
    split, other = (left, right) if by_left else (right, left)
    group = side.windows.searchsorted(split.windows_s) - 1
    last = int(group.max())
    other_share = rest_shares(load.right_pass if by_left else load.left_pass, last - group, other)[-2::-1]
    other_s = np.zeros(last + 1)
    np.maximum.at(other_s, group, bounded(other.windows_s, load.horizon_s))
    other_s = np.maximum.accumulate(other_s)
    queries = np.bincount(group).cumsum()
    share = side.needed[:-1] - side.needed[1:]
    parts = np.flatnonzero(share > 0)

    rates = side.rate * share[parts], side.prober_rate * other_share[parts]
    windows = side.ends[1:][parts], other_s[parts]
    if not by_left:
        rates, windows = rates[::-1], windows[::-1]
    rows, cores, pairs = joined(load, rates, windows, weights, kinds)
    tests = np.where(queries[parts] > 1, queries[parts], 0)
    united = load.alone.pairs[len(parts) - parts.searchsorted(group) > 1]
    taken = side.rate + side.prober_rate * len(parts)
    handled = taken * weights.row + float((pairs * tests).sum() + united.sum()) * weights.route
    note = f"{counted(len(parts), 'join')}, {'left' if by_left else 'right'} rows split by lifetime"
    return StrategyCost(float(rows.sum()), float(cores.sum()) + handled, note)


def in_shelves(
    load: Workload, sides: Sequence[tuple[Probed, NDArray]], weights: Weights, kinds: tuple[str, str]
) -> StrategyCost:
    """One join whose rows are kept by lifetime, rounded up to the next of the given ends of each side."""
    found = [
        shelved(side, nodes, load.selectivity, kind, weights)
        for (side, nodes), kind in zip(sides, kinds, strict=True)
    ]
    counts = [int(np.count_nonzero(np.diff(side.needed[nodes]))) for side, nodes in sides]
    cores = sum(cores for _, cores in found) + (load.left_rate + load.right_rate) * weights.row
    note = f"{counted(counts[0], 'shelf', 'shelves')} left, {counts[1]:,} right"
    return StrategyCost(sum(rows for rows, _ in found), cores, note)


def dealing_cores(load: Workload, weights: Weights) -> float:
    """Cores for telling who takes a row, and for dealing out the pairs that one join finds among queries that
    are given them.

    Calibrated with DEALT_TO queries. Where all ask the same, whatever is found satisfies it.
    """
    if len(set(zip(*(side.numbers.tolist() for side in load.asked), strict=True))) == 1:
        return 0.0
    pairs = 0.0
    for side in load.sides:
        met = (side.needed[:-1] - side.needed[1:]) * side.looked[1:]
        pairs += side.prober_rate * side.rate * load.selectivity * float(met.sum())
    rates = load.left_rate, load.right_rate
    told = sum(rate for rate, asked in zip(rates, load.asked, strict=True) if len(asked.predicates) > 1)
    dealt = pairs * weights.deal * (1 + min(len(load.queries), MOST_DEALT_TO) / DEALT_TO) / 2
    return dealt + told * weights.tell_row


def in_chain(load: Workload, sides: tuple[Probed, Probed], weights: Weights) -> StrategyCost:
    """One operator per slice, probed by nested loops; slices end at the windows of both sides.

    A row passes the slices up to the longest window, on either side, of the queries it satisfies. Pairs of
    slices that let in more than a query asks for are tested for its condition.
    """
    ends = chain_ends(load)
    rows = cores = 0.0
    for side in (side.at(np.array([0.0, *ends]), load.horizon_s) for side in sides):
        probers, inserted = side.prober_rate * side.reached[:-1], side.rate * side.needed[:-1]
        state = inserted * np.diff(side.ends)
        found = state * load.selectivity
        probing = direction_costs("scan", probers, inserted, state, found, weights)
        cores += float((probing + probers * found * side.tests[:-1] * weights.route).sum())
        rows += float(state.sum())
    passed = load.left_rate * passages(load, ends, True) + load.right_rate * passages(load, ends, False)
    cores += (load.left_rate + load.right_rate) * weights.row + passed * weights.slice_row
    return StrategyCost(rows, cores, f"{counted(len(ends), 'slice')}, nested loops")


def passages(load: Workload, ends: Ends, left: bool) -> float:
    """Slices that a row of one side passes, on average."""
    longest = np.maximum(load.asked[0].windows_s, load.asked[1].windows_s)
    reached = np.unique(longest)
    group = reached.searchsorted(longest)
    shares = rest_shares(load.left_pass if left else load.right_pass, group, load.asked[0 if left else 1])
    slices = np.diff(np.searchsorted(ends, reached), prepend=-1)  # up to each of these windows
    return float((shares[:-1] * slices).sum())


def counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


# -- the paper's chain and its two queries --------------------------------------------------------------


def chain_ends(load: Workload) -> Ends:
    """Where the slices of a chain end if none are merged: at every window of either side."""
    return tuple(np.unique(np.concatenate([asked.windows_s for asked in load.asked])).tolist())


def chain_edge_costs(
    load: Workload, compare: float, route: float, system: float, apart: float = 0.0
) -> NDArray:
    """Costs [i, j] of one slice operator from node i to node j > i over `chain_ends`; inf elsewhere.

    As in sections 5.2 and 6.2: a male compares with every row of the slice, and once to purge it; a pair is
    routed at `route` for each end inside the slice, and at `apart` if there are any; `system` is C_sys, per
    male. A merged slice keeps and probes all that passes its start. In seconds, or in comparisons if
    compare = route = 1.

    The difference of cutting and merging slices i..j is the paper's, but for its system overhead, where it
    counts (j - i + 1) operators less; there are j - i less.
    """
    nodes = np.array([0.0, *chain_ends(load)])
    costs = np.zeros((len(nodes), len(nodes)))
    for whole in load.sides:
        side = whole.at(nodes, load.horizon_s)
        width = np.maximum(side.ends[None, :] - side.ends[:, None], 0.0)
        state = (side.rate * side.needed)[:, None] * width
        males = (side.prober_rate * side.reached)[:, None]
        below, upto = (whole.windows.searchsorted(nodes, edge) for edge in ("left", "right"))
        inside = np.maximum(below[None, :] - upto[:, None], 0)
        pairs = state * load.selectivity * (route * inside + apart * (inside > 0))
        costs += males * (compare * (state + 1) + pairs + system)
    costs[np.tril_indices(len(nodes))] = math.inf
    return costs


def paper_costs(rate: float, w1: float, w2: float, ss: float, sj: float) -> dict[str, tuple[float, float]]:
    """(Cm in tuples, Cp in comparisons per second) by equations 1, 2 and 3, in the order they are printed.

    Two queries with windows w1 < w2, the second with a selection on A that passes the share `ss`; both
    streams at `rate`, join selectivity `sj`.
    """
    square = rate * rate
    return {
        "pull-up": (  # (1): probe, purge, route, select
            2 * rate * w2,
            2 * square * w2 + 2 * rate + 2 * square * w2 * sj + 2 * square * w2 * sj,
        ),
        "push-down": (  # (2): split, probe both joins, purge, route, unite
            (2 - ss) * rate * w1 + (1 + ss) * rate * w2,
            rate + 2 * (1 - ss) * square * w1 + 2 * ss * square * w2 + 3 * rate
            + 2 * ss * square * w2 * sj + 2 * square * w1 * sj,
        ),
        "state-slice": (  # (3): probe, select, probe, purge, unite, select
            2 * rate * w1 + (1 + ss) * rate * (w2 - w1),
            2 * square * w1 + rate + 2 * square * ss * (w2 - w1) + rate + 2 * rate + 2 * square * sj * w1,
        ),
    }  # fmt: skip
