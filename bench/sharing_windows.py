"""Many windows over one stream that is not joined: its rows kept once, against a store for each query.

1,000 rows per second, 1,000 keys. A hundred queries are given what enters and leaves their windows, of 100 ms
to 10 s, some filtered; twenty keep aggregates per key.
"""

from __future__ import annotations

from penstock.api import Engine, Query

from .join import RATE, cpu_ratio
from .outcome import Outcome, Target
from .race import Contestant, race
from .sharing_strategies import even_values
from .streams import Stream, cut_by_rows, poisson_stream

KEYS = 1_000
PUSH_ROWS = 10_000
MANY, FEW = 100, 20
GROUP = "windows over one stream"
CREATE = "CREATE STREAM a (ts TIMESTAMP, key BIGINT, value DOUBLE)"
NAMES = {"auto": "engine, rows kept once", "unshared": "engine, a store per query"}
FASTER, SMALLER = Target(">=", 2), Target("<=", 0.05)


def changes(number: int) -> str:
    """What enters and leaves one of many windows: of half of them, rows above a threshold."""
    columns = ("key, value", "value", "key", "ts, value")[number % 4]
    where = f"WHERE value > {number / (2 * MANY)} " if number % 2 else ""
    window = 10_000 * (number + 1) // MANY
    return f"SELECT {columns} FROM a [RANGE {window} MILLISECONDS] {where}EMIT CHANGES"


def aggregates(number: int) -> str:
    """Counts, sums and extremes per key over one of a few windows."""
    call = ("COUNT(*)", "SUM(value)", "MAX(value)", "AVG(value)")[number % 4]
    window = 10_000 * (number + 1) // FEW
    return f"SELECT key, {call} AS x FROM a [RANGE {window} MILLISECONDS] GROUP BY key"


CASES = {
    f"{MANY} windows, what enters and leaves": [changes(number) for number in range(MANY)],
    f"{FEW} windows, aggregates per key": [aggregates(number) for number in range(FEW)],
}


def start(queries: list[str], sharing: str) -> tuple[Engine, list[Query]]:
    engine = Engine(sharing=sharing)
    engine.execute(CREATE)
    return engine, [engine.query(sql) for sql in queries]


def push_all(engine: Engine, queries: list[Query], stream: Stream) -> int:
    """Push everything and take all results; how many there were of each query, weighed."""
    table = stream.table
    for begin, end in cut_by_rows(len(stream), PUSH_ROWS):
        engine.push("a", table.slice(begin, end - begin))
        for query in queries:
            query.results()
    return sum(number * query.count for number, query in enumerate(queries, 1))


def state_bytes(engine: Engine) -> int:
    """Of all operators that keep something, each once."""
    return sum(one.state_bytes for work in engine._runtime.shared for one in work.own_operators)


def bench_windows(outcome: Outcome, rows: int, rounds: int) -> None:
    """Each case with and without sharing."""
    stream = even_values(poisson_stream(rows, RATE, KEYS, 1), 51)
    for case, queries in CASES.items():
        timings = race(
            [
                Contestant(
                    name,
                    lambda started: push_all(started[0], started[1], stream),
                    lambda queries=queries, sharing=sharing: start(queries, sharing),  # type: ignore[misc]
                )
                for sharing, name in NAMES.items()
            ],
            rounds,
        )
        outcome.compare(f"{GROUP}, {case}", {name: timing.answers for name, timing in timings.items()})
        held = []
        for sharing in NAMES:
            engine, started = start(queries, sharing)
            push_all(engine, started, stream)
            held.append(state_bytes(engine))
        ratio = cpu_ratio(timings, *NAMES.values())
        faster, smaller = (FASTER, SMALLER) if "enters" in case else (None, None)
        outcome.add(GROUP, f"{case}: speed / a store per query", ratio, "x", faster)
        note = f"{held[0] / 1e6:.1f} MB, {held[1] / 1e6:.1f} MB"
        outcome.add(GROUP, f"{case}: memory / a store per query", held[0] / held[1], "x", smaller, note)
