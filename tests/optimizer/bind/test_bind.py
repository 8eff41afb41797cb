"""Queries to logical plans: what is in them, and that they mean what DuckDB says the text means.

The oracle half writes each bound plan back as SQL, one sub-query per node, and has DuckDB run both that and
the text as written. Windows and tails are left out there: what a window holds is tested elsewhere.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest

from penstock.engine.expressions.expression import INFIX, Call, Column, Expression, Literal, walk
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.bind.catalog import Catalog, ColumnDef, StreamDef, TableDef
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.read.statements import CreateStream, CreateTable
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Query,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
    streams_of,
)

DECLARATIONS = """
CREATE STREAM r (ts TIMESTAMP, k BIGINT, v DOUBLE, s VARCHAR, b BOOLEAN);
CREATE STREAM q (ts TIMESTAMP, k BIGINT, v DOUBLE, n BIGINT);
CREATE TABLE t (k BIGINT, label VARCHAR);
"""
ROWS = {
    "r": "('2020-01-01 00:00:01', 1, 1.5, 'a', TRUE), ('2020-01-01 00:00:02', 2, NULL, 'b', FALSE), "
    "('2020-01-01 00:00:03', 2, 2.5, NULL, NULL), ('2020-01-01 00:00:03', NULL, 0.0, 'a', TRUE), "
    "('2020-01-01 00:00:05', 3, -1.0, 'c', FALSE)",
    "q": "('2020-01-01 00:00:01', 1, 1.5, 10), ('2020-01-01 00:00:03', 2, 9.0, 20), "
    "('2020-01-01 00:00:04', 2, 2.5, NULL), ('2020-01-01 00:00:06', 4, NULL, 40), "
    "('2020-01-01 00:00:07', NULL, 0.0, 50)",
    "t": "(1, 'one'), (2, 'two'), (2, 'zwei'), (NULL, 'none')",
}


def declare(script: str) -> Catalog:
    catalog = Catalog()
    for statement in parse_script(script):
        assert isinstance(statement, CreateStream | CreateTable)
        catalog.add(bind_relation(statement))
    return catalog


CATALOG = declare(DECLARATIONS)


def bind(sql: str) -> Query:
    return bind_query(parse_query(sql), CATALOG)


def nodes(node: Node) -> list[Node]:
    return [node, *(below for part in inputs_of(node) for below in nodes(part))]


def scans(query: Query) -> list[StreamScan]:
    return [node for node in nodes(query.root) if isinstance(node, StreamScan)]


def names(sql: str) -> list[str]:
    return [field.name for field in bind(sql).fields]


# ------------------------------------------------------------------------------------------- declarations


def test_declared_relations() -> None:
    stream = CATALOG.find("R")
    assert isinstance(stream, StreamDef)
    assert (stream.time_column, stream.slack_us) == (0, 0)
    assert [column.type.value for column in stream.columns] == [
        "TIMESTAMP",
        "BIGINT",
        "DOUBLE",
        "VARCHAR",
        "BOOLEAN",
    ]
    assert CATALOG.find("t") == TableDef(
        "t", (ColumnDef("k", SqlType.BIGINT), ColumnDef("label", SqlType.VARCHAR))
    )


def test_type_names() -> None:
    script = """CREATE STREAM s (TS timestamp(6), a INTEGER, b SMALLINT, c TINYINT, d FLOAT, e REAL, f BOOL,
      g TEXT, h STRING, i TIMESTAMP WITHOUT TIME ZONE, j DOUBLE PRECISION,
      WATERMARK FOR i AS i - 3 SECONDS)"""
    stream = declare(script).find("s")
    assert isinstance(stream, StreamDef)
    short = "".join(column.type.value[0] for column in stream.columns)
    assert short == "TBBBDDBVVTD"
    assert (stream.time_column, stream.slack_us) == (9, 3_000_000)


# ------------------------------------------------------------------------------------------- windows, tails


def test_windows_find_their_streams() -> None:
    query = bind(
        "SELECT 1 FROM r [RANGE 5 SECONDS] x JOIN q AS y [ROWS 3] ON x.k = y.k, r AS z WINDOW 1 HOUR"
    )
    assert [(scan.alias, scan.window, scan.windowed) for scan in scans(query)] == [
        ("x", Window("range", 5_000_000), True),
        ("y", Window("rows", 3), True),
        ("z", Window("range", 3_600_000_000), True),
    ]


def test_the_tail_reaches_into_sub_queries() -> None:
    query = bind("""WITH w AS (SELECT k FROM q [NOW]) SELECT x.k FROM (SELECT k FROM r) x, w
                    WHERE EXISTS (SELECT 1 FROM r y WHERE y.k = x.k) WINDOW 7 ROWS""")
    assert [str(scan.window) for scan in scans(query)] == ["ROWS 7", "NOW", "ROWS 7"]


def test_partition_columns_are_named_as_declared() -> None:
    (scan,) = scans(bind("SELECT k FROM r [PARTITION BY K, S ROWS 2]"))
    assert scan.window == Window("rows", 2, ("k", "s"))


@pytest.mark.parametrize("sql", ["SELECT k FROM r WHERE v > 1", "SELECT k FROM r UNION ALL SELECT n FROM q"])
def test_what_keeps_nothing_needs_no_window(sql: str) -> None:
    query = bind(sql)
    assert query.emit == "inserts"
    assert not any(scan.windowed for scan in scans(query))


@pytest.mark.parametrize(
    ("sql", "emit"),
    [
        ("SELECT k FROM r [NOW]", "inserts"),
        ("SELECT r.k FROM r, q, t WINDOW 1 DAY", "inserts"),
        ("SELECT r.k FROM r JOIN q ON r.k = q.k WINDOW 1 DAY", "inserts"),
        ("SELECT k FROM r UNION ALL SELECT k FROM q WINDOW 1 DAY", "inserts"),
        ("SELECT k FROM r UNION SELECT k FROM q WINDOW 1 DAY", "changes"),
        ("SELECT k FROM r EXCEPT ALL SELECT k FROM q WINDOW 1 DAY", "changes"),
        ("SELECT DISTINCT k FROM r WINDOW 1 DAY", "changes"),
        ("SELECT max(k) FROM r WINDOW 1 DAY", "changes"),
        ("SELECT r.k FROM r LEFT JOIN q ON r.k = q.k WINDOW 1 DAY", "changes"),
        ("SELECT r.k FROM r SEMI JOIN q ON r.k = q.k WINDOW 1 DAY", "changes"),
        ("SELECT r.k FROM r WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.k = r.k) WINDOW 1 DAY", "changes"),
        ("SELECT k FROM r [NOW] HOP BY 1 MINUTE", "complete"),
        ("SELECT max(k) FROM r [NOW] HOP BY 1 MINUTE EMIT DELTA", "delta"),
        ("SELECT k FROM r [NOW] EMIT CHANGES", "changes"),
    ],
)
def test_what_is_emitted(sql: str, emit: str) -> None:
    assert bind(sql).emit == emit


def test_the_tail_is_kept() -> None:
    query = bind("SELECT k FROM r [NOW] HOP BY 1 MINUTE ORIGIN '1970-01-01 00:00:01' LATE DROP;")
    assert query.hop is not None
    assert (query.hop.size_us, query.hop.origin_us, query.late) == (60_000_000, 1_000_000, "drop")
    assert query.sql.endswith("LATE DROP")
    assert bind("SELECT k FROM r").late is None


# ------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT K, r.S, v AS Volume FROM R", ["k", "s", "Volume"]),
        ("SELECT * FROM r", ["ts", "k", "v", "s", "b"]),
        ("SELECT t.*, r.k FROM r, t WINDOW 1 DAY", ["k", "label", "k_1"]),
        ("SELECT x.v, y.v, 1 AS v_1, x.V FROM r x, r y WINDOW 1 DAY", ["v", "v_1", "v_1_1", "v_2"]),
        ("SELECT count( * ), v  +  1, 'x' FROM r GROUP BY v WINDOW 1 DAY", ["count( * )", "v + 1", "'x'"]),
        (
            "SELECT CASE WHEN b THEN 1 END, -v, (v), NULL FROM r",
            ["CASE WHEN b THEN 1 END", "-v", "(v)", "NULL"],
        ),
        ("SELECT k /* key */ + -- one\n 1 FROM r", ["k + 1"]),
        ("SELECT * FROM r JOIN q USING (k, ts) WINDOW 1 DAY", ["ts", "k", "v", "s", "b", "v_1", "n"]),
        ("SELECT * FROM (SELECT v, v FROM r) AS x (a)", ["a", "v_1"]),
        ("WITH x (a, b) AS (SELECT k, v FROM r) SELECT * FROM x", ["a", "b"]),
        ("SELECT k AS a FROM r UNION ALL SELECT k AS b FROM q", ["a"]),
    ],
)
def test_names_of_results(sql: str, expected: list[str]) -> None:
    assert names(sql) == expected


def test_ten_thousand_columns() -> None:
    wide = declare("CREATE STREAM w (ts TIMESTAMP, " + ", ".join(f"c{i} BIGINT" for i in range(10_000)) + ")")
    listed = ", ".join(f"x.c{i}" for i in reversed(range(10_000)))
    query = bind_query(
        parse_query(f"SELECT {listed}, y.* FROM w x, w y WHERE x.c1 = y.c9999 WINDOW 1 DAY"), wide
    )
    assert isinstance(query.root, Project)
    assert query.root.expressions[0] == Column(SqlType.BIGINT, 10_000)
    assert query.root.expressions[-1] == Column(SqlType.BIGINT, 20_001)
    assert [query.fields[i].name for i in (0, 9_999, 10_000, 10_001)] == ["c9999", "c0", "ts", "c0_1"]


# ------------------------------------------------------------------------------------------- shapes


def test_the_example_of_the_language() -> None:
    query = bind(
        "SELECT a.k, a.v, b.v AS other FROM r [RANGE 1 HOUR] AS a "
        "JOIN q [RANGE 1 HOUR] AS b ON a.k = b.k WHERE a.v > 30"
    )
    project = query.root
    assert isinstance(project, Project)
    assert [str(expression) for expression in project.expressions] == ["a.k", "a.v", "b.v"]
    condition = project.input
    assert isinstance(condition, Filter)
    assert str(condition.predicate) == "a.v > 30.0"
    join = condition.input
    assert isinstance(join, Join)
    assert (join.kind, str(join.condition)) == ("inner", "a.k = b.k")
    assert (join.position.line, join.position.column) == (1, 58)
    assert streams_of(join) == ("r", "q")


def test_commas_leave_their_conditions_above() -> None:
    query = bind("SELECT 1 FROM r, q WHERE r.k = q.k AND (r.v > 1 AND q.v > 2) WINDOW 1 DAY")
    condition = query.root.input  # type: ignore[union-attr]
    assert isinstance(condition, Filter)
    assert isinstance(condition.predicate, Call)
    assert [str(part) for part in condition.predicate.arguments] == ["r.k = q.k", "r.v > 1.0", "q.v > 2.0"]
    assert isinstance(condition.input, Join)
    assert condition.input.condition is None


def test_union_all_is_flat_and_has_one_type() -> None:
    union = bind(
        "SELECT k FROM r UNION ALL (SELECT v FROM r UNION ALL SELECT NULL FROM q) UNION ALL SELECT n FROM q"
    )
    assert isinstance(union.root, UnionAll)
    assert len(union.root.inputs) == 4
    assert {part.fields[0].type for part in union.root.inputs} == {SqlType.DOUBLE}
    nothing = union.root.inputs[2]
    assert isinstance(nothing, Project)
    assert nothing.expressions == (Literal(SqlType.DOUBLE, None),)


def test_the_same_aggregate_is_computed_once() -> None:
    query = bind(
        "SELECT sum(v) + sum(v), sum(V) AS x FROM r [NOW] GROUP BY k HAVING sum(r.v) > count(*) AND x < 3"
    )
    (aggregate,) = (node for node in nodes(query.root) if isinstance(node, Aggregate))
    assert [call.function for call in aggregate.aggregates] == ["sum", "count"]
    assert [field.type for field in aggregate.fields] == [SqlType.BIGINT, SqlType.DOUBLE, SqlType.BIGINT]


def test_a_result_column_always_has_a_stored_type() -> None:
    assert [field.type for field in bind("SELECT NULL, coalesce(NULL, NULL) FROM r").fields] == [
        SqlType.VARCHAR,
        SqlType.BIGINT,
    ]


# ------------------------------------------------------------------------------------------- oracle


FUNCTIONS = {"is_not_distinct": "{0} IS NOT DISTINCT FROM {1}", "is_null": "{0} IS NULL", "not": "NOT {0}"}


def write(expression: Expression, columns: list[str]) -> str:
    """The expression for DuckDB, columns by the names given."""
    match expression:
        case Column():
            return columns[expression.index]
        case Literal():
            return (
                f"CAST({expression} AS {expression.type})" if expression.type is not SqlType.NULL else "NULL"
            )
        case Call(function="cast"):
            return f"CAST({write(expression.arguments[0], columns)} AS {expression.type})"
        case Call(function="in"):
            subject, *listed = (write(argument, columns) for argument in expression.arguments)
            return f"({subject} IN ({', '.join(listed)}))"
        case Call(function="case"):
            *pairs, other = (write(argument, columns) for argument in expression.arguments)
            whens = " ".join(f"WHEN {w} THEN {t}" for w, t in zip(pairs[::2], pairs[1::2], strict=True))
            return f"CASE {whens} ELSE {other} END"
        case Call():
            parts = [write(argument, columns) for argument in expression.arguments]
            if expression.function in INFIX:
                return "(" + f" {INFIX[expression.function]} ".join(parts) + ")"
            if expression.function in FUNCTIONS:
                return "(" + FUNCTIONS[expression.function].format(*parts) + ")"
            return f"{expression.function}({', '.join(parts)})"
    raise AssertionError(expression)


def select(node: Node) -> str:
    """The plan as SQL, every node's columns named c0, c1, ..."""
    own = [f"c{i}" for i in range(len(node.fields))]
    match node:
        case StreamScan(stream=name) | TableScan(table=name):
            listed = ", ".join(
                f"{field.name} AS {column}" for field, column in zip(node.fields, own, strict=True)
            )
            return f"SELECT {listed} FROM {name}"
        case Filter():
            return f"SELECT * FROM ({select(node.input)}) WHERE {write(node.predicate, own)}"
        case Project():
            below = [f"c{i}" for i in range(len(node.input.fields))]
            parts = [
                f"{write(e, below)} AS {column}" for e, column in zip(node.expressions, own, strict=True)
            ]
            return f"SELECT {', '.join(parts)} FROM ({select(node.input)})"
        case Join():
            left, right = ([f"{side}.c{i}" for i in range(len(part.fields))]
                           for side, part in (("x", node.left), ("y", node.right)))  # fmt: skip
            condition = "TRUE" if node.condition is None else write(node.condition, left + right)
            listed = ", ".join(f"{one} AS {column}" for one, column in zip(left + right, own, strict=False))
            joined = (
                f"({select(node.left)}) x {node.kind.upper()} JOIN ({select(node.right)}) y ON {condition}"
            )
            return f"SELECT {listed} FROM {joined}"
        case UnionAll():
            return " UNION ALL ".join(f"(SELECT * FROM ({select(part)}))" for part in node.inputs)
        case SetOperation():
            word = f"{node.kind.upper()} {'ALL' if node.all else ''}"
            return f"(SELECT * FROM ({select(node.left)})) {word} (SELECT * FROM ({select(node.right)}))"
        case Distinct():
            return f"SELECT DISTINCT * FROM ({select(node.input)})"
        case Aggregate():
            below = [f"c{i}" for i in range(len(node.input.fields))]
            keys = [write(key, below) for key in node.keys]
            calls = [
                f"{call.function}({'DISTINCT ' if call.distinct else ''}"
                f"{'*' if call.argument is None else write(call.argument, below)})"
                for call in node.aggregates
            ]
            listed = ", ".join(f"{part} AS {column}" for part, column in zip(keys + calls, own, strict=True))
            grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {listed} FROM ({select(node.input)}){grouped}"
    raise AssertionError(node)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for statement in DECLARATIONS.strip().split(";")[:3]:
        connection.execute(statement.replace("STREAM", "TABLE"))
    for name, rows in ROWS.items():
        connection.execute(f"INSERT INTO {name} VALUES {rows}")
    return connection


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(sql).fetchall())


QUERIES = [
    "SELECT * FROM r",
    "SELECT r.*, k + 1, v * 2 FROM r WHERE v > 0 OR s = 'a'",
    "SELECT a.k, b.n FROM r a JOIN q b ON a.k = b.k AND a.v <= b.v",
    "SELECT a.k, b.n FROM r a, q b WHERE a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 2 SECOND AND a.ts",
    "SELECT a.k, b.k FROM r a, r b WHERE a.k < b.k",
    "SELECT * FROM r a LEFT JOIN q b ON a.k = b.k AND b.n > 10",
    "SELECT * FROM r a RIGHT JOIN q b ON a.k = b.k",
    "SELECT * FROM r a FULL OUTER JOIN q b ON a.k = b.k",
    "SELECT * FROM r CROSS JOIN t",
    "SELECT * FROM r a SEMI JOIN q b ON a.k = b.k",
    "SELECT * FROM r a ANTI JOIN q b ON a.k = b.k AND b.n IS NOT NULL",
    "SELECT * FROM r JOIN q USING (k)",
    "SELECT k, r.v, q.v FROM r LEFT JOIN q USING (k)",
    "SELECT * FROM r RIGHT JOIN q USING (k)",
    "SELECT k, n FROM r FULL JOIN q USING (k)",
    "SELECT k, label FROM r JOIN q USING (k) JOIN t USING (k)",
    "SELECT t.label, r.s FROM t, r LEFT JOIN q ON r.k = q.k WHERE t.k = r.k",
    "SELECT t.label, q.n FROM t, r RIGHT JOIN q ON r.k = q.k AND r.v > 2",
    "SELECT x.s, y.n, t.label FROM (r x JOIN q y ON x.k = y.k) LEFT JOIN t ON t.k = y.k",
    "SELECT x.s, y.n FROM r x LEFT JOIN (q y JOIN t ON y.k = t.k) ON x.k = y.k",
    "SELECT s FROM r WHERE EXISTS (SELECT 1 FROM q WHERE q.k = r.k)",
    "SELECT s FROM r WHERE NOT EXISTS (SELECT * FROM q WHERE q.k = r.k AND q.n > 15) AND v IS NOT NULL",
    "SELECT s FROM r WHERE EXISTS (SELECT 1 FROM q WHERE k = r.k AND v > r.v AND n > 10)",
    "SELECT s FROM r a WHERE NOT (NOT EXISTS (SELECT 1 FROM q WHERE q.k = a.k)) AND EXISTS (SELECT 1 FROM t)",
    """SELECT s FROM r WHERE EXISTS (SELECT 1 FROM q, t x WHERE q.k = r.k AND x.k = q.k
       AND NOT EXISTS (SELECT 1 FROM r z WHERE z.k = q.k AND z.v > 2))""",
    "SELECT k, count(*), sum(v), avg(k), min(s), max(ts), count(v), count(DISTINCT s) FROM r GROUP BY k",
    "SELECT count(*), sum(v), min(k) FROM r WHERE k > 100",
    "SELECT k + 1 AS j, sum(v) * 2 FROM r GROUP BY j",
    "SELECT s, k % 2, max(v) - min(v) FROM r GROUP BY 1, k % 2 HAVING count(*) > 0 AND max(v) IS NOT NULL",
    "SELECT s, sum(v) AS total FROM r GROUP BY r.s",
    "SELECT s, sum(v) AS total FROM r GROUP BY s HAVING total > 1",
    "SELECT CASE WHEN k > 1 THEN 'big' ELSE 'small' END AS size, count(*) FROM r GROUP BY size",
    "SELECT a.s, sum(b.n) FROM r a JOIN q b ON a.k = b.k GROUP BY a.s",
    "SELECT count(*) FROM r HAVING count(*) > 100",
    "SELECT DISTINCT k, s IS NULL FROM r",
    "SELECT DISTINCT k, count(*) FROM r GROUP BY k, s",
    "SELECT k FROM r UNION SELECT k FROM q",
    "SELECT k, s FROM r UNION ALL SELECT n, NULL FROM q UNION ALL SELECT 1.5, 'x' FROM t",
    "SELECT k FROM r EXCEPT SELECT k FROM q",
    "SELECT k FROM r EXCEPT ALL SELECT k FROM q",
    "SELECT k FROM r INTERSECT SELECT k FROM q",
    "SELECT k FROM r INTERSECT ALL SELECT k FROM q",
    "SELECT k FROM r UNION SELECT n FROM q INTERSECT SELECT n FROM q WHERE n > 10",
    """SELECT k FROM r EXCEPT SELECT n FROM q INTERSECT SELECT k FROM t
       UNION ALL SELECT k FROM t INTERSECT SELECT 2 FROM q""",
    "(SELECT k FROM r UNION SELECT n FROM q) INTERSECT SELECT k FROM q",
    "SELECT k FROM r EXCEPT SELECT k FROM q EXCEPT SELECT k FROM t UNION ALL SELECT k FROM t",
    "SELECT k FROM r EXCEPT (SELECT k FROM q EXCEPT SELECT k FROM t)",
    "SELECT a.k, x.m FROM r a JOIN (SELECT k, max(v) AS m FROM q GROUP BY k) x ON a.k = x.k",
    "SELECT z FROM (SELECT k + n AS z FROM q) WHERE z > 12",
    "SELECT a, b FROM (SELECT k, v FROM r) AS x (a, b) WHERE a IS NOT NULL",
    """WITH x AS (SELECT k, v FROM r), y AS (SELECT k, count(*) AS c FROM x GROUP BY k)
       SELECT x.v, y.c FROM x, y WHERE x.k = y.k""",
    "WITH x AS (SELECT k FROM r) SELECT k FROM x UNION ALL SELECT k FROM x WHERE k = 2",
    "SELECT k FROM r WHERE k IN (1, 3, NULL) OR k NOT IN (2, 5)",
    "SELECT k FROM r WHERE s IS NOT DISTINCT FROM NULL OR b IS TRUE",
    "SELECT s FROM r WHERE s NOT LIKE 'a%' AND ts >= '2020-01-01 00:00:02'",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_the_plan_means_what_the_text_means(sql: str, duck: duckdb.DuckDBPyConnection) -> None:
    query = bind(f"{sql} WINDOW 1 DAY")
    assert rows(duck, select(query.root)) == rows(duck, sql)


def test_minus_is_except(duck: duckdb.DuckDBPyConnection) -> None:
    query = bind("SELECT k FROM r MINUS SELECT k FROM q MINUS (SELECT k FROM t) WINDOW 1 DAY")
    expected = "SELECT k FROM r EXCEPT SELECT k FROM q EXCEPT (SELECT k FROM t)"
    assert rows(duck, select(query.root)) == rows(duck, expected)


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_lie_within_their_input_and_have_its_type(sql: str) -> None:
    for node in nodes(bind(f"{sql} WINDOW 1 DAY").root):
        below = [field for part in inputs_of(node) for field in part.fields]
        for expression in expressions_of(node):
            for column in (part for part in walk(expression) if isinstance(part, Column)):
                assert column.type is below[column.index].type


def expressions_of(node: Node) -> list[Expression]:
    match node:
        case Filter():
            return [node.predicate]
        case Project():
            return list(node.expressions)
        case Join():
            return [] if node.condition is None else [node.condition]
        case Aggregate():
            return [*node.keys, *(call.argument for call in node.aggregates if call.argument is not None)]
        case _:
            return []
