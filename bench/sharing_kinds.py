"""RANGE windows and ROWS windows over one join: whether `auto` runs what is cheaper.

One join keeps and takes in each row once, but its rows have two ages, and queries are tried for each pair.
Joins by kind find each their own pairs and sort them out by age. Windows of up to 5 s and 5,000 rows at 1,000
rows per second. The first half of the rows fills the windows, and `auto` makes up its mind; the second is
timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.api import Engine, Query

from .drive import CREATE
from .join import RATE, cpu_ratio
from .outcome import Outcome, Target
from .race import Contestant, race
from .sharing_strategies import even_values, state_rows
from .streams import Stream, cut_by_rows, poisson_stream

WINDOW_ROWS = 5_000
PUSH_ROWS = 10_000
GROUP = "RANGE and ROWS windows"
AUTO, ONE, BY_KIND = "auto", "one join", "an engine per kind"
NEAR_BEST = Target(">=", 0.85)


class Case(NamedTuple):
    """Queries of each kind, keys, and whether queries have selections and only count."""

    queries: int
    keys: int
    selects: bool
    counts: bool

    @property
    def name(self) -> str:
        which = f"{self.queries} of each kind{' with selections' if self.selects else ''}"
        return f"{which}, {WINDOW_ROWS // self.keys:,} matches, {'counted' if self.counts else 'given'}"

    def texts(self, kind: str) -> list[str]:
        unit = "MILLISECONDS" if kind == "RANGE" else ""
        found = []
        for number in range(self.queries):
            where = f"WHERE a.value > {number / (2 * self.queries)} " if self.selects else ""
            window = f"[{kind} {WINDOW_ROWS * (number + 1) // self.queries} {unit}]"
            columns = "SELECT a.value AS x, b.value AS y"
            found.append(f"{columns} FROM a {window} JOIN b {window} ON a.key = b.key {where}")
        return found


CASES = (
    Case(3, 5_000, False, True),
    Case(8, 100, False, True),
    Case(30, 600, True, True),
    Case(3, 600, True, False),
    Case(30, 5_000, False, False),
)


class Started(NamedTuple):
    """read: the queries that are given rows."""

    engines: list[Engine]
    queries: list[Query]
    read: list[Query]


def start(case: Case, name: str) -> Started:
    """One engine, or one for each kind."""
    kinds = [["RANGE"], ["ROWS"]] if name == BY_KIND else [["RANGE", "ROWS"]]
    started = Started([], [], [])
    for some in kinds:
        engine = Engine(sharing="mem-opt" if name == ONE else "auto")
        engine.execute(CREATE)
        started.engines.append(engine)
        for text in (text for kind in some for text in case.texts(kind)):
            started.queries.append(engine.query(text, count_only=case.counts))
    return started if case.counts else started._replace(read=started.queries)


def push(started: Started, streams: Sequence[Stream], begin: int, end: int) -> int:
    """Push some of the rows and take all results; how many there were, weighed by query."""
    tables = [stream.table for stream in streams]
    for first, last in cut_by_rows(end - begin, PUSH_ROWS):
        for engine in started.engines:
            for name, table in zip("ab", tables, strict=True):
                engine.push(name, table.slice(begin + first, last - first))
        for query in started.read:
            query.results()
    return sum(number * query.count for number, query in enumerate(started.queries, 1))


def filled(case: Case, name: str, streams: Sequence[Stream], rows: int) -> Started:
    started = start(case, name)
    push(started, streams, 0, rows)
    return started


def bench_kinds(outcome: Outcome, rows: int, rounds: int) -> None:
    """Each case by `auto`, by one join whatever it costs, and by an engine for each kind."""
    for case in CASES:
        streams = [even_values(poisson_stream(2 * rows, RATE, case.keys, n), 50 + n) for n in (1, 2)]
        contestants = [
            Contestant(
                name,
                lambda started, streams=streams: push(started, streams, rows, 2 * rows),  # type: ignore[misc]
                lambda name=name, case=case, streams=streams: filled(case, name, streams, rows),  # type: ignore[misc]
            )
            for name in (AUTO, ONE, BY_KIND)
        ]
        timings = race(contestants, rounds)
        outcome.compare(f"{GROUP}, {case.name}", {name: timing.answers for name, timing in timings.items()})
        best = min((ONE, BY_KIND), key=lambda name: timings[name].best_cpu_s)
        kept = {
            name: sum(state_rows(engine.stats()) for engine in filled(case, name, streams, rows).engines)
            for name in (AUTO, BY_KIND)
        }
        note = f"best: {best}; {kept[AUTO]:,} rows kept, by kind {kept[BY_KIND]:,}"
        ratio = cpu_ratio(timings, AUTO, best)
        outcome.add(GROUP, f"{case.name}: auto / better of both", ratio, "x", NEAR_BEST, note)
