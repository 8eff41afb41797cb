"""What the scheduler knows of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .queue import Outlet, Queue


@dataclass(slots=True)
class Counters:
    """What an operator has done so far."""

    rows_in: int = 0
    rows_out: int = 0
    steps: int = 0
    busy_s: float = 0.0


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
