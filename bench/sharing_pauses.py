"""Pauses when one query of many comes or goes while rows come in micro-batches.

A pause is how much longer a push of one second of both streams takes with a change before it than without.
Queries have RANGE windows, or half of them ROWS windows; then newcomers are like those that are there, or
have a longer window than any of them, or one of each kind, which nobody else has.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .drive import Feed
from .join import ENGINE_STEPS, RATE, WINDOW_S, WINDOW_US, engine_feeds
from .outcome import Outcome, Target
from .sharing_peers import Ask, Tally, even_windows, expected_counts
from .sharing_strategies import newcomers, selection_sets, start_all
from .streams import Stream

PAUSE_MS = Target("<=", 20)
BOTH = "RANGE and ROWS"


@dataclass(slots=True)
class Pauses:
    """Seconds of a push of both streams: an ordinary one, one with a query added before, or one dropped."""

    ordinary: list[float]
    added: list[float]
    dropped: list[float]
    survivors: dict[int, int]
    """Counts of the queries that were there from beginning to end, by place."""

    def beyond_ms(self, pushes: list[float]) -> list[float]:
        """What these took longer than the median ordinary push, in milliseconds."""
        usual = float(np.median(self.ordinary))
        return [1e3 * (seconds - usual) for seconds in pushes]


@dataclass(frozen=True, slots=True)
class PauseTrial:
    """Queries that are there and texts of those that come; who is new goes again, or old ones go."""

    asks: Sequence[Ask]
    new: Sequence[str]
    new_ones_go: bool = False


def slices_for(changes: int) -> int:
    """Pushes of one second, of which the first fill the windows, and one change is not counted."""
    return WINDOW_S + 4 * (changes + 1)


def trials(queries: int, changes: int) -> dict[str, PauseTrial]:
    """By name. What newcomers of another kind find is looked at where queries ask for most different rows."""
    sets = {"windows": even_windows(queries, WINDOW_US)} | selection_sets(queries, WINDOW_US)
    sets |= {f"{name}, {BOTH}": half_by_rows(asks) for name, asks in sets.items()}
    found = {name: PauseTrial(asks, texts(newcomers(asks, changes))) for name, asks in sets.items()}
    name, both = list(sets.items())[-1]
    new = newcomers(both, changes)
    longer = [dataclasses.replace(ask, window_us=WINDOW_US + 1_000 * n) for n, ask in enumerate(new, 1)]
    found[f"{name}, newcomers with longer windows"] = PauseTrial(both, texts(longer))
    mixed = [
        ask.through(*(dataclasses.replace(ask, by_rows=by_rows).window for by_rows in (False, True)))
        for ask in new
    ]
    found[f"{name}, newcomers with a window of each kind"] = PauseTrial(both, mixed, new_ones_go=True)
    return found


def half_by_rows(asks: Sequence[Ask]) -> list[Ask]:
    return [dataclasses.replace(ask, by_rows=place % 2 == 1) for place, ask in enumerate(asks)]


def texts(asks: Sequence[Ask]) -> list[str]:
    return [ask.sql for ask in asks]


def bench_pauses(outcome: Outcome, a: Stream, b: Stream, queries: int, changes: int) -> None:
    """a, b: of at least as many seconds as there are slices for these changes."""
    feeds, _ = engine_feeds(a, b)
    feed = Feed(feeds[ENGINE_STEPS].slices[: slices_for(changes)])
    pushed = [
        stream.head(sum(pair[side].num_rows for pair in feed.slices)) for side, stream in enumerate((a, b))
    ]
    for name, trial in trials(queries, changes + 1).items():
        group = f"adding and dropping among {queries:,} queries, {name}"
        pauses = measure_pauses(trial, feed, WINDOW_S)
        places = list(pauses.survivors)
        expected = expected_counts(trial.asks, pushed[0], pushed[1])[places]
        tally = Tally()
        found = {"engine": {tally.note(list(pauses.survivors.values()))}, "bare loop": {tally.note(expected)}}
        tally.compare(outcome, group, found)
        note = f"beyond the {1e3 * np.median(pauses.ordinary):.2f} ms of a push of {2 * RATE:,} rows"
        for what, pushes in (("adding", pauses.added), ("dropping", pauses.dropped)):
            beyond = pauses.beyond_ms(pushes)
            outcome.add(group, f"{what}, median", float(np.median(beyond)), "ms", PAUSE_MS, note)
            outcome.add(group, f"{what}, worst of {len(beyond)}", max(beyond), "ms", PAUSE_MS, note)
        outcome.data.setdefault("pauses", {})[name] = dataclasses.asdict(pauses) | {"survivors": len(places)}


def measure_pauses(trial: PauseTrial, feed: Feed, filling: int, sharing: str = "auto") -> Pauses:
    """Each new query is added and, a push later, it or a random old one dropped; the first time is not
    counted.

    `filling` slices of the feed come first, then four for each new query.
    """
    engine, queries = start_all(trial.asks, sharing)
    leaving = np.random.default_rng(7).permutation(len(queries))[: len(trial.new)].tolist()
    slices = iter(feed.slices)
    pauses = Pauses([], [], [], {})

    def push(change: Callable[[], object] = lambda: None) -> float:
        a, b = next(slices)
        began = time.perf_counter()
        change()
        engine.push("a", a)
        engine.push("b", b)
        return time.perf_counter() - began

    for _ in range(filling):
        push()
    gc.collect()  # what earlier engines left behind is no part of a pause
    for number, (text, leaver) in enumerate(zip(trial.new, leaving, strict=True)):
        name = f"new{number}"
        ordinary = [push()]
        added = push(lambda text=text, name=name: engine.query(text, name, count_only=True))  # type: ignore[misc]
        ordinary.append(push())
        goes = engine.queries[name] if trial.new_ones_go else queries[leaver]
        dropped = push(goes.drop)
        if number:
            pauses.ordinary += ordinary
            pauses.added.append(added)
            pauses.dropped.append(dropped)
    engine.close()
    gone = set() if trial.new_ones_go else set(leaving)
    pauses.survivors = {place: query.count for place, query in enumerate(queries) if place not in gone}
    return pauses
