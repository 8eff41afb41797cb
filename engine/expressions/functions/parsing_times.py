"""VARCHAR to TIMESTAMP: year-month-day, then perhaps hours:minutes[:seconds[.fraction]], then perhaps a zone.

    2020-01-02   2020/1/2 3:04   2020-01-02T03:04:05.5Z   2020-01-02 03:04:05+02   0044-03-15 (BC)   epoch

A zone is read and left out of account, as DuckDB does when the target is a TIMESTAMP without one: the clock's
reading counts. Digits beyond microseconds are cut off. 24:00:00 is the next midnight. Infinite timestamps,
which DuckDB has, are refused: a row must have a moment.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call

from .arithmetic import MAX_TIMESTAMP, MIN_TIMESTAMP
from .times import DAY_US
from .values import from_numbers, numbers, refuse_any, truths

# How long text is that Arrow reads as we do; it would also take 2020-01-02 03 for a time, 13 characters.
ARROW_LENGTHS = (10, 16, 19, 21, 22, 23, 24, 25, 26)

TIMESTAMP = (
    r"^(?P<year>-?[0-9]{1,9})(?P<first>[-/ \\])(?P<month>[0-9]{1,2})(?P<second>[-/ \\])(?P<day>[0-9]{1,2})"
    r"(?P<era>(?i: \(BC\))?)"
    r"(?:[T\s]\s*0*(?P<hour>[0-9]{1,2}):(?P<minute>[0-5]?[0-9])(?::(?P<sec>[0-5]?[0-9])(?:\.(?P<fraction>[0-9]*))?)?"
    r"(?:Z|\s?[+-][0-9]{2}(?::?[0-9]{2}|:[0-9]{2}:[0-9]{2})?|\s[0-9A-Za-z_/][-+0-9A-Za-z_/]*)?\s*)?$"
)
EPOCH = r"^(?i)\s*epoch\s*$"


def parse_timestamp(call: Call, text: pa.Array) -> pa.Array:
    try:
        result = text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return parse_odd_timestamp(call, text)
    usual = pc.is_in(pc.utf8_length(text), value_set=pa.array(ARROW_LENGTHS, pa.int32()))
    return result if pc.all(pc.or_(usual, text.is_null())).as_py() else parse_odd_timestamp(call, text)


def parse_odd_timestamp(call: Call, text: pa.Array) -> pa.Array:
    parts = pc.extract_regex(text, TIMESTAMP)

    def field(name: str) -> pa.Array:
        return pc.struct_field(parts, name).fill_null("")

    def number(name: str) -> NDArray[np.int64]:
        digits = field(name)
        return numbers(pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()))

    year, month, day = number("year"), number("month"), number("day")
    is_bc = pc.not_equal(field("era"), "").to_numpy(zero_copy_only=False)
    year_fits = np.where(is_bc, year > 0, np.abs(year) < 300_000)
    year = np.where(is_bc, 1 - year, year)
    # The first of the month and of the next tell how many days it has.
    months = (np.clip(year, -300_000, 300_000) - 1970) * 12 + month - 1
    start, end = (moment.astype("M8[M]").astype("M8[D]").view(np.int64) for moment in (months, months + 1))
    days = start + day - 1
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(field("fraction"), 0, 6), 6, "0")
    clock = (number("hour") * 3600 + number("minute") * 60 + number("sec")) * 1_000_000 + numbers(
        fraction.cast(pa.int64())
    )
    time = days * DAY_US + clock
    # Near the ends of the range 64 bits come round: a double tells the true place well enough to see it.
    rough = days * float(DAY_US) + clock
    good = (
        year_fits
        & (month >= 1)
        & (month <= 12)
        & (day >= 1)
        & (days < end)
        & (clock <= DAY_US)
        & (np.abs(time - rough) < float(DAY_US))
        & (time >= MIN_TIMESTAMP)
        & (time <= MAX_TIMESTAMP)
    )
    matches = pc.and_(parts.is_valid(), pc.equal(field("first"), field("second")))
    is_epoch = truths(pc.match_substring_regex(text, EPOCH))
    refuse_any(call, "a TIMESTAMP", text, pc.or_(is_epoch, pc.and_(matches, pa.array(good))))
    return from_numbers(np.where(is_epoch, 0, time), pa.timestamp("us"), text)
