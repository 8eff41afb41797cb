"""Which joins without windows keep all in memory that can be met, whatever the limit.

Said to whoever set a limit, when the query is made and in EXPLAIN.
"""

from __future__ import annotations

from penstock.engine.plan.plan import OrderedJoinNode


def all_in_memory(node: OrderedJoinNode) -> str | None:
    """Why a join does; None: it keeps within the limit."""
    if node.kind != "inner":
        return f"{node.kind.upper()} JOIN"
    if any(side.window.is_bounded for side in node.sides):
        return "a window beside ORDERED"
    return "ORDERED PER column" if any(node.per) else None
