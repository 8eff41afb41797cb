"""Pauses when one query of many comes or goes while rows come in micro-batches.

A pause is how much longer a push of one second of both streams takes than the same push in an engine where
nobody comes or goes. Of the push with the change and those before the next one, that with the longest counts:
some of what a change causes is done later. (What can wait is done when nobody has come or gone for 8,192
rows, which most of these trials do not leave time for.) Engines do the same whenever they are run with the
same, so every push is timed in several runs, and the fastest counts, which the machine did not disturb.

Queries have RANGE windows, or half of them ROWS windows, and results are counted or given; newcomers are like
those that are there, or have a longer window than any of them.

What the queries consist of is taken out of Python's garbage collection when they have started (gc.freeze):
else a full collection, which goes over all of it, makes one push in some tens longer, whatever comes or goes.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .drive import Feed
from .join import ENGINE_STEPS, RATE, WINDOW_S, WINDOW_US, engine_feeds
from .outcome import Outcome, Target
from .sharing_peers import Ask, Tally, even_windows, expected_counts
from .sharing_strategies import newcomers, selection_sets, start_all
from .streams import Stream

PAUSE_MS = Target("<=", 20)
BOTH = "RANGE and ROWS"


@dataclass(frozen=True, slots=True)
class Pauses:
    """Of one trial, in milliseconds."""

    ordinary: float
    """The median push where nobody comes or goes."""
    added: list[float]
    dropped: list[float]
    survivors: dict[int, int]
    """Counts of the queries that were there from beginning to end, by place."""


@dataclass(frozen=True, slots=True)
class PauseTrial:
    """Queries that are there, some of which go, and texts of those that come."""

    asks: Sequence[Ask]
    new: Sequence[str]
    counting: bool = True
    rest: int = 1
    """Pushes after each change before the next one."""


def slices_for(changes: int) -> int:
    """Pushes of one second, of which the first fill the windows."""
    return WINDOW_S + max(map(pushes_of, trials(changes, changes).values()))


def trials(queries: int, changes: int) -> dict[str, PauseTrial]:
    """By name. What newcomers with longer windows find is looked at where queries ask for most different
    rows."""
    sets = {"windows": even_windows(queries, WINDOW_US)} | selection_sets(queries, WINDOW_US)
    sets |= {f"{name}, {BOTH}": half_by_rows(asks) for name, asks in sets.items()}
    found = {name: PauseTrial(asks, texts(newcomers(asks, changes))) for name, asks in sets.items()}
    found |= {
        f"{name}, rows are given": dataclasses.replace(trial, counting=False) for name, trial in found.items()
    }
    name, both = list(sets.items())[-1]
    new = newcomers(both, changes)
    longer = [dataclasses.replace(ask, window_us=WINDOW_US + 1_000 * n) for n, ask in enumerate(new, 1)]
    found[f"{name}, newcomers with longer windows"] = PauseTrial(both, texts(longer))
    return found


def half_by_rows(asks: Sequence[Ask]) -> list[Ask]:
    return [dataclasses.replace(ask, by_rows=place % 2 == 1) for place, ask in enumerate(asks)]


def texts(asks: Sequence[Ask]) -> list[str]:
    return [ask.sql for ask in asks]


def bench_pauses(outcome: Outcome, a: Stream, b: Stream, queries: int, changes: int, rounds: int) -> None:
    """a, b: of at least as many seconds as there are slices for these changes."""
    feeds, _ = engine_feeds(a, b)
    feed = Feed(feeds[ENGINE_STEPS].slices[: slices_for(changes)])
    for name, trial in trials(queries, changes).items():
        group = f"adding and dropping among {queries:,} queries, {name}"
        part = Feed(feed.slices[: WINDOW_S + pushes_of(trial)])
        pauses = measure_pauses(trial, part, WINDOW_S, rounds)
        pushed = [
            stream.head(sum(pair[side].num_rows for pair in part.slices))
            for side, stream in enumerate((a, b))
        ]
        places = list(pauses.survivors)
        expected = expected_counts(trial.asks, pushed[0], pushed[1])[places]
        tally = Tally()
        found = {"engine": {tally.note(list(pauses.survivors.values()))}, "bare loop": {tally.note(expected)}}
        tally.compare(outcome, group, found)
        note = f"beyond the {pauses.ordinary:.2f} ms of a push of {2 * RATE:,} rows, fastest of {rounds} runs"
        for what, beyond in (("adding", pauses.added), ("dropping", pauses.dropped)):
            outcome.add(group, f"{what}, median", float(np.median(beyond)), "ms", PAUSE_MS, note)
            outcome.add(group, f"{what}, worst of {len(beyond)}", max(beyond), "ms", PAUSE_MS, note)
        outcome.data.setdefault("pauses", {})[name] = dataclasses.asdict(pauses) | {"survivors": len(places)}


def pushes_of(trial: PauseTrial) -> int:
    """After the windows are full: each new query comes and, some pushes later, an old one goes."""
    return 2 * (1 + trial.rest) * len(trial.new)


def measure_pauses(trial: PauseTrial, feed: Feed, filling: int, rounds: int, sharing: str = "auto") -> Pauses:
    """`filling` slices of the feed come first. What is compiled may be loaded in the first of the runs."""
    leaving = np.random.default_rng(7).permutation(len(trial.asks))[: len(trial.new)].tolist()
    seconds: dict[bool, list[list[float]]] = {True: [], False: []}
    survivors: dict[int, int] = {}
    for _ in range(rounds):
        for changes in (True, False):
            run = Run(trial, feed, sharing)
            for _ in range(filling):
                run.push()
            gc.collect()  # what earlier engines left behind is no part of a pause
            gc.freeze()
            seconds[changes].append(run.all_pushes(leaving if changes else None))
            gc.unfreeze()
            run.engine.close()
            if changes:
                survivors = {
                    place: query.count for place, query in enumerate(run.queries) if place not in leaving
                }
    usual = np.min(seconds[False], axis=0)
    beyond = 1e3 * (np.min(seconds[True], axis=0) - usual)
    by_change = beyond.reshape(len(trial.new), 2, 1 + trial.rest).max(axis=2)
    added, dropped = by_change.T.tolist()
    return Pauses(1e3 * float(np.median(usual)), added, dropped, survivors)


class Run:
    """An engine with the queries of a trial that is given a feed."""

    def __init__(self, trial: PauseTrial, feed: Feed, sharing: str) -> None:
        self.engine, self.queries = start_all(trial.asks, sharing, counting=trial.counting)
        self._trial = trial
        self._slices = iter(feed.slices)

    def push(self, change: Callable[[], object] = lambda: None) -> float:
        """The seconds that it took; results are read after it."""
        a, b = next(self._slices)
        began = time.perf_counter()
        change()
        self.engine.push("a", a)
        self.engine.push("b", b)
        seconds = time.perf_counter() - began
        if not self._trial.counting:
            for query in self.engine.queries.values():
                query.results()
        return seconds

    def all_pushes(self, leaving: Sequence[int] | None) -> list[float]:
        """Seconds of each push. leaving: places of the queries that go; None: nobody comes or goes."""
        if leaving is None:
            return [self.push() for _ in range(pushes_of(self._trial))]
        seconds = []
        for number, (text, leaver) in enumerate(zip(self._trial.new, leaving, strict=True)):
            seconds.append(self.push(partial(self._add, text, f"new{number}")))
            seconds += [self.push() for _ in range(self._trial.rest)]
            seconds.append(self.push(self.queries[leaver].drop))
            seconds += [self.push() for _ in range(self._trial.rest)]
        return seconds

    def _add(self, text: str, name: str) -> None:
        self.engine.query(text, name, count_only=self._trial.counting)
