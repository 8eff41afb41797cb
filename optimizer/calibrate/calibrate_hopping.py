"""What operators of hopping queries cost on this machine, in every mode.

Every formula of hopping_cost.py is linear in its weights. So what a query costs with one weight of 1 and all
others 0 is how often that weight counts in a hop of it. Queries of every operator are run in every mode, with
small and large windows, hops of 1 to 100 % of them, few and many pairs, and their answers are made; the
weights are what fits all their times best.

What an operator costs depends on where it stands: at the top, its changes are netted, and rows that leave by
themselves are made into changes. So joins, unions and differences are run at the top and below something.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.intake.ingest import StreamSchema
from penstock.engine.join_forms.choose_layout import ChooseLayout
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.running.runtime import Runtime
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.bind.catalog import Catalog, ColumnDef, StreamDef
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.hopping.assign_modes import Pricer, assign_modes
from penstock.optimizer.hopping.estimate_flows import Estimates
from penstock.optimizer.hopping.hopping_cost import HoppingCosts
from penstock.optimizer.plan.modes import Forced, Form, fill_modes, forced_modes
from penstock.optimizer.plan.plan_query import plan_query
from penstock.optimizer.read.parse import parse_query
from penstock.optimizer.rewrite.separate_joins import separate_joins
from penstock.optimizer.share.share_joins import JoinForm, share_joins
from penstock.optimizer.tree.logical import Join, Query, SetOperation, nodes_of, streams_of

NAMES = ("ts", "k", "v")
TYPES = (SqlType.TIMESTAMP, SqlType.BIGINT, SqlType.BIGINT)
GAP_US = 1_000
STREAMS = "abc"
RUNS = 3
LEAST = 0.1
PULL = 1.0  # of a weight that is off by its own size, as much as of a point that is off by as much
STEPS, MOST_ROUNDS = 8, 20_000

QUERIES = {
    "select": "SELECT k + 1 AS k, v FROM a {w} WHERE v >= 0",
    "join": "SELECT a.k, a.v, b.v AS w FROM a {w} JOIN b {w} ON a.k = b.k",
    "joins": "SELECT a.k, a.v, b.v AS w, c.v AS x FROM a {w} JOIN b {w} ON a.k = b.k JOIN c {w} ON a.k = c.k",
    "anti": "SELECT k, v FROM a {w} WHERE NOT EXISTS (SELECT 1 FROM b {w} WHERE b.k = a.k)",
    "except": "SELECT k, v FROM a {w} EXCEPT SELECT k, v FROM b {w}",
    "both": "SELECT x.k, x.v, c.v AS w FROM (SELECT k, v FROM a {w} EXCEPT SELECT k, v FROM b {w}) AS x "
    "JOIN c {w} ON x.k = c.k",
    "counts": "SELECT a.k, COUNT(*) AS n FROM a {w} JOIN b {w} ON a.k = b.k GROUP BY a.k",
    "union": "SELECT k, v FROM a {w} UNION ALL SELECT k, v FROM b {w}",
    "panes": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a {w} GROUP BY k",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM (SELECT k, v FROM a {w} UNION ALL "
    "SELECT k, v FROM b {w}) AS u GROUP BY k",
}
MATCHES: dict[str, tuple[float, ...]] = {
    "join": (0.25, 6.0),
    "joins": (0.25, 2.0),
    "anti": (0.25, 6.0),
    "except": (0.1, 0.5, 2.0),
    "both": (0.5, 2.0),
    "counts": (0.25, 6.0),
    "panes": (2.0, 50.0),
    "groups": (2.0, 50.0),
}
MODES: tuple[Forced, ...] = ("DIDO", "DICO", "CICO", "CIDO")

Clock = Callable[[], float]
NewArrange = Callable[[], ChooseLayout]


@dataclass(frozen=True, slots=True)
class Point:
    """A query in a mode: rows of its windows and of a hop, rows of b that a row of a meets."""

    query: str
    mode: Forced
    window: int
    hop: int
    matches: float

    @property
    def keys(self) -> int:
        return max(1, round(self.window / self.matches))

    @property
    def alike(self) -> str:
        """Streams that are compared row by row, whose rows are to be equal as often as keys are. Those of
        others differ: equal pairs that come and go cancel, and who counts rows by value has less to do."""
        return "ab" if "EXCEPT" in QUERIES[self.query] else ""

    @property
    def sql(self) -> str:
        size = GAP_US * self.window
        emit = "COMPLETE" if str(self.mode).endswith("CO") else "DELTA"
        text = QUERIES[self.query].format(w=f"[RANGE {size} us]")
        return f"{text} HOP BY {GAP_US * self.hop} us EMIT {emit}"


def points(quick: bool) -> Iterator[Point]:
    """What is run. The changes of a window that nothing reads but the query's end are not: they have a price
    of their own, and no mode to choose."""
    for query in QUERIES:
        for mode in MODES if query != "select" else ("DICO", "CICO"):
            for window in (1_000,) if quick else (500, 4_000, 16_000):
                for share in (1.0, 0.05) if quick else (1.0, 0.4, 0.1, 0.03, 0.01):
                    for matches in MATCHES.get(query, (2.0,)):
                        yield Point(query, mode, window, round(share * window), matches)


def hopping_weights(
    quick: bool, clock: Clock, choose_layout: NewArrange, known: Weights, runs: int = RUNS
) -> tuple[dict[str, float], float]:
    """The weights by name, and how far what they say is from what was measured, as a rule (median)."""
    usual = {one.name: one.default for one in dataclasses.fields(Weights) if one.name.startswith("hop_")}
    names = list(usual)
    bound = [(point, bind_point(point)) for point in points(quick)]
    measured = measure(bound, clock, choose_layout, runs)
    counts = np.array([[priced(*one, only_one(known, names, name)) for name in names] for one in bound])
    found = fit(counts, measured, np.array(list(usual.values()), float))
    misses = np.abs(counts @ found / measured - 1)
    return dict(zip(names, map(float, found), strict=True)), float(np.median(misses))


def measure(
    bound: Sequence[tuple[Point, Query]], clock: Clock, choose_layout: NewArrange, runs: int
) -> NDArray:
    """Seconds per hop of each point. All are run in turn, `runs` times: what disturbs the machine for a while
    disturbs one run of a point. Of each hop the best run counts, as the work is the same in all."""
    best: list[list[float]] = [run(*one, clock, choose_layout) for one in bound]
    for _ in range(runs - 1):
        for known, one in zip(best, bound, strict=True):
            known[:] = map(min, known, run(*one, clock, choose_layout))
    return np.array([sum(hops) / len(hops) for hops in best])


def only_one(known: Weights, names: list[str], wanted: str) -> Weights:
    ones: dict[str, Any] = {name: float(name == wanted) for name in names}
    return dataclasses.replace(known, **ones)


def priced(point: Point, query: Query, weights: Weights) -> float:
    """What a hop of a run costs with these weights, in the mode it runs in."""
    rates = Rates()
    for stream in STREAMS:
        rates.set(stream, 1e6 / GAP_US)
    keys = {(stream, "k"): float(point.keys) for stream in STREAMS}
    remains = {
        node.position: remaining(node, point.matches)
        for node in nodes_of(query.root)
        if isinstance(node, Join | SetOperation)
    }
    assert query.hop is not None, "a hopping query"
    estimates = Estimates(rates, query.hop.size_us, keys, remains).as_written(query.root)
    pricer = Pricer(estimates, HoppingCosts(weights))
    root = separate_joins(query.root)
    emitted: Form = "complete" if query.emit == "complete" else "delta"
    modes = fill_modes(root, forced_modes(root, point.mode), emitted)
    return assign_modes(root, pricer, emitted, modes).cost


def remaining(node: Join | SetOperation, matches: float) -> float:
    """Of the left input's rows, the share without an equal one in the right; of a difference, once each."""
    alone = math.exp(-matches)
    return alone if isinstance(node, Join) else alone * (1 - alone) / matches


def fit(counts: NDArray, measured: NDArray, known: NDArray) -> NDArray:
    """Weights with which counts @ weights is closest to what was measured, by the logarithm of its ratio.

    What the points do not tell apart stays in the ratio it has in `known`, weights of some other machine:
    each weight is pulled to its own there, as weakly as PULL says and once the speeds of the two machines
    are made equal. So a weight that the points do not show is not free, and none is below LEAST of its own.
    """
    columns = counts * known
    said = columns.sum(axis=1)
    speed = float(np.exp(np.mean(np.log(measured / said))))
    columns *= speed
    ties = np.sqrt(PULL) * np.eye(len(known))
    x = np.ones(len(known))
    for _ in range(STEPS):  # of Newton: the logarithm is straight near where we are
        said = columns @ x
        rows = np.vstack([columns / said[:, None], ties])
        wanted = np.concatenate([1 - np.log(said / measured), np.diag(ties)])
        x = bounded(rows, wanted, x)
    return x * known * speed


def bounded(columns: NDArray, wanted: NDArray, x: NDArray) -> NDArray:
    """x >= LEAST for which columns @ x is closest to what is wanted, one after the other until it holds."""
    x = x.copy()
    products, aims = columns.T @ columns, columns.T @ wanted
    for _ in range(MOST_ROUNDS):
        before = x.copy()
        for i in range(len(x)):
            x[i] = max(LEAST, x[i] + (aims[i] - products[i] @ x) / products[i, i])
        if np.abs(x - before).max() < 1e-6:
            break
    return x


def bind_point(point: Point) -> Query:
    catalog = Catalog()
    for name in STREAMS:
        catalog.add(StreamDef(name, tuple(map(ColumnDef, NAMES, TYPES)), 0))
    return bind_query(parse_query(point.sql), catalog)


def run(point: Point, query: Query, clock: Clock, choose_layout: NewArrange) -> list[float]:
    """Seconds of each hop once the windows are full; a hop's rows are pushed at once."""
    rng = np.random.default_rng(3)
    runtime = Runtime(clock, strategy="mem-opt", choose_layout=choose_layout())
    streams = streams_of(query.root)
    for name in streams:
        runtime.add_stream(StreamSchema(name, NAMES, TYPES, 0, 0))
    planned = plan_query(query, False, "promises", point.mode)
    changes = [pa.field("_diff", pa.int8())] if query.emit == "delta" else []
    fields = [pa.field("_ts", pa.timestamp("us")), *changes]
    fields += [pa.field(field.name, ARROW_TYPES[field.type]) for field in query.fields]
    node = share_joins(planned.node, JoinForm())
    pipeline = runtime.add_query(
        "q", node, pa.schema(fields), False, bool(changes), planned.netting, planned.approach
    )
    step = point.hop
    full = -(-point.window // step) + 1
    total = full + min(20, max(4, full))
    tables = {name: rows(total * step, point.keys, name in point.alike, rng) for name in streams}
    seconds = []
    for hop in range(total):
        began = clock()
        for name, table in tables.items():
            runtime.push(name, table.slice(hop * step, step))
        pipeline.sink.drain()
        seconds.append(clock() - began)
    return seconds[full:]


def rows(count: int, keys: int, alike: bool, rng: np.random.Generator) -> pa.Table:
    """Rows at equal distances; alike: equal keys have equal values, else no two rows have."""
    ts = np.arange(1, count + 1) * GAP_US
    drawn = rng.integers(0, keys, count)
    values = drawn * 1_000_003 if alike else rng.integers(0, 1 << 40, count)
    return pa.table([pa.array(ts, pa.timestamp("us")), drawn, values], NAMES)
