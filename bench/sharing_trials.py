"""The State-Slice paper's trials: some seconds of both streams from empty windows on, under one strategy.

Queries are given their results, which are read after each push, as the paper's receivers have theirs. What is
measured is the processor time of that, and the rows in the states once the largest window is full.

A strategy that goes by measured rates is shown the same streams once before, with its windows empty again
afterwards: the paper's chains are built for their rates, too.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.api import Engine, Query
from penstock.engine.chain.chain import ChainGroup
from penstock.engine.sharing.shared_join import SharedJoin

from .drive import Feed
from .sharing_peers import Ask, Tally
from .sharing_strategies import SECOND_US, even_values, later, start_all, state_rows
from .streams import Stream, cut_by_time, poisson_stream

AS_MERGED = "chain, as merged there"  # the chain with the slices that the paper says it has


@dataclass(frozen=True, slots=True)
class Setting:
    """Windows in seconds; selectivity of a's condition, which all but the first query have, and of the join.

    rate: rows per second of each stream.
    merged_s: where the slices of the paper's own chain for least processor time end; none: it does not say.
    """

    windows_s: tuple[float, ...]
    selection: float  # 1: no query has a condition
    join: float
    rate: float
    merged_s: tuple[float, ...] = ()

    @property
    def asks(self) -> list[Ask]:
        above = [None, *([1 - self.selection if self.selection < 1 else None] * (len(self.windows_s) - 1))]
        sizes = (round(window * SECOND_US) for window in self.windows_s)
        return [Ask(size, value) for size, value in zip(sizes, above, strict=True)]

    def stream(self, seconds: float, seed: int) -> Stream:
        """Values even over [0, 1); keys such that two rows match with the join's selectivity."""
        rows = poisson_stream(math.ceil(1.5 * self.rate * seconds) + 100, self.rate, 1, seed)
        rows = rows.head(int(np.searchsorted(rows.ts, round(seconds * SECOND_US))))
        shares = key_shares(self.join)
        keys = np.random.default_rng(seed + 1).choice(len(shares), len(rows), p=shares)
        return even_values(Stream(rows.ts, keys.astype(np.int64), rows.value), seed + 2)


@dataclass(frozen=True, slots=True)
class Trial:
    """What one strategy did at one setting. cpu_s: of pushing; state_rows: mean, windows full."""

    setting: Setting
    strategy: str
    rows: int
    cpu_s: float
    state_rows: float
    results: int

    @property
    def service_rate(self) -> float:
        """Input rows per second of processor time."""
        return self.rows / self.cpu_s


def key_shares(selectivity: float) -> NDArray:
    """As few keys as can be, one of them more frequent than the others: the squared shares add up to it."""
    keys = math.ceil(1 / selectivity - 1e-9)
    if keys == 1:
        return np.ones(1)
    # The rare ones have the share q: (1 - (keys - 1) q)^2 + (keys - 1) q^2 = selectivity.
    rare = keys - 1
    q = (1 - math.sqrt(max(0.0, 1 - keys * (1 - selectivity) / rare))) / keys
    return np.array([1 - rare * q, *[q] * rare])


def run_trials(
    setting: Setting,
    strategies: Sequence[str],
    index: str,
    seconds: float,
    step_s: float,
    rounds: int,
    is_shown_before: bool = False,
) -> tuple[list[Trial], Tally, dict[str, set[int]]]:
    """All strategies in turn, the best processor time of each; and what each of them counted."""
    streams = [setting.stream(seconds, seed) for seed in (21, 31)]
    again_us = round((seconds + max(setting.windows_s)) * SECOND_US)
    laps = [feed_of(streams, seconds, step_s)]
    if is_shown_before:
        laps.append(feed_of(streams, seconds, step_s, again_us))
    settled = math.ceil(max(setting.windows_s) / step_s)
    tally = Tally()
    best: dict[str, Trial] = {}
    answers: dict[str, set[int]] = {strategy: set() for strategy in strategies}
    for _ in range(rounds):
        for strategy in strategies:
            if strategy == AS_MERGED and setting.merged_s == setting.windows_s:
                continue  # it is the chain
            cpu_s, held, counts = run_trial(setting, strategy, index, laps, settled)
            answers[strategy].add(tally.note(counts))
            if strategy not in best or cpu_s < best[strategy].cpu_s:
                rows = sum(map(len, streams))
                best[strategy] = Trial(setting, strategy, rows, cpu_s, held, sum(counts))
    for strategy in strategies:
        if strategy not in best:
            best[strategy] = dataclasses.replace(best["chain"], strategy=strategy)
            del answers[strategy]
    return [best[strategy] for strategy in strategies], tally, answers


def feed_of(streams: Sequence[Stream], seconds: float, step_s: float, after_us: int = 0) -> Feed:
    """Both streams in pushes of `step_s`, that much later."""
    step, until = round(step_s * SECOND_US), round(seconds * SECOND_US)
    cuts = list(zip(*(cut_by_time(stream.ts, step, until) for stream in streams), strict=True))
    a, b = (later(stream, after_us).table for stream in streams)
    return Feed.of(a, b, cuts)


def run_trial(
    setting: Setting, strategy: str, index: str, laps: Sequence[Feed], settled: int
) -> tuple[float, float, list[int]]:
    """(processor time of the last lap, mean state rows in it after each push from `settled` on, counts)."""
    sharing = "chain-cpu" if strategy == AS_MERGED else strategy
    engine, queries = start_all(setting.asks, sharing, index, counting=False)
    if strategy == AS_MERGED:
        fix_slices(engine, setting.merged_s)
    held: list[int] = []
    cpu_s = 0.0
    for feed in laps:
        cpu_s, held = 0.0, []
        for number, (a, b) in enumerate(feed.slices):
            cpu_s += push_and_read(engine, queries, a, b)
            if number >= settled:
                held.append(state_rows(engine.stats()))
    engine.close()
    return cpu_s, float(np.mean(held)) if held else 0.0, [query.count for query in queries]


def push_and_read(engine: Engine, queries: Sequence[Query], a: pa.Table, b: pa.Table) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    engine.push("a", a)
    engine.push("b", b)
    for query in queries:
        query.results()
    return time.process_time() - began


def fix_slices(engine: Engine, ends_s: Sequence[float]) -> None:
    """Let the slices of the one chain there is end there, whatever they cost."""
    (group,) = engine._runtime.shared.of(SharedJoin)
    assert isinstance(group.form, ChainGroup), "expected a chain"
    group.form.recut(partial(fixed_ends, [round(end * SECOND_US) for end in ends_s]))


def fixed_ends(ends: Sequence[int], windows: Sequence[int]) -> Sequence[int]:
    assert set(ends) <= set(windows), "expected slices that end at windows"
    return ends
