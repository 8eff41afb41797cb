"""GROUP BY over a sliding window, with each approach to expiry: bare loops, other systems, exact sums.

1,000 rows per second, 1,000 keys, 60 s: about 60,000 rows are alive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.api import Engine, Query

from .bare_groups import BareGroups
from .expiry_peers import DuckDbAgain, PolarsAgain, WindowBounds, weigh, weigh_changes
from .join import SLICE_ROWS, cpu_ratio, fastest_form
from .outcome import Outcome, Target
from .race import Contestant, race
from .streams import Stream, cut_by_rows, cut_by_time, poisson_stream

APPROACHES = ("auto", "ita", "nta", "time-message", "piggyback")
RATE = 1_000
KEYS = 1_000
WINDOW_S = 60
WINDOW_US = WINDOW_S * 1_000_000
STEP_US = 1_000_000
SLOTS = 4_096  # of the bare loop's hash table
DUE = Target(">=", 0.9)

COUNT_MAX = f"SELECT key, COUNT(*), MAX(value) FROM a [RANGE {WINDOW_S} SECONDS] GROUP BY key EMIT CHANGES"
SUM_AVG = f"SELECT key, SUM(value), AVG(value) FROM a [RANGE {WINDOW_S} SECONDS] GROUP BY key EMIT CHANGES"
CREATE = "CREATE STREAM a (ts TIMESTAMP, key BIGINT, value DOUBLE)"
ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Groups:
    """A query over groups and what it is held against."""

    name: str
    sql: str
    is_sum: bool
    target: Target | None


QUERIES = (
    Groups("COUNT and MAX", COUNT_MAX, False, Target(">=", 0.3)),
    Groups("SUM and AVG", SUM_AVG, True, None),
)


def start(sql: str, counting: bool, expiry: str) -> tuple[Engine, Query]:
    """An engine with one query over the stream a."""
    engine = Engine(expiry=expiry)
    engine.execute(CREATE)
    return engine, engine.query(sql, name="bench", count_only=counting)


def push_all(engine: Engine, query: Query, slices: list[pa.Table], counting: bool) -> int:
    """Push everything, take results after each push; how many there were."""
    rows = 0
    for part in slices:
        engine.push("a", part)
        if not counting:
            rows += query.results().num_rows
    engine.close()
    return query.count if counting else rows + query.results().num_rows


def contestant(name: str, sql: str, slices: list[pa.Table], counting: bool, expiry: str) -> Contestant:
    """The engine in a race; starting it is not timed."""

    def run(started: tuple[Engine, Query]) -> int:
        return push_all(*started, slices, counting)

    return Contestant(name, run, lambda: start(sql, counting, expiry))


def by_rows(stream: Stream) -> list[pa.Table]:
    table = stream.table
    return [table.slice(i, j - i) for i, j in cut_by_rows(len(stream), SLICE_ROWS)]


def by_time(stream: Stream) -> list[pa.Table]:
    table = stream.table
    return [table.slice(i, j - i) for i, j in cut_by_time(stream.ts, STEP_US, int(stream.ts[-1]) + 1)]


def bench_groups(outcome: Outcome, rows: int, rounds: int) -> list[tuple[str, float]]:
    """Against bare loops, changes counted and delivered; how far `auto` is from the best, by what."""
    stream = poisson_stream(rows, RATE, KEYS, 1)
    slices = by_rows(stream)
    behind: list[tuple[str, float]] = []
    for query in QUERIES:
        for counting in (True, False):
            group = f"GROUP BY, {query.name}, changes {'counted' if counting else 'delivered'}"
            bare = BareGroups(stream, WINDOW_US, SLOTS, query.is_sum, 0 if counting else 4 * rows + 16)
            names = {expiry: f"{ENGINE}, {expiry}" for expiry in APPROACHES}
            runners = [
                contestant(name, query.sql, slices, counting, expiry) for expiry, name in names.items()
            ]
            timings = race([*runners, bare_contestant(bare)], rounds)
            outcome.compare(group, {name: timing.answers for name, timing in timings.items()})
            outcome.add_speeds(group, timings, rows, {})
            target = query.target if counting else None
            ratio = cpu_ratio(timings, names["auto"], "bare loop")
            outcome.add(group, "engine, auto / bare loop", ratio, "x", target)
            behind.append((group, auto_ratio({e: 1 / timings[n].best_cpu_s for e, n in names.items()})))
            if not counting:
                compare_contents(outcome, group, query, slices, bare)
    return behind


def bare_contestant(bare: BareGroups) -> Contestant:
    return Contestant("bare loop", lambda _: bare.run(), bare.reset)


def auto_ratio(speeds: dict[str, float]) -> float:
    """The speed of `auto` against that of the best other approach."""
    return speeds["auto"] / max(speed for expiry, speed in speeds.items() if expiry != "auto")


def compare_contents(
    outcome: Outcome, group: str, query: Groups, slices: list[pa.Table], bare: BareGroups
) -> None:
    """Delivered changes add up to the same, column by column, as those of the bare loop."""
    given, wanted = delivered(query.sql, slices), bare.changes()
    for place, name in enumerate(("ts", "sign", "key", "first column", "second column")):
        sums = [round(float(np.sum(all_[place].astype(np.float64) * all_[1]))) for all_ in (given, wanted)]
        outcome.compare(f"{group}, sum of {name}", {"engine": {sums[0]}, "bare loop": {sums[1]}})


def delivered(sql: str, slices: list[pa.Table], expiry: str = "auto") -> list[np.ndarray]:
    """ts, sign and columns of all changes."""
    engine, query = start(sql, False, expiry)
    for part in slices:
        engine.push("a", part)
    engine.close()
    table = query.results()
    table = table.set_column(0, "ts", table["_ts"].cast("int64"))
    return [column.to_numpy() for column in table.columns]


def bench_again(outcome: Outcome, rows: int, rounds: int) -> None:
    """Every change as it happens, against the whole answer again once a second."""
    group = "GROUP BY, against asking again every second"
    stream = poisson_stream(rows, RATE, KEYS, 1)
    slices = by_time(stream)
    duckdb, polars = DuckDbAgain(stream, WINDOW_US, STEP_US), PolarsAgain(stream, WINDOW_US, STEP_US)
    duck, duck_answers = fastest_form("DuckDB, asked again every second", duckdb.forms())
    polar, polar_answers = fastest_form("Polars, asked again every second", polars.forms())
    name = "engine, micro-batches of 1 s"
    engine = contestant(name, COUNT_MAX, slices, False, "auto")
    timings = race([engine, duck.contestant, polar.contestant], rounds)
    ts, sign, key, count, most = delivered(COUNT_MAX, slices)
    instants = WindowBounds(stream, WINDOW_US, STEP_US).instants
    total = weigh_changes(instants, ts, sign, weigh(key, count, most))
    answers = {peer.contestant.name: timings[peer.contestant.name].answers for peer in (duck, polar)}
    outcome.compare(group, answers | duck_answers | polar_answers | {"engine's changes": {total}})
    notes = {
        name: "every change, delivered",
        duck.contestant.name: f"one thread; best form: {duck.form}",
        polar.contestant.name: f"{polars.threads} threads; best form: {polar.form}",
    }
    outcome.add_speeds(group, timings, rows, notes)
    outcome.add(group, "engine / DuckDB", cpu_ratio(timings, name, duck.contestant.name), "x")
    ratio = timings[polar.contestant.name].best_elapsed_s / timings[name].best_elapsed_s
    note = f"of elapsed time; {cpu_ratio(timings, name, polar.contestant.name):.3g} of processor time"
    outcome.add(group, "engine / Polars", ratio, "x", note=note)


# -- sums ---------------------------------------------------------------------------------------------


def nasty_doubles(rows: int, seed: int) -> np.ndarray:
    """Of all magnitudes and both signs, so that plain additions lose what is small."""
    rng = np.random.default_rng(seed)
    return np.ldexp(rng.uniform(-1, 1, rows), rng.integers(-200, 200, rows))


def bench_drift(outcome: Outcome, rows: int) -> None:
    """A sum after rows have come and gone is that of the rows that are there, to the last bit."""
    group = f"SUM of nasty doubles after {rows:,} rows have come and gone"
    stay = 1_000
    values = np.concatenate([nasty_doubles(rows, 7), np.random.default_rng(8).uniform(-1, 1, stay)])
    ts = np.arange(len(values)) * 10
    stream = Stream(ts, np.zeros(len(values), np.int64), values)
    size = stay * 10
    exact = math.fsum(values[-stay:].tolist())
    sql = f"SELECT SUM(value) FROM a [RANGE {size} MICROSECONDS] EMIT CHANGES"
    answers: dict[str, set[int]] = {"the live rows' exact sum": {bits(exact)}}
    for expiry in APPROACHES:
        *_, last = delivered(sql, by_rows(stream), expiry)
        answers[f"engine, {expiry}"] = {bits(float(last[-1]))}
    outcome.compare(group, answers)
    plain = 0.0
    for entering, leaving in zip(values.tolist(), [0.0] * stay + values[:-stay].tolist(), strict=True):
        plain += entering
        plain -= leaving
    off = sum(found != {bits(exact)} for found in answers.values())
    note = f"exactly {exact:.17g}; plain additions and subtractions give {plain:.17g}"
    outcome.add(group, "approaches whose sum differs in any bit", off, "", Target("<=", 0), note)


def bits(value: float) -> int:
    """A double as a whole number, the same for the same bits."""
    return int(np.float64(value).view(np.int64))
