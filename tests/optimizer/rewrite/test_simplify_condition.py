"""Conditions in their normal form: the same rows, the same failures, one form for many spellings."""

from __future__ import annotations

import functools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from functions_oracle import FAILURES, RAISED, Table, connection, sql
from hypothesis import HealthCheck, given, settings
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INF, NAN, NASTY, TIMESTAMP, VARCHAR, moment
from test_functions_drawn import expressions, mixed
from test_match_condition import plan

from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.expressions.expression import FALSE, TRUE, Call, Expression, Literal
from penstock.engine.expressions.functions import may_raise
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.rewrite.simplify_condition import simplify_condition

DRAWN = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
PAIRS = 64
EXTREMES = [None, 0, 1, -1, 2, 2**53 + 1, 2**53, 2**63 - 1, -(2**63)]
REALS = [None, 0.0, -0.0, 1.0, 1.5, NAN, INF, -INF, 2.0**53, 1e300]


@functools.cache
def pairs() -> Table:
    """Two rows side by side: two columns of each type, nasty values often equal to each other."""
    random = np.random.default_rng(11)
    columns = []
    for type_, values in (
        (BIGINT, EXTREMES),
        (DOUBLE, REALS),
        (BOOLEAN, [True, False, None]),
        (VARCHAR, ["", "a", "12", "true", None]),
        (TIMESTAMP, [0, 1, moment("2020-02-29T12:00:00"), NASTY[TIMESTAMP][-4], None]),
    ):
        one = [values[i] for i in random.integers(len(values), size=PAIRS)]
        two = [a if random.random() < 0.4 else values[random.integers(len(values))] for a in one]
        columns += [(type_, one), (type_, two)]
    return Table(columns)


def column(type_: SqlType, which: int) -> Expression:
    return [one for one in pairs().columns if one.type is type_][which]


CONSTANTS: dict[SqlType, list[Any]] = {
    BIGINT: [0, 1, 2**63 - 1],
    DOUBLE: [0.0, 1.0, 1.5, NAN, 2.0**53],
    BOOLEAN: [True, False, None],
    VARCHAR: ["", "a", "true"],
    TIMESTAMP: [0, 1],
}
ORDERS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@st.composite
def values(draw: st.DrawFn, type_: SqlType) -> Expression:
    """A column or a constant, at times in something that changes nothing, or that may fail."""
    found: Expression = column(type_, draw(st.integers(0, 1)))
    choice = draw(st.integers(0, 9))
    if choice < 3:
        found = Literal(type_, draw(st.sampled_from(CONSTANTS[type_])))
    if choice == 4 and type_ in (BIGINT, DOUBLE):
        name = draw(st.sampled_from(["add", "subtract", "multiply", "integer_divide"]))
        by = draw(st.sampled_from([0, 1])) if draw(st.booleans()) else 0 if name in ("add", "subtract") else 1
        sides = [found, Literal(type_, by if type_ is BIGINT else float(by))]
        found = Call(type_, name, tuple(sides[::-1] if draw(st.booleans()) else sides))
    if choice == 5 and type_ is DOUBLE:
        found = Call(DOUBLE, "cast", (column(BIGINT, draw(st.integers(0, 1))),))
    if choice == 6 and type_ is BIGINT:
        return Call(BIGINT, "integer_divide", (Literal(BIGINT, 1), found))
    if choice in (6, 7) and type_ is VARCHAR:
        of = draw(st.sampled_from([BIGINT, BOOLEAN, TIMESTAMP]))
        return Call(VARCHAR, "cast", (column(of, draw(st.integers(0, 1))),))
    return found


@st.composite
def atoms(draw: st.DrawFn) -> Expression:
    type_ = draw(st.sampled_from([BIGINT, BIGINT, DOUBLE, DOUBLE, BOOLEAN, VARCHAR, TIMESTAMP]))
    a, b = draw(values(type_)), draw(values(type_))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Call(BOOLEAN, "is_null", (a,))
    if kind == 1:
        return Call(BOOLEAN, "in", (a, b, draw(values(type_))))
    if kind == 2:
        return Call(BOOLEAN, "is_not_distinct", (a, b))
    if kind == 3 and type_ in (BIGINT, DOUBLE):
        return Call(BOOLEAN, "cast", (a,))
    return Call(BOOLEAN, draw(st.sampled_from(ORDERS)), (a, b))


@st.composite
def conditions(draw: st.DrawFn) -> Expression:
    """A few atoms, again and again in one another's company and in wrappers that may change nothing."""
    pool = [*draw(st.lists(atoms(), min_size=1, max_size=4)), column(BOOLEAN, 0), TRUE, FALSE]
    if draw(st.booleans()):
        quotient = Call(
            BIGINT, "integer_divide", (Literal(BIGINT, 1), column(BIGINT, draw(st.integers(0, 1))))
        )
        pool.append(Call(BOOLEAN, "greater_equal", (quotient, Literal(BIGINT, 0))))
    for _ in range(draw(st.integers(1, 8))):
        x, y, z = (draw(st.sampled_from(pool)) for _ in range(3))
        literal = Literal(BOOLEAN, draw(st.sampled_from([True, False, None])))
        made = draw(
            st.sampled_from(
                [
                    Call(BOOLEAN, "and", (x, y)),
                    Call(BOOLEAN, "and", (x, y, z)),
                    Call(BOOLEAN, "or", (x, y)),
                    Call(BOOLEAN, "or", (x, y, z)),
                    Call(BOOLEAN, "or", (Call(BOOLEAN, "and", (x, y)), Call(BOOLEAN, "and", (z, x)))),
                    Call(BOOLEAN, "not", (x,)),
                    Call(BOOLEAN, "not", (Call(BOOLEAN, "or", (x, y)),)),
                    Call(BOOLEAN, draw(st.sampled_from(ORDERS)), (x, literal)),
                    Call(BOOLEAN, "is_not_distinct", (x, literal)),
                    Call(BOOLEAN, "coalesce", (x, literal)),
                    Call(BOOLEAN, "nullif", (x, literal)),
                    Call(BOOLEAN, "is_null", (x,)),
                    Call(BOOLEAN, "case", (x, y, z)),
                    Call(BOOLEAN, "case", (x, TRUE, literal)),
                    Call(BOOLEAN, "case", (x, literal, y, z, FALSE)),
                    Call(
                        BOOLEAN,
                        "equal",
                        (Call(BIGINT, "cast", (x,)), Literal(BIGINT, draw(st.integers(0, 2)))),
                    ),
                ]
            )
        )
        pool.append(made)
    return pool[-1]


def outcomes(condition: Expression, table: Table) -> list[object]:
    """Of each row by itself: whether it is let in, RAISED if that fails."""
    found: list[object] = []
    for row in range(table.length):
        try:
            mask = evaluate_predicate(condition, lambda i, row=row: table.arrays[i].slice(row, 1), 1)  # type: ignore[misc]
            found.append(bool(len(selected(mask))))
        except DataError:
            found.append(RAISED)
    return found


def check(condition: Expression, table: Table) -> None:
    simple = simplify_condition(condition)
    assert outcomes(simple, table) == outcomes(condition, table), f"{sql(condition)} became {sql(simple)}"
    assert simplify_condition(simple) == simple, sql(condition)


@DRAWN
@given(conditions())
def test_drawn_conditions_let_in_the_same_rows_and_fail_on_the_same(condition: Expression) -> None:
    check(condition, pairs())


@DRAWN
@given(expressions(BOOLEAN))
def test_drawn_expressions_of_all_kinds_too(condition: Expression) -> None:
    check(condition, mixed())


@DRAWN
@given(conditions())
def test_drawn_conditions_let_in_the_same_rows_oracle(condition: Expression) -> None:
    """DuckDB takes the parts of an AND as they are written, and may fail on either: it is no measure then."""
    simple, table = simplify_condition(condition), pairs()
    found = []
    for one in (condition, simple):
        try:
            query = f"SELECT id FROM {table.name} WHERE {sql(one)} ORDER BY id"
            found.append(connection().execute(query).fetchall())
        except FAILURES:
            assert may_raise(one), sql(one)
            return
    assert found[0] == found[1], f"{sql(condition)} became {sql(simple)}"
    ours = [(row,) for row, outcome in enumerate(outcomes(simple, table)) if outcome is True]
    assert RAISED in outcomes(simple, table) or ours == found[0], sql(simple)


def made(function: str, *arguments: Expression, type_: SqlType = BOOLEAN) -> Call:
    return Call(type_, function, arguments)


def subtle() -> dict[str, Expression]:
    """What a draw seldom meets, and a law too many gets wrong."""
    k, j, b, v = column(BIGINT, 0), column(BIGINT, 1), column(BOOLEAN, 0), column(DOUBLE, 0)
    zero, one, edge = Literal(BIGINT, 0), Literal(BIGINT, 1), Literal(DOUBLE, 2.0**53)
    fails = made("greater_equal", made("integer_divide", one, k, type_=BIGINT), zero)
    seems = made("greater", made("add", j, zero, type_=BIGINT), zero)
    cast = made("cast", k, type_=DOUBLE)
    nought = Literal(DOUBLE, 0.0)
    sum_ = made("add", v, nought, type_=DOUBLE)
    orders = {f"cast {name}": made(name, cast, edge) for name in ORDERS}
    return orders | {
        "NULL settles no OR below NOT": made("not", made("or", made("coalesce", b, TRUE), fails)),
        "NULL settles no OR in a value": made("is_null", made("or", made("coalesce", b, FALSE), fails)),
        "x OR NOT x below NOT, beside what fails": made("not", made("or", b, made("not", b), fails)),
        "a value is no condition": made("equal", made("and", b, fails), TRUE),
        "NOT NOT": made("not", made("not", made("and", b, fails))),
        "OR of one": made("or", FALSE, made("and", b, fails)),
        "AND beside OR of one": made("and", fails, made("or", FALSE, made("and", b, seems))),
        "overtaking": made("and", fails, seems),
        "overtaking in an OR": made("or", fails, seems),
        "CASE": made("case", made("and", b, fails), TRUE, FALSE),
        "CASE beside": made("and", fails, made("case", made("and", b, seems), TRUE, FALSE)),
        "common to branches that fail": made("or", made("and", b, fails), made("and", b, seems)),
        "-0.0 divides": made("greater", made("divide", Literal(DOUBLE, 1.0), sum_, type_=DOUBLE), nought),
    }  # fmt: skip


@pytest.mark.parametrize("which", subtle())
def test_what_a_law_too_many_gets_wrong(which: str) -> None:
    check(subtle()[which], pairs())


# One filter on one stream, however it is written: (what it is shown as, spellings).
FILTERS = {
    "x.v > 30.0": [
        "x.v > 30",
        "30 < x.v",
        "NOT x.v <= 30",
        "NOT (30 >= x.v)",
        "(x.v > 30) = TRUE",
        "(x.v > 30) <> FALSE",
        "(x.v > 30) IS TRUE",
        "(x.v <= 30) IS FALSE",
        "(x.v > 30) IS NOT TRUE IS FALSE",
        "COALESCE(x.v > 30, FALSE)",
        "NOT COALESCE(x.v <= 30, TRUE)",
        "NULLIF(x.v > 30, FALSE)",
        "CASE WHEN x.v > 30 THEN TRUE ELSE FALSE END",
        "CASE WHEN x.v > 30 THEN TRUE END",
        "IF(x.v > 30, 1 = 1, 1 = 2)",
        "CAST(x.v > 30 AS INT) = 1",
        "CAST(x.v > 30 AS VARCHAR) = 'true'",
        "x.v > 30 OR FALSE",
        "x.v > 30 OR NULL",
        "x.v > 30 AND TRUE",
        "x.v > 30 AND 30 < x.v",
        "x.v > 30 AND x.v > 20",
        "x.v > 30 OR x.v > 40",
        "x.v > 30 AND x.v IS NOT NULL",
        "x.v > 30 OR (x.v > 30 AND x.b)",
        "x.v >= 30 AND x.v <> 30",
        "x.v + 0 > 30",
        "x.v * 1 > 10 + 20",
    ],
    "x.k IN (1, 2, 3)": [
        "x.k IN (1, 2, 3)",
        "x.k IN (3, 2, 1, 2)",
        "x.k = 2 OR x.k = 1 OR 3 = x.k",
        "x.k IN (1, 2) OR x.k = 3",
        "NOT (x.k <> 1 AND x.k NOT IN (2, 3))",
        "x.k IN (1, 3) OR x.k = 2.0",
    ],
    "NOT x.v IS NULL": [
        "x.v IS NOT NULL", "x.v = x.v", "x.v > 3 OR NOT x.v > 3", "x.v < 5 OR x.v > 3",
        "(x.v < 1) IS NOT NULL",
    ],
    "x.k < 2": ["x.k < 2", "x.k < 1.5", "NOT x.k >= 1.5", "2.0 > x.k", "CAST(x.k AS DOUBLE) < 2"],
    "FALSE": [
        "FALSE", "NULL", "1 = 2", "x.k = NULL", "x.k < 1 AND x.k > 1", "x.k = 1 AND x.k = 2",
        "x.b AND NOT x.b", "x.k < x.k", "x.v > 3 AND x.v < 2",
    ],
    "(x.k > 1) AND (x.k < 5) AND NOT x.s IS NULL": [
        "x.k > 1 AND x.k < 5 AND x.s IS NOT NULL",
        "x.s IS NOT NULL AND NOT (x.k <= 1 OR x.k >= 5)",
    ],
}  # fmt: skip


@pytest.mark.parametrize("shown", FILTERS)
def test_filters_of_many_spellings_are_one(shown: str) -> None:
    for spelling in FILTERS[shown]:
        join, _ = plan("x.k = y.k", where=spelling)
        assert str(join.left_side.predicate) == shown, spelling


# Not the same: a part fails where the other does not, or NULL, NaN or rounding tell them apart.
DIFFERENT = [
    ("x.k + 1 = y.k + 1", "x.k = y.k"),
    ("x.k - y.k = 0", "x.k = y.k"),
    ("x.v - y.v = 0", "x.v = y.v"),
    ("x.v + 1 = y.v + 1", "x.v = y.v"),
    ("CAST(x.k AS DOUBLE) = CAST(y.k AS DOUBLE)", "x.k = y.k"),
    ("COALESCE(x.k = y.k, TRUE)", "x.k = y.k"),
    ("(x.k = y.k) IS NOT FALSE", "x.k = y.k"),
    ("CASE WHEN x.k <> y.k THEN FALSE ELSE TRUE END", "x.k = y.k"),
    ("x.k IS NOT DISTINCT FROM y.k", "x.k = y.k"),
    ("x.k = 9007199254740993.0", "x.k = 9007199254740993"),
    ("1 // x.k > 0 AND x.j + 0 > 5", "1 // x.k > 0 AND x.j > 5"),
    ("(x.b AND 1 // x.k > 0) = TRUE", "x.b AND 1 // x.k > 0"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_does_not_mean_the_same_stays_apart(one: str, other: str) -> None:
    assert plan(one) != plan(other)


def test_a_part_that_cannot_fail_overtakes_none_that_can() -> None:
    """`x.j + 0` looks as if it could overflow, so it is looked at after the division: there it stays."""
    join, _ = plan("x.k = y.k", where="1 // x.k > 0 AND x.j + 0 > 5")
    assert str(join.left_side.predicate) == "((1 // x.k) > 0) AND ((x.j + 0) > 5)"
    join, _ = plan("x.k = y.k", where="x.j + 0 > 5 AND 1 // x.k > 0")
    assert str(join.left_side.predicate) == "(x.j > 5) AND ((1 // x.k) > 0)"
