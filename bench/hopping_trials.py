"""Hopping queries run as they are told to: modes forced or assigned, plans as written or searched for.

A hop's rows are pushed at once and its answer is taken as Arrow. Costs are processor time per hop once the
windows are full; what the cost model says of the same plan stands beside it. Streams have the rate and as
many keys as the model takes for granted, so that it is judged for its formulas and weights, not its guesses.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.api import Engine
from penstock.optimizer.plan.write_shape import write_shape

from .outcome import Outcome

RATE = 1_000  # rows per second of every stream, where one operator is alone in its plan
FEW_RATE = 250  # and where there are several
KEYS = 1_000
SECOND_US = 1_000_000
EMITS = ("DELTA", "COMPLETE")
MODES = {"DIDO": "DELTA", "CIDO": "DELTA", "DICO": "COMPLETE", "CICO": "COMPLETE"}
"""And what a query emits whose topmost operator is to run in this mode."""
MOST_HOPS, FEWEST_HOPS = 20, 8  # measured in a run


@dataclass(frozen=True, slots=True)
class Way:
    """How a query is run: its text, and the options of the engine."""

    sql: str
    emit: str
    modes: str = "auto"
    optimize: str = "exhaustive"


@dataclass(frozen=True, slots=True)
class Load:
    """What is pushed: per hop the rows of each stream; the first `full` hops fill the windows."""

    hops: list[dict[str, pa.Table]]
    full: int
    hop_us: int
    rate: int

    @staticmethod
    def of(tables: Mapping[str, pa.Table], window_us: int, hop_us: int, measured: int, rate: int) -> Load:
        step = hop_us * rate // SECOND_US
        full = -(-window_us // hop_us) + 1
        hops = [
            {name: table.slice(hop * step, step) for name, table in tables.items()}
            for hop in range(full + measured)
        ]
        return Load(hops, full, hop_us, rate)


@dataclass(slots=True)
class Cost:
    """Seconds per hop by the model, and of each hop the best of all runs; what the answers weigh."""

    estimated: float
    seconds: list[float]
    weight: int
    plan: str
    shape: str

    @property
    def measured(self) -> float:
        return sum(self.seconds) / len(self.seconds)


def hops_for(window_us: int, hop_us: int) -> int:
    """Hops to be measured: two windows' worth, within bounds."""
    return min(MOST_HOPS, max(FEWEST_HOPS, 2 * window_us // hop_us))


def rows_for(window_us: int, hop_us: int, rate: int) -> int:
    """Rows of a stream that a load of these takes."""
    return (-(-window_us // hop_us) + 1 + hops_for(window_us, hop_us)) * hop_us * rate // SECOND_US


def table_of(rows: int, rate: int, keys: int, values: int, seed: int) -> pa.Table:
    """Rows at equal distances; keys and values are drawn."""
    rng = np.random.default_rng(seed)
    ts = np.arange(1, rows + 1) * (SECOND_US // rate)
    columns = pa.array(ts, pa.timestamp("us")), rng.integers(0, keys, rows), rng.integers(0, values, rows)
    return pa.table(columns, ["ts", "k", "v"])


def run_way(way: Way, load: Load) -> Cost:
    """Push everything; a hop's cost."""
    engine = Engine(modes=way.modes, optimize=way.optimize)
    for name in load.hops[0]:
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)")
        engine.set_rate(name, load.rate)
    query = engine.query(f"{way.sql} HOP BY {load.hop_us} us EMIT {way.emit}", name="bench")
    decided = query._decided
    assert decided is not None, "a hopping query is decided upon"
    taken: list[pa.Table] = []
    seconds: list[float] = []
    gc.collect()
    for hop in load.hops:
        began = time.process_time()
        for name, table in hop.items():
            engine.push(name, table)
        taken.append(query.results())
        seconds.append(time.process_time() - began)
    engine.close()
    taken.append(query.results())
    modes = ", ".join(f"{one.name} {one.mode}" for one in decided.operators if "scan" not in one.name)
    weight = weigh(pa.concat_tables(taken), load.hop_us)
    return Cost(decided.chosen.cost, seconds[load.full :], weight, modes, write_shape(decided.query.root))


def weigh(answers: pa.Table, hop_us: int) -> int:
    """What all rows of all answers count for, by hop; of changes, those that leave against the others."""
    total = answers["_ts"].cast("int64").to_numpy() // hop_us % 1_000_003
    for name in answers.column_names:
        if not name.startswith("_"):
            total = (total * 1_000_003 + answers[name].to_numpy()) % ((1 << 31) - 1)
    if "_diff" in answers.column_names:
        total = total * answers["_diff"].to_numpy()
    return int(total.sum())


def run_ways(
    outcome: Outcome, what: str, ways: Mapping[str, Way], load: Load, rounds: int
) -> dict[str, Cost]:
    """Everyone in turn, `rounds` times; those that emit the same must say the same. Of each hop the best run
    counts: the work is the same, and what disturbs the machine hits a hop here and there. Ways that turn out
    to be one plan are one measurement, of all their runs."""
    found: dict[str, Cost] = {}
    order = list(ways)
    for _ in range(rounds):
        order.append(order.pop(0))  # whoever runs after a big one finds other memory
        for name in order:
            cost = run_way(ways[name], load)
            known = found.setdefault(name, cost)
            known.seconds = [min(pair) for pair in zip(known.seconds, cost.seconds, strict=True)]
    for one, way in ways.items():
        for other, way_too in ways.items():
            if is_one_plan(way, found[one], way_too, found[other]):
                pairs = zip(found[one].seconds, found[other].seconds, strict=True)
                found[one].seconds = found[other].seconds = [min(pair) for pair in pairs]
    for emit in EMITS:
        answers = {name: {found[name].weight} for name, way in ways.items() if way.emit == emit}
        if answers:
            outcome.compare(f"{what}, {emit}", answers)
    return found


def is_one_plan(way: Way, cost: Cost, other: Way, other_cost: Cost) -> bool:
    """Whether two ways run the same operators in the same modes."""
    runs = way.sql, way.emit, cost.plan, cost.shape
    return runs == (other.sql, other.emit, other_cost.plan, other_cost.shape)


def warm_up(ways: Sequence[Way], load: Load) -> None:
    """Every kernel once."""
    for way in ways:
        run_way(way, load)
