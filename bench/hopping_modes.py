"""Figures 7.1 to 7.3 of the thesis on hopping windows: modes over the ratio of hop and window.

7.1 is a join, 7.2 a difference, each alone in its query. What a query emits decides what its topmost operator
writes: DIDO and CIDO are run with EMIT DELTA, DICO and CICO with EMIT COMPLETE, and `auto` with both. 7.3 has
a join above a difference, hops of 5 s, and windows that grow. Smaller ratios than the thesis has are in the
pictures because that is where changes and whole answers cost the same here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .hopping_drawing import draw_modes, draw_windows
from .hopping_trials import (
    EMITS,
    FEW_RATE,
    KEYS,
    MODES,
    RATE,
    SECOND_US,
    Cost,
    Load,
    Way,
    hops_for,
    rows_for,
    run_ways,
    table_of,
    warm_up,
)
from .outcome import Outcome, Target

JOIN = "SELECT a.k, a.v, b.v AS w FROM a {w} JOIN b {w} ON a.k = b.k"
DIFFERENCE = "SELECT k, v FROM a {w} EXCEPT SELECT k, v FROM b {w}"
BOTH = (
    "SELECT x.k, x.v, c.v AS w FROM (SELECT k, v FROM a {w} EXCEPT SELECT k, v FROM b {w}) AS x "
    "JOIN c {w} ON x.k = c.k"
)
JOIN_WINDOW_S, DIFFERENCE_WINDOW_S = 5, 20
FIXED_HOP_S = 5
NEAR, STEPS = Target(">=", 0.9), Target("<=", 1)
AUTO = "auto"
HALF_REMAINS = 0.468  # x, rows of a window for each different one there can be: (1 - e^-x) e^-x / x is half

Behind = list[tuple[str, float]]  # where, and the speed of the assigned plan against the best fixed one


@dataclass(frozen=True, slots=True)
class Point:
    """One setting: hop by window or the window, and the costs of each way."""

    at: float
    costs: dict[str, Cost]


def bench_modes(
    outcome: Outcome, ratios: Sequence[float], windows_s: Sequence[int], rounds: int, out: Path
) -> None:
    """All three; then how far the assigned plans are from the best fixed ones."""
    behind: Behind = []
    for figure, name, sql, window_s in (
        ("7.1", "join", JOIN, JOIN_WINDOW_S),
        ("7.2", "difference", DIFFERENCE, DIFFERENCE_WINDOW_S),
    ):
        points = over_ratios(outcome, figure, sql, window_s, ratios, rounds)
        keep(outcome, figure, points)
        group = f"figure {figure}, {name}, window {window_s} s of {RATE:,} rows/s, time per hop"
        report_modes(outcome, group, points)
        report_crossovers(outcome, group, points)
        behind += [
            (f"figure {figure}, EMIT {emit}, {point.at:.0%}", against_best(point, emit))
            for point in points
            for emit in EMITS
        ]
        path = out / f"hopping-fig{figure}.png"
        draw_modes(points, f"Figure {figure}: a {name}", window_s, path)
        outcome.pictures.append(path.name)
    behind += bench_windows(outcome, windows_s, rounds, out)
    where, worst = min(behind, key=lambda one: one[1])
    same = sum(ratio == 1 for _, ratio in behind)
    note = f"{where}; {len(behind)} points, {same} of them the best one's plan and so its measurement"
    outcome.add("assigned modes / the best fixed ones", "worst ratio of speeds", worst, "x", NEAR, note)
    outcome.data["auto_against_best"] = dict(behind)


def load_of(streams: str, window_s: float, hop_us: int, sql: str, rate: int = RATE) -> Load:
    """Rows for a query; a difference leaves half as many as are in the left window."""
    window_us = round(window_s * SECOND_US)
    rows = rows_for(window_us, hop_us, rate)
    values = 1 << 40
    if "EXCEPT" in sql:
        values = max(1, round(rate * window_s / HALF_REMAINS / KEYS))
    tables = {name: table_of(rows, rate, KEYS, values, seed) for seed, name in enumerate(streams)}
    return Load.of(tables, window_us, hop_us, hops_for(window_us, hop_us), rate)


def text(sql: str, window_s: float) -> str:
    return sql.format(w=f"[RANGE {round(window_s * SECOND_US)} us]")


def over_ratios(
    outcome: Outcome, figure: str, sql: str, window_s: int, ratios: Sequence[float], rounds: int
) -> list[Point]:
    """Four modes, and what is assigned."""
    asked = text(sql, window_s)
    ways = {mode: Way(asked, emit, mode) for mode, emit in MODES.items()}
    ways |= {f"{AUTO}, {emit}": Way(asked, emit) for emit in EMITS}
    warm_up(list(ways.values()), load_of("ab", window_s, window_s * SECOND_US, sql))
    points = []
    for ratio in ratios:
        load = load_of("ab", window_s, round(ratio * window_s * SECOND_US), sql)
        points.append(Point(ratio, run_ways(outcome, f"figure {figure}, {ratio:.0%}", ways, load, rounds)))
    return points


def against_best(point: Point, emit: str) -> float:
    """How fast the assigned plan is, the best fixed mode that emits the same being 1."""
    best = min(point.costs[mode].measured for mode, said in MODES.items() if said == emit)
    return best / point.costs[f"{AUTO}, {emit}"].measured


def report_modes(outcome: Outcome, group: str, points: Sequence[Point]) -> None:
    """Each way at both ends."""
    first, last = points[0], points[-1]
    for name in last.costs:
        one, two = first.costs[name], last.costs[name]
        note = (
            f"at {last.at:.0%} (the model: {1e3 * two.estimated:.3g}); at {first.at:.0%} "
            f"{1e3 * one.measured:.3g} ms ({1e3 * one.estimated:.3g})"
        )
        outcome.add(group, name, 1e3 * two.measured, "ms", note=note)


def report_crossovers(outcome: Outcome, group: str, points: Sequence[Point]) -> None:
    """From which ratio on reading whole answers is cheaper: where the model says, and where it is."""
    for delta, complete in (("DIDO", "CIDO"), ("DICO", "CICO")):
        expected = crossing([p.costs[complete].estimated < p.costs[delta].estimated for p in points])
        found = crossing([p.costs[complete].measured < p.costs[delta].measured for p in points])
        note = f"the model: {place(points, expected)}; measured: {place(points, found)}"
        name = f"{complete} cheaper than {delta}, steps between model and measurement"
        outcome.add(group, name, abs(expected - found), "steps", STEPS, note)


def crossing(cheaper: Sequence[bool]) -> int:
    """The first point from which on it is so."""
    at = len(cheaper)
    while at and cheaper[at - 1]:
        at -= 1
    return at


def place(points: Sequence[Point], at: int) -> str:
    if at == 0:
        return f"at {points[0].at:.0%} already"
    return f"from {points[at].at:.0%} on" if at < len(points) else "nowhere"


def keep(outcome: Outcome, figure: str, points: Sequence[Point]) -> None:
    """For the JSON file."""
    outcome.data.setdefault("figures", {})[figure] = [dataclasses.asdict(point) for point in points]


# -- figure 7.3 ---------------------------------------------------------------------------------------


def bench_windows(outcome: Outcome, windows_s: Sequence[int], rounds: int, out: Path) -> Behind:
    """A join above a difference: the assigned plan against all complete and all delta."""
    points = []
    for window_s in windows_s:
        asked = text(BOTH, window_s)
        ways = {
            "all complete": Way(asked, "DELTA", "CIDO", "none"),
            "all delta": Way(asked, "DELTA", "DIDO", "none"),
            "assigned": Way(asked, "DELTA", AUTO, "none"),
        }
        load = load_of("abc", window_s, FIXED_HOP_S * SECOND_US, BOTH, FEW_RATE)
        points.append(Point(window_s, run_ways(outcome, f"figure 7.3, {window_s} s", ways, load, rounds)))
    keep(outcome, "7.3", points)
    group = f"figure 7.3, a join above a difference, {FEW_RATE} rows/s, hop {FIXED_HOP_S} s, EMIT DELTA"
    for point in dict.fromkeys((points[0].at, points[-1].at)):
        costs = next(one.costs for one in points if one.at == point)
        for name, cost in costs.items():
            note = f"the model: {1e3 * cost.estimated:.3g}; {cost.plan}"
            outcome.add(group, f"{name}, window {point:g} s", 1e3 * cost.measured, "ms", note=note)
    path = out / "hopping-fig7.3.png"
    draw_windows(points, FIXED_HOP_S, FEW_RATE, path)
    outcome.pictures.append(path.name)
    return [
        (
            f"figure 7.3, window {point.at:g} s",
            min(point.costs[name].measured for name in ("all complete", "all delta"))
            / point.costs["assigned"].measured,
        )
        for point in points
    ]
