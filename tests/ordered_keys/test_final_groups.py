"""GROUP BY keys that grow: each group once, complete, and when it is: by definition, and as in DuckDB.

a   1 1  2 1     3       factor 2: 1 is complete when 3 has come, 2 and 3 at the end
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, draw_arrivals, frontier_of, keys_of
from test_ordered_join import cold, cuts, declared, engine_of, push

from penstock import Engine, Query
from penstock.engine.flow.scheduler import RoundRobin, Shuffled

__all__ = ["cold"]
NAMES = "abc"
QUERIES = [
    (1, "SELECT k, COUNT(*) AS n, SUM(r) AS t, MIN(r) AS l, MAX(s) AS u, COUNT(DISTINCT r % 3) AS d"
        " FROM a GROUP BY k"),
    (1, "SELECT k, AVG(r) AS m, COUNT(s) AS n"
        " FROM a WHERE r % 4 > 0 GROUP BY k HAVING COUNT(*) > 1"),
    (1, "SELECT k, r % 2 AS j, COUNT(*) + 1 AS n"
        " FROM (SELECT k, r, s FROM a WHERE r <> 5) a GROUP BY r % 2, k"),
    (1, "SELECT k"
        " FROM a GROUP BY k, s"),
    (2, "SELECT a.k, COUNT(*) AS n, SUM(a.r * b.r) AS t, MAX(b.s) AS u"
        " FROM a JOIN b USING (k) GROUP BY a.k"),
    (2, "SELECT k, a.r % 2 AS j, COUNT(*) AS n"
        " FROM a JOIN b USING (k) WHERE a.r > b.r GROUP BY k, a.r % 2"),
    (2, "SELECT a.k, COUNT(*) AS n, COUNT(b.r) AS c, MIN(b.r) AS l"
        " FROM a LEFT JOIN b USING (k) GROUP BY a.k"),
    (2, "SELECT k, COUNT(a.r) AS n, SUM(b.r) AS t"
        " FROM a FULL JOIN b USING (k) GROUP BY k"),
    (2, "SELECT b.k, COUNT(*) AS n"
        " FROM a LEFT JOIN b ON a.k = b.k AND a.r % 3 > 0 GROUP BY b.k"),
    (2, "SELECT k, COUNT(*) AS n"
        " FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE a.k = b.k) GROUP BY k"),
    (3, "SELECT c.k, COUNT(*) AS n, MIN(a.r + c.r) AS l"
        " FROM a JOIN b USING (k) JOIN c USING (k) GROUP BY c.k"),
]  # fmt: skip
Group = tuple[object, ...]


def in_duckdb(sql: str, arrivals: list[Arrival], streams: int) -> Counter[Group]:
    con = duckdb.connect()
    for stream, name in enumerate(NAMES[:streams]):
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


def taken(query: Query) -> list[tuple[int, Group]]:
    """What is new, with its times; in order of these, and of keys."""
    found = query.results()
    times = [int(one.timestamp() * 1e6 + 0.5) for one in found["_ts"].to_pylist()]
    columns = [found[name].to_pylist() for name in found.column_names[1:]]
    assert times == sorted(times)
    keys = [key for key in columns[0] if key is not None]
    assert keys == sorted(keys), "in order of keys"
    return list(zip(times, zip(*columns, strict=True), strict=True))


def passed(arrivals: list[Arrival], factors: list[int]) -> float:
    """The greatest key that cannot come again on any stream."""
    return min(frontier_of(keys_of(arrivals, one), factor) for one, factor in enumerate(factors))


@pytest.mark.parametrize(("streams", "sql"), QUERIES)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=40)
def test_each_group_once_when_it_is_complete(streams: int, sql: str, seed: int) -> None:
    dice = random.Random(seed)
    arrivals = draw_arrivals(dice, streams, dice.choice((5, 20, 60)))
    factors = declared(arrivals, streams)
    scheduler = Shuffled(seed) if dice.random() < 0.5 else RoundRobin()
    rules = [f"ORDERED WITHIN {k} ROWS" for k in factors]
    engine = engine_of(rules, scheduler=scheduler, evict=dice.choice(("key", "fifo")))
    query = engine.query(sql + dice.choice(("", " EMIT FINAL")))
    there = in_duckdb(sql, arrivals, streams)
    found: list[tuple[int, Group]] = []
    parts = cuts(dice, arrivals)
    restored_at, come = dice.randrange(len(parts)), 0
    for at, part in enumerate(parts):
        push(engine, part)
        come += len(part)
        found += taken(query)
        engine._runtime._check()
        limit = passed(arrivals[:come], factors)
        complete = Counter({row: n for row, n in there.items() if row[0] is not None and row[0] <= limit})  # type: ignore[operator]
        assert Counter(row for _, row in found) == complete, "all that are complete, and no others"
        if at == restored_at:
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
            query = engine.queries[query.name]
    (groups,) = query._pipeline.final_groups
    assert groups.groups <= len({one.key for one in arrivals}) * 60
    engine.close()
    found += taken(query)
    assert Counter(row for _, row in found) == there
    limits = [(passed(arrivals[:count], factors), one.ts) for count, one in enumerate(arrivals, 1)]
    for ts, row in found:
        times = [when for limit, when in limits if row[0] is not None and row[0] <= limit]  # type: ignore[operator]
        assert ts == (times[0] if times else arrivals[-1].ts), "with the arrival that completes it"
    assert groups.state_rows == 0 and groups.rows_late == 0 and query.accuracy == 1.0
    assert query.complete_from is None and query.count == len(found)


def check(seed: int, rules: list[str] | None, less: int) -> None:
    """Groups do not depend on cuts, come once each, and no fewer are right than is said."""
    dice = random.Random(seed)
    streams, sql = dice.choice(QUERIES)
    arrivals = draw_arrivals(dice, streams, dice.choice((30, 60)))
    there = in_duckdb(sql, arrivals, streams)
    rules = rules or [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, streams, less)]
    answers = []
    for _ in range(2):
        engine = engine_of(rules[:streams], late="drop")
        query = engine.query(sql)
        for part in cuts(dice, arrivals):
            push(engine, part)
        engine.close()
        found = taken(query)
        (groups,) = query._pipeline.final_groups
        answers.append((found, groups.rows_late))
        given = Counter(row for _, row in found)
        right = (given & there).total()
        assert query.accuracy <= (right / there.total() if there else 1.0) + 1e-9
        assert query.accuracy <= (right / given.total() if given else 1.0) + 1e-9
        facts = engine.stats()["queries"][query.name]["oblivious"]
        if given != there:
            assert facts["rows_late_key"] > 0
    assert Counter(answers[0][0]) == Counter(answers[1][0]) and answers[0][1] == answers[1][1]


@given(seed=st.integers(0, 1 << 32), less=st.integers(1, 5))
@settings(deadline=None)
def test_a_factor_that_is_too_small(seed: int, less: int) -> None:
    check(seed, None, less)


@pytest.mark.usefixtures("cold")
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_factors_that_are_measured(seed: int) -> None:
    check(seed, ["ORDERED"] * 3, 0)
