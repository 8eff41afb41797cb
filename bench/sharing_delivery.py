"""Few queries that are given their rows: whether `auto` runs what is cheapest.

A join in common finds each pair once and then deals it out; a join per query finds it as often as it is
taken, and has nothing to deal out. Which costs less depends on how much the queries have in common.
"""

from __future__ import annotations

from .join import RATE, cpu_ratio
from .outcome import Outcome, Target
from .race import race
from .sharing_peers import Ask
from .sharing_strategies import SECOND_US, Lap, Runner, even_values
from .streams import cut_by_rows, poisson_stream

WINDOW_US = 10 * SECOND_US
PUSH_ROWS = 20_000
STRATEGIES = ("auto", "mem-opt", "cpu-opt", "unshared")
NEAR_BEST = Target(">=", 0.9)
GROUP = "few queries, rows delivered"

EIGHTHS = [Ask(WINDOW_US, place / 8, (place + 1) / 8) for place in range(8)]
CASES: dict[str, tuple[int, list[Ask]]] = {  # keys, and what is asked
    "2 windows": (10_000, [Ask(WINDOW_US // 2), Ask(WINDOW_US)]),
    "3 windows, 2 selections": (
        10_000,
        [Ask(WINDOW_US * 4 // 10), Ask(WINDOW_US * 7 // 10, 0.5), Ask(WINDOW_US, 0.8)],
    ),
    "2 selections that overlap": (10_000, [Ask(WINDOW_US, 0.0, 0.7), Ask(WINDOW_US, 0.3, 1.0)]),
    "8 selections that do not, many matches": (500, EIGHTHS),
}


def bench_delivery(outcome: Outcome, rows: int, rounds: int) -> None:
    """Each case under every strategy, in laps of `rows` of each stream."""
    cuts = cut_by_rows(rows, PUSH_ROWS)
    for case, (keys, asks) in CASES.items():
        a, b = (even_values(poisson_stream(rows, RATE, keys, seed), seed + 50) for seed in (1, 2))
        lap = Lap(a, b, list(zip(cuts, cuts, strict=True)), WINDOW_US)
        runners = {name: Runner(lap, asks, name, counting=False) for name in STRATEGIES}
        timings = race([runner.contestant(name) for name, runner in runners.items()], rounds)
        for name, runner in runners.items():
            runner.compare(outcome, f"{GROUP}, {case}, {name}")
        best = min(STRATEGIES[1:], key=lambda name: timings[name].best_cpu_s)
        ratio = cpu_ratio(timings, "auto", best)
        outcome.add(GROUP, f"{case}: auto / best of the others", ratio, "x", NEAR_BEST, f"best: {best}")
        outcome.data.setdefault("delivery", {})[case] = {
            name: 2 * rows / timing.best_cpu_s for name, timing in timings.items()
        }
