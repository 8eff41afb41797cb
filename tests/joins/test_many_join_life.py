"""Joins of many streams as queries come, go, fail and change, and as instants are not over yet."""

from __future__ import annotations

import pyarrow as pa
import pytest
from many_streams import KEYED, engine_of, many_joins, push_each, push_rows
from oracle import SCHEMA, rows_of
from test_sharing import microseconds

import penstock
from penstock.query import NEVER


@pytest.mark.parametrize("unit", ["MICROSECONDS", "ROWS"])
@pytest.mark.parametrize("counting", [False, True])
def test_one_that_fails_stops_alone(counting: bool, unit: str) -> None:
    engine = engine_of()
    fine = engine.query(f"{KEYED} WINDOW 10 {unit}", count_only=counting)
    failing = engine.query(f"{KEYED} AND 10 / CAST(y.s AS BIGINT) > 0 WINDOW 5 {unit}", count_only=counting)

    def push(name: str, ts: int, text: str) -> None:
        row = {"ts": ts, "id": ts, "k": 0, "v": 1.0, "s": text}
        engine.push(name, pa.Table.from_pylist([row], schema=SCHEMA))

    for name in "abc":
        push(name, 1, "1")
    if unit == "MICROSECONDS":
        assert (fine.count, failing.count) == (1, 1)
    push("a", 2, "none")
    push("c", 2, "none")

    def end_instant() -> None:
        push("b", 2, "none")
        engine.advance(3)

    with pytest.raises(penstock.PenstockError, match="in query `q2`"):
        end_instant()
    engine.advance(3)
    assert (fine.count, failing.count) == (8, 1)


def test_one_that_is_altered_finds_what_it_has_kept() -> None:
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 10 MICROSECONDS", name="q")
    for name in "abc":
        push_rows(engine, name, [(ts, 0) for ts in range(16)])
    engine.execute("ALTER QUERY q SET WINDOW 5 MICROSECONDS")
    assert microseconds(query.complete_from) == 16


def test_a_newcomer_finds_what_is_kept() -> None:
    """RANGE 10 has kept all from 6 on. A query with RANGE 5 then misses nothing; one with 20 does."""
    engine = engine_of()
    engine.query(f"{KEYED} WINDOW 10 MICROSECONDS")
    for name in "abc":
        push_rows(engine, name, [(ts, 0) for ts in range(16)])
    short = engine.query(f"{KEYED} WINDOW 5 MICROSECONDS")
    long = engine.query(f"{KEYED} WINDOW 20 MICROSECONDS")
    assert microseconds(short.complete_from) == 16
    assert microseconds(long.complete_from) == 25


@pytest.mark.parametrize("counting", [False, True])
def test_altered_to_rows_and_back(counting: bool) -> None:
    """There is a join for each kind of window: in the other one a query begins with empty windows."""
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 9 MICROSECONDS", name="q", count_only=counting)
    push_each(engine, [1])
    engine.execute("ALTER QUERY q SET WINDOW 2 ROWS")
    engine.execute("ALTER QUERY q SET WINDOW 5 MICROSECONDS")
    push_each(engine, [20, 40])
    assert (query.count, microseconds(query.complete_from)) == (3, 6)
    engine.execute("ALTER QUERY q SET WINDOW 2 ROWS")
    assert query.complete_from == NEVER
    push_each(engine, [60, 80, 100, 110])
    assert microseconds(query.complete_from) == 80, "the window holds two rows that have come since"
    engine.advance(111)
    engine.execute("ALTER QUERY q SET WINDOW 5 MICROSECONDS")
    push_each(engine, [120])
    engine.close()
    wanted = [1, 20, 40, 60, *[80] * 7, *[100] * 7, *[110] * 7, 120]
    assert query.count == len(wanted)
    if not counting:
        assert [row[0] for row in rows_of(query.results())] == wanted


def test_altered_to_rows_that_another_has_kept() -> None:
    """A query with ROWS 3 has kept the last three rows: one that is altered to two misses nothing, and one
    that is altered to five has all when two more have come."""
    engine = engine_of()
    engine.query(f"{KEYED} WINDOW 3 ROWS", name="rows")
    for name in ("short", "long"):
        engine.query(f"{KEYED} WINDOW 9 MICROSECONDS", name=name)
    push_each(engine, [1, 2, 3, 4, 5])
    engine.advance(6)
    engine.execute("ALTER QUERY short SET WINDOW 2 ROWS; ALTER QUERY long SET WINDOW 5 ROWS")
    (join,) = many_joins(engine)
    push_each(engine, [10, 20, 30])
    assert [microseconds(engine.queries[name].complete_from) for name in ("short", "long")] == [10, 20]
    assert [len(side) for side in join.sides] == [5, 5, 5]
    engine.query(f"{KEYED} WINDOW 50 ROWS", name="longest")
    engine._runtime._check()
    for name in ("long", "longest"):  # the latter's window is not full yet
        engine.queries[name].drop()
    push_each(engine, [40])
    engine._runtime._check()
    assert [len(side) for side in join.sides] == [3, 3, 3]
    engine.close()
    came = [row[0] for row in rows_of(engine.queries["short"].results())]
    assert [ts for ts in came if ts > 5] == [ts for ts in (10, 20, 30, 40) for _ in range(7)]


def test_altered_among_rows_windows() -> None:
    """Each time it is known anew from when on the window holds only rows that are there."""
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 2 ROWS", name="q")
    push_each(engine, [1, 2, 3, 4])
    came = 4
    for size, exact in ((3, 5), (6, 8)):  # since the second row, then since the third
        engine.execute(f"ALTER QUERY q SET WINDOW {size} ROWS")
        assert query.complete_from == NEVER
        push_each(engine, list(range(came + 1, exact + 2)))
        came = exact + 1
        assert microseconds(query.complete_from) == exact


@pytest.mark.parametrize("name", list("abc"))
@pytest.mark.parametrize("counting", [False, True])
def test_rows_displaced_at_their_own_instant_were_never_there(name: str, counting: bool) -> None:
    """Of four rows at 2 the last three are in a window of three, and find the rows of the others at 1."""
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 3 ROWS", count_only=counting)
    for other in "abc":
        push_rows(engine, other, [(2, 0)] * 4 if other == name else [(1, 0)])
    engine.close()
    assert query.count == 3
    if not counting:
        place = 1 + "abc".index(name)
        assert [row[place] for row in rows_of(query.results())] == [1, 2, 3]


def test_range_windows_wait_for_no_instant() -> None:
    """Rows of an instant that is not over: those with RANGE windows have their results, ROWS windows wait."""
    engine = engine_of("mem-opt")
    now = engine.query(f"{KEYED} WINDOW 5 MICROSECONDS")
    sources = "a [NOW] AS x, b [ROWS 1] AS y, c [RANGE UNBOUNDED] AS z"
    mixed = engine.query(f"SELECT x.id FROM {sources} WHERE x.k = y.k AND y.k = z.k")
    push_each(engine, [1])
    assert (now.count, mixed.count, len(many_joins(engine))) == (1, 0, 2)
    push_rows(engine, "b", [(1, 0)])
    assert (now.count, mixed.count) == (2, 0)
    engine.advance(2)
    assert (now.count, mixed.count) == (2, 1), "the first row of b was never in its window"
