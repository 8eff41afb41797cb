"""Numbers: +, -, *, / and their kin, rounding, roots, powers and logarithms.

BIGINT, TIMESTAMP and INTERVAL arithmetic is checked: what does not fit into 64 bits is an error, never a
wrapped number. DOUBLE arithmetic is IEEE's and never fails: 1 / 0 is inf, ln(0) is -inf, sqrt(-1) is nan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .values import Datum, each_distinct, from_numbers, numbers, selected

# Timestamps a DuckDB TIMESTAMP can hold, 290309-12-22 (BC) to 294247-01-10: a day's start lies in range below
# every one of them, and the largest int64 is free.
MIN_TIMESTAMP = -9_223_372_022_400_000_000
MAX_TIMESTAMP = (1 << 63) - 2

# 10 ** 18 is the largest power of ten in an int64.
MAX_POWER = 18


def checked(call: Call, kernel: Callable[..., Datum], *arguments: Datum) -> Datum:
    """The kernel's result; its overflow or division by zero becomes an error that shows the call."""
    try:
        result = kernel(*arguments)
    except pa.ArrowInvalid as error:
        what = "Division by zero" if "zero" in str(error) else "int64 overflow"
        raise DataError(f"{what} in `{call}`") from None
    if call.type is SqlType.TIMESTAMP:
        bounds = pc.min_max(result.cast(pa.int64()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and (low < MIN_TIMESTAMP or high > MAX_TIMESTAMP):
            raise DataError(f"TIMESTAMP out of range in `{call}`")
    return result


def add(call: Call, left: Datum, right: Datum) -> Datum:
    return pc.add(left, right) if call.type is SqlType.DOUBLE else checked(call, pc.add_checked, left, right)


def subtract(call: Call, left: Datum, right: Datum) -> Datum:
    if call.type is SqlType.DOUBLE:
        return pc.subtract(left, right)
    return checked(call, pc.subtract_checked, left, right)


def multiply(call: Call, left: Datum, right: Datum) -> Datum:
    if call.type is SqlType.DOUBLE:
        return pc.multiply(left, right)
    return checked(call, pc.multiply_checked, left, right)


def divide(call: Call, left: Datum, right: Datum) -> Datum:
    return pc.divide(left, right)


def integer_divide(call: Call, left: Datum, right: Datum) -> Datum:
    """Truncates toward zero. Of DOUBLEs it is /, except that zero does not divide: so it is in DuckDB."""
    if call.type is SqlType.DOUBLE:
        zero = pc.and_(pc.equal(right, 0.0), pc.is_valid(left))
        if pc.any(zero).as_py():
            raise DataError(f"Division by zero in `{call}`")
        return pc.divide(left, right)
    return checked(call, pc.divide_checked, left, right)


def modulo(call: Call, left: Datum, right: Datum) -> Datum:
    """The remainder has the dividend's sign."""
    if call.type is SqlType.DOUBLE:
        with np.errstate(all="ignore"):
            return from_numbers(np.fmod(numbers(left), numbers(right)), pa.float64(), left, right)
    quotient = checked(call, pc.divide_checked, left, right)
    return pc.subtract(left, pc.multiply(quotient, right))


def negate(call: Call, value: Datum) -> Datum:
    return pc.negate(value) if call.type is SqlType.DOUBLE else checked(call, pc.negate_checked, value)


def absolute(call: Call, value: Datum) -> Datum:
    return pc.abs(value) if call.type is SqlType.DOUBLE else checked(call, pc.abs_checked, value)


def sign(call: Call, value: Datum) -> Datum:
    """-1, 0 or 1; of nan 0."""
    below, above = (kernel(value, pa.scalar(0, value.type)) for kernel in (pc.less, pc.greater))
    return pc.subtract(above.cast(pa.int8()), below.cast(pa.int8())).cast(ARROW_TYPES[call.type])


def floor(call: Call, value: Datum) -> Datum:
    return value if call.type is SqlType.BIGINT else pc.floor(value)


def ceil(call: Call, value: Datum) -> Datum:
    return value if call.type is SqlType.BIGINT else pc.ceil(value)


def round_(call: Call, value: Datum, digits: Datum | None = None) -> Datum:
    """Half away from zero; `digits` after the point, or before it if negative."""
    if digits is None:
        if call.type is SqlType.BIGINT:
            return value
        return from_numbers(round_half_away(numbers(value)), pa.float64(), value)
    kernel = round_integers if call.type is SqlType.BIGINT else round_doubles
    return each_distinct(lambda part, n: kernel(call, part, n), ARROW_TYPES[call.type], value, digits)


def round_half_away(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # The largest double below one half: adding one half itself would round 0.49999999999999994 up.
    with np.errstate(invalid="ignore"):
        return np.trunc(values + np.copysign(0.49999999999999994, values))


def round_doubles(call: Call, value: pa.Array, digits: int) -> pa.Array:
    values = numbers(value)
    with np.errstate(all="ignore"):
        if digits >= 0:
            scale = float(10**digits) if digits <= 308 else np.inf
            result = round_half_away(values * scale) / scale
        elif digits >= -308:
            scale = float(10**-digits)
            result = round_half_away(values / scale) * scale
        else:
            result = np.where(np.isfinite(values), 0.0, values)
        result = np.where(np.isfinite(result), result, values)
    return from_numbers(result, pa.float64(), value)


def round_integers(call: Call, value: pa.Array, digits: int) -> pa.Array:
    if digits >= 0:
        return value
    if digits < -MAX_POWER - 1:
        return from_numbers(np.zeros(len(value), np.int64), pa.int64(), value)
    if digits == -MAX_POWER - 1:
        # Ten to the 19th is beyond int64: a value either rounds to zero or does not fit.
        half = 5 * 10**MAX_POWER
        if len(selected(pc.or_(pc.greater_equal(value, half), pc.less_equal(value, -half)))):
            raise DataError(f"int64 overflow in `{call}`")
        return from_numbers(np.zeros(len(value), np.int64), pa.int64(), value)
    unit = 10**-digits
    whole = pc.divide(value, unit)
    rest = pc.subtract(value, pc.multiply(whole, unit))
    up = pc.greater_equal(rest, unit // 2).cast(pa.int64())
    down = pc.less_equal(rest, -(unit // 2)).cast(pa.int64())
    return checked(call, pc.multiply_checked, pc.subtract(pc.add(whole, up), down), pa.scalar(unit))


def power(call: Call, base: Datum, exponent: Datum) -> Datum:
    return pc.power(base, exponent)


def elementary(kernel: Callable[[Any], Any]) -> Callable[[Call, Datum], Datum]:
    """A function of one DOUBLE that Arrow has as it should be."""
    return lambda call, value: kernel(value)


ARITHMETIC: dict[str, Callable[..., Datum]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "integer_divide": integer_divide,
    "modulo": modulo,
    "negate": negate,
    "abs": absolute,
    "sign": sign,
    "floor": floor,
    "ceil": ceil,
    "round": round_,
    "power": power,
    "sqrt": elementary(pc.sqrt),
    "ln": elementary(pc.ln),
    "log10": elementary(pc.log10),
    "log2": elementary(pc.log2),
    "exp": elementary(pc.exp),
}
