"""Constants: numbers and intervals as written, to typed literals."""

from __future__ import annotations

import math

from penstock.engine.expressions.expression import Literal
from penstock.engine.rows.errors import BindError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.durations import A_UNIT, UNITS_US, count_microseconds, read_interval_text

from .bind_context import BindContext, Tree

INT64 = 1 << 63


def bind_number(context: BindContext, node: Tree, text: str) -> Literal:
    """`5` is BIGINT, `5.0` and `5e0` are DOUBLE; a sign belongs to the number, so that the smallest fits."""
    digits = text.removeprefix("-")
    if digits.isdecimal():
        value = int(text) if len(digits) <= 40 else INT64
        if not -INT64 <= value < INT64:
            message = f"Expected a BIGINT between -2^63 and 2^63-1, found `{text[:40]}`"
            raise context.error(BindError, message, node, "Write a decimal point for a DOUBLE")
        return Literal(SqlType.BIGINT, value)
    try:
        real = float(text)
    except ValueError:
        raise context.error(BindError, f"Expected a number, found `{text[:40]}`", node) from None
    if not math.isfinite(real):
        raise context.error(BindError, f"Expected a DOUBLE below 1.8e308, found `{text[:40]}`", node)
    return Literal(SqlType.DOUBLE, real)


def bind_interval(context: BindContext, node: Tree) -> Literal:
    """INTERVAL '5' SECOND, INTERVAL 5 SECONDS, INTERVAL '1 hour 30 minutes'; also with a sign."""
    # Some releases of the stock parser write False for no unit.
    number, unit = node.this, node.args.get("unit") or None
    sign = ""
    if type(number).__name__ == "Neg":
        context.read_only(number, ("this",))
        sign, number = "-", number.this
    if type(number).__name__ != "Literal":
        raise context.error(BindError, "Expected a constant INTERVAL, found an expression", node)
    text = sign + context.name(number)
    unit_name = "" if unit is None else context.name(unit).upper()
    written = f"{text} {unit_name}".strip()
    if unit is not None and unit_name not in UNITS_US:
        raise context.error(BindError, f"Expected an INTERVAL in {A_UNIT}, found `{written}`", node)
    try:
        size = read_interval_text(text) if unit is None else count_microseconds(text.strip(), unit_name)
    except OverflowError:
        message = f"Expected an INTERVAL of less than 2^62 microseconds, found `{written}`"
        raise context.error(BindError, message, node) from None
    if size is None:
        message = f"Expected an INTERVAL such as '5' SECOND, in whole microseconds, found `{written}`"
        raise context.error(BindError, message, node)
    return Literal(SqlType.INTERVAL, size)
