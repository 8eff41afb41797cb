"""Timing: contestants take turns, so that what disturbs the machine disturbs them alike; the best run counts.

Two clocks run: elapsed time, and the processor time of the whole process. On an idle machine they agree for
whoever uses one thread; on a busy one only the second means anything, so ratios between contestants of one
thread each are of processor time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BUDGET_S = 10.0  # per contestant: when it is used up and there were two runs, that is enough
TURN_S = 0.3  # a turn is at least so long, or TURN_RUNS runs: short runs are disturbed more
TURN_RUNS = 5


@dataclass(frozen=True, slots=True)
class Contestant:
    """`run` is timed and gives what is compared; it gets what `prepare` made, which is not timed."""

    name: str
    run: Callable[[Any], int]
    prepare: Callable[[], Any] = lambda: None


@dataclass(slots=True)
class Timing:
    """Runs of one contestant, in seconds, and its answers."""

    elapsed_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    answers: set[int] = field(default_factory=set)

    @property
    def best_elapsed_s(self) -> float:
        return min(self.elapsed_s)

    @property
    def best_cpu_s(self) -> float:
        return min(self.cpu_s)


def race(contestants: list[Contestant], rounds: int) -> dict[str, Timing]:
    """Everyone once to warm up, then in turn, `rounds` times at most."""
    timings = {contestant.name: Timing() for contestant in contestants}
    for contestant in contestants:
        timings[contestant.name].answers.add(contestant.run(contestant.prepare()))
    for _ in range(rounds):
        for contestant in contestants:
            timing = timings[contestant.name]
            if len(timing.elapsed_s) < 2 or sum(timing.elapsed_s) < BUDGET_S:
                take_turn(contestant, timing)
    return timings


def take_turn(contestant: Contestant, timing: Timing) -> None:
    """A run, or several short ones."""
    gc.collect()
    used_s = 0.0
    for _ in range(TURN_RUNS):
        run_once(contestant, timing)
        used_s += timing.elapsed_s[-1]
        if used_s >= TURN_S:
            return


def run_once(contestant: Contestant, timing: Timing) -> None:
    """One timed run."""
    prepared = contestant.prepare()
    began, began_cpu = time.perf_counter(), time.process_time()
    answer = contestant.run(prepared)
    timing.cpu_s.append(time.process_time() - began_cpu)
    timing.elapsed_s.append(time.perf_counter() - began)
    timing.answers.add(answer)
