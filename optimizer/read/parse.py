"""SQL text to statements.

The text is cut into statements at its semicolons, by token, so that those in strings and comments do not
count. CREATE, DROP and ALTER are read here and in `parse_create.py`; a query has its windows and its tail
lifted out and the rest parsed by the stock SQL parser.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.rows.errors import ParseError, UnsupportedError
from penstock.optimizer.tree.logical import Position

from .lift import lift
from .parse_create import parse_create_stream, parse_create_table
from .parse_relational import parse_relational
from .read_window import read_tail_window
from .source import Source, Token, fail, word_of
from .statements import AlterQuery, CreateQuery, DropQuery, SelectStatement, Statement
from .token_reader import STATEMENT_STARTS, TokenReader, join_words

QUERY_STARTS = ("SELECT", "WITH", "(")
# What is done in another way than by a statement.
_ROWS = "Rows come from outside: engine.push(stream, rows), or -i stream=file at the command line"
ELSEWHERE = {
    **dict.fromkeys(("INSERT", "COPY", "LOAD", "DELETE", "UPDATE", "MERGE", "TRUNCATE"), _ROWS),
    "EXPLAIN": "Write engine.explain() in Python, or `penstock explain` at the command line",
    **dict.fromkeys(
        ("SHOW", "DESCRIBE", "DESC"), "engine.streams, engine.tables and engine.queries say what there is"
    ),
    **dict.fromkeys(("FROM", "VALUES"), "A query begins with SELECT"),
}
# A statement of so many words is planned in a second or two.
MAX_WORDS = 50_000


def parse_script(text: str) -> list[Statement]:
    """Any number of statements, separated by semicolons.

    >>> [type(each).__name__ for each in parse_script("DROP QUERY a; SELECT x FROM s WINDOW 1 MINUTE;")]
    ['DropQuery', 'SelectStatement']
    """
    source = Source(text)
    statements: list[Statement] = []
    tokens: list[Token] = []
    for token in source.tokenize():
        if token.token_type.name != "SEMICOLON":
            tokens.append(token)
        elif tokens:
            statements.append(_parse_statement(source, tokens))
            tokens = []
    if tokens:
        statements.append(_parse_statement(source, tokens))
    return statements


def parse_query(text: str) -> SelectStatement:
    """One query; a semicolon at its end does no harm.

    >>> str(parse_query("SELECT x FROM s WINDOW 90 SECONDS").tail.window.window)
    'RANGE 90 SECONDS'
    """
    statements = parse_script(text)
    if not statements:
        raise ParseError("Expected a query, found nothing", line=1, column=1)
    for statement in statements:
        if not isinstance(statement, SelectStatement):
            written = statement.sql.split(maxsplit=2)
            message = f"Expected a query, found `{' '.join(written[:2])[:40]}`"
            raise fail(ParseError, message, statement.position, "Use execute() for other statements")
    first = statements[0]
    assert isinstance(first, SelectStatement), "all of them are"
    if len(statements) > 1:
        raise fail(ParseError, "Expected one query, found a second", statements[1].position)
    return first


def _parse_statement(source: Source, tokens: Sequence[Token]) -> Statement:
    reader = TokenReader(source, tokens)
    if len(tokens) > MAX_WORDS:
        message = f"Expected at most {MAX_WORDS} words in one statement, found {len(tokens)}"
        hint = "Values by the thousand are better pushed to a table, and joined"
        raise fail(UnsupportedError, message, source.position(tokens[MAX_WORDS].start), hint)
    position, sql = reader.position, _text(source, tokens)
    if reader.word() in QUERY_STARTS:
        return _parse_select(source, tokens)
    verb = reader.accept("CREATE", "DROP", "ALTER")
    if verb is None:
        other = ELSEWHERE.get(reader.word()) or reader.spelling_hint(STATEMENT_STARTS)
        raise reader.unexpected(join_words(STATEMENT_STARTS), other)
    if word_of(verb) == "CREATE":
        if reader.word() == "OR" and reader.word(1) == "REPLACE":
            raise fail(UnsupportedError, "Expected CREATE, found `OR REPLACE`", reader.position)
        _refuse_view(reader)
        kind = word_of(reader.expect("STREAM", "TABLE", "QUERY"))
    else:
        _refuse_other(reader, word_of(verb))
        kind = word_of(reader.expect("QUERY"))
    if reader.word() == "IF" and reader.word(1) in ("NOT", "EXISTS"):
        raise fail(UnsupportedError, f"Expected a name after {kind}, found `IF`", reader.position)
    name, name_position = reader.read_name(f"a name after {kind}")
    if word_of(verb) == "CREATE" and kind == "STREAM":
        return parse_create_stream(reader, name, name_position, position, sql)
    if word_of(verb) == "CREATE" and kind == "TABLE":
        return parse_create_table(reader, name, name_position, position, sql)
    if word_of(verb) == "CREATE":
        reader.expect("AS")
        if reader.word() not in QUERY_STARTS:
            raise reader.unexpected("a query after AS", reader.spelling_hint(("SELECT", "WITH")))
        select = _parse_select(source, tokens[reader.index :])
        return CreateQuery(name, select, position, name_position, sql)
    if word_of(verb) == "DROP":
        reader.expect_end("the name")
        return DropQuery(name, position, name_position, sql)
    return _parse_alter(reader, name, name_position, position, sql)


def _refuse_view(reader: TokenReader) -> None:
    """A view is a query with a name."""
    if "VIEW" in (reader.word(), reader.word(1)) and reader.word() in (
        "VIEW",
        "MATERIALIZED",
        "TEMP",
        "TEMPORARY",
    ):
        hint = "Write CREATE QUERY name AS SELECT, or WITH inside a query"
        raise fail(UnsupportedError, "CREATE VIEW is not supported", reader.position, hint)


def _refuse_other(reader: TokenReader, verb: str) -> None:
    """Only queries are dropped and altered."""
    if reader.word() in ("STREAM", "TABLE", "VIEW"):
        ways = {
            "DROP": "DROP QUERY name ends a query",
            "ALTER": "ALTER QUERY name SET WINDOW changes a query",
        }
        hint = f"Streams and tables stay as long as the engine; {ways[verb]}"
        raise fail(UnsupportedError, f"{verb} {reader.word()} is not supported", reader.position, hint)


def _parse_alter(
    reader: TokenReader, name: str, name_position: Position, position: Position, sql: str
) -> AlterQuery:
    reader.expect("SET")
    reader.expect("WINDOW")
    window = read_tail_window(reader)
    reader.expect_end("the window")
    return AlterQuery(name, window, position, name_position, sql)


def _parse_select(source: Source, tokens: Sequence[Token]) -> SelectStatement:
    lifted = lift(source, tokens)
    kept = lifted.tokens[-1]
    after = next((token for token in tokens if token.start > kept.end), None)
    tree = parse_relational(source, lifted.tokens, after)
    position = source.position(tokens[0].start)
    return SelectStatement(
        tree, lifted.windows, lifted.item_texts, lifted.tail, source, position, _text(source, tokens)
    )


def _text(source: Source, tokens: Sequence[Token]) -> str:
    return source.text[tokens[0].start : tokens[-1].end + 1]
