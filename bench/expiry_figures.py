"""Figures 7 to 10 of the incremental-evaluation paper: delays, messages, join capacity, throughput.

Delays of figure 7 are in the time of the streams; everything else is processor time. Fixed numbers are the
paper's: 50 rows per second, windows of 30 s, and 200 rows per second in figure 9.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .expiry_drawing import draw_capacity, draw_delays, draw_piggyback, draw_throughput
from .expiry_groups import APPROACHES, auto_ratio
from .expiry_join import changes_of, drive_time
from .expiry_trials import (
    MOST_AND_COUNT,
    SECOND_US,
    Load,
    Side,
    Trial,
    favourites_load,
    prices_load,
    run_trial,
    run_trials,
    side_by_multiplicity,
    side_by_selectivity,
)
from .outcome import Outcome, Target

RATE = 50
WINDOW_S = 30
BUSY_RATE = 200
THROUGHPUT_SELECTIVITY = 0.005
SMALL_STEP_US = 20_000
ALONE = "ChangeJoin, rows that leave by themselves, messages"
ALONE_AGAIN = "ChangeJoin, rows withdrawn by -1"
DUE = Target(">=", 0.9)

Behind = list[tuple[str, float]]  # where, and the speed of `auto` against the best


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run: points of the figures and seconds of stream time; rounds where time is measured."""

    shares: tuple[float, ...]
    delay_s: float
    multiplicities: tuple[int, ...]
    messages_s: float
    capacity_s: float
    capacity_step_s: float
    selectivities: tuple[float, ...]
    busy_s: float
    rates: tuple[float, ...]
    throughput_s: float
    rounds: int


@dataclass(eq=False, slots=True)
class Point:
    """One setting: its trials by approach, the best run of each."""

    at: float
    trials: dict[str, Trial]
    alone: dict[str, float] = field(default_factory=dict)  # input rows per second of the join alone


def bench_figures(outcome: Outcome, scale: Scale, out: Path) -> Behind:
    """All figures; how far `auto` is from the best at each point of 8b and 10."""
    warm_up(scale)
    bench_delays(outcome, scale, out)
    behind = bench_capacity(outcome, scale, out)
    bench_piggyback(outcome, scale, out)
    return behind + bench_throughput(outcome, scale, out)


def warm_up(scale: Scale) -> None:
    """Every kernel once."""
    sides = multiplied(2, 3, 1)
    loads = [
        favourites_load(0.5, False, RATE, 1, 3, 0),
        favourites_load(0.5, True, RATE, 1, 3, 100_000),
        prices_load(sides, 1, 3, 100_000),
    ]
    for load in loads:
        for expiry in APPROACHES:
            run_trial(load, expiry)
    for withdrawn in (False, True):
        drive_time(changes_of(sides, SECOND_US, SECOND_US, withdrawn))


def run_point(
    outcome: Outcome, what: str, at: float, load: Load, approaches: Sequence[str], rounds: int
) -> Point:
    """A setting with each approach; all must change their answer alike."""
    found = run_trials(load, approaches, rounds)
    outcome.compare(
        what, {e: {trial.changes for trial in trials} for e, trials in zip(approaches, found, strict=True)}
    )
    best = {e: best_of(trials) for e, trials in zip(approaches, found, strict=True)}
    return Point(at, best)


def best_of(trials: list[Trial]) -> Trial:
    """Each time from the run that had the best of it."""
    delays = min((trial.processing_delay for trial in trials), key=lambda delay: delay["average_us"])
    return dataclasses.replace(
        trials[0],
        cpu_s=min(trial.cpu_s for trial in trials),
        join_s=min(trial.join_s for trial in trials),
        processing_delay=delays,
    )


def keep(outcome: Outcome, figure: str, points: Sequence[Point]) -> None:
    """For the JSON file."""
    outcome.data.setdefault("figures", {})[figure] = [dataclasses.asdict(point) for point in points]


# -- figure 7 -----------------------------------------------------------------------------------------


def bench_delays(outcome: Outcome, scale: Scale, out: Path) -> None:
    """Q1: how late answers are by selectivity, for two distributions of the rows that qualify."""
    group = f"figure 7, Q1, output delay in stream time, {RATE} rows/s, window {WINDOW_S} s, a row per push"
    found: dict[str, list[Point]] = {}
    for name, bunched in (("bunched", True), ("scattered", False)):
        for share in scale.shares:
            load = favourites_load(share, bunched, RATE, WINDOW_S, WINDOW_S + scale.delay_s, 0, WINDOW_S)
            point = run_point(outcome, f"figure 7, {name}, {share:g}", share, load, APPROACHES, 1)
            found.setdefault(name, []).append(point)
        keep(outcome, f"7, {name}", found[name])
        ends = dict.fromkeys((found[name][0], found[name][-1]))
        for point in ends:
            delay = point.trials["ita"].stream_delay
            note = f"at most {delay['max_us'] / 1e6:.3g} s"
            outcome.add(
                group,
                f"ita, {name}, {point.at:.0%} qualify: average",
                delay["average_us"] / 1e6,
                "s",
                note=note,
            )
    others = [
        trial.stream_delay["max_us"] / 1e6
        for points in found.values()
        for point in points
        for expiry, trial in point.trials.items()
        if expiry != "ita"
    ]
    outcome.add(group, "all other approaches, all points: at most", max(others), "s", Target("<=", 0))
    path = out / "expiry-fig7.png"
    draw_delays(found, RATE, WINDOW_S, path)
    outcome.pictures.append(path.name)


# -- figure 8 -----------------------------------------------------------------------------------------


def multiplied(multiplicity: int, seconds: float, window_s: float = WINDOW_S) -> tuple[Side, Side]:
    """Both streams of Q2."""
    one, two = (side_by_multiplicity(RATE, window_s, seconds, multiplicity, 5 + i, i) for i in (0, 1))
    return one, two


def bench_capacity(outcome: Outcome, scale: Scale, out: Path) -> Behind:
    """Q2: what leaves the join besides new pairs, and how many rows it can take."""
    few: list[Point] = []
    many: list[Point] = []
    step_us = int(scale.capacity_step_s * SECOND_US)
    for multiplicity in scale.multiplicities:
        what = f"figure 8, multiplicity {multiplicity}"
        seconds = WINDOW_S + scale.messages_s
        load = prices_load(multiplied(multiplicity, seconds), WINDOW_S, seconds, SMALL_STEP_US, WINDOW_S)
        few.append(run_point(outcome, what, multiplicity, load, APPROACHES, 1))
        sides = multiplied(multiplicity, scale.capacity_s)
        load = prices_load(sides, WINDOW_S, scale.capacity_s, step_us)
        point = run_point(outcome, f"{what}, capacity", multiplicity, load, APPROACHES, 2 * scale.rounds)
        point.alone = join_alone(outcome, what, sides, step_us, scale.rounds, point.trials["auto"].entered)
        many.append(point)
    keep(outcome, "8a", few)
    keep(outcome, "8b", many)
    group = f"figure 8a, Q2, negatives or messages per pair, pushes of {SMALL_STEP_US / 1e3:g} ms"
    for expiry in APPROACHES:
        ratios = [overhead(point, expiry) for point in few]
        note = f"multiplicity {few[0].at:g} to {few[-1].at:g}: " + ", ".join(f"{r:.2f}" for r in ratios)
        outcome.add(group, expiry, sum(ratios) / len(ratios), "per pair", note=note)
    group = f"figure 8b, Q2, input rows per second of the join's time, pushes of {scale.capacity_step_s:g} s"
    for expiry in APPROACHES:
        speeds = [capacity(point, expiry) for point in many]
        note = f"{min(speeds):,.0f} to {max(speeds):,.0f} over multiplicities"
        outcome.add(group, expiry, sum(speeds) / len(speeds), "rows/s", note=note)
    planned = [(capacity(p, "time-message"), capacity(p, "nta")) for p in many]
    alone = [(p.alone[ALONE], p.alone[ALONE_AGAIN]) for p in many]
    for name, speeds_of in (
        ("time-message / nta, join operators as planned", planned),
        ("ChangeJoin alone, messages / negatives", alone),
    ):
        ratios = [one / other for one, other in speeds_of]
        costs = [1e9 * sum(1 / speeds[i] for speeds in speeds_of) / len(speeds_of) for i in (0, 1)]
        note = f"{min(ratios):.2f} to {max(ratios):.2f} over multiplicities; the paper: about 2; "
        note += f"{costs[0]:.0f} against {costs[1]:.0f} ns a row"
        outcome.add(group, name, sum(ratios) / len(ratios), "x", note=note)
    heavy = paper_selectivity(outcome, scale, step_us)
    note = f"selectivity 0.01: {0.01 * RATE * WINDOW_S:g} partners per row, pairs make the cost"
    outcome.add(group, "ChangeJoin alone, messages / negatives, many pairs", heavy, "x", note=note)
    path = out / "expiry-fig8.png"
    draw_capacity(few, many, (ALONE, ALONE_AGAIN), RATE, WINDOW_S, scale.capacity_step_s, path)
    outcome.pictures.append(path.name)
    return [
        (f"figure 8b, multiplicity {p.at:g}", auto_ratio({e: capacity(p, e) for e in APPROACHES}))
        for p in many
    ]


def join_alone(
    outcome: Outcome, what: str, sides: tuple[Side, Side], step_us: int, rounds: int, pairs: int
) -> dict[str, float]:
    """Input rows per second of processor time, by how rows leave."""
    kinds = {ALONE: False, ALONE_AGAIN: True}
    changes = {name: changes_of(sides, WINDOW_S * SECOND_US, step_us, kind) for name, kind in kinds.items()}
    times: dict[str, list[float]] = {name: [] for name in kinds}
    entered: dict[str, set[int]] = {name: set() for name in kinds}
    for _ in range(rounds + 1):
        for name, one in changes.items():
            seconds, found = drive_time(one)
            times[name].append(seconds)
            entered[name].add(found)
    outcome.compare(f"{what}, pairs", entered | {"engine": {pairs}})
    rows = sum(len(side.ts) for side in sides)
    return {name: rows / min(each[1:]) for name, each in times.items()}


def paper_selectivity(outcome: Outcome, scale: Scale, step_us: int) -> float:
    """The paper's 0.01 of all pairs of rows, of any multiplicity: messages against negatives."""
    seconds = scale.capacity_s / 4
    one, two = (side_by_selectivity(RATE, seconds, 0.01, seed) for seed in (9, 10))
    pairs = run_trial(prices_load((one, two), WINDOW_S, seconds, step_us), "ita").entered
    speeds = join_alone(outcome, "figure 8, selectivity 0.01", (one, two), step_us, scale.rounds, pairs)
    return speeds[ALONE] / speeds[ALONE_AGAIN]


def overhead(point: Point, expiry: str) -> float:
    """Negatives and messages that came into the aggregate, per pair."""
    pairs = point.trials["auto"].entered
    trial = point.trials[expiry]
    return (trial.entered - pairs + trial.messages) / pairs


def capacity(point: Point, expiry: str) -> float:
    trial = point.trials[expiry]
    return trial.rows / trial.join_s


# -- figure 9 -----------------------------------------------------------------------------------------


def bench_piggyback(outcome: Outcome, scale: Scale, out: Path) -> None:
    """Q2 at a higher rate: delay in processor time, and what piggybacking saves, by selectivity.

    COUNT beside MAX shows every pair in the answer, as the paper's MAX does, which repeats an equal answer.
    """
    approaches = ("nta", "time-message", "piggyback", "auto")
    seconds = WINDOW_S + scale.busy_s
    points: list[Point] = []
    for selectivity in scale.selectivities:
        one, two = (side_by_selectivity(BUSY_RATE, seconds, selectivity, seed) for seed in (9, 10))
        load = prices_load((one, two), WINDOW_S, seconds, SMALL_STEP_US, WINDOW_S, MOST_AND_COUNT)
        what = f"figure 9, selectivity {selectivity:g}"
        points.append(run_point(outcome, what, selectivity, load, approaches, 2))
    keep(outcome, "9", points)
    group = f"figure 9, Q2 with COUNT, {BUSY_RATE} rows/s, pushes of {SMALL_STEP_US / 1e3:g} ms"
    ratios = {expiry: [overhead(point, expiry) for point in points] for expiry in approaches}
    for expiry in approaches:
        note = f"at {points[0].at:.2%}; {ratios[expiry][-1]:.4f} at {points[-1].at:.2%}"
        outcome.add(group, f"{expiry}: negatives or messages", ratios[expiry][0], "per pair", note=note)
    for expiry in approaches:
        delays = [point.trials[expiry].processing_delay["average_us"] for point in points]
        cost = [1e6 * point.trials[expiry].cpu_s / point.trials[expiry].rows for point in points]
        note = f"mean of all points; {cost[0]:.3g} to {cost[-1]:.3g} µs of processor time per input row"
        outcome.add(group, f"{expiry}: average delay", sum(delays) / len(delays), "µs", note=note)
    path = out / "expiry-fig9.png"
    draw_piggyback(points, ratios, BUSY_RATE, WINDOW_S, SMALL_STEP_US, path)
    outcome.pictures.append(path.name)


# -- figure 10 ----------------------------------------------------------------------------------------


def bench_throughput(outcome: Outcome, scale: Scale, out: Path) -> Behind:
    """Q2: pairs that come into MAX per second, by input rate, as far as a processor can follow."""
    seconds = WINDOW_S + scale.throughput_s
    points: list[Point] = []
    for rate in scale.rates:
        one, two = (side_by_selectivity(rate, seconds, THROUGHPUT_SELECTIVITY, seed) for seed in (9, 10))
        load = prices_load((one, two), WINDOW_S, seconds, SECOND_US, WINDOW_S)
        points.append(run_point(outcome, f"figure 10, {rate:g} rows/s", rate, load, APPROACHES, scale.rounds))
    keep(outcome, "10", points)
    group = f"figure 10, Q2, selectivity {THROUGHPUT_SELECTIVITY:g}, pushes of 1 s"
    for expiry in APPROACHES:
        rates = [point.trials[expiry].rows / point.trials[expiry].cpu_s for point in points]
        pairs = [point.trials["auto"].entered / point.trials[expiry].cpu_s for point in points]
        note = f"at {points[0].at:g} rows/s; at {points[-1].at:g}: {rates[-1]:,.0f}, {pairs[-1]:,.0f} pairs/s"
        outcome.add(group, f"{expiry}: sustained input", rates[0], "rows/s", note=note)
    path = out / "expiry-fig10.png"
    draw_throughput(points, APPROACHES, scale.throughput_s, WINDOW_S, THROUGHPUT_SELECTIVITY, path)
    outcome.pictures.append(path.name)
    return [
        (f"figure 10, {point.at:g} rows/s", auto_ratio({e: 1 / point.trials[e].cpu_s for e in APPROACHES}))
        for point in points
    ]
