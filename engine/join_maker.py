"""What the joins of one common join have in common, in the forms that run several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .arrange import Arrange
from .arrangement import Arrangement
from .member import Member
from .operators.join import WindowJoin
from .plan import CommonJoin
from .queue import Queue
from .types import SqlType


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
