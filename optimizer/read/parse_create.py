"""CREATE STREAM and CREATE TABLE: columns with their types, and a stream's clock.

CREATE STREAM name (column type [UNIT unit] [ORDERED [WITHIN n ROWS | WITHIN n | WITHIN duration]
                                                     [PER column | PER (column, ...)]], ...,
                    WATERMARK FOR column [AS column - duration]
                    [AHEAD AT MOST duration [AFTER n ROWS]], IDLE AFTER duration)
CREATE TABLE name (column type [UNIT unit], ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.engine.intake.ahead_rule import AheadRule
from penstock.engine.intake.time_units import UNIT_WORDS, TimeUnit
from penstock.engine.rows.errors import ParseError, UnsupportedError
from penstock.optimizer.tree.logical import Position

from .durations import read_duration, read_slack
from .read_ahead import read_ahead
from .source import fail, words
from .statements import CreateStream, CreateTable, WrittenColumn, WrittenOrder
from .token_reader import TokenReader

MOST_ROWS = 1 << 31
"""The greatest scrambling factor."""
CONSTRAINTS = words("NOT NULL PRIMARY UNIQUE DEFAULT CHECK REFERENCES COLLATE GENERATED COMMENT AS")


def parse_create_stream(
    reader: TokenReader, name: str, name_position: Position, position: Position, sql: str
) -> CreateStream:
    """What follows the stream's name."""
    _open(reader, "STREAM")
    columns: list[WrittenColumn] = []
    time_column: str | None = None
    time_position: Position | None = None
    slack_us = 0
    ahead: AheadRule | None = None
    idle_us: int | None = None
    while True:
        if reader.word() == "IDLE" and reader.word(1) == "AFTER":
            if idle_us is not None:
                raise fail(ParseError, "Expected one IDLE AFTER, found a second", reader.position)
            reader.advance()
            reader.advance()
            idle_us = read_duration(reader)
        elif reader.word() == "WATERMARK" and reader.word(1) == "FOR":
            if time_column is not None:
                raise fail(ParseError, "Expected one WATERMARK, found a second", reader.position)
            reader.advance()
            reader.advance()
            time_column, time_position = reader.read_name("a column after WATERMARK FOR")
            slack_us = _read_watermark(reader, time_column)
            ahead = read_ahead(reader)
        else:
            columns.append(_read_column(reader))
        if not _read_separator(reader):
            break
    reader.expect_end("`)`")
    return CreateStream(
        name,
        tuple(columns),
        time_column,
        time_position,
        slack_us,
        position,
        name_position,
        sql,
        ahead,
        idle_us,
    )


def parse_create_table(
    reader: TokenReader, name: str, name_position: Position, position: Position, sql: str
) -> CreateTable:
    """What follows the table's name."""
    _open(reader, "TABLE")
    columns: list[WrittenColumn] = []
    while True:
        if reader.word() == "WATERMARK" and reader.word(1) == "FOR":
            message = "Expected a column of a table, found WATERMARK"
            raise fail(
                ParseError, message, reader.position, "A table is static; CREATE STREAM has a WATERMARK"
            )
        if reader.word() == "IDLE" and reader.word(1) == "AFTER":
            message = "Expected a column of a table, found IDLE AFTER"
            raise fail(
                ParseError, message, reader.position, "A table is static; CREATE STREAM has IDLE AFTER"
            )
        columns.append(_read_column(reader))
        order = columns[-1].order
        if order is not None:
            message = "Expected a column of a table, found ORDERED"
            raise fail(
                ParseError, message, order.position, "A table is static; a column of a stream is ORDERED"
            )
        if not _read_separator(reader):
            break
    reader.expect_end("`)`")
    return CreateTable(name, tuple(columns), position, name_position, sql)


def _open(reader: TokenReader, kind: str) -> None:
    if reader.word() == "AS":
        raise fail(UnsupportedError, f"Expected columns, found `CREATE {kind} ... AS`", reader.position)
    if reader.type() != "L_PAREN":
        raise reader.unexpected("`(` and the columns after the name")
    reader.advance()
    if reader.type() == "R_PAREN":
        raise reader.unexpected("a column")


def _read_separator(reader: TokenReader) -> bool:
    """Reads `,` (true: more follows) or `)`."""
    if reader.type() == "COMMA":
        reader.advance()
        if reader.type() == "R_PAREN":
            raise reader.unexpected("a column after `,`")
        return True
    if reader.type() == "R_PAREN":
        reader.advance()
        return False
    if reader.word() in CONSTRAINTS:
        found = reader.source.show(reader.tokens[reader.index])
        message = f"Expected `,` or `)` after the column's type, found {found}"
        raise fail(UnsupportedError, message, reader.position, "Columns have a name and a type, nothing else")
    raise reader.unexpected("`,` or `)`")


def _read_column(reader: TokenReader) -> WrittenColumn:
    name, position = reader.read_name("a column's name")
    type_position = reader.position
    if reader.type() in ("COMMA", "R_PAREN", ""):
        raise reader.unexpected(f"a type after column `{name}`")
    if not reader.word()[:1].isalpha():
        raise reader.unexpected(f"a type after column `{name}`")
    parts = [" ".join(str(reader.advance().text).upper().split())]
    if reader.type() == "L_PAREN":
        while not reader.at_end and reader.type() != "R_PAREN":
            parts.append(str(reader.advance().text))
        if reader.at_end:
            raise reader.unexpected("`)` after the type")
        parts.append(str(reader.advance().text))
    if reader.word() in ("WITH", "WITHOUT"):
        parts.append(" " + " ".join(str(reader.advance().text).upper() for _ in range(min(3, _left(reader)))))
    unit_position = reader.position
    unit = _read_unit(reader) if reader.accept("UNIT") else None
    return WrittenColumn(
        name, "".join(parts), position, type_position, unit, unit_position, _read_order(reader)
    )


def _read_unit(reader: TokenReader) -> TimeUnit:
    """What integers in a column of times are, after UNIT."""
    word = reader.expect(*UNIT_WORDS.values())
    return next(unit for unit, name in UNIT_WORDS.items() if name == str(word.text).upper())


def _left(reader: TokenReader) -> int:
    return len(reader.tokens) - reader.index


def _read_watermark(reader: TokenReader, column: str) -> int:
    """The slack after WATERMARK FOR column: `AS column - duration`, `AS column` or nothing."""
    if not reader.accept("AS"):
        return 0
    position = reader.position
    name, _ = reader.read_name(f"`{column}` after AS")
    if name.lower() != column.lower():
        raise fail(ParseError, f"Expected `{column}` after AS, found `{name}`", position)
    if reader.type() != "DASH":
        return 0
    reader.advance()
    return read_slack(reader)


def _read_order(reader: TokenReader) -> WrittenOrder | None:
    """How a column grows; None if nothing is said."""
    position = reader.position
    if not reader.accept("ORDERED"):
        return None
    found = WrittenOrder(position)
    if reader.accept("WITHIN"):
        found = _read_within(reader, found)
    if reader.accept("PER"):
        found = replace(found, per=tuple(_read_per(reader)))
    return found


def _read_per(reader: TokenReader) -> Iterator[tuple[str, Position]]:
    """The columns behind PER: one, or some in brackets."""
    if reader.type() != "L_PAREN":
        yield reader.read_name("a column after PER")
    else:
        reader.advance()
        yield reader.read_name("a column after PER")
        while reader.type() == "COMMA":
            reader.advance()
            yield reader.read_name("a column after `,`")
        if reader.type() != "R_PAREN":
            raise reader.unexpected("`,` or `)` after the columns of PER")
        reader.advance()
    if reader.word() == "IDLE":
        message = "PER column IDLE AFTER duration is not supported yet"
        raise fail(UnsupportedError, message, reader.position, "IDLE AFTER behind a comma is of the stream")


def _read_within(reader: TokenReader, order: WrittenOrder) -> WrittenOrder:
    """What stands behind WITHIN: rows, a number of the column's units, or a duration."""
    position, first = reader.position, reader.index
    behind = 2 if reader.type() == "DASH" else 1
    if reader.type(behind - 1) != "NUMBER":
        if reader.word() == "INTERVAL":
            return WrittenOrder(order.position, duration_us=read_slack(reader), size_position=position)
        raise reader.unexpected("`n ROWS`, a number or a duration after WITHIN")
    if reader.word(behind) in ("ROWS", "ROW"):
        return WrittenOrder(order.position, rows=_read_factor(reader), size_position=position)
    if reader.type(behind) in ("COMMA", "R_PAREN", "") or reader.word(behind) == "PER":
        for _ in range(behind):
            reader.advance()
        text = reader.show_since(first).strip("`")
        if behind == 2:
            raise fail(ParseError, f"Expected 0 or more after WITHIN, found `{text}`", position)
        return WrittenOrder(order.position, keys=text, size_position=position)
    return WrittenOrder(order.position, duration_us=read_slack(reader), size_position=position)


def _read_factor(reader: TokenReader) -> int:
    """`n ROWS`, n of 0 or more."""
    position, first = reader.position, reader.index
    while reader.word() not in ("ROWS", "ROW"):
        reader.advance()
    text = reader.show_since(first).strip("`")
    reader.advance()
    if not text.isdecimal() or len(text) > 10 or int(text) >= MOST_ROWS:
        message = f"Expected a whole number of rows from 0 on and below 2^31 after WITHIN, found `{text}`"
        raise fail(ParseError, message, position)
    return int(text)
