"""Which rows a ROWS window finds that comes where only RANGE windows were, so that nobody numbered rows.

Those that came since all rows have been kept next to each other.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock.query import EPOCH, NEVER

CREATE = "CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)"
PAIRS = "SELECT x.ts, y.ts AS other FROM a AS x JOIN b AS y ON x.k = y.k"
BY_ROWS = "SELECT x.ts FROM a [ROWS {}] AS x JOIN b [RANGE 100 us] AS y ON x.k = y.k WHERE x.v = 1"


def started() -> penstock.Engine:
    """Rows with v = 1 are kept for 100 us."""
    engine = penstock.Engine(sharing="mem-opt")
    engine.execute(CREATE)
    engine.query(f"{PAIRS} WHERE x.v = 1 WINDOW 100 us")
    return engine


def push(engine: penstock.Engine, rows: dict[int, int]) -> None:
    """rows: v by ts."""
    engine.push("a", {"ts": list(rows), "k": [7] * len(rows), "v": list(rows.values())})


def found(engine: penstock.Engine, size: int, at: int) -> tuple[list[int], int | None]:
    """What a row at a time finds in a window of so many rows that begins now, and since when that is all."""
    late = engine.query(BY_ROWS.format(size))
    engine.push("b", {"ts": [at], "k": [7]})
    engine.advance(at + 1)
    since = late.complete_from
    rows = sorted(late.results()["ts"].cast(pa.int64()).to_pylist())
    return rows, None if since == NEVER else round((since - EPOCH).total_seconds() * 1e6)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_that_all_came_to_one_shelf_have_their_places(size: int) -> None:
    engine = started()
    for ts in (1, 2, 3, 4):
        push(engine, {ts: 1})
    engine.advance(5)
    assert found(engine, size, 60) == (list(range(5 - size, 5)), 6)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("is_together", [False, True])
def test_rows_between_which_others_were_on_another_shelf_have_none(size: int, is_together: bool) -> None:
    """::

    v = 1   at 1     3        there for 100 us
    v = 0      2     4        there for 5 us: the last row, and gone when the late query comes
    """
    engine = started()
    engine.query(f"{PAIRS} WINDOW 5 us")
    rows = {1: 1, 2: 0, 3: 1, 4: 0}
    for part in [rows] if is_together else [{ts: v} for ts, v in rows.items()]:
        push(engine, part)
    engine.advance(50)
    engine.query(f"{PAIRS} WHERE x.v = 1 WINDOW 100 us")
    last = [ts for ts in (1, 2, 3, 4)[-size:] if rows[ts]]
    given, since = found(engine, size, 60)
    assert set(given) <= set(last), "a row that has left the window"
    assert since is None or given == last
