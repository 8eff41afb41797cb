"""Why a hopping query runs as it does: what its operators cost per hop, and what else there was to choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.optimizer.hopping.assign_modes import Assigned
from penstock.optimizer.hopping.optimize_hopping import HoppingPlan
from penstock.optimizer.plan.modes import Form, Mode, reads, writes
from penstock.optimizer.plan.write_shape import write_shape
from penstock.optimizer.tree.logical import Join, SetOperation

WINDOW_MODES: dict[Form, Mode] = {"delta": "DIDO", "complete": "DICO"}
"""Of a window, by what it writes."""


class Described(Protocol):
    """What of a description is read and added to here (explain.py)."""

    lines: list[str]
    data: dict[str, Any]

    @property
    def below(self) -> list[Any]: ...


def explain_hopping(top: Described, plan: HoppingPlan, shown: Mapping[str, Assigned]) -> None:
    """Add the choice to the description of a query, and to each operator what it costs.

    shown: the operators with what they have shown while running, by name.
    """
    top.lines.extend(plan_lines(plan))
    top.data["hopping"] = {
        "optimize": plan.strategy,
        "note": plan.note or None,
        "plan": write_shape(plan.query.root),
        "cost_per_hop_s": plan.chosen.cost,
        "others": dict(plan.others),
        "orders": dict(plan.orders),
    }
    known = {one.name: one for one in plan.operators}
    below = {one.name: other for one, other in zip(plan.operators, plan.operators[1:], strict=False)}

    expected = {one.name: part for one, part in zip(plan.operators, plan.chosen.operators(), strict=True)}

    def visit(node: Described) -> None:
        one = known.get(node.data.get("operator", ""))
        if one is not None:
            costs = dict(one.costs)
            if node.data["node"] == "PaneAggregate":  # each with the window below it, which panes do without
                window = below[one.name].costs
                costs = {mode: cost + window[WINDOW_MODES[reads(mode)]] for mode, cost in costs.items()}
            own = costs.get(one.mode, 0.0)
            node.lines[0] += f", {write_cost(own)} a hop"
            others = [f"{mode} {write_cost(cost)}" for mode, cost in costs.items() if mode != one.mode]
            if others and not one.name.startswith("scan "):
                node.lines[0] += f" ({', '.join(others)})"
            if one.name in shown:
                explain_flow(node, expected[one.name], shown[one.name])
            node.data["cost_per_hop_s"] = own
            node.data["costs_per_hop_s"] = costs
        for part in node.below:
            visit(part)

    visit(top)


def explain_flow(node: Described, expected: Assigned, shown: Assigned) -> None:
    """What an operator has given at a boundary, against what was expected of it."""
    assert expected.mode is not None, "an operator has a mode"
    form = writes(expected.mode)
    was, now = expected.flow.in_form(form), shown.flow.in_form(form)
    line = f"measured: {now:,.0f} {'rows' if form == 'complete' else 'changes'} a hop (estimated {was:,.0f})"
    node.data["estimated_per_hop"], node.data["measured_per_hop"] = was, now
    match expected.node:
        case Join(kind="inner"):
            shares = [
                one.flow.rows / max(1e-9, one.inputs[0].flow.rows * one.inputs[1].flow.rows)
                for one in (shown, expected)
            ]
            line += f"; {shares[0]:.3%} of pairs meet ({shares[1]:.3%})"
        case Join(kind="semi" | "anti") | SetOperation(kind="except" | "intersect"):
            shares = [one.flow.rows / max(1e-9, one.inputs[0].flow.rows) for one in (shown, expected)]
            line += f"; {shares[0]:.1%} of the left input's rows remain ({shares[1]:.1%})"
        case _:
            shares = []
    if shares:
        node.data["measured_share"], node.data["estimated_share"] = shares
    node.lines.append(line)


def plan_lines(plan: HoppingPlan) -> list[str]:
    others = ", ".join(f"{name} {write_cost(cost)}" for name, cost in plan.others)
    by = "by what was measured" if plan.changes else "by the cost model"
    lines = [f"plan {plan.strategy}: {write_cost(plan.chosen.cost)} a hop {by} ({others})"]
    if plan.note:
        lines.append(plan.note)
    shape = write_shape(plan.query.root)
    if len(plan.operators) > 2:  # else it is an operator over a stream
        lines.append(f"runs {shape}")
    return lines + [f"  not {text}: {write_cost(cost)}" for text, cost in plan.orders]


def write_cost(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
