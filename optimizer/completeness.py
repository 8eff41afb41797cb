"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.operators.rows_window import RowsWindow
from penstock.engine.pipeline import Part, Pipeline
from penstock.engine.plan import ArriveNode, LifetimeNode, SelectNode, SourceNode, plan_nodes
from penstock.engine.window import MAX_TS


def complete_from(pipeline: Pipeline, started: Mapping[str, int]) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    `started`: how far each stream that had rows had come when the query started. Rows of that very instant
    may have passed before, so the answer is exact after it; that of a join, once every row its windows can
    hold is there; that of what keeps a window itself, once all that was in it before has left.
    """
    sources = {node.stream for node in plan_nodes(pipeline.plan) if isinstance(node, SourceNode)}
    starts = [started[stream] for stream in sources if stream in started]
    if not starts:
        return None
    start = max(starts)
    known = [start + 1]
    for part in pipeline.everything:
        for group, member in part.joins.values():
            group.refresh()
            since = member.complete_from
            known.append(start + 1 if since is None else since)
        if part is not pipeline:
            known.append(filled_from(part, start, started))
    return min(max(known), MAX_TS)


def exact_from(started: Mapping[str, int], pipeline: Pipeline) -> int:
    """The same as a time in any case: one that misses nothing is exact from the earliest there is."""
    since = complete_from(pipeline, started)
    return -MAX_TS if since is None else since


def filled_from(part: Part, start: int, started: Mapping[str, int]) -> int:
    """When a window of an incremental query holds all it would hold had the query always been there."""
    node = part.plan
    if isinstance(node, LifetimeNode):  # pairs of rows that were both there before
        sizes = [size for size in node.sizes if size is not None]
        return start + min(sizes) if sizes else MAX_TS
    if not isinstance(node, ArriveNode):
        return start
    below = node.input.input if isinstance(node.input, SelectNode) else node.input
    if not isinstance(below, SourceNode) or below.stream not in started:
        return start
    if node.window.kind == "range":
        return MAX_TS if node.window.size is None else start + node.window.size
    operator = part.operators[0]
    assert isinstance(operator, RowsWindow), "a ROWS window is kept by a RowsWindow"
    return MAX_TS if operator.filled is None else operator.filled
