"""The rules that move differences past joins: against DuckDB, and where they do not fire."""

from __future__ import annotations

import duckdb
import pytest
from hopping_help import bind, fill
from hypothesis import given, settings
from hypothesis import strategies as st
from logical_sql import answer

from penstock.optimizer.rewrite.difference_rules import factor_difference, has_no_duplicates, pull_difference
from penstock.optimizer.tree.logical import Distinct, Filter, Join, Node, Project, SetOperation, inputs_of

CON = duckdb.connect()
CON.execute("SET threads = 1")


def top(sql: str) -> Node:
    """The tree of a query without the projections and filters at its top."""
    node = bind(sql).root
    while isinstance(node, Project | Filter):
        node = node.input
    return node


def apply(rule: str, node: Node, sets: bool = False) -> Node | None:
    match rule, node:
        case "pull", Join():
            return pull_difference(node, sets)
        case "factor", SetOperation():
            return factor_difference(node, sets)
    raise AssertionError(f"{rule} is no rule for {type(node).__name__}")


def difference(word: str, columns: str = "k, v") -> str:
    return f"(SELECT {columns} FROM a {word} SELECT {columns} FROM b) AS d"


FIRES = {
    "pull except all": ("pull", f"SELECT * FROM {difference('EXCEPT ALL')} JOIN c ON d.k = c.k"),
    "pull except all, with doubles compared": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT ALL', 'k, x')} JOIN c ON d.x = c.x AND d.k <> c.v",
    ),
    "pull except all past a product": ("pull", f"SELECT * FROM {difference('EXCEPT ALL')} CROSS JOIN c"),
    "pull except all past an inequality": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT ALL')} JOIN c ON d.k < c.k OR d.v IS NULL",
    ),
    "pull except past rows that are distinct": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT')} JOIN (SELECT DISTINCT k, v FROM c) AS c ON d.k = c.k",
    ),
    "pull except past groups": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT')} JOIN (SELECT k, COUNT(*) AS n FROM c GROUP BY k) AS c "
        "ON d.k = c.k",
    ),
    "pull except past an anti join of distinct rows": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT')} JOIN (SELECT * FROM (SELECT DISTINCT k, v FROM c) AS s "
        "WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.k = s.k)) AS c ON d.k = c.k",
    ),
    "factor except all": (
        "factor",
        "SELECT a.k, a.v, c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT ALL SELECT b.k, b.v, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "factor except": (
        "factor",
        "SELECT c.k, a.v, c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT SELECT z.k, b.v, z.v FROM b JOIN c AS z ON z.k = b.k",
    ),
    "factor, conditions on every part": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k WHERE a.v > 0 AND c.v < 2 "
        "EXCEPT ALL SELECT b.k, c.v FROM b JOIN c ON b.k = c.k WHERE b.x > 0 AND c.v < 2",
    ),
    "factor, two keys, one computed": (
        "factor",
        "SELECT a.x, a.k, c.v FROM a JOIN c ON a.k = c.k AND a.x = c.v "
        "EXCEPT ALL SELECT b.x, b.v, c.v FROM b JOIN c ON b.v = c.k AND b.x = c.v",
    ),
    "factor, joins on either side": (
        "factor",
        "SELECT a.k, e.v, c.v FROM a JOIN c ON a.k = c.k JOIN e ON e.v = a.v "
        "EXCEPT SELECT b.k, f.v, c.v FROM c JOIN b ON b.k = c.k JOIN f ON f.k = b.v",
    ),
}


@pytest.mark.parametrize("case", FIRES)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_rule_keeps_the_answer_oracle(case: str, data: st.DataObject) -> None:
    rule, sql = FIRES[case]
    before = top(sql)
    after = apply(rule, before)
    assert after is not None, "the rule does not fire"
    assert after != before
    assert [one.type for one in after.fields] == [one.type for one in before.fields]
    with CON.cursor() as con:
        fill(con, data.draw)
        assert answer(con, after) == answer(con, before)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_where_duplicates_do_not_matter_sets_are_the_same_oracle(data: st.DataObject) -> None:
    """Below a DISTINCT, EXCEPT goes past any join."""
    pulled = top(f"SELECT * FROM {difference('EXCEPT')} JOIN c ON d.k = c.k")
    factored = top(FIRES["factor except"][1])
    with CON.cursor() as con:
        fill(con, data.draw)
        for rule, before in (("pull", pulled), ("factor", factored)):
            after = apply(rule, before, sets=True)
            assert after is not None
            assert set(answer(con, after)) == set(answer(con, before))
            assert not any(isinstance(one, Distinct) for one in walk(after))


REFUSED = {
    "except past a join whose other side has duplicates": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT')} JOIN c ON d.k = c.k",
    ),
    "except past rows that lose what told them apart": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT')} JOIN (SELECT k FROM (SELECT DISTINCT k, v FROM c) AS s) AS c "
        "ON d.k = c.k",
    ),
    "a projection that loses columns stands in between": (
        "pull",
        f"SELECT * FROM (SELECT k FROM {difference('EXCEPT ALL')}) AS d JOIN c ON d.k = c.k",
    ),
    "a condition that tells 0.0 from -0.0": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT ALL', 'k, x')} JOIN c "
        "ON CAST(d.x AS VARCHAR) = CAST(c.x AS VARCHAR)",
    ),
    "a condition that may fail": (
        "pull",
        f"SELECT * FROM {difference('EXCEPT ALL')} JOIN c ON c.v // d.k = 1",
    ),
    "an outer join": ("pull", f"SELECT * FROM {difference('EXCEPT ALL')} LEFT JOIN c ON d.k = c.k"),
    "an intersection": ("pull", f"SELECT * FROM {difference('INTERSECT ALL')} JOIN c ON d.k = c.k"),
    "keys that are not compared": (
        "factor",
        "SELECT a.v, c.v FROM a JOIN c ON a.k = c.k EXCEPT SELECT b.v, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "another relation": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k EXCEPT SELECT b.k, e.v FROM b JOIN e ON b.k = e.k",
    ),
    "another window": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT SELECT b.k, c.v FROM b JOIN c [RANGE 7 SECONDS] AS c ON b.k = c.k",
    ),
    "another condition on what is common": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k WHERE c.v > 1 "
        "EXCEPT SELECT b.k, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "another key of what is common": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k EXCEPT SELECT b.k, c.v FROM b JOIN c ON b.k = c.v",
    ),
    "a column of both": (
        "factor",
        "SELECT a.k, a.v + c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT SELECT b.k, b.v + c.v FROM b JOIN c ON b.k = c.k",
    ),
    "a column of A against one of C": (
        "factor",
        "SELECT a.k, a.v, c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT SELECT b.k, c.v, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "a column that may fail on rows that join with nothing": (
        "factor",
        "SELECT a.k, 9 // a.v, c.v FROM a JOIN c ON a.k = c.k "
        "EXCEPT SELECT b.k, 9 // b.v, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "a condition of constants": (
        "factor",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k AND 1 = 2 "
        "EXCEPT SELECT b.k, c.v FROM b JOIN c ON b.k = c.k",
    ),
    "joined by less than": (
        "factor",
        "SELECT a.k, c.k FROM a JOIN c ON a.k < c.k EXCEPT SELECT b.k, c.k FROM b JOIN c ON b.k < c.k",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rule_does_not_fire(case: str) -> None:
    rule, sql = REFUSED[case]
    node = top(sql)
    assert apply(rule, node) is None


def rows(con: duckdb.DuckDBPyConnection, **streams: list[tuple[object, object]]) -> None:
    for name in "abcde":
        con.execute(f"CREATE TABLE {name} (ts TIMESTAMP, k BIGINT, v BIGINT, x DOUBLE)")
        for k, v in streams.get(name, []):
            con.execute(f"INSERT INTO {name} VALUES ('2026-01-01', ?, ?, 0.0)", [k, v])


COUNTER_EXAMPLES = {
    # C has the row (1, 5) twice: the difference below the join gives the pair twice, above it once
    "EXCEPT and duplicates of C": (
        f"SELECT d.k, c.v FROM {difference('EXCEPT')} JOIN c ON d.k = c.k",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k EXCEPT SELECT b.k, c.v FROM b JOIN c ON b.k = c.k",
        {"a": [(1, 0)], "c": [(1, 5), (1, 5)]},
    ),
    # (1, 0) and (1, 9) are different rows; of them only k is compared above the join
    "columns that are lost": (
        f"SELECT d.k, c.v FROM {difference('EXCEPT ALL')} JOIN c ON d.k = c.k",
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k EXCEPT ALL SELECT b.k, c.v FROM b JOIN c ON b.k = c.k",
        {"a": [(1, 0)], "b": [(1, 9)], "c": [(1, 5)]},
    ),
    # v = 7 is reached from k = 1 in A and from k = 2 in B, through different rows of C that look alike
    "keys that are not compared": (
        "SELECT a.v, c.v FROM a JOIN c ON a.k = c.k EXCEPT SELECT b.v, c.v FROM b JOIN c ON b.k = c.k",
        f"SELECT d.v, c.v FROM {difference('EXCEPT')} JOIN c ON d.k = c.k",
        {"a": [(1, 7)], "b": [(2, 7)], "c": [(1, 5), (2, 5)]},
    ),
    # the row of A has a match in B for one partner in C and none for the other
    "an anti join that reads both sides": (
        "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k "
        "WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v = c.v)",
        "SELECT a.k, c.v FROM (SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)) AS a "
        "JOIN c ON a.k = c.k",
        {"a": [(1, 0)], "b": [(1, 5)], "c": [(1, 5), (1, 6)]},
    ),
}


@pytest.mark.parametrize("case", COUNTER_EXAMPLES)
def test_counter_example(case: str) -> None:
    """Two queries that a careless rule would take for the same differ on these rows."""
    one, two, streams = COUNTER_EXAMPLES[case]
    with duckdb.connect() as con:
        rows(con, **streams)
        assert answer(con, bind(one).root) != answer(con, bind(two).root)


def test_what_has_no_duplicates() -> None:
    for sql, said in [
        ("SELECT DISTINCT k FROM a", True),
        ("SELECT k FROM (SELECT DISTINCT k, v FROM a) AS s", False),
        ("SELECT v, k FROM (SELECT DISTINCT k, v FROM a) AS s WHERE k > 1", True),
        ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", True),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", True),
        ("SELECT k FROM a EXCEPT ALL SELECT k FROM b", False),
        ("SELECT k FROM a", False),
    ]:
        assert has_no_duplicates(bind(sql).root) is said, sql


def walk(node: Node) -> list[Node]:
    return [node, *(one for part in inputs_of(node) for one in walk(part))]
