"""ORDERED behind a column: which types can grow, and what WITHIN means of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.engine.intake.order_rule import OrderRule
from penstock.engine.rows.errors import BindError, UnsupportedError, did_you_mean
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.source import fail
from penstock.optimizer.read.statements import WrittenColumn, WrittenOrder

MOST_KEYS = 1 << 62
GROWING = (SqlType.BIGINT, SqlType.TIMESTAMP, SqlType.DOUBLE)


def bind_order(column: WrittenColumn, type_: SqlType, names: Sequence[str]) -> OrderRule | None:
    """What is declared of a column's order; None if nothing is. names: of all columns."""
    order = column.order
    if order is None:
        return None
    if type_ not in GROWING:
        is_text = type_ is SqlType.VARCHAR
        message = (
            f"Expected BIGINT, TIMESTAMP or DOUBLE before ORDERED, found {type_} in column `{column.name}`"
        )
        raise fail(UnsupportedError if is_text else BindError, message, order.position)
    return replace(_within(column, type_, order), per=_per(column, order, names))


def _within(column: WrittenColumn, type_: SqlType, order: WrittenOrder) -> OrderRule:
    if order.rows is not None:
        return OrderRule("rows", order.rows)
    if order.duration_us is not None:
        return _within_duration(column, type_, order, order.duration_us)
    return OrderRule("monitored") if order.keys is None else _within_keys(column, type_, order, order.keys)


def _per(column: WrittenColumn, order: WrittenOrder, names: Sequence[str]) -> tuple[int, ...]:
    """The places of the columns behind PER."""
    places = {name.lower(): place for place, name in enumerate(names)}
    found: list[int] = []
    for name, position in order.per:
        place = places.get(name.lower())
        if place is None:
            message = f"Expected a column of the stream after PER, found `{name}`"
            raise fail(BindError, message, position, did_you_mean(name, names))
        if name.lower() == column.name.lower() or place in found:
            message = f"Expected another column after PER of `{column.name}`, found `{name}`"
            raise fail(BindError, f"{message}{' twice' if place in found else ''}", position)
        found.append(place)
    return tuple(found)


def _within_duration(column: WrittenColumn, type_: SqlType, order: WrittenOrder, size: int) -> OrderRule:
    if type_ is not SqlType.TIMESTAMP:
        message = f"Expected a number or `n ROWS` after WITHIN of {type_}, found a duration"
        raise fail(BindError, message, order.size_position or order.position)
    return OrderRule("within", size)


def _within_keys(column: WrittenColumn, type_: SqlType, order: WrittenOrder, text: str) -> OrderRule:
    position = order.size_position or order.position
    if type_ is SqlType.TIMESTAMP:
        message = f"Expected a duration or `n ROWS` after WITHIN of TIMESTAMP, found `{text}`"
        raise fail(BindError, message, position, "Write WITHIN 5 SECONDS")
    size = _number(text, type_)
    if size is None:
        kind = "number" if type_ is SqlType.DOUBLE else "whole number"
        message = f"Expected a {kind} from 0 on and below 2^62 after WITHIN, found `{text}`"
        raise fail(BindError, message, position)
    return OrderRule("within", size)


def _number(text: str, type_: SqlType) -> int | float | None:
    """A number of a column's units; None if it is none, or too large."""
    if type_ is SqlType.BIGINT:
        return int(text) if text.isdecimal() and len(text) < 20 and int(text) < MOST_KEYS else None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < MOST_KEYS else None
