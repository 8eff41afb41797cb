"""Windows whose rows are kept in common as EXPLAIN shows them: what is kept, and who else reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.engine.plan.plan import StoredWindowNode

from .explain_text import some_of, where_lines

if TYPE_CHECKING:
    from penstock.engine.windows.facts import WindowFacts


def describe_window(
    node: StoredWindowNode, facts: WindowFacts, query: str
) -> tuple[str, list[str], dict[str, Any]]:
    """Title, lines and data of a query's window."""
    kind = "WholeWindow" if node.whole else "Window"
    lines = [node.label] if node.label else []
    if node.whole:
        lines.append("all rows at every hop" + (" at which some have come" if node.changed else ""))
    lines += [] if node.predicate is None else where_lines(node.predicate)
    data: dict[str, Any] = {
        "node": kind,
        "window": str(node.window),
        "predicate": None if node.predicate is None else str(node.predicate),
        "state_bounded": node.window.is_bounded,
    }
    others = [name for name in facts.readers if name != query]
    if others:
        lines.append(f"rows of {facts.stream} kept once, also for {some_of(others)}")
        data["rows_shared_with"] = others
    if node.label:
        data["operator"], data["mode"] = node.label.rsplit(" ", 1)
    return f"{kind} [{node.window}]", lines, data
