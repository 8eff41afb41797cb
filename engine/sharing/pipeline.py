"""Plans at work: operators of their own, and their shares in what queries have in common.

A query's has a sink that its results go to; a sub-plan's output is read by other plans (sub_plan.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import FinalGroupNode, OrderedJoinNode, PlanNode, SourceNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.results.sink import Sink

from .shared_work import Reading, SharedWork, every_reading

if TYPE_CHECKING:
    from penstock.engine.ordered_keys.final_groups import FinalGroups
    from penstock.engine.ordered_keys.ordered_join import OrderedJoin

    from .facts import QueryFacts

W = TypeVar("W", bound=SharedWork[Any, Any])


@dataclass(eq=False)
class PlanAtWork(ABC):
    """`operators` and `readings` are by the number of their node in the plan."""

    name: str
    plan: PlanNode
    operators: dict[int, Operator] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)
    """What it has in common with others, and its share in that."""
    taps: list[tuple[Outlet, Queue]] = field(default_factory=list)
    """What its queues are given by."""
    approach: Approach = "promises"
    started: dict[str, int] = field(default_factory=dict)
    """How far each stream that had rows by then had come when it began."""
    is_filled: bool = False
    """Whether it, or what it reads, began with what others keep."""
    filled_at: int = BEGINNING
    """The time at which that entered."""

    def become(self, other: PlanAtWork) -> None:
        """Go on as the other one: with its plan, what runs it, and its share in what others have."""
        for has in fields(PlanAtWork):
            if has.name != "name":
                setattr(self, has.name, getattr(other, has.name))
        for _, reader in self.readings.values():
            reader.go_to(self)

    def fill(self, at: int) -> None:
        """It begins with what others keep, which entered at this time."""
        self.is_filled, self.filled_at = True, max(self.filled_at, at)

    def put_first(self, number: int, operator: Operator) -> None:
        """An operator of its own that reads none of the others."""
        self.operators = {number: operator, **self.operators}

    @property
    def own_operators(self) -> list[Operator]:
        """Sources first; without what it has in common with others."""
        return list(self.operators.values())

    @property
    def all_operators(self) -> list[Operator]:
        """Sources first; of what queries have in common, what is this one's alone."""
        alone = [
            one for work, _ in self.readings.values() if len(work.members) == 1 for one in work.all_operators
        ]
        return [*alone, *self.own_operators]

    @property
    def plans(self) -> Iterator[PlanAtWork]:
        """All plans that it reads, also through others, and itself last; one read twice comes twice."""
        for work, _ in self.readings.values():
            yield from work.plans
        yield self

    def reads(self, kind: type[W]) -> Iterator[tuple[int, W, Any]]:
        """What it has in common with others of one kind, by number, with its share in that."""
        for number, (work, reader) in self.readings.items():
            if isinstance(work, kind):
                yield number, work, reader

    @property
    def every_reading(self) -> Iterator[Reading]:
        """What it reads, also through others, from below."""
        return every_reading(self.readings)

    @property
    def streams(self) -> set[str]:
        """The streams that it reads, also through others."""
        return {node.stream for node in plan_nodes(self.plan) if isinstance(node, SourceNode)}

    @property
    def start_of_rows(self) -> int | None:
        """How far the streams had come of which rows had passed before it began; None: it misses nothing."""
        return max((self.started[one] for one in self.streams if one in self.started), default=None)

    @property
    @abstractmethod
    def queries(self) -> list[Pipeline]:
        """The queries it works for, each once."""

    @property
    @abstractmethod
    def made_for(self) -> str:
        """The query that it was made for, for people."""

    @abstractmethod
    def is_itself(self, number: int) -> bool:
        """Whether the node of that number is what others read of it, so that it has to be built."""


@dataclass(eq=False, kw_only=True)
class Pipeline(PlanAtWork):
    """The sink is in none of the lists."""

    sink: Sink
    error: Exception | None = None

    @property
    def own_operators(self) -> list[Operator]:
        return [*self.operators.values(), self.sink]

    @property
    def queries(self) -> list[Pipeline]:
        return [self]

    @property
    def made_for(self) -> str:
        return self.name

    def is_itself(self, number: int) -> bool:
        return False

    def facts(self) -> QueryFacts:
        """What it says of itself."""
        from .facts import facts_of_query

        return facts_of_query(self)

    def first_hop(self) -> int | None:
        """The first time that there is an answer at, as far as that is known."""
        return self.sink.begins()

    def fail(self, error: Exception) -> None:
        """It has stopped."""
        self.error = error

    def behind(self, operator: Operator) -> list[Operator]:
        """The operators that work with what one of its own has given."""
        own = self.own_operators
        return own[own.index(operator) + 1 :]

    @property
    def ordered_joins(self) -> list[OrderedJoin]:
        """The joins without windows that work for it, also those that work for others too."""
        if not any(isinstance(node, OrderedJoinNode) for node in plan_nodes(self.plan)):
            return []
        from penstock.engine.ordered_keys.ordered_join import OrderedJoin

        operators = [one for plan in self.plans for one in plan.own_operators]
        return [one for one in operators if isinstance(one, OrderedJoin)]

    @property
    def final_groups(self) -> list[FinalGroups]:
        """The same of groups of keys that grow."""
        if not any(isinstance(node, FinalGroupNode) for node in plan_nodes(self.plan)):
            return []
        from penstock.engine.ordered_keys.final_groups import FinalGroups

        operators = [one for plan in self.plans for one in plan.own_operators]
        return [one for one in operators if isinstance(one, FinalGroups)]

    @property
    def counted(self) -> Reading | None:
        """Where results are counted, if that is not in the sink."""
        root = self.readings.get(0)
        return root if root is not None and root[1].counting else None

    @property
    def count(self) -> int:
        """Result rows so far."""
        if self.counted is None:
            return self.sink.count
        work, reader = self.counted
        work.settle()
        return self.sink.count + reader.found
