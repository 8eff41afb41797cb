"""Hopping aggregates over the same rows and keys, run by one operator from the first on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.plan.plan import PaneAggregateNode
from penstock.engine.rows.batch import Batch

from .shared_work import Key, SharedWork, Source

if TYPE_CHECKING:
    from penstock.engine.panes.facts import PaneFacts
    from penstock.engine.panes.pane_aggregate import PaneAggregate
    from penstock.engine.panes.pane_member import PaneMember

    from .pipeline import PlanAtWork
    from .site import Site


class SharedPanes(SharedWork[PaneAggregateNode, "PaneMember"]):
    """Under what the aggregates have in common."""

    kind: ClassVar[str] = "panes"

    @staticmethod
    def key_of(node: PaneAggregateNode, owner: PlanAtWork) -> Key:
        return node.common

    def __init__(self, site: Site, node: PaneAggregateNode, owner: PlanAtWork) -> None:
        from penstock.engine.panes.pane_aggregate import PaneAggregate  # who does without starts faster

        super().__init__(site, node, owner)
        common = node.common
        self._stream = site.streams[common.stream]
        self.taps = [site.tap(common.stream)]
        ((_, queue),) = self.taps
        self.operator: PaneAggregate = PaneAggregate(common, queue, self._started, site.fail_reader)
        self.name = self.operator.name

    def get_ready(self) -> None:
        self._site.at_work.drain(self.operator)

    @property
    def members(self) -> list[PaneMember]:
        return self.operator.members

    @property
    def own_operators(self) -> Sequence[Operator]:
        return (self.operator,)

    def reader(self, node: PaneAggregateNode, number: int, owner: PlanAtWork, counting: bool) -> PaneMember:
        from penstock.engine.panes.pane_member import PaneMember

        return PaneMember(owner, counting, node, self._site.builder.first_hop(node, node.hops))

    def admit(self, reader: PaneMember) -> Source:
        self.operator.add(reader, self._started)
        return Source(reader.output)

    def release(self, reader: PaneMember) -> None:
        self.operator.drop(reader)

    def content(self, reader: PaneMember, at: int, standing: bool = False) -> Batch | None:
        from .contents import stamped

        if reader.node.emit != "delta":
            return None  # whole answers, of which nothing is kept
        return stamped(reader.content(self.operator.panes), reader.node, at)

    def exact_from(self, reader: PaneMember) -> int | None:
        return reader.exact_from

    def settle(self) -> None:
        self.operator.settle()

    def end(self) -> None:
        self.operator.end()

    def facts(self) -> dict[str, Any]:
        return {"strategy": self.kind, "panes": self.operator.panes.count}

    def facts_of(self, reader: PaneMember) -> PaneFacts:
        """What it says of itself, and of a reader."""
        from penstock.engine.panes.facts import facts_of_panes

        return facts_of_panes(self.operator, reader)

    @property
    def _started(self) -> int:
        """How far the stream has come; BEGINNING if it had no rows."""
        return self._stream.output.punctuation if self._stream.rows_in else BEGINNING
