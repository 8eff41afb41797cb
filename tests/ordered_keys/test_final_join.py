"""Outer, semi and anti joins on keys that grow: the definitions at every prefix, and DuckDB at the end.

a   1  2     4           a LEFT JOIN b:   (1, NULL) when b has come to 2, (2, 2) then, (4, NULL) at the end
b         2     3
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from final_answers import CONDITIONS, Answer, Condition, final_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, draw_arrivals
from test_ordered_join import cold, cuts, declared, engine_of, join_of, push

from penstock import Engine, Query
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.ordered_keys import ordered_side

__all__ = ["cold"]
KINDS = ["left", "right", "full", "semi", "anti"]


def sql_of(kind: str, condition: Condition) -> str:
    both = f"a.k = b.k{condition.sql}"
    if kind == "semi":
        return f"SELECT a.r AS x, NULL AS y FROM a WHERE EXISTS (SELECT * FROM b WHERE {both})"
    if kind == "anti":
        return f"SELECT a.r AS x, NULL AS y FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE {both})"
    return f"SELECT a.r AS x, b.r AS y FROM a {kind.upper()} JOIN b ON {both}"


def taken(query: Query) -> list[tuple[int, Answer]]:
    """What is new, with its times."""
    found = query.results()
    times = [int(one.timestamp() * 1e6 + 0.5) for one in found["_ts"].to_pylist()]
    assert times == sorted(times), "results in order of time"
    return list(zip(times, zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True), strict=True))


def expected_times(
    kind: str, arrivals: list[Arrival], factors: list[int], condition: Condition
) -> list[tuple[int, Answer]]:
    """When each row of the answer becomes final: with the first arrival after which it is."""
    before: Counter[Answer] = Counter()
    found: list[tuple[int, Answer]] = []
    for count, one in enumerate(arrivals, 1):
        now = final_rows(kind, arrivals[:count], factors, condition)
        assert not before - now, "what is final stays so"
        found += [(one.ts, row) for row in (now - before).elements()]
        before = now
    end = final_rows(kind, arrivals, factors, condition, ended=True)
    return found + [(arrivals[-1].ts, row) for row in (end - before).elements()]


def in_duckdb(sql: str, arrivals: list[Arrival]) -> Counter[Answer]:
    con = duckdb.connect()
    for stream, name in enumerate("ab"):
        rows = [one for one in arrivals if one.stream == stream]
        table = pa.table(
            {
                "k": pa.array([one.key for one in rows], pa.int64()),
                "r": pa.array([one.row for one in rows], pa.int64()),
                "s": pa.array([f"row {one.row}" for one in rows], pa.string()),
            }
        )
        con.register(f"rows_{name}", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_{name}")
    return Counter(con.execute(sql).fetchall())


def key_of(row: tuple[int, Answer]) -> tuple[int, ...]:
    ts, (x, y) = row
    return ts, -1 if x is None else x, -1 if y is None else y


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None)
def test_what_is_final_is_given_at_once_and_once(kind: str, seed: int) -> None:
    dice = random.Random(seed)
    condition = dice.choice(CONDITIONS)
    arrivals = draw_arrivals(dice, 2, dice.choice((5, 20, 40)))
    factors = declared(arrivals, 2)
    scheduler = Shuffled(seed) if dice.random() < 0.5 else RoundRobin()
    rules = [f"ORDERED WITHIN {k} ROWS" for k in factors]
    engine = engine_of(rules, scheduler=scheduler, evict=dice.choice(("key", "fifo")))
    sql = sql_of(kind, condition)
    query = engine.query(sql + dice.choice(("", " EMIT FINAL")))
    expected = expected_times(kind, arrivals, factors, condition)
    found: list[tuple[int, Answer]] = []
    parts = cuts(dice, arrivals)
    restored_at, come = dice.randrange(len(parts)), 0
    for at, part in enumerate(parts):
        push(engine, part)
        come += len(part)
        found += taken(query)
        engine._runtime._check()
        final = final_rows(kind, arrivals[:come], factors, condition)
        assert Counter(row for _, row in found) == final, "all that is final, and nothing else"
        if at == restored_at:
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
            query = engine.queries[query.name]
    join = join_of(engine)
    engine.close()
    found += taken(query)
    assert sorted(found, key=key_of) == sorted(expected, key=key_of), "and when"
    assert Counter(row for _, row in found) == in_duckdb(sql, arrivals)
    assert join.state_rows == 0 and join.missed.rows == 0 and query.accuracy == 1.0
    assert query.complete_from is None and query.count == len(found)


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None)
def test_ties_and_what_stands_around_it_as_in_duckdb(seed: int) -> None:
    """Ties of time, filters below, conditions and expressions above, expressions of what may be missing."""
    dice = random.Random(seed)
    arrivals = draw_arrivals(dice, 2, 60)
    engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 2)])
    kind = dice.choice(("LEFT", "RIGHT", "FULL"))
    sql = (
        f"SELECT a.r + 1 AS x, b.three AS y, COALESCE(a.k, b.k) AS k FROM a {kind} JOIN "
        "(SELECT k, r, r * 2 AS twice, 3 AS three FROM b WHERE r % 4 > 0) b ON a.k = b.k"
    )
    sql += dice.choice(("", " AND a.r < b.twice", " AND b.three = 3", " AND b.twice > 9"))
    sql += dice.choice(
        ("", " WHERE b.r IS NULL", " WHERE a.r > 3", " WHERE b.three IS NULL", " WHERE a.k IS NULL")
    )
    query = engine.query(sql)
    coarse = dice.choice((1, 7, 1000))
    tied = [Arrival(one.stream, one.key, one.row, one.ts // coarse) for one in arrivals]
    for part in cuts(dice, tied):
        push(engine, part)
    engine.close()
    found = query.results()
    rows = zip(*(found[name].to_pylist() for name in found.column_names[1:]), strict=True)
    assert Counter(rows) == in_duckdb(sql, arrivals)


def rows_late(query: Query) -> int:
    return sum(join.missed.rows for join in query._pipeline.ordered_joins)


def check_given(kind: str, given: Counter[Answer], there: Counter[Answer], query: Query) -> None:
    """Nothing twice, nobody both alone and with a partner, and the bounds are true."""
    assert all(given[row] == 1 for row in given)
    if kind in ("left", "right", "full"):
        for side in (0, 1):
            alone = {row[side] for row in given if row[1 - side] is None}
            assert not alone & {row[side] for row in given if None not in row}
    missed, false = (there - given).total(), (given - there).total()
    joins = query._pipeline.ordered_joins
    facts = query._engine.stats()["queries"][query.name]["oblivious"]
    assert missed <= facts["results_missed_at_most"] + (facts["results_false_at_most"] and missed)
    assert false <= facts["results_false_at_most"]
    right = (there & given).total()
    assert query.accuracy <= (right / there.total() if there else 1.0) + 1e-9
    assert query.accuracy <= (right / given.total() if given else 1.0) + 1e-9
    if given != there:
        assert all(join.missed.rows for join in joins)


@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(KINDS), less=st.integers(1, 5))
@settings(deadline=None)
def test_a_factor_that_is_too_small(seed: int, kind: str, less: int) -> None:
    """What comes too late is counted, and nothing is taken back; it does not matter how rows are cut."""
    dice = random.Random(seed)
    condition = dice.choice(CONDITIONS)
    arrivals = draw_arrivals(dice, 2, dice.choice((30, 60)))
    factors = declared(arrivals, 2, less)
    answers = []
    for _ in range(2):
        engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in factors], late="drop")
        query = engine.query(sql_of(kind, condition))
        for part in cuts(dice, arrivals):
            push(engine, part)
        engine.close()
        found = taken(query)
        check_given(
            kind, Counter(row for _, row in found), in_duckdb(sql_of(kind, condition), arrivals), query
        )
        answers.append((sorted(found, key=key_of), rows_late(query)))
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("cold")
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(KINDS))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_factors_that_are_measured(seed: int, kind: str) -> None:
    dice = random.Random(seed)
    condition = dice.choice(CONDITIONS)
    arrivals = draw_arrivals(dice, 2, dice.choice((30, 100)))
    answers = []
    for _ in range(2):
        engine = engine_of(["ORDERED"] * 2)
        query = engine.query(sql_of(kind, condition))
        for part in cuts(dice, arrivals):
            push(engine, part)
        engine.close()
        found = taken(query)
        check_given(
            kind, Counter(row for _, row in found), in_duckdb(sql_of(kind, condition), arrivals), query
        )
        answers.append((sorted(found, key=key_of), rows_late(query)))
    assert answers[0] == answers[1]


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_that_are_laid_anew(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Rows move while others of them wait, whether they have met or not."""
    monkeypatch.setattr(ordered_side, "FEW_ROWS", 2)
    dice = random.Random(seed)
    arrivals = draw_arrivals(dice, 2, 200)
    factors = declared(arrivals, 2)
    engine = engine_of([f"ORDERED WITHIN {k} ROWS" for k in factors])
    sql = sql_of("full", CONDITIONS[0])
    query = engine.query(sql)
    for part in cuts(dice, arrivals):
        push(engine, part)
        engine._runtime._check()
    engine.close()
    assert Counter(row for _, row in taken(query)) == in_duckdb(sql, arrivals)
