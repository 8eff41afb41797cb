"""Why a hopping query runs as it does: what its operators cost per hop, and what else there was to choose."""

from __future__ import annotations

from typing import Any, Protocol

from .optimize_hopping import HoppingPlan, write_shape


class Described(Protocol):
    """What of a description is read and added to here (explain.py)."""

    lines: list[str]
    data: dict[str, Any]

    @property
    def below(self) -> list[Any]: ...


def explain_hopping(top: Described, plan: HoppingPlan) -> None:
    """Add the choice to the description of a query, and to each operator what it costs."""
    top.lines += plan_lines(plan)
    top.data["hopping"] = {
        "optimize": plan.strategy,
        "note": plan.note or None,
        "plan": write_shape(plan.query.root),
        "cost_per_hop_s": plan.chosen.cost,
        "others": dict(plan.others),
        "orders": dict(plan.orders),
    }
    costs = {one.name: one for one in plan.operators}

    def visit(node: Described) -> None:
        known = costs.get(node.data.get("operator", ""))
        if known is not None:
            own = known.costs.get(known.mode, 0.0)
            node.lines[0] += f", {write_cost(own)} a hop"
            others = [
                f"{mode} {write_cost(cost)}" for mode, cost in known.costs.items() if mode != known.mode
            ]
            if others and not known.name.startswith("scan "):
                node.lines[0] += f" ({', '.join(others)})"
            node.data["cost_per_hop_s"] = own
            node.data["costs_per_hop_s"] = dict(known.costs)
        for part in node.below:
            visit(part)

    visit(top)


def plan_lines(plan: HoppingPlan) -> list[str]:
    others = ", ".join(f"{name} {write_cost(cost)}" for name, cost in plan.others)
    lines = [f"plan {plan.strategy}: {write_cost(plan.chosen.cost)} a hop by the cost model ({others})"]
    if plan.note:
        lines.append(plan.note)
    shape = write_shape(plan.query.root)
    if " " in shape:
        lines.append(f"runs {shape}")
    return lines + [f"  not {text}: {write_cost(cost)}" for text, cost in plan.orders]


def write_cost(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
