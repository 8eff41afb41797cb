"""GROUP BY over hopping windows: DuckDB asked again at every hop or once for all; one query and many.

1,000 rows per second and 1,000 keys, as in expiry_groups.py. The one query has a window of 60 s and hops of
10 s; the many have 100 of the 252 pairs of windows of 10, 15 ... 110 s and hops of 5, 10 ... 60 s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.api import Engine, Query

from .expiry_groups import CREATE, KEYS, RATE, by_rows
from .expiry_peers import DuckDbAgain, weigh, weigh_text
from .join import cpu_ratio, fastest_form
from .outcome import Outcome, Target
from .race import Contestant, race
from .streams import Stream, poisson_stream

SECOND = 1_000_000
WINDOW_S, HOP_S = 60, 10
MANY = 100
AGAIN, AT_ONCE, SHARE = Target(">=", 5), Target(">=", 1), Target(">=", 0.3)
CHECKED_ROWS = 60_000
ENGINE = "engine"


def hopping(window_s: int, hop_s: int) -> str:
    """COUNT and MAX per key, the whole answer at every hop."""
    return (
        f"SELECT key, COUNT(*) AS rows, MAX(value) AS most FROM a [RANGE {window_s} SECONDS] GROUP BY key "
        f"HOP BY {hop_s} SECONDS"
    )


def many_pairs(count: int = MANY) -> list[tuple[int, int]]:
    """Windows and hops in seconds, no pair twice."""
    pairs = [(window, hop) for window in range(10, 111, 5) for hop in range(5, 61, 5)]
    chosen = np.random.default_rng(3).choice(len(pairs), count, replace=False)
    return [pairs[place] for place in sorted(chosen.tolist())]


def start(pairs: list[tuple[int, int]], counting: bool, panes: bool = True) -> tuple[Engine, list[Query]]:
    """An engine with a query for each pair."""
    engine = Engine(panes=panes)
    engine.execute(CREATE)
    return engine, [engine.query(hopping(*pair), count_only=counting) for pair in pairs]


def pass_last(engine: Engine, slices: list[pa.Table]) -> None:
    """All boundaries up to the last row are over: those that the others are asked at."""
    engine.advance(int(slices[-1]["ts"].cast(pa.int64())[-1].as_py()) + 1)


def push_all(engine: Engine, queries: list[Query], slices: list[pa.Table], counting: bool) -> int:
    """Push everything, take results after each push; how many there were."""
    rows = 0
    for part in slices:
        engine.push("a", part)
        if not counting:
            rows += sum(query.results().num_rows for query in queries)
    pass_last(engine, slices)
    return sum(q.count for q in queries) if counting else rows + sum(q.results().num_rows for q in queries)


def contestant(
    name: str, pairs: list[tuple[int, int]], slices: list[pa.Table], counting: bool, panes: bool = True
) -> Contestant:
    """The engine in a race; starting it is not timed."""

    def run(started: tuple[Engine, list[Query]]) -> int:
        return push_all(*started, slices, counting)

    return Contestant(name, run, lambda: start(pairs, counting, panes))


def weights(pairs: list[tuple[int, int]], slices: list[pa.Table]) -> list[int]:
    """Per query the weight of all rows of all its answers (see expiry_peers.py)."""
    engine, queries = start(pairs, False)
    for part in slices:
        engine.push("a", part)
    pass_last(engine, slices)
    found = []
    for query in queries:
        table = query.results()
        columns = (table[name].to_numpy() for name in ("key", "rows", "most"))
        found.append(int(weigh(*columns).sum()))
    return found


class DuckDbAtOnce:
    """DuckDB on one thread over the whole table, each row expanded to the hops whose windows hold it."""

    def __init__(self, stream: Stream) -> None:
        import duckdb

        self._last = int(stream.ts[-1])
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.register("pushed", stream.table.set_column(0, "ts", [stream.ts]))
        self._connection.execute("CREATE TABLE a AS SELECT * FROM pushed")

    def forms(self, window_s: int, hop_s: int) -> dict[str, Callable[[], int]]:
        """Ways to ask, by name."""
        size, hop = window_s * SECOND, hop_s * SECOND
        first = f"((ts + {hop - 1}) // {hop}) * {hop}"
        listed = f"SELECT key, value, unnest(range({first}, ts + {size}, {hop})) AS hop FROM a"
        most = -(-size // hop)
        joined = (
            f"SELECT key, value, {first} + n * {hop} AS hop FROM a, range({most}) AS numbers(n) "
            f"WHERE {first} + n * {hop} < ts + {size}"
        )
        return {"unnest": lambda: self._ask(listed), "a join with numbers": lambda: self._ask(joined)}

    def _ask(self, expanded: str) -> int:
        answer = (
            f"SELECT hop, key, count(*) AS rows, max(value) AS most FROM ({expanded}) "
            f"WHERE hop <= {self._last} GROUP BY hop, key"
        )
        sql = f"SELECT sum({weigh_text('key', 'rows', 'most')}) FROM ({answer})"
        ((total,),) = self._connection.execute(sql).fetchall()
        return int(total or 0)


def bench_one(outcome: Outcome, rows: int, rounds: int) -> None:
    """One query, its answers delivered, against DuckDB; against our own operators that keep rows."""
    group = f"COUNT and MAX per key, window {WINDOW_S} s, hop {HOP_S} s"
    pair = [(WINDOW_S, HOP_S)]
    stream = poisson_stream(rows, RATE, KEYS, 1)
    slices = by_rows(stream)
    again = DuckDbAgain(stream, WINDOW_S * SECOND, HOP_S * SECOND)
    duck, duck_answers = fastest_form("DuckDB, asked again at every hop", again.forms())
    at_once = DuckDbAtOnce(stream).forms(WINDOW_S, HOP_S)
    once, once_answers = fastest_form("DuckDB, once over the whole table", at_once)
    names = f"{ENGINE}, delivered", f"{ENGINE}, counted", f"{ENGINE} without panes, delivered"
    runners = [
        contestant(names[0], pair, slices, False),
        contestant(names[1], pair, slices, True),
        contestant(names[2], pair, slices, False, panes=False),
    ]
    timings = race([*runners, duck.contestant, once.contestant], rounds)
    outcome.compare(f"{group}, rows", {name: timings[name].answers for name in names})
    total = set(weights(pair, slices))
    outcome.compare(group, {"engine's answers": total} | duck_answers | once_answers)
    notes = {
        names[0]: "Arrow in, Arrow out",
        duck.contestant.name: f"one thread; best form: {duck.form}",
        once.contestant.name: f"one thread; best form: {once.form}",
    }
    outcome.add_speeds(group, timings, rows, notes)
    ratio = cpu_ratio(timings, names[0], duck.contestant.name)
    outcome.add(group, "engine / DuckDB asked again", ratio, "x", AGAIN)
    ratio = cpu_ratio(timings, names[0], once.contestant.name)
    outcome.add(group, "engine / DuckDB once for all", ratio, "x", AT_ONCE)
    outcome.add(group, "panes / rows kept", cpu_ratio(timings, names[0], names[2]), "x")


def bench_many(outcome: Outcome, rows: int, rounds: int) -> None:
    """Many queries over the same panes against one, answers counted and delivered."""
    stream = poisson_stream(rows, RATE, KEYS, 1)
    slices, pairs = by_rows(stream), many_pairs()
    for counting in (True, False):
        group = f"{MANY} hopping aggregates over one stream, {'counted' if counting else 'delivered'}"
        one, many = f"one, window {WINDOW_S} s, hop {HOP_S} s", f"{MANY}, windows 10-110 s, hops 5-60 s"
        runners = [
            contestant(one, [(WINDOW_S, HOP_S)], slices, counting),
            contestant(many, pairs, slices, counting),
        ]
        timings = race(runners, rounds)
        given = {name: max(timing.answers) for name, timing in timings.items()}
        notes = {name: f"{count / rows:.2g} result rows per row" for name, count in given.items()}
        outcome.add_speeds(group, timings, rows, notes)
        target = SHARE if counting else None
        outcome.add(group, f"{MANY} queries / one", cpu_ratio(timings, many, one), "x", target)
    few = stream.head(min(rows, CHECKED_ROWS))
    duckdb = DuckDbAtOnce(few)
    for pair, found in zip(pairs, weights(pairs, by_rows(few)), strict=True):
        wanted = duckdb.forms(*pair)["unnest"]()
        outcome.compare(f"window {pair[0]} s, hop {pair[1]} s", {ENGINE: {found}, "DuckDB": {wanted}})
