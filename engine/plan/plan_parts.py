"""What can be told of plans without running them: their parts, the columns they give, what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType

from .plan import (
    AggregateNode,
    ArriveNode,
    AtTicksNode,
    ChangeJoinNode,
    ExpireNode,
    FinalGroupNode,
    HopAnswerNode,
    HopDeltaNode,
    JoinNode,
    LifetimeNode,
    ManyJoinNode,
    MemberNode,
    OrderedJoinNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    SourceNode,
    StoredWindowNode,
    TableNode,
    TicksNode,
    UnionNode,
    WholeTableNode,
    WholeWindowNode,
    WindowNode,
)

WholeNode = WholeWindowNode | WholeTableNode | HopDeltaNode | AtTicksNode
"""What reads or gives whole answers, and nothing else."""

IncrementalNode = (
    ArriveNode
    | LifetimeNode
    | StoredWindowNode
    | ExpireNode
    | ChangeJoinNode
    | AggregateNode
    | SetOperationNode
    | WholeNode
)
"""What a plan has whose rows leave, or that keeps what has to leave."""


def plan_inputs(node: PlanNode) -> tuple[PlanNode, ...]:
    """The node's inputs, left to right."""
    match node:
        case SourceNode() | TableNode():
            return ()
        case PaneAggregateNode() | StoredWindowNode():
            return (node.input,)
        case SelectNode() | WindowNode() | ArriveNode() | LifetimeNode() | ExpireNode() | FinalGroupNode():
            return (node.input,)
        case AggregateNode() | HopAnswerNode() | HopDeltaNode() | WholeTableNode() | WholeWindowNode():
            return (node.input,) if node.ticks is None else (node.input, node.ticks)
        case AtTicksNode():
            return (node.input, node.ticks)
        case JoinNode() | ChangeJoinNode():
            return (node.left, node.right)
        case MemberNode():
            return plan_inputs(node.join)
        case UnionNode() | SetOperationNode() | TicksNode() | ManyJoinNode() | OrderedJoinNode():
            return node.inputs


def map_inputs(node: PlanNode, change: Callable[[PlanNode], PlanNode]) -> PlanNode:
    """The same node over changed inputs."""
    match node:
        case SourceNode() | TableNode() | PaneAggregateNode() | StoredWindowNode() | AtTicksNode():
            return node
        case (
            SelectNode()
            | WindowNode()
            | ArriveNode()
            | LifetimeNode()
            | ExpireNode()
            | FinalGroupNode()
            | AggregateNode()
            | HopAnswerNode()
            | HopDeltaNode()
            | WholeWindowNode()
            | WholeTableNode()
        ):
            return replace(node, input=change(node.input))
        case JoinNode() | ChangeJoinNode():
            return replace(node, left=change(node.left), right=change(node.right))
        case MemberNode():
            join = map_inputs(node.join, change)
            assert isinstance(join, JoinNode | ManyJoinNode), "a join stays one"
            return replace(node, join=join)
        case UnionNode() | SetOperationNode() | TicksNode() | ManyJoinNode() | OrderedJoinNode():
            return replace(node, inputs=tuple(map(change, node.inputs)))


def plan_nodes(node: PlanNode) -> Iterator[PlanNode]:
    """The node and all below it, parents first: a node's place in this order is its number."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(plan_inputs(one)))


def is_same_but_joined_windows(one: PlanNode, other: PlanNode) -> bool:
    """Whether a plan can become the other by changing windows of its shares in joins, and nothing else."""
    if isinstance(one, MemberNode) and isinstance(other, MemberNode):
        return one.common == other.common and one.swapped == other.swapped and one.order == other.order
    inputs, others = plan_inputs(one), plan_inputs(other)
    return (
        len(inputs) == len(others)
        and map_inputs(one, nothing) == map_inputs(other, nothing)
        and all(map(is_same_but_joined_windows, inputs, others))
    )


def nothing(_: PlanNode) -> PlanNode:
    """In place of an input that is not to be compared."""
    return SourceNode("", ())


def keeps_rows(plan: PlanNode) -> bool:
    """Whether operators of a plan keep rows that leave."""
    return any(isinstance(node, IncrementalNode) for node in plan_nodes(plan))


def takes_back(node: PlanNode) -> bool:
    """Whether rows can come and be taken back in one instant."""
    return any(
        isinstance(one, AggregateNode | SetOperationNode)
        or (isinstance(one, ChangeJoinNode) and one.kind != "inner")
        for one in plan_nodes(node)
    )


def hops_of(plan: PlanNode) -> Hops | None:
    """The boundaries of a hopping query's plan."""
    windows = (ArriveNode, LifetimeNode, WholeWindowNode, PaneAggregateNode, StoredWindowNode)
    return next((node.hops for node in plan_nodes(plan) if isinstance(node, windows)), None)


def stands_still(plan: PlanNode) -> bool:
    """Whether it can give rows long after the last row has come: ROWS windows, unbounded ones."""
    windows = (node.window for node in plan_nodes(plan) if isinstance(node, ArriveNode | WholeWindowNode))
    return any(window.kind == "rows" or window.size is None for window in windows) or any(
        isinstance(node, LifetimeNode) and not any(node.sizes) for node in plan_nodes(plan)
    )


def has_standing_window(plan: PlanNode) -> bool:
    """Whether some window holds rows that do not leave by themselves."""
    windows = (ArriveNode, WholeWindowNode, StoredWindowNode)
    found = (node.window for node in plan_nodes(plan) if isinstance(node, windows))
    return any(window.kind == "rows" or window.size is None for window in found)


def stands(plan: PlanNode) -> bool:
    """Whether its answer can have rows while all windows that rows leave by themselves are empty: totals, and
    rows of tables, of ROWS windows and of unbounded ones, where they need no partner among the others."""
    match plan:
        case TableNode():
            return True
        case SourceNode() | TicksNode():
            return False
        case ArriveNode(window=window) | WholeWindowNode(window=window) | StoredWindowNode(window=window):
            return window.kind == "rows" or window.size is None
        case LifetimeNode():
            return all(size is None for size in plan.sizes)
        case MemberNode():
            return all(one.window.kind == "rows" or one.window.size is None for one in plan.sides)
        case PaneAggregateNode():
            return not plan.common.keys or not plan.size
        case AggregateNode(keys=0):
            return True
        case ChangeJoinNode():
            left, right = stands(plan.left), stands(plan.right)
            kept = {"left": left, "anti": left, "right": right, "full": left or right}
            return kept.get(plan.kind, left and right)
        case SetOperationNode(kind="except"):
            return stands(plan.inputs[0])
        case SetOperationNode(kind="intersect"):
            return all(map(stands, plan.inputs))
        case ManyJoinNode():
            return all(map(stands, plan.inputs))
        case _:
            return any(map(stands, plan_inputs(plan)))


def starts_full(plan: PlanNode) -> bool:
    """Whether it can give rows before any have come: those of a table, or a total."""
    return any(
        isinstance(node, TableNode) or (isinstance(node, AggregateNode) and not node.keys)
        for node in plan_nodes(plan)
    )


def skips_hops(plan: PlanNode) -> bool:
    """Whether it is silent at boundaries at which nothing can have changed."""
    return any(isinstance(node, TicksNode) and node.window is not None for node in plan_nodes(plan))


def waits_for_instants(plan: PlanNode) -> bool:
    """Whether what it gives of an instant comes only when that is over: hops, ROWS windows."""
    for node in plan_nodes(plan):
        if isinstance(node, ArriveNode | StoredWindowNode | WindowNode) and node.window.kind == "rows":
            return True
        if isinstance(node, MemberNode) and "rows" in (side.window.kind for side in node.sides):
            return True
    return hops_of(plan) is not None


def plan_types(node: PlanNode) -> tuple[SqlType, ...]:
    """Types of the columns a node gives."""
    match node:
        case SourceNode() | TableNode():
            return node.types
        case (
            WindowNode()
            | ArriveNode()
            | ExpireNode()
            | HopAnswerNode()
            | HopDeltaNode()
            | WholeWindowNode()
            | WholeTableNode()
            | AtTicksNode()
        ):
            return plan_types(node.input)
        case TicksNode():
            return ()
        case StoredWindowNode():
            return node.input.types
        case LifetimeNode():
            return plan_types(node.input)[: -len(node.sizes)]
        case AggregateNode():
            return plan_types(node.input)[: node.keys] + tuple(call.type for call in node.calls)
        case FinalGroupNode():
            return tuple(key.type for key in node.columns[: node.keys]) + tuple(c.type for c in node.calls)
        case PaneAggregateNode():
            keys = tuple(key.type for key in node.common.keys)
            return keys + tuple(call.type for call in node.calls)
        case ChangeJoinNode():
            one = plan_types(node.left)
            return one if node.kind in ("semi", "anti") else one + plan_types(node.right)
        case SelectNode():
            if node.outputs is None:
                return plan_types(node.input)
            return tuple(output.type for output in node.outputs)
        case MemberNode():
            return plan_types(node.join)
        case ManyJoinNode() | OrderedJoinNode():
            both = list(zip(node.sides, map(plan_types, node.inputs), strict=True))
            if isinstance(node, OrderedJoinNode) and node.kind in ("semi", "anti"):
                both = both[:1]
            return tuple(types[i] for side, types in both for i in side.columns)
        case JoinNode():
            left, right = plan_types(node.left), plan_types(node.right)
            return tuple(left[i] for i in node.left_side.columns) + tuple(
                right[i] for i in node.right_side.columns
            )
        case UnionNode() | SetOperationNode():
            return plan_types(node.inputs[0])
