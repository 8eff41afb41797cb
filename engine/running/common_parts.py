"""Sub-plans of incremental queries, run once for all queries that have them.

A query that has a part which is at work already reads that one. It is told first what the part's output holds
(contents.py), as rows that enter now. Some cannot tell: the window below an aggregate, whose rows are kept by
nobody, and the pairs of a shared window join. These pass rows on and keep none, so that whoever comes later
reads the same part from now on and lacks what came before, as it would behind one of its own.

    one   window ── COUNT per k            at work
    two      └───── SUM per k              comes later: sees the rows that come from now on,
                                           and those that others keep for a window over the same rows
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.members.member import PART, query_of
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import (
    ArriveNode,
    FinalGroupNode,
    LifetimeNode,
    OrderedJoinNode,
    SourceNode,
    StoredWindowNode,
)
from penstock.engine.plan.plan_parts import plan_nodes, starts_full
from penstock.engine.plan.tellable import begins, is_known, is_whole
from penstock.engine.rows.batch import Batch
from penstock.engine.windows.range_window import RangeWindow

from .build_operator import SharedNode
from .pipeline import SubPlan
from .sub_plans import SubPlans

if TYPE_CHECKING:
    from .runtime import Runtime

Plan = tuple[Approach, SharedNode]


class CommonParts(SubPlans):
    """By approach and plan; and by what had come of each stream when they began, those that give rows before
    any have come also by how often there had been work."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime
        self._numbers = count(1)
        self._given: list[SubPlan] = []
        """Windows that were given rows of others since the last push."""
        self.filled: dict[Outlet, Batch] = {}
        """What the output of a part held when somebody new came to read it."""

    def share(self, node: SharedNode, number: int, user: SubPlan) -> Outlet:
        """A sub-plan that others may have too: the one at work, or a new one."""
        runtime = self._runtime
        streams = {one.stream for one in plan_nodes(node) if isinstance(one, SourceNode)}
        come = tuple(sorted((stream, runtime.streams[stream].rows_in) for stream in streams))
        times = tuple(sorted((stream, runtime.streams[stream].watermark) for stream in streams))
        plan, start = (user.approach, node), (come, times, runtime.runs if starts_full(node) else 0)
        part = self._at_work(plan) or self.began(plan, start)
        if part is None and (part := self._passing(plan)) is not None:
            self._read_late(node, number, user, part)
        if part is None:
            part = self._begin(plan, user)
            self.add(plan, start, part)
        if part.given is not None:
            self.filled[part.output] = part.given
        user.is_filled |= part.is_filled
        user.filled_at = max(user.filled_at, part.filled_at)
        part.users.append(user)
        user.parts[number] = part
        return part.output

    def _at_work(self, plan: Plan) -> SubPlan | None:
        """A part that has seen more than a new one would, if it can tell what its output holds now."""
        from .contents import Contents

        if is_whole(plan[1]):  # the next boundary will say all there is
            return next(iter(self.alike(plan)), None)
        if not is_known(plan[1]):
            return None
        for part in self.alike(plan):
            held = Contents(self._runtime.tables, self._entered(part)).of(part)
            if held is not None:
                if held.length:
                    self.filled[part.output] = held
                return part
        return None

    def _entered(self, part: SubPlan) -> int:
        """When what a part holds enters for who comes now. Before the first row it is of tables alone, which
        were there before all time."""
        streams = {one.stream for one in plan_nodes(part.plan) if isinstance(one, SourceNode)}
        has_rows = any(self._runtime.streams[stream].has_given for stream in streams)
        return begins(part.plan, part.output) if has_rows else BEGINNING

    def _passing(self, plan: Plan) -> SubPlan | None:
        """A part that keeps nothing: from now on it passes on what a new one would."""
        match plan[1]:
            case (ArriveNode(hops=None) | LifetimeNode(hops=None)) as node if is_passing(node):
                return next(iter(self.alike(plan)), None)
            case OrderedJoinNode() | FinalGroupNode():  # it passes on more than a new one would
                return next(iter(self.alike(plan)), None)
        return None

    def _read_late(self, node: SharedNode, number: int, user: SubPlan, part: SubPlan) -> None:
        """Note what a new reader lacks of what a part has passed on, less what is kept for other windows."""
        starts = self._runtime.starts()
        come = [
            starts[one.stream]
            for one in plan_nodes(node)
            if isinstance(one, SourceNode) and one.stream in starts
        ]
        if not come:
            return
        user.late[number] = max(come)
        found = self._rows_of_others(node, part) if isinstance(node, ArriveNode) else None
        if found is not None:
            self.filled[part.output], user.late[number] = found

    def _begin(self, plan: Plan, user: SubPlan) -> SubPlan:
        """A new part; a window begins with the rows that are kept for another over the same rows."""
        runtime, (approach, node) = self._runtime, plan
        name = f"{query_of(user.name)}{PART}{next(self._numbers)}"
        part = SubPlan(name, node, approach=approach, started=runtime.starts())
        part.output = runtime.builder.build(node, count(), part, False)
        found = self._rows_of_others(node, part) if isinstance(node, ArriveNode) else None
        if isinstance(node, StoredWindowNode) and node.hops is None:  # else the next boundary gives all
            store, member = part.windows[0]
            found = store.content(member), BEGINNING
        if found is not None and found[0].length:
            part.given, part.rows_since = found
            part.is_filled = True
            self._given.append(part)
        for operator in part.own_operators:
            runtime._owners[operator] = part
            runtime._ready.enter(operator)
        return part

    def _rows_of_others(self, node: ArriveNode, part: SubPlan) -> tuple[Batch, int] | None:
        """The rows that others keep for a window over the same rows, and since when these are all."""
        from .window_rows import window_rows

        (stream,) = (one.stream for one in plan_nodes(node) if isinstance(one, SourceNode))
        now = self._runtime.streams[stream].output.punctuation
        found = window_rows(node, self, now, part.output.punctuation)
        if found is not None:
            operator = part.operators[0]
            assert isinstance(operator, RangeWindow), "a RANGE window"
            operator.give(found[0].ends)
        return found

    def go_on(self) -> None:
        """Time goes on: what windows were given is of no use to who comes later."""
        while self._given:
            self._given.pop().given = None


def is_passing(node: ArriveNode | LifetimeNode) -> bool:
    """Whether rows only pass it: those of a ROWS window are kept."""
    return isinstance(node, LifetimeNode) or node.window.kind == "range"
