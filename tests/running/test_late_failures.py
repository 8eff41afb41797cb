"""Filters that fail on rows which came before the query: it is exact when the last of these has left.

rows of a     5  6!  7 |  9     34      row 6 has an `s` that is no number; all are kept by others
late             asks CAST(a.s AS BIGINT) <> 1 within 40: rows up to 6 are not for it, exact from 46 on
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from joins_apart import part_always

import penstock
from penstock.query import EPOCH, NEVER

CREATE = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, s VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, s VARCHAR)
"""
ALL = "SELECT a.ts AS at, b.ts AS bt, a.s FROM a, b WHERE a.k = b.k"
DOUBTFUL = f"{ALL} AND CAST(a.s AS BIGINT) <> 1"
UNITS = {"RANGE": "MICROSECONDS", "ROWS": "ROWS"}

kinds = pytest.mark.parametrize("kind", UNITS)
strategies = pytest.mark.parametrize(
    "strategy", ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain"]
)


def window(kind: str, size: int) -> str:
    return f" WINDOW {size} {UNITS[kind]}"


def at(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def push(engine: penstock.Engine, stream: str, *rows: tuple[int, int, str]) -> None:
    ts, k, s = zip(*rows, strict=True)
    engine.push(stream, {"ts": list(ts), "k": list(k), "s": list(s)})


def begin(strategy: str, *of_kinds: str) -> penstock.Engine:
    """Rows of a up to 7 are there, kept by queries with windows of these kinds."""
    engine = penstock.Engine(sharing=strategy)
    engine.execute(CREATE)
    for kind in of_kinds:
        engine.query(ALL + window(kind, 50))
    push(engine, "a", (5, 0, "3"), (6, 0, "x"), (7, 0, "2"))
    push(engine, "b", (8, 1, "0"))
    engine.advance(9)
    return engine


def go_on(engine: penstock.Engine, ts: int) -> None:
    push(engine, "b", (ts, 1, "0"))
    push(engine, "a", (ts, 2, "0"))
    engine.advance(ts + 1)


def check(engine: penstock.Engine, late: penstock.Query, kind: str) -> None:
    """Of a window of 40. Whatever it gives before it is exact, none of it is of the row that fails."""
    push(engine, "b", (34, 0, "0"))
    engine.close()
    assert late.complete_from == (at(46) if kind == "RANGE" else NEVER)
    assert set(late.results()["at"].cast("int64").to_pylist()) <= {5, 7}


@kinds
@strategies
def test_one_who_comes_late(strategy: str, kind: str) -> None:
    engine = begin(strategy, *UNITS)
    go_on(engine, 9)
    check(engine, engine.query(DOUBTFUL + window(kind, 40)), kind)


@kinds
@strategies
def test_a_second_who_asks_the_same(strategy: str, kind: str) -> None:
    """What is known of the rows by then is that they do not satisfy it."""
    engine = begin(strategy, kind)
    engine.query(DOUBTFUL + window(kind, 2))
    go_on(engine, 9)
    check(engine, engine.query(DOUBTFUL + window(kind, 40)), kind)


@kinds
@strategies
def test_one_who_is_given_a_longer_window(strategy: str, kind: str) -> None:
    engine = begin(strategy, kind)
    late = engine.query(DOUBTFUL + window(kind, 2))
    go_on(engine, 9)
    engine.execute(f"ALTER QUERY {late.name} SET{window(kind, 40)}")
    check(engine, late, kind)


def test_one_who_comes_when_the_first_who_asked_it_has_gone() -> None:
    """It is looked at again then."""
    engine = begin("mem-opt", "RANGE")
    engine.query(DOUBTFUL + window("RANGE", 2)).drop()
    go_on(engine, 9)
    check(engine, engine.query(DOUBTFUL + window("RANGE", 40)), "RANGE")


def test_rows_of_one_who_has_gone_are_known_by_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another comes who asks what is new, before a row has come."""
    part_always(monkeypatch)
    engine = penstock.Engine()
    engine.execute(CREATE)
    first = engine.query(ALL + window("RANGE", 2))
    engine.query(f"{DOUBTFUL} AND b.s <> 'q'" + window("RANGE", 12))
    push(engine, "a", (18, 0, "0"))
    push(engine, "b", (15, 0, "2"), (16, 0, "3"))
    first.drop()
    late = engine.query(f"{ALL} AND b.s = '3'" + window("RANGE", 4))
    push(engine, "b", (19, 0, "3"))
    engine.close()
    assert late.count == 2


def test_pairs_are_given_once_after_the_last_of_a_kind_has_gone() -> None:
    """The row of b at 2 was worked by the join that has gone, and waits for that of the ROWS window."""
    engine = penstock.Engine()
    engine.execute(CREATE)
    first, rows = engine.query(ALL + window("RANGE", 2)), engine.query(ALL + window("ROWS", 9))
    push(engine, "b", (2, 0, "0"))
    engine.advance(2)
    first.drop()
    engine.query(ALL + window("RANGE", 1))
    push(engine, "a", (58, 0, "1"))
    engine.close()
    assert rows.count == 1


@pytest.mark.parametrize("strategy", ["auto", "mem-opt", "cpu-opt", "pull-up", "unshared"])
def test_rows_that_came_before_the_join_was_opened_are_missing(strategy: str) -> None:
    """Nothing fails; the row at 53 came before there was any query, and the join itself is behind it."""
    engine = penstock.Engine(sharing=strategy)
    engine.execute(CREATE)
    push(engine, "a", (53, 0, "0"))
    engine.query(ALL + window("ROWS", 2))
    engine.stats()  # the first is taken in before the second comes
    late = engine.query(ALL + window("RANGE", 7))
    push(engine, "b", (59, 0, "0"))
    engine.close()
    assert late.complete_from == at(60)
