"""Scalar functions against DuckDB: every function on nasty values, drawn expressions, and what is ours alone.

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
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from penstock.engine.errors import DataError
from penstock.engine.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.expression import INFIX, Call, Column, Expression, Literal, columns_of, walk
from penstock.engine.functions import FUNCTIONS, may_raise
from penstock.engine.types import ARROW_TYPES, SqlType

BIGINT, DOUBLE, BOOLEAN, VARCHAR = SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.VARCHAR
TIMESTAMP, INTERVAL = SqlType.TIMESTAMP, SqlType.INTERVAL

NAN, INF = math.nan, math.inf
RAISED = "raised"
DAY = 86_400_000_000

# ---------------------------------------------------------------------------------- nasty values


def words(text: str) -> list[Any]:
    return text.split("|")


def moment(text: str) -> int:
    """Microseconds since the epoch."""
    return int(np.datetime64(text, "us").astype(np.int64))


INTEGERS = [None, 0, 1, -1, 2, -2, 7, -7, 10, 3_037_000_500, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1]
DOUBLES = [
    None,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    1e-5,
    0.0001,
    123456.75,
    NAN,
    INF,
    -INF,
]
DOUBLES += [1e10, 1e15, 1e16, 1e20, -1e20, 1e300, 1.7e308, 5e-324, 0.49999999999999994, 2.0**52 + 1]
DOUBLES += [2.0**63, -(2.0**63), 2.0**63 - 1024]
BOOLEANS = [None, True, False]
TEXTS = words("|_| |a|A|abc|aBc |  abc\t|a%c|a_c|a\\c|a\nc|äöü|ÄÖÜ|ß|日本語|e\u0301|😀x😀|\u00a0x\u2003|aaa")
TEXTS += [None, "x" * 300, "ab" * 100 + "c", "'quoted'", "a\0b"]
TIMES = [
    None,
    0,
    -1,
    1,
    -DAY,
    DAY - 1,
    moment("1900-02-28T13:14:15.123456"),
    moment("0001-01-01"),
    moment("-0043-03-15"),
]
TIMES += [
    moment("9999-12-31T23:59:59.999999"),
    moment("10000-01-01"),
    moment("290000-01-01"),
    moment("2000-02-29"),
]
TIMES += [
    moment("2021-01-03T23:59:59.5"),
    moment("2020-12-31T12:34:56.789012"),
    moment("2024-02-29T00:00:00.0001"),
]
TIMES += [-9_223_372_022_400_000_000, 2**63 - 2, 1_500_000_000_000_000_000, -4_000_000_000_000_000_000]
SPANS = [None, 0, 1, -1, DAY, -DAY, 3_600_000_000, -90_000_000_001, 1_500_000, 400 * DAY + 5, 10**15]
NASTY: dict[SqlType, list[Any]] = {
    BIGINT: INTEGERS,
    DOUBLE: DOUBLES,
    BOOLEAN: BOOLEANS,
    VARCHAR: TEXTS,
    TIMESTAMP: TIMES,
    INTERVAL: SPANS,
}
SMALL_INTEGERS = [None, 0, 1, 2, 3, 5, -1, -2, -3, -7, 100, 2**32 - 1, 2**32, -(2**32), -(2**32) - 1]

# ---------------------------------------------------------------------------------- the oracle

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


# ---------------------------------------------------------------------------------- every function

B, D, V, T, I, L = BIGINT, DOUBLE, VARCHAR, TIMESTAMP, INTERVAL, BOOLEAN
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_not_distinct"]
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


def test_substring_oracle() -> None:
    texts = [None, "", "h", "hello", "日本語😀x", "e\u0301"]
    for some, positions in ((texts, SMALL_INTEGERS[:11]), (texts[3:4], SMALL_INTEGERS)):
        table = crossed((VARCHAR, some), (BIGINT, positions), (BIGINT, positions))
        columns = tuple(table.columns)
        table.check(Call(VARCHAR, "substring", columns[:2]), Call(VARCHAR, "substring", columns))
    table = Table([(VARCHAR, texts)])
    for pair in [*itertools.product(SMALL_INTEGERS[:10], repeat=2), (1, 2**32), (2**32,), (-2,)]:
        table.check(Call(VARCHAR, "substring", (*table.columns, *(Literal(BIGINT, n) for n in pair))))


def test_replace_oracle() -> None:
    texts = [None, "", "a", "aa", "aaa", "abcabc", "😀", "\\1", ".*"]
    table = crossed(*[(VARCHAR, texts)] * 3)
    table.check(Call(VARCHAR, "replace", tuple(table.columns)))
    text, old, _ = table.columns
    table.check(*(Call(VARCHAR, "replace", (text, old, Literal(VARCHAR, new))) for new in texts))
    table.check(
        *(Call(VARCHAR, "replace", (text, Literal(VARCHAR, "a"), Literal(VARCHAR, new))) for new in texts)
    )


def test_like_patterns_oracle() -> None:
    texts = [None, *words("|a|ab|a%b|a_b|a\\b|a\\%|A\nB|ÄB|İ|ß|日本|a.b|a+|(a|[ab]|\0")]
    patterns = [
        None,
        "a|b",
        *words("|%|_|__|a%|%b|a_b|a\\%|\\|%\\%|a%b|äb|i%|SS|_本|a.b|a+|(a|[ab]|%%|_%_|%_|ab$|^a"),
    ]
    patterns += ["\0", "a\n%", "A%B"]
    table = crossed((VARCHAR, texts), (VARCHAR, patterns))
    for function in ("like", "ilike"):
        table.check(Call(BOOLEAN, function, tuple(table.columns)))
        for pattern in patterns:
            Table([(VARCHAR, texts)]).check(
                Call(BOOLEAN, function, (table.columns[0], Literal(VARCHAR, pattern)))
            )


def test_case_of_every_letter_oracle() -> None:
    """But for letters that got their other case after Unicode 14: one of the two does not know it."""
    letters = [chr(code) for code in range(1, 0x1100) if chr(code) not in "\u019b\u0264\u0277\u027c"]
    table = Table([(VARCHAR, letters)])
    for function in ("lower", "upper", "trim"):
        table.check(Call(VARCHAR, function, tuple(table.columns)))
    table.check(Call(BIGINT, "length", tuple(table.columns)))


def test_date_trunc_oracle() -> None:
    units = words(
        "microseconds|Millisecond|ms|SECOND|s|minute|m|hour|h|day|week|month|quarter|year|decade|century"
    )
    units += [None, *words("millennium|isoyear|epoch|dow|mons|yrs")]
    random = np.random.default_rng(5).integers(-(2**62), 2**62, 300).tolist()
    table = Table([(TIMESTAMP, TIMES + random)])
    table.check(*(Call(TIMESTAMP, "date_trunc", (Literal(VARCHAR, unit), *table.columns)) for unit in units))
    table = crossed((VARCHAR, [*units, "fortnight"]), (TIMESTAMP, TIMES))
    table.check(Call(TIMESTAMP, "date_trunc", tuple(table.columns)))


def test_calendar_oracle() -> None:
    """Each week of 1200 years around the epoch and random times of all."""
    random = np.random.default_rng(6).integers(-(2**63) + 10**16, 2**63 - 1, 20_000).tolist()
    table = Table(
        [(TIMESTAMP, [*range(-600 * 366 * DAY, 600 * 366 * DAY, 7 * DAY + 3_599_999_999), *random])]
    )
    for function in ("year", "month", "day", "hour", "minute", "second", "day_of_week"):
        table.check(Call(BIGINT, function, tuple(table.columns)))
    table.check(Call(VARCHAR, "cast", tuple(table.columns)), Call(DOUBLE, "epoch", tuple(table.columns)))


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


# ---------------------------------------------------------------------------------- text to values

INTEGER_TEXTS = words(
    "1| 42 |\t42\n|\x0b7\x0c\r|+5|-5|- 5||  |4.5|5.5|-4.5|4.4|1e3|1.5e0|2.5e0|1E3|1e-1|5e-1|15e-1|"
    "-25e-1|1_000|1__0|_1|1_|0x1F|0X1f|-0x1F|0o17|00012|9223372036854775807|9223372036854775808|"
    "-9223372036854775808|-9223372036854775809|1.|.|.5|9223372036854775807.4|9223372036854775807.5|"
    "-9223372036854775808.4|-9223372036854775808.5|-.5|1e|1e18|1e19|9.2e18|-9223372036854775808e0|"
    "92233720368547758075e-1|abc|1 2|nan|inf|true|1,000|1f|１|\xa042|12e2.5|1e+|+-5|1.5.5|1e-400|"
    "1_000.5|0.1_5|1._5|--5|-0|1e00000000000000000001|1.49999999999999999999999999|"
    "0.50000000000000000000000001|000000000000000000000005|0xFFFFFFFFFFFFFFFF|0x7FFFFFFFFFFFFFFF|0x|"
    "0xg|1.0e+2|12345678901234567e-16|5e-19|1\x00|1_0e1_0|4999999999999999999e-19|"
    "5000000000000000000e-19|-5000000000000000000e-19|9e-20|123456789e-3|-1e18"
)
DOUBLE_TEXTS = words(
    "NaN|Infinity|-inf|+inf|-nan|+nan| nan |nan(abc)|infinit|1e400|-1e400|4.9e-324|-0.0|"
    "1.7976931348623159e308|1e1000000000000|1.e5|.e5|e5|0x1p3|1d|0.1|1e-5|123456789.123456789"
)
DOUBLE_TEXTS += [text for text in INTEGER_TEXTS if text != "+-5"]  # DuckDB takes both signs of a double
BOOLEAN_TEXTS = words("true|True|t|T|f|yes|NO|y|N|on|off|0|1|2| true |FALSE||true\n")
TIMESTAMP_TEXTS = words(
    "2020-01-02|2020-1-2| 2020-01-02 |2020-01-02 03:04:05|2020-01-02T03:04:05|2020-01-02t03:04:05|"
    "2020-01-02  03:04:05|2020-01-02 03:04|2020-01-02 03|2020-01-02 3:4:5|2020-01-02 03:04:05.1|"
    "2020-01-02 03:04:05.|2020-01-02 03:04:05.123456|2020-01-02 03:04:05.9999999|"
    "2020-01-02 03:04:05.12345678999|2020-01-02 03:04:05Z|2020-01-02T03:04:05.5Z|2020-01-02 03:04:05z|"
    "2020-01-02 03:04:05+02|2020-01-02 03:04Z|2020-01-02 03:04:05+02:30|2020-01-02 03:04:05-0230|"
    "2020-01-02 03:04:05 +02|2020-01-02 03:04:05+2|2020-01-02 03:04:05+02:30:15|"
    "2020-01-02 03:04:05 UTC|2020-01-02 03:04:05UTC|2020-01-02 03:04:05 Europe/Berlin|"
    "2020-01-02 24:00:00|2020-01-02 24:00:01|2020-01-02 25:00:00|2020-01-02 03:60:00|"
    "2020-01-02 03:04:60|2020-02-30|2020-13-01|2020-00-01|2021-02-29|1900-02-29|2000-02-29|2020-12-32|"
    "2020-04-31|2020-01-00|0000-01-01|0001-01-01|-0001-01-01|-5-01-01|10000-01-01|99-01-01|"
    "123456-01-01|5-1-1|294247-01-10 04:00:54.775806|294247-01-10 04:00:54.775807|294247-01-11|"
    "294248-01-01|290309-12-22 (BC)|290309-12-21 (BC)|0044-03-15 (BC)|0044-03-15 (BC) 12:00:00|"
    "0044-03-15 (bc)|0044-03-15 BC|0000-01-01 (BC)|0044-03-15(BC)|0044-03-15 12:00:00 (BC)|"
    "-0044-03-15 (BC)|-290308-12-22 00:00:00|2020/01/02 03:04:05|2020 01 02|20200102|2020-01/02|"
    "2020-001-02|2020-01-002|2020-01-02 003:04:05|epoch|Epoch| epoch |now||abc|2020-01|2020|12:00:00|"
    "2020-01-02 abc|2020-01-02T|2020-01-02 |2020-01-02Z|2020-01-02+02|2020-01-02 -03:04:05|+2020-01-02|"
    "2020-01-02 03:04:05.5 |2020-01-02 03:04:05,5|2020-01-02_03:04:05|2020-01-02 03:04:05.abc|"
    "2020-01-02 03:04:05+|2020\\01\\02|2020-01-02\n03:04:05|2020-01-02 03:04:05 a b|"
    "2020-01-02 03:04:05+02 UTC|2020-01-02 03:004:05|2020-01-02 100:04:05|99999999999-01-01|"
    "2020-01-02 03:04:05+0:30|2020-01-02 03:04:05+02:3|2020-01-02 03:04:05+023|2020-01-02 03:04:05\xa0|"
    "2020-01-02 03:04:05+02 |2020-01-02 03:04:05 Z|294247-01-10 24:00:00|9999-12-31 23:59:59.999999|"
    "2020-01-02 24:00"
)


@pytest.mark.parametrize(
    ("target", "texts"),
    [(BIGINT, INTEGER_TEXTS), (DOUBLE, DOUBLE_TEXTS), (BOOLEAN, BOOLEAN_TEXTS), (TIMESTAMP, TIMESTAMP_TEXTS)],
    ids=["BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"],
)
def test_cast_from_text_oracle(target: SqlType, texts: list[str]) -> None:
    """Each text alone, where Arrow may read it, and all good ones together, where our own way must agree."""
    table = Table([(VARCHAR, texts)])
    cast = Call(target, "cast", tuple(table.columns))
    theirs = table.theirs([cast])[0]
    table.compare(cast, table.ours(cast), theirs)
    good = [i for i, value in enumerate(theirs) if value != RAISED]
    together = Table([(VARCHAR, [None, *(texts[i] for i in good)])])
    together.compare(cast, together.ours(cast), [None, *(theirs[i] for i in good)])


# ---------------------------------------------------------------------------------- drawn expressions

MIXED_ROWS = 25


@functools.cache
def mixed() -> Table:
    """Two columns of each type, nasty values in random company; small ones prevail so that not all fails."""
    random = np.random.default_rng(3)
    columns = []
    for type_, usual in (
        (BIGINT, [0, 1, 2, 3, -1, None]),
        (DOUBLE, [0.0, 1.0, -2.5, NAN, INF, None]),
        (BOOLEAN, [True, False, None]),
        (VARCHAR, ["", "a", "12", "-3.5", "x", None]),
        (TIMESTAMP, [0, 1, moment("2020-02-29T12:00:00"), None]),
    ):
        for share in (0.95, 0.6):
            pools = [usual if random.random() < share else NASTY[type_] for _ in range(MIXED_ROWS)]
            columns.append((type_, [pool[random.integers(len(pool))] for pool in pools]))
    return Table(columns)


# Without NULL: of a function that is NULL then, DuckDB's binder drops the other arguments, fail or not.
SMALL: dict[SqlType, list[Any]] = {
    BIGINT: [0, 1, -1, 2, 7, 2**63 - 1],
    DOUBLE: [0.0, -0.0, 1.0, 2.5, NAN, INF, -INF],
    BOOLEAN: [True, False],
    VARCHAR: ["", "a", "12", "%"],
    TIMESTAMP: [0, -1, 1_583_000_000_123_456],
}


UNITS = st.sampled_from(["hour", "week", "month"]).map(lambda name: Literal(VARCHAR, name))
SHIFTS = st.sampled_from([0, 1, -DAY, 10**15]).map(lambda us: Literal(INTERVAL, us))


def literals(type_: SqlType, values: Iterable[Any]) -> st.SearchStrategy[Expression]:
    return st.sampled_from([Literal(type_, value) for value in values])


# What a call of each type can be: names, and a type or a strategy for each argument.
TREES: dict[SqlType, list[tuple[str, tuple[Any, ...]]]] = {
    B: [
        ("add subtract multiply integer_divide modulo", (B, B)),
        ("negate abs", (B,)),
        *(("cast", (of,)) for of in (D, L, V)),
        ("length", (V,)),
        ("year second day_of_week", (T,)),
    ],
    D: [
        ("add subtract multiply divide modulo", (D, D)),
        ("negate abs round floor sqrt ln", (D,)),
        *(("cast", (of,)) for of in (B, L, V)),
        ("epoch", (T,)),
    ],
    L: [
        ("and or", (L, L)),
        ("and or", (L, L, L)),
        ("not", (L,)),
        *(("is_null", (of,)) for of in SMALL),
        *((" ".join(COMPARISONS), (of, of)) for of in SMALL),
        *(("in", (of, of, literals(of, [None, *SMALL[of]]))) for of in SMALL),
        ("like contains", (V, literals(V, SMALL[V]))),
    ],
    # No cast of DOUBLE: DuckDB writes the sign of a nan, which depends on how it came about.
    V: [("concat concat_operator", (V, V)), *(("cast", (of,)) for of in (B, L, T)), ("upper trim", (V,))],
    T: [("date_trunc", (UNITS, T)), ("add subtract", (T, SHIFTS))],
}
for type_, trees in TREES.items():
    null = literals(type_, [None])
    trees += [
        ("case", (L, type_, type_)),
        ("case", (L, type_, null)),
        ("case", (L, null, L, type_, type_)),
        ("coalesce nullif", (type_, type_)),
        ("coalesce greatest least", (type_, type_, type_)),
    ]


@st.composite
def expressions(draw: st.DrawFn, type_: SqlType | None = None, depth: int = 4) -> Expression:
    """An expression over the columns of `mixed`, at most `depth` calls deep."""
    type_ = draw(st.sampled_from(list(SMALL))) if type_ is None else type_
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        columns = [column for column in mixed().columns if column.type is type_]
        return draw(st.one_of(st.sampled_from(columns), literals(type_, SMALL[type_])))
    names, parameters = draw(st.sampled_from(TREES[type_]))
    arguments = [
        draw(expressions(parameter, depth - 1) if isinstance(parameter, SqlType) else parameter)
        for parameter in parameters
    ]
    name = draw(st.sampled_from(names.split()))
    if name == "negate" and not columns_of(arguments[0]):
        name = "abs"  # DuckDB's binder computes a negated constant, and fails even if no row needs it
    return Call(type_, name, tuple(arguments))


DRAWN = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def is_lazier(expression: Expression) -> bool:
    """Whether DuckDB may fail where we do not: it evaluates all of an AND and OR that is not a condition."""
    connectives = [
        node for node in walk(expression) if isinstance(node, Call) and node.function in ("and", "or")
    ]
    return any(may_raise(node) for node in connectives)


@DRAWN
@given(expressions())
def test_drawn_expression_oracle(expression: Expression) -> None:
    """Both fail on the batch or none does; rows on which none does have the same value.

    Beside an argument that is NULL on all rows DuckDB does not look at the others, fail or not: on a single
    row it is no measure of failing.
    """
    ours, theirs = mixed().ours(expression), mixed().theirs([expression])[0]
    if RAISED in ours:
        parts = (node for node in walk(expression) if RAISED not in theirs)
        assert RAISED in theirs or any(set(mixed().ours(part)) == {None} for part in parts), sql(expression)
    elif RAISED in theirs:
        assert is_lazier(expression), sql(expression)
    pairs = [(our, our if RAISED in (our, their) else their) for our, their in zip(ours, theirs, strict=True)]
    mixed().compare(expression, *map(list, zip(*pairs, strict=True)))


@DRAWN
@given(expressions(BOOLEAN))
def test_drawn_predicate_oracle(predicate: Expression) -> None:
    """What WHERE keeps. DuckDB may fail where we do not: it takes the parts of an AND as they are written."""
    table = mixed()
    try:
        query = f"SELECT id FROM {table.name} WHERE {sql(predicate)} ORDER BY id"
        theirs = [row for (row,) in connection().execute(query).fetchall()]
    except FAILURES:
        return
    try:
        mask = evaluate_predicate(predicate, table.arrays.__getitem__, table.length)
    except DataError:
        # See above; which rows DuckDB looks at together is not known here.
        assert any(None in table.ours(part) for part in walk(predicate)), sql(predicate)
    else:
        assert selected(mask).tolist() == theirs, sql(predicate)


@DRAWN
@given(expressions(), st.integers(0, MIXED_ROWS))
def test_drawn_expression_in_parts(expression: Expression, cut: int) -> None:
    """A batch cut in two gives the same values, and fails if and only if one of the parts does."""
    table = mixed()

    def outcome(start: int, length: int) -> list[Any] | str:
        try:
            return table._values(expression, start, length)
        except DataError:
            return RAISED

    whole, first, second = outcome(0, MIXED_ROWS), outcome(0, cut), outcome(cut, MIXED_ROWS - cut)
    if whole == RAISED:
        assert RAISED in (first, second)
    else:
        assert isinstance(first, list)
        assert isinstance(second, list)
        assert whole == first + second


# ---------------------------------------------------------------------------------- which rows are seen

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


# ---------------------------------------------------------------------------------- messages, types, names


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


def test_interval_as_text_oracle() -> None:
    """A difference of two timestamps is days and the rest, as we write every interval."""
    table = crossed((TIMESTAMP, TIMES[:9]), (TIMESTAMP, TIMES[:9]))
    table.check(Call(VARCHAR, "cast", (Call(INTERVAL, "subtract", tuple(table.columns)),)))


@pytest.mark.parametrize("type_", list(ARROW_TYPES), ids=str)
def test_null_literal(type_: SqlType) -> None:
    """NULL without a type becomes any type; and a literal alone is an array."""
    null = Literal(SqlType.NULL, None)
    for expression in (Literal(type_, None), Call(type_, "cast", (null,))):
        assert evaluate(expression, lambda _: NUMBERS, 3).equals(pa.nulls(3, ARROW_TYPES[type_]))
    assert evaluate(Call(BOOLEAN, "is_null", (null,)), lambda _: NUMBERS, 2).to_pylist() == [True, True]


def test_every_name_has_a_function() -> None:
    names = """
        add subtract multiply divide integer_divide modulo negate abs sign floor ceil round sqrt ln
        log10 log2 exp power equal not_equal less less_equal greater greater_equal is_not_distinct
        is_null in greatest least and or not case coalesce nullif cast lower upper length substring
        trim ltrim rtrim replace concat concat_operator like ilike starts_with ends_with contains year
        month day hour minute second day_of_week epoch date_trunc
    """
    assert set(FUNCTIONS) == set(names.split())
