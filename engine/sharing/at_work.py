"""The operators at work: for whom each works, and their turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.flow.operator import Operator, Stopping
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS, Clock, Failed, Ready, Scheduler

if TYPE_CHECKING:
    from .pipeline import Pipeline
    from .shared_work import SharedWork

OwnerOf: TypeAlias = "Pipeline | SharedWork[Any, Any]"


class AtWork:
    """Operators with whom they work for: one query, or work that queries share."""

    def __init__(self, scheduler: Scheduler, clock: Clock, failed: Failed) -> None:
        self.owners: dict[Operator, OwnerOf] = {}
        self.ready = Ready()
        self._followed: dict[SharedWork[Any, Any], list[Operator]] = {}
        """The operators of shared work that have turns."""
        self._scheduler = scheduler
        self._clock = clock
        self._failed = failed

    def run(self) -> None:
        """Give turns until nobody has anything to do."""
        self._scheduler.run(self.ready, self._clock, self._failed)

    def enter(self, operators: Iterable[Operator], owner: OwnerOf) -> None:
        """These get turns, with the queues they have now."""
        for operator in operators:
            self.owners[operator] = owner
            self.ready.enter(operator)

    def follow(self, work: SharedWork[Any, Any]) -> None:
        """Let the operators of shared work get turns that it has now, and no others of its."""
        now = list(work.own_operators)
        for operator in self._followed.get(work, ()):
            if operator not in now:
                self.owners.pop(operator, None)
                self.ready.leave(operator)
        self.enter(now, work)
        self._followed[work] = now

    def end(self, work: SharedWork[Any, Any]) -> None:
        """Nobody reads it any more."""
        self.forget(self._followed.pop(work, ()))

    def forget(self, operators: Iterable[Operator]) -> None:
        """These have ended."""
        for operator in operators:
            self.owners.pop(operator, None)
            self.ready.leave(operator)
            for queue in operator.inputs:
                queue.clear()
            if isinstance(operator, Stopping):
                operator.stop()

    def drain(self, operator: Operator) -> None:
        """Work off what is in its queues, which is usually nothing."""
        try:
            while operator.step(QUANTUM_ROWS):
                pass
        except Exception as error:
            self._failed(operator, error)


def disconnect(taps: Iterable[tuple[Outlet, Queue]]) -> None:
    """Let queues have nothing more of what outlets give."""
    for outlet, queue in taps:
        if queue in outlet.queues:
            outlet.queues.remove(queue)
