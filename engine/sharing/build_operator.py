"""Operators for the plan nodes of incremental queries, and how they hear of expiry.

Each kind is imported when it is first asked for: a query that does without starts faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.engine.flow.heard_time import Learning
from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import (
    AggregateNode,
    ArriveNode,
    AtTicksNode,
    ChangeJoinNode,
    ExpireNode,
    FinalGroupNode,
    HopDeltaNode,
    LifetimeNode,
    OrderedJoinNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    StoredWindowNode,
    WholeTableNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import IncrementalNode, WholeNode, plan_inputs, plan_types
from penstock.engine.windows.range_window import Lifetime, RangeWindow

SharedNode: TypeAlias = IncrementalNode | OrderedJoinNode | FinalGroupNode
"""Whoever has such a node reads the operator of all that have it."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """What an approach means for operators and queues."""

    learning: Learning
    messages: bool
    piggyback: bool


HEARING: dict[Approach, Hearing] = {
    "promises": Hearing("promises", False, False),
    "nta": Hearing("promises", False, False),
    "ita": Hearing("rows", False, False),
    "time-message": Hearing("messages", True, False),
    "piggyback": Hearing("messages", True, True),
}


def build_operator(
    node: IncrementalNode, queues: tuple[Queue, ...], name: str, approach: Approach
) -> Operator:
    """The operator of a node, reading these queues."""
    hearing = HEARING[approach]
    for queue in queues:
        queue.let_rows_purge(hearing.piggyback)
    match node:
        case ArriveNode() if node.window.kind == "rows":
            from penstock.engine.windows.rows_window import RowsWindow

            assert node.window.size is not None, "a ROWS window has a size"
            types = plan_types(node.input)
            size = node.window.size
            return RowsWindow(size, node.partition, queues[0], types, name, node.hops, node.taat)
        case StoredWindowNode():
            raise AssertionError("rows of windows are kept in common")
        case ArriveNode():
            return RangeWindow(node.window.size, queues[0], name, hearing.messages, node.hops, node.taat)
        case LifetimeNode():
            return Lifetime(node.sizes, queues[0], name, hearing.messages, node.hops, node.taat)
        case WholeWindowNode() | WholeTableNode() | HopDeltaNode() | AtTicksNode():
            return build_whole(node, queues, name)
        case ChangeJoinNode() | AggregateNode() | SetOperationNode() if node.whole is not None:
            return build_whole(node, queues, name)
        case ExpireNode():
            from penstock.engine.changes.expire import Expire

            return Expire(node, queues[0], plan_types(node.input), name, hearing.learning)
        case ChangeJoinNode():
            from penstock.engine.changes.change_join import ChangeJoin

            both = plan_types(node.left), plan_types(node.right)
            pair = queues[0], queues[1]
            return ChangeJoin(node, pair, both, name, hearing.learning, hearing.messages)
        case AggregateNode():
            from penstock.engine.changes.group_by import GroupBy

            return GroupBy(node, queues[0], plan_types(node.input), name, hearing.learning)
        case SetOperationNode():
            from penstock.engine.changes.set_operation import SetOperator

            return SetOperator(node, queues, plan_types(node.inputs[0]), name, hearing.learning)


def build_whole(
    node: WholeNode | ChangeJoinNode | AggregateNode | SetOperationNode, queues: tuple[Queue, ...], name: str
) -> Operator:
    """The operator of a node of a hopping query that gives its whole answer at each hop, or reads such."""
    types = plan_types(plan_inputs(node)[0])
    numbered = [is_numbered(part) for part in plan_inputs(node)]
    match node:
        case WholeWindowNode():
            from penstock.engine.hopping.whole_window import WholeWindow

            return WholeWindow(node.window, node.partition, node.hops, queues, types, name)
        case WholeTableNode():
            from penstock.engine.hopping.ticks import WholeTable

            return WholeTable(queues[0], queues[1], name)
        case AtTicksNode():
            from penstock.engine.hopping.at_ticks import AtTicks

            return AtTicks(queues[0], queues[1], name)
        case HopDeltaNode():
            from penstock.engine.hopping.hop_delta import HopDelta

            return HopDelta(queues, types, name, node.hops)
        case ChangeJoinNode():
            from penstock.engine.hopping.whole_join import WholeJoin

            both = types, plan_types(node.right)
            return WholeJoin(node, (queues[0], queues[1]), both, name, (numbered[0], numbered[1]))
        case AggregateNode():
            from penstock.engine.hopping.whole_group_by import WholeGroupBy

            return WholeGroupBy(node, queues, types, name)
        case SetOperationNode():
            from penstock.engine.hopping.whole_set_operation import WholeSetOperator

            return WholeSetOperator(node, queues, types, name, numbered)


def is_numbered(node: PlanNode) -> bool:
    """Whether its batches say the numbers of their rows: those of a window, all of them."""
    if isinstance(node, SelectNode) and node.predicate is None:
        return is_numbered(node.input)
    if isinstance(node, AtTicksNode):
        return is_numbered(node.input)
    if isinstance(node, StoredWindowNode):
        return node.whole and not node.partition
    return isinstance(node, WholeWindowNode) and not node.partition
