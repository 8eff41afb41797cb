"""Queries with RANGE windows and queries with ROWS windows over the same streams: nobody notices the others.

What test_sharing.py draws covers the answers. Here: each query has after every push what it has alone after
that push, an engine that is restored in the middle of an instant goes on, and whoever comes late or goes from
one kind to the other says rightly from when on it is exact.

    a  ts      1  2  2 | 2  5          a push ends in the middle of the instant 2
    ROWS 2           ----              known when 2 is over: the last two rows are the second and third of it
    RANGE 3    ----------              known at once
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from checkpoint_help import again
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DECLARE, SCHEMA, rows_of
from test_join_oracle import arrivals
from test_sharing import microseconds
from work_of import joins_of

import penstock
from penstock.query import NEVER

FUSED = ["auto", "mem-opt", "cpu-opt", "pull-up"]
BOUNDS = [None, None, 0.0, 1.5]
ONE_KEY = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k"


def engine_of(strategy: str, **options: Any) -> penstock.Engine:
    engine = penstock.Engine(sharing=strategy, **options)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    return engine


class Asked:
    """Windows (kind, size) and least `v` of either side."""

    def __init__(self, windows: list[tuple[str, int]], bounds: list[float | None], counting: bool) -> None:
        self.windows, self.bounds, self.counting = windows, bounds, counting

    def __repr__(self) -> str:
        return self.sql

    @property
    def sql(self) -> str:
        one, two = (
            f"{stream} [{kind} {size}{' MICROSECONDS' if kind == 'RANGE' else ''}] AS {alias}"
            for stream, alias, (kind, size) in zip("ab", "xy", self.windows, strict=True)
        )
        bounds = zip("xy", self.bounds, strict=True)
        where = " AND ".join(f"{alias}.v > {bound}" for alias, bound in bounds if bound is not None)
        return f"SELECT x.id, y.id AS yid, y.s FROM {one} JOIN {two} ON x.k = y.k" + (
            f" WHERE {where}" if where else ""
        )


@st.composite
def asked(draw: st.DrawFn, kinds: tuple[str, ...] = ("RANGE", "ROWS")) -> Asked:
    windows = [(draw(st.sampled_from(kinds)), draw(st.integers(1, 9))) for _ in "ab"]
    return Asked(windows, [draw(st.sampled_from(BOUNDS)) for _ in "ab"], draw(st.booleans()))


@st.composite
def mixed(draw: st.DrawFn) -> list[Asked]:
    """Some of each kind."""
    others = draw(st.lists(asked(), max_size=3))
    return [draw(asked(("RANGE",))), draw(asked(("ROWS",))), *others]


def cut(draw: Any, streams: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
    """Pushes of the streams, cut anywhere, in any order."""
    at, pushes = dict.fromkeys(streams, 0), []
    while open_ones := sorted(name for name, table in streams.items() if at[name] < table.num_rows):
        name, size = draw(st.sampled_from(open_ones)), draw(st.integers(1, 5))
        pushes.append((name, streams[name].slice(at[name], size)))
        at[name] += size
    return pushes


@settings(max_examples=40)
@given(st.sampled_from(FUSED), mixed(), arrivals(20), arrivals(20), st.data())
def test_each_query_has_after_every_push_what_it_has_alone(
    strategy: str, asks: list[Asked], a: pa.Table, b: pa.Table, data: st.DataObject
) -> None:
    """Differential: one engine for all against one for each."""
    together = engine_of(strategy)
    alone = [engine_of("unshared") for _ in asks]
    for number, (one, own) in enumerate(zip(asks, alone, strict=True)):
        for engine in (together, own):
            engine.query(one.sql, name=f"q{number}", count_only=one.counting)
    for push in cut(data.draw, {"a": a, "b": b}):
        for engine in (together, *alone):
            engine.push(*push)
        together._runtime._check()
        counts = [query.count for query in together.queries.values()]
        assert counts == [own.queries[f"q{number}"].count for number, own in enumerate(alone)]
        if data.draw(st.integers(0, 5)) == 0:
            together = again(together)
    for engine in (together, *alone):
        engine.close()
    for number, (one, own) in enumerate(zip(asks, alone, strict=True)):
        mine, theirs = together.queries[f"q{number}"], own.queries[f"q{number}"]
        assert mine.count == theirs.count
        if not one.counting:
            rows = [rows_of(query.results()) for query in (mine, theirs)]
            assert [row[0] for row in rows[0]] == sorted(row[0] for row in rows[0]), "out of time order"
            assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))


def push_rows(engine: penstock.Engine, name: str, times: list[int], first: int, key: int = 0) -> None:
    rows = [{"ts": ts, "id": first + i, "k": key, "v": 1.0, "s": ""} for i, ts in enumerate(times)]
    engine.push(name, pa.Table.from_pylist(rows, schema=SCHEMA))


@pytest.mark.parametrize("strategy", FUSED)
@pytest.mark.parametrize("counting", [False, True])
def test_rows_of_an_open_instant_wait_for_rows_windows_only(strategy: str, counting: bool) -> None:
    """Two rows of a at 5, then a third: of ROWS 1 only the third was ever in the window."""
    engine = engine_of(strategy)
    ranged = engine.query(f"{ONE_KEY} WINDOW 10 MICROSECONDS", count_only=counting)
    last = engine.query(f"{ONE_KEY} WINDOW 1 ROWS", count_only=counting)
    assert len(joins_of(engine)) == 2
    push_rows(engine, "b", [5], 0)
    push_rows(engine, "a", [5, 5], 0)
    assert (ranged.count, last.count) == (2, 0)
    push_rows(engine, "a", [5], 2)
    assert (ranged.count, last.count) == (3, 0)
    engine = again(engine)
    ranged, last = engine.queries.values()
    push_rows(engine, "a", [6], 3)
    push_rows(engine, "b", [7], 1)
    if not counting:
        assert rows_of(last.results()) == [(5, 2, 0)]
    assert (ranged.count, last.count) == (4, 1)  # at 6, more of a may come
    last.drop()
    push_rows(engine, "b", [7], 2)
    engine.close()
    assert ranged.count == 12


@pytest.mark.parametrize("strategy", FUSED)
def test_one_that_goes_or_changes_takes_along_what_waits_for_it(strategy: str) -> None:
    engine = engine_of(strategy)
    ranged = engine.query(f"{ONE_KEY} WINDOW 10 MICROSECONDS")
    gone, changed = (engine.query(f"{ONE_KEY} WINDOW 2 ROWS", name=name) for name in ("gone", "changed"))
    push_rows(engine, "b", [5], 0)
    push_rows(engine, "a", [5, 5], 0)
    gone.drop()
    engine.execute("ALTER QUERY changed SET WINDOW 1 MICROSECOND")
    assert microseconds(changed.complete_from) == 6
    for name in "ab":
        push_rows(engine, name, [7], 7)
    engine.close()
    assert [row[0] for row in rows_of(changed.results())] == [7]
    assert (gone.count, ranged.count) == (0, 6)


@pytest.mark.parametrize("strategy", FUSED)
@pytest.mark.parametrize("counting", [False, True])
def test_one_that_fails_has_all_that_is_older(strategy: str, counting: bool) -> None:
    """What waits of the instant 5 is given, although the query ends with a row at 7."""
    engine = engine_of(strategy)
    ranged = engine.query(f"{ONE_KEY} WINDOW 10 MICROSECONDS", count_only=counting)
    where = f"{ONE_KEY} WHERE 10 / CAST(x.s AS BIGINT) > 0 WINDOW 1 ROWS"
    failing = engine.query(where, count_only=counting)

    def push(name: str, ts: int, text: str) -> None:
        row = {"ts": ts, "id": ts, "k": 0, "v": 1.0, "s": text}
        engine.push(name, pa.Table.from_pylist([row], schema=SCHEMA))

    push("b", 5, "1")
    push("a", 5, "1")
    assert (ranged.count, failing.count) == (1, 0)
    push("b", 7, "1")
    push("a", 7, "none")
    push("a", 8, "none")
    with pytest.raises(penstock.PenstockError, match="in query `q2`"):
        push("b", 8, "none")
    assert (ranged.count, failing.count) == (9, 1)


@pytest.mark.parametrize("strategy", FUSED)
def test_a_rows_window_like_another_is_exact_at_once(strategy: str) -> None:
    """Rows that have left the other's window have left its own too; it need not wait for the next one."""
    engine = engine_of(strategy)
    engine.query(f"{ONE_KEY} WINDOW 2 ROWS")
    for name in "ab":
        push_rows(engine, name, [1, 2, 3, 4], 0)
    engine.advance(5)
    late = engine.query(f"{ONE_KEY} WINDOW 2 ROWS")
    longer = engine.query(f"{ONE_KEY} WINDOW 3 ROWS")
    assert [microseconds(query.complete_from) for query in (late, longer)] == [6, microseconds(NEVER)]
    push_rows(engine, "a", [7], 9)
    push_rows(engine, "b", [8], 9)
    engine.close()
    assert sorted(row[1:] for row in rows_of(late.results())) == [(3, 9), (9, 2), (9, 3), (9, 9)]
    assert [microseconds(query.complete_from) for query in (late, longer)] == [6, 8]


@pytest.mark.parametrize("strategy", FUSED)
def test_rows_that_were_left_out_count_in_a_rows_window(strategy: str) -> None:
    """Every other row of a is left out by the filter, and counts in a ROWS window all the same.

    a    0 . 2 . 4 . 6 . 8 . | 10        ROWS 3 at 10: 8, the one left out at 9, 10
    """
    engine = engine_of(strategy)
    where = f"{ONE_KEY} WHERE x.v > 0"
    engine.query(f"{where} WINDOW 100 MICROSECONDS")

    def push(name: str, times: range) -> None:
        rows = [{"ts": ts, "id": ts, "k": 0, "v": 1.0 - ts % 2, "s": ""} for ts in times]
        engine.push(name, pa.Table.from_pylist(rows, schema=SCHEMA))

    for name in "ab":
        push(name, range(10))
    late = engine.query(f"{where} WINDOW 3 ROWS")
    for name in "ab":
        push(name, range(10, 14))
    engine.close()
    since = microseconds(late.complete_from)
    came = rows_of(late.results())
    wanted = [
        (max(a, b), a, b)
        for a in range(0, 14, 2)
        for b in range(14)
        if max(a, b) >= 10 and max(a, b) - min(a, b) < 3
    ]
    assert set(came) <= set(wanted)
    assert since <= 12
    assert sorted(row for row in came if row[0] >= since) == sorted(row for row in wanted if row[0] >= since)


@pytest.mark.parametrize("strategy", FUSED)
@pytest.mark.parametrize("others", [0, 1])
def test_altered_from_a_duration_to_rows_and_back(strategy: str, others: int) -> None:
    """It goes over to the join of its new kinds, if queries are there that have one, and is exact when its
    windows are full: the rows of 5 places, and of 4 us."""
    engine = engine_of(strategy)
    query = engine.query(f"{ONE_KEY} WINDOW 4 MICROSECONDS", name="q")
    for window in ("6 MICROSECONDS", "6 ROWS")[: 2 * others]:
        engine.query(f"{ONE_KEY} WINDOW {window}")
    since = []
    for begin, window in ((1, "5 ROWS"), (11, "4 MICROSECONDS"), (21, None)):
        for name in "ab":
            push_rows(engine, name, list(range(begin, begin + 10)), begin)
        if window is not None:
            engine.advance(begin + 10)
            engine.execute(f"ALTER QUERY q SET WINDOW {window}")
        if others or window is None:
            since.append(microseconds(query.complete_from))
    engine.close()
    assert since == ([12, 22, 22] if others else [25])
    came = Counter(rows_of(query.results()))
    pairs = [(a, b) for a in range(1, 31) for b in range(1, 31)]
    wanted = {
        (max(a, b), a, b) for a, b in pairs if max(a, b) - min(a, b) < (5 if 11 <= max(a, b) <= 20 else 4)
    }
    exact = range(since[-1], 31) if not others else [ts for ts in range(1, 31) if ts not in (11, 21)]
    assert {row for row in came if row[0] in exact} == {row for row in wanted if row[0] in exact}
    assert set(came.values()) == {1}


@pytest.mark.parametrize("strategy", [*FUSED, "push-down", "chain"])
def test_a_rows_window_is_full_in_time_whoever_comes_meanwhile(strategy: str) -> None:
    """Those up to 10 were not kept; the fifth row since then comes at 15."""
    engine = engine_of(strategy)
    engine.query(f"{ONE_KEY} WINDOW 2 ROWS")
    for name in "ab":
        push_rows(engine, name, list(range(1, 11)), 0)
    late = engine.query(f"{ONE_KEY} WINDOW 5 ROWS")
    for first in (11, 13):
        assert late.complete_from == NEVER
        for name in "ab":
            push_rows(engine, name, [first, first + 1], first)
        engine.query(f"{ONE_KEY} WINDOW {first} ROWS")
    for name in "ab":
        push_rows(engine, name, list(range(15, 20)), 15)
    engine.close()
    assert microseconds(late.complete_from) <= 15
