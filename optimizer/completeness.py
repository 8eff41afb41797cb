"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from penstock.engine.operators.rows_window import RowsWindow
from penstock.engine.pipeline import Part, Pipeline
from penstock.engine.plan import ArriveNode, LifetimeNode, SelectNode, SourceNode, plan_nodes
from penstock.engine.window import MAX_TS


def complete_from(pipeline: Pipeline) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    Rows of the very instant at which it started may have passed before, so the answer is exact after it; that
    of a join, once every row its windows can hold is there; that of what keeps a window itself, once all that
    was in it before has left. What began before the query, for another, may be there already.
    """
    start = start_of(pipeline)
    if start is None:
        return None
    known = [start + 1]
    for part in pipeline.everything:
        for group, member in part.joins.values():
            group.refresh()
            since = member.complete_from
            known.append(start + 1 if since is None else since)
        began = start_of(part)
        if part is not pipeline and began is not None:
            known.append(filled_from(part, began))
    return min(max(known), MAX_TS)


def start_of(part: Part) -> int | None:
    """How far the streams had come of which rows had passed before a plan began; None: it misses nothing."""
    sources = {node.stream for node in plan_nodes(part.plan) if isinstance(node, SourceNode)}
    return max((part.started[stream] for stream in sources if stream in part.started), default=None)


def filled_from(part: Part, start: int) -> int:
    """When a window of an incremental query holds all it would hold had it always been there."""
    node = part.plan
    if isinstance(node, LifetimeNode):  # pairs of rows that were both there before
        sizes = [size for size in node.sizes if size is not None]
        return start + min(sizes) if sizes else MAX_TS
    if not isinstance(node, ArriveNode):
        return start
    below = node.input.input if isinstance(node.input, SelectNode) else node.input
    if not isinstance(below, SourceNode) or below.stream not in part.started:
        return start
    if node.window.kind == "range":
        return MAX_TS if node.window.size is None else start + node.window.size
    operator = part.operators[0]
    assert isinstance(operator, RowsWindow), "a ROWS window is kept by a RowsWindow"
    return MAX_TS if operator.filled is None else operator.filled
