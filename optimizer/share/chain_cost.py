"""What the literal chain of slices costs, and the paper's two queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.optimizer.costs.index_cost import direction_costs
from penstock.optimizer.costs.strategy_cost import StrategyCost, counted
from penstock.optimizer.costs.weights import TURN_ROWS, Weights

from .workload import Ends, Probed, Workload, rest_shares


@dataclass(frozen=True, slots=True)
class Given:
    """Members of a chain that are given its pairs: the longer of each one's windows, in seconds; rows that
    slices are given at once; and what that costs beside making a pair.

    turn: of a slice that somebody takes pairs of; taker: for each of them, if there are pairs.
    test: of a pair, for each whose window ends within its slice.
    merge: of a pair, for each who takes pairs of other slices too, among which it is put into order.
    """

    windows_s: NDArray
    turn_rows: float
    turn: float
    taker: float
    test: float
    merge: float

    @classmethod
    def of(cls, windows_s: NDArray, turn_rows: float, weights: Weights) -> Given:
        prices = weights.given_turn, weights.given_taker, weights.given_test, weights.given_merge
        return cls(windows_s, turn_rows, *prices)


def in_chain(
    load: Workload,
    sides: tuple[Probed, Probed],
    weights: Weights,
    ends: Ends | None = None,
    is_delivering: bool = True,
) -> StrategyCost:
    """One operator per slice, probed by nested loops; slices end at the windows of both sides, or at `ends`.

    A row passes the slices up to the longest window, on either side, of the queries it satisfies. Pairs of
    slices that let in more than a query asks for are tested for its condition.
    """
    every = chain_ends(load)
    ends = every if ends is None else ends
    rows = cores = 0.0
    for side in (side.at(np.array([0.0, *ends]), load.horizon_s) for side in sides):
        probers, inserted = side.prober_rate * side.reached[:-1], side.rate * side.needed[:-1]
        state = inserted * np.diff(side.ends)
        found = state * load.selectivity
        probing = direction_costs("scan", probers, inserted, state, found, weights)
        cores += float((probing + probers * found * side.tests[:-1] * weights.route).sum())
        rows += float(state.sum())
    passed = load.left_rate * passages(load, ends, True) + load.right_rate * passages(load, ends, False)
    cores += (load.left_rate + load.right_rate) * weights.row
    cores += passed * weights.slice_row
    if is_delivering:
        longest = np.maximum(load.asked[0].windows_s, load.asked[1].windows_s)
        nodes = np.array([0, *(np.searchsorted(every, ends) + 1)])
        cores += float(giving_costs(load, Given.of(longest, TURN_ROWS, weights), nodes[:-1], nodes[1:]).sum())
    else:
        cores += passed * weights.slice_turn / TURN_ROWS
    return StrategyCost(rows, cores, f"{counted(len(ends), 'slice')}, nested loops")


def passages(load: Workload, ends: Ends, left: bool) -> float:
    """Slices that a row of one side passes, on average."""
    longest = np.maximum(load.asked[0].windows_s, load.asked[1].windows_s)
    reached = np.unique(longest)
    group = reached.searchsorted(longest)
    shares = rest_shares(load.left_pass if left else load.right_pass, group, load.asked[0 if left else 1])
    slices = np.diff(np.searchsorted(ends, reached), prepend=-1)  # up to each of these windows
    return float((shares[:-1] * slices).sum())


def chain_ends(load: Workload) -> Ends:
    """Where the slices of a chain end if none are merged: at every window of either side."""
    return tuple(np.unique(np.concatenate([asked.windows_s for asked in load.asked])).tolist())


def chain_edge_costs(
    load: Workload,
    compare: float,
    route: float,
    system: float,
    apart: float = 0.0,
    turn: float = 0.0,
    given: Given | None = None,
) -> NDArray:
    """Costs [i, j] of one slice operator from node i to node j > i over `chain_ends`; inf elsewhere.

    As in sections 5.2 and 6.2: a male compares with every row of the slice, and once to purge it; a pair is
    routed at `route` for each end inside the slice, and at `apart` if there are any; `system` is C_sys, per
    male. A merged slice keeps and probes all that passes its start. In seconds, or in comparisons if
    compare = route = 1.

    given: those who are not only told how many pairs there are. Slices that none of them takes are worked
    together: `turn` is what one more of these costs per male, and `apart` is paid in them alone.

    The difference of cutting and merging slices i..j is the paper's, but for its system overhead, where it
    counts (j - i + 1) operators less; there are j - i less.
    """
    nodes = np.array([0.0, *chain_ends(load)])
    start, end = np.arange(len(nodes))[:, None], np.arange(len(nodes))[None, :]
    costs = np.zeros((len(nodes), len(nodes)))
    is_counted = np.ones((len(nodes), 1), bool)
    if given is not None:
        is_counted = (nodes >= given.windows_s.max())[:, None]
        costs += giving_costs(load, given, start, end)
    for whole in load.sides:
        males, state = edge_flows(whole.at(nodes, load.horizon_s), start, end)
        below, upto = (whole.windows.searchsorted(nodes, edge) for edge in ("left", "right"))
        inside = np.maximum(below[end] - upto[start], 0)
        pairs = state * load.selectivity * (route * inside + apart * is_counted * (inside > 0))
        costs += males * (compare * (state + 1) + pairs + system + turn * is_counted)
    costs[np.tril_indices(len(nodes))] = math.inf
    return costs


def giving_costs(load: Workload, given: Given, start: NDArray, end: NDArray) -> NDArray:
    """What it costs to give pairs of slices from node `start` to node `end` to those who take them.

    Whose window ends in the first slice takes pairs of no other and need not put them into order: the costs
    of slices are independent of each other all the same (lemma 2).
    """
    nodes = np.array([0.0, *chain_ends(load)])
    sides = [whole.at(nodes, load.horizon_s) for whole in load.sides]
    windows = np.sort(given.windows_s)
    below, upto = (windows.searchsorted(nodes, edge) for edge in ("left", "right"))
    takers = len(windows) - upto  # beyond each node
    inside = np.maximum(below[end] - upto[start], 0)
    flows = [edge_flows(side, start, end) for side in sides]
    found = sum(males * state for males, state in flows) * load.selectivity
    turns = sum(males for males, _ in flows) / given.turn_rows
    costs = turns * given.turn * (takers[start] > 0) + np.minimum(turns, found) * given.taker * takers[start]
    costs = costs + found * given.test * inside
    every = np.arange(len(nodes) - 1)
    between = [males * state for males, state in (edge_flows(side, every, every + 1) for side in sides)]
    upto_node = np.append(0.0, np.cumsum(np.sum(between, axis=0))) * load.selectivity
    taken = np.append(0.0, np.cumsum(np.diff(upto_node) * takers[:-1]))
    merged = np.where(start == 0, upto_node[end] * takers[end], taken[end] - taken[start])
    return np.asarray(costs + given.merge * merged)


def edge_flows(side: Probed, start: NDArray, end: NDArray) -> tuple[NDArray, NDArray]:
    """Of slices between two nodes: males per second that come, and rows that are kept."""
    width = np.maximum(side.ends[end] - side.ends[start], 0.0)
    return (side.prober_rate * side.reached)[start], (side.rate * side.needed)[start] * width


def path_cost(costs: NDArray, nodes: Sequence[int] | NDArray) -> float:
    """Of slices that end at these nodes."""
    return float(sum(costs[i, j] for i, j in pairwise([0, *nodes])))


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
