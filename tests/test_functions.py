"""Scalar functions against DuckDB: every function on nasty values, drawn expressions, and what is ours alone.

The oracle runs without its optimizer, which would leave out parts that fail. Values are compared exactly: nan
equals nan, and 0.0 does not equal -0.0. Where DuckDB fails on a row, so must we.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from penstock.engine.errors import DataError
from penstock.engine.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.expression import INFIX, Call, Column, Expression, Literal, walk
from penstock.engine.functions import FUNCTIONS, is_castable, may_raise
from penstock.engine.types import ARROW_TYPES, SqlType

BIGINT, DOUBLE, BOOLEAN, VARCHAR = SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.VARCHAR
TIMESTAMP, INTERVAL = SqlType.TIMESTAMP, SqlType.INTERVAL

NAN, INF = math.nan, math.inf
RAISED = "raised"
DAY = 86_400_000_000

# ------------------------------------------------------------------------------------------- nasty values


def moment(text: str) -> int:
    return (datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


INTEGERS = [None, 0, 1, -1, 2, -2, 7, -7, 10, 3_037_000_500, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1]
DOUBLES = [
    *(None, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-5, 0.0001, 1e15, 1e16, 1e20, -1e20, 1e300),
    *(2.0**63, -(2.0**63), 2.0**63 - 1024, 0.49999999999999994, 5e-324, 1.7e308, NAN, INF, -INF, 123456.75, 2.0**52 + 1),
]
BOOLEANS = [None, True, False]
TEXTS = [
    *(None, "", " ", "a", "A", "abc", "aBc ", "  abc\t", "a%c", "a_c", "a\\c", "a\nc", "äöü", "ÄÖÜ", "ß", "日本語"),
    *("e\u0301", "😀x😀", "\u00a0x\u2003", "aaa", "x" * 300, "ab" * 100 + "c", "'quoted'", "a\0b"),
]
TIMES = [
    *(None, 0, -1, 1, -DAY, DAY - 1, 951_782_400_000_000, -2_203_929_944_876_544, -62_135_596_800_000_000),
    *(-63_517_824_000_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000, 9_089_348_860_800_000_000),
    *(moment("2021-01-03T23:59:59.5"), moment("2020-12-31T12:34:56.789012"), moment("2024-02-29T00:00:00.000100")),
    *(-9_223_372_022_400_000_000, 9_223_372_036_854_775_806, 1_500_000_000_000_000_000, -4_000_000_000_000_000_000),
]
SPANS = [None, 0, 1, -1, DAY, -DAY, 3_600_000_000, -90_000_000_001, 1_500_000, 400 * DAY + 5, 10**17]
NASTY: dict[SqlType, list[Any]] = {
    BIGINT: INTEGERS,
    DOUBLE: DOUBLES,
    BOOLEAN: BOOLEANS,
    VARCHAR: TEXTS,
    TIMESTAMP: TIMES,
    INTERVAL: SPANS,
}
SMALL_INTEGERS = [None, 0, 1, 2, 3, 5, -1, -2, -3, -7, 100, 2**32 - 1, 2**32, -(2**32), -(2**32) - 1]

# ------------------------------------------------------------------------------------------- the oracle

SQL_NAMES = {"day_of_week": "dayofweek", "power": "pow"}


def sql(node: Expression) -> str:
    """The expression for DuckDB, with every literal's type spelled out."""
    if isinstance(node, Column):
        return node.name
    if isinstance(node, Literal):
        return literal_sql(node)
    parts = [sql(argument) for argument in node.arguments]
    match node.function:
        case "negate":
            return f"(-{parts[0]})"
        case "not":
            return f"(NOT {parts[0]})"
        case "is_null":
            return f"({parts[0]} IS NULL)"
        case "is_not_distinct":
            return f"({parts[0]} IS NOT DISTINCT FROM {parts[1]})"
        case "in":
            return f"({parts[0]} IN ({', '.join(parts[1:])}))"
        case "cast":
            return f"CAST({parts[0]} AS {node.type})"
        case "case":
            whens = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2)]
            return f"(CASE {' '.join(whens)} ELSE {parts[-1]} END)"
        case "round" if len(parts) == 2:
            return f"round({parts[0]}, CAST({parts[1]} AS INTEGER))"
        case name if name in INFIX:
            return "(" + f" {INFIX[name]} ".join(parts) + ")"
        case name:
            return f"{SQL_NAMES.get(name, name)}({', '.join(parts)})"


def literal_sql(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return f"CAST(NULL AS {literal.type})"
    match literal.type:
        case SqlType.DOUBLE:
            return f"CAST('{value!r}' AS DOUBLE)"
        case SqlType.VARCHAR:
            return "(" + " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in str(value).split("\0")) + ")"
        case SqlType.TIMESTAMP:
            return f"make_timestamp({value})"
        case SqlType.INTERVAL:
            return f"to_microseconds({value})"
    return f"CAST('{value}' AS {literal.type})"


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET threads = 1; PRAGMA disable_optimizer")
    return con


def comparable(value: Any) -> Any:
    """Something that is equal exactly if the value is the same; intervals by their length."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return value


def column_values(array: pa.Array) -> list[Any]:
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        array = array.cast(pa.timestamp("us") if pa.types.is_timestamp(array.type) else array.type).view(pa.int64())
    elif pa.types.is_interval(array.type):
        return [None if v is None else v.days * DAY + v.nanoseconds // 1000 for v in array.to_pylist()]
    return [comparable(value) for value in array.to_pylist()]


class Table:
    """Columns of given types in both engines."""

    def __init__(self, columns: Sequence[tuple[SqlType, Iterable[Any]]]) -> None:
        self.types = [type_ for type_, _ in columns]
        self.arrays = [pa.array(list(values), ARROW_TYPES[type_]) for type_, values in columns]
        self.length = len(self.arrays[0])
        names = [f"c{i}" for i in range(len(columns))]
        self.columns = [Column(type_, i, name) for i, (type_, name) in enumerate(zip(self.types, names, strict=True))]
        ids = pa.array(range(self.length))
        connection().register("arrow", pa.table([*self.arrays, ids], names=[*names, "id"]))
        connection().execute("CREATE OR REPLACE TABLE nasty AS SELECT * FROM arrow")

    def theirs(self, expressions: Sequence[Expression]) -> list[list[Any]]:
        """DuckDB's values, one list per expression; RAISED for the rows it fails on."""
        selection = ", ".join(sql(expression) for expression in expressions)
        try:
            result = connection().sql(f"SELECT {selection} FROM nasty ORDER BY id").to_arrow_table()
        except duckdb.Error:
            if len(expressions) > 1:
                return [self.theirs([expression])[0] for expression in expressions]
            return [[self._one(sql(expressions[0]), row) for row in range(self.length)]]
        return [column_values(column.combine_chunks()) for column in result.columns]

    def _one(self, text: str, row: int) -> Any:
        # Only the row asked for may reach the expression: the filter is below it in a plan without rewrites.
        query = f"SELECT {text} FROM (SELECT * FROM nasty WHERE id = {row})"
        try:
            return column_values(connection().sql(query).to_arrow_table().column(0).combine_chunks())[0]
        except duckdb.Error:
            return RAISED

    def ours(self, expression: Expression) -> list[Any]:
        try:
            return self._values(expression, 0, self.length)
        except DataError:
            outcomes = [self._outcome(expression, row) for row in range(self.length)]
            assert RAISED in outcomes, f"`{expression}` fails on the batch and on none of its rows"
            return outcomes

    def _values(self, expression: Expression, start: int, length: int) -> list[Any]:
        result = evaluate(expression, lambda i: self.arrays[i].slice(start, length), length)
        assert isinstance(result, pa.Array)
        result.validate(full=True)
        assert len(result) == length
        assert result.type == ARROW_TYPES[expression.type]
        return column_values(result)

    def _outcome(self, expression: Expression, row: int) -> Any:
        try:
            return self._values(expression, row, 1)[0]
        except DataError:
            return RAISED

    def check(self, *expressions: Expression) -> None:
        for expression, theirs in zip(expressions, self.theirs(expressions), strict=True):
            self.compare(expression, self.ours(expression), theirs)

    def compare(self, expression: Expression, ours: list[Any], theirs: list[Any]) -> None:
        for row, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            if our != their or type(our) is not type(their):
                values = {f"c{i}": array[row] for i, array in enumerate(self.arrays)}
                pytest.fail(f"{sql(expression)} of {values}: ours {our!r}, DuckDB's {their!r}")


def crossed(*types_and_values: tuple[SqlType, list[Any]]) -> Table:
    """All combinations of the values."""
    rows = list(itertools.product(*(values for _, values in types_and_values)))
    columns = list(zip(*rows, strict=True))
    return Table([(type_, column) for (type_, _), column in zip(types_and_values, columns, strict=True)])


# ------------------------------------------------------------------------------------------- every function

B, D, V, T, I, L = BIGINT, DOUBLE, VARCHAR, TIMESTAMP, INTERVAL, BOOLEAN
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_not_distinct"]
SIGNATURES: list[tuple[str, SqlType, tuple[SqlType, ...]]] = [
    *((name, B, (B, B)) for name in ("add", "subtract", "multiply", "integer_divide", "modulo")),
    *((name, D, (D, D)) for name in ("add", "subtract", "multiply", "divide", "integer_divide", "modulo", "power")),
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
    ("function", "type_", "parameters"), SIGNATURES, ids=[f"{f}-{'-'.join(map(str, p))}-{t}" for f, t, p in SIGNATURES]
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
            arguments: list[Expression] = list(table.columns) if rest else []
            arguments.insert(position, Literal(parameter, value))
            calls.append(Call(type_, function, tuple(arguments)))
        table.check(*calls)
    table = Table([(BIGINT, [0, 1])])
    constants = itertools.islice(itertools.product(*(NASTY[parameter] for parameter in parameters)), 0, None, 7)
    for values in constants:
        table.check(Call(type_, function, tuple(map(Literal, parameters, values))))


