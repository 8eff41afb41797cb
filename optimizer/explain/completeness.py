"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.plan.plan import (
    ArriveNode,
    ChangeJoinNode,
    FinalGroupNode,
    MemberNode,
    OrderedJoinNode,
    PaneAggregateNode,
    PlanNode,
    SourceNode,
    StoredWindowNode,
    TicksNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import (
    IncrementalNode,
    hops_of,
    plan_inputs,
    plan_nodes,
    starts_full,
    takes_back,
)
from penstock.engine.plan.tellable import reads_stream
from penstock.engine.rows.window import MAX_TS
from penstock.engine.sharing.pipeline import Pipeline, PlanAtWork
from penstock.engine.sharing.sub_plan import SubPlan


def complete_from(pipeline: Pipeline) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    Rows of the very instant at which it started may have passed before: what reads a stream itself is exact
    after it; a join, once every row its windows can hold is there; what keeps a window, once all that was in
    it before has left, unless it was given that. What began before the query, for another, may be complete.
    """
    start = pipeline.start_of_rows
    if start is None:
        return None
    is_hopping = hops_of(pipeline.plan) is not None
    has_hops = is_hopping and not pipeline.sink.is_changes
    has_ticks = any(isinstance(node, TicksNode) for node in plan_nodes(pipeline.plan))
    has_ticks |= is_hopping and starts_full(pipeline.plan)  # what stands is given at the first hop
    inserts = not pipeline.sink.is_changes and not has_hops
    # what enters an answer that rows are taken from is known if the answer before it was
    later = inserts and takes_back(pipeline.plan)
    known = [start + (has_hops or has_ticks)]  # these begin after its start
    if inserts and pipeline.is_filled:
        known.append(pipeline.filled_at + 1)
    for work, reader in pipeline.every_reading:
        since = work.exact_from(reader)
        known.append(start + 1 if since is None else since)
        if isinstance(work, SubPlan) and (began := work.begun_for(reader)) is not None:
            known[-1] += later and known[-1] > began
            if reads_as_they_are(work):
                known.append(start + 1 if inserts and passes_by_to(pipeline.plan, work.plan) else MAX_TS)
    if reads_as_they_are(pipeline):
        known.append(start + 1 if inserts else MAX_TS)
    return min(max(known), MAX_TS)


def reads_as_they_are(plan: PlanAtWork) -> bool:
    """Whether it reads streams without a window, of which rows had passed before it began."""
    return any(stream in plan.started for stream in unwindowed(plan.plan))


def unwindowed(node: PlanNode) -> Iterator[str]:
    """The streams that a plan reads all rows of, itself and not through a part or a join of its own.

    Of those that ticks read only the time counts.
    """
    windows = ArriveNode | WholeWindowNode | StoredWindowNode | PaneAggregateNode
    if isinstance(node, windows | OrderedJoinNode | FinalGroupNode | TicksNode):
        return
    for below in plan_inputs(node):
        if isinstance(below, SourceNode):
            yield below.stream
        elif not isinstance(below, IncrementalNode | MemberNode):
            yield from unwindowed(below)


def passes_by_to(plan: PlanNode, below: PlanNode) -> bool:
    """Whether nothing in a plan keeps rows of streams that come by way of one of its parts, or it itself."""
    if plan == below:
        return meets_table(plan)
    ways = [one for one in plan_inputs(plan) if below in plan_nodes(one)]
    keeps = isinstance(plan, IncrementalNode) and not meets_table(plan)
    return not (ways and keeps) and all(passes_by_to(one, below) for one in ways)


def meets_table(node: PlanNode) -> bool:
    """Whether rows of a stream are joined with what stands, and forgotten."""
    is_inner = isinstance(node, ChangeJoinNode) and node.kind == "inner"
    return is_inner and not all(map(reads_stream, plan_inputs(node)))
