"""Of which plans it can be told what their output holds, and from when on changes follow on that.

The telling itself is in contents.py.
"""

from __future__ import annotations

from penstock.engine.flow.queue import BEGINNING, Outlet

from .plan import (
    AggregateNode,
    ArriveNode,
    ChangeJoinNode,
    ExpireNode,
    HopAnswerNode,
    HopDeltaNode,
    LifetimeNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    SourceNode,
    StoredWindowNode,
    TableNode,
    UnionNode,
    WholeTableNode,
    WholeWindowNode,
)
from .plan_parts import hops_of, plan_inputs, plan_nodes, skips_hops


def is_known(node: PlanNode, standing: bool = False) -> bool:
    """Whether what a plan holds can be told at any time; standing: only what does not leave by itself."""
    match node:
        case TableNode() | HopAnswerNode() | HopDeltaNode():
            return True
        case StoredWindowNode():
            return not node.whole
        case PaneAggregateNode():
            return node.emit == "delta"
        case AggregateNode() | SetOperationNode() | ChangeJoinNode() if node.whole is not None:
            return False  # whole answers, of which nothing is kept
        case AggregateNode() | SetOperationNode():
            return True
        case ExpireNode():
            return is_known(node.input, True)
        case ArriveNode():
            return node.window.kind == "rows" or (standing and node.window.size is not None)
        case LifetimeNode():
            return standing and any(node.sizes)
        case ChangeJoinNode(kind="inner"):
            sides = (node.left, node.right), (node.right, node.left)
            return all(reads_stream(other) or is_known(one, standing) for one, other in sides)
        case ChangeJoinNode():
            return True
        case SelectNode() | UnionNode():
            return all(is_known(one, standing) for one in plan_inputs(node))
        case _:
            return False


def is_whole(node: PlanNode) -> bool:
    """Whether a part gives its whole answer at every boundary, so that whoever comes later misses nothing."""
    if skips_hops(node):
        return False
    if isinstance(node, AggregateNode | SetOperationNode | ChangeJoinNode):
        return node.whole is not None
    return isinstance(node, WholeWindowNode | WholeTableNode) or (
        isinstance(node, StoredWindowNode) and node.whole and not node.changed
    )


def reads_stream(node: PlanNode) -> bool:
    return any(isinstance(one, SourceNode) for one in plan_nodes(node))


def begins(plan: PlanNode, outlet: Outlet) -> int:
    """The time from which on changes follow on what the output of a plan holds now."""
    hops, come = hops_of(plan), outlet.punctuation
    return come if hops is None or come <= BEGINNING else hops.first(come)
