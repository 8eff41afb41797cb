"""Which windows have their rows kept in common: RANGE and ROWS windows, wherever a window of a query's own
would keep rows.

All of one stream share, whatever their kinds, sizes, hops, filters and columns
(engine/windows/window_store.py), below joins too. What
comes out of such a window says itself when rows leave, so that nobody above it keeps them for that: no Expire
is needed, and an aggregate keeps its groups alone.

    a [RANGE 5] LEFT JOIN b [RANGE 9]      both, in place of two Expires
    a [RANGE 5] JOIN b [ROWS 9]            b; a's rows carry their ends past a window that keeps none
    a [RANGE 5] JOIN b [RANGE 9]           neither: a join that queries share keeps its rows once itself
    the same with HOP BY, window at a time: both
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

from penstock.engine.expressions.expression import Column, Expression
from penstock.engine.expressions.functions import may_raise
from penstock.engine.plan.plan import (
    AggregateNode,
    ArriveNode,
    AtTicksNode,
    ChangeJoinNode,
    ExpireNode,
    LifetimeNode,
    MemberNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    SourceNode,
    StoredWindowNode,
    TicksNode,
    UnionNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import map_inputs, plan_inputs, plan_nodes
from penstock.optimizer.plan.plan_changes import has_ends, may_withdraw, select
from penstock.optimizer.rewrite.over_stream import over_stream
from penstock.optimizer.rewrite.prune_columns import columns_in, moved_all

Leaving = Literal["told", "announced", "known"]
"""How rows leave: by a -1; by a -1 at a time that they say when they enter; at that time, without a word."""
Windowed = ArriveNode | WholeWindowNode | StoredWindowNode


def share_windows(plan: PlanNode) -> PlanNode:
    """The plan with its windows kept together with others'; as it is if it speaks of hops not over yet."""
    if any(isinstance(node, ArriveNode | LifetimeNode) and node.taat for node in plan_nodes(plan)):
        return plan
    return share(plan)


def shared_streams(plan: PlanNode) -> frozenset[str]:
    """The streams whose rows are kept in common for windows of a plan."""
    return frozenset(node.input.stream for node in plan_nodes(plan) if isinstance(node, StoredWindowNode))


def readers_of(plan: PlanNode) -> frozenset[PlanNode]:
    """What reads the windows of a plan that shares none: the lowest aggregates, set operations and joins, or
    all of it.

    Queries of which that is the same have it run once, whatever they do with it.
    """
    return frozenset(reader for _, reader in read_windows(plan))


def read_windows(plan: PlanNode) -> Iterator[tuple[Windowed, PlanNode]]:
    """The windows of a plan, each with what reads it."""

    def look(node: PlanNode, reader: PlanNode) -> Iterator[tuple[Windowed, PlanNode]]:
        if isinstance(node, Windowed):
            yield node, reader
        for below in plan_inputs(node):
            is_reader = isinstance(node, AggregateNode | SetOperationNode | ChangeJoinNode)
            yield from look(below, node if is_reader else reader)

    return look(plan, plan)


def is_better_alone(plan: PlanNode) -> bool:
    """Whether a plan that shares its windows costs more time than one that does not, if nobody else has any.

    An aggregate that keeps of each row its group and value need not look at the row again when it leaves. At
    boundaries, over RANGE windows, that is so of set operations too, and whole ones give rows uncopied. A
    plan with an unbounded window could never go over later: it would lack the rows before.
    """
    stored = [(one, reader) for one, reader in read_windows(plan) if isinstance(one, StoredWindowNode)]
    if any(not window.window.is_bounded for window, _ in stored):
        return False
    return any(
        isinstance(reader, AggregateNode)
        or (
            window.hops is not None
            and window.window.kind == "range"
            and (window.whole or isinstance(reader, SetOperationNode))
        )
        for window, reader in stored
    )


def share(node: PlanNode, leaving: Leaving = "told") -> PlanNode:
    """The same with windows in common; leaving: how whoever reads it hears of rows that leave."""
    match node:
        case MemberNode() | LifetimeNode():
            return node
        case ArriveNode(input=SelectNode()):
            is_kept = is_bounded(node) and leaving != "known"
            return stored(node, leaving == "announced") if is_kept else node
        case WholeWindowNode(input=SelectNode()):
            return stored(node, False)
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
            shared = share(node.input)
            return ExpireNode(shared) if has_ends(shared) else shared
        case AggregateNode():
            announced = wants_ends(node)
            shared = share(node.input, "announced" if announced else "told")
            withdrawn = node.whole is None and may_withdraw(shared)
            return replace(node, input=shared, withdrawn=withdrawn, announced=announced)
        case SelectNode() | UnionNode():
            return map_inputs(node, partial(share, leaving=leaving))
        case ChangeJoinNode(kind="inner", whole=None):
            return map_inputs(node, partial(share, leaving="known"))
        case _:
            return map_inputs(node, share)


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


def stored(node: ArriveNode | WholeWindowNode, announced: bool) -> PlanNode:
    """A RANGE window over a select of a stream, as one of whole rows with the select's outputs made above
    it."""
    below = node.input
    assert isinstance(below, SelectNode) and isinstance(below.input, SourceNode), "a window over a stream"
    source = below.input
    places = tuple(range(len(source.types))) if source.columns is None else source.columns
    predicate = None if below.predicate is None else over_stream(below.predicate, source.stream, places)
    own: tuple[Expression, ...] = tuple(Column(type_, i, f"#{i}") for i, type_ in enumerate(source.types))
    outputs = own if below.outputs is None else below.outputs
    used = columns_in(*outputs)
    kept = SourceNode(source.stream, tuple(source.types[i] for i in used), tuple(places[i] for i in used))
    fallible = [output for output in outputs if node.hops is not None and may_raise(output)]
    checked = tuple(over_stream(output, source.stream, places) for output in fallible)
    whole = isinstance(node, WholeWindowNode)
    ticks = node.ticks if isinstance(node, WholeWindowNode) else None
    changed = ticks is not None
    window = StoredWindowNode(
        kept, node.window, predicate, announced, node.hops, whole, changed, (), node.label, checked
    )
    rows = window if ticks is None else AtTicksNode(window, ticks)
    return select(rows, None, moved_all(outputs, {column: place for place, column in enumerate(used)}))
