"""Evaluation without an oracle: which rows each part sees, what is computed once, messages, NULL alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INTERVAL, TIMESTAMP, VARCHAR

from penstock.engine.expressions.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES, SqlType

N = Column(BIGINT, 0, "n")
ZERO, ONE = Literal(BIGINT, 0), Literal(BIGINT, 1)
INVERSE = Call(BIGINT, "integer_divide", (Literal(BIGINT, 10), N))
NOT_ZERO = Call(BOOLEAN, "not_equal", (N, ZERO))
IS_ZERO = Call(BOOLEAN, "equal", (N, ZERO))
LARGE = Call(BOOLEAN, "greater", (INVERSE, ONE))
NUMBERS = pa.array([0, 1, None, 5, 100], pa.int64())


def value_of(expression: Expression) -> list[Any]:
    return evaluate(expression, lambda _: NUMBERS, len(NUMBERS)).to_pylist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Call(BIGINT, "case", (NOT_ZERO, INVERSE, Literal(BIGINT, None))), [None, 10, None, 2, 0]),
        (Call(BIGINT, "case", (IS_ZERO, ONE, INVERSE)), [1, 10, None, 2, 0]),
        (Call(BIGINT, "case", (IS_ZERO, ONE, LARGE, INVERSE, N)), [1, 10, None, 2, 100]),
        (Call(BIGINT, "case", (Call(BOOLEAN, "and", (NOT_ZERO, LARGE)), ONE, ZERO)), [0, 1, 0, 1, 0]),
        (Call(BIGINT, "coalesce", (N, INVERSE)), [0, 1, None, 5, 100]),
        (Call(BOOLEAN, "and", (NOT_ZERO, LARGE)), [False, True, None, True, False]),
        (Call(BOOLEAN, "and", (LARGE, NOT_ZERO)), [False, True, None, True, False]),
        (Call(BOOLEAN, "or", (IS_ZERO, LARGE)), [True, True, None, True, False]),
        (
            Call(BOOLEAN, "and", (NOT_ZERO, LARGE, Call(BOOLEAN, "less", (INVERSE, N)))),
            [False, False, None, True, False],
        ),
        (Call(BOOLEAN, "not", (Call(BOOLEAN, "and", (NOT_ZERO, LARGE)),)), [True, False, None, False, True]),
    ],
    ids=str,
)
def test_guarded_part_does_not_fail(expression: Expression, expected: list[Any]) -> None:
    assert value_of(expression) == expected
    assert value_of(Call(expression.type, "coalesce", (expression, expression))) == expected


@pytest.mark.parametrize(
    "expression",
    [
        Call(BIGINT, "case", (NOT_ZERO, ONE, INVERSE)),
        Call(BIGINT, "coalesce", (INVERSE, N)),
        Call(BIGINT, "nullif", (N, INVERSE)),
        Call(BOOLEAN, "and", (IS_ZERO, LARGE)),
        Call(BOOLEAN, "in", (N, INVERSE)),
    ],
    ids=str,
)
def test_part_that_is_needed_fails(expression: Expression) -> None:
    with pytest.raises(DataError, match=r"^Division by zero in `10 // n`$"):
        value_of(expression)


def test_predicate_guards_its_parts() -> None:
    """Also where the guard is NULL: only what is true is kept."""
    guard = Call(BOOLEAN, "greater", (N, ZERO))
    unknown = Call(BOOLEAN, "equal", (Column(BIGINT, 1), ZERO))
    columns = [pa.array([0, 2, None, 5]), pa.array([None, None, None, None], pa.int64())]
    for predicate, expected in [
        (Call(BOOLEAN, "and", (guard, LARGE)), [1, 3]),
        (Call(BOOLEAN, "and", (LARGE, guard)), [1, 3]),
        (Call(BOOLEAN, "and", (unknown, LARGE)), []),
        (Call(BOOLEAN, "or", (Call(BOOLEAN, "and", (unknown, LARGE)), guard)), [1, 3]),
        (Call(BOOLEAN, "or", (IS_ZERO, LARGE)), [0, 1, 3]),
    ]:
        mask = evaluate_predicate(predicate, columns.__getitem__, 4)
        assert mask.type == pa.bool_()
        assert selected(mask).tolist() == expected
        assert selected(mask).dtype == np.int64


def test_nothing_fails_without_rows() -> None:
    impossible = Call(BIGINT, "integer_divide", (ONE, ZERO))
    assert evaluate(impossible, lambda _: NUMBERS, 0).equals(pa.array([], pa.int64()))
    assert len(evaluate_predicate(Call(BOOLEAN, "equal", (impossible, ONE)), lambda _: NUMBERS, 0)) == 0
    with pytest.raises(DataError):
        evaluate(impossible, lambda _: NUMBERS, 1)


def test_selected_of_a_slice() -> None:
    """The bitmaps of a slice do not start at a byte."""
    values = [None, True, False, True, None, False, True, True, None, True, True]
    for start in range(len(values)):
        expected = [i for i, value in enumerate(values[start:]) if value]
        assert selected(pa.array(values, pa.bool_()).slice(start)).tolist() == expected


def test_equal_parts_are_evaluated_once() -> None:
    asked: list[int] = []

    def column(index: int) -> pa.Array:
        asked.append(index)
        return NUMBERS

    doubled = Call(BIGINT, "add", (N, N))
    chosen = Call(BIGINT, "case", (NOT_ZERO, INVERSE, doubled))
    evaluate(Call(BOOLEAN, "equal", (chosen, doubled)), column, len(NUMBERS))
    assert asked == [0]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Call(BIGINT, "add", (N, Literal(BIGINT, 2**63 - 1))), "int64 overflow in `n + 9223372036854775807`"),
        (Call(BIGINT, "modulo", (N, ZERO)), "Division by zero in `n % 0`"),
        (
            Call(BIGINT, "cast", (Literal(DOUBLE, 1e20),)),
            "Expected a number in the range of BIGINT in `CAST(1e+20 AS BIGINT)`, found `1e+20`",
        ),
        (
            Call(BIGINT, "cast", (Literal(VARCHAR, "12 apples"),)),
            "Expected a BIGINT in `CAST('12 apples' AS BIGINT)`, found `12 apples`",
        ),
        (
            Call(TIMESTAMP, "cast", (Literal(VARCHAR, "infinity"),)),
            "Expected a TIMESTAMP in `CAST('infinity' AS TIMESTAMP)`, found `infinity`",
        ),
        (
            Call(BIGINT, "cast", (Literal(VARCHAR, "0b101"),)),
            "Expected a BIGINT in `CAST('0b101' AS BIGINT)`, found `0b101`",
        ),
        (
            Call(TIMESTAMP, "date_trunc", (Literal(VARCHAR, "aeon"), Literal(TIMESTAMP, 0))),
            "Expected a unit such as `hour` in `DATE_TRUNC('aeon', TIMESTAMP '1970-01-01 00:00:00')`, "
            "found `aeon`",
        ),
        (
            Call(TIMESTAMP, "add", (Literal(TIMESTAMP, 2**63 - 2), Literal(INTERVAL, 1))),
            "TIMESTAMP out of range in `TIMESTAMP '9223372036854775806 us' + INTERVAL 1 MICROSECOND`",
        ),
    ],
)
def test_message(expression: Expression, message: str) -> None:
    with pytest.raises(DataError) as caught:
        value_of(expression)
    assert str(caught.value) == message


@pytest.mark.parametrize("type_", list(ARROW_TYPES), ids=str)
def test_null_literal(type_: SqlType) -> None:
    """NULL without a type becomes any type; and a literal alone is an array."""
    null = Literal(SqlType.NULL, None)
    for expression in (Literal(type_, None), Call(type_, "cast", (null,))):
        assert evaluate(expression, lambda _: NUMBERS, 3).equals(pa.nulls(3, ARROW_TYPES[type_]))
    assert evaluate(Call(BOOLEAN, "is_null", (null,)), lambda _: NUMBERS, 2).to_pylist() == [True, True]
