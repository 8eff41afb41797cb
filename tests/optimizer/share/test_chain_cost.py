"""What slices of the literal chain cost, the paper's chains, and chains that give their pairs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.chain import ordered_union
from penstock.engine.chain.ordered_union import OrderedUnion
from penstock.engine.chain.slice_join import SliceJoin
from penstock.engine.running.runtime import Runtime
from penstock.optimizer.calibrate import calibrate_given
from penstock.optimizer.calibrate.calibrate import Scans
from penstock.optimizer.costs.weights import SHIPPED, read
from penstock.optimizer.share.chain_cost import Given, chain_edge_costs, giving_costs, path_cost
from penstock.optimizer.share.cheapest_chain import cheapest_chain_by_row
from penstock.optimizer.share.workload import QueryLoad, Workload, independent

OURS = read(SHIPPED)
EVERY = independent({})


def plain(windows: list[float], rate: float, selectivity: float) -> Workload:
    """Queries without selections, the same window on both sides."""
    queries = tuple(QueryLoad(f"q{w}", w, w) for w in windows)
    return Workload(queries, rate, rate, selectivity, EVERY, EVERY)


# -- the paper's chain ------------------------------------------------------------------------------------

UNIFORM = [2.5 * n for n in range(1, 13)]
MOSTLY_SMALL = [*map(float, range(1, 11)), 20.0, 30.0]
SMALL_LARGE = [*map(float, range(1, 7)), *map(float, range(25, 31))]


def slices(windows: list[float], system: float, rate: float = 80, selectivity: float = 0.025) -> list[float]:
    load = plain(windows, rate, selectivity)
    costs = chain_edge_costs(load, 1.0, 1.0, system)
    return [windows[j - 1] for j in cheapest_chain_by_row(len(windows), costs)]


def test_merging_saves_what_the_paper_says() -> None:
    """Section 5.2: slices i..j cut and merged, in comparisons; C_sys for the operators that are gone."""
    rate_a, rate_b, join, system = 20.0, 50.0, 0.1, 3.0
    windows = [1.0, 4.0, 6.0, 11.0, 30.0]
    load = replace(plain(windows, rate_a, join), right_rate=rate_b)
    costs = chain_edge_costs(load, 1.0, 1.0, system)
    nodes = [0.0, *windows]
    for i, j in itertools.combinations(range(1, 6), 2):
        cut = sum(costs[k - 1, k] for k in range(i, j + 1))
        purge = (rate_a + rate_b) * (j - i)
        route = 2 * rate_a * rate_b * (nodes[j] - nodes[i - 1]) * join * (j - i)
        overhead = system * (j - i) * (rate_a + rate_b)
        assert cut - costs[i - 1, j] == pytest.approx(purge - route + overhead)


def test_selections_between_merged_slices_are_paid_for() -> None:
    """Section 6.2: the merged slice keeps and probes what the selection inside it would have dropped."""
    rate, w1, w2, ss = 10.0, 5.0, 20.0, 0.25
    queries = QueryLoad("q1", w1, w1), QueryLoad("q2", w2, w2, "high")
    load = Workload(queries, rate, rate, 0.0, independent({"high": ss}), EVERY)
    costs = chain_edge_costs(load, 1.0, 1.0, 0.0)
    cut, merged = costs[0, 1] + costs[1, 2], costs[0, 2]
    # a probes all of B's state until it is selected, b the state of A as selected
    probing = 2 * rate**2 * (w2 - w1) * (1 - ss)
    purging = rate + ss * rate
    assert merged - cut == pytest.approx(probing - purging)
    assert np.isinf(costs[np.tril_indices(3)]).all()


def test_skewed_windows_are_merged_and_even_ones_are_not() -> None:
    """Section 7.3: one C_sys at which even windows are all cut and the skewed ones are not."""
    system = 8.5
    assert slices(UNIFORM, system) == UNIFORM
    assert len(slices(MOSTLY_SMALL, system)) <= 8
    assert len(slices(SMALL_LARGE, system)) <= 8
    assert {10.0, 20.0, 30.0} <= set(slices(MOSTLY_SMALL, system))
    assert {6.0, 30.0} <= set(slices(SMALL_LARGE, system))


def test_small_and_large_windows_make_two_slices() -> None:
    assert slices(SMALL_LARGE, 250.0) == [6.0, 30.0]


@pytest.mark.parametrize("rate", [20.0, 40.0, 80.0])
def test_the_papers_chains_are_not_all_cheapest_at_once(rate: float) -> None:
    """Section 7.3 has even windows uncut, ten small ones merged, and two slices of small and large ones.

    The last means that [6, 25) is merged with what follows: an operator is worth routing the pairs of 19 s to
    five queries. Then it is worth routing those of 5 s to one, and even windows are merged, too. Likewise
    the tenth of the small windows: it is worth routing the pairs of 10 s.
    """
    for system in [0.0, *np.geomspace(0.1, 1e4, 60).tolist()]:
        even = slices(UNIFORM, system, rate)
        if slices(SMALL_LARGE, system, rate) == [6.0, 30.0]:
            assert len(even) <= 3
        if slices(MOSTLY_SMALL, system, rate)[0] == 10.0:
            assert len(even) <= 6
        if even == UNIFORM:
            assert len(slices(SMALL_LARGE, system, rate)) >= 6
            assert len(slices(MOSTLY_SMALL, system, rate)) >= 7


def test_the_dearer_an_operator_the_fewer_slices() -> None:
    for windows in (UNIFORM, MOSTLY_SMALL, SMALL_LARGE):
        counts = [len(slices(windows, system)) for system in (0.0, 1.0, 5.0, 20.0, 100.0, 400.0, 1e4)]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] == 12
        assert counts[-1] == 1


# -- pairs that are given ----------------------------------------------------------------------------------


def naive_giving(load: Workload, given: Given, ends: Sequence[float]) -> float:
    """By going over the slices that end there and the members that take them; windows alike on both sides."""
    total = 0.0
    turns = (load.left_rate + load.right_rate) / given.turn_rows
    for start, end in itertools.pairwise([0.0, *ends]):
        takers = [window for window in given.windows_s if window > start]
        pairs = 2 * load.left_rate * load.right_rate * load.selectivity * (end - start)
        total += turns * given.turn if takers else 0.0
        for window in takers:
            total += min(turns, pairs) * given.taker
            total += pairs * given.test if window < end else 0.0
            if not (start == 0 and window <= end):
                total += given.merge * pairs * (min(window, end) - start) / (end - start)
    return total


@pytest.mark.parametrize("turn_rows", [1.0, 100.0])
def test_giving_costs_are_those_of_each_slice_and_member(turn_rows: float) -> None:
    windows = [1.0, 2.0, 5.0, 9.0, 9.5]
    given = Given(np.array([9.0, 1.0, 5.0, 5.0, 9.5]), turn_rows, 3.0, 5.0, 0.7, 0.2)
    load = plain(windows, 20, 0.025)
    nodes = np.arange(len(windows) + 1)
    costs = giving_costs(load, given, nodes[:, None], nodes[None, :])
    for count in range(len(windows)):
        for inner in itertools.combinations(windows[:-1], count):
            ends = [*inner, windows[-1]]
            chain = np.array([0, *(windows.index(end) + 1 for end in ends)])
            expected = pytest.approx(naive_giving(load, given, ends))
            assert path_cost(costs, chain[1:]) == expected
            assert giving_costs(load, given, chain[:-1], chain[1:]).sum() == expected


def test_the_cheapest_chain_that_gives_pairs_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(4)
    counts = set()
    for _ in range(40):
        windows = np.cumsum(rng.uniform(0.1, 6, rng.integers(1, 9))).tolist()
        load = plain(windows, float(rng.uniform(5, 300)), 0.025)
        gives = rng.random(len(windows)) < 0.7
        given = Given.of(np.array(windows)[gives], 80, OURS) if gives.any() else None
        costs = chain_edge_costs(load, OURS.scan_search, 0.0, OURS.slice_row, OURS.slice_pair, 1e-8, given)
        found = cheapest_chain_by_row(len(windows), costs)
        every = [
            (*inner, len(windows))
            for count in range(len(windows))
            for inner in itertools.combinations(range(1, len(windows)), count)
        ]
        least = min(path_cost(costs, nodes) for nodes in every)
        assert path_cost(costs, found) == pytest.approx(least)
        counts.add(len(windows) - len(found))
    assert len(counts) > 2  # some are merged, some are not


def test_slices_that_nobody_is_given_are_counted_together() -> None:
    """Beyond the windows of those who are given pairs, a slice costs what it costs where all count."""
    windows = [2.0, 4.0, 6.0, 8.0]
    load = plain(windows, 20, 0.025)
    weights = 1e-9, 0.0, 1e-8, 1e-7, 1e-6
    given = Given(np.array([2.0, 4.0]), 50, 1.0, 1.0, 1.0, 1.0)
    counted, mixed = (chain_edge_costs(load, *weights, one) for one in (None, given))
    assert mixed[2:, 3:] == pytest.approx(counted[2:, 3:])
    dearer = [(0, 1), (0, 2), (0, 4), (1, 2), (1, 3)]
    assert min(mixed[edge] - counted[edge] for edge in dearer) > 0.1


@pytest.mark.parametrize(("push_rows", "keys"), [(16, 20), (128, 40), (16, 1 << 40)])
@pytest.mark.parametrize("chain", [(12,), (3, 12), (4, 8, 12), tuple(range(1, 13))])
def test_a_chain_does_what_its_costs_count(
    chain: tuple[int, ...], push_rows: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns, batches taken, pairs tested and pairs put into order, of the rows that calibration times."""
    seen = dict.fromkeys(calibrate_given.NAMES, 0)
    run, fits, merged, push = SliceJoin._run, OrderedUnion._fits, ordered_union.merged, Runtime.push

    def note_turn(slice_: SliceJoin, *given: int) -> None:
        seen["given_turn"] += is_timed
        run(slice_, *given)

    def note_taker(union: OrderedUnion, pairs: ordered_union.Pairs, queue: ordered_union.Queue) -> object:
        found = fits(union, pairs, queue)
        seen["given_taker"] += is_timed
        seen["given_test"] += is_timed * (found is not None) * pairs.length
        return found

    def note_merge(times: list, rows: list, ends: list[int]) -> object:
        seen["given_merge"] += is_timed * (len(ends) > 1) * ends[-1]
        return merged(times, rows, ends)

    def note_push(runtime: Runtime, stream: str, table: pa.Table) -> None:
        nonlocal pushed, is_timed
        is_timed = pushed >= 2 * calibrate_given.WINDOW_ROWS
        pushed += table.num_rows
        push(runtime, stream, table)

    monkeypatch.setattr(SliceJoin, "_run", note_turn)
    monkeypatch.setattr(OrderedUnion, "_fits", note_taker)
    monkeypatch.setattr(ordered_union, "merged", note_merge)
    monkeypatch.setattr(Runtime, "push", note_push)
    monkeypatch.setattr(Runtime, "close", lambda runtime: None)  # what is left then is not timed
    pushed, is_timed = 0, False
    calibrate_given.run_chain(chain, push_rows, keys, lambda: 0.0, Scans)
    expected = calibrate_given.uses(chain, push_rows, keys)
    assert list(seen.values()) == pytest.approx(expected.tolist(), rel=0.05, abs=1)
