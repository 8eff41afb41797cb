"""CREATE STREAM and CREATE TABLE: the declared relation, its names and types checked."""

from __future__ import annotations

from penstock.engine.rows.errors import BindError, did_you_mean
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.source import fail
from penstock.optimizer.read.statements import CreateStream, CreateTable, WrittenColumn
from penstock.optimizer.tree.logical import Position

from .bind_order import bind_order
from .catalog import ColumnDef, StreamDef, TableDef
from .column_types import read_column_type

DEFAULT_TIME_COLUMN = "ts"


def bind_relation(statement: CreateStream | CreateTable) -> StreamDef | TableDef:
    """The relation the statement declares; whether its name is free is the caller's business."""
    columns = _bind_columns(statement)
    if isinstance(statement, CreateTable):
        return TableDef(statement.name, columns)
    return StreamDef(
        statement.name,
        columns,
        _time_column(statement, columns),
        statement.slack_us,
        ahead=statement.ahead,
        idle_us=statement.idle_us,
    )


def _bind_columns(statement: CreateStream | CreateTable) -> tuple[ColumnDef, ...]:
    if not statement.columns:
        message = f"Expected at least one column in `{statement.name}`, found none"
        raise fail(BindError, message, statement.name_position)
    seen: set[str] = set()
    names = [column.name for column in statement.columns]
    columns: list[ColumnDef] = []
    for column in statement.columns:
        _check_new(column, seen, statement.name)
        type_ = read_column_type(column)
        if column.unit is not None and type_ is not SqlType.TIMESTAMP:
            message = f"Expected TIMESTAMP before UNIT, found {type_} in column `{column.name}`"
            raise fail(BindError, message, column.unit_position)
        columns.append(ColumnDef(column.name, type_, column.unit, bind_order(column, type_, names)))
    return tuple(columns)


def _check_new(column: WrittenColumn, seen: set[str], relation: str) -> None:
    if column.name.lower() in seen:
        message = f"Expected different column names in `{relation}`, found `{column.name}` twice"
        raise fail(BindError, message, column.position)
    seen.add(column.name.lower())


def _time_column(statement: CreateStream, columns: tuple[ColumnDef, ...]) -> int:
    name = statement.time_column if statement.time_column is not None else DEFAULT_TIME_COLUMN
    places = {column.name.lower(): place for place, column in enumerate(columns)}
    place = places.get(name.lower())
    position: Position = statement.time_position or statement.name_position
    if place is None:
        if statement.time_column is not None:
            hint = did_you_mean(name, [column.name for column in columns])
            message = f"Expected a column of `{statement.name}` in WATERMARK, found `{name}`"
            raise fail(BindError, message, position, hint)
        message = f"Expected a time column in `{statement.name}`, found no WATERMARK and no column `ts`"
        raise fail(
            BindError, message, position, "Write WATERMARK FOR column after the columns, or name it `ts`"
        )
    found = columns[place]
    if found.type is not SqlType.TIMESTAMP:
        message = f"Expected TIMESTAMP as the type of the time column `{found.name}`, found {found.type}"
        raise fail(
            BindError, message, position if statement.time_column else statement.columns[place].type_position
        )
    return place
