"""What the joins of one common join have in common, in the forms that run several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.engine.flow.queue import Queue
from penstock.engine.joins.join import WindowJoin
from penstock.engine.members.arrangement import Arrangement
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin
from penstock.engine.rows.types import SqlType

from .arrange import Arrange


@dataclass(frozen=True, slots=True)
class JoinMaker:
    """Makes joins without members. `queues`, `name`, `arrange` and `on_failure` are those of the whole."""

    common: CommonJoin
    types: tuple[Sequence[SqlType], Sequence[SqlType]]
    queues: tuple[Queue, Queue]
    name: str
    arrange: Arrange
    on_failure: Callable[[Member, Exception], None]

    def whole(self, arrange: Callable[[WindowJoin], Arrangement] | None = None) -> WindowJoin:
        """The join of all."""
        how = arrange or self.arrange
        return WindowJoin(self.common, self.types, self.queues, self.name, how, self.on_failure)

    def part(
        self,
        name: str,
        queues: tuple[Queue, Queue],
        arrange: Callable[[WindowJoin], Arrangement],
        on_failure: Callable[[Member, Exception], None] | None = None,
    ) -> WindowJoin:
        """The join of some, with queues and rows of its own."""
        on_failure = on_failure or self.on_failure
        return WindowJoin(self.common, self.types, queues, self.part_name(name), arrange, on_failure)

    def part_name(self, name: str) -> str:
        return f"{self.name}.{name}"
