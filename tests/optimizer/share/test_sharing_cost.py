"""The cost of sharing joins against the paper's equations and against counting row by row; the best chain."""

from __future__ import annotations

import doctest
import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.optimizer.costs.cost import ACCESSES, Direction, direction_cost
from penstock.optimizer.costs.cost import OURS as LAYOUT
from penstock.optimizer.costs.index_cost import direction_costs
from penstock.optimizer.costs.statistics import UNBOUNDED_S
from penstock.optimizer.costs.weights import SHIPPED, Weights, read
from penstock.optimizer.share import cheapest_chain as chain_module
from penstock.optimizer.share import workload
from penstock.optimizer.share.chain_cost import chain_edge_costs, chain_ends, in_chain, paper_costs
from penstock.optimizer.share.cheapest_chain import cheapest_chain, cheapest_chain_by_row, coarsen
from penstock.optimizer.share.sharing_cost import cpu_opt_ends, estimate_strategies, shelf_costs, strategy
from penstock.optimizer.share.workload import QueryLoad, Workload, independent

OURS = read(SHIPPED)
NOTHING = Weights(**{f.name: 0.0 for f in fields(Weights) if f.name != "machine"})
HASH = ("hash", "hash")
SCAN = ("scan", "scan")
EVERY = independent({})


def only(**weights: float) -> Weights:
    """Nothing costs anything but this: costs become counts."""
    return replace(NOTHING, **weights)


def plain(windows: list[float], rate: float, selectivity: float) -> Workload:
    """Queries without selections, the same window on both sides."""
    queries = tuple(QueryLoad(f"q{w}", w, w) for w in windows)
    return Workload(queries, rate, rate, selectivity, EVERY, EVERY)


def two_queries(rate: float, w1: float, w2: float, ss: float, sj: float) -> Workload:
    """The setting of the paper's section 3."""
    queries = (QueryLoad("q1", w1, w1), QueryLoad("q2", w2, w2, "high"))
    return Workload(queries, rate, rate, sj, independent({"high": ss}), EVERY)


# -- the paper's equations ------------------------------------------------------------------------------

GRID = list(itertools.product((0.1, 0.5, 0.9), (0.0, 0.2, 0.8, 1.0), (0.025, 0.4)))  # rho, Ss, Sj


@pytest.mark.parametrize(("rho", "ss", "sj"), GRID)
def test_state_is_the_papers(rho: float, ss: float, sj: float) -> None:
    """Cm of equations 1, 2 and 3."""
    rate, w2 = 40.0, 30.0
    printed = paper_costs(rate, rho * w2, w2, ss, sj)
    ours = estimate_strategies(two_queries(rate, rho * w2, w2, ss, sj), OURS, SCAN)
    assert ours["pull-up"].state_rows == pytest.approx(printed["pull-up"][0])
    # with nothing selected the second part is empty, and so not there; with all selected the first
    if 0 < ss < 1:
        assert ours["push-down"].state_rows == pytest.approx(printed["push-down"][0])
    assert ours["mem-opt"].state_rows == pytest.approx(printed["state-slice"][0])
    assert ours["chain"].state_rows == pytest.approx(printed["state-slice"][0])


@pytest.mark.parametrize(("rho", "ss", "sj"), GRID)
def test_savings_follow(rho: float, ss: float, sj: float) -> None:
    """Equation 4, which leaves out what does not grow with the square of the rate."""
    costs = paper_costs(1e9, rho * 30, 30, ss, sj)
    up, down, ours = (np.array(costs[name]) for name in ("pull-up", "push-down", "state-slice"))
    memory, processor = (up - ours) / up
    assert memory == pytest.approx((1 - rho) * (1 - ss) / 2, abs=1e-9)
    assert processor == pytest.approx(
        ((1 - rho) * (1 - ss) + (2 - rho) * sj) / (1 + 2 * sj), rel=1e-6, abs=1e-9
    )
    memory, processor = (down - ours) / down
    assert memory == pytest.approx(rho / (1 + 2 * rho + (1 - rho) * ss))
    assert processor == pytest.approx(
        ss * sj / (rho * (1 - ss) + ss + ss * sj + rho * sj), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize(("rho", "ss", "sj"), GRID)
def test_comparisons_are_the_papers(rho: float, ss: float, sj: float) -> None:
    """Terms of Cp that grow with the square of the rate: those of testing pairs, and those of probing."""
    rate, w2 = 40.0, 30.0
    w1 = rho * w2
    load = two_queries(rate, w1, w2, ss, sj)
    tests = estimate_strategies(load, only(route=1.0), SCAN)
    assert tests["pull-up"].cores == pytest.approx(4 * rate**2 * w2 * sj)
    assert tests["chain"].cores == pytest.approx(2 * rate**2 * w1 * sj)
    probes = estimate_strategies(load, only(scan_search=1.0), SCAN)
    start = LAYOUT.scan_start * rate
    assert probes["pull-up"].cores == pytest.approx(2 * rate**2 * w2 + 2 * start)
    expected = 2 * rate**2 * (w1 + ss * (w2 - w1))
    assert probes["chain"].cores == pytest.approx(expected + (3 + ss) * start)
    assert probes["mem-opt"].cores == pytest.approx(expected + 2 * start)
    if 0 < ss < 1:
        expected = 2 * rate**2 * ((1 - ss) * w1 + ss * w2)
        assert probes["push-down"].cores == pytest.approx(expected + 3 * start)


@pytest.mark.parametrize("windows", [(5, 10, 30), (10, 20, 30), (20, 25, 30)])
@pytest.mark.parametrize("ss", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("sj", [0.025, 0.1, 0.4])
def test_strategies_are_ordered_as_in_the_experiments(windows: tuple, ss: float, sj: float) -> None:
    """Section 7.2: three queries, two with the same selection; the chain keeps least and costs least."""
    w1, w2, w3 = windows
    queries = (QueryLoad("1", w1, w1), QueryLoad("2", w2, w2, "high"), QueryLoad("3", w3, w3, "high"))
    load = Workload(queries, 2_000, 2_000, sj, independent({"high": ss}), EVERY)
    # as the paper counts: a comparison is a comparison
    counts = estimate_strategies(load, only(scan_search=1.0, scan_update=1.0, route=1.0, slice_row=1.0), SCAN)
    costs = estimate_strategies(load, OURS, SCAN)
    for name in ("pull-up", "push-down"):
        assert counts["chain"].cores < counts[name].cores
        assert counts["mem-opt"].cores < counts[name].cores
        assert costs["mem-opt"].cores < costs[name].cores
    for name in ("unshared", "pull-up", "push-down"):
        assert costs["mem-opt"].state_rows < costs[name].state_rows
    assert counts["push-down"].cores < counts["pull-up"].cores
    assert costs["chain"].state_rows == pytest.approx(costs["mem-opt"].state_rows)


# -- counting row by row ----------------------------------------------------------------------------------

PREDICATES = (None, "p", "q", "r")


@st.composite
def loads(draw: st.DrawFn, most: int = 5, least_share: float = 0.0) -> Workload:
    window = st.sampled_from([1.0, 2.0, 2.5, 7.0, 30.0, 5_000.0, math.inf])
    queries = tuple(
        QueryLoad(str(n), draw(window), draw(window), *(draw(st.sampled_from(PREDICATES)) for _ in "ab"))
        for n in range(draw(st.integers(1, most)))
    )
    share = st.sampled_from([s for s in (0.0, 0.1, 0.5, 0.9, 1.0) if s >= least_share])
    passes = [independent({p: draw(share) for p in PREDICATES if p is not None}) for _ in "ab"]
    rates = [draw(st.sampled_from([0.5, 10.0, 300.0])) for _ in "ab"]
    return Workload(queries, *rates, draw(st.sampled_from([0.0, 0.01, 1.0])), *passes)


def kinds_of_rows(load: Workload, right: bool) -> Iterator[tuple[float, set[Hashable]]]:
    """Every combination of predicates a row may satisfy, and the share of the rows that do."""
    share_of = load.right_pass if right else load.left_pass
    predicates = [p for p in PREDICATES if p is not None]
    for truth in itertools.product((False, True), repeat=len(predicates)):
        share = 1.0
        for predicate, is_true in zip(predicates, truth, strict=True):
            one = share_of(frozenset((predicate,)))
            share *= one if is_true else 1 - one
        yield share, {None, *itertools.compress(predicates, truth)}


class Naive:
    """One side of a load, counted by going through the kinds of rows of both."""

    def __init__(self, load: Workload, right: bool, least_s: float = UNBOUNDED_S) -> None:
        own, other = ("right", "left") if right else ("left", "right")
        finite = [w for q in load.queries for w in (q.left_window_s, q.right_window_s) if w < math.inf]
        self.unbounded_s = max([least_s, *finite])
        self.load = load
        self.rate, self.other_rate = (
            (load.right_rate, load.left_rate) if right else (load.left_rate, load.right_rate)
        )
        self.queries = [
            (getattr(q, f"{own}_window_s"), getattr(q, f"{own}_predicate"), getattr(q, f"{other}_predicate"))
            for q in load.queries
        ]
        self.rows = list(kinds_of_rows(load, right))
        self.probers = list(kinds_of_rows(load, not right))

    def seconds(self, window: float) -> float:
        return self.unbounded_s if window == math.inf else window

    def lifetime(self, truth: set[Hashable]) -> float:
        return max((w for w, p, _ in self.queries if p in truth), default=0.0)

    def reach(self, truth: set[Hashable]) -> float:
        return max((w for w, _, p in self.queries if p in truth), default=0.0)

    def kept_for(self, truth: set[Hashable], ends: list[float]) -> float:
        life = self.lifetime(truth)
        return min(end for end in ends if end >= life) if life else 0.0

    def shelved(self, ends: list[float]) -> tuple[float, float]:
        """(rows kept, pairs found) if rows leave at these ends."""
        rows = sum(share * self.seconds(self.kept_for(t, ends)) for share, t in self.rows) * self.rate
        pairs = 0.0
        for (share, truth), (prober_share, prober) in itertools.product(self.rows, self.probers):
            met = min(self.seconds(self.kept_for(truth, ends)), self.seconds(self.reach(prober)))
            pairs += share * prober_share * met
        return rows, pairs * self.rate * self.other_rate * self.load.selectivity

    def shelves(self, ends: list[float]) -> int:
        return len({self.kept_for(truth, ends) for share, truth in self.rows if share} - {0.0})

    def kept_probers(self) -> float:
        return self.other_rate * sum(share for share, truth in self.probers if self.reach(truth))

    def delivered(self) -> float:
        pairs = 0.0
        for (share, truth), (prober_share, prober) in itertools.product(self.rows, self.probers):
            taken = sum(self.seconds(w) for w, p, o in self.queries if p in truth and o in prober)
            pairs += share * prober_share * taken
        return pairs * self.rate * self.other_rate * self.load.selectivity


@settings(max_examples=60, deadline=None)
@given(load=loads(), data=st.data())
def test_estimates_count_what_rows_do(load: Workload, data: st.DataObject) -> None:
    sides = [Naive(load, False), Naive(load, True)]
    fine = [sorted({w for w, _, _ in side.queries}) for side in sides]
    some = [sorted({*data.draw(st.sets(st.sampled_from(ends))), ends[-1]}) for ends in fine]
    routed = estimate_strategies(load, only(route=1.0), HASH, *some)
    probed = estimate_strategies(load, only(shelf_probe=1.0), HASH, *some)
    for name, ends in (("mem-opt", fine), ("cpu-opt", some)):
        counted = [side.shelved(own) for side, own in zip(sides, ends, strict=True)]
        assert routed[name].state_rows == pytest.approx(sum(rows for rows, _ in counted))
        assert routed[name].cores == pytest.approx(sum(pairs for _, pairs in counted))
        more = sum(
            max(0, side.shelves(own) - 1) * side.kept_probers() for side, own in zip(sides, ends, strict=True)
        )
        assert probed[name].cores == pytest.approx(more, abs=1e-9)
    assert routed["chain"].state_rows == pytest.approx(routed["mem-opt"].state_rows)
    longest = [side.seconds(ends[-1]) for side, ends in zip(sides, fine, strict=True)]
    assert routed["pull-up"].state_rows == pytest.approx(
        load.left_rate * longest[0] + load.right_rate * longest[1]
    )
    every = load.left_rate * load.right_rate * load.selectivity * sum(longest)
    assert routed["pull-up"].cores == pytest.approx(len(load.queries) * every)
    # what is delivered does not depend on how it was found
    delivered = sum(side.delivered() for side in sides)
    for cost in estimate_strategies(load, only(pair=1.0), HASH).values():
        assert cost.cores == pytest.approx(delivered)


@settings(max_examples=60, deadline=None)
@given(load=loads())
def test_rows_pass_slices_up_to_the_last_they_need(load: Workload) -> None:
    ends = chain_ends(load)
    passed = 0.0
    for right, rate in ((False, load.left_rate), (True, load.right_rate)):
        for share, truth in kinds_of_rows(load, right):
            wanted = [q for q in load.queries if (q.right_predicate if right else q.left_predicate) in truth]
            last = max((max(q.left_window_s, q.right_window_s) for q in wanted), default=0.0)
            passed += rate * share * sum(end <= last for end in ends)
    assert estimate_strategies(load, only(slice_row=1.0), HASH)["chain"].cores == pytest.approx(passed)


@settings(max_examples=60, deadline=None)
@given(load=loads())
def test_push_down_counts_what_rows_do(load: Workload) -> None:
    """Rows of the side with more predicates go to the join of their lifetime, the other's to all joins."""
    distinct = [{q.left_predicate for q in load.queries}, {q.right_predicate for q in load.queries}]
    right = len(distinct[1]) > len(distinct[0])
    split, other = Naive(load, right), Naive(load, not right)
    shares: dict[float, float] = {}
    for share, truth in split.rows:
        life = split.lifetime(truth)
        shares[life] = shares.get(life, 0.0) + share
    rows = tests = 0.0
    parts = [(life, share) for life, share in shares.items() if life and share]
    for life, share in parts:
        takers = [
            (window, predicate)
            for (own, _, _), (window, predicate, _) in zip(split.queries, other.queries, strict=True)
            if own <= life
        ]
        window = max(other.seconds(w) for w, _ in takers)
        there = sum(s for s, truth in other.rows if any(p in truth for _, p in takers))
        own_rate, other_rate = split.rate * share, other.rate * there
        rows += own_rate * split.seconds(life) + other_rate * window
        pairs = own_rate * other_rate * load.selectivity * (split.seconds(life) + window)
        tests += pairs * (len(takers) if len(takers) > 1 else 0)
    for query in load.queries:  # what comes from several joins is united
        alone = replace(load, queries=(query,))
        own = query.right_window_s if right else query.left_window_s
        if sum(life >= own for life, _ in parts) > 1:
            tests += sum(Naive(alone, side, split.unbounded_s).delivered() for side in (False, True))
    routed = estimate_strategies(load, only(route=1.0), HASH)["push-down"]
    assert routed.state_rows == pytest.approx(rows)
    assert routed.cores == pytest.approx(tests)
    taken = estimate_strategies(load, only(row=1.0), HASH)
    assert taken["push-down"].cores == pytest.approx(split.rate + len(parts) * other.rate)
    assert taken["unshared"].cores == pytest.approx(len(load.queries) * (split.rate + other.rate))
    for name in ("pull-up", "mem-opt", "cpu-opt", "chain"):
        assert taken[name].cores == pytest.approx(split.rate + other.rate)


@settings(max_examples=60, deadline=None)
@given(load=loads(least_share=0.1))  # where nobody comes on one side, some strategies drop the other too
def test_mem_opt_keeps_least_and_cpu_opt_costs_no_more(load: Workload) -> None:
    for kinds in (HASH, SCAN, ("t-tree", "b+tree")):
        costs = estimate_strategies(load, OURS, kinds)
        least = costs["mem-opt"].state_rows
        for cost in costs.values():
            assert math.isfinite(cost.cores) and cost.cores >= 0
            assert cost.state_rows >= least * (1 - 1e-9)
        assert costs["cpu-opt"].cores <= costs["mem-opt"].cores * (1 + 1e-9)
        ends = cpu_opt_ends(load, OURS, kinds)
        assert ends[0][-1] == max(q.left_window_s for q in load.queries)
        assert ends[1][-1] == max(q.right_window_s for q in load.queries)
        again = estimate_strategies(load, OURS, kinds, *ends)["cpu-opt"]
        assert again.cores == pytest.approx(costs["cpu-opt"].cores)
        assert again.state_rows == pytest.approx(costs["cpu-opt"].state_rows)


@settings(max_examples=40, deadline=None)
@given(load=loads())
def test_measured_shares_do_as_well(load: Workload) -> None:
    """A function of a set of predicates, here the same numbers, is asked about sets without None only."""

    def measured(share_of: Callable) -> Callable[[frozenset[Hashable]], float]:
        def share(predicates: frozenset[Hashable]) -> float:
            assert predicates and None not in predicates
            return share_of(predicates)

        return share

    other = replace(load, left_pass=measured(load.left_pass), right_pass=measured(load.right_pass))
    one, two = (estimate_strategies(which, OURS, HASH) for which in (load, other))
    for name in one:
        assert two[name].cores == pytest.approx(one[name].cores)
        assert two[name].state_rows == pytest.approx(one[name].state_rows)


def test_shares_that_contradict_each_other_are_mended() -> None:
    """A greater set measured as satisfied by fewer rows must not make a negative number of rows."""
    table = {frozenset("p"): 0.4, frozenset("pq"): 0.3}
    queries = (QueryLoad("1", 10, 10, "q"), QueryLoad("2", 20, 20, "p"))
    load = Workload(queries, 10, 10, 0.1, lambda wanted: table.get(wanted, 0.2), EVERY)
    assert load.sides[0].needed.tolist() == [0.4, 0.4, 0.0]
    assert all(cost.cores > 0 for cost in estimate_strategies(load, OURS, HASH).values())


def test_independent_shares() -> None:
    share_of = independent({"p": 0.5, "q": 0.2, "never": 0.0})
    assert share_of(frozenset()) == 0
    assert share_of(frozenset({"p"})) == pytest.approx(0.5)
    assert share_of(frozenset({"p", "q", "never"})) == pytest.approx(0.6)
    assert share_of(frozenset({"p", None})) == 1
    with pytest.raises(AssertionError, match="share of rows"):
        independent({"p": 1.5})


def test_an_unbounded_window_is_never_shorter_than_a_bounded_one() -> None:
    for longest in (10.0, UNBOUNDED_S, 3 * UNBOUNDED_S):
        queries = (QueryLoad("1", longest, 5.0), QueryLoad("2", math.inf, 5.0, "p"))
        load = Workload(queries, 10, 10, 0.1, independent({"p": 0.5}), EVERY)
        left = load.sides[0]
        assert left.windows.tolist() == [0, longest, math.inf]
        assert left.ends.tolist() == [0, longest, max(longest, UNBOUNDED_S)]
        assert cpu_opt_ends(load, OURS, HASH)[0][-1] == math.inf


def test_a_slice_holds_rows_of_a_side_up_to_the_longest_window_of_that_side() -> None:
    """However far it goes for the other side: up to 9 s here, or without an end.

    left   |-----|--|                    windows 2 and 3 s
    right  |-----|--------------------|  windows 2 and 9 s, or unbounded
    chain  |--------------------------|  one slice
    """
    for longest in (9.0, math.inf):
        queries = (QueryLoad("q1", 2.0, longest), QueryLoad("q2", 3.0, 2.0))
        load = Workload(queries, 10.0, 10.0, 0.1, EVERY, EVERY)
        pull_up = estimate_strategies(load, OURS, SCAN)["pull-up"]
        one_slice = in_chain(load, load.sides, OURS, (longest,))
        assert one_slice.state_rows == pull_up.state_rows == 10 * (3 + min(longest, UNBOUNDED_S))
        costs = chain_edge_costs(load, 1.0, 0.0, 0.0)  # comparisons: with what is held, and one to purge
        assert costs[0, -1] == pytest.approx(10 * (pull_up.state_rows + 2))


def test_ends_must_hold_the_longest_window() -> None:
    with pytest.raises(AssertionError, match="longest window"):
        estimate_strategies(plain([1, 5], 10, 0.1), OURS, HASH, (1.0,), (5.0,))


@pytest.mark.parametrize("kind", list(ACCESSES))
def test_costs_over_arrays_are_those_of_the_cost_model(kind: str) -> None:
    rows = np.concatenate(([0.0, 0.5, 1.0], np.geomspace(2, 1e7, 300)))
    matches = rows / 50
    ours = direction_costs(kind, 7.0, 3.0, rows, matches, OURS)
    exact = [direction_cost(kind, Direction(7, 3, r, m), OURS) for r, m in zip(rows, matches, strict=True)]
    is_tree = kind in ("t-tree", "b+tree")
    off = np.abs(ours / np.array(exact) - 1)
    if is_tree:  # where it grows by a level, one says before and the other after
        assert (off > 0.02).mean() < 0.1
        assert off.max() < 1
    else:
        assert off.max() < 1e-12


# -- the cheapest chain -------------------------------------------------------------------------------------


def every_chain(count: int) -> Iterator[tuple[int, ...]]:
    for cut in itertools.product((False, True), repeat=count - 1):
        yield (*(j for j, is_end in enumerate(cut, 1) if is_end), count)


def length(chain: tuple[int, ...], costs: np.ndarray) -> float:
    return sum(float(costs[i, j]) for i, j in itertools.pairwise((0, *chain)))


@settings(max_examples=100, deadline=None)
@given(count=st.integers(1, 10), seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 40))
def test_cheapest_chain_is_the_best_of_all(count: int, seed: int, levels: int) -> None:
    """Whole numbers of few values, so that there are ties: then the chain with the most slices."""
    costs = np.random.default_rng(seed).integers(-1, levels, (count + 1, count + 1)).astype(np.float64)
    chain = cheapest_chain(range(count), lambda i, j: float(costs[i, j]))
    best = min((length(other, costs), -len(other)) for other in every_chain(count))
    assert (length(chain, costs), -len(chain)) == best
    assert list(chain) == sorted(set(chain)) and chain[-1] == count
    assert cheapest_chain_by_row(count, costs) == chain
    assert cheapest_chain_by_row(count, lambda i: costs[i, i + 1 :]) == chain


@settings(max_examples=30, deadline=None)
@given(load=loads(most=8), kind=st.sampled_from(list(ACCESSES)))
def test_cheapest_chain_of_shelves_is_the_best_of_all(load: Workload, kind: str) -> None:
    for place, side in enumerate(load.sides):
        nodes = np.arange(len(side.windows))
        costs = shelf_costs(side, nodes[:, None], nodes[None, :], load.selectivity, kind, OURS)
        ends = cpu_opt_ends(load, OURS, (kind, kind))[place]
        chain = tuple(side.windows.searchsorted(ends).tolist())
        assert chain[-1] == nodes[-1]
        best = min(length(other, costs) for other in every_chain(nodes[-1]))
        assert length(chain, costs) == pytest.approx(best, rel=1e-9, abs=1e-18)


@settings(max_examples=30, deadline=None)
@given(load=loads(most=6), system=st.sampled_from([0.0, 3.0, 100.0]))
def test_cheapest_chain_of_slices_is_the_best_of_all(load: Workload, system: float) -> None:
    costs = chain_edge_costs(load, 1.0, 1.0, system)
    ends = chain_ends(load)
    chain = cheapest_chain(ends, lambda i, j: float(costs[i, j]))
    best = min(length(other, costs) for other in every_chain(len(ends)))
    assert length(chain, costs) == pytest.approx(best, rel=1e-9)


def test_sums_that_differ_by_rounding_are_ties() -> None:
    """A slice costs its length: every chain costs the same, the longest chain is taken."""
    ends = [0.1 * n for n in range(1, 60)]
    assert cheapest_chain(ends, lambda i, j: ends[j - 1] - (ends[i - 1] if i else 0.0)) == tuple(range(1, 60))


def test_chains_of_no_end_of_one_and_of_none() -> None:
    assert cheapest_chain([], lambda i, j: 1.0) == ()
    assert cheapest_chain([5], lambda i, j: 1.0) == (1,)
    # an edge that cannot be is never taken
    assert cheapest_chain([1, 2, 3], lambda i, j: math.inf if (i, j) == (0, 1) else 1.0) == (3,)
    assert cheapest_chain([1, 2], lambda i, j: math.inf if j - i == 2 else 1.0) == (1, 2)
    with pytest.raises(AssertionError, match="finite"):
        cheapest_chain([1, 2], lambda i, j: math.inf)
    with pytest.raises(AssertionError, match="NaN"):
        cheapest_chain([1, 2], lambda i, j: math.nan)


@given(count=st.integers(0, 200), most=st.integers(1, 60))
def test_coarsen_keeps_the_last_and_is_even(count: int, most: int) -> None:
    kept = coarsen(list(range(count)), most)
    assert len(kept) == min(count, most)
    assert list(kept) == sorted(set(kept))
    if count:
        assert kept[-1] == count - 1
        gaps = np.diff((-1, *kept))
        assert gaps.max() - gaps.min() <= 1


# -- choosing -----------------------------------------------------------------------------------------------


def many_queries(count: int, selectivity: float, rate: float = 1_000.0) -> Workload:
    rng = np.random.default_rng(3)
    windows = rng.uniform(1, 600, (count, 2))
    queries = tuple(QueryLoad(f"q{n}", *windows[n].tolist(), f"p{n}", f"r{n}") for n in range(count))
    shares = rng.uniform(0, 0.01, (2, count))
    left, right = (
        independent({f"{s}{n}": float(shares[k, n]) for n in range(count)}) for k, s in enumerate("pr")
    )
    return Workload(queries, rate, rate, selectivity, left, right)


def test_queries_without_selections_are_one_shelf_cut_everywhere() -> None:
    """All rows live for the longest window: ends cost nothing, so none is given up; mem-opt is as good."""
    windows = [2.5 * n for n in range(1, 13)]
    load = plain(windows, 100, 0.01)
    assert cpu_opt_ends(load, OURS, HASH) == (tuple(windows), tuple(windows))
    costs = estimate_strategies(load, OURS, HASH)
    assert costs["cpu-opt"] == costs["mem-opt"]
    assert costs["mem-opt"].note == "1 shelf left, 1 right"
    assert strategy(load, OURS, HASH) == "mem-opt"


def test_many_shelves_with_little_to_find_are_merged() -> None:
    load = many_queries(200, 1e-6)
    left, right = cpu_opt_ends(load, OURS, HASH)
    assert len(left) < 20 and len(right) < 20
    assert strategy(load, OURS, HASH) == "cpu-opt"


def test_rows_that_few_need_for_long_are_kept_apart() -> None:
    """Merging would keep a thousand times as many rows to walk through."""
    queries = (QueryLoad("short", 1.0, 1.0), QueryLoad("long", 1_000.0, 1.0, "rare"))
    load = Workload(queries, 1_000, 1_000, 1e-3, independent({"rare": 0.001}), EVERY)
    assert cpu_opt_ends(load, OURS, HASH) == ((1.0, 1_000.0), (1.0,))
    assert strategy(load, OURS, HASH) == "mem-opt"


def test_a_strategy_must_be_clearly_cheaper() -> None:
    """Where nothing but a probe of one more shelf costs, merging pays; where rows cost a hundredfold, not."""
    load = two_queries(100, 10, 20, 0.5, 0.0)
    assert strategy(load, only(shelf_probe=1.0, hash_search=1.0), HASH) == "cpu-opt"
    assert strategy(load, only(shelf_probe=1.0, hash_search=1.0, row=100.0), HASH) == "mem-opt"


def test_a_thousand_queries_are_estimated_quickly() -> None:
    load = many_queries(1_000, 1e-5)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        estimate_strategies(load, OURS, HASH)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.2  # some 25 ms; others may be using the machine


def test_examples() -> None:
    for module in (chain_module, workload):
        result = doctest.testmod(module)
        assert result.attempted and not result.failed
