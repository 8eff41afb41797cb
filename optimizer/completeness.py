"""From when on a query that starts in the middle of its streams gives exact answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.plan import JoinNode, PlanNode, SourceNode, plan_nodes
from penstock.engine.queue import BEGINNING


def complete_from(plan: PlanNode, come_to: Mapping[str, int]) -> int | None:
    """Microseconds; None: the query misses nothing. `come_to`: how far each stream has come.

    A join is exact once every row that could still meet another came after the start: a window later.
    """
    starts = [come_to[node.stream] for node in plan_nodes(plan) if isinstance(node, SourceNode)]
    start = max(starts, default=BEGINNING)
    if start == BEGINNING:
        return None
    windows = [
        side.window.size
        for node in plan_nodes(plan)
        if isinstance(node, JoinNode)
        for side in (node.left_side, node.right_side)
        if side.window.kind == "range" and side.window.size is not None
    ]
    return start + max(windows, default=0)
