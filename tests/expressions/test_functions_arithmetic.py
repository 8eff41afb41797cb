"""Numbers and lengths of time against DuckDB: rounding, signs, powers, doubles of all sizes."""

from __future__ import annotations

import numpy as np
import pytest
from functions_oracle import Table, crossed
from nasty_values import BIGINT, DOUBLE, DOUBLES, INTEGERS, INTERVAL, SPANS, VARCHAR, words

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Call, Literal
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES


def test_round_to_digits_oracle() -> None:
    digits = [None, 0, 1, 2, 15, 17, 20, 300, 308, 309, 400, -1, -2, -5, -15, -18, -19, -20, -308, -309, -400]
    cents = [1.005, 2.675, -1.005, 0.15, 0.25, 0.35, -0.15, 1234.5678, 567.0, 150.0, -150.0, 1e14 + 0.5]
    for type_, values in (
        (DOUBLE, DOUBLES + cents),
        (BIGINT, [*INTEGERS, 15, 25, -15, 149, 5 * 10**18, -(10**18) * 5]),
    ):
        table = crossed((type_, values), (BIGINT, digits))
        table.check(Call(type_, "round", tuple(table.columns)))
        table = Table([(type_, values)])
        table.check(*(Call(type_, "round", (table.columns[0], Literal(BIGINT, n))) for n in digits))


def test_sign_oracle() -> None:
    for type_, values in ((BIGINT, INTEGERS), (DOUBLE, DOUBLES)):
        table = Table([(type_, values)])
        theirs = table.theirs([Call(BIGINT, "cast", (Call(BIGINT, "sign", tuple(table.columns)),))])[0]
        for result in (BIGINT, DOUBLE):
            sign = Call(result, "sign", tuple(table.columns))
            ours = evaluate(sign, table.arrays.__getitem__, table.length)
            assert ours.type == ARROW_TYPES[result]
            assert ours.to_pylist() == theirs


def test_interval_times_integer_oracle() -> None:
    table = crossed((INTERVAL, SPANS), (BIGINT, [None, 0, 1, -1, 3, -7, 2000]))
    span, count = table.columns
    table.check(Call(INTERVAL, "multiply", (span, count)), Call(INTERVAL, "multiply", (count, span)))
    for factor in (2**63 - 1, 10**9):
        too_long = Call(INTERVAL, "multiply", (span, Literal(BIGINT, factor)))
        with pytest.raises(DataError, match=f"int64 overflow in `c0 \\* {factor}`"):
            evaluate(too_long, table.arrays.__getitem__, table.length)


def test_integers_stay_integers() -> None:
    table = Table([(BIGINT, INTEGERS)])
    for function in ("floor", "ceil", "round"):
        assert table.ours(Call(BIGINT, function, tuple(table.columns))) == INTEGERS


def test_interval_size() -> None:
    table = Table([(INTERVAL, SPANS)])
    sizes = [None if span is None else abs(span) for span in SPANS]
    assert table.ours(Call(INTERVAL, "abs", tuple(table.columns))) == sizes


def test_random_doubles_oracle() -> None:
    """Doubles of all sizes: as text and back, rounded, as logarithms and powers."""
    random = np.random.default_rng(7)
    bits = random.integers(-(2**63), 2**63, 20_000).view(np.float64)
    plain = random.normal(0, 100, 20_000).round(3)
    table = Table([(DOUBLE, np.concatenate([bits, plain]).tolist())])
    value = table.columns[0]
    text = Call(VARCHAR, "cast", (value,))
    table.check(text, Call(DOUBLE, "cast", (text,)), Call(DOUBLE, "round", (value,)))
    table.check(*(Call(DOUBLE, "round", (value, Literal(BIGINT, n))) for n in (2, -2, 17)))
    table.check(*(Call(DOUBLE, name, (value,)) for name in words("sqrt|ln|log10|log2|exp|floor|ceil")))
    table.check(*(Call(DOUBLE, "power", (value, Literal(DOUBLE, n))) for n in (2.0, 0.5, -1.5)))
    table.check(*(Call(DOUBLE, name, (value, Literal(DOUBLE, 7.25))) for name in words("modulo|divide")))
