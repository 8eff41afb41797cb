"""What a newcomer gets wrong, and the whole of what we say: one line, with line and column.

The cases are in query_errors.txt: a statement, and behind `-->` its error. PENSTOCK_REWRITE=1 writes what
comes out as what is expected; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine.rows.errors import ParseError, QueryError, UnsupportedError
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.bind.catalog import Catalog
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.read.statements import CreateQuery, CreateStream, CreateTable, SelectStatement

CASES = Path(__file__).with_name("query_errors.txt")
ARROW = "--> "


def paragraphs() -> list[str]:
    return CASES.read_text().rstrip("\n").split("\n\n")


def statements() -> list[tuple[str, str]]:
    split = [part.rsplit(f"\n{ARROW}", 1) for part in paragraphs() if not part.startswith("#")]
    return [(sql, expected) for sql, expected in split]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    declared = Catalog()
    script = """
    CREATE STREAM s1 (ts TIMESTAMP, location BIGINT, value DOUBLE, name VARCHAR, ok BOOLEAN);
    CREATE STREAM s2 (ts TIMESTAMP, location BIGINT, value DOUBLE);
    CREATE TABLE favourite (item BIGINT, label VARCHAR)"""
    for statement in parse_script(script):
        assert isinstance(statement, CreateStream | CreateTable)
        declared.add(bind_relation(statement))
    return declared


def run(sql: str, catalog: Catalog) -> None:
    for statement in parse_script(sql):
        match statement:
            case CreateStream() | CreateTable():
                bind_relation(statement)
            case CreateQuery():
                bind_query(statement.select, catalog)
            case SelectStatement():
                bind_query(statement, catalog)


def complaint(sql: str, catalog: Catalog) -> str:
    try:
        run(sql, catalog)
    except QueryError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing is wrong"


@pytest.mark.skipif("PENSTOCK_REWRITE" in os.environ, reason="expectations are being written")
@pytest.mark.parametrize(("sql", "expected"), statements(), ids=[sql[:60] for sql, _ in statements()])
def test_what_we_say(sql: str, expected: str, catalog: Catalog) -> None:
    assert complaint(sql, catalog) == expected


if "PENSTOCK_REWRITE" in os.environ:

    def test_rewrite(catalog: Catalog) -> None:
        written: list[str] = []
        for part in paragraphs():
            sql = part.rsplit(f"\n{ARROW}", 1)[0]
            written.append(part if part.startswith("#") else f"{sql}\n{ARROW}{complaint(sql, catalog)}")
        CASES.write_text("\n\n".join(written) + "\n")


def test_a_message_is_one_line_without_control_characters(catalog: Catalog) -> None:
    for sql in (
        'SELECT "a\nb" FROM s1',
        "SELECT 'a\x1b[31m' + 1 FROM s1",
        '"\x1b"',
        "SELECT 1 FROM s1 \x1b x \x07",
    ):
        assert complaint(sql, catalog).isprintable()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT " + "(" * 40 + "1" + ")" * 40 + " FROM s1",
            "Expected at most 32 nested brackets, found more",
        ),
        (
            "SELECT " + "NOT " * 9_000 + "ok FROM s1",
            "Expected a query less deeply nested, found one too deep",
        ),
        (
            "SELECT " + "+".join(["value"] * 500) + " FROM s1",
            "An expression more than 150 deep is not supported",
        ),
        ("SELECT 1 FROM s1" + " CROSS JOIN s2" * 101, "Expected at most 100 joins in one query, found more"),
        ("SELECT 1 FROM s1" + " JOIN s2" * 20_000, "Expected at most 100 joins in one query, found more"),
        (
            "SELECT 1 FROM " + ", ".join(f"s1 a{i}" for i in range(200)),
            "Expected at most 100 joins in one query",
        ),
        (" EXCEPT ".join(["SELECT ts FROM s1"] * 300), "A query of more than 200 steps one above the other"),
        ("SELECT CAST(ts AS " + "ARRAY<" * 20_000, "Expected BIGINT, DOUBLE, BOOLEAN, VARCHAR or TIMESTAMP"),
        (
            "SELECT " + "(" * 25 + "ok" + " BETWEEN TRUE AND FALSE)" * 25 + " FROM s1",
            "More than 100000 expressions in a query",
        ),
    ],
    ids=range(9),
)
def test_what_is_too_much_is_refused(sql: str, message: str, catalog: Catalog) -> None:
    with pytest.raises(UnsupportedError) as caught:
        run(sql, catalog)
    assert str(caught.value).startswith(message)


def test_a_with_that_doubles_is_refused(catalog: Catalog) -> None:
    doubling = ", ".join(
        f"x{i} AS (SELECT ts FROM x{i - 1} UNION ALL SELECT ts FROM x{i - 1})" for i in range(1, 40)
    )
    with pytest.raises(UnsupportedError, match="More than 1000 references"):
        run(f"WITH x0 AS (SELECT ts FROM s1), {doubling} SELECT ts FROM x39", catalog)


def test_a_query_is_one_query() -> None:
    with pytest.raises(ParseError, match="Expected one query, found a second, at line 2, column 3"):
        parse_query("SELECT 1 FROM s;\n  SELECT 2 FROM s")
    with pytest.raises(
        ParseError, match=r"Expected a query, found `DROP QUERY`, at line 1, column 1\. Use execute"
    ):
        parse_query("DROP QUERY a")
