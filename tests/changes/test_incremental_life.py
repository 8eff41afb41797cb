"""Incremental queries through the public API: how they start, let go of rows, count and end."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incremental_help import APPROACHES, TIMELY, answer, changes, make_double_engine, make_engine, push
from oracle import rows_of
from query_trees import Trees

import penstock

# Letting go

VARIED = [
    "SELECT k, v FROM a [RANGE 5 us]",
    "SELECT COUNT(*) AS n, MAX(v) AS most FROM a [RANGE 5 us]",
    "SELECT k, MIN(v) AS least, SUM(DISTINCT v) AS s, AVG(v) AS m FROM a [RANGE 5 us] GROUP BY k",
    "SELECT k, COUNT(DISTINCT v) AS n FROM a [RANGE 5 us] GROUP BY k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k FROM a [RANGE 5 us]",
    "SELECT k FROM a [RANGE 5 us] UNION SELECT k FROM b [RANGE 7 us]",
    "SELECT k FROM a [RANGE 5 us] INTERSECT ALL SELECT k FROM b [RANGE 7 us]",
    "SELECT k FROM a [RANGE 5 us] EXCEPT SELECT k FROM b [RANGE 7 us]",
    "SELECT a.k, b.v FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.v < b.v",
    "SELECT a.k, b.v FROM a [RANGE 5 us] LEFT JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 5 us] RIGHT JOIN b [RANGE 7 us] ON a.k = b.k AND a.v < b.v",
    "SELECT a.k, b.v FROM a [RANGE 5 us] FULL JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT k FROM a [RANGE 5 us] WHERE EXISTS (SELECT * FROM b [RANGE 7 us] WHERE b.k = a.k)",
    "SELECT k FROM a [RANGE 5 us] WHERE NOT EXISTS (SELECT * FROM b [RANGE 7 us] WHERE b.k = a.k)",
    "SELECT a.k FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.k = b.k JOIN c [RANGE 2 us] ON c.k = b.k",
    "SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k) AS g",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM a [RANGE 5 us] UNION ALL SELECT k FROM b [NOW]) AS g",
    "SELECT MAX(v) AS most FROM (SELECT DISTINCT k FROM a [NOW]) AS d JOIN b [RANGE 7 us] ON d.k = b.k",
]


@pytest.mark.parametrize("expiry", APPROACHES)
def test_no_state_is_left_when_all_windows_have_passed(expiry: str) -> None:
    """Every operator has let go of every row; ITA hears of it only at the end."""
    engine = make_engine(expiry)
    queries = [engine.query(f"{sql} EMIT CHANGES") for sql in VARIED]
    for ts in range(20):
        for stream, step in (("a", 1), ("b", 2), ("c", 3)):
            push(engine, stream, (ts, ts * step % 4, ts % 3), (ts, None, ts % 5))
    held = engine.stats()
    assert sum(op["state_rows"] for query in held["queries"].values() for op in query["operators"]) > 0
    engine.advance(100)
    if expiry == "ita":
        engine.close()
    for query in queries:
        left = answer(changes(query))
        totals = [row for row in left if row and row[0] in (0, None)]
        assert len(left) == len(totals) <= 1, query.sql
    engine._runtime._check()
    stats = engine.stats()
    for part in (*stats["queries"].values(), *stats["groups"]):
        for operator in part["operators"]:
            assert operator["state_rows"] == 0, operator
            assert operator["queue_rows"] == 0, operator


@pytest.mark.parametrize("expiry", APPROACHES)
def test_a_total_is_there_before_and_after_all_rows(expiry: str) -> None:
    """(0, NULL) from the first time that is heard of, and again when all has left."""
    engine = make_engine(expiry)
    total = engine.query("SELECT COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 5 us] EMIT CHANGES")
    assert changes(total) == [], "no time has been heard of"
    engine.advance(3)
    assert changes(total) == [(3, 1, 0, None)]
    push(engine, "a", (4, 1, 7))
    assert changes(total) == [(4, -1, 0, None), (4, 1, 1, 7)]
    engine.advance(20)
    if expiry == "ita":
        engine.close()
    assert changes(total) == [(9, -1, 1, 7), (9, 1, 0, None)]


def test_a_total_whose_rows_come_at_once_never_was_zero() -> None:
    """The first instant's net changes only."""
    engine = make_engine()
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES")
    counting = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES", count_only=True)
    push(engine, "a", (4, 1, 7), (4, 1, 8))
    assert changes(total) == [(4, 1, 2)]
    assert counting.count == total.count == 1


def test_a_total_at_the_end_without_rows() -> None:
    engine = make_engine()
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] WHERE k > 5 EMIT CHANGES")
    push(engine, "a", (4, 1, 7))
    engine.close()
    assert changes(total) == [(4, 1, 0)]


# Tables


def test_rows_of_a_table_after_time_has_begun() -> None:
    for begin in (lambda e: push(e, "a", (1, 1, 1)), lambda e: e.advance(1)):
        engine = make_engine()
        begin(engine)
        with pytest.raises(
            penstock.UsageError, match=r"^Expected rows of the table `t` before those of any stream"
        ):
            engine.push("t", {"k": [1], "name": ["one"]})


def test_the_rows_that_a_table_has() -> None:
    engine = make_engine()
    assert engine.table_rows("t").num_rows == 0
    engine.push("t", {"k": [1], "name": ["one"]})
    engine.push("t", {"k": [2], "name": [None]})
    push(engine, "a", (1, 1, 1))
    assert engine.table_rows("T").to_pydict() == {"k": [1, 2], "name": ["one", None]}
    with pytest.raises(penstock.UsageError, match="Expected the name of a table, found the stream `a`"):
        engine.table_rows("a")


def test_rows_that_are_not_those_of_the_table() -> None:
    """Refused whole, and the table can still be loaded."""
    engine = make_engine()
    for wrong in ({"k": [1], "nom": ["one"]}, {"k": [1]}, {"k": ["x"], "name": ["one"]}):
        with pytest.raises(penstock.SchemaError, match="in `t`"):
            engine.push("t", wrong)
    engine.push("t", {"k": [1], "name": ["one"]})
    query = engine.query("SELECT a.v, t.name FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    push(engine, "a", (1, 1, 7))
    assert changes(query) == [(1, 1, 7, "one")]


@pytest.mark.parametrize("expiry", APPROACHES)
def test_a_table_loaded_in_several_pushes(expiry: str) -> None:
    """Before and after the query started; a query that starts later finds all of it."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1, 2], "name": ["one", "two"]})
    sql = "SELECT a.v, t.name FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES"
    early = engine.query(sql)
    engine.push("t", {"k": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    engine.push("t", {"k": [1, None], "name": ["uno", "nobody"]})
    push(engine, "a", (1, 1, 7), (1, None, 8), (2, 2, 9))
    late = engine.query(sql)
    push(engine, "a", (3, 1, 10))
    first = Counter([(7, "one"), (7, "uno"), (9, "two")])
    last = Counter([(10, "one"), (10, "uno")])
    assert answer(changes(early)) == first + last
    came = changes(late)
    assert answer(came, 2) == first
    assert answer(came) == first + last


@pytest.mark.parametrize("expiry", APPROACHES)
def test_an_empty_table(expiry: str) -> None:
    """No pair, every row unmatched, nothing to take away."""
    engine = make_engine(expiry)
    inner = engine.query("SELECT a.v FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    left = engine.query("SELECT a.v, t.name FROM a [RANGE 5 us] LEFT JOIN t ON a.k = t.k EMIT CHANGES")
    rest = engine.query("SELECT k FROM a [RANGE 5 us] EXCEPT SELECT k FROM t EMIT CHANGES")
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    push(engine, "a", (1, 1, 7))
    assert changes(inner) == []
    assert changes(left) == [(1, 1, 7, None)]
    assert changes(rest) == [(1, 1, 1)]
    assert changes(total) == [(1, 1, 0)]


# Inserts, outer joins, ALTER, counting


@pytest.mark.parametrize("expiry", APPROACHES)
def test_inserts_of_a_join_of_three(expiry: str) -> None:
    """Each triple when its last row comes, never again.

    ::

        a   1 |====| 6
        b     2 |====| 7
        c          5 |====| 10       c at 6 comes too late for a
    """
    engine = make_engine(expiry)
    triples = engine.query(
        "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k "
        "JOIN c [RANGE 5 us] ON b.k = c.k EMIT INSERTS"
    )
    push(engine, "a", (1, 1, 10), (3, 2, 11))
    push(engine, "b", (2, 1, 20))
    push(engine, "c", (5, 1, 30), (6, 1, 31))
    engine.advance(30)
    assert rows_of(triples.results()) == [(5, 10, 20, 30)]


@pytest.mark.parametrize("expiry", APPROACHES)
@pytest.mark.parametrize("window", ["", "[RANGE 5 us]", "[RANGE UNBOUNDED]", "[NOW]"])
def test_inserts_of_a_stream_joined_to_a_table(expiry: str, window: str) -> None:
    """One row for each row of the stream that has a partner, as it comes; the window makes no difference."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1], "name": ["one"]})
    query = engine.query(f"SELECT a.v, t.name FROM a {window} JOIN t ON a.k = t.k")
    push(engine, "a", (1, 1, 7), (2, 2, 8), (2, 1, 9))
    engine.advance(30)
    assert rows_of(query.results()) == [(1, 7, "one"), (2, 9, "one")]
    operators = engine.stats()["queries"][query.name]["operators"]
    assert sum(op["state_rows"] for op in operators) <= 3 + 1, "the table, and what is not read yet"


def test_an_outer_join_asks_for_a_window_also_with_a_table() -> None:
    engine = make_engine()
    with pytest.raises(penstock.BindError, match=r"^Expected a window on `a`, found none"):
        engine.query("SELECT a.v FROM a LEFT JOIN t ON a.k = t.k")


def test_inserts_of_what_takes_rows_back() -> None:
    """Each answer as it enters, also when that is because a row has left; not that it leaves again."""
    engine = make_engine()
    count = engine.query("SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k EMIT INSERTS")
    left = engine.query(
        "SELECT a.v, b.v AS w FROM a [RANGE 5 us] LEFT JOIN b [NOW] ON a.k = b.k EMIT INSERTS"
    )
    push(engine, "a", (1, 1, 7), (3, 1, 8))
    push(engine, "b", (3, 1, 9))
    engine.advance(20)
    assert rows_of(count.results()) == [(1, 1, 1), (3, 1, 2), (6, 1, 1)]
    rows = [(1, 7, None), (3, 7, 9), (3, 8, 9), (4, 7, None), (4, 8, None)]
    assert sorted(rows_of(left.results()), key=str) == sorted(rows, key=str)


def test_inserts_of_a_query_that_comes_later() -> None:
    """What was in the answer before it came has entered before; it is no news."""
    engine = make_engine()
    texts = [
        "SELECT k, COUNT(*) AS n FROM a [RANGE 9 us] GROUP BY k EMIT INSERTS",
        "SELECT a.k FROM a [ROWS 3] JOIN b [ROWS 3] ON a.k = b.k JOIN c [PARTITION BY k ROWS 3] ON b.k = c.k "
        "EMIT INSERTS",
    ]
    early = [engine.query(sql) for sql in texts]
    for ts in (1, 2, 5):
        if ts == 5:
            late = [engine.query(sql) for sql in texts]
        for stream in "abc":
            push(engine, stream, (ts, 1, 1))
    engine.advance(6)
    for one, other in zip(early, late, strict=True):
        assert other.complete_from is not None and 2 < other.complete_from.microsecond <= 5
        assert rows_of(other.results()) == [row for row in rows_of(one.results()) if row[0] == 5] != []


@pytest.mark.parametrize("expiry", TIMELY)
def test_left_join_gives_one_null_row_per_unmatched_row(expiry: str) -> None:
    """Withdrawn when a partner comes, there again when the last one has left.

    ::

        a   1 |====================| 21     two rows of k = 1 and one of k = NULL
        b      3 |====| 8
        b         5 |====| 10
    """
    engine = make_engine(expiry)
    query = engine.query(
        "SELECT a.v, b.v AS w FROM a [RANGE 20 us] LEFT JOIN b [RANGE 5 us] ON a.k = b.k EMIT CHANGES"
    )
    push(engine, "a", (1, 1, 10), (1, 1, 11), (1, None, 12))
    engine.advance(2)
    assert sorted(changes(query), key=str) == [(1, 1, 10, None), (1, 1, 11, None), (1, 1, 12, None)]
    push(engine, "b", (3, 1, 20))
    engine.advance(3)
    expected = Counter({(3, -1, 10, None): 1, (3, -1, 11, None): 1, (3, 1, 10, 20): 1, (3, 1, 11, 20): 1})
    assert Counter(changes(query)) == expected
    push(engine, "b", (5, 1, 21))
    engine.advance(5)
    assert Counter(changes(query)) == Counter([(5, 1, 10, 21), (5, 1, 11, 21)])
    engine.advance(8)
    assert Counter(changes(query)) == Counter([(8, -1, 10, 20), (8, -1, 11, 20)])
    engine.advance(12)
    came = changes(query)
    assert Counter(came) == Counter(
        [(10, -1, 10, 21), (10, -1, 11, 21), (10, 1, 10, None), (10, 1, 11, None)]
    )
    engine.advance(40)
    assert Counter(changes(query)) == Counter([(21, -1, v, None) for v in (10, 11, 12)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM a [RANGE UNBOUNDED]",
        "SELECT k FROM a [RANGE UNBOUNDED] UNION ALL SELECT k FROM b [RANGE 5 us]",
        "SELECT a.k FROM a [RANGE UNBOUNDED] JOIN t ON a.k = t.k",
        "SELECT a.k FROM a [RANGE UNBOUNDED] JOIN b [RANGE UNBOUNDED] ON a.k = b.k",
    ],
)
def test_alter_of_what_nobody_keeps_is_refused_by_name(sql: str) -> None:
    """And the query goes on as it was."""
    engine = make_engine()
    query = engine.query(f"{sql} EMIT CHANGES", name="q")
    with pytest.raises(penstock.UnsupportedError, match=r"^ALTER QUERY of a query whose answer nobody keeps"):
        engine.execute("ALTER QUERY q SET WINDOW 9 us")
    push(engine, "a", (1, 1, 1))
    assert query.complete_from is None


@pytest.mark.parametrize(
    "sql", ["SELECT k FROM a [RANGE 5 us]", "SELECT a.k FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k"]
)
def test_alter_of_what_is_counted_without_its_values_is_refused_by_name(sql: str) -> None:
    engine = make_engine()
    engine.query(f"{sql} EMIT CHANGES", name="q", count_only=True)
    with pytest.raises(penstock.UnsupportedError, match=r"^ALTER QUERY of a query that counts rows without"):
        engine.execute("ALTER QUERY q SET WINDOW 9 us")


COUNTED = [
    "SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k",
    "SELECT MAX(a.v) AS most, SUM(b.v) AS s FROM a [RANGE 5 us] JOIN b [RANGE 3 us] ON a.k = b.k",
    "SELECT DISTINCT k FROM a [ROWS 2]",
    "SELECT k FROM a [RANGE 5 us] EXCEPT ALL SELECT k FROM b [RANGE 3 us]",
    "SELECT a.k, b.v FROM a [RANGE 5 us] LEFT JOIN b [RANGE 3 us] ON a.k = b.k",
    "SELECT k FROM a [RANGE 5 us] WHERE NOT EXISTS (SELECT * FROM b [RANGE 3 us] WHERE b.k = a.k)",
]


@pytest.mark.parametrize("sql", COUNTED)
@pytest.mark.parametrize("expiry", ["auto", "nta"])
def test_an_altered_query_counts_what_it_would_deliver(expiry: str, sql: str) -> None:
    """Shorter, longer, by number: the difference of the answers is counted as it is given."""
    engine = make_engine(expiry)
    delivering = engine.query(f"{sql} EMIT CHANGES", name="one")
    counting = engine.query(f"{sql} EMIT CHANGES", name="two", count_only=True)
    delivered, alterations = 0, {5: "2 us", 12: "7 us", 22: "3 ROWS"}
    for ts in range(30):
        push(engine, "a", (ts, ts % 3, ts), (ts, 1, ts * 7 % 5))
        push(engine, "b", (ts, ts % 2, ts % 4))
        if ts in alterations:
            before = counting.count
            for name in ("one", "two"):
                engine.execute(f"ALTER QUERY {name} SET WINDOW {alterations[ts]}")
        delivered += delivering.results().num_rows
        assert counting.count == delivering.count == delivered
        assert counting.complete_from == delivering.complete_from
    assert counting.count > before


@settings(max_examples=60)
@given(st.data())
def test_counting_counts_what_is_delivered(data: st.DataObject) -> None:
    """count_only and not, over the same drawn query: as many changes, wherever rows are cut."""
    draw = data.draw
    trees = Trees(draw, ["a", "b"], tables=False)
    sql = trees.tree(draw(st.integers(0, 3))).penstock + " EMIT CHANGES"
    engine = make_double_engine(draw(st.sampled_from(APPROACHES)))
    delivering = engine.query(sql)
    counting = engine.query(sql, count_only=True)
    delivered, ts = 0, 0
    for _ in range(draw(st.integers(1, 12))):
        stream, rows = draw(st.sampled_from("ab")), []
        for _ in range(draw(st.integers(1, 4))):
            ts += draw(st.sampled_from([0, 0, 1, 3]))
            rows.append((ts, draw(st.integers(0, 2)), draw(st.sampled_from([None, 0.5, 1.5]))))
        push(engine, stream, *rows)
        delivered += delivering.results().num_rows
        assert counting.count == delivering.count == delivered
    engine.advance(ts + 30)
    engine.close()
    delivered += delivering.results().num_rows
    assert counting.count == delivering.count == delivered
    with pytest.raises(penstock.UsageError, match="which only counts"):
        counting.results()


def test_a_stream_joined_with_a_table_needs_no_window() -> None:
    """Rows meet the table and are forgotten."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT); CREATE TABLE names (k BIGINT, name VARCHAR)")
    query = engine.query("SELECT s.k, name FROM s JOIN names ON s.k = names.k")
    with pytest.raises(penstock.QueryError, match="Expected a window on `s`, found none"):
        engine.query("SELECT name, COUNT(*) FROM s JOIN names ON s.k = names.k GROUP BY name")
    engine.push("names", {"k": [1, 2, 2], "name": ["one", "two", "zwei"]})
    for ts in range(100):
        engine.push("s", {"ts": [ts] * 10, "k": [ts % 4] * 10})
    assert query.count == 25 * 10 * 3
    operators = engine.stats()["queries"][query.name]["operators"]
    (join,) = (one for one in operators if one["kind"] == "ChangeJoin")
    assert join["state_rows"] <= 3 + 10, "rows of the stream are kept"
