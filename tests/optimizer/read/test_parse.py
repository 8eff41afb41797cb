"""Text to statements: what each says, where it stands; and that nonsense gives nothing but a QueryError."""

from __future__ import annotations

import subprocess
import sys

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from penstock.engine.intake.ahead_rule import AheadRule
from penstock.engine.rows.errors import QueryError
from penstock.engine.rows.window import MAX_TS, Window
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.read.statements import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    SelectStatement,
    Tail,
)
from penstock.optimizer.tree.logical import Hop, Position

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000

SCRIPT = """\
CREATE STREAM temperature (
  ts TIMESTAMP, location INT, value DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND      -- how late; a row may be
);
CREATE TABLE favourite (item BIGINT, label VARCHAR);  /* static; loaded
before */

CREATE QUERY hot AS
  SELECT a.location, a.value, b.value AS humidity, ';' AS semicolon
  FROM temperature [RANGE 60 MINUTES] AS a
  JOIN humidity    [RANGE 60 MINUTES] AS b ON a.location = b.location
  WHERE a.value > 30;

DROP QUERY hot;
ALTER QUERY hot SET WINDOW 30 MINUTES;;
SELECT * FROM temperature"""


def windows(sql: str) -> list[Window]:
    return [written.window for written in parse_query(sql).windows.values()]


def tail(sql: str) -> Tail:
    return parse_query(f"SELECT a FROM s {sql}").tail


def test_a_script_is_its_statements() -> None:
    kinds = [CreateStream, CreateTable, CreateQuery, DropQuery, AlterQuery, SelectStatement]
    assert [type(statement) for statement in parse_script(SCRIPT)] == kinds


def test_positions_are_those_of_the_whole_text() -> None:
    assert [(one.position.line, one.position.column) for one in parse_script(SCRIPT)] == [
        (1, 1),
        (5, 1),
        (8, 1),
        (14, 1),
        (15, 1),
        (16, 1),
    ]
    hot = parse_script(SCRIPT)[2]
    assert isinstance(hot, CreateQuery)
    assert hot.select.position == Position(9, 3)
    assert [one.position for one in hot.select.windows.values()] == [Position(10, 20), Position(11, 20)]


def test_a_statement_knows_its_own_text() -> None:
    statements = parse_script(SCRIPT)
    assert statements[1].sql == "CREATE TABLE favourite (item BIGINT, label VARCHAR)"
    assert statements[3].sql == "DROP QUERY hot"
    hot = statements[2]
    assert isinstance(hot, CreateQuery)
    assert hot.select.sql.startswith("SELECT a.location")
    assert hot.select.sql.endswith("a.value > 30")


def test_create_stream() -> None:
    stream = parse_script(SCRIPT)[0]
    assert isinstance(stream, CreateStream)
    assert (stream.name, stream.time_column, stream.slack_us) == ("temperature", "ts", 5 * SECOND)
    columns = [(column.name, column.type_name) for column in stream.columns]
    assert columns == [("ts", "TIMESTAMP"), ("location", "INT"), ("value", "DOUBLE")]


@pytest.mark.parametrize(
    ("watermark", "slack"),
    [
        ("WATERMARK FOR t", 0),
        ("WATERMARK FOR t AS t", 0),
        ("WATERMARK FOR t AS T - INTERVAL '0' SECOND", 0),
        ("watermark for t as t - 5 seconds", 5 * SECOND),
        ("WATERMARK FOR t AS t - INTERVAL '1 minute 30 seconds'", 90 * SECOND),
    ],
)
def test_watermarks(watermark: str, slack: int) -> None:
    (stream,) = parse_script(f"CREATE STREAM s ({watermark}, t TIMESTAMP(6), watermark INT)")
    assert isinstance(stream, CreateStream)
    assert (stream.time_column, stream.slack_us) == ("t", slack)
    assert [column.name for column in stream.columns] == ["t", "watermark"]


@pytest.mark.parametrize(
    ("watermark", "ahead"),
    [
        ("WATERMARK FOR t", None),
        ("WATERMARK FOR t AHEAD AT MOST 1 HOUR", AheadRule(3600 * SECOND, 10)),
        ("watermark for t as t - 5 s ahead at most interval '2' second", AheadRule(2 * SECOND, 10)),
        ("WATERMARK FOR t AS t - INTERVAL '5 s' AHEAD AT MOST 2 s AFTER 1 ROW", AheadRule(2 * SECOND, 1)),
        ("WATERMARK FOR t AS t AHEAD AT MOST 90 min AFTER 20 ROWS", AheadRule(5400 * SECOND, 20)),
    ],
)
def test_rows_ahead(watermark: str, ahead: AheadRule | None) -> None:
    (stream,) = parse_script(f"CREATE STREAM s (t TIMESTAMP, {watermark}, ahead INT)")
    assert isinstance(stream, CreateStream)
    assert stream.ahead == ahead
    assert [column.name for column in stream.columns] == ["t", "ahead"]


@pytest.mark.parametrize(
    ("elements", "idle_us"),
    [
        ("t TIMESTAMP, idle INT", None),
        ("idle TIMESTAMP, IDLE AFTER 10 SECONDS", 10 * SECOND),
        ("idle after interval '1' minute, idle TIMESTAMP", 60 * SECOND),
        ('"idle" BIGINT, t TIMESTAMP, WATERMARK FOR t, Idle After 5 ms', 5000),
    ],
)
def test_idle_streams(elements: str, idle_us: int | None) -> None:
    (stream,) = parse_script(f"CREATE STREAM s ({elements})")
    assert isinstance(stream, CreateStream)
    assert stream.idle_us == idle_us


def test_names_may_be_quoted_or_be_soft_keywords() -> None:
    (stream,) = parse_script(
        'CREATE STREAM "my stream" (timestamp TIMESTAMP, "a b" INT, date VARCHAR, value INT)'
    )
    assert isinstance(stream, CreateStream)
    assert stream.name == "my stream"
    assert [column.name for column in stream.columns] == ["timestamp", "a b", "date", "value"]


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("RANGE 60 MINUTES", Window("range", 60 * MINUTE)),
        ("range 60 min", Window("range", 60 * MINUTE)),
        ("RANGE 60min", Window("range", 60 * MINUTE)),
        ("RANGE 1 HOUR", Window("range", HOUR)),
        ("RANGE 1 h", Window("range", HOUR)),
        ("RANGE 2 d", Window("range", 48 * HOUR)),
        ("RANGE 0.5 SECONDS", Window("range", 500_000)),
        ("RANGE 1.5e3 ms", Window("range", 1_500_000)),
        ("RANGE 7 us", Window("range", 7)),
        ("RANGE INTERVAL '5' SECOND", Window("range", 5 * SECOND)),
        ("RANGE INTERVAL 5 SECONDS", Window("range", 5 * SECOND)),
        ("RANGE INTERVAL '1 hour 30 minutes'", Window("range", 90 * MINUTE)),
        ("RANGE 4611686018427387903 MICROSECONDS", Window("range", MAX_TS - 1)),
        ("RANGE UNBOUNDED", Window("range", None)),
        ("NOW", Window("range", 1)),
        ("ROWS 100", Window("rows", 100)),
        ("PARTITION BY item, shop ROWS 2", Window("rows", 2, ("item", "shop"))),
        ("partition by item rows 2", Window("rows", 2, ("item",))),
    ],
)
def test_windows_in_brackets(written: str, window: Window) -> None:
    assert windows(f"SELECT a FROM s [{written}] AS x") == [window]
    assert windows(f"SELECT a FROM s AS x [{written}]") == [window]
    assert windows(f"SELECT a FROM s[{written}], r JOIN t [NOW] ON x = y") == [window, Window("range", 1)]


def test_each_reference_has_its_own_window() -> None:
    sql = """SELECT * FROM (SELECT a FROM s [ROWS 1] UNION ALL SELECT a FROM r [ROWS 2] WHERE a IN (1, 2)) x,
             t [ROWS 3] y WHERE EXISTS
             (SELECT 1 FROM s [ROWS 4] z WHERE f(z.a, y.a) AND z.a IS DISTINCT FROM 3)"""
    assert [window.size for window in windows(sql)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("WINDOW 60 min", Window("range", 60 * MINUTE)),
        ("WINDOW 100 ROWS", Window("rows", 100)),
        ("WINDOW 1 ROW", Window("rows", 1)),
        ("WINDOW INTERVAL '5' SECOND", Window("range", 5 * SECOND)),
        ("WHERE window > 5 AND late WINDOW 2 SECONDS", Window("range", 2 * SECOND)),
    ],
)
def test_window_at_the_end(written: str, expected: Window) -> None:
    found = tail(written).window
    assert found is not None
    assert found.window == expected


def test_the_whole_tail_in_any_order() -> None:
    clauses = [
        "WINDOW 5 MINUTES",
        "HOP BY 1 MINUTE ORIGIN TIMESTAMP '1970-01-01 00:00:30'",
        "EMIT DELTA",
        "LATE DROP",
    ]
    straight, reverse = tail(" ".join(clauses)), tail(" ".join(reversed(clauses)))
    assert straight.window is not None
    assert straight.hop is not None
    assert (straight.emit, straight.late) == (reverse.emit, reverse.late) == ("delta", "drop")
    assert (straight.hop.size_us, straight.hop.origin_us) == (MINUTE, 30 * SECOND)
    assert tail("HOP BY 10 s").hop == Hop(10 * SECOND, 0, Position(1, 17))
    assert tail("HOP BY 10 s ORIGIN 5").hop == Hop(10 * SECOND, 5, Position(1, 17))
    assert tail("emit inserts late error").late == "error"


def test_words_of_the_tail_are_names_elsewhere() -> None:
    query = parse_query(
        "SELECT emit, late AS hop, window FROM s AS emit WHERE window - 5 > late AND hop GROUP BY emit, late"
    )
    assert query.tail == Tail()
    assert parse_query("SELECT 1 FROM late EMIT CHANGES").tail.emit == "changes"


def test_the_shorthand_of_papers_reads_as_printed() -> None:
    query = parse_query(
        "SELECT A.* FROM Temperature A, Humidity B "
        "WHERE A.LocationId = B.LocationId AND A.Value > 10 WINDOW 60 min"
    )
    assert query.tail.window is not None
    assert query.tail.window.window == Window("range", HOUR)


@pytest.mark.parametrize("text", ["", ";", " ;; \n", "-- nothing\n", "/* nothing; at all */"])
def test_nothing_is_no_statement(text: str) -> None:
    assert parse_script(text) == []
    with pytest.raises(QueryError, match="found nothing"):
        parse_query(text)


def test_line_ends_of_all_kinds_count_once() -> None:
    first, second, third = parse_script("DROP QUERY a;\r\nDROP QUERY b;\rDROP QUERY c")
    assert [one.position.line for one in (first, second, third)] == [1, 2, 3]
    assert [one.position.column for one in (first, second, third)] == [1, 1, 1]


def test_a_byte_order_mark_is_not_a_word() -> None:
    (statement,) = parse_script("\ufeffDROP QUERY a")
    assert statement.position == Position(1, 2)


def test_sqlglot_is_loaded_with_the_first_statement() -> None:
    code = (
        "import sys, penstock.optimizer.bind.bind, penstock.optimizer.read.parse as parse\n"
        "assert not any(name.split('.')[0] == 'sqlglot' for name in sys.modules)\n"
        "parse.parse_script('DROP QUERY a')\n"
        "assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SOUP = """
SELECT FROM WHERE GROUP BY HAVING DISTINCT ALL AS JOIN LEFT FULL CROSS SEMI ANTI NATURAL ON USING UNION
EXCEPT MINUS WITH ( ( ) ) , , . * + - / // % || = <> < <= AND OR NOT IN IS NULL LIKE BETWEEN EXISTS CASE
WHEN THEN END CAST INTERVAL TIMESTAMP '5' 'x 1 2.5 1e999 0 a b s r s.a [ ] [NOW] [RANGE 5 WINDOW 5
MINUTES HOP EMIT CHANGES LATE DROP ORIGIN count(*) sum(a) ORDER LIMIT OVER PARTITION ROWS RANGE
UNBOUNDED TRUE ; CREATE STREAM TABLE QUERY ALTER SET WATERMARK FOR INT -- /* */ ? :: := @ { } ! ~ ^ ->
"q" " ` VALUES LATERAL ARRAY MAP ANY EXPLAIN INSERT é
"""
WORDS = st.sampled_from([*SOUP.split(), "\n", "\0", "\udc80"])


@given(st.lists(WORDS, max_size=25))
@example(["SELECT", "\udc80"])
@example(["WITH", "a", "AS", "(", "DROP", "s", ")", "SELECT", "1"])
@settings(max_examples=300)
def test_nonsense_raises_only_query_errors(words: list[str]) -> None:
    check_only_query_errors(" ".join(words))


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_raises_only_query_errors(text: str) -> None:
    check_only_query_errors(text)


def check_only_query_errors(text: str) -> None:
    error = None
    try:
        parse_script(text)
    except QueryError as caught:
        error = caught
    if error is not None:
        assert error.line is not None
        assert error.column is not None
        assert 1 <= error.line <= 1 + text.count("\n") + text.count("\r")
        assert 1 <= error.column <= len(text) + 1
        assert str(error).isprintable()
        assert "TokenType" not in str(error)
