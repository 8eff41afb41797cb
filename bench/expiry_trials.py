"""The loads of the incremental-evaluation paper, run with each approach to expiry.

Q1: how many sales of favourite items there were, a stream joined with a table. Q2: the greatest price of a
join of two streams. Times are processor time: the engine's own clock is set to it, so that what else the
machine does shows neither in busy time nor in delays.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.api import Engine, Query
from penstock.engine.flow.delays import Delays

from .streams import cut_by_time

SECOND_US = 1_000_000
ITEMS = 1_200  # different ones, in Q1
PRICES = 1_000_000

Q1 = "SELECT COUNT(*) FROM a [RANGE {} SECONDS] JOIN favourite ON a.item = favourite.item EMIT CHANGES"
Q2 = "SELECT {1} FROM a [RANGE {0} SECONDS] JOIN b [RANGE {0} SECONDS] ON a.store = b.store EMIT CHANGES"
MOST, MOST_AND_COUNT = "MAX(b.price)", "MAX(b.price), COUNT(*)"
CREATE_Q1 = "CREATE STREAM a (ts TIMESTAMP, item BIGINT); CREATE TABLE favourite (item BIGINT)"
CREATE_Q2 = """
CREATE STREAM a (ts TIMESTAMP, store BIGINT, price BIGINT);
CREATE STREAM b (ts TIMESTAMP, store BIGINT, price BIGINT);
"""


@dataclass(frozen=True, slots=True)
class Load:
    """A query and what is pushed, in order: (stream, rows). `filling` comes before it and is not measured."""

    create: str
    sql: str
    pushes: list[tuple[str, pa.Table]]
    filling: list[tuple[str, pa.Table]]
    favourites: int = 0  # items of the table, of Q1

    @property
    def rows(self) -> int:
        return sum(table.num_rows for _, table in self.pushes)

    def start(self, expiry: str) -> tuple[Engine, Query]:
        """An engine with full windows."""
        engine = Engine(expiry=expiry)
        engine._runtime._clock = engine._runtime.at_work._clock = time.process_time
        engine.execute(self.create)
        query = engine.query(self.sql, name="bench", count_only=True)
        if self.favourites:
            engine.push("favourite", {"item": np.arange(self.favourites)})
        for stream, table in self.filling:
            engine.push(stream, table)
        sink = query._pipeline.sink
        sink.stream_delays, sink.processing_delays = Delays(), Delays()
        return engine, query

    def push_all(self, engine: Engine, query: Query) -> int:
        """Everything; how many changes there were."""
        for stream, table in self.pushes:
            engine.push(stream, table)
        engine.close()
        return query.count


@dataclass(frozen=True, slots=True)
class Trial:
    """One load with one approach. Delays in microseconds."""

    expiry: str
    rows: int
    cpu_s: float
    join_s: float  # the join operator's share
    entered: int  # rows that came into the aggregate, +1 and -1
    messages: int  # that were read by the aggregate
    changes: int  # of the answer
    stream_delay: dict[str, float]
    processing_delay: dict[str, float]


def run_trial(load: Load, expiry: str) -> Trial:
    """Push everything, as fast as it goes."""
    engine, query = load.start(expiry)
    before = counted(engine)
    began = time.process_time()
    changes = load.push_all(engine, query)
    cpu_s = time.process_time() - began
    join_s, entered, messages = (now - then for now, then in zip(counted(engine), before, strict=True))
    delays = engine.stats()["queries"]["bench"]["output_delay"]
    return Trial(
        expiry, load.rows, cpu_s, join_s, int(entered), int(messages), changes,
        delays["stream_time"], delays["processing_time"],
    )  # fmt: skip


def counted(engine: Engine) -> tuple[float, int, int]:
    """So far: the join's busy time, rows that came into the aggregate, messages that it read."""
    operators = engine.stats()["queries"]["bench"]["operators"]
    (join,) = (one for one in operators if one["kind"] in ("WindowJoin", "ChangeJoin"))
    (group,) = (one for one in operators if one["kind"] == "GroupBy")
    messages = group.get("messages_in", 0) - group.get("messages_purged", 0)
    return join["busy_s"], group["rows_in"], messages


def run_trials(load: Load, approaches: Sequence[str], rounds: int) -> list[list[Trial]]:
    """In turn, `rounds` times; by approach."""
    found: list[list[Trial]] = [[] for _ in approaches]
    for _ in range(rounds):
        for place, expiry in enumerate(approaches):
            found[place].append(run_trial(load, expiry))
    return found


# -- Q1 -----------------------------------------------------------------------------------------------


def poisson_times(rate: float, seconds: float, rng: np.random.Generator) -> NDArray:
    """Times of rows that come at random, in microseconds."""
    ts = np.cumsum(rng.exponential(SECOND_US / rate, int(1.2 * rate * seconds) + 100)).astype(np.int64)
    return ts[ts < seconds * SECOND_US]


def qualifying(ts: NDArray, share: float, bunched: bool, window_us: int, rng: np.random.Generator) -> NDArray:
    """Which rows have a favourite item: scattered, or all those at the beginning of every second window.

    bunched    |####............|####............|
               0                2w               4w
    """
    if bunched:
        return np.asarray(ts % (2 * window_us) < share * 2 * window_us)
    return rng.random(len(ts)) < share


def favourites_load(
    share: float, bunched: bool, rate: float, window_s: float, seconds: float, step_us: int, fill_s: float = 0
) -> Load:
    """Q1 in pushes of `step_us` of stream time; 0: of a row each."""
    rng = np.random.default_rng(1)
    ts = poisson_times(rate, seconds, rng)
    good = qualifying(ts, share, bunched, int(window_s * SECOND_US), rng)
    few = ITEMS // 10  # the table does not change with the share: rows do
    item = np.where(good, rng.integers(0, few, len(ts)), rng.integers(few, ITEMS, len(ts)))
    table = pa.table({"ts": pa.array(ts, pa.timestamp("us")), "item": item})
    cuts = [(i, i + 1) for i in range(len(ts))]
    if step_us:
        cuts = cut_by_time(ts, step_us, int(seconds * SECOND_US))
    pushes = [("a", table.slice(i, j - i)) for i, j in cuts if j > i]
    full = sum(1 for i, j in cuts if j > i and ts[j - 1] < fill_s * SECOND_US)
    return Load(CREATE_Q1, Q1.format(window_s), pushes[full:], pushes[:full], few)


# -- Q2 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of one stream of Q2."""

    ts: NDArray
    store: NDArray
    price: NDArray

    @property
    def table(self) -> pa.Table:
        return pa.table(
            {"ts": pa.array(self.ts, pa.timestamp("us")), "store": self.store, "price": self.price}
        )


def side_by_selectivity(rate: float, seconds: float, selectivity: float, seed: int) -> Side:
    """Any two rows match with this probability."""
    rng = np.random.default_rng(seed)
    ts = poisson_times(rate, seconds, rng)
    stores = max(1, round(1 / selectivity))
    return Side(ts, rng.integers(0, stores, len(ts)), rng.integers(0, PRICES, len(ts)))


def side_by_multiplicity(
    rate: float, window_s: float, seconds: float, multiplicity: int, seed: int, which: int
) -> Side:
    """One row in `multiplicity` matches that many of the other stream; the others match none.

    So there are as many pairs as rows, whatever the multiplicity. Stores come in turn, so that every one has
    as many rows in a window.
    """
    rng = np.random.default_rng(seed)
    ts = poisson_times(rate, seconds, rng)
    stores = max(1, round(rate * window_s / multiplicity**2))
    number = np.arange(len(ts))
    matches = number % multiplicity == 0
    store = np.where(matches, (number // multiplicity) % stores, -1 - which - 2 * number)
    return Side(ts, store, rng.integers(0, PRICES, len(ts)))


def prices_load(
    sides: tuple[Side, Side], window_s: float, seconds: float, step_us: int, fill_s: float = 0,
    answer: str = MOST,
) -> Load:  # fmt: skip
    """Q2 in pushes of `step_us` of stream time to each stream."""
    until = int(seconds * SECOND_US)
    cuts = [cut_by_time(side.ts, step_us, until) for side in sides]
    tables = [side.table for side in sides]
    pushes = [
        (name, tables[place].slice(cut[0], cut[1] - cut[0]))
        for pair in zip(*cuts, strict=True)
        for place, (name, cut) in enumerate(zip("ab", pair, strict=True))
    ]
    full = 2 * int(fill_s * SECOND_US // step_us)
    return Load(CREATE_Q2, Q2.format(window_s, answer), pushes[full:], pushes[:full])
