"""`penstock bench oblivious`: joins without windows on keys that grow (the window-oblivious join).

Query 1 of the paper, three streams with a congestion and a burst: which part of the results is found, with
declared factors and with measured ones; what is held against what the model predicts; what windows of as many
rows find; what the strategies under a memory limit hold (oblivious_memory.py). Then, without congestion and
burst, how fast it goes: against the same join through ROWS windows, and against Polars, asked again each
second of stream time over the rows that could still meet. What it costs to measure is told from a windowed
join over the same streams, with ORDERED columns and without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.api import Engine

from .oblivious_memory import bench_memory
from .oblivious_streams import Rows, draw_streams
from .outcome import Outcome, Target
from .race import Contestant, race

CAPTION = "Ratios of processor time, best run; memory in rows, at the end of each second of stream time."
QUERY = "SELECT a.v AS x, b.v AS y, c.v AS z FROM a{0} JOIN b{0} ON a.k = b.k JOIN c{0} ON b.k = c.k"
SECOND_US = 1_000_000
PUSH_ROWS = 3_000

Tell = Callable[[str], None]
Streams = dict[str, Rows]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    seconds: int  # of Query 1
    seeds: int
    fast_seconds: int  # without congestion and burst, for speed
    rounds: int
    memory_seconds: int  # of Query 1, strategy by strategy
    memory_seeds: int


FULL = Size(120, 5, 3_000, 5, memory_seconds=120, memory_seeds=3)
QUICK = Size(24, 1, 60, 1, memory_seconds=24, memory_seeds=1)


def bench_oblivious(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above."""
    outcome = Outcome("oblivious", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("what is found, and what is held")
    bench_accuracy(outcome, size)
    tell("what is held, by strategy")
    bench_memory(outcome, out, size.memory_seconds, size.memory_seeds)
    tell("how fast")
    bench_speed(outcome, size)
    return outcome


# -- what is found -------------------------------------------------------------------------------------------


def bench_accuracy(outcome: Outcome, size: Size) -> None:
    drawn = [draw_streams(size.seconds, seed, True) for seed in range(size.seeds)]
    there = [results_of(streams) for streams in drawn]
    declared = [watch(streams, declare(streams)) for streams in drawn]
    measured = [watch(streams, measure) for streams in drawn]
    group = "Query 1, with congestion and burst"
    found = [100 * one.count / all_ for one, all_ in zip(declared, there, strict=True)]
    outcome.add(group, "found with declared factors", mean(found), "%", Target(">=", 100))
    for one, all_ in zip(declared, there, strict=True):
        outcome.compare("declared factors", {"penstock": {one.count}, "all there are": {all_}})
    found = [100 * one.count / all_ for one, all_ in zip(measured, there, strict=True)]
    least = [100 * one.accuracy for one in measured]
    note = f"at least {mean(least):.2f} by `accuracy`"
    outcome.add(group, "found with measured ones", mean(found), "%", Target(">=", 99.5), note)
    for name, runs in (("declared", declared), ("measured", measured)):
        held = mean(run.held for run in runs)
        ratio = mean(run.predicted for run in runs) / held
        note = f"{held:,.0f} rows held on average"
        outcome.add(group, f"predicted against held, {name}", ratio, "x", Target("<=", 1.3), note)
    rows = int(mean([one.held for one in declared]) / 3)
    windows = [watch(streams, "", f" [ROWS {rows}]").count for streams in drawn]
    found = [100 * count / all_ for count, all_ in zip(windows, there, strict=True)]
    outcome.add(group, "found by windows of as many rows", mean(found), "%", note=f"ROWS {rows:,}")
    outcome.data["held_by_second"] = declared[0].by_second


@dataclass
class Watched:
    """A run of Query 1: results, and rows at the end of each second, all streams together, on average."""

    count: int
    accuracy: float
    held: float
    predicted: float
    by_second: list[list[int]]


measure: Callable[[str], str] | str = "ORDERED"


def declare(streams: Streams) -> Callable[[str], str]:
    return lambda name: f"ORDERED WITHIN {streams[name].factor} ROWS"


def start(rule: Callable[[str], str] | str, window: str = "") -> Engine:
    engine = Engine()
    for name in "abc":
        said = rule if isinstance(rule, str) else rule(name)
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT {said}, v BIGINT)")
    engine.query(QUERY.format(window), name="q", count_only=True)
    return engine


def watch(streams: Streams, rule: Callable[[str], str] | str, window: str = "") -> Watched:
    """Rows of one second after the other."""
    engine = start(rule, window)
    by_second: list[list[int]] = []
    predicted: list[int] = []
    for pushes in seconds_of(streams):
        for name, table in pushes:
            engine.push(name, table)
        facts = engine.stats()["queries"]["q"].get("oblivious", {"sides": []})["sides"]
        by_second.append([one["rows"] for one in facts])
        predicted.append(sum(one["predicted_rows"] for one in facts))
    engine.close()
    query = engine.queries["q"]
    held = mean([sum(rows) for rows in by_second])
    return Watched(query.count, query.accuracy, held, mean(predicted), by_second)


def seconds_of(streams: Streams) -> list[list[tuple[str, pa.Table]]]:
    """What is pushed in each second."""
    last = max(int(one.ts[-1]) for one in streams.values()) // SECOND_US + 1
    tables = {name: one.table for name, one in streams.items()}
    edges = {name: one.ts.searchsorted(np.arange(last + 1) * SECOND_US) for name, one in streams.items()}
    return [
        [(name, tables[name].slice(at[second], at[second + 1] - at[second])) for name, at in edges.items()]
        for second in range(last)
    ]


def results_of(streams: Streams) -> int:
    """How many results there are."""
    most = max(int(one.keys.max(initial=0)) for one in streams.values()) + 1
    counts = [np.bincount(one.keys, minlength=most) for one in streams.values()]
    return int(np.prod(counts, axis=0).sum())


# -- how fast ------------------------------------------------------------------------------------------------


def bench_speed(outcome: Outcome, size: Size) -> None:
    streams = draw_streams(size.fast_seconds, 7, False)
    pushes = pushes_of(streams)
    rule = declare(streams)
    held = max(max(rows) for rows in watch(streams, rule).by_second)
    window = f" [ROWS {held}]"

    def contestant(name: str, rule: Callable[[str], str] | str, window: str = "") -> Contestant:
        return Contestant(name, partial(push_all, pushes=pushes), partial(start, rule, window))

    kept = rows_to_keep(streams)
    contestants = [
        contestant("declared", rule),
        contestant("measured", measure),
        contestant("ROWS windows", "", window),
        contestant("ROWS windows, measured beside", measure, window),
        Contestant("Polars", lambda _: ask_polars(streams, kept)),
    ]
    timings = race(contestants, size.rounds)
    rows = sum(len(one.keys) for one in streams.values())
    group = "Without them"
    outcome.add_speeds(group, timings, rows, {"ROWS windows": f"of {held:,}, as many as are held at most"})
    answers = {name: timings[name].answers for name in ("declared", "Polars")}
    outcome.compare("without windows", answers | {"all": {results_of(streams)}})
    cpu = {name: timing.best_cpu_s for name, timing in timings.items()}
    outcome.add(group, "against ROWS windows", cpu["ROWS windows"] / cpu["declared"], "x", Target(">=", 0.7))
    outcome.add(group, "against Polars", cpu["Polars"] / cpu["declared"], "x", Target(">=", 3))
    extra = cpu["ROWS windows, measured beside"] - cpu["ROWS windows"]
    share = 100 * extra / cpu["declared"]
    note = f"{1e9 * extra / rows:.0f} ns a row"
    outcome.add(group, "measuring, of what a join without windows costs", share, "%", Target("<=", 10), note)


def pushes_of(streams: Streams) -> list[tuple[str, pa.Table]]:
    """Some thousand rows of each in turn."""
    tables = {name: one.table for name, one in streams.items()}
    most = max(table.num_rows for table in tables.values())
    return [(name, tables[name].slice(at, PUSH_ROWS)) for at in range(0, most, PUSH_ROWS) for name in tables]


def push_all(engine: Engine, pushes: list[tuple[str, pa.Table]]) -> int:
    for name, table in pushes:
        engine.push(name, table)
    engine.close()
    return engine.queries["q"].count


def rows_to_keep(streams: Streams) -> list[dict[str, int]]:
    """After each second, below which keys rows of a stream can meet nothing any more."""
    kept = []
    for second in range(1, len(seconds_of(streams)) + 1):
        passed = {}
        for name, one in streams.items():
            come = int(one.ts.searchsorted(second * SECOND_US)) - one.factor
            passed[name] = int(one.keys[:come].max()) + 1 if come > 0 else 0
        kept.append({name: min(passed[other] for other in passed if other != name) for name in passed})
    return kept


def ask_polars(streams: Streams, kept: list[dict[str, int]]) -> int:
    """The join over what is kept, each second, of which the rows of that second are new."""
    held = {name: pl.DataFrame(schema={"k": pl.Int64, "new": pl.Boolean}) for name in streams}
    count = 0
    for pushes, floors in zip(seconds_of(streams), kept, strict=True):
        for name, table in pushes:
            fresh = pl.DataFrame({"k": table["k"].to_numpy()}).with_columns(new=pl.lit(True))
            held[name] = pl.concat([held[name].with_columns(new=pl.lit(False)), fresh])
        found = held["a"].join(held["b"], on="k", suffix="_b").join(held["c"], on="k", suffix="_c")
        count += int(found.select((pl.col("new") | pl.col("new_b") | pl.col("new_c")).sum()).item() or 0)
        held = {name: frame.filter(pl.col("k") >= floors[name]) for name, frame in held.items()}
    return count
