"""Many joins of the same two streams under one sharing strategy: started, pushed, timed, counted per query.

Streams that are pushed again and again run in laps: each lap is the same rows, later by the length of a lap,
and before the first one the windows are filled with the end of the lap before it. So all laps have the same
answers, and an engine with 10,000 queries has to be started once only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.api import Engine, Query

from .drive import CREATE, Cuts, Feed
from .outcome import Outcome
from .race import Contestant
from .sharing_peers import Ask, Tally, even_windows, expected_counts
from .streams import Stream

SECOND_US = 1_000_000
SELECTED = 0.01  # of the pairs, on average, by queries with a selection each


def start_all(
    asks: Sequence[Ask], sharing: str, index: str | tuple[str, str] = "auto", counting: bool = True
) -> tuple[Engine, list[Query]]:
    """An engine with every query counting its results, or giving them."""
    engine = Engine(sharing=sharing, index=index)
    engine.execute(CREATE)
    queries = [
        engine.query(ask.sql, name=f"ask{place}", count_only=counting)
        for place, ask in enumerate(asks, start=1)
    ]
    return engine, queries


def state_rows(stats: dict[str, Any]) -> int:
    """Rows held by all operators; what queries share is counted once."""
    owners = [*stats["queries"].values(), *stats.get("groups", ())]
    return sum(operator["state_rows"] for owner in owners for operator in owner["operators"])


# -- contestants --------------------------------------------------------------------------------------


def contestant(name: str, asks: Sequence[Ask], feed: Feed, tally: Tally, sharing: str = "auto") -> Contestant:
    """A new engine for each run, which takes the whole feed; starting its queries is not timed."""

    def run(started: tuple[Engine, list[Query]]) -> int:
        engine, queries = started
        for a, b in feed.slices:
            engine.push("a", a)
            engine.push("b", b)
        engine.close()
        return tally.note([query.count for query in queries])

    return Contestant(name, run, lambda: start_all(asks, sharing))


@dataclass(frozen=True, slots=True)
class Lap:
    """Two streams, how they are cut, and the largest window, which is not longer than they are."""

    a: Stream
    b: Stream
    cuts: Cuts
    window_us: int

    @property
    def length_us(self) -> int:
        return int(max(self.a.ts[-1], self.b.ts[-1])) + 1

    def feed(self, number: int) -> Feed:
        """Lap 0 begins one length after the beginning of time."""
        shift = (number + 1) * self.length_us
        a, b = (later(stream, shift).table for stream in (self.a, self.b))
        return Feed.of(a, b, self.cuts)

    def filling(self) -> tuple[Stream, Stream]:
        """The rows before lap 0 that its first rows can still meet."""
        assert self.length_us >= self.window_us, "a lap is at least as long as the largest window"
        a, b = (tail(stream, self.length_us - self.window_us) for stream in (self.a, self.b))
        return a, b

    def expected(self, asks: Sequence[Ask]) -> NDArray:
        """What each query counts in a lap."""
        streams = (self.a, self.b)
        a, b = (
            joined(old, later(new, self.length_us)) for old, new in zip(self.filling(), streams, strict=True)
        )
        return expected_counts(asks, a, b, self.length_us)


class Runner:
    """An engine that runs laps; started, with its windows full, before the first one."""

    def __init__(self, lap: Lap, asks: Sequence[Ask], sharing: str = "auto", counting: bool = True) -> None:
        self.lap = lap
        self.asks = asks
        self.laps = 0
        self._engine, self._queries = start_all(asks, sharing, counting=counting)
        self._read = [] if counting else self._queries
        for name, stream in zip("ab", lap.filling(), strict=True):
            self._engine.push(name, stream.table)
        self._engine.advance(lap.length_us)
        self._before = np.array([query.count for query in self._queries])

    def contestant(self, name: str) -> Contestant:
        """In a race, a run is a lap; only pushing is timed. Its answer, 0, says nothing: see `agrees`."""
        return Contestant(name, self._run, lambda: self.lap.feed(self.laps))

    def _run(self, feed: Feed) -> int:
        for a, b in feed.slices:
            self._engine.push("a", a)
            self._engine.push("b", b)
            for query in self._read:
                query.results()
        self.laps += 1
        self._engine.advance((self.laps + 1) * self.lap.length_us)
        return 0

    def compare(self, outcome: Outcome, what: str) -> None:
        """Hold the counts of all laps against those of the bare loop."""
        tally = Tally()
        found = np.array([query.count for query in self._queries]) - self._before
        expected = self.laps * self.lap.expected(self.asks)
        tally.compare(outcome, what, {"engine": {tally.note(found)}, "bare loop": {tally.note(expected)}})


def later(stream: Stream, by_us: int) -> Stream:
    return Stream(stream.ts + by_us, stream.key, stream.value)


def tail(stream: Stream, since: int) -> Stream:
    """The rows that are not before `since`."""
    begin = int(np.searchsorted(stream.ts, since))
    return Stream(stream.ts[begin:], stream.key[begin:], stream.value[begin:])


def joined(one: Stream, other: Stream) -> Stream:
    """One after the other."""
    columns = ((getattr(one, name), getattr(other, name)) for name in ("ts", "key", "value"))
    return Stream(*(np.concatenate(pair) for pair in columns))


def even_values(stream: Stream, seed: int) -> Stream:
    """The same rows with values spread evenly over [0, 1)."""
    return Stream(stream.ts, stream.key, np.random.default_rng(seed).random(len(stream)))


def selection_sets(number: int, largest_us: int) -> dict[str, list[Ask]]:
    """Queries with different windows, each with a selection of its own, large and small windows mixed."""
    windows = np.random.default_rng(3).permutation(
        [ask.window_us for ask in even_windows(number, largest_us)]
    )
    steps = np.arange(number) / number
    above = 1 - 2 * SELECTED * (1 - steps)
    between = (1 - SELECTED) * steps
    sizes = windows.tolist()
    return {
        "a.value > c": [Ask(size, low) for size, low in zip(sizes, above.tolist(), strict=True)],
        "a.value BETWEEN c AND d": [
            Ask(size, low, low + SELECTED) for size, low in zip(sizes, between.tolist(), strict=True)
        ],
    }


def newcomers(asks: Sequence[Ask], number: int) -> list[Ask]:
    """Queries like these, with windows between theirs; of ROWS windows, with that of another."""
    chosen = np.random.default_rng(9).choice(len(asks), number, replace=False)
    return [dataclasses.replace(asks[place], window_us=asks[place].window_us - 1) for place in chosen]
