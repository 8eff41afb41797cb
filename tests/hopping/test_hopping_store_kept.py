"""Which rows are kept for hopping queries with windows of the last rows, and from which on they are told.

That each query answers what it would answer alone is drawn in test_hopping_store.py.
"""

from __future__ import annotations

import pytest
from test_hopping_store import answers_of
from test_window_store import folded, make
from work_of import stores_of

import penstock

KINDS = pytest.mark.parametrize("window", ["ROWS 2", "PARTITION BY k ROWS 2"])


def states(engine: penstock.Engine, first: int, last: int) -> list[int]:
    """How many rows of s are kept after each of these, one a microsecond, all of one k."""
    (store,) = stores_of(engine)
    found = []
    for ts in range(first, last):
        engine.push("s", {"ts": [ts], "k": [1], "v": [ts / 4], "t": ["x"], "b": [True]})
        found.append(store.state_rows)
    return found


@KINDS
def test_rows_that_no_boundary_sees_whole_are_gone_before_it(window: str) -> None:
    """Whoever is given whole windows asks for the last two rows, whatever came since the last boundary; the
    third is of an instant that is not over. At the boundary itself the next row waits for it to be over."""
    engine = make()
    engine.query(f"SELECT k + 1 AS n FROM s [{window}] HOP BY 10 us", name="q")
    engine.query(f"SELECT k, v FROM s [{window}] EMIT CHANGES")
    (store,) = stores_of(engine)
    assert [one.node.whole for one in store.members] == [True, False]
    assert states(engine, 1, 33) == [1, 2] + [3] * 30


@KINDS
def test_rows_since_the_last_boundary_are_kept_for_who_is_told_changes(window: str) -> None:
    """What leaves at the boundary at 20 is there from the one at 10 on; before the first boundary, at 10,
    there is nothing that can leave, and the last two rows are enough."""
    engine = make()
    engine.query(f"SELECT k, v FROM s [{window}] EMIT CHANGES")
    states(engine, 1, 4)
    engine.query(f"SELECT k, v FROM s [{window}] HOP BY 10 us EMIT DELTA")
    (store,) = stores_of(engine)
    assert [one.node.whole for one in store.members] == [False, False]
    assert states(engine, 4, 11) == [3] * 7
    assert states(engine, 11, 31) == 2 * [*range(3, 13)]


@KINDS
@pytest.mark.parametrize("last", [11, 12, 20, 21])
def test_who_comes_right_after_a_boundary_has_nothing_told_again(window: str, last: int) -> None:
    """The boundaries at 10 and 20 are over when time is at 11 and 21; then another window comes, and after it
    all other rows at once."""
    engine, alone = make(), make(sharing="unshared")
    sql = f"SELECT k, v FROM s [{window}] HOP BY 10 us EMIT DELTA"
    query = engine.query(sql)
    alone.query(sql, name="alone")
    engine.query(f"SELECT k FROM s [{window}] EMIT CHANGES")
    for times in (*([ts] for ts in range(1, last + 1)), range(last + 1, 42)):
        if len(times) > 1:
            engine.query(f"SELECT k, v FROM s [{window.replace('2', '3')}] EMIT CHANGES")
        k, v = [ts % 2 for ts in times], [ts / 4 for ts in times]
        for one in (engine, alone):
            columns = {"t": ["x"] * len(k), "b": [True] * len(k)}
            one.push("s", {"ts": list(times), "k": k, "v": v, **columns})
    assert answers_of(query) == answers_of(alone.queries["alone"])


@pytest.mark.parametrize(
    ("modes", "window"),
    [
        *(
            (modes, window)
            for modes in ("DIDO", "CICO")
            for window in ("RANGE 30 us", "ROWS 9", "PARTITION BY k ROWS 1")
        ),
        ("CICO", "RANGE UNBOUNDED"),
    ],
)
def test_the_first_boundary_is_told_of_though_no_row_came_since_the_one_before(
    modes: str, window: str
) -> None:
    """::

    rows        5  8
    boundaries          10        20        30      the query comes at 13, time goes on to 15 and to 21:
    RANGE 30 at 20      (=========]                 that sees both, whatever was heard of at 15
    """
    engine = make()
    engine.query(f"SELECT k, v FROM s [{window.replace('UNBOUNDED', '50 us')}] EMIT CHANGES")
    for ts in (5, 8):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [1.0], "t": ["x"], "b": [True]})
    engine.advance(13)
    late = engine.query(f"SELECT DISTINCT k FROM s [{window}] HOP BY 10 us EMIT DELTA", modes=modes)
    for now in (15, 16, 21):
        engine.advance(now)
    assert answers_of(late) == {(20, (5,)): 1, (20, (8,)): 1}


@pytest.mark.parametrize("window", ["RANGE 15 us", "ROWS 2", "PARTITION BY k ROWS 2"])
@pytest.mark.parametrize("last", [10, 11, 12])
def test_who_asks_the_same_right_after_a_boundary_has_what_that_said(window: str, last: int) -> None:
    """The boundary at 10 is over when time is at 11."""
    engine = make()
    sql = f"SELECT k, v FROM s [{window}] HOP BY 10 us EMIT DELTA"
    engine.query(f"SELECT k FROM s [{window}] EMIT CHANGES")
    first = engine.query(sql)
    states(engine, 1, last + 1)
    second = engine.query(sql)
    states(engine, last + 1, 33)
    known, late = answers_of(first), answers_of(second)
    begin = 20 if last == 10 else last
    assert all(ts >= min(begin, 10) for ts, _ in late)
    for now in (20, 30):
        assert folded(late, now) == folded(known, now)
