"""CAST: which types can become which, and how numbers do; text is in `parsing.py` and `printing.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.expressions.expression import Call
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .parsing import parse_boolean, parse_double, parse_integer
from .parsing_times import parse_timestamp
from .printing import print_double, print_interval, print_timestamp
from .values import Datum, as_array, from_numbers, numbers, refuse_any

BIGINT, DOUBLE, BOOLEAN, VARCHAR = SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.VARCHAR
TIMESTAMP, INTERVAL = SqlType.TIMESTAMP, SqlType.INTERVAL


def by_arrow(call: Call, value: pa.Array) -> pa.Array:
    """Unsafe only in that a BIGINT beyond 2 ** 53 becomes the nearest DOUBLE."""
    return value.cast(ARROW_TYPES[call.type], safe=False)


def is_not_zero(call: Call, value: pa.Array) -> pa.Array:
    """nan is not zero."""
    return pc.not_equal(value, pa.scalar(0, value.type))


def double_to_integer(call: Call, value: pa.Array) -> pa.Array:
    """Half to even, unlike ROUND: so it is in DuckDB."""
    with np.errstate(invalid="ignore"):
        rounded = np.rint(numbers(value))
        fits = (rounded >= -(2.0**63)) & (rounded < 2.0**63)
        if not fits.all():
            refuse_any(call, "a number in the range of BIGINT", value, pa.array(fits))
        return from_numbers(rounded.astype(np.int64), pa.int64(), value)


CASTS: dict[tuple[SqlType, SqlType], Callable[[Call, pa.Array], pa.Array]] = {
    (BIGINT, DOUBLE): by_arrow,
    (BIGINT, BOOLEAN): is_not_zero,
    (BIGINT, VARCHAR): by_arrow,
    (DOUBLE, BIGINT): double_to_integer,
    (DOUBLE, BOOLEAN): is_not_zero,
    (DOUBLE, VARCHAR): print_double,
    (BOOLEAN, BIGINT): by_arrow,
    (BOOLEAN, DOUBLE): by_arrow,
    (BOOLEAN, VARCHAR): by_arrow,
    (TIMESTAMP, VARCHAR): print_timestamp,
    (INTERVAL, VARCHAR): print_interval,
    (VARCHAR, BIGINT): parse_integer,
    (VARCHAR, DOUBLE): parse_double,
    (VARCHAR, BOOLEAN): parse_boolean,
    (VARCHAR, TIMESTAMP): parse_timestamp,
}


def is_castable(source: SqlType, target: SqlType) -> bool:
    """Whether CAST takes the one to the other."""
    return source is target or source is SqlType.NULL or (source, target) in CASTS


def can_fail(source: SqlType, target: SqlType) -> bool:
    """Whether some values of the one do not go into the other."""
    return (source is VARCHAR and target is not VARCHAR) or (source, target) == (DOUBLE, BIGINT)


def cast(call: Call, value: Datum) -> Datum:
    source = call.arguments[0].type
    if source is call.type:
        return value
    array = as_array(value, 1)
    if source is SqlType.NULL:
        return pa.nulls(len(array), ARROW_TYPES[call.type])
    assert is_castable(source, call.type), f"the binder refuses a cast from {source} to {call.type}"
    return CASTS[source, call.type](call, array)
