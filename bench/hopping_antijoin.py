"""An anti join of two hopping windows: rows of a whose key is not in b's window, all of them at every hop.

1,000 rows per second of both together, windows of 60 s, a hop of 30 s: about 30,000 rows are in each window.
Keys are so many that a few percent of a's rows find none of their own in b.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.api import Engine, Query

from .join import SLICE_ROWS, cpu_ratio, fastest_form
from .outcome import Outcome, Target
from .race import Contestant, race
from .streams import Stream, cut_by_time, poisson_stream

RATE = 500  # of each stream
KEYS = 9_000
WINDOW_S, HOP_S = 60, 30
WINDOW_US, HOP_US = WINDOW_S * 1_000_000, HOP_S * 1_000_000
STEP_US = SLICE_ROWS // RATE * 1_000_000  # of stream time in a push
MODES = ("DICO", "CICO")
SQL = (
    f"SELECT key, value FROM a [RANGE {WINDOW_S} SECONDS] WHERE NOT EXISTS "
    f"(SELECT * FROM b [RANGE {WINDOW_S} SECONDS] WHERE a.key = b.key) HOP BY {HOP_S} SECONDS"
)
CREATE = "".join(f"CREATE STREAM {name} (ts TIMESTAMP, key BIGINT, value DOUBLE);" for name in "ab")
AGAIN, OFFLINE = "DuckDB, asked again at every hop", "DuckDB, all hops at once"


def bench_antijoin(outcome: Outcome, rows: int, rounds: int) -> None:
    """Every hop's answer delivered, against DuckDB hop by hop and over everything at once."""
    group = "anti join, window 60 s, hop 30 s"
    a, b = poisson_stream(rows // 2, RATE, KEYS, 1), poisson_stream(rows // 2, RATE, KEYS, 2)
    slices = in_turn(a, b)
    duckdb = DuckDbHops(a, b)
    again, again_answers = fastest_form(AGAIN, duckdb.again())
    offline, offline_answers = fastest_form(OFFLINE, duckdb.offline())
    names = {modes: f"engine, {modes}" for modes in MODES}
    engines = [contestant(name, slices, modes) for modes, name in names.items()]
    timings = race([*engines, again.contestant, offline.contestant], rounds)
    answers = {name: timing.answers for name, timing in timings.items()}
    outcome.compare(group, answers | again_answers | offline_answers)
    notes = {
        AGAIN: f"one thread; best form: {again.form}",
        OFFLINE: f"one thread; best form: {offline.form}",
    }
    outcome.add_speeds(group, timings, 2 * (rows // 2), notes)
    best = min(names.values(), key=lambda name: timings[name].best_cpu_s)
    outcome.add(group, f"{best} / {AGAIN}", cpu_ratio(timings, best, AGAIN), "x", Target(">=", 5))
    outcome.add(group, f"{best} / {OFFLINE}", cpu_ratio(timings, best, OFFLINE), "x", Target(">=", 1))


def in_turn(a: Stream, b: Stream) -> list[tuple[str, pa.Table]]:
    """The rows of both, cut at the same times, one after the other."""
    until = int(max(a.ts[-1], b.ts[-1])) + 1
    cuts = zip(*(cut_by_time(stream.ts, STEP_US, until) for stream in (a, b)), strict=True)
    tables = {"a": a.table, "b": b.table}
    return [
        (name, tables[name].slice(start, stop - start))
        for both in cuts
        for name, (start, stop) in zip("ab", both, strict=True)
    ]


def start(modes: str) -> tuple[Engine, Query]:
    engine = Engine(modes=modes)
    engine.execute(CREATE)
    return engine, engine.query(SQL, name="bench")


def contestant(name: str, slices: list[tuple[str, pa.Table]], modes: str) -> Contestant:
    """The engine in a race; starting it is not timed."""

    def run(started: tuple[Engine, Query]) -> int:
        engine, query = started
        total = 0
        for stream, part in slices:
            engine.push(stream, part)
            total += weigh(query.results())
        last = max(int(part["ts"].cast(pa.int64())[-1].as_py()) for _, part in slices)
        engine.advance(last + 1)  # all boundaries up to the last row are over
        return total + weigh(query.results())

    return Contestant(name, run, lambda: start(modes))


def weigh(answer: pa.Table) -> int:
    """What the rows of answers count for; whole numbers, so that sums are exact."""
    if not answer.num_rows:
        return 0
    hop = answer["_ts"].cast("int64").to_numpy() // HOP_US
    return int(((answer["key"].to_numpy() + 1) * answer["value"].to_numpy() * (hop % 7 + 1)).sum())


class DuckDbHops:
    """DuckDB on one thread; rows are in it, or in Arrow, before the clock starts."""

    def __init__(self, a: Stream, b: Stream) -> None:
        import duckdb

        self._streams = {"a": a, "b": b}
        self._tables = {name: s.table.set_column(0, "ts", [s.ts]) for name, s in self._streams.items()}
        last = int(max(a.ts[-1], b.ts[-1]))
        self._hops = np.arange(HOP_US, last + 1, HOP_US)
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        for name, table in self._tables.items():
            self._connection.register("pushed", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM pushed")

    def again(self) -> dict[str, Callable[[], int]]:
        """Ways to ask at every hop, by name."""
        now = "ts > $1 AND ts <= $2"
        windows = f"(SELECT * FROM a WHERE {now}) AS x", f"(SELECT * FROM b WHERE {now}) AS y"
        return {
            "tables, the window by ts": lambda: self._by_time(anti(*windows)),
            "tables, the window by ts, NOT IN": lambda: self._by_time(anti_in(*windows)),
            "slices of Arrow tables": lambda: self._by_slice(anti("shown_a AS x", "shown_b AS y")),
        }

    def offline(self) -> dict[str, Callable[[], int]]:
        """Ways to ask once: each row stands for all hops it is part of."""
        hops = f"range((ts + {HOP_US - 1}) // {HOP_US} * {HOP_US}, ts + {WINDOW_US}, {HOP_US})"
        some = f"(SELECT unnest({hops}) AS hop, key, value FROM a) AS x"
        others = f"(SELECT unnest({hops}) AS hop, key FROM b) AS y"
        keys = f"(SELECT DISTINCT hop, key FROM {others}) AS y"
        return {
            "anti join on hop and key": lambda: self._once(some, others),
            "anti join with distinct keys": lambda: self._once(some, keys),
        }

    def _by_time(self, sql: str) -> int:
        return sum(self._ask(sql, hop, [hop - WINDOW_US, hop]) for hop in self._hops.tolist())

    def _by_slice(self, sql: str) -> int:
        total = 0
        for hop in self._hops.tolist():
            for name, stream in self._streams.items():
                first, end = np.searchsorted(stream.ts, [hop - WINDOW_US, hop], side="right").tolist()
                self._connection.register(f"shown_{name}", self._tables[name].slice(first, end - first))
            total += self._ask(sql, hop, [])
        return total

    def _ask(self, sql: str, hop: int, given: list[int]) -> int:
        ((total,),) = self._connection.execute(sql, given).fetchall()
        return int(total or 0) * (hop // HOP_US % 7 + 1)

    def _once(self, some: str, others: str) -> int:
        weight = f"(x.key + 1) * x.value * (x.hop // {HOP_US} % 7 + 1)"
        last = int(self._hops[-1])
        sql = f"SELECT sum({weight}) FROM {some} ANTI JOIN {others} ON x.hop = y.hop AND x.key = y.key"
        ((total,),) = self._connection.execute(f"{sql} WHERE x.hop <= {last}").fetchall()
        return int(total or 0)


def anti(some: str, others: str) -> str:
    return f"SELECT sum((x.key + 1) * x.value) FROM {some} ANTI JOIN {others} ON x.key = y.key"


def anti_in(some: str, others: str) -> str:
    return f"SELECT sum((x.key + 1) * x.value) FROM {some} WHERE x.key NOT IN (SELECT y.key FROM {others})"
