"""Figures 7.4 to 7.6 of the thesis on hopping windows: where a difference stands, and what finding it gains.

The difference of two joins with the same stream, or the join of the difference: the answer is the same.
7.4 asks the model alone, of random plans; the others are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.optimizer.costs.weights import load

from .hopping_drawing import draw_searches, draw_shapes
from .hopping_modes import FIXED_HOP_S, Point, keep, load_of, text
from .hopping_plans import compare_searches
from .hopping_trials import FEW_RATE, SECOND_US, Way, run_ways
from .outcome import Outcome, Target

PULLED = (
    "SELECT a.k, a.v, c.v AS w FROM a {w} JOIN c {w} ON a.k = c.k EXCEPT ALL "
    "SELECT b.k, b.v, c.v AS w FROM b {w} JOIN c {w} ON b.k = c.k"
)
PUSHED = (
    "SELECT x.k, x.v, c.v AS w FROM (SELECT k, v FROM a {w} EXCEPT ALL SELECT k, v FROM b {w}) AS x "
    "JOIN c {w} ON x.k = c.k"
)
OPTIMUM = Target(">=", 0.95)
PULL_UP, PUSH_DOWN = "above the joins", "below the join"
STEPS = ("as written, all delta", "heuristic, all delta", "heuristic and modes")


def bench_searches(outcome: Outcome, plans: int, out: Path) -> None:
    """Figure 7.4: in how many random plans each search finds the cheapest."""
    group = f"figure 7.4, {plans:,} random plans of fewer than 8 operators, by the cost model"
    found = compare_searches(plans, load())
    for name, one in found.items():
        target = OPTIMUM if name == "heuristic" else None
        note = f"at worst {one.worst:.3g} times as dear"
        outcome.add(group, f"{name}: share with the exhaustive optimum", one.same, "", target, note)
    outcome.data.setdefault("figures", {})["7.4"] = {
        name: {"same": one.same, "worst": one.worst} for name, one in found.items()
    }
    path = out / "hopping-fig7.4.png"
    draw_searches(found, plans, path)
    outcome.pictures.append(path.name)


def bench_shapes(outcome: Outcome, windows_s: Sequence[int], rounds: int, out: Path) -> None:
    """Figures 7.5 and 7.6."""
    shapes: list[Point] = []
    steps: list[Point] = []
    for window_s in windows_s:
        pulled, pushed = text(PULLED, window_s), text(PUSHED, window_s)
        ways = {
            PULL_UP: Way(pulled, "DELTA", "auto", "none"),
            PUSH_DOWN: Way(pushed, "DELTA", "auto", "none"),
            STEPS[0]: Way(pulled, "DELTA", "DIDO", "none"),
            STEPS[1]: Way(pulled, "DELTA", "DIDO", "heuristic"),
            STEPS[2]: Way(pulled, "DELTA", "auto", "heuristic"),
        }
        rows = load_of("abc", window_s, FIXED_HOP_S * SECOND_US, PULLED, FEW_RATE)
        costs = run_ways(outcome, f"figures 7.5 and 7.6, {window_s} s", ways, rows, rounds)
        shapes.append(Point(window_s, {name: costs[name] for name in (PULL_UP, PUSH_DOWN)}))
        steps.append(Point(window_s, {name: costs[name] for name in STEPS}))
    for figure, points, title in (
        ("7.5", shapes, "the place of a difference, modes assigned"),
        ("7.6", steps, "all together"),
    ):
        keep(outcome, figure, points)
        group = f"figure {figure}, {title}, {FEW_RATE} rows/s, hop {FIXED_HOP_S} s, EMIT DELTA"
        last = points[-1]
        for name, cost in last.costs.items():
            note = f"window {last.at:g} s (the model: {1e3 * cost.estimated:.3g}); {cost.plan}"
            outcome.add(group, name, 1e3 * cost.measured, "ms", note=note)
        first, *_, best = last.costs
        ratios = [point.costs[first].measured / point.costs[best].measured for point in points]
        note = f"{min(ratios):.2f} to {max(ratios):.2f} over windows of {points[0].at:g} to {last.at:g} s"
        outcome.add(group, f"{best} / {first}", ratios[-1], "x", note=note)
    path = out / "hopping-fig7.5-7.6.png"
    draw_shapes(shapes, steps, FIXED_HOP_S, FEW_RATE, path)
    outcome.pictures.append(path.name)
