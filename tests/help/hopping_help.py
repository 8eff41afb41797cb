"""Bound hopping queries and prices for tests of their optimizer."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import duckdb
from hypothesis import strategies as st

from penstock.engine.rows.types import SqlType
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.bind.catalog import Catalog, ColumnDef, StreamDef, TableDef
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import SHIPPED, Weights, read
from penstock.optimizer.hopping.assign_modes import Pricer
from penstock.optimizer.hopping.estimate_flows import Estimates
from penstock.optimizer.hopping.hopping_cost import HoppingCosts
from penstock.optimizer.read.parse import parse_query
from penstock.optimizer.tree.logical import Query

STREAMS = "abcdefgh"
COLUMNS = (
    ColumnDef("ts", SqlType.TIMESTAMP),
    ColumnDef("k", SqlType.BIGINT),
    ColumnDef("v", SqlType.BIGINT),
    ColumnDef("x", SqlType.DOUBLE),
)


def make_catalog() -> Catalog:
    catalog = Catalog()
    for name in STREAMS:
        catalog.add(StreamDef(name, COLUMNS, 0))
    catalog.add(TableDef("t", (ColumnDef("k", SqlType.BIGINT), ColumnDef("v", SqlType.BIGINT))))
    return catalog


def bind(sql: str, tail: str = "WINDOW 10 SECONDS HOP BY 5 SECONDS") -> Query:
    """A hopping query over streams a to h and the table t."""
    return bind_query(parse_query(f"{sql} {tail}"), make_catalog())


def price(query: Query, weights: Weights | None = None, **assumed: Any) -> Pricer:
    """Prices at default rates, or as assumed."""
    assert query.hop is not None
    estimates = Estimates(assumed.pop("rates", Rates()), query.hop.size_us, **assumed)
    return Pricer(estimates.as_written(query.root), HoppingCosts(weights or read(SHIPPED)))


@st.composite
def weights(draw: st.DrawFn) -> Weights:
    """Weights of a machine on which anything may be dear or cheap."""
    names = [one.name for one in fields(Weights) if one.name.startswith("hop_")]
    drawn = {name: 10 ** draw(st.floats(-10, -5)) for name in names}
    return replace(read(SHIPPED), **drawn)


@st.composite
def rates(draw: st.DrawFn) -> Rates:
    found = Rates()
    for name in STREAMS:
        found.set(name, draw(st.sampled_from([0.5, 5.0, 50.0, 500.0, 5_000.0])))
    return found


@st.composite
def keys(draw: st.DrawFn) -> dict[tuple[str, str], float]:
    """How many different values columns have."""
    return {
        (stream, column): draw(st.sampled_from([1.0, 3.0, 30.0, 1e3, 1e5]))
        for stream in STREAMS
        for column in "kv"
    }


def fill(con: duckdb.DuckDBPyConnection, draw: Any, most: int = 5) -> None:
    """Tables of the streams' names with drawn rows: few values, so that rows meet; duplicates, NULLs."""
    value = st.sampled_from(["NULL", "0", "1", "2"])
    double = st.sampled_from(["NULL", "0.0", "-0.0", "1.5", "'nan'"])
    made = []
    for name in [*STREAMS[:6], "t"]:
        rows = draw(st.lists(st.tuples(value, value, double), max_size=most))
        rows += rows[: draw(st.integers(0, 2))]
        listed = ", ".join(f"({k}, {v}, CAST({x} AS DOUBLE))" for k, v, x in [*rows, ("0", "0", "0")])
        made.append(
            f"CREATE OR REPLACE VIEW {name} AS SELECT TIMESTAMP '2026-01-01' AS ts, CAST(k AS BIGINT) AS k, "
            f"CAST(v AS BIGINT) AS v, x FROM (VALUES {listed}) AS rows(k, v, x) LIMIT {len(rows)}"
        )
    con.execute("; ".join(made))
