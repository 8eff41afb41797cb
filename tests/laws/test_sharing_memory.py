"""Rows that queries with a join in common keep: the paper's Cm on steady input, and never a row too many.

                   age 0        W1                 W2
    A, selected      |###########|##################|        needed by the query with the window W2
    A, not selected  |###########|                           needed by the query with the window W1 only
    B                |###########|##################|

Poisson arrivals, equal rates; the first query takes all rows, those with longer windows a share Ss of A's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import penstock
from penstock.engine.flow.scheduler import Shuffled
from penstock.optimizer.costs.weights import load
from penstock.optimizer.share.chain_cost import paper_costs
from penstock.optimizer.share.sharing_cost import estimate_strategies
from penstock.optimizer.share.workload import QueryLoad, Workload, independent

SECOND = 1_000_000
LEAST = ("mem-opt", "chain")
STRATEGIES = (*LEAST, "chain-cpu", "cpu-opt", "auto", "pull-up", "push-down", "unshared")
DECLARE = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v DOUBLE)"


@dataclass(frozen=True)
class Ask:
    """A query: its windows in microseconds, and below what `v` its rows of either side are; None: any."""

    left_us: int
    right_us: int
    left_below: float | None = None
    right_below: float | None = None

    @property
    def sql(self) -> str:
        bounds = (("a", self.left_below), ("b", self.right_below))
        where = " AND ".join(f"{alias}.v < {below!r}" for alias, below in bounds if below is not None)
        return (
            f"SELECT a.k FROM a [RANGE {self.left_us} us] JOIN b [RANGE {self.right_us} us] ON a.k = b.k"
            + (f" WHERE {where}" if where else "")
        )

    def side(self, number: int) -> tuple[int, float]:
        """(window, bound) of a side."""
        window, below = ((self.left_us, self.left_below), (self.right_us, self.right_below))[number]
        return window, np.inf if below is None else below


def same_windows(window_s: int, below: float | None = None) -> Ask:
    return Ask(window_s * SECOND, window_s * SECOND, below)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Rows of a stream: ts ascending, all keys different, v even in [0, 1)."""

    ts: NDArray[np.int64]
    v: NDArray[np.float64]

    def rows(self, since: int, until: int) -> dict[str, Any]:
        """Those with since <= ts < until."""
        start, stop = self.ts.searchsorted([since, until])
        return {"ts": self.ts[start:stop], "k": np.arange(start, stop), "v": self.v[start:stop]}


@functools.cache
def poisson(rate: int, span_s: int) -> tuple[Arrivals, Arrivals]:
    """Both streams, `rate` rows per second."""
    streams = []
    for seed in (71, 72):
        rng = np.random.default_rng(seed)
        count = rng.poisson(rate * span_s)
        streams.append(Arrivals(np.sort(rng.integers(0, span_s * SECOND, count)), rng.random(count)))
    return streams[0], streams[1]


def make(strategy: str, asks: tuple[Ask, ...]) -> penstock.Engine:
    engine = penstock.Engine(sharing=strategy)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    for number, ask in enumerate(asks):
        engine.query(ask.sql, name=f"q{number}", count_only=True)
    return engine


def state_rows(engine: penstock.Engine) -> int:
    """Rows held by all operators."""
    stats = engine.stats()
    parts = [*stats["groups"], *stats["queries"].values()]
    return sum(operator["state_rows"] for part in parts for operator in part["operators"])


def feed(engine: penstock.Engine, streams: tuple[Arrivals, Arrivals], since: int, until: int) -> None:
    """The rows of a span of time, and time itself up to its end."""
    for name, stream in zip(("a", "b"), streams, strict=True):
        engine.push(name, stream.rows(since, until))
    engine.advance(until)


@functools.cache
def states(strategy: str, asks: tuple[Ask, ...], rate: int, span_s: int, step_us: int) -> NDArray[np.int64]:
    """Rows held after each step, on Poisson input."""
    engine, streams = make(strategy, asks), poisson(rate, span_s)
    held = []
    for at in range(0, span_s * SECOND, step_us):
        feed(engine, streams, at, at + step_us)
        held.append(state_rows(engine))
    return np.array(held)


# -- what must be held, by definition ------------------------------------------------------------------


def lifetimes(asks: tuple[Ask, ...], number: int, v: NDArray) -> NDArray[np.int64]:
    """How long each row is needed: the longest window among the queries that take it; 0: by none."""
    longest = np.zeros(len(v), np.int64)
    for ask in asks:
        window, below = ask.side(number)
        longest = np.where(v < below, np.maximum(longest, window), longest)
    return longest


def held_by(strategy: str, asks: tuple[Ask, ...], streams: tuple[Arrivals, Arrivals], now: int) -> int:
    """Rows that a strategy holds at `now`, when all rows before it have come."""
    if strategy == "unshared":
        return sum(held_by("mem-opt", (ask,), streams, now) for ask in asks)
    held = 0
    for number, stream in enumerate(streams):
        lived = lifetimes(asks, number, stream.v)
        if strategy == "pull-up":
            lived[:] = max(ask.side(number)[0] for ask in asks)
        held += int(np.count_nonzero((stream.ts < now) & (now - stream.ts < lived)))
    return held


# -- the paper's figures -------------------------------------------------------------------------------

RATE = 1_000
SPAN_S = 50
W1, W2 = 3, 9
SHARES = [0.2, 0.5, 0.8]
COSTED = {"pull-up": "pull-up", "push-down": "push-down", "mem-opt": "state-slice", "chain": "state-slice"}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("strategy", COSTED)
def test_two_queries_hold_what_the_paper_says(strategy: str, share: float) -> None:
    asks = (same_windows(W1), same_windows(W2, share))
    held = states(strategy, asks, RATE, SPAN_S, SECOND // 4)[W2 * 4 :]
    expected, _ = paper_costs(RATE, W1, W2, share, 0.1)[COSTED[strategy]]
    assert held.mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("share", SHARES)
def test_savings_are_the_papers(share: float) -> None:
    """Saved against pull-up (1 - rho)(1 - Ss) / 2, against push-down rho / (1 + 2 rho + (1 - rho) Ss)."""
    asks = (same_windows(W1), same_windows(W2, share))
    mean = {
        strategy: states(strategy, asks, RATE, SPAN_S, SECOND // 4)[W2 * 4 :].mean() for strategy in COSTED
    }
    rho = W1 / W2
    assert 1 - mean["mem-opt"] / mean["pull-up"] == pytest.approx((1 - rho) * (1 - share) / 2, abs=0.01)
    saved = rho / (1 + 2 * rho + (1 - rho) * share)
    assert 1 - mean["mem-opt"] / mean["push-down"] == pytest.approx(saved, abs=0.01)


FIGURE_17 = [(5, 10, 30), (10, 20, 30), (20, 25, 30)]
FIGURE_RATE = 200
FIGURE_SPAN_S = 130


def three(windows: tuple[int, int, int], share: float) -> tuple[Ask, ...]:
    """The queries of figure 17: the first takes all rows, the others the same part of A's."""
    return (same_windows(windows[0]), same_windows(windows[1], share), same_windows(windows[2], share))


def cost_of_three(windows: tuple[int, int, int], share: float) -> dict[str, float]:
    """Cm as for two queries: no row that the second needs is not also needed by the third."""
    costs = paper_costs(FIGURE_RATE, windows[0], windows[2], share, 0.1)
    return {strategy: costs[costed][0] for strategy, costed in COSTED.items()}


@pytest.mark.parametrize(("windows", "share"), list(zip(FIGURE_17, SHARES, strict=True)))
@pytest.mark.parametrize("strategy", COSTED)
def test_three_queries_hold_what_the_paper_says(
    strategy: str, share: float, windows: tuple[int, int, int]
) -> None:
    held = states(strategy, three(windows, share), FIGURE_RATE, FIGURE_SPAN_S, SECOND)[30:]
    assert held.mean() == pytest.approx(cost_of_three(windows, share)[strategy], rel=0.02)


@pytest.mark.parametrize("strategy", ["mem-opt", "chain", "pull-up", "unshared", "push-down"])
def test_three_selections_hold_what_the_model_says(strategy: str) -> None:
    """Each query with a selection of its own, on both sides; the selections of one side are nested."""
    windows, shares = (5, 10, 30), (0.9, 0.6, 0.3)
    asks = tuple(
        Ask(w * SECOND, w * SECOND, share, 1 - share / 2) for w, share in zip(windows, shares, strict=True)
    )

    def widest(predicates: frozenset[Any]) -> float:
        return max(predicates)

    queries = [QueryLoad(str(w), w, w, s, 1 - s / 2) for w, s in zip(windows, shares, strict=True)]
    workload = Workload(tuple(queries), FIGURE_RATE, FIGURE_RATE, 0.001, widest, widest)
    costs = estimate_strategies(workload, load(), ("hash", "hash"))
    held = states(strategy, asks, FIGURE_RATE, FIGURE_SPAN_S, SECOND)[30:]
    assert held.mean() == pytest.approx(costs[strategy].state_rows, rel=0.02)


def test_independent_selections_hold_what_the_model_says() -> None:
    """A selection on A in the one query, on B in the other, and the longer window on the other side."""
    asks = (Ask(4 * SECOND, 9 * SECOND, 0.3, None), Ask(9 * SECOND, 4 * SECOND, None, 0.6))
    queries = (QueryLoad("q0", 4, 9, "left", None), QueryLoad("q1", 9, 4, None, "right"))
    shares = independent({"left": 0.3, "right": 0.6})
    workload = Workload(queries, RATE, RATE, 0.001, shares, shares)
    costs = estimate_strategies(workload, load(), ("hash", "hash"))
    for strategy in ("mem-opt", "chain", "pull-up", "unshared"):
        held = states(strategy, asks, RATE, SPAN_S, SECOND // 4)[W2 * 4 :]
        assert held.mean() == pytest.approx(costs[strategy].state_rows, rel=0.02), strategy


# -- at every moment -----------------------------------------------------------------------------------

BOTH_SIDES = (
    Ask(2 * SECOND, 1 * SECOND, 0.7, 0.9),
    Ask(5 * SECOND, 6 * SECOND, 0.4, None),
    Ask(9 * SECOND, 3 * SECOND, 0.1, 0.2),
    Ask(3 * SECOND, 9 * SECOND, 0.6, 0.1),
)


@pytest.mark.parametrize(
    "asks",
    [
        (same_windows(W1), same_windows(W2, 0.2)),
        (same_windows(2), same_windows(4), same_windows(8)),
        (same_windows(2, 0.5), same_windows(4, 0.25), same_windows(8, 0.75)),
        BOTH_SIDES,
    ],
    ids=["paper", "no selections", "nested", "both sides"],
)
def test_nothing_holds_less_than_mem_opt_at_any_moment(asks: tuple[Ask, ...]) -> None:
    rate, span_s, step_us = 300, 20, SECOND // 4
    streams = poisson(rate, span_s)
    moments = range(step_us, span_s * SECOND + 1, step_us)
    held = {strategy: states(strategy, asks, rate, span_s, step_us) for strategy in STRATEGIES}
    for strategy in (*LEAST, "pull-up", "unshared"):
        assert held[strategy].tolist() == [held_by(strategy, asks, streams, now) for now in moments]
    for strategy in STRATEGIES:
        assert (held["mem-opt"] <= held[strategy]).all(), strategy
    for strategy in ("cpu-opt", "auto"):
        assert (held[strategy] <= held["pull-up"]).all(), strategy


@st.composite
def asked(draw: st.DrawFn) -> Ask:
    window = st.integers(1, 12)
    bound = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.75]))
    return Ask(draw(window), draw(window), draw(bound), draw(bound))


@settings(max_examples=12)
@given(st.lists(asked(), min_size=2, max_size=5), st.data())
def test_state_is_what_is_needed_whoever_goes(drawn: list[Ask], data: st.DataObject) -> None:
    """Few rows with ties and gaps, looked at after every push; the queries go one by one."""
    times = st.lists(st.integers(0, 40), max_size=20).map(sorted)
    streams: list[Arrivals] = []
    for _ in range(2):
        ts = np.array(data.draw(times), np.int64)
        v = data.draw(st.lists(st.sampled_from([0.1, 0.3, 0.6, 0.9]), min_size=len(ts), max_size=len(ts)))
        streams.append(Arrivals(ts, np.array(v, np.float64)))
    both = streams[0], streams[1]
    engines = {strategy: make(strategy, tuple(drawn)) for strategy in STRATEGIES}
    alive = dict(enumerate(drawn))
    now = 0
    while now < 60:
        step = data.draw(st.integers(1, 15))
        held = {}
        for strategy, engine in engines.items():
            feed(engine, both, now, now + step)
            engine._runtime._check()
            held[strategy] = state_rows(engine)
        now += step
        check_held(held, tuple(alive.values()), both, now)
        if len(alive) > 1 and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(alive)))
            del alive[gone]
            for strategy, engine in engines.items():
                engine.queries[f"q{gone}"].drop()
                held[strategy] = state_rows(engine)
            check_held(held, tuple(alive.values()), both, now)
    assert set(held.values()) == {0}


def check_held(
    held: dict[str, int], asks: tuple[Ask, ...], streams: tuple[Arrivals, Arrivals], now: int
) -> None:
    for strategy in (*LEAST, "unshared"):
        assert held[strategy] == held_by(strategy, asks, streams, now), strategy
    assert held["mem-opt"] == min(held.values())
    assert held["cpu-opt"] <= held_by("pull-up", asks, streams, now)


# -- what is not needed --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "pull-up"])
def test_a_row_that_no_query_needs_is_never_stored(strategy: str) -> None:
    asks = (Ask(5, 9, 0.2, 0.5), Ask(9, 5, 0.4, 0.1))
    engine = make(strategy, asks)
    nobody = {
        "a": pa.table({"ts": range(8), "k": range(8), "v": pa.array([0.4, 0.9, None, float("nan")] * 2)}),
        "b": pa.table({"ts": range(8), "k": range(8), "v": pa.array([0.5, 0.6, None, float("inf")] * 2)}),
    }
    for name, rows in nobody.items():
        engine.push(name, rows)
    assert state_rows(engine) == 0
    for name in nobody:
        engine.push(name, {"ts": [8], "k": [8], "v": [0.1]})
    # the row of a is taken by both queries, that of b by the first
    assert state_rows(engine) == (3 if strategy == "unshared" else 2)
    assert [query.count for query in engine.queries.values()] == [1, 0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_row_without_a_key_is_never_stored(strategy: str) -> None:
    engine = make(strategy, (same_windows(1), same_windows(2, 0.5)))
    for name in ("a", "b"):
        engine.push(name, {"ts": [1, 2, 3], "k": pa.array([None] * 3, pa.int64()), "v": [0.1, 0.6, 0.9]})
    assert state_rows(engine) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_is_empty_when_the_windows_have_passed(strategy: str) -> None:
    """One microsecond before the end of the longest windows a row is there, then none."""
    engine, streams = make(strategy, BOTH_SIDES), poisson(300, 25)
    feed(engine, streams, 0, 5 * SECOND)
    taken = [lifetimes(BOTH_SIDES, number, stream.v) for number, stream in enumerate(streams)]
    ends = [
        int((stream.ts + lived)[(stream.ts < 5 * SECOND) & (lived > 0)].max())
        for stream, lived in zip(streams, taken, strict=True)
    ]
    engine.advance(max(ends) - 1)
    assert state_rows(engine) >= 1
    engine.advance(5 * SECOND + 9 * SECOND)
    assert state_rows(engine) == 0
    engine._runtime._check()
    before = engine.queries["q0"].count
    later = {"ts": [20 * SECOND], "k": [-1], "v": [0.05]}
    engine.push("a", later)
    engine.push("b", later)
    assert engine.queries["q0"].count == before + 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_falls_to_what_the_others_need_when_the_longest_goes(strategy: str) -> None:
    asks = (same_windows(W1), same_windows(W2, 0.5), same_windows(2 * W1, 0.2))
    others = (asks[0], asks[2])
    engine, streams = make(strategy, asks), poisson(300, 25)
    feed(engine, streams, 0, 12 * SECOND)
    before = state_rows(engine)
    engine.queries["q1"].drop()
    after = state_rows(engine)
    assert after < before
    exact = strategy in (*LEAST, "pull-up", "unshared")
    now = 12 * SECOND
    while True:
        needed = held_by(strategy if exact else "mem-opt", others, streams, now)
        held = state_rows(engine)
        assert held == needed if exact else held >= needed
        if strategy in ("cpu-opt", "auto"):
            assert held <= held_by("pull-up", others, streams, now)
        if now == 24 * SECOND:
            break
        feed(engine, streams, now, now + SECOND)
        now += SECOND
    engine.queries["q2"].drop()
    assert state_rows(engine) == held_by("mem-opt", others[:1], streams, now)


@pytest.mark.parametrize("strategy", LEAST)
def test_a_longer_window_holds_all_it_needs_once_it_has_passed(strategy: str) -> None:
    """It comes while rows flow: what was not kept before does not come back, later rows are all there.

    Before it nobody read `v`, so of the rows that are there it can take none.
    """
    asks = (same_windows(W1), same_windows(W2, 0.5))
    engine, streams = make(strategy, asks[:1]), poisson(300, 25)
    feed(engine, streams, 0, 6 * SECOND)
    engine.query(asks[1].sql, count_only=True)
    assert state_rows(engine) == held_by(strategy, asks[:1], streams, 6 * SECOND)
    for now in range(6 * SECOND, 20 * SECOND, SECOND):
        feed(engine, streams, now, now + SECOND)
        needed = held_by(strategy, asks, streams, now + SECOND)
        if now + SECOND >= (6 + W2) * SECOND:
            assert state_rows(engine) == needed
        else:
            assert state_rows(engine) < needed


def test_a_state_grows_while_a_row_is_half_worked() -> None:
    """Slices stop in the middle of a row when enough pairs are found; more females come meanwhile."""
    window, ts = 50, np.arange(200)
    expected = np.count_nonzero(np.abs(ts[::2, None] - ts[None, 1::2]) < window)
    for seed in range(40):
        engine = penstock.Engine(sharing="chain", scheduler=Shuffled(seed, 400))
        for name in ("a", "b"):
            engine.execute(DECLARE.format(name))
        query = engine.query(Ask(window, window).sql)
        for name, own in (("a", ts[::2]), ("b", ts[1::2])):
            engine.push(name, {"ts": own, "k": np.zeros(100, np.int64), "v": np.zeros(100)})
        engine.close()
        assert query.count == expected, seed
