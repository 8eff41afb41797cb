"""Which windows have their rows kept in common: bounded RANGE windows and ROWS windows of queries that do not
join.

All of one stream share, whatever their kinds, sizes, hops, filters and columns
(engine/operators/window_store.py). What
comes out of such a window says itself when rows leave, so that nobody above it keeps them for that: no Expire
is needed, and an aggregate keeps its groups alone.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.expression import Column, Expression
from penstock.engine.plan import (
    AggregateNode,
    ArriveNode,
    AtTicksNode,
    ChangeJoinNode,
    ExpireNode,
    LifetimeNode,
    MemberNode,
    PlanNode,
    SelectNode,
    SourceNode,
    StoredWindowNode,
    TallyNode,
    TicksNode,
    WholeWindowNode,
    map_inputs,
    plan_inputs,
    plan_nodes,
)

from .plan_changes import has_ends, may_withdraw, select
from .prune_columns import columns_in, moved_all
from .share_selects import over_stream


def share_windows(plan: PlanNode) -> PlanNode:
    """The plan with its windows kept together with others'; as it is if it has joins, or speaks of hops that
    are not over."""
    joins = MemberNode | ChangeJoinNode | LifetimeNode
    for node in plan_nodes(plan):
        if isinstance(node, joins) or (isinstance(node, ArriveNode) and node.taat):
            return plan
    return share(plan, False)


def shared_streams(plan: PlanNode) -> frozenset[str]:
    """The streams whose rows are kept in common for windows of a plan."""
    return frozenset(node.input.stream for node in plan_nodes(plan) if isinstance(node, StoredWindowNode))


def readers_of(plan: PlanNode) -> frozenset[PlanNode]:
    """What reads the windows of a plan that shares none: its lowest aggregates, or all of it.

    Queries of which that is the same have it run once, whatever they do with it.
    """
    found: set[PlanNode] = set()

    def look(node: PlanNode, reader: PlanNode) -> None:
        if isinstance(node, ArriveNode | WholeWindowNode):
            found.add(reader)
        for below in plan_inputs(node):
            look(below, node if isinstance(node, AggregateNode) else reader)

    look(plan, plan)
    return frozenset(found)


def is_better_alone(plan: PlanNode) -> bool:
    """Whether a plan that shares its windows costs more time than one that does not, if nobody else has any.

    An aggregate that keeps of each row its group and value need not look at the row again when it leaves. At
    boundaries, over RANGE windows, that is so of set operations too, and whole ones give rows uncopied.
    """
    nodes = list(plan_nodes(plan))
    windows = [node for node in nodes if isinstance(node, StoredWindowNode)]
    is_range = any(window.hops is not None and window.window.kind == "range" for window in windows)
    return any(isinstance(node, AggregateNode) for node in nodes) or (
        is_range and (any(isinstance(node, TallyNode) for node in nodes) or any(one.whole for one in windows))
    )


def share(node: PlanNode, announced: bool) -> PlanNode:
    """announced: whoever reads it wants to be told by rows that enter when they will leave."""
    match node:
        case ArriveNode() | WholeWindowNode() if is_bounded(node) and isinstance(node.input, SelectNode):
            return stored(node, node.input, announced)
        case (
            ArriveNode(input=SourceNode() as source)
            | WholeWindowNode(input=SourceNode() as source, ticks=None)
        ):
            return stored_rows(node, named(source)) if node.window.kind == "rows" else node
        case WholeWindowNode(input=SourceNode() as source, ticks=TicksNode() as ticks):
            return (
                AtTicksNode(stored_rows(node, named(source)), ticks) if node.window.kind == "rows" else node
            )
        case ExpireNode():
            shared = share(node.input, False)
            return ExpireNode(shared) if has_ends(shared) else shared
        case AggregateNode():
            announced = wants_ends(node)
            shared = share(node.input, announced)
            return replace(node, input=shared, withdrawn=may_withdraw(shared), announced=announced)
        case SelectNode():
            return replace(node, input=share(node.input, announced))
        case _:
            return map_inputs(node, lambda below: share(below, False))


def stored_rows(node: ArriveNode | WholeWindowNode, source: SourceNode) -> StoredWindowNode:
    """A ROWS window over a stream; what of it is asked for is found above it."""
    assert source.columns is not None, "the columns are named"
    partition = tuple(source.columns[i] for i in node.partition)
    whole = isinstance(node, WholeWindowNode)
    changed = isinstance(node, WholeWindowNode) and node.ticks is not None
    return StoredWindowNode(
        source, node.window, None, False, node.hops, whole, changed, partition, node.label
    )


def named(source: SourceNode) -> SourceNode:
    """The source with its columns named, also if they are all."""
    return source if source.columns is not None else replace(source, columns=tuple(range(len(source.types))))


def is_bounded(node: ArriveNode | WholeWindowNode) -> bool:
    return node.window.kind == "range" and node.window.size is not None


def wants_ends(node: AggregateNode) -> bool:
    """Whether it has a MIN or MAX straight over a window, which then keeps only what can still become it."""
    below = node.input
    while isinstance(below, SelectNode):
        below = below.input
    return (
        isinstance(below, ArriveNode)
        and is_bounded(below)
        and any(call.function in ("min", "max") for call in node.calls)
    )


def stored(node: ArriveNode | WholeWindowNode, below: SelectNode, announced: bool) -> PlanNode:
    """A window over a select of a stream, as one of whole rows with the select's outputs made above it."""
    source = below.input
    assert isinstance(source, SourceNode), "a window over a stream"
    places = tuple(range(len(source.types))) if source.columns is None else source.columns
    predicate = None if below.predicate is None else over_stream(below.predicate, source.stream, places)
    own: tuple[Expression, ...] = tuple(Column(type_, i, f"#{i}") for i, type_ in enumerate(source.types))
    outputs = own if below.outputs is None else below.outputs
    used = columns_in(*outputs)
    kept = SourceNode(source.stream, tuple(source.types[i] for i in used), tuple(places[i] for i in used))
    whole = isinstance(node, WholeWindowNode)
    window = StoredWindowNode(kept, node.window, predicate, announced, node.hops, whole, label=node.label)
    return select(window, None, moved_all(outputs, {column: place for place, column in enumerate(used)}))
