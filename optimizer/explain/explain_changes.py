"""Operators of incremental queries as EXPLAIN shows them: what they keep, and how they hear of expiry."""

from __future__ import annotations

from typing import Any

from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import (
    AggregateNode,
    ArriveNode,
    AtTicksNode,
    ChangeJoinNode,
    ExpireNode,
    HopDeltaNode,
    LifetimeNode,
    SetOperationNode,
    StoredWindowNode,
    TicksNode,
    WholeTableNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import IncrementalNode, plan_inputs, plan_nodes
from penstock.optimizer.plan.plan_changes import has_ends

HEARS = {
    "promises": "as far as its inputs have come",
    "nta": "from negative rows",
    "ita": "from the rows that come",
    "time-message": "from time-messages",
    "piggyback": "from rows and time-messages, merged",
}
MEANS = {
    "DIDO": "changes in, changes out",
    "DICO": "changes in, whole answers out",
    "CICO": "whole answers in and out",
    "CIDO": "whole answers in, changes out",
}
KINDS = {"inner": "Join", "left": "LeftJoin", "right": "RightJoin", "full": "FullJoin"}


def describe_incremental(
    node: IncrementalNode | TicksNode, approach: Approach
) -> tuple[str, list[str], dict[str, Any]]:
    """Title, lines and data of a node; of a hopping query's operator also its name and mode."""
    title, lines, data = describe_node(node, approach)
    if label := getattr(node, "label", ""):
        data["operator"], data["mode"] = label.rsplit(" ", 1)
        lines.insert(0, mode_line(label))
    if getattr(node, "whole", None) is not None:
        data.pop("expiry", None)
        lines = [line for line in lines if not line.startswith(("expiry", "told of", "MIN and MAX keep"))]
    return title, lines, data


def mode_line(label: str) -> str:
    """An operator's name and mode, and what the mode means."""
    return label if label.startswith("scan ") else f"{label}: {MEANS[label.rsplit(' ', 1)[1]]}"


def describe_node(
    node: IncrementalNode | TicksNode, approach: Approach
) -> tuple[str, list[str], dict[str, Any]]:
    match node:
        case WholeWindowNode():
            data: dict[str, Any] = {
                "node": "WholeWindow",
                "window": str(node.window),
                "state_bounded": node.window.is_bounded,
            }
            when = "every hop" if node.ticks is None else "hops at which something may have changed"
            return f"WholeWindow [{node.window}]", [f"each row kept once, all of them at {when}"], data
        case AtTicksNode():
            lines = ["all rows at hops at which something may have changed"]
            return "AtHops", lines, {"node": "AtHops"}
        case WholeTableNode():
            return "WholeTable", ["all rows at every hop"], {"node": "WholeTable"}
        case HopDeltaNode():
            return "HopDelta", ["what has changed since the hop before"], {"node": "HopDelta"}
        case TicksNode():
            when = ", while windows hold rows" if node.window else ", as rows come"
            return "Hops", [f"of these streams{'' if node.window is None else when}"], {"node": "Hops"}
        case ArriveNode():
            data = {"node": "Window", "window": str(node.window)}
            data["state_bounded"] = node.window.is_bounded
            return f"Window [{node.window}]", [], data
        case StoredWindowNode():
            raise AssertionError("windows in common are described by explain_windows")
        case LifetimeNode():
            return "Lifetime", ["pairs leave with the first of their rows"], {"node": "Lifetime"}
        case ExpireNode():
            lines = [f"-1 for each row that leaves, heard {HEARS[approach]}"]
            return "Expire", lines, {"node": "Expire", "expiry": approach}
        case AggregateNode():
            keys, calls = node.names[: node.keys], node.names[node.keys :]
            by = f" BY {', '.join(keys)}" if keys else ""
            ordered = any(call.function in ("min", "max") for call in node.calls)
            keeps_all = node.withdrawn and not node.announced
            keeps = "every value, in order" if keeps_all else "what can still become the answer"
            lines = [f"MIN and MAX keep {keeps}"] if ordered else []
            if any(call.function in ("sum", "avg") and call.type.value == "DOUBLE" for call in node.calls):
                lines.append("sums are exact")
            lines.append(hearing(node, approach))
            data = {"node": "GroupBy", "keys": list(keys), "aggregates": list(calls), "expiry": approach}
            return f"GroupBy {', '.join(calls)}{by}", lines, data
        case SetOperationNode():
            name = f"{node.kind.capitalize()}{'All' if node.all else ''}"
            return name, [hearing(node, approach)], {"node": name, "expiry": approach}
        case ChangeJoinNode():
            name = KINDS.get(node.kind, f"{node.kind.capitalize()}Join")
            lines = [] if node.residual is None else [f"where {node.residual}"]
            data = {"node": name, "condition": node.text or None, "index": "hash" if node.text else "scan"}
            data["residual"] = None if node.residual is None else str(node.residual)
            return f"{name} {node.text or '(every pair)'}", lines, data


def hearing(node: AggregateNode | SetOperationNode, approach: Approach) -> str:
    """How an operator comes to know that rows have left its windows."""
    is_stored = any(isinstance(one, StoredWindowNode) for one in plan_nodes(node))
    if is_stored and not any(map(has_ends, plan_inputs(node))):
        return "told of each row that leaves"
    return f"expiry heard {HEARS[approach]}"
