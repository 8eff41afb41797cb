"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.operators.join import Side, WindowJoin
from penstock.engine.plan import SourceNode, plan_nodes
from penstock.engine.runtime import Pipeline
from penstock.engine.window import MAX_TS


def complete_from(pipeline: Pipeline, started: Mapping[str, int]) -> int | None:
    """Microseconds; None: the query misses nothing; MAX_TS: not yet, or never.

    `started`: how far each stream that had rows had come when the query started. Rows of that very instant
    may have passed before, so the answer is exact after it; that of a join, once every row its windows can
    hold came after it.
    """
    sources = {node.stream for node in plan_nodes(pipeline.plan) if isinstance(node, SourceNode)}
    starts = [started[stream] for stream in sources if stream in started]
    if not starts:
        return None
    start = max(starts)
    joins = [operator for operator in pipeline.operators.values() if isinstance(operator, WindowJoin)]
    filled = [filled_from(side, start) for join in joins for side in (join.left, join.right)]
    return min(max([start + 1, *filled]), MAX_TS)


def filled_from(side: Side, start: int) -> int:
    """When a window holds nothing but rows that came after `start`."""
    if side.window.size is None:
        return MAX_TS
    if side.window.kind == "range":
        return start + side.window.size
    return MAX_TS if side.filled_ts is None else side.filled_ts
