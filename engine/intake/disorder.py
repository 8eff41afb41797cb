"""What is said of keys that a column which is declared ORDERED cannot have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.keys.keys import INT_MIN, decode_double
from penstock.engine.rows.errors import DataError, LateError
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.write_times import write_duration, write_time

from .key_frontier import Followed, KeyFrontier
from .sound import shorten


def refuse_nan(frontier: KeyFrontier, keys: pa.Array, stream: str) -> None:
    """NaN is above every number, and nothing that comes behind it would be in order."""
    if frontier.type is not SqlType.DOUBLE:
        return
    bad = np.flatnonzero(pc.fill_null(pc.is_nan(keys), False).to_numpy(zero_copy_only=False))
    if len(bad):
        message = f"Expected a number in column `{frontier.name}`, which is ORDERED, found NaN"
        raise DataError(message, source=stream, row=int(bad[0]) + 1)


def disorder(
    frontier: KeyFrontier,
    followed: Followed,
    keys: pa.Array,
    per: Mapping[str, pa.Array],
    place: int,
    stream: str,
    row: int,
) -> LateError:
    """A row has come later than its column was declared; place: among the rows taken, row: in the push.
    per: the columns whose values have a sequence each."""
    before = int(followed.moved.befores[place])
    assert before > INT_MIN, "a row is late against something"
    is_time = frontier.type is SqlType.TIMESTAMP
    found = write_time(keys[place].cast(pa.int64()).as_py()) if is_time else keys[place].as_py()
    values = ", ".join(f"{name} `{shorten(str(values[place].as_py()))}`" for name, values in per.items())
    whose = f" of {values}" if values else ""
    return LateError(
        f"Expected keys of column `{frontier.name}` in order {write_rule(frontier)} "
        f"(now from `{write_code(before, frontier.type)}` on{whose}), found `{found}`",
        source=stream,
        row=row + 1,
        hint="Declare more after WITHIN, or ORDERED alone to have it measured, or write LATE DROP",
    )


def write_rule(frontier: KeyFrontier) -> str:
    """What was declared, as it is written."""
    rule = frontier.rule
    if rule.kind == "rows":
        return f"WITHIN {rule.size:,} ROWS"
    if frontier.type is SqlType.TIMESTAMP:
        return f"WITHIN {write_duration(int(rule.size))}"
    return f"WITHIN {rule.size}"


def write_code(code: int, type_: SqlType) -> str:
    """A key as a person writes it, by its code."""
    if type_ is SqlType.DOUBLE:
        return str(float(decode_double(np.array([code], np.int64))[0]))
    return write_time(code) if type_ is SqlType.TIMESTAMP else str(code)
