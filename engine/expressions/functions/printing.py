"""Values as VARCHAR, as DuckDB writes them.

DOUBLE is the shortest text that reads back the same, always with a point or an exponent: 1.0, 0.0001, 1e-05,
1e+16. Every nan is written nan; DuckDB writes its sign too, which no comparison sees. TIMESTAMP is
2020-01-01 00:00:00.5, without zeros at the end, and 0044-03-15 (BC) 00:00:00 before year 1. INTERVAL is
2 days 01:00:00.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call

from .times import DAY_US, in_cycle, years
from .values import from_numbers, numbers

# Where Arrow's text differs from ours in the ".0" of whole numbers only.
PLAIN_FROM, PLAIN_TO = 1e-4, 1e10


def print_double(call: Call, value: pa.Array) -> pa.Array:
    values = numbers(value)
    text = value.cast(pa.string())
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        is_whole = np.trunc(values) == values
        is_plain = ((size >= PLAIN_FROM) & (size < PLAIN_TO)) | (size == 0)
    text = pc.if_else(pa.array(is_whole), join(text, ".0"), text)
    if is_plain.all():
        return text
    # numpy writes single numbers as we do, at ten times the price.
    rest = pa.array(values[~is_plain].astype("U32"), pa.string())
    known = pa.scalar(True) if not value.null_count else value.is_valid()
    return pc.if_else(
        known, pc.replace_with_mask(text, pa.array(~is_plain), rest), pa.scalar(None, pa.string())
    )


def print_timestamp(call: Call, value: pa.Array) -> pa.Array:
    times = numbers(value)
    within = pa.array(in_cycle(times)[1]).view(pa.timestamp("us"))
    text = from_numbers(numbers(within), pa.timestamp("us"), value).cast(pa.string())
    text = pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".")
    year = years(times)
    if len(year) == 0 or (year.min() >= 1 and year.max() <= 9999):
        return text
    shown = pc.utf8_lpad(pa.array(np.where(year > 0, year, 1 - year)).cast(pa.string()), 4, "0")
    era = pc.if_else(pa.array(year > 0), "", " (BC)")
    # Arrow's year has a sign before 0 and can be longer than four digits: what counts is what follows it.
    rest = pc.replace_substring_regex(text, r"^-?\d+", "")
    return join(shown, pc.utf8_slice_codeunits(rest, 0, 6), era, pc.utf8_slice_codeunits(rest, 6))


def print_interval(call: Call, value: pa.Array) -> pa.Array:
    """Days, then hours and less, each with its sign; in what units it was written is not known."""
    us = numbers(value)
    sign = np.where(us < 0, -1, 1)
    days = np.abs(us // DAY_US + ((us < 0) & (us % DAY_US != 0)))
    rest = np.abs(np.fmod(us, DAY_US))
    minus = pc.if_else(pa.array(sign < 0), "-", "")
    clock = from_numbers(rest, pa.time64("us"), value).cast(pa.string())
    clock = join(minus, pc.ascii_rtrim(pc.ascii_rtrim(clock, "0"), "."))
    count = join(minus, as_text(days), pc.if_else(pa.array(days == 1), " day", " days"))
    shown = pc.if_else(pa.array(rest == 0), count, join(count, " ", clock))
    return pc.if_else(value.is_valid(), pc.if_else(pa.array(days == 0), clock, shown), no_text())


def no_text() -> pa.Scalar:
    return pa.scalar(None, pa.string())


def as_text(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values).cast(pa.string())


def join(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
