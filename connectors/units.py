"""Whole numbers for times are microseconds; what if they were written as milliseconds or seconds?"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from .convert import WHOLE_NUMBER

# 1990 to 2100, in seconds since 1970.
PLAUSIBLE_S = (630_000_000, 4_100_000_000)


def first_whole_time(column: pa.Array) -> int | None:
    """The first time of a file's column that is a whole number, None if its times are of another form."""
    if column.null_count == len(column) or pa.types.is_timestamp(column.type):
        return None
    value = column[pc.index(column.is_valid(), True).as_py()].as_py()
    if isinstance(value, str):
        return int(value) if re.fullmatch(WHOLE_NUMBER, value.strip()) else None
    return value if isinstance(value, int) else None


def guess_other_unit(time: int) -> str | None:
    """The unit in which `time` would lie in our age, if microseconds is not it."""
    low, high = PLAUSIBLE_S
    if low <= time < high:
        return "seconds"
    return "milliseconds" if low * 1000 <= time < high * 1000 else None
