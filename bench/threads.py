"""`penstock bench threads`: what a turn costs when nobody waits, and what engines in threads gain.

A turn is what every call of an engine begins and ends with (turns.py). It costs what a call with nothing in
it costs with a turn, less what that costs without: too little to be seen in a push, of which it is a share.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pyarrow as pa

from penstock.api import Engine
from penstock.turns import DEADLOCK_AFTER_S, Turns, change

from .outcome import Outcome, Target
from .race import Contestant, Timing, race
from .streams import Stream, cut_by_rows, poisson_stream

CAPTION = "Costs are of processor time, best run; engines side by side of elapsed time."
FILTER = "SELECT key FROM a WHERE value > 500"
JOIN = "SELECT x.key FROM a [RANGE 1 SECONDS] AS x JOIN b [RANGE 1 SECONDS] AS y ON x.key = y.key"
STREAM = "CREATE STREAM {} (ts TIMESTAMP, key BIGINT, value DOUBLE)"
PUSH_ROWS = 100
EMPTY_CALLS = 50_000
RATE, KEYS = 1_000.0, 100

Tell = Callable[[str], None]
Pushes = list[tuple[str, pa.Table]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    pushes: int  # of 100 rows
    beside_rows: int  # of each stream of each engine that works beside others
    rounds: int


FULL = Size(pushes=2_000, beside_rows=1_000_000, rounds=7)
QUICK = Size(pushes=100, beside_rows=20_000, rounds=2)


class Empty:
    """Calls that do nothing, as an engine's are made."""

    def __init__(self) -> None:
        nothing_wrong = SimpleNamespace(stopped=[], refused=[])
        self._turns = Turns(SimpleNamespace(failures=nothing_wrong), DEADLOCK_AFTER_S)  # type: ignore[arg-type]

    @change
    def in_turn(self, stream: str, table: object) -> None:
        """Nothing, in turn."""

    def at_once(self, stream: str, table: object) -> None:
        """Nothing, at once."""


def bench_threads(size: Size, out: object, tell: Tell) -> Outcome:
    """Everything above."""
    outcome = Outcome("threads", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("what a turn costs")
    bench_turns(outcome, size)
    tell("engines side by side")
    bench_beside(outcome, size)
    return outcome


def bench_turns(outcome: Outcome, size: Size) -> None:
    """A turn as a share of small pushes."""
    empty = Empty()
    pushes = small_pushes(size.pushes)
    contestants = [
        Contestant("a call in turn", lambda _: call_often(empty.in_turn)),
        Contestant("a call without", lambda _: call_often(empty.at_once)),
        Contestant("filter", partial(push_all, pushes=pushes), partial(start, FILTER)),
        Contestant("join", partial(push_all, pushes=pushes), partial(start, JOIN)),
    ]
    timings = race(contestants, size.rounds)
    calls = timings["a call in turn"], timings["a call without"]
    turn_s = (calls[0].best_cpu_s - calls[1].best_cpu_s) / EMPTY_CALLS
    outcome.add("A turn nobody waits for", "one call", 1e9 * turn_s, "ns")
    for name in ("filter", "join"):
        push_s = timings[name].best_cpu_s / len(pushes)
        note = f"{1e6 * push_s:.0f} µs"
        share = 100 * turn_s / push_s
        outcome.add(
            "A turn nobody waits for", f"of a push of 100 rows, {name}", share, "%", Target("<=", 1), note
        )


def small_pushes(number: int) -> Pushes:
    """So many pushes, to two streams in turn."""
    streams = streams_of(number * PUSH_ROWS // 2, 1)
    return cut(streams, PUSH_ROWS)


def streams_of(rows: int, seed: int) -> tuple[Stream, Stream]:
    return poisson_stream(rows, RATE, KEYS, seed), poisson_stream(rows, RATE, KEYS, seed + 100)


def cut(streams: tuple[Stream, Stream], rows: int) -> Pushes:
    """Pushes of so many rows, of both streams in turn."""
    pieces = cut_by_rows(len(streams[0]), rows)
    return [
        (name, stream.table.slice(begin, end - begin))
        for begin, end in pieces
        for name, stream in zip("ab", streams, strict=True)
    ]


def start(sql: str) -> Engine:
    engine = Engine()
    engine.execute("; ".join(STREAM.format(name) for name in "ab"))
    engine.query(sql, name="q", count_only=True)
    return engine


def call_often(call: Callable[[str, object], None]) -> int:
    for _ in range(EMPTY_CALLS):
        call("a", None)
    return EMPTY_CALLS


def push_all(engine: Engine, pushes: Pushes) -> int:
    for stream, table in pushes:
        engine.push(stream, table)
    return engine.queries["q"].count


def bench_beside(outcome: Outcome, size: Size) -> None:
    """As many engines as processors, at most four: one after the other, then a thread each."""
    number = min(4, os.cpu_count() or 1)
    feeds = [cut(streams_of(size.beside_rows, seed), 65_536) for seed in range(number)]

    def one_by_one(engines: list[Engine]) -> int:
        return sum(push_all(engine, feed) for engine, feed in zip(engines, feeds, strict=True))

    def beside(engines: list[Engine]) -> int:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda engine=engine, feed=feed: found.append(push_all(engine, feed)))
            for engine, feed in zip(engines, feeds, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(found)

    def starting() -> list[Engine]:
        return [start(JOIN) for _ in range(number)]

    contestants = [
        Contestant("one by one", one_by_one, starting),
        Contestant("side by side", beside, starting),
    ]
    timings: dict[str, Timing] = race(contestants, size.rounds)
    outcome.compare("engines side by side", {name: one.answers for name, one in timings.items()})
    gain = timings["one by one"].best_elapsed_s / timings["side by side"].best_elapsed_s
    name = f"{number} engines, a thread each, against one after the other"
    outcome.add("Engines side by side", name, gain, "x", note="elapsed")
