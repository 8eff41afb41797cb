"""Figures 5 and 8 to 11 of the window-oblivious join: what is held by each strategy, what it costs.

Query 1, with its congestion and burst. Figure 5: the buffers that the model predicts, first in, first out,
against the least that would have given every result, found by looking back. Figure 8: which part of the
results windows of so many rows find. Figures 9 to 11: rows held by none, MSF, DBF and hybrid, and how long
after its last row a result comes; factors are 40, 70 and 100, and C is 100 rows, as in the paper.

Rows held are those in memory, also where they wait to be sorted or written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from penstock.api import Engine
from penstock.engine.ordered_keys import buffers

from .figures import plotter, tidy
from .oblivious_streams import Rows, draw_streams
from .outcome import Outcome, Target

FACTORS = {"a": 40, "b": 70, "c": 100}
AHEAD_ROWS = 100
STRATEGIES = ("none", "msf", "dbf", "hybrid")
COLOURS = {"none": "#e08a1e", "msf": "#b5395b", "dbf": "#1b6ca8", "hybrid": "#4aa564"}
WINDOWS = (250, 500, 1_000, 2_000, 4_000, 6_000)
TICK_US = 100_000
SECOND_US = 1_000_000
QUERY = (
    "SELECT a.v AS a, b.v AS b, c.v AS c, a.ts AS at, b.ts AS bt, c.ts AS ct FROM a{0} "
    "JOIN b{0} ON a.k = b.k JOIN c{0} ON b.k = c.k"
)

Streams = dict[str, Rows]


@dataclass
class Held:
    """A run: by second, rows of each stream in memory and as predicted; of each result, times and rows."""

    rows: NDArray
    predicted: NDArray
    results: NDArray
    """Per result: `_ts`, then the row of each stream, then their times."""
    push_s: float
    """Processor time of a push that gave results, on average."""


def bench_memory(outcome: Outcome, out: Path, seconds: int, seeds: int) -> None:
    """All figures, as lines and pictures."""
    bench_predictions(outcome, out, seconds)
    bench_windows(outcome, out, seconds)
    bench_strategies(outcome, out, seconds, seeds)


# -- what the model says -------------------------------------------------------------------------------------


def bench_predictions(outcome: Outcome, out: Path, seconds: int) -> None:
    """Figure 5."""
    streams = draw_streams(seconds, 7, True)
    declared = run(streams, declared_rule(streams), evict="fifo")
    measured = run(streams, lambda _: "ORDERED", evict="fifo")
    least = optimal(streams, declared.results, len(declared.rows))
    group = "Figure 5: buffers, Query 1"
    for number, name in enumerate(streams):
        needed, said = least[:, number], declared.predicted[:, number]
        note = f"{said.mean():,.0f} predicted, {needed.mean():,.0f} needed, on average"
        found = share(needed <= said)
        outcome.add(group, f"seconds in which {name} needs no more", found, "%", Target(">=", 100), note)
    ratio = float(declared.predicted.sum() / declared.rows.sum())
    outcome.add(group, "predicted against held, first in, first out", ratio, "x", Target("<=", 1.3))
    figure, axes = plotter().subplots(1, len(streams), figsize=(13, 4), layout="constrained")
    for number, (axis, name) in enumerate(zip(axes, streams, strict=True)):
        axis.plot(declared.predicted[:, number], color="#1b6ca8", label="predicted, factors declared")
        axis.plot(measured.predicted[:, number], color="#4aa564", label="predicted, measured")
        axis.plot(least[:, number], color="#555555", linestyle="--", label="needed")
        axis.set_title(f"stream {name}")
        axis.set_xlabel("second")
        tidy(axis)
    axes[0].set_ylabel("rows")
    save(outcome, figure, axes[0], out / "oblivious_figure_5.png")


def optimal(streams: Streams, results: NDArray, seconds: int) -> NDArray:
    """By second and stream, how far back the oldest row lies that a result of it needs."""
    found = np.zeros((seconds, len(streams)), np.int64)
    second = np.minimum(results[:, 0] // SECOND_US, seconds - 1)
    for number, one in enumerate(streams.values()):
        back = one.ts.searchsorted(results[:, 0], "right") - results[:, 1 + number]
        waits = results[:, 4 + number] < results[:, 0]
        np.maximum.at(found[:, number], second[waits], back[waits])
    return found


def bench_windows(outcome: Outcome, out: Path, seconds: int) -> None:
    """Figure 8."""
    streams = draw_streams(seconds, 7, True)
    own = run(streams, declared_rule(streams), evict="fifo")
    held = own.rows.mean()
    found = [
        100 * len(run(streams, lambda _: "", f" [ROWS {rows}]").results) / len(own.results)
        for rows in WINDOWS
    ]
    group = "Figure 8: windows of so many rows"
    for rows, part in zip(WINDOWS, found, strict=True):
        outcome.add(
            group, f"ROWS {rows:,}", part, "%", note=f"without windows {held:,.0f} rows each on average"
        )
    figure, axis = plotter().subplots(figsize=(6.5, 4.2), layout="constrained")
    axis.plot(WINDOWS, found, color="#e08a1e", marker="o", label="ROWS windows")
    axis.plot([held], [100], color="#1b6ca8", marker="D", linestyle="", label="without windows, on average")
    axis.set_xlabel("rows held of each stream")
    axis.set_ylabel("results found (%)")
    tidy(axis)
    save(outcome, figure, axis, out / "oblivious_figure_8.png")


# -- strategies ----------------------------------------------------------------------------------------------


def bench_strategies(outcome: Outcome, out: Path, seconds: int, seeds: int) -> None:
    """Figures 9, 10 and 11."""
    runs: dict[str, list[Held]] = {name: [] for name in STRATEGIES}
    for seed in range(seeds):
        streams = draw_streams(seconds, seed, True, FACTORS)
        for name in STRATEGIES:
            runs[name].append(run(streams, declared_rule(streams), disorder=name, evict="fifo"))
        outcome.compare(
            f"strategies, input {seed}", {name: {answer_of(runs[name][-1])} for name in STRATEGIES}
        )
    held = {name: mean(one.rows.sum(axis=1).mean() for one in runs[name]) for name in STRATEGIES}
    group = "Figure 10: rows in memory on average, Query 1"
    for before, name in zip((None, *STRATEGIES), STRATEGIES, strict=False):
        outcome.add(group, name, held[name], "rows")
        if before is not None:
            outcome.add(group, f"{name} against {before}", held[name] / held[before], "x", Target("<=", 1))
    group = "Figure 11: from a result's last row to the result"
    push = {name: mean(one.push_s for one in runs[name]) for name in STRATEGIES}
    late = {name: mean(latency_s(one.results) for one in runs[name]) for name in STRATEGIES}
    for name in STRATEGIES:
        outcome.add(
            group, name, 1e3 * (push[name] + late[name]), "ms", note=f"{1e3 * push[name]:.2f} of work"
        )
    outcome.add(group, "dbf against none", push["dbf"] / push["none"], "x", Target("<=", 1.5))
    figure, (lines, bars, waits) = plotter().subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for name in STRATEGIES:
        lines.plot(runs[name][0].rows[:, 2], color=COLOURS[name], label=name)
        bars.bar(name, held[name], color=COLOURS[name])
        waits.bar(name, 1e3 * (push[name] + late[name]), color=COLOURS[name])
    waits.set_yscale("log")
    for axis, title, unit in (
        (lines, "Figure 9: stream c", "rows in memory"), (bars, "Figure 10: all streams", "rows, on average"),
        (waits, "Figure 11: latency", "ms"),
    ):  # fmt: skip
        axis.set_title(title)
        axis.set_ylabel(unit)
        tidy(axis)
    save(outcome, figure, lines, out / "oblivious_figures_9_to_11.png")


def latency_s(results: NDArray) -> float:
    """Of a result, how long after its last row it has its time."""
    return float((results[:, 0] - results[:, 4:].max(axis=1)).mean() / 1e6) if len(results) else 0.0


def answer_of(run: Held) -> int:
    """A number that stands for all results, whatever their times and order."""
    rows = run.results[:, 1:4].astype(np.uint64)
    mixed = (
        rows[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ rows[:, 1] * np.uint64(0xC2B2AE3D27D4EB4F) ^ rows[:, 2]
    )
    return int((mixed * np.uint64(0xFF51AFD7ED558CCD)).sum()) ^ len(rows)


# -- a run ---------------------------------------------------------------------------------------------------


def declared_rule(streams: Streams) -> Callable[[str], str]:
    return lambda name: f"ORDERED WITHIN {streams[name].factor} ROWS"


@contextmanager
def rows_ahead() -> Iterator[None]:
    """As many rows that lead stay in memory as in the paper."""
    usual = buffers.AHEAD_ROWS
    buffers.AHEAD_ROWS = AHEAD_ROWS
    try:
        yield
    finally:
        buffers.AHEAD_ROWS = usual


def run(
    streams: Streams,
    rule: Callable[[str], str],
    window: str = "",
    disorder: str = "none",
    evict: str = "key",
) -> Held:
    """Query 1, a tenth of a second at a time."""
    rows, predicted, times, results = [], [], [], []
    with rows_ahead(), tempfile.TemporaryDirectory() as folder:
        engine = Engine(disorder=disorder, evict=evict, spool=folder)
        for name in streams:
            engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT {rule(name)}, v BIGINT)")
        query = engine.query(QUERY.format(window), name="q")
        query.subscribe(lambda batch: results.append(values_of(batch)))
        tables = {name: one.table for name, one in streams.items()}
        last = max(int(one.ts[-1]) for one in streams.values()) // TICK_US + 1
        edges = {name: one.ts.searchsorted(np.arange(last + 1) * TICK_US) for name, one in streams.items()}
        for tick in range(last):
            given, began = len(results), time.process_time()
            for name, at in edges.items():
                if at[tick + 1] > at[tick]:
                    engine.push(name, tables[name].slice(at[tick], at[tick + 1] - at[tick]))
            engine.advance(int((tick + 1) * TICK_US) - 1)
            if len(results) > given:
                times.append(time.process_time() - began)
            if (tick + 1) % (SECOND_US // TICK_US) == 0 and not window:
                sides = engine.stats()["queries"]["q"]["oblivious"]["sides"]
                rows.append([one["rows"] for one in sides])
                predicted.append([one["predicted_rows"] for one in sides])
        engine.close()
    found = np.concatenate(results) if results else np.empty((0, 7), np.int64)
    return Held(np.array(rows), np.array(predicted), found, mean(times) if times else 0.0)


def values_of(batch: object) -> NDArray:
    """The columns of a batch side by side."""
    columns = batch.columns  # type: ignore[attr-defined]
    return np.column_stack([column.cast("int64").to_numpy(zero_copy_only=False) for column in columns])


def share(is_so: NDArray) -> float:
    return 100 * float(is_so.mean())


def save(outcome: Outcome, figure: object, legend: object, path: Path) -> None:
    """Legend below, into the file."""
    handles, labels = legend.get_legend_handles_labels()  # type: ignore[attr-defined]
    figure.legend(handles, labels, loc="outside lower center", ncol=4, frameon=False)  # type: ignore[attr-defined]
    figure.savefig(path, dpi=140)  # type: ignore[attr-defined]
    plotter().close(figure)
    outcome.pictures.append(path.name)
