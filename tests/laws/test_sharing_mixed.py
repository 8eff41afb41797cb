"""Queries with RANGE windows and queries with ROWS windows in one join: nobody notices the others.

What test_sharing.py draws covers the answers. Here: each query has after every push what it has alone after
that push, rows are kept exactly as long as somebody needs them, an engine that is restored in the middle of
an instant goes on, and whoever comes late says rightly from when on it is exact.

    a  ts      1  2  2 | 2  5          a push ends in the middle of the instant 2
    ROWS 2           ----              known when 2 is over: the last two rows are the second and third of it
    RANGE 3    ----------              known at once
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checkpoint_help import again
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DECLARE, SCHEMA, rows_of
from test_join_oracle import arrivals
from test_sharing import microseconds

import penstock
from penstock.query import NEVER

FUSED = ["auto", "mem-opt", "cpu-opt", "pull-up"]  # strategies with one join for both kinds
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

    def needs(self, side: int, row: dict[str, Any], age: int, place_age: int) -> bool:
        kind, size = self.windows[side]
        bound = self.bounds[side]
        passes = bound is None or (row["v"] is not None and (row["v"] != row["v"] or row["v"] > bound))
        return passes and (age if kind == "RANGE" else place_age) < size


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


def state_rows(engine: penstock.Engine) -> int:
    """Rows that the joins keep."""
    groups = engine.stats()["groups"]
    return sum(operator["state_rows"] for group in groups for operator in group["operators"])


def held_by(asks: list[Asked], come: dict[str, list[dict[str, Any]]]) -> int:
    """Rows that somebody still needs, of those that both streams have reached."""
    if not all(come.values()):
        return 0
    now = min(rows[-1]["ts"] for rows in come.values())
    held = 0
    for side, name in enumerate("ab"):
        reached = [row for row in come[name] if row["ts"] <= now]
        for place, row in enumerate(reached):
            ages = now - row["ts"], len(reached) - place - 1
            held += row["k"] is not None and any(one.needs(side, row, *ages) for one in asks)
    return held


@settings(max_examples=40)
@given(st.sampled_from(FUSED), mixed(), arrivals(20), arrivals(20), st.data())
def test_each_query_has_after_every_push_what_it_has_alone(
    strategy: str, asks: list[Asked], a: pa.Table, b: pa.Table, data: st.DataObject
) -> None:
    """Differential: one engine for all against one for each; and what is kept is what is needed."""
    together = engine_of(strategy)
    alone = [engine_of("unshared") for _ in asks]
    for number, (one, own) in enumerate(zip(asks, alone, strict=True)):
        for engine in (together, own):
            engine.query(one.sql, name=f"q{number}", count_only=one.counting)
    come: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for push in cut(data.draw, {"a": a, "b": b}):
        come[push[0]] += push[1].to_pylist()
        for engine in (together, *alone):
            engine.push(*push)
        together._runtime._check()
        counts = [query.count for query in together.queries.values()]
        assert counts == [own.queries[f"q{number}"].count for number, own in enumerate(alone)]
        if strategy == "mem-opt":
            assert state_rows(together) == held_by(asks, come)
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


@settings(max_examples=25)
@given(mixed(), arrivals(20), arrivals(20), st.data())
def test_state_is_what_is_needed_when_queries_go(
    asks: list[Asked], a: pa.Table, b: pa.Table, data: st.DataObject
) -> None:
    """The law of mem-opt, also for those who stay; at the end nothing is left."""
    engine = engine_of("mem-opt")
    alive = {f"q{number}": one for number, one in enumerate(asks)}
    for name, one in alive.items():
        engine.query(one.sql, name=name, count_only=one.counting)
    come: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for push in cut(data.draw, {"a": a, "b": b}):
        come[push[0]] += push[1].to_pylist()
        engine.push(*push)
        if len(alive) > 1 and data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(sorted(alive)))
            engine.queries[gone].drop()
            del alive[gone]
        if {kind for one in alive.values() for kind, _ in one.windows} == {"RANGE", "ROWS"}:
            # where all windows are ROWS windows rows wait until their instant is over
            mixed_sides = any(len({one.windows[side][0] for one in alive.values()}) == 2 for side in (0, 1))
            if mixed_sides:
                assert state_rows(engine) == held_by(list(alive.values()), come)
        engine._runtime._check()


def push_rows(engine: penstock.Engine, name: str, times: list[int], first: int, key: int = 0) -> None:
    rows = [{"ts": ts, "id": first + i, "k": key, "v": 1.0, "s": ""} for i, ts in enumerate(times)]
    engine.push(name, pa.Table.from_pylist(rows, schema=SCHEMA))


@pytest.mark.parametrize("strategy", FUSED)
@pytest.mark.parametrize("counting", [False, True])
def test_rows_of_an_open_instant_are_held_for_rows_windows_only(strategy: str, counting: bool) -> None:
    """Two rows of a at 5, then a third: of ROWS 1 only the third was ever in the window."""
    engine = engine_of(strategy)
    ranged = engine.query(f"{ONE_KEY} WINDOW 10 MICROSECONDS", count_only=counting)
    last = engine.query(f"{ONE_KEY} WINDOW 1 ROWS", count_only=counting)
    assert len(engine._runtime.groups) == 1
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
def test_one_that_goes_or_changes_takes_along_what_is_held_for_it(strategy: str) -> None:
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
def test_a_rows_query_finds_what_a_range_query_has_kept(strategy: str) -> None:
    """All rows of the last 5 us are there, and all rows have come: the last 5 are known by place.

    a, b   0 1 2 ... 14 | 15 16 17 18 19      ROWS 7 at 17: rows 11 to 17, none of which had left at 14
           RANGE 5   10---14
    """
    engine = engine_of(strategy)
    engine.query(f"{ONE_KEY} WINDOW 5 MICROSECONDS")
    for name in "ab":
        push_rows(engine, name, list(range(15)), 0)
    late = engine.query(f"{ONE_KEY} WINDOW 7 ROWS")
    assert late.complete_from == NEVER
    for name in "ab":
        push_rows(engine, name, list(range(15, 25)), 15)
    engine.close()
    assert microseconds(late.complete_from) == 16
    came = Counter(row[0] for row in rows_of(late.results()))
    assert [came[ts] for ts in range(15, 25)] == [11, *[13] * 9]


@pytest.mark.parametrize("strategy", FUSED)
def test_a_range_query_finds_what_a_rows_query_has_kept(strategy: str) -> None:
    """At 14 the last 5 rows are kept, those from 10 on; one at 9 or another at 10 may have been displaced."""
    engine = engine_of(strategy)
    engine.query(f"{ONE_KEY} WINDOW 5 ROWS")
    for name in "ab":
        push_rows(engine, name, list(range(15)), 0)
    engine.advance(15)
    late = engine.query(f"{ONE_KEY} WINDOW 7 MICROSECONDS")
    for name in "ab":
        push_rows(engine, name, list(range(15, 25)), 15)
    engine.close()
    assert microseconds(late.complete_from) == 17
    came = Counter(row[0] for row in rows_of(late.results()))
    assert [came[ts] for ts in range(15, 25)] == [11, *[13] * 9]


@pytest.mark.parametrize("strategy", FUSED)
@pytest.mark.parametrize("counting", [False, True])
def test_one_that_fails_has_all_that_is_older(strategy: str, counting: bool) -> None:
    """What is held of the instant 5 is given when a row at 7 comes, although the query ends with that row."""
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
    with pytest.raises(penstock.PenstockError, match="in query `q2`"):
        push("a", 7, "none")
    push("a", 8, "none")
    push("b", 8, "none")
    assert (ranged.count, failing.count) == (9, 1)


def feed(engine: penstock.Engine, rows: int, keys: int) -> None:
    """A row of each stream every millisecond."""
    start = max(int(stream.last_ts) if stream.rows_in else 0 for stream in engine._runtime.streams.values())
    for name in "ab":
        table = {"ts": start + 1_000 * np.arange(1, rows + 1), "k": np.arange(rows) * 7 % keys}
        engine.push(
            name, {**table, "id": table["ts"], "v": (table["ts"] // 1_000 % 100) / 100, "s": [""] * rows}
        )


def test_auto_parts_by_kind_where_that_costs_less() -> None:
    """Thirty filters of each kind that only count, fifty matches a row: to try them all for each pair costs
    more than two joins that count by age. A query that comes finds the rows of both."""
    engine = engine_of("auto")
    text = f"{ONE_KEY} WHERE x.v > {{}} WINDOW {{}}"
    sizes = [(number / 60, 100 * (number + 1)) for number in range(30)]
    for bound, size in sizes:
        engine.query(text.format(bound, f"{size} MILLISECONDS"), count_only=True)
        engine.query(text.format(bound, f"{size} ROWS"), count_only=True)
    feed(engine, 5_000, 60)
    (group,) = engine._runtime.groups.values()
    assert [len(join.members) for join in group.joins] == [30, 30]
    shown = engine.explain(analyze=True)
    assert "strategy auto: by kind" in shown
    assert "a join for each combination of RANGE and ROWS windows, while that costs clearly less" in shown
    assert "*  by kind" in shown and "joins: RANGE and RANGE " in shown
    late = engine.query(text.format(0.49, "2000 ROWS"), name="late", count_only=True)
    feed(engine, 500, 60)
    assert len(group.joins) == 2
    assert microseconds(late.complete_from) <= 5_001_000
    for name, query in list(engine.queries.items()):
        if "ROWS" in query.sql:
            engine.execute(f"DROP QUERY {name}")
    feed(engine, 500, 60)
    assert len(group.joins) == 1
    assert "strategy auto: by kind" not in engine.explain()


def test_auto_has_one_join_where_that_costs_less() -> None:
    engine = engine_of("auto")
    for name, window in (("q0", "2 SECONDS"), ("q1", "3 SECONDS"), ("q2", "100 ROWS"), ("q3", "200 ROWS")):
        engine.query(f"{ONE_KEY} WINDOW {window}", name=name)
    feed(engine, 4_000, 60)
    (group,) = engine._runtime.groups.values()
    assert len(group.joins) == 1
    assert "by kind" in engine.explain()


@pytest.mark.parametrize("strategy", FUSED)
def test_altered_from_a_duration_to_rows_and_back(strategy: str) -> None:
    """Rows that are kept are met, by their places or by their times."""
    engine = engine_of(strategy)
    query = engine.query(f"{ONE_KEY} WINDOW 100 MICROSECONDS", name="q")
    for number, window in enumerate(("5 ROWS", "100 MICROSECONDS", None)):
        push_rows(engine, "a", [1 + 3 * number], number)
        push_rows(engine, "b", [2 + 3 * number], 10 + number)
        if window is not None:
            engine.advance(3 + 3 * number)
            engine.execute(f"ALTER QUERY q SET WINDOW {window}")
    engine.close()
    pairs = {(left, 10 + right) for left in range(3) for right in range(3)}
    assert {row[1:] for row in rows_of(query.results())} == pairs


def test_explain_shows_both_kinds() -> None:
    engine = engine_of("mem-opt")
    for name, window in (("short", "2 SECONDS"), ("few", "100 ROWS"), ("many", "5000 ROWS")):
        engine.query(f"{ONE_KEY} WINDOW {window}", name=name)
    text = engine.explain()
    assert "few 100 ROWS, many 5,000 ROWS; at this rate the longest is 5 SECONDS" in text
    assert "2 times, one per combination of RANGE and ROWS windows" in text
    apart = engine_of("chain")
    for number, window in enumerate(("2 SECONDS", "3 SECONDS", "100 ROWS", "200 ROWS")):
        apart.query(f"{ONE_KEY} WINDOW {window}", name=f"q{number}")
    said = "only RANGE and RANGE windows: chain keeps rows by one measure of age"
    assert f"{said}, so join 2 (ROWS and ROWS) keeps" in apart.explain()


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


def test_explain_after_the_only_query_of_its_kinds_has_failed() -> None:
    engine = engine_of("chain")
    engine.query(f"{ONE_KEY} WHERE 1 // x.k > 0 WINDOW 3 ROWS", name="fails")
    engine.query(f"{ONE_KEY} WINDOW 3 SECONDS", name="goes_on")
    push_rows(engine, "a", [1], 0)
    push_rows(engine, "b", [2], 10)
    with pytest.raises(penstock.StoppedError, match="Division by zero"):
        engine.advance(3)
    assert "stopped: Division by zero" in engine.explain()
    assert "keeps rows by one measure" not in engine.explain()


@pytest.mark.parametrize("strategy", FUSED)
def test_places_of_rows_are_not_guessed_where_some_were_not_kept(strategy: str) -> None:
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
def test_explain_of_a_join_beside_one_whose_queries_have_failed(strategy: str) -> None:
    engine = engine_of(strategy)
    engine.query(f"{ONE_KEY} WHERE CAST(y.s AS BIGINT) = 1 WINDOW 9 MICROSECONDS", name="failing")
    push_rows(engine, "a", [1], 0)
    with pytest.raises(penstock.PenstockError, match="in query `failing`"):
        push_rows(engine, "b", [1], 0)
    for size in (5, 7):
        engine.query(f"{ONE_KEY} WINDOW {size} MICROSECONDS")
    assert "apart" not in engine.explain()
