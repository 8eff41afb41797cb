"""What the fuzzer of everything at once has found (make fuzz), by what was wrong, as small as it got."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import rows_of

import penstock

STREAMS = """CREATE STREAM a (ts TIMESTAMP, k BIGINT, v DOUBLE);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, v DOUBLE);
CREATE TABLE t (k BIGINT, v DOUBLE)"""


def make(**options: Any) -> penstock.Engine:
    """Two streams and a table with two rows."""
    engine = penstock.Engine(**options)
    engine.execute(STREAMS)
    engine.push("t", {"k": [1, 2], "v": [0.5, 0.5]})
    return engine


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "in company"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.k, q.v FROM t LEFT JOIN b [RANGE 2 us] AS q ON t.k + 1 = q.k",
        "SELECT k, v FROM t UNION SELECT k, v FROM b [ROWS 1]",
        "SELECT k, SUM(v) AS v FROM (SELECT * FROM t UNION ALL SELECT k, v FROM b [NOW]) AS u GROUP BY k",
        "SELECT COUNT(*) AS n, 1 AS one FROM b [RANGE 2 us]",
    ],
)
def test_what_stands_before_the_first_row_enters_for_inserts_too(sql: str, is_alone: bool) -> None:
    """Time had come to 3, without rows: a query of EMIT INSERTS that found a like one at work passed over
    the rows of tables, as if it had come after rows that it was not there for.

    time    3                8
    first   | q, then EMIT INSERTS and EMIT CHANGES
    """
    engine = make()
    if not is_alone:
        engine.query(f"{sql} EMIT CHANGES", "q")
    engine.advance(3)
    inserts = engine.query(f"{sql} EMIT INSERTS", "inserts")
    changes = engine.query(f"{sql} EMIT CHANGES", "changes")
    counted = engine.query(f"{sql} EMIT INSERTS", "counted", count_only=True)
    engine.advance(8)
    engine.close()
    entered = [(ts, *row) for ts, diff, *row in rows_of(changes.results()) if diff > 0]
    assert entered and {ts for ts, *_ in entered} == {3}
    assert (rows_of(inserts.results()), counted.count) == (entered, len(entered))
    assert inserts.complete_from is None
