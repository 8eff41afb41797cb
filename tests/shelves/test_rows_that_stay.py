"""Stored rows when members go: they stay where they are only if all of a shelf live equally long."""

from __future__ import annotations

from work_of import joins_of

import penstock

CREATE = "CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)"
PAIRS = "SELECT x.ts, y.ts AS other FROM a AS x JOIN b AS y ON x.k = y.k"


def push(engine: penstock.Engine, rows: dict[int, int]) -> None:
    """rows: v by ts."""
    engine.push("a", {"ts": list(rows), "k": [7] * len(rows), "v": list(rows.values())})


def test_rows_that_live_shorter_from_now_on_are_taken_from_their_shelf() -> None:
    """When the first query goes, rows with v = 0 are needed for 5 us only, others as long as ever."""
    engine = penstock.Engine(sharing="mem-opt")
    engine.execute(CREATE)
    first = engine.query(f"{PAIRS} WINDOW 100 us")
    for ts in (1, 2, 3, 4):
        push(engine, {ts: ts % 2})
    engine.query(f"{PAIRS} WHERE x.v = 1 WINDOW 100 us")
    engine.query(f"{PAIRS} WINDOW 5 us")
    (group,) = joins_of(engine)
    left, _ = group.form.join.sides
    engine.advance(5)
    assert [len(shelf) for shelf in left.shelves] == [4]
    first.drop()
    engine.advance(6)
    assert sorted((shelf.lifetime, len(shelf)) for shelf in left.shelves) == [(5, 2), (100, 2)]
    engine.advance(20)
    assert len(left) == 2
