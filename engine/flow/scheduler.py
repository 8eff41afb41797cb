"""Who runs next. Results never depend on it: round robin in production, seeded dice in tests.

An operator is ready when something has come into one of its queues, or when its last turn did something. A
scheduler gives turns until nobody is ready, so what is idle costs nothing. An operator that raises stops its
own query only: the error goes to `failed`, which takes the query's operators out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from .operator import Operator

Clock = Callable[[], float]
Failed = Callable[[Operator, Exception], None]

QUANTUM_ROWS = 65_536


class Ready:
    """Operators that may have something to do, in the order in which they came to have it."""

    def __init__(self) -> None:
        self._waiting: dict[Operator, None] = {}
        self._known: set[Operator] = set()

    def enter(self, operator: Operator) -> None:
        """Begin with an operator: it is ready, and again whenever one of its queues changes."""
        self._known.add(operator)
        for queue in operator.inputs:
            queue.call(partial(self.add, operator))
        self.add(operator)

    def leave(self, operator: Operator) -> None:
        """It gets no turn any more, even if it was about to."""
        self._known.discard(operator)
        self._waiting.pop(operator, None)

    def add(self, operator: Operator) -> None:
        if operator in self._known:
            self._waiting[operator] = None

    def all(self) -> list[Operator]:
        return list(self._waiting)

    def take(self, operator: Operator) -> bool:
        """Whether it is still ready; it is not any more."""
        return self._waiting.pop(operator, self) is None


class Scheduler(Protocol):
    """Runs operators until all is quiet."""

    def run(self, ready: Ready, clock: Clock, failed: Failed) -> None:
        """`clock` gives seconds, for busy time."""


def take_turn(operator: Operator, quantum: int, ready: Ready, clock: Clock, failed: Failed) -> None:
    """One step with its time accounted for."""
    if not ready.take(operator):
        return
    began = clock()
    try:
        worked = operator.step(quantum)
    except Exception as error:  # whatever it is, the other queries go on
        failed(operator, error)
        return
    if worked:
        operator.counters.stepped(clock() - began)
        ready.add(operator)


class RoundRobin:
    """Every ready operator in turn, each for at most a quantum of rows."""

    def __init__(self, quantum_rows: int = QUANTUM_ROWS) -> None:
        self.quantum_rows = quantum_rows

    def run(self, ready: Ready, clock: Clock, failed: Failed) -> None:
        while turns := ready.all():
            for operator in turns:
                take_turn(operator, self.quantum_rows, ready, clock, failed)


class Shuffled:
    """Random operator, random quantum, from a seed: any order there could be, again whenever asked."""

    def __init__(self, seed: int, max_quantum_rows: int = 64) -> None:
        self._random = random.Random(seed)
        self._max = max_quantum_rows

    def __getstate__(self) -> dict[str, object]:
        return {"dice": self._random.getstate(), "max": self._max}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._random, self._max = random.Random(), state["max"]
        self._random.setstate(state["dice"])

    def run(self, ready: Ready, clock: Clock, failed: Failed) -> None:
        while turns := ready.all():
            take_turn(self._random.choice(turns), self._random.randint(1, self._max), ready, clock, failed)
