"""Joins without windows against DuckDB's full join, and against the definitions, one arrival at a time.

a   1   3 2   5          factor 1: the 2 comes one row behind the 3
b     1   2 3     5      factor 0
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, Model, draw_arrivals, factor_of, full_join, keys_of
from work_of import sub_plans_of

from penstock import Engine, Query
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.intake import key_sequences
from penstock.engine.ordered_keys.ordered_join import OrderedJoin

NAMES = "abcde"


def engine_of(rules: list[str], **options: object) -> Engine:
    engine = Engine(**options)  # type: ignore[arg-type]
    for name, rule in zip(NAMES, rules, strict=False):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT {rule}, r BIGINT, s VARCHAR)")
    return engine


def query_of(engine: Engine, streams: int, sql: str | None = None) -> Query:
    names = NAMES[:streams]
    joined = names[0] + "".join(f" JOIN {name} USING (k)" for name in names[1:])
    columns = ", ".join(f"{name}.r AS r{name}" for name in names)
    return engine.query(sql or f"SELECT k, {columns} FROM {joined}")


def push(engine: Engine, arrivals: list[Arrival]) -> None:
    """Rows of all streams, and time as far as they have come."""
    for stream in {one.stream for one in arrivals}:
        rows = [one for one in arrivals if one.stream == stream]
        table = {
            "ts": pa.array([one.ts for one in rows], pa.timestamp("us")),
            "k": pa.array([one.key for one in rows], pa.int64()),
            "r": pa.array([one.row for one in rows], pa.int64()),
            "s": pa.array([f"row {one.row}" for one in rows]),
        }
        engine.push(NAMES[stream], pa.table(table))
    engine.advance(arrivals[-1].ts)


def cuts(dice: random.Random, arrivals: list[Arrival]) -> list[list[Arrival]]:
    """The arrivals in order, in parts."""
    size = dice.choice((1, 3, 10, len(arrivals)))
    parts, at = [], 0
    while at < len(arrivals):
        end = at + dice.randint(1, size)
        parts.append(arrivals[at:end])
        at = end
    return parts


def rows_of(query: Query) -> list[tuple[int, ...]]:
    found = query.results()
    assert found["_ts"].to_pylist() == sorted(found["_ts"].to_pylist()), "results in order of time"
    return list(zip(*(found[name].to_pylist() for name in found.column_names[2:]), strict=True))


def join_of(engine: Engine) -> OrderedJoin:
    (part,) = sub_plans_of(engine)
    join = part.operators[0]
    assert isinstance(join, OrderedJoin)
    return join


def declared(arrivals: list[Arrival], streams: int, less: int = 0) -> list[int]:
    return [max(0, factor_of(keys_of(arrivals, stream)) - less) for stream in range(streams)]


@pytest.mark.parametrize("evict", ["key", "fifo"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None)
def test_all_that_there_is_with_declared_factors(evict: str, seed: int) -> None:
    dice = random.Random(seed)
    streams = dice.randint(2, 5)
    arrivals = draw_arrivals(dice, streams, dice.choice((5, 30, 120)))
    factors = declared(arrivals, streams)
    scheduler = Shuffled(seed) if dice.random() < 0.5 else RoundRobin()
    engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in factors], scheduler=scheduler, evict=evict)
    query = query_of(engine, streams)
    join, model = join_of(engine), Model(factors, evict)
    found: list[tuple[int, ...]] = []
    parts = cuts(dice, arrivals)
    restored_at = dice.randrange(len(parts))
    for at, part in enumerate(parts):
        push(engine, part)
        for one in part:
            model.arrive(one)
        engine._runtime._check()
        assert [len(side) for side in join.sides] == [len(held) for held in model.held]
        assert all(len(side) <= join.predicted_rows(side.number) for side in join.sides)
        if at == restored_at:
            found += rows_of(query)
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
            query, join = engine.queries[query.name], join_of(engine)
    engine.close()
    found += rows_of(query)
    assert sorted(found) == full_join(arrivals, streams)
    assert join.state_rows == 0 and join.missed.rows == 0 and query.accuracy == 1.0
    assert query.complete_from is None


@given(seed=st.integers(0, 1 << 32), less=st.integers(1, 5))
@settings(deadline=None)
def test_a_factor_that_is_too_small(seed: int, less: int) -> None:
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    arrivals = draw_arrivals(dice, streams, dice.choice((30, 120)))
    factors = declared(arrivals, streams, less)
    engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in factors], late="drop")
    query = query_of(engine, streams)
    model = Model(factors)
    for part in cuts(dice, arrivals):
        push(engine, part)
    for one in arrivals:
        model.arrive(one)
    join = join_of(engine)
    engine.close()
    found, there = Counter(rows_of(query)), Counter(full_join(arrivals, streams))
    assert found == Counter(model.results), "worked as far as possible, whatever the cuts"
    assert not found - there
    assert join.missed.rows == model.late
    assert sum((there - found).values()) <= join.missed.most
    assert query.accuracy <= (found.total() / there.total() if there else 1.0)
    if found != there:
        assert join.missed.rows


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is measured counts from the first row on."""
    monkeypatch.setattr(key_sequences, "WARM_ROWS", 0)


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("evict", ["key", "fifo"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_factors_that_are_measured(evict: str, seed: int) -> None:
    """What is found does not depend on cuts and is part of what there is; the bound is true."""
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    arrivals = draw_arrivals(dice, streams, dice.choice((30, 200)))
    answers = []
    for _ in range(2):
        engine = engine_of(["ORDERED"] * streams, evict=evict)
        query = query_of(engine, streams)
        for part in cuts(dice, arrivals):
            push(engine, part)
        join = join_of(engine)
        engine.close()
        rows = sorted(rows_of(query))
        answers.append((rows, join.missed.rows))
        found, there = Counter(rows), Counter(full_join(arrivals, streams))
        assert not found - there and sum((there - found).values()) <= join.missed.most
        assert query.accuracy <= (found.total() / there.total() if there else 1.0)
        assert join.missed.rows or found == there
    assert answers[0] == answers[1]


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None)
def test_further_keys_filters_and_conditions_as_in_duckdb(seed: int) -> None:
    """Ties of time, positions that count before the filter, texts as keys, expressions above."""
    dice = random.Random(seed)
    arrivals = draw_arrivals(dice, 3, 80)
    engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 3)])
    con = duckdb.connect()
    sql = (
        "SELECT a.k + 1 AS next, a.r AS ra, b.r AS rb, c.r AS rc, a.s || c.s AS t FROM a "
        "JOIN b ON a.k = b.k JOIN (SELECT k AS key, r, s FROM c WHERE r % 3 > 0) c ON c.key = a.k"
    )
    sql += dice.choice(("", " AND a.s = b.s", " AND a.r % 4 = b.r % 4", " AND a.r <= c.r + 3"))
    sql += dice.choice(("", " WHERE b.r > 5", " WHERE a.r + b.r > c.r", " WHERE a.s LIKE '%1%'"))
    query = engine.query(sql)
    coarse = dice.choice((1, 7, 1000))
    tied = [Arrival(one.stream, one.key, one.row, one.ts // coarse) for one in arrivals]
    for part in cuts(dice, tied):
        push(engine, part)
    engine.close()
    for stream in range(3):
        rows = [one for one in arrivals if one.stream == stream]
        table = pa.table(
            {
                "k": pa.array([one.key for one in rows], pa.int64()),
                "r": pa.array([one.row for one in rows], pa.int64()),
                "s": pa.array([f"row {one.row}" for one in rows], pa.string()),
            }
        )
        con.register(f"rows_{stream}", table)
        con.execute(f"CREATE TABLE {NAMES[stream]} AS SELECT * FROM rows_{stream}")
    found = query.results()
    rows = zip(*(found[name].to_pylist() for name in found.column_names[1:]), strict=True)
    assert sorted(rows) == sorted(con.execute(sql).fetchall())


def test_rows_that_were_given_are_read_after_they_have_gone() -> None:
    """Results are row numbers until somebody reads them; stores are laid anew in between."""
    engine = engine_of(["ORDERED WITHIN 3000 ROWS", "ORDERED"])
    query = query_of(engine, 2, "SELECT a.r AS ra, b.r AS rb, a.s FROM a JOIN b USING (k)")
    keys = np.arange(20_000)
    for at in range(0, 20_000, 1_000):
        ts = pa.array(range(at, at + 1_000), pa.timestamp("us"))
        own = keys[at : at + 1_000]
        texts = pa.array([f"text {key}" for key in own.tolist()])
        engine.push("a", pa.table({"ts": ts, "k": own[::-1], "r": own, "s": texts}))
        engine.push("b", pa.table({"ts": ts, "k": own, "r": own, "s": texts}))
    assert join_of(engine).state_rows < 8_000
    found = query.results()
    engine.close()
    assert query.count == 20_000 and query.accuracy == 1.0
    assert found["s"].to_pylist() == [f"text {row}" for row in found["ra"].to_pylist()]
