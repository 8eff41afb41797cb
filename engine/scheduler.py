"""Who runs next. Results never depend on it: round robin in production, seeded dice in tests.

A scheduler runs operators until none can do anything more. An operator that raises stops its own query only:
the error goes to `failed`, which takes the query's operators out of the round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from .errors import PenstockError
from .operator import Operator

Clock = Callable[[], float]
Failed = Callable[[Operator, PenstockError], None]

QUANTUM_ROWS = 65_536


class Scheduler(Protocol):
    """Runs operators until all is quiet."""

    def run(self, operators: Mapping[int, Operator], clock: Clock, failed: Failed) -> None:
        """`clock` gives seconds, for busy time; `operators` (by any number) may lose members meanwhile."""


def take_turn(operator: Operator, quantum: int, clock: Clock, failed: Failed) -> bool:
    """One step with its time accounted for; an operator that fails has done something."""
    began = clock()
    try:
        worked = operator.step(quantum)
    except PenstockError as error:
        failed(operator, error)
        return True
    if worked:
        operator.counters.steps += 1
        operator.counters.busy_s += clock() - began
    return worked


class RoundRobin:
    """Every operator in turn, each for at most a quantum of rows."""

    def __init__(self, quantum_rows: int = QUANTUM_ROWS) -> None:
        self.quantum_rows = quantum_rows

    def run(self, operators: Mapping[int, Operator], clock: Clock, failed: Failed) -> None:
        busy = True
        while busy:
            busy = False
            for place in list(operators):
                operator = operators.get(place)
                if operator is not None:  # else stopped since this round began
                    busy |= take_turn(operator, self.quantum_rows, clock, failed)


class Shuffled:
    """Random operator, random quantum, from a seed: any order there could be, again whenever asked."""

    def __init__(self, seed: int, max_quantum_rows: int = 64) -> None:
        self._random = random.Random(seed)
        self._max = max_quantum_rows

    def run(self, operators: Mapping[int, Operator], clock: Clock, failed: Failed) -> None:
        waiting = list(operators)
        while waiting:
            place = self._random.choice(waiting)
            operator = operators.get(place)
            if operator is None:  # stopped since
                waiting.remove(place)
            elif take_turn(operator, self._random.randint(1, self._max), clock, failed):
                waiting = list(operators)
            else:
                waiting.remove(place)
