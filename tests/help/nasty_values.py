"""Values of every SQL type that functions get wrong: limits, signs of zero, nan, odd text, far times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.engine.rows.types import SqlType

BIGINT, DOUBLE, BOOLEAN, VARCHAR = SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.VARCHAR
TIMESTAMP, INTERVAL = SqlType.TIMESTAMP, SqlType.INTERVAL

NAN, INF = math.nan, math.inf
DAY = 86_400_000_000


def words(text: str) -> list[Any]:
    return text.split("|")


def moment(text: str) -> int:
    """Microseconds since the epoch."""
    return int(np.datetime64(text, "us").astype(np.int64))


INTEGERS = [None, 0, 1, -1, 2, -2, 7, -7, 10, 3_037_000_500, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1]
DOUBLES = [
    None,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    1e-5,
    0.0001,
    123456.75,
    NAN,
    INF,
    -INF,
]
DOUBLES += [1e10, 1e15, 1e16, 1e20, -1e20, 1e300, 1.7e308, 5e-324, 0.49999999999999994, 2.0**52 + 1]
DOUBLES += [2.0**63, -(2.0**63), 2.0**63 - 1024]
BOOLEANS = [None, True, False]
TEXTS = words("|_| |a|A|abc|aBc |  abc\t|a%c|a_c|a\\c|a\nc|äöü|ÄÖÜ|ß|日本語|e\u0301|😀x😀|\u00a0x\u2003|aaa")
TEXTS += [None, "x" * 300, "ab" * 100 + "c", "'quoted'", "a\0b"]
TIMES = [
    None,
    0,
    -1,
    1,
    -DAY,
    DAY - 1,
    moment("1900-02-28T13:14:15.123456"),
    moment("0001-01-01"),
    moment("-0043-03-15"),
]
TIMES += [
    moment("9999-12-31T23:59:59.999999"),
    moment("10000-01-01"),
    moment("290000-01-01"),
    moment("2000-02-29"),
]
TIMES += [
    moment("2021-01-03T23:59:59.5"),
    moment("2020-12-31T12:34:56.789012"),
    moment("2024-02-29T00:00:00.0001"),
]
TIMES += [-9_223_372_022_400_000_000, 2**63 - 2, 1_500_000_000_000_000_000, -4_000_000_000_000_000_000]
SPANS = [None, 0, 1, -1, DAY, -DAY, 3_600_000_000, -90_000_000_001, 1_500_000, 400 * DAY + 5, 10**15]
NASTY: dict[SqlType, list[Any]] = {
    BIGINT: INTEGERS,
    DOUBLE: DOUBLES,
    BOOLEAN: BOOLEANS,
    VARCHAR: TEXTS,
    TIMESTAMP: TIMES,
    INTERVAL: SPANS,
}
SMALL_INTEGERS = [None, 0, 1, 2, 3, 5, -1, -2, -3, -7, 100, 2**32 - 1, 2**32, -(2**32), -(2**32) - 1]
