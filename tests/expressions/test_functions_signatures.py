"""Every function on nasty values of every type it takes, against DuckDB: columns, literals, both mixed."""

from __future__ import annotations

import itertools

import pytest
from functions_oracle import COMPARISONS, B, D, I, L, T, Table, V, crossed
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INF, INTERVAL, NAN, NASTY, TIMESTAMP, VARCHAR

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Call, Expression, Literal
from penstock.engine.expressions.functions import FUNCTIONS, may_raise
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType

SIGNATURES: list[tuple[str, SqlType, tuple[SqlType, ...]]] = [
    *((name, B, (B, B)) for name in ("add", "subtract", "multiply", "integer_divide", "modulo")),
    *((name, D, (D, D)) for name in ("add", "subtract", "multiply", "divide", "integer_divide", "modulo")),
    ("power", D, (D, D)),
    *((name, T, (T, I)) for name in ("add", "subtract")),
    ("add", T, (I, T)),
    ("subtract", I, (T, T)),
    *((name, I, (I, I)) for name in ("add", "subtract")),
    *((name, type_, (type_,)) for name in ("negate",) for type_ in (B, D, I)),
    *((name, type_, (type_,)) for name in ("abs",) for type_ in (B, D)),
    *((name, D, (D,)) for name in ("floor", "ceil", "round", "sqrt", "ln", "log10", "log2", "exp")),
    ("round", B, (B,)),
    *((name, L, (type_, type_)) for name in COMPARISONS for type_ in (B, D, L, V, T, I)),
    *((name, type_, (type_, type_)) for name in ("greatest", "least") for type_ in (B, D, L, V, T)),
    *((name, type_, (type_, type_)) for name in ("coalesce", "nullif") for type_ in (B, D, L, V, T)),
    *(("is_null", L, (type_,)) for type_ in (B, D, L, V, T, I)),
    *((name, L, (L, L)) for name in ("and", "or")),
    ("not", L, (L,)),
    *((name, V, (V,)) for name in ("lower", "upper", "trim", "ltrim", "rtrim")),
    *((name, V, (V, V)) for name in ("trim", "ltrim", "rtrim", "concat", "concat_operator")),
    *((name, L, (V, V)) for name in ("starts_with", "ends_with", "contains", "like", "ilike")),
    ("length", B, (V,)),
    *((name, B, (T,)) for name in ("year", "month", "day", "hour", "minute", "second", "day_of_week")),
    ("epoch", D, (T,)),
    ("epoch", D, (I,)),
    *(("cast", to, (from_,)) for from_ in (B, D, L) for to in (B, D, L, V)),
    ("cast", V, (T,)),
    ("cast", V, (V,)),
]


@pytest.mark.parametrize(
    ("function", "type_", "parameters"),
    SIGNATURES,
    ids=[f"{f}-{'-'.join(map(str, p))}-{t}" for f, t, p in SIGNATURES],
)
def test_function_oracle(function: str, type_: SqlType, parameters: tuple[SqlType, ...]) -> None:
    """Columns in all combinations, then a literal in place of each argument, then literals only."""
    table = crossed(*((parameter, NASTY[parameter]) for parameter in parameters))
    table.check(Call(type_, function, tuple(table.columns)))
    for position, parameter in enumerate(parameters):
        values = NASTY[parameter]
        rest = [(other, NASTY[other]) for i, other in enumerate(parameters) if i != position]
        table = crossed(*rest) if rest else Table([(BIGINT, [0])])
        calls = []
        for value in values:
            if function == "negate" and value == -(2**63):
                continue  # DuckDB reads a negated literal as a wider integer
            arguments: list[Expression] = list(table.columns) if rest else []
            arguments.insert(position, Literal(parameter, value))
            calls.append(Call(type_, function, tuple(arguments)))
        table.check(*calls)
    table = Table([(BIGINT, [0, 1])])
    constants = itertools.islice(
        itertools.product(*(NASTY[parameter] for parameter in parameters)), 0, None, 7
    )
    table.check(*(Call(type_, function, tuple(map(Literal, parameters, values))) for values in constants))


MORE = [("substring", V, (V, B)), ("substring", V, (V, B, B)), ("round", B, (B, B)), ("sign", B, (D,))]


@pytest.mark.parametrize(
    ("function", "type_", "parameters"),
    [*SIGNATURES, *MORE],
    ids=[f"{f}-{'-'.join(map(str, p))}-{t}" for f, t, p in [*SIGNATURES, *MORE]],
)
def test_what_fails_on_data_says_that_it_may(
    function: str, type_: SqlType, parameters: tuple[SqlType, ...]
) -> None:
    """Else it would be looked at on rows that other conditions have excluded."""
    table = crossed(*((parameter, NASTY[parameter]) for parameter in parameters))
    call = Call(type_, function, tuple(table.columns))
    try:
        evaluate(call, table.arrays.__getitem__, table.length)
    except DataError:
        assert may_raise(call)


def test_many_arguments_oracle() -> None:
    """AND, OR, CONCAT, GREATEST and the like take any number of arguments."""
    for type_, functions in {
        BOOLEAN: ["and", "or", "greatest", "least", "coalesce"],
        DOUBLE: ["greatest", "least", "coalesce"],
        VARCHAR: ["concat", "concat_operator", "greatest", "coalesce"],
        BIGINT: ["greatest", "least"],
    }.items():
        values = NASTY[type_][:7] if type_ is not DOUBLE else [None, NAN, INF, -0.0, 0.0, 1.0]
        table = crossed(*[(type_, values)] * 3)
        columns = tuple(table.columns)
        literals = [Literal(type_, value) for value in values]
        for function in functions:
            table.check(
                *(Call(type_, function, (*columns, *more)) for more in [(), *([x] for x in literals)])
            )
    for function in ("and", "or", "concat", "coalesce", "greatest"):
        type_ = VARCHAR if function == "concat" else BOOLEAN
        table = Table([(type_, NASTY[type_])])
        table.check(Call(type_, function, tuple(table.columns)))


@pytest.mark.parametrize("type_", [BIGINT, DOUBLE, VARCHAR, BOOLEAN, TIMESTAMP, INTERVAL], ids=str)
def test_in_oracle(type_: SqlType) -> None:
    """Lists with and without NULL, shorter and longer than where hashing begins, columns and constants."""
    values = NASTY[type_]
    table = crossed((type_, values), (type_, values[:4]))
    first, second = table.columns
    lists: list[list[Expression]] = [[Literal(type_, value)] for value in values]
    lists.append([Literal(type_, value) for value in values])
    lists.append([Literal(type_, value) for value in values if value is not None])
    lists.append([Literal(type_, value) for value in values[1:4]])
    lists.append([Literal(type_, value) for value in values[2:3] * 20])
    lists.append([Literal(type_, value) for value in [None, *values[2:3] * 20]])
    lists.append([second, Literal(type_, values[1])])
    table.check(*(Call(BOOLEAN, "in", (first, *options)) for options in lists))
    table = Table([(BIGINT, [0])])
    everything = lists[len(values)]
    table.check(*(Call(BOOLEAN, "in", (Literal(type_, value), *everything)) for value in values))


def test_every_name_has_a_function() -> None:
    names = """
        add subtract multiply divide integer_divide modulo negate abs sign floor ceil round sqrt ln
        log10 log2 exp power equal not_equal less less_equal greater greater_equal is_not_distinct
        is_null in greatest least and or not case coalesce nullif cast lower upper length substring
        trim ltrim rtrim replace concat concat_operator like ilike starts_with ends_with contains year
        month day hour minute second day_of_week epoch date_trunc
    """
    assert set(FUNCTIONS) == set(names.split())
