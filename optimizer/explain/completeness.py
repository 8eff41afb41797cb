"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.hopping.whole_window import WholeWindow
from penstock.engine.plan.plan import (
    ArriveNode,
    ChangeJoinNode,
    FinalGroupNode,
    LifetimeNode,
    MemberNode,
    OrderedJoinNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
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
from penstock.engine.running.pipeline import Pipeline, SubPlan
from penstock.engine.windows.rows_window import RowsWindow


def complete_from(pipeline: Pipeline) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    Rows of the very instant at which it started may have passed before: what reads a stream itself is exact
    after it; a join, once every row its windows can hold is there; what keeps a window, once all that was in
    it before has left, unless it was given that. What began before the query, for another, may be complete.
    """
    start = start_of(pipeline)
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
    for part, late in pipeline.readings:
        for shared_join, member in part.joins.values():
            shared_join.refresh()
            since = member.complete_from
            known.append(start + 1 if since is None else since)
        known += [member.exact_from for _, member in part.panes.values()]
        began = start_of(part) if late is None else late
        if began is None:
            continue
        if part is not pipeline:
            filled = filled_from(part, began, late is not None)
            known.append(filled + (later and filled > began))
        if any(stream in part.started for stream in unwindowed(part.plan)):
            passes_by = inserts and (part is pipeline or passes_by_to(pipeline.plan, part.plan))
            known.append(start + 1 if passes_by else MAX_TS)
    return min(max(known), MAX_TS)


def start_of(part: SubPlan) -> int | None:
    """How far the streams had come of which rows had passed before a plan began; None: it misses nothing."""
    sources = {node.stream for node in plan_nodes(part.plan) if isinstance(node, SourceNode)}
    return max((part.started[stream] for stream in sources if stream in part.started), default=None)


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


def filled_from(part: SubPlan, start: int, is_late: bool) -> int:
    """When a window of an incremental query holds all it would hold had it always been there.

    is_late: it was there before its reader came, at `start`.
    """
    node = part.plan
    if isinstance(node, LifetimeNode):  # pairs of rows that were both there before
        sizes = [size for size in node.sizes if size is not None]
        return start + min(sizes) if sizes else MAX_TS
    if isinstance(node, StoredWindowNode):
        store, member = part.windows[0]
        store.refresh()
        return member.full_from(start)
    if isinstance(node, OrderedJoinNode | FinalGroupNode):
        return ordered_from(part, start)
    if not isinstance(node, ArriveNode | WholeWindowNode):
        return start
    below = node.input.input if isinstance(node.input, SelectNode) else node.input
    if not is_late and (not isinstance(below, SourceNode) or below.stream not in part.started):
        return start
    if node.window.kind == "range":
        since = start if is_late or part.rows_since is None else part.rows_since
        return MAX_TS if node.window.size is None else since + node.window.size
    operator = part.operators[0]
    assert isinstance(operator, RowsWindow | WholeWindow), "a ROWS window is kept by one of these"
    return MAX_TS if operator.filled is None else operator.filled


def ordered_from(part: SubPlan, start: int) -> int:
    """When a join without windows, or groups of keys that grow, lack nothing of what came before."""
    from penstock.engine.ordered_keys.facts import exact_from

    since = exact_from(part.operators[0])
    return MAX_TS if since is None else max(start + 1, since)
