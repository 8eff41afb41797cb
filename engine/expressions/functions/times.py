"""TIMESTAMP: its parts, its epoch, DATE_TRUNC.

The calendar is the Gregorian one, carried back before its time; the year before 1 is 0. It repeats itself
every 400 years, weekdays included, which brings years that Arrow does not know (beyond 32767) into those it
does.
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
from penstock.engine.rows.write_times import UNITS_US

from .values import Datum, each_distinct, from_numbers, numbers, valid

Times = NDArray[np.int64]

DAY_US = 86_400_000_000
CYCLE_YEARS = 400
CYCLE_US = 146_097 * DAY_US

# 1970-01-01 was a Thursday: so many days after the Monday and the Sunday before it.
EPOCH_FROM_MONDAY = 3
EPOCH_FROM_SUNDAY = 4

# Arrow's calendar is exact at least this far from 1970.
NEAR_US = 29_000 * 365 * DAY_US


def in_cycle(times: Times) -> tuple[Any, Times]:
    """How many times 400 years to take away, and the times without them; 0 if all are near enough."""
    if len(times) == 0 or (times.min() > -NEAR_US and times.max() < NEAR_US):
        return 0, times
    return times // CYCLE_US, times % CYCLE_US


def years(times: Times) -> Times:
    cycles, within = in_cycle(times)
    return numbers(pc.year(pa.array(within).view(pa.timestamp("us")))) + cycles * CYCLE_YEARS


def calendar_part(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[Call, Datum], Datum]:
    """The month or the day, which 400 years do not change."""

    def part(call: Call, time: Datum) -> Datum:
        within = pa.array(in_cycle(numbers(time))[1]).view(pa.timestamp("us"))
        return from_numbers(numbers(kernel(within)), pa.int64(), time)

    return part


def clock_part(unit_us: int, count: int) -> Callable[[Call, Datum], Datum]:
    """How many units of the `count` that make the next larger one."""
    return lambda call, time: from_numbers(numbers(time) // unit_us % count, pa.int64(), time)


def year(call: Call, time: Datum) -> Datum:
    return from_numbers(years(numbers(time)), pa.int64(), time)


def day_of_week(call: Call, time: Datum) -> Datum:
    """0 is Sunday."""
    return from_numbers((numbers(time) // DAY_US + EPOCH_FROM_SUNDAY) % 7, pa.int64(), time)


def epoch(call: Call, time: Datum) -> Datum:
    """Seconds, also of an INTERVAL."""
    return from_numbers(numbers(time) / 1e6, pa.float64(), time)


def months_of(times: Times) -> Times:
    """Months since January 1970."""
    return times.view("M8[us]").astype("M8[M]").view(np.int64)


def from_months(months: Times) -> Times:
    return months.astype("M8[M]").astype("M8[D]").view(np.int64) * DAY_US


def to_multiple(unit_us: int) -> Callable[[Times], Times]:
    return lambda times: times - times % unit_us


def to_week(times: Times) -> Times:
    """Weeks start on Monday."""
    days = times // DAY_US
    return (days - (days + EPOCH_FROM_MONDAY) % 7) * DAY_US


def to_months(count: int) -> Callable[[Times], Times]:
    def truncate(times: Times) -> Times:
        months = months_of(times)
        return from_months(months - months % count)

    return truncate


def to_years(count: int) -> Callable[[Times], Times]:
    """Of decades and longer: the year 0 begins one going up and one going down, as division truncates."""

    def truncate(times: Times) -> Times:
        year = years(times)
        return from_months((year - np.fmod(year, count) - 1970) * 12)

    return truncate


def to_iso_year(times: Times) -> Times:
    """The Monday of the week with 4 January; the year is that of this week's Thursday."""
    thursday = to_week(times) + 3 * DAY_US
    january = from_months((years(thursday) - 1970) * 12)
    return to_week(january + 3 * DAY_US)


SIZE_US = dict(UNITS_US)

# Names of units, and what they cut off.
TRUNCATIONS: dict[str, Callable[[Times], Times]] = {
    name: truncate
    for names, truncate in {
        "microsecond microseconds us usec usecs usecond useconds": to_multiple(1),
        "millisecond milliseconds ms msec msecs msecond mseconds": to_multiple(SIZE_US["MILLISECOND"]),
        "second seconds sec secs s epoch": to_multiple(SIZE_US["SECOND"]),
        "minute minutes min mins m": to_multiple(SIZE_US["MINUTE"]),
        "hour hours hr hrs h": to_multiple(SIZE_US["HOUR"]),
        "day days d dayofmonth dow dayofweek weekday isodow doy dayofyear julian": to_multiple(DAY_US),
        "week weeks w weekofyear yearweek": to_week,
        "month months mon mons": to_months(1),
        "quarter quarters": to_months(3),
        "year years yr yrs y": to_months(12),
        "decade decades dec decs": to_years(10),
        "century centuries cent c": to_years(100),
        "millennium millennia millenium mil mils": to_years(1000),
        "isoyear": to_iso_year,
    }.items()
    for name in names.split()
}


def date_trunc(call: Call, unit: Datum, time: Datum) -> Datum:
    """The start of the unit the time lies in."""

    def truncate(part: pa.Array, name: str) -> pa.Array:
        if name.lower() not in TRUNCATIONS:
            if isinstance(unit, pa.Array) and part.null_count == len(part):
                return part
            raise DataError(f"Expected a unit such as `hour` in `{call}`, found `{name}`")
        times = numbers(part)
        result = TRUNCATIONS[name.lower()](times)
        # Nothing before 1970 starts after it, unless its start is beyond 64 bits and came round.
        lost, known = (times < 0) & (result > 0), valid(part)
        if (lost if known is None else lost & known).any():
            raise DataError(f"TIMESTAMP out of range in `{call}`")
        return from_numbers(result, pa.timestamp("us"), part)

    return each_distinct(truncate, pa.timestamp("us"), time, unit)


TIMES: dict[str, Callable[..., Datum]] = {
    "year": year,
    "month": calendar_part(pc.month),
    "day": calendar_part(pc.day),
    "hour": clock_part(SIZE_US["HOUR"], 24),
    "minute": clock_part(SIZE_US["MINUTE"], 60),
    "second": clock_part(SIZE_US["SECOND"], 60),
    "day_of_week": day_of_week,
    "epoch": epoch,
    "date_trunc": date_trunc,
}
