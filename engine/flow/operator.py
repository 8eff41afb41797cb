"""What the scheduler knows of an operator, and what simple operators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.engine.rows.window import MAX_TS

from .queue import Outlet, Queue


@dataclass(slots=True)
class Counters:
    """What an operator has done so far."""

    rows_in: int = 0
    rows_out: int = 0
    steps: int = 0
    busy_s: float = 0.0

    def took(self, rows: int) -> None:
        self.rows_in += rows

    def gave(self, rows: int) -> None:
        self.rows_out += rows

    def stepped(self, seconds: float) -> None:
        """A turn in which something was done."""
        self.steps += 1
        self.busy_s += seconds


class Operator(Protocol):
    """Reads queues, writes an outlet, remembers what its meaning asks for."""

    name: str
    output: Outlet
    counters: Counters

    @property
    def inputs(self) -> Sequence[Queue]:
        """The queues it reads."""

    def step(self, quantum: int) -> bool:
        """Do about `quantum` rows of what can be done now; False if nothing could."""

    @property
    def state_rows(self) -> int:
        """Rows remembered."""

    @property
    def state_bytes(self) -> int:
        """Bytes held for them."""

    def _check(self) -> None: ...


@runtime_checkable
class Stopping(Protocol):
    """Whoever has something to end when nobody asks any more."""

    def stop(self) -> None: ...


class Stateless:
    """An operator that remembers nothing beyond its queues."""

    @property
    def state_rows(self) -> int:
        return 0

    @property
    def state_bytes(self) -> int:
        return 0

    def _check(self) -> None:
        pass


def pass_time(inputs: Sequence[Queue], output: Outlet) -> bool:
    """Promise what the inputs promise, less what they still hold; False if that is nothing new."""
    return pass_time_until(inputs, output, MAX_TS)


def pass_time_until(inputs: Sequence[Queue], output: Outlet, first: int) -> bool:
    """The same, but nothing beyond `first`, when something that is kept may come out."""
    if output.closed:
        return False
    now = inputs[0].frontier if len(inputs) == 1 else min(queue.frontier for queue in inputs)
    if now == MAX_TS:
        output.promise(max(queue.punctuation for queue in inputs))  # one that ended early tells nothing
        output.close()
        return True
    if first < now:
        now = first
    if output.punctuation < now < MAX_TS:
        output.promise(now)
        return True
    return False


def pass_worked_time(inputs: Sequence[Queue], output: Outlet, first: int = MAX_TS) -> bool:
    """The same of whoever works all that has come up to the inputs' promises: no more than these, and nothing
    of an instant of which rows wait.

    Whoever is promised an instant joins what enters at it; what leaves at it must have been passed on before.
    """
    come = min(MAX_TS if queue.closed else queue.punctuation for queue in inputs)
    waiting = min((int(queue.batches[0].ts[0]) for queue in inputs if queue.batches), default=MAX_TS)
    return pass_time_until(inputs, output, min(first, come, waiting - 1))
