"""What it costs to run many joins of the same two streams together: rows kept and cores busy, by strategy.

What is asked of the rows of both sides is in workload.py, the literal chain in chain_cost.py.

Costs are in seconds of one core per second of stream, as in cost.py. Delivered pairs cost the same however
they were found. Evaluating predicates is not counted: once per row and distinct predicate, whatever is chosen
(but for `unshared`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.optimizer.costs.index_cost import direction_costs, fixed_cost
from penstock.optimizer.costs.strategy_cost import StrategyCost, counted
from penstock.optimizer.costs.weights import Weights

from .chain_cost import in_chain
from .cheapest_chain import cheapest_chain_by_row, coarsen
from .workload import Ends, Probed, Workload, bounded, rest_shares

MOST_ENDS = 200  # between which the cheapest chain is sought
DEALT_TO = 4  # queries among which pairs are dealt out when that is timed: half the time is for them
MOST_DEALT_TO = 16  # of more, those that take a pair are looked up
MIN_GAIN = 0.1  # of mem-opt's cost that another strategy must save to be preferred: it may keep more rows

STRATEGIES = ("unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain")


# -- indexes and shelves -------------------------------------------------------------------------------


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
    slice_ends: Sequence[float] | None = None,
) -> dict[str, StrategyCost]:
    """What each strategy keeps and costs. kinds: the index on the left's and on the right's rows.

    left_ends, right_ends: ages in seconds at which rows leave under cpu-opt; None: those that cost least.
    names: of the strategies asked for. is_delivering: results are passed on, not only counted.
    slice_ends: the same of a literal chain with merged slices, which is a strategy of its own then.
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
        "chain": lambda: in_chain(load, sides, weights, None, is_delivering),
    }
    costs = {name: forms[name]() for name in names}
    if slice_ends is not None:
        costs["chain-cpu"] = in_chain(load, sides, weights, tuple(slice_ends), is_delivering)
    return {
        name: StrategyCost(cost.state_rows, cost.cores + pairs, cost.note) for name, cost in costs.items()
    }


def strategy(load: Workload, weights: Weights, kinds: tuple[str, str]) -> str:
    """The strategy to choose: mem-opt, which keeps the fewest rows, unless another is clearly cheaper."""
    costs = estimate_strategies(load, weights, kinds)
    names = ("cpu-opt", "unshared", "pull-up", "push-down")
    best = min(names, key=lambda name: costs[name].cores)
    return best if costs[best].cores < (1 - MIN_GAIN) * costs["mem-opt"].cores else "mem-opt"


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

    Calibrated with DEALT_TO queries. Where all ask the same, whatever is found satisfies it. Telling is
    calibrated with different windows, where rows are also kept apart: that is half of it.
    """
    if len(set(zip(*(side.numbers.tolist() for side in load.asked), strict=True))) == 1:
        return 0.0
    pairs = 0.0
    for side in load.sides:
        met = (side.needed[:-1] - side.needed[1:]) * side.looked[1:]
        pairs += side.prober_rate * side.rate * load.selectivity * float(met.sum())
    rates = load.left_rate, load.right_rate
    told = sum(
        rate if len(np.unique(asked.windows_s)) > 1 else rate / 2
        for rate, asked in zip(rates, load.asked, strict=True)
        if len(asked.predicates) > 1
    )
    dealt = pairs * weights.deal * (1 + min(len(load.queries), MOST_DEALT_TO) / DEALT_TO) / 2
    return dealt + told * weights.tell_row
