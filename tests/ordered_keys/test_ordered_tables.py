"""Joins without windows, and then with static tables, against DuckDB; what else may stand beside them."""

from __future__ import annotations

import random
import re
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, draw_arrivals
from test_ordered_join import NAMES, cuts, declared, engine_of, push
from work_of import sub_plans_of

from penstock import Engine, QueryError
from penstock.engine.ordered_keys.ordered_join import OrderedJoin

TABLE = {"r": [0, 1, 1, 2, 5, 7, None], "name": ["none", "one", "eins", "two", "five", None, "nothing"]}
QUERIES = (
    "SELECT a.k, a.r AS ra, b.r AS rb, t.name FROM a JOIN b USING (k) JOIN t ON t.r = a.r",
    "SELECT a.k, a.r AS ra, b.r AS rb, t.name FROM a, t, b WHERE t.r = b.r AND a.k = b.k AND a.r <= b.r + 3",
    "SELECT a.k, a.r AS ra, b.r AS rb, t.name FROM t JOIN a ON t.r = a.r % 8 JOIN b USING (k) "
    "JOIN c USING (k)",
    "SELECT a.k, a.r AS ra, c.r AS rb, t.name FROM a JOIN c USING (k) CROSS JOIN t WHERE t.name > 'n'",
    "SELECT a.k, a.r AS ra, b.r AS rb, t.name || u.name AS name FROM a JOIN b USING (k) "
    "JOIN t ON t.r = a.r JOIN (SELECT * FROM t WHERE r > 0) u ON u.r = b.r",
    "SELECT a.k, a.r AS ra, b.r AS rb, 'none' AS name FROM a JOIN b USING (k) "
    "UNION ALL SELECT c.k, c.r, t.r, t.name FROM c JOIN t ON c.r = t.r",
    "SELECT a.k, a.r AS ra, b.r AS rb, t.name FROM a JOIN b [RANGE UNBOUNDED] USING (k) JOIN t ON t.r = a.r",
    "SELECT a.k, a.r AS ra, b.r AS rb, 'none' AS name FROM a JOIN b USING (k) "
    "UNION ALL SELECT c.k, c.r, t.r, t.name FROM c [RANGE 5 SECONDS] JOIN t ON c.r = t.r",
)


def with_table(rules: list[str], **options: object) -> Engine:
    engine = engine_of(rules, **options)
    engine.execute("CREATE TABLE t (r BIGINT, name VARCHAR)")
    engine.push("t", TABLE)
    return engine


def answers(sql: str, arrivals: list[Arrival]) -> Counter[tuple[object, ...]]:
    """What DuckDB finds over all rows."""
    con = duckdb.connect()
    for stream in range(3):
        own = [one for one in arrivals if one.stream == stream]
        columns = [pa.array(column, pa.int64()) for column in ([o.key for o in own], [o.row for o in own])]
        con.register(f"rows_{stream}", pa.table(columns, names=["k", "r"]))
        con.execute(f"CREATE TABLE {NAMES[stream]} AS SELECT * FROM rows_{stream}")
    con.register("rows", pa.table(TABLE))
    con.execute("CREATE TABLE t AS SELECT * FROM rows")
    return Counter(con.execute(re.sub(r"\[.*?\]", "", sql)).fetchall())


@given(seed=st.integers(0, 1 << 32), sql=st.sampled_from(QUERIES))
@settings(max_examples=80)
def test_tables_above_joins_without_windows(seed: int, sql: str) -> None:
    """Complete with declared factors, alone and beside another query on the join; restored in between. With
    factors that are too small a part of it, and never a greater one than `accuracy` says."""
    dice = random.Random(seed)
    arrivals, less = draw_arrivals(dice, 3, 40), dice.choice((0, 0, 2))
    there = answers(sql, arrivals)
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 3, less)]
    engine = with_table(rules, late="drop", evict=dice.choice(("key", "fifo")))
    if dice.random() < 0.5:
        engine.query("SELECT b.r, a.k FROM a JOIN b USING (k)")
    name = engine.query(sql).name
    found: Counter[tuple[object, ...]] = Counter()

    def read() -> None:
        rows = engine.queries[name].results()
        found.update(zip(*(rows[column].to_pylist() for column in rows.column_names[1:]), strict=True))

    parts = cuts(dice, arrivals)
    restored_at = dice.randrange(len(parts))
    for at, part in enumerate(parts):
        push(engine, part)
        if at == restored_at:
            read()
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
    engine.close()
    read()
    assert not found - there
    assert less or found == there
    assert engine.queries[name].accuracy <= (found.total() / there.total() if there else 1.0)


def test_queries_share_the_join_below_tables() -> None:
    engine = with_table(["ORDERED WITHIN 2 ROWS", "ORDERED WITHIN 2 ROWS"])
    for least in range(5):
        engine.query(
            f"SELECT a.k, t.name FROM a JOIN b USING (k) JOIN t ON t.r = a.r WHERE a.r + b.r > {least}"
        )
    operators = [one for part in sub_plans_of(engine) for one in part.operators.values()]
    assert sum(isinstance(one, OrderedJoin) for one in operators) == 1
    text = engine.explain()
    assert "OrderedJoin a.k = b.k" in text and "run once, also for" in text and "Table t" in text


def test_a_late_query_says_from_when_on_it_is_exact() -> None:
    engine = with_table(["ORDERED WITHIN 0 ROWS", "ORDERED WITHIN 0 ROWS"])
    push(engine, [Arrival(0, 3, 0, 1)])
    late = engine.query("SELECT a.k, t.name FROM a JOIN b USING (k) JOIN t ON t.r = a.r")
    assert late.complete_from is not None and late.complete_from.year == 9999
    push(engine, [Arrival(1, 3, 0, 2), Arrival(0, 4, 1, 3), Arrival(1, 4, 1, 4)])
    assert late.complete_from is not None and late.complete_from.microsecond <= 5
    assert late.results()["name"].to_pylist() == ["eins", "one"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a.k FROM a JOIN t USING (r) JOIN b ON b.r = t.r", "Expected a window on `a`, found none"),
        (
            "SELECT a.k FROM a LEFT JOIN b USING (k) JOIN t ON t.r = a.r",
            "LEFT JOIN of streams in a join without windows",
        ),
        ("SELECT a.k FROM a JOIN b USING (k) LEFT JOIN t ON t.r = a.r", "LEFT JOIN without windows"),
        ("SELECT COUNT(*) FROM a JOIN b USING (k) JOIN t ON t.r = a.r", "An aggregate over a join"),
        ("SELECT a.k FROM a JOIN b USING (k) JOIN t ON t.r = a.r HOP BY 5 SECONDS", "HOP BY over a join"),
        ("SELECT a.k FROM a JOIN b USING (k) JOIN t ON t.r = a.r EMIT CHANGES", "Expected EMIT FINAL"),
        (
            "SELECT a.k FROM a JOIN b USING (k) JOIN t ON t.r = a.r JOIN c [ROWS 5] ON c.k = a.k",
            "A stream with a ROWS window beside one without in a join",
        ),
        (
            "SELECT a.k FROM a JOIN b USING (k) JOIN t ON t.r = a.r "
            "UNION ALL SELECT k FROM c [ROWS 5] JOIN t ON t.r = c.r",
            "A table beside such joins and windows",
        ),
    ],
)
def test_what_is_refused_beside_tables(sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        with_table(["ORDERED", "ORDERED", "ORDERED"]).query(sql)
    assert message in str(caught.value) and "line 1, column" in str(caught.value)
