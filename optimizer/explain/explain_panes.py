"""Hopping aggregates by panes as EXPLAIN shows them: what is kept, and who else reads it."""

from __future__ import annotations

from typing import Any

from penstock.engine.panes.facts import PaneFacts
from penstock.engine.plan.plan import PaneAggregateNode
from penstock.engine.rows.write_times import write_duration

from .explain_changes import mode_line
from .explain_text import some_of


def describe_panes(node: PaneAggregateNode, facts: PaneFacts) -> tuple[str, list[str], dict[str, Any]]:
    """Title, lines and data of a query's share in an aggregate by panes."""
    count = len(node.common.keys)
    keys, calls = node.names[:count], node.names[count:]
    by = f" BY {', '.join(keys)}" if keys else ""
    lines = [f"from panes of [RANGE {write_duration(node.size)}]"]
    if node.common.predicate is not None:
        lines.append(f"where {node.common.predicate}")
    groups = f" of {facts.groups:,} groups" if keys else ""
    lines.append(f"panes: {facts.panes:,}{groups}")
    if node.label:
        lines.insert(0, mode_line(node.label))
    data: dict[str, Any] = {
        "node": "PaneAggregate",
        "keys": list(keys),
        "aggregates": list(calls),
        "window_us": node.size,
        "emit": node.emit,
        "predicate": None if node.common.predicate is None else str(node.common.predicate),
        "panes": facts.panes,
        "groups": facts.groups,
        "state_bounded": True,
    }
    if node.label:
        data["operator"], data["mode"] = node.label.rsplit(" ", 1)
    if facts.others:
        lines.append(f"panes kept once, also for {some_of(facts.others)}")
        data["shared_with"] = list(facts.others)
    return f"PaneAggregate {', '.join(calls)}{by}", lines, data
