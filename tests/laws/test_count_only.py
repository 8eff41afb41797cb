"""Queries that only count have as many results as they would be given, alone and beside others that are."""

from __future__ import annotations

from random import Random

import pytest
from work_of import joins_of

import penstock

TABLES = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in "abc")
TWO = "SELECT x.v, y.v AS w FROM a [{0}] AS x JOIN b [{1}] AS y ON x.k = y.k"
MANY = "SELECT x.v FROM a [{0}] AS x JOIN b [{1}] AS y ON x.k = y.k JOIN c [RANGE 8 us] AS z ON x.k = z.k"
RANGES = [("RANGE 9 us", "RANGE 7 us"), ("RANGE 4 us", "RANGE 12 us"), ("RANGE 5 us", "RANGE 5 us")]
ROWS = [("ROWS 5", "ROWS 7"), ("ROWS 3", "ROWS 3")]
FILTERS = ["", " WHERE x.v < 6", " WHERE x.v < 6 AND y.v > 2", " WHERE x.v + y.v < 9"]


def counts(queries: list[str], given: int, sharing: str) -> list[int]:
    """How many results each has, now and then and at the end; of those from `given` on none is made."""
    random, now = Random(5), 0
    seen: list[int] = []
    engine = penstock.Engine(sharing=sharing)
    engine.execute(TABLES)
    started = [engine.query(sql, count_only=at >= given) for at, sql in enumerate(queries)]
    for _ in range(150):
        now += random.randrange(3)
        times = [now, now, now + 1][: random.randrange(1, 4)]
        rows = {
            "ts": times,
            "k": [random.randrange(3) for _ in times],
            "v": [random.randrange(10) for _ in times],
        }
        engine.push(random.choice("abc"), rows)
        now = times[-1]
        if random.random() < 0.1:
            seen += [query.count for query in started]
    engine.close()
    engine.stats()
    for one in (one for group in joins_of(engine) for one in group.form.operators):
        if "union" in one.name:  # it is given pairs that are not for its member
            assert one.counters.rows_in >= one.counters.rows_out
    return [*seen, *(query.count for query in started)]


@pytest.mark.parametrize("given", [0, 1])
@pytest.mark.parametrize("sharing", ["auto", "pull-up", "mem-opt", "push-down", "chain"])
@pytest.mark.parametrize(
    ("windows", "filters"),
    [(RANGES, FILTERS), (ROWS, FILTERS), (RANGES + ROWS, FILTERS), (RANGES, FILTERS[:1])],
)
def test_counts_of_pairs(
    windows: list[tuple[str, str]], filters: list[str], sharing: str, given: int
) -> None:
    queries = [TWO.format(*window) + where for where in filters for window in windows]
    assert counts(queries, given, sharing) == counts(queries, len(queries), "unshared")


@pytest.mark.parametrize("given", [0, 1])
@pytest.mark.parametrize("filters", [FILTERS[:1], FILTERS[:3]])
@pytest.mark.parametrize("windows", [RANGES, RANGES[:1]])
def test_counts_of_rows_of_three_streams(
    windows: list[tuple[str, str]], filters: list[str], given: int
) -> None:
    queries = [MANY.format(*window) + where for where in filters for window in windows]
    assert counts(queries, given, "auto") == counts(queries, len(queries), "unshared")
