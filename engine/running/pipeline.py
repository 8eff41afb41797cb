"""Operators at work: those of one query, and those that run once for all queries that have them in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.join_forms.shared_join import Form, SharedJoin
from penstock.engine.members.member import Member
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import FinalGroupNode, OrderedJoinNode, PlanNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.results.sink import Sink
from penstock.engine.rows.batch import Batch
from penstock.engine.selects.shared_select import Share, SharedSelect
from penstock.engine.windows.window_member import WindowMember

if TYPE_CHECKING:
    from penstock.engine.ordered_keys.final_groups import FinalGroups
    from penstock.engine.ordered_keys.ordered_join import OrderedJoin
    from penstock.engine.panes.pane_aggregate import PaneAggregate
    from penstock.engine.panes.pane_member import PaneMember
    from penstock.engine.windows.window_store import WindowStore

    from .facts import QueryFacts


@dataclass(eq=False)
class SubPlan:
    """A sub-plan at work, for whoever has it in its plan: `users`, queries or other parts.

    `operators`, `joins` and `parts` are by the number of their node in the plan.
    """

    name: str
    plan: PlanNode
    operators: dict[int, Operator] = field(default_factory=dict)
    joins: dict[int, tuple[SharedJoin, Member]] = field(default_factory=dict)
    parts: dict[int, SubPlan] = field(default_factory=dict)
    """What it reads that others may read too."""
    shares: dict[int, tuple[SharedSelect, Share]] = field(default_factory=dict)
    """Selects that others over the stream are run with; in `operators` is then what is projected, if any."""
    panes: dict[int, tuple[PaneAggregate, PaneMember]] = field(default_factory=dict)
    """Hopping aggregates that others over the stream are run with."""
    windows: dict[int, tuple[WindowStore, WindowMember]] = field(default_factory=dict)
    """Windows whose rows are kept with those of others over the stream."""
    taps: list[tuple[Outlet, Queue]] = field(default_factory=list)
    output: Outlet = field(default_factory=Outlet)
    users: list[SubPlan] = field(default_factory=list)
    approach: Approach = "promises"
    started: dict[str, int] = field(default_factory=dict)
    """How far each stream that had rows by then had come when it began."""
    is_filled: bool = False
    """Whether it, or what it reads, began with what others keep."""
    filled_at: int = BEGINNING
    """The time at which that entered."""
    rows_since: int | None = None
    """Of a window that was given rows of another: it has all with a later ts."""
    late: dict[int, int] = field(default_factory=dict)
    """Of parts that passed rows on before it came to read them: it has none of those up to then."""
    given: Batch | None = None
    """These rows, for whoever reads it before time goes on."""

    @property
    def own_operators(self) -> list[Operator]:
        """Sources first; without joins, selects and parts in common."""
        return list(self.operators.values())

    @property
    def all_operators(self) -> list[Operator]:
        """Sources first; of what queries have in common, what is this one's alone."""
        alone = [
            operator
            for shared_join, _ in self.joins.values()
            if len(shared_join.members) == 1
            for operator in shared_join.form.operators
        ]
        alone += [shared for shared, _ in self.shares.values() if len(shared.members) == 1]
        alone += [panes for panes, _ in self.panes.values() if len(panes.members) == 1]
        alone += [store for store, _ in self.windows.values() if len(store.members) == 1]
        below = [one for part in self.parts.values() if len(part.users) == 1 for one in part.all_operators]
        return [*below, *alone, *self.own_operators]

    @property
    def everything(self) -> Iterator[SubPlan]:
        """All parts it reads, also through others, and itself last; one read twice comes twice."""
        return (part for part, _ in self.readings)

    def has(self, member: Member | PaneMember | Share) -> bool:
        """Whether that is its share in a join, in panes or in selects in common."""
        shares = (
            *self.joins.values(), *self.panes.values(), *self.shares.values(), *self.windows.values(),
        )  # fmt: skip
        return any(one is member for _, one in shares)

    @property
    def readings(self) -> Iterator[tuple[SubPlan, int | None]]:
        """The same, each with the time up to which whoever reads it lacks rows, if it came late."""
        for number, part in self.parts.items():
            *below, _ = part.readings
            yield from below
            yield part, self.late.get(number)
        yield self, None

    @property
    def queries(self) -> list[Pipeline]:
        """The queries that read it, each once."""
        found = [query for user in self.users for query in user.queries]
        return list(dict.fromkeys(found))


@dataclass(eq=False, kw_only=True)
class Pipeline(SubPlan):
    """One query at work. The sink is in none of the lists."""

    sink: Sink
    error: Exception | None = None
    tally: tuple[Form | SharedSelect | PaneAggregate, Member | Share | PaneMember] | None = None
    """Where results are counted, if that is in the join, the select or the panes themselves."""

    @property
    def own_operators(self) -> list[Operator]:
        return [*self.operators.values(), self.sink]

    @property
    def queries(self) -> list[Pipeline]:
        return [self]

    @property
    def ordered_joins(self) -> list[OrderedJoin]:
        """The joins without windows that work for it, also those that work for others too."""
        if not any(isinstance(node, OrderedJoinNode) for node in plan_nodes(self.plan)):
            return []
        from penstock.engine.ordered_keys.ordered_join import OrderedJoin

        operators = [one for part in self.everything for one in part.own_operators]
        return [one for one in operators if isinstance(one, OrderedJoin)]

    def facts(self) -> QueryFacts:
        """What it says of itself."""
        from .facts import facts_of_query

        return facts_of_query(self)

    def first_hop(self) -> int | None:
        """The first time that there is an answer at, as far as that is known."""
        return self.sink.begins()

    @property
    def final_groups(self) -> list[FinalGroups]:
        """The same of groups of keys that grow."""
        if not any(isinstance(node, FinalGroupNode) for node in plan_nodes(self.plan)):
            return []
        from penstock.engine.ordered_keys.final_groups import FinalGroups

        operators = [one for part in self.everything for one in part.own_operators]
        return [one for one in operators if isinstance(one, FinalGroups)]

    @property
    def count(self) -> int:
        """Result rows so far."""
        if self.tally is None:
            return self.sink.count
        form, member = self.tally
        form.settle()
        return self.sink.count + member.found
