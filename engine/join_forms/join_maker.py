"""What the joins of one common join have in common, in the forms that run several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.engine.flow.queue import Queue
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin
from penstock.engine.rows.types import SqlType

from .choose_layout import ChooseLayout


@dataclass(frozen=True, slots=True)
class JoinMaker:
    """Makes joins without members; `queues`, `name`, `choose_layout`, `on_failure` are those of the whole."""

    common: CommonJoin
    types: tuple[Sequence[SqlType], Sequence[SqlType]]
    queues: tuple[Queue, Queue]
    name: str
    choose_layout: ChooseLayout
    on_failure: Callable[[Member, Exception], None]

    def whole(self, choose_layout: Callable[[WindowJoin], JoinLayout] | None = None) -> WindowJoin:
        """The join of all."""
        how = choose_layout or self.choose_layout
        return WindowJoin(self.common, self.types, self.queues, self.name, how, self.on_failure)

    def part(
        self,
        name: str,
        queues: tuple[Queue, Queue],
        choose_layout: Callable[[WindowJoin], JoinLayout],
        on_failure: Callable[[Member, Exception], None] | None = None,
    ) -> WindowJoin:
        """The join of some, with queues and rows of its own."""
        on_failure = on_failure or self.on_failure
        return WindowJoin(self.common, self.types, queues, self.part_name(name), choose_layout, on_failure)

    def part_name(self, name: str) -> str:
        return f"{self.name}.{name}"
