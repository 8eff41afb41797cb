"""What operators of hopping queries cost on this machine, in every mode.

Every formula of hopping_cost.py is linear in its weights. So what a query costs with one weight of 1 and all
others 0 is how often that weight counts in a hop of it. Queries of every operator are run in every mode, with
small and large windows and hops, few and many pairs, and their answers are made; the weights are what fits
all their times best, in relative terms, none below 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.group import Arrange
from penstock.engine.ingest import StreamSchema
from penstock.engine.runtime import Runtime
from penstock.engine.types import ARROW_TYPES, SqlType

from .assign_modes import Pricer, assign_modes
from .bind import bind_query
from .catalog import Catalog, ColumnDef, StreamDef
from .estimate_flows import Estimates
from .hopping_cost import HoppingCosts
from .logical import Join, Query, SetOperation, nodes_of, streams_of
from .modes import Forced, Form, fill_modes, forced_modes
from .parse import parse_query
from .plan_query import plan_query
from .separate_joins import separate_joins
from .share_joins import share_joins
from .statistics import Rates
from .weights import Weights

NAMES = ("ts", "k", "v")
TYPES = (SqlType.TIMESTAMP, SqlType.BIGINT, SqlType.BIGINT)
GAP_US = 1_000
STREAMS = "abc"
RUNS = 3
LEAST = 1e-11  # of a weight that the runs do not show: it is not free

QUERIES = {
    "select": "SELECT k + 1 AS k, v FROM a {w} WHERE v >= 0",
    "join": "SELECT a.k, a.v, b.v AS w FROM a {w} JOIN b {w} ON a.k = b.k",
    "joins": "SELECT a.k, a.v, b.v AS w, c.v AS x FROM a {w} JOIN b {w} ON a.k = b.k JOIN c {w} ON a.k = c.k",
    "anti": "SELECT k, v FROM a {w} WHERE NOT EXISTS (SELECT 1 FROM b {w} WHERE b.k = a.k)",
    "except": "SELECT k, v FROM a {w} EXCEPT SELECT k, v FROM b {w}",
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
    "panes": (2.0, 50.0),
    "groups": (2.0, 50.0),
}
MODES: tuple[Forced, ...] = ("DIDO", "DICO", "CICO", "CIDO")

Clock = Callable[[], float]
NewArrange = Callable[[], Arrange]


@dataclass(frozen=True, slots=True)
class Point:
    """A query in a mode: rows of its windows, hops that make a window, rows of b that a row of a meets."""

    query: str
    mode: Forced
    window: int
    hops: int
    matches: float

    @property
    def keys(self) -> int:
        return max(1, round(self.window / self.matches))

    @property
    def sql(self) -> str:
        size = GAP_US * self.window
        emit = "COMPLETE" if str(self.mode).endswith("CO") else "DELTA"
        text = QUERIES[self.query].format(w=f"[RANGE {size} us]")
        return f"{text} HOP BY {size // self.hops} us EMIT {emit}"


def points(quick: bool) -> Iterator[Point]:
    """What is run. The changes of a window that nothing reads but the query's end are not: they have a price
    of their own, and no mode to choose."""
    for query in QUERIES:
        for mode in MODES if query != "select" else ("DICO", "CICO"):
            for window in (1_000,) if quick else (2_000, 20_000):
                for hops in (1, 8) if quick else (1, 8, 40):
                    for matches in MATCHES.get(query, (2.0,)):
                        yield Point(query, mode, window, hops, matches)


def hopping_weights(
    quick: bool, clock: Clock, arrange: NewArrange, known: Weights
) -> tuple[dict[str, float], float]:
    """The weights by name, and how far what they say is from what was measured, as a rule (median)."""
    names = [one.name for one in dataclasses.fields(Weights) if one.name.startswith("hop_")]
    counts, seconds = [], []
    for point in points(quick):
        query = bind_point(point)
        runs = [run(point, query, clock, arrange) for _ in range(1 if quick else RUNS)]
        best = [min(hop) for hop in zip(*runs, strict=True)]
        seconds.append(sum(best) / len(best))
        counts.append([priced(point, query, only_one(known, names, name)) for name in names])
    measured = np.array(seconds)
    scaled = np.array(counts) / measured[:, None]
    found = fit(scaled, np.ones(len(measured)))
    said = scaled @ found
    shown = scaled.any(axis=0)
    weights = {
        name: max(float(value), LEAST) if seen else getattr(known, name)
        for name, value, seen in zip(names, found, shown, strict=True)
    }
    return weights, float(np.median(np.abs(said - 1)))


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
    pricer = Pricer(Estimates(rates, query.hop.size_us, keys, remains), HoppingCosts(weights))
    root = separate_joins(query.root)
    emitted: Form = "complete" if query.emit == "complete" else "delta"
    modes = fill_modes(root, forced_modes(root, point.mode), emitted)
    return assign_modes(root, pricer, emitted, modes).cost


def remaining(node: Join | SetOperation, matches: float) -> float:
    """Of the left input's rows, the share without an equal one in the right; of a difference, once each."""
    alone = math.exp(-matches)
    return alone if isinstance(node, Join) else alone * (1 - alone) / matches


def fit(counts: NDArray, wanted: NDArray) -> NDArray:
    """x >= 0 for which counts @ x is closest to what is wanted, one weight after the other until it holds."""
    scale = np.maximum(np.sqrt((counts**2).sum(axis=0)), 1e-300)
    columns = counts / scale
    x = np.zeros(counts.shape[1])
    rest = wanted.astype(float).copy()
    for _ in range(20_000):
        moved = 0.0
        for i in range(len(x)):
            column = columns[:, i]
            step = max(-x[i], float(column @ rest)) if column.any() else 0.0
            if step:
                x[i] += step
                rest -= step * column
                moved = max(moved, abs(step))
        if moved < 1e-9:
            break
    return x / scale


def bind_point(point: Point) -> Query:
    catalog = Catalog()
    for name in STREAMS:
        catalog.add(StreamDef(name, tuple(map(ColumnDef, NAMES, TYPES)), 0))
    return bind_query(parse_query(point.sql), catalog)


def run(point: Point, query: Query, clock: Clock, arrange: NewArrange) -> list[float]:
    """Seconds of each hop once the windows are full; a hop's rows are pushed at once."""
    rng = np.random.default_rng(3)
    runtime = Runtime(clock, strategy="mem-opt", arrange=arrange())
    streams = streams_of(query.root)
    for name in streams:
        runtime.add_stream(StreamSchema(name, NAMES, TYPES, 0, 0))
    planned = plan_query(query, lambda node: node, False, "promises", point.mode)
    changes = [pa.field("_diff", pa.int8())] if query.emit == "delta" else []
    fields = [pa.field("_ts", pa.timestamp("us")), *changes]
    fields += [pa.field(field.name, ARROW_TYPES[field.type]) for field in query.fields]
    node = share_joins(planned.node, None)
    pipeline = runtime.add_query(
        "q", node, pa.schema(fields), False, bool(changes), planned.netting, planned.approach
    )
    step = point.window // point.hops
    full = point.hops + 1
    total = full + min(20, max(4, point.hops))
    tables = {name: rows(total * step, point.keys, rng) for name in streams}
    seconds = []
    for hop in range(total):
        began = clock()
        for name, table in tables.items():
            runtime.push(name, table.slice(hop * step, step))
        pipeline.sink.drain()
        seconds.append(clock() - began)
    return seconds[full:]


def rows(count: int, keys: int, rng: np.random.Generator) -> pa.Table:
    """Equal keys have equal values, so that rows are equal as often as keys are."""
    ts = np.arange(1, count + 1) * GAP_US
    drawn = rng.integers(0, keys, count)
    return pa.table([pa.array(ts, pa.timestamp("us")), drawn, drawn * 1_000_003], NAMES)
