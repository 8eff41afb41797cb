"""Joins of three streams: what many queries with different windows cost against one, and against a join each.

W1 with a third stream: 1,000 rows per second each, 10,000 keys, windows of up to 10 s; results are counted
per query. DuckDB makes the join of the longest window offline, over whole tables on one thread, with buckets
of time in the key, and counts it per query.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from penstock.api import Engine, Query

from .join import KEYS, RATE, SLICE_ROWS, WINDOW_US, cpu_ratio
from .outcome import Outcome, Target
from .race import Contestant, race
from .streams import Stream, cut_by_rows, poisson_stream

GROUP = "three streams, windows W*i/N"
KEPT = {100: Target(">=", 0.8), 1_000: Target(">=", 0.6)}  # the share of one query's speed to be kept
SEPARATE = 20  # queries, against a join each
FIRST_ROWS = 1_000  # of each stream, pushed before the clock starts
NAMES = "abc"
JOIN = "SELECT a.value FROM a, b, c WHERE a.key = b.key AND b.key = c.key"

Started = tuple[Engine, list[Query]]


def windows_of(number: int) -> list[int]:
    return [WINDOW_US * (i + 1) // number for i in range(number)]


def start(streams: list[Stream], number: int, sharing: str = "auto") -> Started:
    """Queries that have seen the first rows."""
    engine = Engine(sharing=sharing)
    for name in NAMES:
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, key BIGINT, value DOUBLE)")
    windows = windows_of(number)
    queries = [engine.query(f"{JOIN} WINDOW {size} MICROSECONDS", count_only=True) for size in windows]
    push_rows(engine, streams, 0, FIRST_ROWS)
    return engine, queries


def push_rows(engine: Engine, streams: list[Stream], begin: int, end: int) -> None:
    for name, stream in zip(NAMES, streams, strict=True):
        engine.push(name, stream.table.slice(begin, end - begin))


def push_all(started: Started, streams: list[Stream]) -> int:
    """Push all other rows; the counts of all queries, weighed."""
    engine, queries = started
    for begin, end in cut_by_rows(len(streams[0]) - FIRST_ROWS, SLICE_ROWS):
        push_rows(engine, streams, FIRST_ROWS + begin, FIRST_ROWS + end)
    engine.close()
    return sum(number * query.count for number, query in enumerate(queries, 1))


class DuckDbMany:
    """The join of the longest window, with the age of its oldest row, sorted out by query."""

    def __init__(self, streams: list[Stream]) -> None:
        import duckdb
        import pyarrow as pa

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        for name, stream in zip(NAMES, streams, strict=True):
            self._connection.register("arriving", pa.table({"ts": stream.ts, "key": stream.key}))
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
            self._connection.unregister("arriving")

    def count(self, number: int) -> int:
        """A row of b or c has the bucket of a's row, or one beside it."""
        steps = "(VALUES (-1), (0), (1)) AS near(step)"
        near = f"SELECT key, ts, ts // {WINDOW_US} + step AS bucket FROM {{}}, {steps}"
        age = "greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts)"
        ages = self._connection.execute(
            f"""
            WITH b AS ({near.format("b")}), c AS ({near.format("c")}) SELECT {age} AS age FROM a
            JOIN b ON a.key = b.key AND a.ts // {WINDOW_US} = b.bucket
            JOIN c ON a.key = c.key AND a.ts // {WINDOW_US} = c.bucket WHERE {age} < {WINDOW_US}
            """
        ).fetchnumpy()["age"]
        ages.sort()
        counts = np.searchsorted(ages, windows_of(number))
        return int((counts * np.arange(1, number + 1)).sum())


def bench_many(outcome: Outcome, rows: int, numbers: Sequence[int], rounds: int) -> None:
    """One query and many; the first of these numbers offline; sharing and not."""
    streams = [poisson_stream(rows, RATE, KEYS, seed) for seed in (1, 2, 3)]
    run = partial(push_all, streams=streams)
    # 1. one and many, and DuckDB
    names = {number: f"{number:,} {'query' if number == 1 else 'queries'}" for number in (1, *numbers)}
    first = numbers[0]
    offline = f"DuckDB offline, {names[first]}"
    duckdb = DuckDbMany(streams)
    runners = [Contestant(name, run, partial(start, streams, number)) for number, name in names.items()]
    timings = race([*runners, Contestant(offline, lambda _: duckdb.count(first))], rounds)
    outcome.compare(GROUP, {name: timings[name].answers for name in (names[first], offline)})
    outcome.add_speeds(GROUP, timings, 3 * rows, {offline: "one thread"})
    for number in numbers:
        ratio = cpu_ratio(timings, names[number], names[1])
        outcome.add(GROUP, f"{names[number]} / 1 query", ratio, "x", KEPT.get(number))
    outcome.add(GROUP, f"engine / {offline}", cpu_ratio(timings, names[first], offline), "x", Target(">=", 1))
    # 2. a join each
    few = {"auto": "sharing", "unshared": "a join each"}
    runners = [Contestant(name, run, partial(start, streams, SEPARATE, how)) for how, name in few.items()]
    timings = race(runners, rounds)
    outcome.compare(f"{GROUP}, {SEPARATE} queries", {name: one.answers for name, one in timings.items()})
    ratio = cpu_ratio(timings, *few.values())
    outcome.add(GROUP, f"{SEPARATE} queries, sharing / a join each", ratio, "x", Target(">=", 5))
