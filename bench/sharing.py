"""`penstock bench sharing`: what many questions about the same two streams cost, and what sharing gains.

W1's streams (1,000 rows per second each, 10,000 keys, windows of up to 10 s) with up to 10,000 queries; W4,
the State-Slice trio; queries with selections; joins of three streams; windows over one stream; queries that
come and go; the paper's figures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .join import (
    ENGINE_SLICES,
    ENGINE_STEPS,
    RATE,
    SLICE_ROWS,
    STEP_US,
    WINDOW_S,
    WINDOW_US,
    cpu_ratio,
    engine_feeds,
)
from .join import KEYS as W1_KEYS
from .outcome import Outcome, Target
from .race import Timing, race
from .sharing_delivery import bench_delivery
from .sharing_figures import Scale, bench_figures
from .sharing_many import bench_many
from .sharing_pauses import bench_pauses, slices_for
from .sharing_peers import Ask, DuckDbShared, PolarsShared, Tally, even_windows, expected_counts, form_runners
from .sharing_strategies import Lap, Runner, contestant, even_values, selection_sets
from .sharing_windows import bench_windows
from .streams import Stream, cut_by_rows, poisson_stream

CAPTION = (
    "Speeds and ratios are of processor time, best run, unless the note says otherwise; results are counted "
    "per query, and given to each in the paper's figures. Queries are started and windows filled before the "
    "clock starts, except in these and against other systems."
)

KEPT = {100: 0.9, 1_000: 0.8, 10_000: 0.4}  # the share of one query's speed that is to be kept
PAUSE_ROUNDS = 2
W4_RATE, W4_KEYS = 333, 40
W4 = [Ask(10_000_000), Ask(20_000_000, 0.8), Ask(30_000_000, 0.8)]

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: rows per stream, numbers of queries, rounds of each race."""

    rows: int
    numbers: tuple[int, ...]  # of queries; the first is 1
    few: int  # queries, against separate joins and against other systems
    separate_rows: int
    polars_rows: int
    w4_rows: int
    selections: int  # queries with a selection
    delivered_rows: int
    many_rows: int  # of each of three streams
    many_queries: tuple[int, ...]  # over these
    window_rows: int  # of one stream, whose windows are not joined
    changes: int  # queries added, and dropped
    rounds: int
    scale: Scale


FULL = Size(
    rows=1_000_000, numbers=(1, 12, 100, 1_000, 10_000), few=100, separate_rows=2 * SLICE_ROWS,
    polars_rows=100_000, w4_rows=100_000, selections=1_000, delivered_rows=200_000,
    many_rows=300_000, many_queries=(100, 1_000), window_rows=60_000,
    changes=20, rounds=5,
    scale=Scale((20, 40, 60, 80), 4, 90, 2, 2),
)  # fmt: skip
QUICK = Size(
    rows=2 * SLICE_ROWS, numbers=(1, 12, 100, 1_000), few=100, separate_rows=25_000, polars_rows=20_000,
    w4_rows=20_000, selections=1_000, delivered_rows=40_000,
    many_rows=40_000, many_queries=(100,), window_rows=20_000,
    changes=5, rounds=2,
    scale=Scale((20, 80), 1, 36, 3, 1, (12, 36)),
)  # fmt: skip


def bench_sharing(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above; pictures go into `out`."""
    outcome = Outcome("sharing", CAPTION, data={"size": dataclasses.asdict(size)})
    tell(f"one to {size.numbers[-1]:,} queries")
    bench_numbers(outcome, size)
    tell(f"{size.few} queries, separate joins and other systems")
    bench_separate(outcome, size)
    bench_polars(outcome, size)
    tell("three queries, two with a selection")
    bench_trio(outcome, size)
    tell(f"{size.selections:,} queries with a selection each")
    bench_selections(outcome, size)
    tell("few queries that are given rows")
    bench_delivery(outcome, size.delivered_rows, size.rounds)
    tell("joins of three streams")
    bench_many(outcome, size.many_rows, size.many_queries, size.rounds)
    tell("windows over one stream")
    bench_windows(outcome, size.window_rows, size.rounds)
    tell("queries that come and go")
    slices = slices_for(size.changes)
    a, b = w1_streams((slices + 2) * RATE)
    bench_pauses(outcome, a, b, size.selections, size.changes, PAUSE_ROUNDS)
    tell("the paper's figures")
    bench_figures(outcome, size.scale, out)
    return outcome


def w1_streams(rows: int) -> tuple[Stream, Stream]:
    """W1, with values even over [0, 1)."""
    a, b = (even_values(poisson_stream(rows, RATE, W1_KEYS, seed), seed + 50) for seed in (1, 2))
    return a, b


def w1_lap(rows: int) -> Lap:
    """W1 in laps, in slices of many rows."""
    cuts = cut_by_rows(rows, SLICE_ROWS)
    return Lap(*w1_streams(rows), list(zip(cuts, cuts, strict=True)), WINDOW_US)


def race_laps(outcome: Outcome, group: str, runners: dict[str, Runner], rounds: int) -> dict[str, Timing]:
    """Everyone runs laps, and all they counted is held against the bare loop."""
    timings = race([runner.contestant(name) for name, runner in runners.items()], rounds)
    for name, runner in runners.items():
        runner.compare(outcome, f"{group}, {name}")
    return timings


def bench_numbers(outcome: Outcome, size: Size) -> None:
    """W2, W3 and beyond: different windows W*i/N."""
    group = "W1 to W3, windows W*i/N"
    lap = w1_lap(size.rows)
    names = {number: f"{number:,} {'query' if number == 1 else 'queries'}" for number in size.numbers}
    runners = {name: Runner(lap, even_windows(number, WINDOW_US)) for number, name in names.items()}
    timings = race_laps(outcome, group, runners, size.rounds)
    outcome.add_speeds(group, timings, 2 * size.rows, {})
    for number, name in names.items():
        if number > 1:
            target = Target(">=", KEPT[number]) if number in KEPT else None
            outcome.add(group, f"{name} / 1 query", cpu_ratio(timings, name, names[1]), "x", target)


def bench_separate(outcome: Outcome, size: Size) -> None:
    """Sharing against a join per query, over the same rows."""
    group = f"{size.few} queries, against a join each"
    lap = w1_lap(size.separate_rows)
    asks = even_windows(size.few, WINDOW_US)
    names = {"auto": "engine, sharing", "unshared": "engine, a join per query"}
    runners = {name: Runner(lap, asks, sharing) for sharing, name in names.items()}
    timings = race_laps(outcome, group, runners, size.rounds)
    outcome.add_speeds(group, timings, 2 * size.separate_rows, {})
    ratio = cpu_ratio(timings, names["auto"], names["unshared"])
    note = f"laps of {size.separate_rows / RATE / WINDOW_S:.1f} windows, {2 * size.separate_rows:,} rows"
    outcome.add(group, "sharing / a join per query", ratio, "x", Target(">=", 30), note)


def bench_polars(outcome: Outcome, size: Size) -> None:
    """Polars, one join shared by hand, in micro-batches; by elapsed time, as it uses several threads."""
    group = f"{size.few} queries, against sharing by hand"
    a, b = w1_streams(size.polars_rows)
    asks, tally = even_windows(size.few, WINDOW_US), Tally()
    feeds, by_time = engine_feeds(a, b)
    polars = PolarsShared(a, b, by_time, STEP_US, asks, tally)
    kinds = {
        "Polars, a filter per query": (form_runners(polars.filter_forms()), Target(">=", 20)),
        "Polars, a sum per query in one select": (form_runners(polars.sum_forms()), None),
        "Polars, ages in order or in cells": (form_runners(polars.order_forms()), None),
    }
    engine = contestant(ENGINE_STEPS, asks, feeds[ENGINE_STEPS], tally)
    timings = race([engine, *(form for forms, _ in kinds.values() for form in forms)], size.rounds)
    answers = {name: timing.answers for name, timing in timings.items()}
    tally.compare(outcome, group, answers | {"bare loop": {tally.note(expected_counts(asks, a, b))}})
    rows = 2 * size.polars_rows
    outcome.add_speeds(group, {ENGINE_STEPS: timings[ENGINE_STEPS]}, rows, {})
    for kind, (forms, target) in kinds.items():
        best = min((form.name for form in forms), key=lambda name: timings[name].best_elapsed_s)
        note = f"{polars.threads} threads; best form: {best}"
        outcome.add_speeds(group, {kind: timings[best]}, rows, {kind: note})
        ratio = timings[best].best_elapsed_s / timings[ENGINE_STEPS].best_elapsed_s
        note = f"of elapsed time; {cpu_ratio(timings, ENGINE_STEPS, best):.3g} of processor time"
        outcome.add(group, f"engine in micro-batches / {kind}", ratio, "x", target, note)


def bench_trio(outcome: Outcome, size: Size) -> None:
    """W4 against DuckDB on one thread, of which the fastest formulation counts."""
    group = "W4, counted"
    a, b = (even_values(poisson_stream(size.w4_rows, W4_RATE, W4_KEYS, seed), seed + 50) for seed in (5, 6))
    tally = Tally()
    duckdb = DuckDbShared(a, b, W4, tally)
    feed = engine_feeds(a, b)[0][ENGINE_SLICES]
    engines = {"auto": ENGINE_SLICES, "unshared": f"{ENGINE_SLICES}, a join per query"}
    runners = [contestant(name, W4, feed, tally, sharing) for sharing, name in engines.items()]
    plain, *tuned = duckdb.forms()
    by_rank = "DuckDB, from the order in time, no pair made"
    timings = race([*runners, *form_runners(duckdb.forms() | {by_rank: duckdb.by_rank})], size.rounds)
    tally.compare(outcome, group, {name: timing.answers for name, timing in timings.items()})
    rows = 2 * size.w4_rows
    outcome.data["w4_rows_per_s"] = {name: rows / timing.best_cpu_s for name, timing in timings.items()}
    best = min([plain, *tuned], key=lambda name: timings[name].best_cpu_s)
    shown = dict.fromkeys([*engines.values(), plain, best, by_rank])
    notes = {name: "one thread" for name in shown if "DuckDB" in name}
    outcome.add_speeds(group, {name: timings[name] for name in shown}, rows, notes)
    for name, other, target in (
        ("DuckDB, fastest form", best, Target(">=", 1)),
        (by_rank, by_rank, None),
        ("a join per query", engines["unshared"], None),
    ):
        outcome.add(group, f"engine / {name}", cpu_ratio(timings, ENGINE_SLICES, other), "x", target)


def bench_selections(outcome: Outcome, size: Size) -> None:
    """Different windows and different selections, against the one query without any."""
    group = f"{size.selections:,} queries with selections"
    lap = w1_lap(size.rows)
    single = "1 query without selection"
    runners = {single: Runner(lap, even_windows(1, WINDOW_US))}
    runners |= {name: Runner(lap, asks) for name, asks in selection_sets(size.selections, WINDOW_US).items()}
    timings = race_laps(outcome, group, runners, size.rounds)
    outcome.add_speeds(group, timings, 2 * size.rows, {})
    for name in list(runners)[1:]:
        ratio = cpu_ratio(timings, name, single)
        outcome.add(group, f"{name} / {single}", ratio, "x", Target(">=", 0.3))
