"""Scalar SQL from text through the binder and the engine, against DuckDB; and the types and casts it gets."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.expressions.functions import FUNCTIONS
from penstock.engine.rows.types import SqlType
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.bind.catalog import Catalog
from penstock.optimizer.names.function_names import (
    FUNCTION_NAMES,
    FUNCTION_NODES,
    NAMED_FUNCTIONS,
    TIME_PARTS,
)
from penstock.optimizer.names.functions import SIGNATURES
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.read.statements import CreateStream
from penstock.optimizer.tree.logical import Project

START = datetime.datetime(2020, 2, 29, 23, 59, 58, 500_000)
TABLE = pa.table(
    {
        "ts": pa.array([START + datetime.timedelta(seconds=i * 3601) for i in range(6)], pa.timestamp("us")),
        "i": pa.array([1, -7, None, 0, 12, 3], pa.int64()),
        "j": pa.array([3, 2, 5, None, -4, 3], pa.int64()),
        "d": pa.array([1.5, -2.25, 0.5, None, 100.0, 3.0], pa.float64()),
        "s": pa.array(["abc", " Abc ", None, "", "xay", "12"], pa.string()),
        "b": pa.array([True, False, None, True, False, True], pa.bool_()),
    }
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    (statement,) = parse_script(
        "CREATE STREAM r (ts TIMESTAMP, i BIGINT, j BIGINT, d DOUBLE, s VARCHAR, b BOOLEAN)"
    )
    assert isinstance(statement, CreateStream)
    declared = Catalog()
    declared.add(bind_relation(statement))
    return declared


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("r", TABLE)
    return connection


def bind(text: str, catalog: Catalog) -> Expression:
    root = bind_query(parse_query(f"SELECT {text} AS x FROM r"), catalog).root
    assert isinstance(root, Project)
    return root.expressions[0]


SAME_AS_DUCKDB = """
i + j | i - j | i * j | i / j | i // 2 | d // 2 | i % 5 | d % 2 | -i | - d | +i | -(i + 1) | i + d
i + 1.5 | 1e2 | .5 | 5. | -9223372036854775808 | 9223372036854775807 | i + j * 2 - 1 | (i + j) * 2
7 - 2 - 1 | 2 * 3 % 4 | NULL | NULL + 1 | abs(i) | abs(-d) | sign(d) | sign(i) | round(d) | round(d, 1)
round(i) | floor(d) | ceil(d) | ceiling(d) | floor(i) | sqrt(abs(d)) | ln(abs(d) + 1)
log10(abs(d) + 1) | log2(abs(d) + 1) | exp(d / 100) | power(d, 2) | pow(i, 2) | mod(i, 5) | i = j
i <> j | i != j | i < d | i <= 3.0 | i > d | i >= j | s = 'abc' | s > 'a' | b = TRUE | i = NULL
ts > '2020-03-01' | ts = TIMESTAMP '2020-02-29 23:59:58.5' | '2020-03-01 01:00:00' < ts | i IS NULL
i IS NOT NULL | i == 1 | b IS TRUE | b IS NOT TRUE | b IS FALSE | b IS NOT FALSE | i IS DISTINCT FROM j
i IS NOT DISTINCT FROM j | s IS NOT DISTINCT FROM NULL | b AND i > 0 | b OR i > 0 | NOT b | NOT b AND b
NOT (b OR i = 1) | NOT i = j | NOT i <> 1 | NOT i < j | NOT d >= i | NOT i > NULL | i IN (12) | i NOT IN (1)
b AND NULL | b OR NULL | i = 1 OR j = 2 AND b | i BETWEEN 0 AND 5
i NOT BETWEEN 0 AND 5 | d BETWEEN i AND j | ts BETWEEN '2020-01-01' AND TIMESTAMP '2020-03-01 02:00:00'
i IN (1, 2, 3) | i NOT IN (1, 12) | i IN (1, NULL) | d IN (1.5, 3) | i IN (1, 2.5) | s IN ('abc', 'x')
i IN (j, 12) | ts IN ('2020-02-29 23:59:58.5') | s LIKE '%b%' | s NOT LIKE 'a_c' | s ILIKE 'A%'
s NOT ILIKE '%Y' | s LIKE NULL | lower(s) | upper(s) | length(s) | substring(s, 2) | substring(s, 1, 2)
substr(s, 2, 1) | substring(s FROM 2 FOR 1) | trim(s) | ltrim(s) | rtrim(s) | trim(BOTH 'a' FROM s)
trim(LEADING 'a' FROM s) | ltrim(s, 'ax') | rtrim(s, 'cy') | replace(s, 'a', 'zz') | concat(s, 'x')
concat(s, i, NULL, d) | s || 'x' | s || i | i || '-' || j | starts_with(s, 'a') | ends_with(s, 'c')
contains(s, 'b') | greatest(i, j) | least(i, j, 2) | greatest(i, 1.5) | coalesce(i, j)
coalesce(NULL, d, 1) | ifnull(i, 0) | nullif(i, 1) | nullif(s, 'abc') | if(b, 1, 2) | if(b, i, 2.5)
CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END | CASE WHEN i > 0 THEN 1 END
CASE i WHEN 1 THEN 'a' WHEN 12 THEN s END | CASE WHEN b THEN i ELSE d END
CASE i WHEN 1 THEN NULL ELSE 2 END | CASE WHEN b IS NULL THEN ts ELSE '2020-01-01' END | year(ts)
month(ts) | day(ts) | hour(ts) | minute(ts) | second(ts) | dayofweek(ts) | epoch(ts) | dayofmonth(ts)
EXTRACT(YEAR FROM ts) | extract(month from ts) | EXTRACT(DAY FROM ts) | EXTRACT(HOUR FROM ts)
EXTRACT(MINUTE FROM ts) | EXTRACT(SECOND FROM ts) | EXTRACT(DOW FROM ts) | EXTRACT(EPOCH FROM ts)
date_trunc('hour', ts) | date_trunc('day', ts) | date_trunc('week', ts) | date_trunc('MONTH', ts)
date_trunc('year', ts) | date_trunc('minute', ts) | date_trunc('second', ts) | ts + INTERVAL '5' SECOND
ts - INTERVAL 2 HOURS | INTERVAL '1 hour' + ts | ts + INTERVAL '1' DAY * 2 | ts + -INTERVAL '5' MINUTE
ts + i * INTERVAL '1' SECOND | ts - INTERVAL '0.5 seconds' | epoch(ts - TIMESTAMP '2020-01-01')
ts - TIMESTAMP '2020-01-01' > INTERVAL '59' DAY | ts + INTERVAL '1 hour 30 minutes'
ts + (INTERVAL '1' HOUR - INTERVAL '1' MINUTE) | ts + INTERVAL '-5' SECOND | CAST(i AS DOUBLE)
CAST(d AS BIGINT) | d::INT | i::VARCHAR | CAST(d AS VARCHAR) | CAST(b AS INTEGER) | CAST(ts AS VARCHAR)
CAST('5' AS BIGINT) | '2.5'::DOUBLE | CAST('true' AS BOOLEAN) | CAST('2020-01-01 10:00:00' AS TIMESTAMP)
CAST(NULL AS INT) + i | CAST(i AS BOOLEAN) | CAST(b AS VARCHAR) | b::TEXT
CAST(CAST(i AS VARCHAR) AS BIGINT) | i::SMALLINT | CAST(d AS REAL)
"""
CASES = [case.strip() for line in SAME_AS_DUCKDB.strip().splitlines() for case in line.split(" | ")]


@pytest.mark.parametrize("text", CASES)
def test_as_in_duckdb(text: str, catalog: Catalog, duck: duckdb.DuckDBPyConnection) -> None:
    bound = bind(text, catalog)
    ours = evaluate(bound, lambda index: TABLE.column(index).combine_chunks(), len(TABLE)).to_pylist()
    theirs = [row[0] for row in duck.execute(f"SELECT {text} FROM r").fetchall()]
    assert [comparable(value) for value in ours] == [comparable(value) for value in theirs]


def comparable(value: Any) -> Any:
    """Numbers as they compare (DuckDB has more kinds of them), doubles to what rounding leaves."""
    if (
        isinstance(value, bool)
        or value is None
        or isinstance(value, str | datetime.datetime | datetime.timedelta)
    ):
        return value
    return float(f"{float(value):.12g}")


@pytest.mark.parametrize(
    ("text", "type_", "written"),
    [
        ("i + 1", "BIGINT", "r.i + 1"),
        ("i + 1.5", "DOUBLE", "CAST(r.i AS DOUBLE) + 1.5"),
        ("d > 10", "BOOLEAN", "r.d > 10.0"),
        ("i / 2", "DOUBLE", "CAST(r.i AS DOUBLE) / 2.0"),
        ("ts - ts", "INTERVAL", "r.ts - r.ts"),
        ("INTERVAL '5' SECOND + ts", "TIMESTAMP", "r.ts + INTERVAL 5 SECONDS"),
        ("2 * INTERVAL '5' SECOND", "INTERVAL", "INTERVAL 5 SECONDS * 2"),
        ("ts > '2020-01-01'", "BOOLEAN", "r.ts > TIMESTAMP '2020-01-01 00:00:00'"),
        ("i BETWEEN 1 AND 2", "BOOLEAN", "(r.i >= 1) AND (r.i <= 2)"),
        ("i IN (1, 2.5)", "BOOLEAN", "CAST(r.i AS DOUBLE) IN (1.0, 2.5)"),
        ("i IN (1)", "BOOLEAN", "r.i = 1"),
        ("NOT i < 1", "BOOLEAN", "r.i >= 1"),
        ("NOT (NOT i <> j)", "BOOLEAN", "r.i <> r.j"),
        ("i IS NOT NULL", "BOOLEAN", "NOT r.i IS NULL"),
        ("CASE i WHEN 1 THEN 'a' END", "VARCHAR", "CASE WHEN r.i = 1 THEN 'a' ELSE NULL END"),
        ("s || i", "VARCHAR", "r.s || CAST(r.i AS VARCHAR)"),
        ("sign(d)", "BIGINT", "SIGN(r.d)"),
        ("-5", "BIGINT", "-5"),
        ("5e0", "DOUBLE", "5.0"),
        ("EXTRACT(dow FROM ts)", "BIGINT", "DAY_OF_WEEK(r.ts)"),
        ("date_trunc('HOUR', ts)", "TIMESTAMP", "DATE_TRUNC('hour', r.ts)"),
        ("i IS DISTINCT FROM j", "BOOLEAN", "NOT IS_NOT_DISTINCT(r.i, r.j)"),
        ("CAST(NULL AS INT)", "BIGINT", "NULL"),
    ],
)
def test_types_and_casts(text: str, type_: str, written: str, catalog: Catalog) -> None:
    bound = bind(text, catalog)
    assert (str(bound.type), str(bound)) == (type_, written)


def test_connectives_are_flat(catalog: Catalog) -> None:
    bound = bind("b AND (i = 1 AND (j = 2 AND b)) AND NOT b", catalog)
    assert isinstance(bound, Call)
    assert len(bound.arguments) == 5
    either = bind(" OR ".join(f"i = {n}" for n in range(2_000)), catalog)
    assert isinstance(either, Call)
    assert len(either.arguments) == 2_000


def test_equal_text_gives_equal_expressions(catalog: Catalog) -> None:
    assert bind("abs(i + 1) > 2", catalog) == bind("ABS( r.I+1 )>2", catalog)
    assert bind("i", catalog) == Column(SqlType.BIGINT, 1)
    assert bind("NULL", catalog) == Literal(SqlType.VARCHAR, None)


def test_the_engine_has_every_function_the_binder_writes() -> None:
    written = {*SIGNATURES, *NAMED_FUNCTIONS.values(), *TIME_PARTS.values()}
    written |= {function for function, _, _ in FUNCTION_NODES.values()}
    written |= {
        "and",
        "or",
        "in",
        "is_null",
        "is_not_distinct",
        "case",
        "coalesce",
        "nullif",
        "greatest",
        "least",
    }
    written |= {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "cast", "concat"}
    assert written == set(FUNCTIONS)


def test_every_function_a_hint_names_is_known(catalog: Catalog) -> None:
    calls = {"CAST": "CAST(i AS DOUBLE)", "EXTRACT": "EXTRACT(hour FROM ts)", "IF": "IF(b, 1, 2)"}
    calls |= {name: f"{name}(ts)" for name in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")}
    calls |= {"DAY_OF_WEEK": "DAY_OF_WEEK(ts)", "EPOCH": "EPOCH(ts)", "DATE_TRUNC": "DATE_TRUNC('day', ts)"}
    calls |= {
        name: f"{name}(s, s)"
        for name in ("STARTS_WITH", "ENDS_WITH", "CONTAINS", "NULLIF", "GREATEST", "LEAST")
    }
    calls |= {
        name: f"{name}(s)"
        for name in ("LOWER", "UPPER", "LENGTH", "TRIM", "LTRIM", "RTRIM", "CONCAT", "COALESCE")
    }
    calls |= {"SUBSTRING": "SUBSTRING(s, 1)", "REPLACE": "REPLACE(s, s, s)", "POWER": "POWER(d, d)"}
    aggregates = {"COUNT", "SUM", "AVG", "MIN", "MAX"}
    for name in FUNCTION_NAMES - aggregates:
        bind(calls.get(name, f"{name}(d)"), catalog)
    for name in aggregates:
        bind_query(parse_query(f"SELECT {name}(d) FROM r WINDOW 1 DAY"), catalog)
