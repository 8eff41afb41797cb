"""Equal sub-plans of incremental queries through the public API: run once, read late, let go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incremental_help import (
    APPROACHES,
    TIMELY,
    answer,
    changes,
    make_double_engine,
    make_engine,
    net_of,
    push,
)
from query_trees import Trees
from work_of import sub_plans_of

import penstock


def test_equal_sub_plans_run_once() -> None:
    """Three queries over one GROUP BY: it is at work once, and stays as long as anybody reads it."""
    engine = make_engine()
    grouped = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k"
    one = engine.query(f"{grouped} EMIT CHANGES", name="one")
    two = engine.query(f"SELECT k FROM ({grouped}) AS g WHERE n > 1 EMIT CHANGES", name="two")
    three = engine.query(f"SELECT MAX(n) AS most FROM ({grouped}) AS g EMIT CHANGES", name="three")
    push(engine, "a", (1, 1, 0), (2, 1, 0), (3, 2, 0))
    groups = [one for one in engine.stats()["groups"] if one["strategy"] == "equal sub-plans"]
    assert [(group["queries"], [op["kind"] for op in group["operators"]]) for group in groups] == [
        (["one", "two", "three"], ["GroupBy"])
    ]
    kinds = Counter(
        operator["kind"]
        for part in (*groups, *engine.stats()["queries"].values())
        for operator in part["operators"]
    )
    assert kinds["GroupBy"] == 2, "the one in common, and that of `three` above it"
    assert groups[0]["operators"][0]["rows_in"] == 3
    one.drop()
    push(engine, "a", (4, 2, 0))
    assert answer(changes(two)) == Counter([(1,), (2,)])
    seen = changes(three)
    assert answer(seen) == Counter([(2,)])
    two.drop()
    assert not [group for group in engine.stats()["groups"] if group["strategy"] == "equal sub-plans"]
    engine.advance(8)
    assert answer(seen + changes(three)) == Counter([(1,)])
    three.drop()
    assert not sub_plans_of(engine)
    assert not engine.stats()["groups"]


OVER_A_JOIN = [
    "SELECT a.k, b.v FROM a [RANGE 4 us] JOIN b [RANGE 4 us] ON a.k = b.k",
    "SELECT b.k, COUNT(*) n FROM a [RANGE 9 us] JOIN b [RANGE 6 us] ON a.k = b.k WHERE a.v > 1 GROUP BY b.k",
    "SELECT MAX(b.v) AS most FROM a [RANGE 6 us] JOIN b [RANGE 9 us] ON a.k = b.k",
    "SELECT a.v FROM a [RANGE 7 us] JOIN b [RANGE 7 us] ON a.k = b.k EXCEPT ALL SELECT v FROM c [RANGE 5 us]",
    "SELECT DISTINCT b.v FROM b [RANGE 3 us] JOIN a [RANGE 5 us] ON a.k = b.k AND a.v <> b.v",
    "SELECT c.v, j.v AS w FROM c [RANGE 5 us] LEFT JOIN (SELECT a.k, b.v FROM a [RANGE 4 us] "
    "JOIN b [RANGE 4 us] ON a.k = b.k) AS j ON c.k = j.k",
]


@pytest.mark.parametrize(
    ("expiry", "sharing"),
    [("auto", "auto"), ("ita", "mem-opt"), ("time-message", "chain"), ("piggyback", "mem-opt")],
)
def test_aggregates_and_set_operations_hang_off_one_join(expiry: str, sharing: str) -> None:
    """Its slices end where any of their windows do; each query has the changes it has alone."""
    together = make_engine(expiry, sharing=sharing)
    alone = [make_engine(expiry, sharing=sharing) for _ in OVER_A_JOIN]
    queries = [together.query(f"{sql} EMIT CHANGES", name=f"q{n}") for n, sql in enumerate(OVER_A_JOIN)]
    others = [one.query(f"{sql} EMIT CHANGES") for one, sql in zip(alone, OVER_A_JOIN, strict=True)]
    for ts in range(16):
        for engine in (together, *alone):
            for stream, step in (("a", 1), ("b", 2), ("c", 3)):
                push(engine, stream, (ts, ts * step % 3, ts % 4), (ts, 1, ts % 3))
    (group,) = (one for one in together.stats()["groups"] if one["strategy"] == sharing)
    assert set(group["queries"]) == {query.name for query in queries}
    assert group["operators"][0]["rows_in"] == 2 * 2 * 16, "every row of a and b comes once"
    if sharing == "chain":
        slices = [one for one in group["operators"] if one["kind"] == "SliceJoin"]
        assert len(slices) == len({3, 4, 5, 6, 7, 9})
    for engine in (together, *alone):
        engine.advance(60)
        engine.close()
    for query, other in zip(queries, others, strict=True):
        assert net_of(changes(query)) == net_of(changes(other)) != {}, query.sql


LATER = [
    "SELECT COUNT(*) AS n FROM a [RANGE 50 us]",
    "SELECT k, MAX(v) AS m FROM a [RANGE 50 us] GROUP BY k",
    "SELECT k, MIN(CAST(v AS VARCHAR)) AS m FROM a [RANGE 50 us] GROUP BY k",
    "SELECT k, v FROM a [RANGE 50 us]",
    "SELECT k, v FROM a [ROWS 3]",
    "SELECT DISTINCT k FROM a [RANGE 50 us]",
    "SELECT k FROM a [RANGE 50 us] INTERSECT ALL SELECT k FROM b [RANGE 50 us]",
    "SELECT a.k, b.v FROM a [RANGE 50 us] LEFT JOIN b [RANGE 50 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 50 us] JOIN b [RANGE 50 us] ON a.k = b.k",
    "SELECT a.k, name FROM a [RANGE 50 us] JOIN t ON a.k = t.k",
    "SELECT a.k, name FROM a [ROWS 3] JOIN t ON a.k = t.k",
]


@pytest.mark.parametrize("sql", LATER)
@pytest.mark.parametrize("expiry", TIMELY)
def test_a_query_that_comes_later_goes_on_from_what_is_at_work(expiry: str, sql: str) -> None:
    """It is told the answer as it stands and reads the same operators from then on: exact at once."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1, 1, 2], "name": ["one", "uno", "two"]})
    one = engine.query(f"{sql} EMIT CHANGES", name="one")
    for ts in range(1, 5):
        push(engine, "a", (ts, ts % 3, ts), (ts, 1, 7))
        push(engine, "b", (ts, ts % 2, ts))
    engine.advance(6)
    two = engine.query(f"{sql} EMIT CHANGES", name="two")
    groups = [one for one in engine.stats()["groups"] if one["strategy"] == "equal sub-plans"]
    assert [group["queries"] for group in groups] == [["one", "two"]]
    push(engine, "a", (7, 2, 9))
    push(engine, "b", (7, 2, 9))
    engine.advance(8)
    came, joined = changes(one), changes(two)
    assert answer(joined) == answer(came) != Counter()
    assert all(row[0] >= 6 for row in joined)
    assert answer(joined, 6) == answer(came, 6)
    assert two.complete_from is not None and two.complete_from.microsecond <= 7
    engine.advance(200)
    assert answer(joined + changes(two)) == answer(came + changes(one))


def test_a_query_that_is_started_by_a_subscriber_begins_when_all_is_worked_off() -> None:
    """What is at work cannot say what it holds while it works."""
    engine = make_engine()
    sql = "SELECT k, COUNT(*) AS n FROM a [RANGE 50 us] GROUP BY k EMIT CHANGES"
    one = engine.query(sql, name="one")
    started: list[penstock.Query] = []
    one.subscribe(lambda _: None if started else started.append(engine.query(sql, name="two")))
    push(engine, "a", (1, 1, 1))
    push(engine, "a", (2, 1, 1))
    assert started[0].complete_from is not None and started[0].complete_from.microsecond == 1
    assert answer(changes(started[0])) == Counter([(1, 2)])


def test_a_query_that_comes_later_finds_what_was_there_before_all_time() -> None:
    """Rows of tables and totals went to those who were there: a sub-plan that gave them is not taken again.

    Time has begun with b; of a, which the queries read, nothing has come.
    """
    engine = make_engine()
    engine.push("t", {"k": [1, 1, 2], "name": ["one", "one", "two"]})
    texts = [
        "SELECT a.v, d.name FROM a [RANGE 5 us] LEFT JOIN (SELECT DISTINCT k, name FROM t) AS d ON a.k = d.k",
        "SELECT k FROM t EXCEPT SELECT k FROM a [RANGE 5 us]",
        "SELECT COUNT(*) AS n FROM a [RANGE 5 us]",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM a [RANGE 5 us] JOIN t ON a.k = t.k) AS g WHERE n < 9",
    ]
    early = [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "b", (1, 1, 1))
    late = [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "a", (3, 1, 7))
    late += [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "a", (4, 2, 8))
    expected = [[(7, "one"), (8, "two")], [], [(2,)], [(3,)]]
    for queries in (early, late[:4], late[4:]):
        assert [answer(changes(query)) for query in queries] == [Counter(rows) for rows in expected]


@settings(max_examples=30)
@given(st.data())
def test_dropping_one_of_two_leaves_the_other_exact(data: st.DataObject) -> None:
    """The same drawn query twice, one of them dropped on the way; a third engine runs it alone."""
    draw = data.draw
    trees = Trees(draw, ["a", "b"], windows=("range", "rows"), tables=False)
    sql = trees.tree(draw(st.integers(1, 3))).penstock + " EMIT CHANGES"
    ts, rows = 0, []
    for _ in range(draw(st.integers(2, 14))):
        ts += draw(st.sampled_from([0, 1, 3]))
        rows.append((draw(st.sampled_from("ab")), ts, draw(st.integers(0, 2)), draw(st.integers(0, 3))))
    gone_at = draw(st.integers(0, len(rows)))
    expiry = draw(st.sampled_from(APPROACHES))
    together, alone = make_double_engine(expiry), make_double_engine(expiry)
    going, staying = together.query(sql), together.query(sql)
    reference = alone.query(sql)
    for number, (stream, *row) in enumerate(rows):
        if number == gone_at:
            going.drop()
        for engine in (together, alone):
            push(engine, stream, tuple(row))
        together._runtime._check()
    for engine in (together, alone):
        engine.advance(ts + 30)
        engine.close()
    assert Counter(changes(staying)) == Counter(changes(reference))
