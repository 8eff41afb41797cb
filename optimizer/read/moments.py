"""Constant timestamps, read by the engine's own cast: a constant and a column of the same text are equal."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.expressions.expression import Call, Literal
from penstock.engine.expressions.functions.parsing_times import parse_timestamp
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType


def read_moment(text: str) -> int | None:
    """The moment in microseconds since the epoch; None if the text is none."""
    cast = Call(SqlType.TIMESTAMP, "cast", (Literal(SqlType.VARCHAR, text),))
    try:
        moments = parse_timestamp(cast, pa.array([text], pa.string()))
    except DataError:
        return None
    return int(moments.cast(pa.int64())[0].as_py())
