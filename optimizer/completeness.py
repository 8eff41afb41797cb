"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.plan import SourceNode, plan_nodes
from penstock.engine.runtime import Pipeline
from penstock.engine.window import MAX_TS


def complete_from(pipeline: Pipeline, started: Mapping[str, int]) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    `started`: how far each stream that had rows had come when the query started. Rows of that very instant
    may have passed before, so the answer is exact after it; that of a join, once every row its windows can
    hold is there.
    """
    sources = {node.stream for node in plan_nodes(pipeline.plan) if isinstance(node, SourceNode)}
    starts = [started[stream] for stream in sources if stream in started]
    if not starts:
        return None
    known = [max(starts) + 1]
    for group, member in pipeline.joins.values():
        group.refresh()
        since = member.complete_from
        known.append(max(starts) + 1 if since is None else since)
    return min(max(known), MAX_TS)
