"""`penstock bench join`: one window join, against bare loops, against other systems, against the cost model.

W1: two Poisson streams of 1,000 rows per second each, windows of 10 s, 10,000 keys, about one match a probe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from penstock.optimizer.costs.weights import Weights

from .bare import BareJoin, NestedLoop
from .drive import Cuts, Feed, contestant, push_all, start
from .memory import bench_memory
from .outcome import Outcome, Target
from .peers import DuckDb, PolarsLoop
from .race import Contestant, Timing, race
from .streams import Stream, cut_by_rows, cut_by_time, poisson_stream

RATE = 1_000  # rows per second of each stream
WINDOW_S = 10
WINDOW_US = WINDOW_S * 1_000_000
STEP_US = 1_000_000  # of a micro-batch
SLICE_ROWS = 65_536
ENGINE_SLICES, ENGINE_STEPS = f"engine, slices of {SLICE_ROWS:,} rows", "engine, micro-batches of 1 s"
BUCKETS = 1 << 15  # of the bare loop, for 10,000 rows; the fastest power of two
KEYS = 10_000
HEAVY_KEYS = 40
TEXTBOOK = "nested loop, a row at a time"
BAND = 5_000
BAND_KEYS = 2 * BAND * RATE * WINDOW_S  # about one match per probe

EQUAL = (
    "SELECT a.key AS a_key, a.value AS a_value, b.key AS b_key, b.value AS b_value "
    f"FROM a [RANGE {WINDOW_S} SECONDS] JOIN b [RANGE {WINDOW_S} SECONDS] ON a.key = b.key"
)
NEAR = (
    f"SELECT a.key AS a_key, b.key AS b_key FROM a [RANGE {WINDOW_S} SECONDS] "
    f"JOIN b [RANGE {WINDOW_S} SECONDS] ON ABS(a.key - b.key) <= {BAND}"
)

CAPTION = "Speeds and ratios are of processor time, best run, unless the note says otherwise."

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: rows per stream, rounds of each race, points of the figures."""

    rows: int
    heavy_rows: int
    band_rows: int
    scan_rows: int
    rounds: int
    shares: tuple[float, ...]
    mix_rows: int
    mix_rounds: int
    memory_rows: int
    memory_windows: int = 100


ENDS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05)
MIDDLE = tuple(share / 10 for share in range(1, 10))
SHARES = (*ENDS, *MIDDLE, *(1 - share for share in reversed(ENDS)))

FULL = Size(1_000_000, 100_000, 200_000, 20_000, 5, SHARES, 65_536, 7, 10_000)
QUICK = Size(
    100_000, 30_000, 50_000, 5_000, 3, (0.0, 0.005, 0.02, 0.1, 0.5, 0.9, 0.98, 0.995, 1.0), 15_000, 2, 1_000
)


def bench_join(size: Size, out: Path, tell: Tell, weights: Weights) -> Outcome:
    """Everything above; pictures go into `out`."""
    outcome = Outcome("join", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("one match per probe, rows delivered")
    a, b = poisson_stream(size.rows, RATE, KEYS, 1), poisson_stream(size.rows, RATE, KEYS, 2)
    bench_delivered(outcome, a, b, size.rounds)
    tell("one match per probe, results counted, and other systems")
    bench_counted(outcome, a, b, size.rounds)
    tell("hundreds of matches per probe")
    bench_heavy(outcome, size)
    tell("band join, T-tree against scan")
    bench_band(outcome, size)
    tell("eight index combinations, estimated and measured")
    bench_mix(outcome, size, out, weights)
    tell("memory")
    bench_memory(outcome, size.memory_rows, size.memory_windows)
    return outcome


def engine_feeds(a: Stream, b: Stream) -> tuple[dict[str, Feed], Cuts]:
    """The two streams as slices of many rows and as micro-batches of a second; and the cuts of the latter."""
    by_rows = cut_by_rows(len(a), SLICE_ROWS)
    until = int(max(a.ts[-1], b.ts[-1])) + 1
    by_time = list(zip(cut_by_time(a.ts, STEP_US, until), cut_by_time(b.ts, STEP_US, until), strict=True))
    tables = a.table, b.table
    feeds = {
        ENGINE_SLICES: Feed.of(*tables, list(zip(by_rows, by_rows, strict=True))),
        ENGINE_STEPS: Feed.of(*tables, by_time),
    }
    return feeds, by_time


def bench_delivered(outcome: Outcome, a: Stream, b: Stream, rounds: int) -> None:
    """Arrow in, Arrow out, five columns; the bare loop writes pairs of row numbers."""
    group = "W1, rows delivered"
    feeds, _ = engine_feeds(a, b)
    bare = BareJoin(a, b, WINDOW_US, BUCKETS, 3 * len(a))
    runners = [contestant(name, EQUAL, feed, False) for name, feed in feeds.items()]
    timings = race([*runners, Contestant("bare loop", lambda _: bare.write(), bare.reset)], rounds)
    outcome.compare(group, {name: timing.answers for name, timing in timings.items()})
    outcome.add_speeds(group, timings, 2 * len(a), {})
    first, second = feeds
    target = Target(">=", 0.5)
    outcome.add(group, "engine / bare loop", cpu_ratio(timings, first, "bare loop"), "x", target)
    outcome.add(group, "engine in micro-batches / bare loop", cpu_ratio(timings, second, "bare loop"), "x")
    compare_contents(outcome, a, b, bare, feeds[first])


def compare_contents(outcome: Outcome, a: Stream, b: Stream, bare: BareJoin, feed: Feed) -> None:
    """The delivered rows add up to the same, column by column, as the pairs of the bare loop."""
    engine, query = start(EQUAL, False)
    sums = np.zeros(4)

    def add(batch: object) -> None:
        sums[:] += [pc.sum(column).as_py() or 0 for column in batch.columns[1:]]  # type: ignore[attr-defined]

    query.subscribe(add)
    push_all(engine, query, feed, False)
    rows_a, rows_b = bare.pairs()
    expected = [a.key[rows_a].sum(), a.value[rows_a].sum(), b.key[rows_b].sum(), b.value[rows_b].sum()]
    for name, found, wanted in zip(query.schema.names[1:], sums, expected, strict=True):
        outcome.compare(f"W1, sum of {name}", {"engine": {int(found)}, "bare loop": {int(wanted)}})


def bench_counted(outcome: Outcome, a: Stream, b: Stream, rounds: int) -> None:
    """Results counted: engine, bare loop, DuckDB on one thread, Polars in a loop."""
    group = "W1, counted"
    feeds, by_time = engine_feeds(a, b)
    bare = BareJoin(a, b, WINDOW_US, BUCKETS, 1)
    duckdb = DuckDb(a, b, WINDOW_US)
    polars = PolarsLoop(a, b, by_time, STEP_US, WINDOW_US)
    tuned, tuned_answers = fastest_form("DuckDB, time bucket in the key", duckdb.tuned())
    loop, loop_answers = fastest_form("Polars, micro-batches of 1 s", polars.forms())
    plain = "DuckDB, plain"
    runners = [contestant(name, EQUAL, feed, True) for name, feed in feeds.items()]
    runners += [
        Contestant("bare loop", lambda _: bare.count(), bare.reset),
        Contestant(plain, lambda _: duckdb.plain()),
        tuned.contestant,
        loop.contestant,
    ]
    timings = race(runners, rounds)
    answers = {name: timing.answers for name, timing in timings.items()}
    outcome.compare(group, answers | tuned_answers | loop_answers)
    notes = {
        plain: "one thread",
        tuned.contestant.name: f"one thread; best form: {tuned.form}",
        loop.contestant.name: f"{polars.threads} threads; best form: {loop.form}",
    }
    outcome.add_speeds(group, timings, 2 * len(a), notes)
    first, second = feeds
    targets = [
        ("engine / bare loop", first, "bare loop", Target(">=", 0.5)),
        ("engine / DuckDB, plain", first, plain, Target(">=", 5)),
        ("engine / DuckDB, time bucket in the key", first, tuned.contestant.name, Target(">=", 1)),
        ("engine in micro-batches / bare loop", second, "bare loop", None),
    ]
    for name, one, other, target in targets:
        outcome.add(group, name, cpu_ratio(timings, one, other), "x", target)
    polars_name = loop.contestant.name
    for name, one, target in (
        ("engine in micro-batches / Polars", second, Target(">=", 4)),
        ("engine in slices / Polars", first, None),
    ):
        ratio = timings[polars_name].best_elapsed_s / timings[one].best_elapsed_s
        note = f"of elapsed time; {cpu_ratio(timings, one, polars_name):.3g} of processor time"
        outcome.add(group, name, ratio, "x", target, note)


@dataclass(frozen=True, slots=True)
class Form:
    """The fastest of several formulations."""

    form: str
    contestant: Contestant


def fastest_form(name: str, forms: dict[str, Callable[[], int]]) -> tuple[Form, dict[str, set[int]]]:
    """The best by processor time of two runs each, and everyone's answers."""
    runners = [Contestant(form, lambda _, work=work: work()) for form, work in forms.items()]  # type: ignore[misc]
    timings = race(runners, 1)
    best = min(timings, key=lambda form: timings[form].best_cpu_s)
    answers = {f"{name}, {form}": timing.answers for form, timing in timings.items()}
    return Form(best, Contestant(name, lambda _: forms[best]())), answers


def cpu_ratio(timings: dict[str, Timing], one: str, other: str) -> float:
    """How many times faster `one` is than `other`, by processor time."""
    return timings[other].best_cpu_s / timings[one].best_cpu_s


def bench_heavy(outcome: Outcome, size: Size) -> None:
    """40 keys: output dominates."""
    group = "output-heavy, counted"
    a, b = (poisson_stream(size.heavy_rows, RATE, HEAVY_KEYS, seed) for seed in (3, 4))
    feeds, _ = engine_feeds(a, b)
    feed = next(iter(feeds.values()))
    bare = BareJoin(a, b, WINDOW_US, BUCKETS, 1)
    names = "engine, hash", "engine, index chosen by cost"
    timings = race(
        [
            contestant(names[0], EQUAL, feed, True, "hash"),
            contestant(names[1], EQUAL, feed, True),
            Contestant("bare loop", lambda _: bare.count(), bare.reset),
        ],
        size.rounds,
    )
    answers = {name: timing.answers for name, timing in timings.items()}
    outcome.compare(group, answers | {"DuckDB": {DuckDb(a, b, WINDOW_US).plain()}})
    pairs = next(iter(timings["bare loop"].answers))
    notes = {name: f"{pairs / timing.best_cpu_s / 1e6:,.0f} M pairs/s" for name, timing in timings.items()}
    outcome.add_speeds(group, timings, 2 * len(a), notes)
    for name, target in zip(names, (Target(">=", 0.6), None), strict=True):
        outcome.add(group, f"{name} / bare loop", cpu_ratio(timings, name, "bare loop"), "x", target)


def bench_band(outcome: Outcome, size: Size) -> None:
    """Keys near each other, windows full before the clock starts: trees and, over fewer rows, the scan."""
    group = "band join, counted"
    full = RATE * WINDOW_S
    rows = {"t-tree": size.band_rows, "b+tree": size.band_rows, "scan": size.scan_rows}
    streams = [poisson_stream(full + size.band_rows, RATE, BAND_KEYS, seed) for seed in (5, 6)]
    timings: dict[str, Timing] = {}
    for count in (size.band_rows, size.scan_rows):
        a, b = (stream.head(full + count).table for stream in streams)
        cuts = [(full + start, full + stop) for start, stop in cut_by_rows(count, SLICE_ROWS)]
        filling = Feed.of(a, b, [((0, full), (0, full))])
        feed = Feed.of(a, b, list(zip(cuts, cuts, strict=True)))
        runners = [
            contestant(kind, NEAR, feed, True, kind, filling) for kind, most in rows.items() if count <= most
        ]
        if count == size.scan_rows:
            runners.append(textbook_loop(streams[0].head(full + count), streams[1].head(full + count), full))
        found = race(runners, size.rounds)
        outcome.compare(f"{group}, {count} rows", {name: timing.answers for name, timing in found.items()})
        timings = found | timings  # of the trees, the longer run counts
    rows[TEXTBOOK] = size.scan_rows
    for kind, timing in timings.items():
        note = f"{2 * rows[kind] / timing.best_elapsed_s:,.0f} elapsed; {2 * rows[kind]:,} rows"
        name = kind if kind == TEXTBOOK else f"engine, {kind}"
        outcome.add(group, name, 2 * rows[kind] / timing.best_cpu_s, "rows/s", note=note)
    per_row = {kind: timing.best_cpu_s / rows[kind] for kind, timing in timings.items()}
    for kind, target in (("t-tree", Target(">=", 20)), ("b+tree", None)):
        outcome.add(group, f"{kind} / scan", per_row["scan"] / per_row[kind], "x", target)
    for kind in ("t-tree", "scan"):
        outcome.add(group, f"{kind} / {TEXTBOOK}", per_row[TEXTBOOK] / per_row[kind], "x")


def textbook_loop(a: Stream, b: Stream, full: int) -> Contestant:
    """The nested loop that compares one row at a time: what the engine's scan would be without vectors."""
    loop = NestedLoop(a, b, WINDOW_US, BAND, full)
    total = loop.total()

    def run(_: None) -> int:
        loop.work()
        return total

    return Contestant(TEXTBOOK, run)


def bench_mix(outcome: Outcome, size: Size, out: Path, weights: Weights) -> None:
    """The paper's figures 2 to 4."""
    from .figures import draw_mix, draw_table
    from .mix import PAPER_MIX, TABLE_3, Setting, hit_rate, measure_points

    group = "cost model"
    over_mix = [Setting(*PAPER_MIX, share) for share in size.shares]
    table = [Setting(rows_a, rows_b, on_a / (on_a + on_b)) for rows_a, rows_b, on_a, on_b in TABLE_3]
    points, answers = measure_points(over_mix + table, size.mix_rows, size.mix_rounds, weights)
    for what, found in answers.items():
        outcome.compare(what, found)
    rate, clear = hit_rate(points)
    note = f"of {clear} points outside ties, {len(points)} in all; weights of {weights.machine}"
    outcome.add(group, "model names the measured winner", 100 * rate, "%", Target(">=", 80), note)
    worst = max(points, key=lambda point: point.regret)
    note = "it never chose wrong"
    if worst.regret > 0:
        note = f"{worst.expected_winner} in place of {worst.winner} at {worst.setting.share_a:.1%} on A"
    outcome.add(group, "most that a wrong choice costs", 100 * worst.regret, "%", note=note)
    for point, (rows_a, rows_b, on_a, on_b) in zip(points[len(over_mix) :], TABLE_3, strict=True):
        note = f"expected {point.expected_winner}, measured {point.winner}" + (
            " (tie)" if point.is_tie else ""
        )
        name = f"A {rows_a:,} B {rows_b:,} rows, {on_a}:{on_b}"
        outcome.add(group, name, 1e9 * point.measured[point.winner], "ns/row", note=note)
    outcome.data["mix"] = [dataclasses.asdict(point) for point in points]
    outcome.data["weights"] = dataclasses.asdict(weights)
    draw_mix(points[: len(over_mix)], f"weights measured on {weights.machine}", out / "join-mix.png")
    draw_table(points[len(over_mix) :], out / "join-table3.png")
    outcome.pictures += ["join-mix.png", "join-table3.png"]
