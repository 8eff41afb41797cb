"""What plans at work stand on: where rows enter, turns for operators, and what there is in common already."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.flow.scheduler import Clock, Failed, Scheduler
from penstock.engine.intake.ingest import Ingest
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.join_forms.choose_layout import ChooseLayout

from .at_work import AtWork
from .plan_builder import PlanBuilder
from .registry import Registry

if TYPE_CHECKING:
    from penstock.engine.ordered_memory.memory_rules import MemoryRules

FailedReader = Callable[[Any, Exception], None]
"""Told of a reader whose share cannot be known."""


class Site:
    """One for an engine."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        failed: Failed,
        fail_reader: FailedReader,
        strategy: str,
        choose_layout: ChooseLayout,
        memory_rules: MemoryRules | None,
    ) -> None:
        """`strategy`: the form of common joins whose queries force none; `choose_layout` says how one should
        keep its rows; `memory_rules`: of joins without windows."""
        self.streams: dict[str, Ingest] = {}
        self.tables: dict[str, StaticTable] = {}
        self.at_work = AtWork(scheduler, clock, failed)
        self.fail_reader = fail_reader
        self.strategy = strategy
        self.choose_layout = choose_layout
        self.runs = 0
        """How often there has been work."""
        self.shared = Registry(self)
        self.builder = PlanBuilder(self, memory_rules)

    def begin_work(self) -> None:
        """Rows or queries have come."""
        self.runs += 1

    def tap(self, stream: str) -> tuple[Outlet, Queue]:
        """Where a stream enters, and a queue that is given what comes of it from now on."""
        outlet = self.streams[stream].output
        queue = Queue(outlet.punctuation)
        if outlet.closed:
            queue.close()
        outlet.queues.append(queue)
        return outlet, queue

    def starts(self) -> dict[str, int]:
        """How far each stream that has rows has come."""
        return {name: one.output.punctuation for name, one in self.streams.items() if one.rows_in}
