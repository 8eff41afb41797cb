"""Scalar functions computed by DuckDB and by us, over the same columns.

The oracle runs without its optimizer, which would leave out parts that fail. Values are compared exactly: nan
equals nan, and 0.0 does not equal -0.0. Where DuckDB fails on a row, so must we.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INTERVAL, TIMESTAMP, VARCHAR

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import INFIX, Column, Expression, Literal
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES, SqlType

RAISED = "raised"

B, D, V, T, I, L = BIGINT, DOUBLE, VARCHAR, TIMESTAMP, INTERVAL, BOOLEAN
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_not_distinct"]

COUNTER = itertools.count()
# What DuckDB raises for values; a statement it does not understand is a mistake of the test.
FAILURES = (duckdb.OutOfRangeException, duckdb.InvalidInputException, duckdb.ConversionException)
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


def selection_sql(expression: Expression) -> str:
    """The expression so that its result comes without a loss; intervals by their length."""
    return f"epoch_us({sql(expression)})" if expression.type is INTERVAL else sql(expression)


def literal_sql(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return f"CAST(NULL AS {literal.type})"
    match literal.type:
        case SqlType.DOUBLE:
            return f"CAST('{value!r}' AS DOUBLE)"
        case SqlType.VARCHAR:
            return (
                "("
                + " || chr(0) || ".join(
                    "'" + part.replace("'", "''") + "'" for part in str(value).split("\0")
                )
                + ")"
            )
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
    """Something that is equal exactly if the value is the same."""
    if value == "-nan":
        return "nan"  # DuckDB writes the sign of a nan, which no comparison sees
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return value


def column_values(array: pa.Array) -> list[Any]:
    if array.type in (pa.timestamp("us"), pa.duration("us")):
        array = array.view(pa.int64())
    return [comparable(value) for value in array.to_pylist()]


class Table:
    """Columns of given types in both engines."""

    def __init__(self, columns: Sequence[tuple[SqlType, Iterable[Any]]]) -> None:
        self.types = [type_ for type_, _ in columns]
        self.arrays = [pa.array(list(values), ARROW_TYPES[type_]) for type_, values in columns]
        self.length = len(self.arrays[0])
        names = [f"c{i}" for i in range(len(columns))]
        self.columns = [
            Column(type_, i, name) for i, (type_, name) in enumerate(zip(self.types, names, strict=True))
        ]
        self.name = f"nasty{next(COUNTER)}"
        ids = pa.array(range(self.length))
        connection().register("arrow", pa.table([*self.arrays, ids], names=[*names, "id"]))
        connection().execute(f"CREATE TABLE {self.name} AS SELECT * FROM arrow")

    def theirs(self, expressions: Sequence[Expression]) -> list[list[Any]]:
        """DuckDB's values, one list per expression; RAISED for the rows it fails on."""
        selection = ", ".join(selection_sql(expression) for expression in expressions)
        try:
            result = connection().sql(f"SELECT {selection} FROM {self.name} ORDER BY id").to_arrow_table()
        except FAILURES:
            if len(expressions) > 1:
                return [self.theirs([expression])[0] for expression in expressions]
            return [self._row_by_row(selection_sql(expressions[0]))]
        return [column_values(column.combine_chunks()) for column in result.columns]

    def _row_by_row(self, text: str) -> list[Any]:
        """TRY gives NULL for a row that fails; whether a NULL is one of those is asked once more."""
        tried = self._query(f"TRY({text})", f"{self.name} ORDER BY id")
        return [self._one(text, row) if value is None else value for row, value in enumerate(tried)]

    def _one(self, text: str, row: int) -> Any:
        try:
            return self._query(text, f"(SELECT * FROM {self.name} WHERE id = {row})")[0]
        except FAILURES:
            return RAISED

    def _query(self, text: str, source: str) -> list[Any]:
        return column_values(
            connection().sql(f"SELECT {text} FROM {source}").to_arrow_table().column(0).combine_chunks()
        )

    def ours(self, expression: Expression) -> list[Any]:
        try:
            return self.values(expression, 0, self.length)
        except DataError:
            outcomes = [self._outcome(expression, row) for row in range(self.length)]
            assert RAISED in outcomes, f"`{expression}` fails on the batch and on none of its rows"
            return outcomes

    def values(self, expression: Expression, start: int, length: int) -> list[Any]:
        result = evaluate(expression, lambda i: self.arrays[i].slice(start, length), length)
        assert isinstance(result, pa.Array)
        result.validate(full=True)
        assert len(result) == length
        assert result.type == ARROW_TYPES[expression.type]
        return column_values(result)

    def _outcome(self, expression: Expression, row: int) -> Any:
        try:
            return self.values(expression, row, 1)[0]
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
