"""Functions of timestamps against DuckDB, over all the time there is."""

from __future__ import annotations

import numpy as np
from functions_oracle import Table, crossed
from nasty_values import BIGINT, DAY, DOUBLE, TIMES, TIMESTAMP, VARCHAR, words

from penstock.engine.expressions.expression import Call, Literal


def test_date_trunc_oracle() -> None:
    units = words(
        "microseconds|Millisecond|ms|SECOND|s|minute|m|hour|h|day|week|month|quarter|year|decade|century"
    )
    units += [None, *words("millennium|isoyear|epoch|dow|mons|yrs")]
    random = np.random.default_rng(5).integers(-(2**62), 2**62, 300).tolist()
    table = Table([(TIMESTAMP, TIMES + random)])
    table.check(*(Call(TIMESTAMP, "date_trunc", (Literal(VARCHAR, unit), *table.columns)) for unit in units))
    table = crossed((VARCHAR, [*units, "fortnight"]), (TIMESTAMP, TIMES))
    table.check(Call(TIMESTAMP, "date_trunc", tuple(table.columns)))


def test_calendar_oracle() -> None:
    """Each week of 1200 years around the epoch and random times of all."""
    random = np.random.default_rng(6).integers(-(2**63) + 10**16, 2**63 - 1, 20_000).tolist()
    table = Table(
        [(TIMESTAMP, [*range(-600 * 366 * DAY, 600 * 366 * DAY, 7 * DAY + 3_599_999_999), *random])]
    )
    for function in ("year", "month", "day", "hour", "minute", "second", "day_of_week"):
        table.check(Call(BIGINT, function, tuple(table.columns)))
    table.check(Call(VARCHAR, "cast", tuple(table.columns)), Call(DOUBLE, "epoch", tuple(table.columns)))
