"""Which part of a join condition the index serves, spelling by spelling, and what stays to be checked."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of

import penstock
from penstock.engine.expressions.expression import conjuncts
from penstock.engine.plan.plan import JoinNode, SelectNode, SourceNode
from penstock.engine.rows.band import EQUALITY, Band
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.bind.bind_relation import bind_relation
from penstock.optimizer.bind.catalog import Catalog
from penstock.optimizer.plan.plan_query import plan_query
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.rewrite.match_condition import Match, match_condition

COLUMNS = "(ts TIMESTAMP, k BIGINT, j BIGINT, v DOUBLE, w DOUBLE, s VARCHAR, b BOOLEAN, t TIMESTAMP)"


def plan(condition: str, where: str = "") -> tuple[JoinNode, list[str]]:
    """The join planned for a condition between x and y, and what is checked on its pairs."""
    catalog = Catalog()
    for statement in parse_script(f"CREATE STREAM one {COLUMNS}; CREATE STREAM two {COLUMNS}"):
        catalog.add(bind_relation(statement))  # type: ignore[arg-type]
    tail = f" WHERE {where}" if where else ""
    sql = f"SELECT x.k FROM one [NOW] AS x JOIN two [NOW] AS y ON {condition}{tail}"
    top = plan_query(bind_query(parse_query(sql), catalog), False).node
    assert isinstance(top, SelectNode)
    assert isinstance(top.input, JoinNode)
    return top.input, [str(part) for part in conjuncts(top.predicate)]


def served(condition: str) -> tuple[list[tuple[str, str]], Band | None, list[str]]:
    """Keys (left, right), the band between them, the residual."""
    join, residual = plan(condition)
    keys = zip(join.left_side.keys, join.right_side.keys, strict=True)
    return [(str(left), str(right)) for left, right in keys], join.condition, residual


def at_least(low: int | float, closed: bool = True) -> Band:
    return Band(low, closed, None, True)


def at_most(high: int | float, closed: bool = True) -> Band:
    return Band(None, True, high, closed)


# A band is over right - left: y - x.
EXACT = {
    "x.k < y.k": at_least(0, False),
    "x.k <= y.k": at_least(0),
    "x.k > y.k": at_most(0, False),
    "x.k >= y.k": at_most(0),
    "NOT x.k < y.k": at_most(0),
    "NOT (x.k > y.k)": at_least(0),
    "y.k > x.k": at_least(0, False),
    "y.k < x.k": at_most(0, False),
    "y.k > x.k + 5": at_least(5, False),
    "y.k - 5 > x.k": at_least(5, False),
    "y.k - x.k > 5": at_least(5, False),
    "5 < y.k - x.k": at_least(5, False),
    "x.k - y.k < -5": at_least(5, False),
    "-5 > x.k - y.k": at_least(5, False),
    "-y.k + x.k + 5 < 0": at_least(5, False),
    "x.k + 7 < y.k + 2": at_least(5, False),
    "2 + y.k > (3 + x.k) + 4": at_least(5, False),
    "-(x.k - y.k) > 5": at_least(5, False),
    "y.k BETWEEN x.k - 2 AND x.k + 3": Band(-2, True, 3, True),
    "x.k BETWEEN y.k - 3 AND y.k + 2": Band(-2, True, 3, True),
    "y.k - x.k BETWEEN -2 AND 3": Band(-2, True, 3, True),
    "y.k > x.k AND y.k <= x.k + 3": Band(0, False, 3, True),
    "ABS(x.k - y.k) < 5": Band(-5, False, 5, False),
    "ABS(y.k - x.k) <= 5": Band(-5, True, 5, True),
    "5 >= ABS(y.k - x.k)": Band(-5, True, 5, True),
    "ABS(x.k - y.k + 2) <= 5": Band(-3, True, 7, True),
    "ABS(x.k - y.k) <= -1": Band(1, True, -1, True),
    "x.t <= y.t": at_least(0),
    "y.t - x.t < INTERVAL '5' MICROSECONDS": at_most(5, False),
    "y.t BETWEEN x.t AND x.t + INTERVAL '1' SECOND": Band(0, True, 1_000_000, True),
    "x.t + INTERVAL '1' SECOND > y.t": at_most(1_000_000, False),
    "x.v < y.v": at_least(0, False),
    "x.v + 0 < y.v": at_least(0, False),
    "x.k < y.k AND x.k < y.k - 5": at_least(5, False),
    "x.k < y.k - 5 AND x.k <= y.k": at_least(5, False),
    "CASE WHEN x.k > y.k THEN TRUE ELSE FALSE END": at_most(0, False),
    "x.v >= y.v": at_most(0),
    "y.v BETWEEN x.v AND x.v": Band(0, True, 0, True),
}


@pytest.mark.parametrize("condition", EXACT)
def test_orders_and_bands_are_served_whole(condition: str) -> None:
    keys, band, residual = served(condition)
    column = condition[condition.index("x.") + 2]
    assert keys == [(f"x.{column}", f"y.{column}")]
    assert band == EXACT[condition]
    assert residual == []


EQUALITIES = {
    "x.k = y.k": [("x.k", "y.k")],
    "y.k = x.k": [("x.k", "y.k")],
    "x.k == y.k": [("x.k", "y.k")],
    "(x.k = y.k)": [("x.k", "y.k")],
    "x.k = y.k AND x.s = y.s": [("x.k", "y.k"), ("x.s", "y.s")],
    "x.k = y.k AND (y.s = x.s AND x.b = y.b)": [("x.k", "y.k"), ("x.s", "y.s"), ("x.b", "y.b")],
    "x.k = y.k AND x.k = y.k": [("x.k", "y.k")],
    "x.k % 2 = y.k % 2": [("x.k % 2", "y.k % 2")],
    "x.k + x.j = y.k": [("x.k + x.j", "y.k")],
    "UPPER(x.s) = y.s": [("UPPER(x.s)", "y.s")],
    "x.k = y.v": [("CAST(x.k AS DOUBLE)", "y.v")],
    "x.t = y.t": [("x.t", "y.t")],
    "x.v = y.v": [("x.v", "y.v")],
}


@pytest.mark.parametrize("condition", EQUALITIES)
def test_equalities_are_served_together(condition: str) -> None:
    assert served(condition) == (EQUALITIES[condition], EQUALITY, [])


RESIDUAL = {
    "x.k = y.k AND x.v < y.v": ([("x.k", "y.k")], EQUALITY, ["x.v < y.v"]),
    "x.v < y.v AND x.k = y.k": ([("x.k", "y.k")], EQUALITY, ["x.v < y.v"]),
    "x.k = y.k AND x.k + y.k > 5": ([("x.k", "y.k")], EQUALITY, ["(x.k + y.k) > 5"]),
    "x.k < y.k AND x.j < y.j": ([("x.k", "y.k")], at_least(0, False), ["x.j < y.j"]),
    "x.v < y.v AND x.v < y.v - 5": (
        [("x.v", "y.v")], at_least(5.0, False), ["x.v < y.v", "x.v < (y.v - 5.0)"]
    ),
    "x.k < y.k AND x.j <= y.j AND y.j < x.j + 3": ([("x.j", "y.j")], Band(0, True, 3, False), ["x.k < y.k"]),
    "x.k < y.k AND x.s <> y.s": ([("x.k", "y.k")], at_least(0, False), ["x.s <> y.s"]),
    # Doubles are served with a margin: rounding may put a pair just outside, so the condition stays.
    "x.v < y.v + 1": ([("x.v", "y.v")], at_least(-1.0, False), ["x.v < (y.v + 1.0)"]),
    "x.v - y.v <= 0.5": ([("x.v", "y.v")], at_least(-0.5), ["(x.v - y.v) <= 0.5"]),
    "ABS(x.v - y.v) < 1": ([("x.v", "y.v")], Band(-1.0, False, 1.0, False), ["ABS(x.v - y.v) < 1.0"]),
}  # fmt: skip


@pytest.mark.parametrize("condition", RESIDUAL)
def test_what_is_not_served_is_checked_on_the_pairs(condition: str) -> None:
    assert served(condition) == RESIDUAL[condition]


@pytest.mark.parametrize(
    "condition",
    [
        "x.k <> y.k",
        "x.k = y.k OR x.j = y.j",
        "NOT x.k = y.k",
        "x.k IS NOT DISTINCT FROM y.k",
        "x.s < y.s",
        "x.b < y.b",
        "x.s LIKE y.s",
        "x.k + y.k = 5",
        "x.k - y.k = 5",
        "x.k + y.k > 5",
        "x.k * 2 - y.k * 3 + x.j < 5",
        "2 * (x.k - y.k) < 5",
        "x.k - y.k + x.j - y.j < 5",
        "x.k - x.j < y.k - y.j",
        "x.k + x.j < 5 + y.k",
        "ABS(x.k - y.k) > 5",
        "ABS(x.k) - ABS(y.k) + x.j < 5",
        "x.k IN (y.k, y.j)",
        "CASE WHEN x.k > y.k THEN TRUE ELSE x.b END",
        "x.v < y.v + CAST('NaN' AS DOUBLE)",
        "x.v < y.v + CAST('inf' AS DOUBLE)",
        "x.k < y.k + 4611686018427387904",
        "x.k IS NULL OR y.k > 0",
    ],
)
def test_conditions_no_index_serves(condition: str) -> None:
    """All pairs are candidates, and the condition is checked on each."""
    keys, band, residual = served(condition)
    assert (keys, band) == ([], None)
    assert len(residual) == 1


@pytest.mark.parametrize(
    "condition",
    ["x.v - y.v > 1", "x.v - y.v >= -1", "1 < y.v - x.v", "y.v - x.v >= 0", "0 <= x.v - y.v"],
)
def test_a_difference_that_nan_makes_true_is_not_served(condition: str) -> None:
    """NaN - 5 is NaN, which is above 1: a pair far from the band. Only `less` than a number is safe."""
    assert served(condition)[:2] == ([], None)
    assert served(condition.replace(".v", ".k"))[1] is not None  # integers have no NaN


def test_parts_of_one_side_go_to_that_side() -> None:
    join, residual = plan("x.k = y.k AND x.v > 1 AND y.v < 2", where="x.b AND y.s = 'u' AND x.k + y.k > 3")
    assert str(join.left_side.predicate) == "(x.v > 1.0) AND x.b"
    assert str(join.right_side.predicate) == "(y.v < 2.0) AND (y.s = 'u')"
    assert residual == ["(x.k + y.k) > 3"]


def test_a_condition_in_where_is_as_good_as_one_in_on() -> None:
    assert plan("TRUE", where="x.k = y.k") == plan("x.k = y.k")
    assert plan("x.k = y.k", where="x.j < y.j") == plan("x.j < y.j", where="x.k = y.k")


def test_only_the_columns_somebody_reads_are_kept() -> None:
    join, _ = plan("x.k = y.k AND x.v < y.v")
    for source, side, expected in (
        (join.left, join.left_side, ["k", "v"]),
        (join.right, join.right_side, ["v"]),
    ):
        assert isinstance(source, SourceNode)
        names = [column.split()[0] for column in COLUMNS.strip("()").split(", ")]
        given_ = names if source.columns is None else [names[place] for place in source.columns]
        assert [given_[place] for place in side.columns] == expected


def test_nothing_to_serve() -> None:
    assert match_condition((), 3) == Match((), (), None, ())
    assert plan("TRUE")[0].condition is None


DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 0.3, 1e300, -1e300, 5e-324]),
    st.floats(-3, 3).map(lambda value: round(value, 1)),
)
DOUBLE_CONDITIONS = [
    "x.v < y.v",
    "x.v >= y.v",
    "y.v BETWEEN x.v - 0.2 AND x.v + 0.2",
    "x.v - y.v <= 0.3",
    "x.v - y.v > 0.1",
    "0.5 > x.v - y.v",
    "ABS(x.v - y.v) <= 0.1",
    "y.v > x.v + 0.1",
    "x.v + 0.3 >= y.v AND y.v > x.v - 0.1",
]


@settings(max_examples=40)
@given(st.lists(DOUBLES, max_size=12), st.lists(DOUBLES, max_size=12), st.sampled_from(DOUBLE_CONDITIONS))
def test_served_or_not_the_pairs_are_the_same(left: list[float], right: list[float], condition: str) -> None:
    """Against the same condition hidden from the index, so that every pair is checked by the evaluator."""
    engine = penstock.Engine(index="b+tree")
    engine.execute("CREATE STREAM a (ts TIMESTAMP, id BIGINT, v DOUBLE)")
    engine.execute("CREATE STREAM b (ts TIMESTAMP, id BIGINT, v DOUBLE)")
    sql = "SELECT x.id, y.id AS yid FROM a [NOW] AS x JOIN b [NOW] AS y ON {}"
    queries = [engine.query(sql.format(one)) for one in (condition, f"(({condition}) OR x.id + y.id < 0)")]
    for stream, values in (("a", left), ("b", right)):
        rows = {"ts": np.zeros(len(values), np.int64), "id": np.arange(len(values)), "v": np.array(values)}
        engine.push(stream, rows)
    engine.close()
    found, checked = (Counter(rows_of(query.results())) for query in queries)
    assert found == checked
