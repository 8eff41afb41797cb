"""What leaves at an instant meets nobody who comes at it, also where each leaving is said (negative tuples).

c  x    1 =============================
a  y            4=|                       leaves at 5
a  z            4 5                       id 2 comes at 5: no row with x and y
"""

from __future__ import annotations

from typing import Any

import pytest
from incremental_help import APPROACHES
from oracle import rows_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled

PAIRS = "SELECT z.id FROM c [RANGE 50 us] AS x JOIN a [RANGE 1 us] AS y ON x.id = y.id"
QUERIES = {
    "a join": f"{PAIRS} CROSS JOIN a [RANGE 40 us] AS z",
    "a computed key": f"{PAIRS} JOIN a [RANGE 40 us] AS z ON y.id - y.id = z.id - z.id",
    "a union": "SELECT z.id FROM (SELECT id FROM a [RANGE 1 us] AS y UNION ALL "
    "SELECT id FROM c [RANGE 3 us] AS x) AS u CROSS JOIN a [RANGE 40 us] AS z WHERE u.id = 1",
}


def run(query: str, emit: str, **options: Any) -> tuple[list[tuple[Any, ...]], int]:
    engine = penstock.Engine(**options)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, id BIGINT); CREATE STREAM c (ts TIMESTAMP, id BIGINT)")
    given = engine.query(f"{query} EMIT {emit}")
    counted = engine.query(f"{query} EMIT {emit}", count_only=True)
    engine.push("c", {"ts": [1], "id": [1]})
    engine.push("a", {"ts": [4, 5], "id": [1, 2]})
    engine.advance(4)
    engine.advance(100)
    rows = rows_of(given.results())
    assert counted.count == len(rows)
    return rows, counted.count


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("expiry", APPROACHES)
def test_who_leaves_meets_nobody_who_comes(expiry: str, query: str) -> None:
    for scheduler in (RoundRobin(1), RoundRobin(), *map(Shuffled, range(6))):
        rows, _ = run(QUERIES[query], "INSERTS", expiry=expiry, scheduler=scheduler)
        assert rows == [(4, 1)]
        changes, _ = run(QUERIES[query], "CHANGES", expiry=expiry, scheduler=scheduler)
        assert changes == [(4, 1, 1)] if expiry == "ita" else [(4, 1, 1), (5, -1, 1)]


def test_equal_rows_that_come_and_leave_at_one_instant_are_both_given() -> None:
    """They are two rows: only where rows are taken back are changes of an instant net."""
    for expiry in ("auto", "nta"):
        engine = penstock.Engine(expiry=expiry)
        engine.execute("CREATE STREAM a (ts TIMESTAMP, id BIGINT)")
        given = engine.query(
            "SELECT x.id FROM a [RANGE 2 us] AS x JOIN a [RANGE 2 us] AS y ON x.id = y.id "
            "JOIN a [RANGE 2 us] AS z ON z.id < y.id + 1 EMIT INSERTS"
        )
        engine.push("a", {"ts": [1, 3], "id": [7, 7]})
        engine.advance(9)
        assert rows_of(given.results()) == [(1, 7), (3, 7)]
