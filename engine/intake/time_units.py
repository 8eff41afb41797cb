"""In which unit integers are times, and what to do if nobody says.

Integers in a TIMESTAMP column are microseconds since 1970, or what the column's UNIT says. Real times (Arrow
timestamps, dates, ISO text) have a unit of their own; with UNIT NANOSECONDS alone what is below a microsecond
is cut off, else it must be zero. Without a UNIT the first integer of a column is looked at:

    1475323200             1970-01-01 as microseconds, 2016-10-01 as seconds           refused
    1475323200000          1970-01-18 as microseconds, 2016-10-01 as milliseconds      refused
    1475323200000000000    year 48721 as microseconds, 2016-10-01 as nanoseconds       refused
    7                      a small number, as in examples                              7 microseconds
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.rows.errors import SchemaError
from penstock.engine.rows.write_times import write_time

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"

US = pa.timestamp("us")
UNIT_WORDS: dict[TimeUnit, str] = {
    "s": "SECONDS",
    "ms": "MILLISECONDS",
    "us": "MICROSECONDS",
    "ns": "NANOSECONDS",
}
WHOLE_NUMBER = r"^[+-]?\d{1,19}$"
DOUBTED_S = (978_307_200, 2_208_988_800)  # 2001-01-01 to the end of 2039
PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 1_000, "ns": 1_000_000_000}


UNIT_KEY = b"penstock.unit"


def with_unit(field: pa.Field, unit: TimeUnit | None) -> pa.Field:
    """The field of a column of times, which says in what its integers are."""
    return field if unit is None else field.with_metadata({UNIT_KEY: unit.encode()})


def unit_of(field: pa.Field) -> TimeUnit | None:
    """What a field says of its integers, if anything."""
    said = (field.metadata or {}).get(UNIT_KEY)
    return next((unit for unit in UNIT_WORDS if said == unit.encode()), None)


def from_integers(column: Column, unit: TimeUnit) -> Column:
    """Integers in a unit as microseconds; ArrowInvalid if one does not fit."""
    return to_microseconds(column.cast(pa.int64()).cast(pa.timestamp(unit)), unit)


def to_microseconds(times: Column, unit: TimeUnit) -> Column:
    """Times without a zone as microseconds; what is below is cut off if the unit is nanoseconds, else
    ArrowInvalid."""
    if unit == "ns" and times.type.unit == "ns":
        times = pc.floor_temporal(times, unit="microsecond")
    return times.cast(US)


def doubt_unit(column: Column, name: str, source: str | None) -> bool:
    """Look at the first value of a column of times: raises if that is an integer which seems to be in another
    unit than microseconds. Whether there was a value to look at; real times are none."""
    type_ = column.type
    while pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if column.null_count == len(column) or pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return False
    row = pc.index(column.is_valid(), True).as_py()
    value = column[row].as_py()
    if isinstance(value, str) and re.fullmatch(WHOLE_NUMBER, value.strip()):
        value = int(value)
    unit = guess_unit(value) if isinstance(value, int) else None
    if unit is not None:
        raise refuse_unit(name, value, unit, source, row)
    return True


def guess_unit(time: int) -> TimeUnit | None:
    """The unit in which an integer is a date of 2001 to 2039, if as microseconds it is far from that."""
    low, high = DOUBTED_S
    return next((unit for unit, per_s in PER_SECOND.items() if low * per_s <= time < high * per_s), None)


def refuse_unit(name: str, value: int, unit: TimeUnit, source: str | None, row: int) -> SchemaError:
    """The error that says what an integer may have been meant to be; row: from 0."""
    meant = write_time(int(value * 1_000_000 // PER_SECOND[unit]))
    seen = f"as microseconds it is {write_time(value)}" if unit != "ns" else "not of our age as microseconds"
    word = UNIT_WORDS[unit]
    return SchemaError(
        f"Expected microseconds since 1970 in column `{name}`, found `{value}`: {seen}, "
        f"as {word.lower()} {meant}",
        source=source,
        row=row + 1,
        hint=f"Declare the unit, `{name} TIMESTAMP UNIT {word}` (or MICROSECONDS), or run with "
        f"--time-unit STREAM={unit}",
    )
