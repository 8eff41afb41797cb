"""What the fuzzer of everything at once has found (make fuzz), by what was wrong, as small as it got."""

from __future__ import annotations

from typing import Any

import pytest
from incremental_help import APPROACHES
from oracle import rows_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled

STREAMS = """CREATE STREAM a (ts TIMESTAMP, k BIGINT, v DOUBLE);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, v DOUBLE);
CREATE TABLE t (k BIGINT, v DOUBLE)"""
SIDES = "SELECT x.k, y.v FROM a [ROWS {}] AS x FULL JOIN a [ROWS {}] AS y ON x.k = y.k"


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


TAILS = ["EMIT INSERTS", "EMIT CHANGES", "HOP BY 4 us EMIT DELTA", "HOP BY 4 us EMIT COMPLETE"]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.k, q.v FROM t LEFT JOIN late [NOW] AS q ON t.k = q.k",
        "SELECT k, v FROM t UNION SELECT k, v FROM late [ROWS 1]",
        "SELECT COUNT(*) AS n FROM late [ROWS 1]",
    ],
)
def test_rows_that_wait_have_not_begun_time_for_who_comes(sql: str, tail: str) -> None:
    """A row waited for older ones: who then found a like query at work was told what stands as of the
    promised time, and had an answer at a hop before the first row.

    late    watermark at 2 |   6 waits        q comes: 6 is its first time, 8 its first hop
    """
    given = []
    for is_alone in (True, False):
        engine = make()
        engine.execute(
            "CREATE STREAM late (ts TIMESTAMP, k BIGINT, v DOUBLE, "
            "WATERMARK FOR ts AS ts - INTERVAL '4' MICROSECOND)"
        )
        if not is_alone:
            engine.query(f"{sql} {tail}", "company")
        engine.push("late", {"ts": [6], "k": [1], "v": [-2.0]})
        query = engine.query(f"{sql} {tail}", "q")
        engine.push("late", {"ts": [17], "k": [1], "v": [-2.0]})
        engine.close()
        given.append(sorted(rows_of(query.results()), key=repr))
    alone, company = given
    assert company == alone
    assert min(ts for ts, *_ in alone) == (8 if "HOP" in tail else 6)


@pytest.mark.parametrize("expiry", APPROACHES)
@pytest.mark.parametrize("is_last", [False, True], ids=["in order", "late stream"])
def test_what_leaves_one_input_of_a_union_meets_nobody_who_comes_by_the_other(
    expiry: str, is_last: bool
) -> None:
    """With negative tuples a union gave what entered by its first input before what left its second, and a
    join met both.

    a             5 comes         x and, by the union, y
    b  -1 =======|                by the union: leaves at 5
    """
    text = (
        "SELECT x.k, y.v FROM a [RANGE 12 us] AS x CROSS JOIN "
        "(SELECT k, v FROM a [RANGE 8 us] UNION ALL SELECT k, v FROM b [RANGE 6 us]) AS y WHERE x.k = y.k"
    )
    pushes = [("b", -1, 1.5), ("a", 5, 0.25)]
    for scheduler in (RoundRobin(1), RoundRobin(), *map(Shuffled, range(6))):
        engine = make(expiry=expiry, scheduler=scheduler)
        inserts, changes = (engine.query(f"{text} EMIT {emit}") for emit in ("INSERTS", "CHANGES"))
        counted = engine.query(f"{text} EMIT INSERTS", count_only=True)
        for stream, ts, value in pushes[::-1] if is_last else pushes:
            engine.push(stream, {"ts": [ts], "k": [1], "v": [value]})
        engine.close()
        assert (rows_of(inserts.results()), counted.count) == ([(5, 1, 0.25)], 1)
        assert rows_of(changes.results()) == [(5, 1, 1, 0.25)]


def test_windows_that_change_when_the_input_ends() -> None:
    """A join forgot what nobody would ask for any more when a stream ended, as if that were a table; the
    new windows were full then, and what the old ones held was asked for."""
    engine = make(expiry="nta")
    engine.execute(
        "CREATE STREAM late (ts TIMESTAMP, k BIGINT, v DOUBLE, "
        "WATERMARK FOR ts AS ts - INTERVAL '4' MICROSECOND)"
    )
    query = engine.query(
        "SELECT p.k, r.v FROM late [PARTITION BY k ROWS 4] AS p JOIN late [RANGE UNBOUNDED] AS q "
        "ON p.k = q.k JOIN (SELECT k, v FROM a [RANGE 5 us] AS x "
        "WHERE EXISTS (SELECT * FROM late [RANGE 3 us] AS y WHERE x.k = y.k)) AS r ON q.k = r.k "
        "EMIT CHANGES",
        "q",
    )
    engine.push("late", {"ts": [-1, -5], "k": [1, 3], "v": [0.25, 0.5]})
    engine.execute("ALTER QUERY q SET WINDOW 5 us")
    engine.close()
    assert query.results().num_rows == 0
    assert query.complete_from is not None
    assert query.complete_from.year < 9999, "the new windows are in force"


@pytest.mark.parametrize("expiry", APPROACHES)
def test_a_union_of_range_and_rows_gives_an_instant_to_a_join_as_a_whole(expiry: str) -> None:
    """It gave what entered by the RANGE window before what left the ROWS window at that instant; the join
    met both, and took it back.

    a    1: k 0          3: k 0, leaves ROWS 1 the row of 1, which is in RANGE 4 still
    """
    union = "(SELECT k, v FROM a [ROWS 1] UNION ALL SELECT k, v FROM a [RANGE 4 us])"
    text = f"SELECT x.v, y.v AS w FROM a [RANGE 7 us] AS x JOIN {union} AS y ON x.k = y.k"
    wanted = [(1, 1.0, 1.0)] * 2 + [(3, 1.0, 3.0)] * 2 + [(3, 3.0, 1.0)] + [(3, 3.0, 3.0)] * 2
    for scheduler in (RoundRobin(1), RoundRobin(), *map(Shuffled, range(6))):
        engine = make(expiry=expiry, scheduler=scheduler)
        query = engine.query(f"{text} EMIT INSERTS")
        engine.push("a", {"ts": [1, 3], "k": [0, 0], "v": [1.0, 3.0]})
        engine.close()
        assert sorted(rows_of(query.results())) == wanted


def test_what_was_there_before_all_time_comes_first() -> None:
    """It was held as changes of an instant are that may cancel, and what followed went by."""
    text = "SELECT k, v FROM b [ROWS 3] UNION ALL SELECT k, v FROM t"
    for scheduler in (RoundRobin(1), RoundRobin(), *map(Shuffled, range(20))):
        engine = make(scheduler=scheduler)
        engine.advance(2)
        query = engine.query(f"{text} EMIT CHANGES")
        engine.push("b", {"ts": [4, 11], "k": [2, 1], "v": [1.5, 0.25]})
        engine.close()
        given = rows_of(query.results())
        assert [ts for ts, *_ in given] == [2, 2, 4, 11]


@pytest.mark.parametrize("expiry", [approach for approach in APPROACHES if approach != "ita"])
@pytest.mark.parametrize("window", ["ROWS 3", "PARTITION BY k ROWS 3", "RANGE 1 SECOND"])
def test_messages_of_one_side_are_heard_by_a_join_that_waits_for_the_other(window: str, expiry: str) -> None:
    """With piggyback the message of what leaves b at 31 had purged that of 24; a had come to 25 only, so
    nobody heard of either."""
    engine = make(expiry=expiry)
    query = engine.query(
        f"SELECT y.v FROM a [{window}] AS x JOIN b [RANGE 11 us] AS y ON x.k = y.k AND x.v < y.v EMIT CHANGES"
    )
    engine.push("a", {"ts": [-2], "k": [0], "v": [-2.0]})
    engine.push("b", {"ts": [13, 20, 34], "k": [0, None, 1], "v": [0.25, None, 0.5]})
    engine.push("a", {"ts": [25], "k": [5], "v": [-2.0]})
    assert rows_of(query.results()) == [(13, 1, 0.25), (24, -1, 0.25)]


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (2, 3), (1, 2)])
def test_a_late_window_that_is_full_at_once_does_not_vouch_for_rows_before_it(sizes: tuple[int, int]) -> None:
    """ROWS 2 was full with the two rows that an earlier query had kept, and taken to lack nothing; ROWS 4
    beside it then lacked nothing either, though the row before those had gone."""
    engine = make()
    engine.push("a", {"ts": [11], "k": [1], "v": [0.0]})
    engine.query(f"{SIDES.format(3, 3)} HOP BY 1 us EMIT DELTA")
    engine.push("a", {"ts": [11, 11], "k": [1, 0], "v": [1.0, 2.0]})
    one, other = sizes
    sql = (
        f"SELECT x.k, y.v FROM a [ROWS {one}] AS x FULL JOIN a [ROWS {other}] AS y ON x.k = y.k EMIT CHANGES"
    )
    query = engine.query(sql)
    assert query.complete_from is not None
    assert (query.complete_from.year == 9999) == (max(sizes) > 2)
    engine.push("a", {"ts": [12, 13], "k": [3, 4], "v": [3.0, 4.0]})
    engine.advance(14)
    assert query.complete_from.year == 1970


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("come", [None, -3, -1, 0, 4])
def test_a_total_begins_with_the_first_row_however_far_another_stream_has_come(
    join: str, come: int | None
) -> None:
    """It began where b had come to, without rows, before the query was there: at 0, which nobody reached."""
    engine = make()
    if come is not None:
        engine.advance(come, "b")
    query = engine.query(
        f"SELECT COUNT(*) AS n FROM b [RANGE 3 us] AS x {join} a [RANGE 9 us] AS y ON x.k = y.k EMIT CHANGES"
    )
    engine.push("a", {"ts": [-1], "k": [2], "v": [1.5]})
    engine.close()
    assert rows_of(query.results()) == [(-1 if come is None else min(come, -1), 1, 0)]


def test_what_a_total_of_tables_has_said_enters_when_its_changes_do() -> None:
    """Whoever came later was told that COUNT(*) was 0 as of a time after the 0 was taken back: rows of the
    table had not passed the join with a ROWS window yet."""
    engine = make()
    total = """SELECT COUNT(*) AS n FROM (SELECT p.k FROM (SELECT DISTINCT k, v FROM t) AS p
               LEFT JOIN b [ROWS 1] AS q ON p.k = q.k) AS pairs"""
    first = engine.query(f"{total} EMIT CHANGES")
    engine.push("a", {"ts": [21], "k": [1], "v": [0.0]})
    late = engine.query(f"SELECT x.n FROM ({total}) AS x LEFT JOIN t AS y ON x.n = y.k EMIT CHANGES")
    engine.close()
    assert rows_of(first.results()) == rows_of(late.results()) == [(21, 1, 2)]
