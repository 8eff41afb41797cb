"""Windows below joins whose rows are kept once: each join answers what it would answer alone.

Queries over two streams are drawn, added, altered and dropped at drawn moments between drawn pushes of either
stream, in drawn modes (test_hopping_store.py); each is held against an engine of its own, in which it was
from the start and nothing is shared.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hopping_store import PARTITIONS, RANGES, ROWS, answers_of, asked, drive, drive_failing
from test_replan import the_other
from test_shared_select import FAILING
from test_window_store import make
from work_of import plans_of, stores_of

import penstock
from penstock.engine.plan.plan import StoredWindowNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.optimizer.plan import choose_expiry
from penstock.optimizer.plan.choose_expiry import measure_join
from penstock.query import EPOCH

LEFT, RIGHT = "(SELECT k, v, t FROM s [{w}]{where}) AS l", "(SELECT k, v, t FROM r [{u}]) AS m"
BODIES = [
    f"SELECT l.k, l.v, m.t FROM {LEFT} JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.k, m.v FROM {LEFT} JOIN {RIGHT} ON l.k + 1 = m.k AND l.v <= m.v",
    f"SELECT l.k, m.v FROM {LEFT} LEFT JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.k, m.t FROM {LEFT} FULL JOIN {RIGHT} ON l.k = m.k AND l.v <= m.v",
    f"SELECT l.t, m.t AS u FROM {LEFT} RIGHT JOIN {RIGHT} ON l.v < m.v",
    f"SELECT l.k, l.t FROM {LEFT} WHERE EXISTS (SELECT 1 FROM r [{{u}}] AS m WHERE m.k = l.k)",
    f"SELECT l.k, l.t FROM {LEFT} WHERE NOT EXISTS (SELECT 1 FROM r [{{u}}] AS m WHERE m.k = l.k)",
    f"SELECT l.k, COUNT(*) AS n, MAX(m.v) AS hi FROM {LEFT} JOIN {RIGHT} ON l.k = m.k GROUP BY l.k",
    f"SELECT DISTINCT l.t, m.t AS u FROM {LEFT} LEFT JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.v, g.n FROM {LEFT} LEFT JOIN (SELECT k, COUNT(*) AS n FROM r [{{u}}] GROUP BY k) AS g "
    "ON l.k = g.k",
    f"SELECT l.v, g.hi FROM {LEFT} JOIN (SELECT k, MAX(v) AS hi FROM r [{{u}}] GROUP BY k) AS g ON l.k = g.k",
    f"SELECT l.k, m.v, n.t FROM {LEFT} JOIN {RIGHT} ON l.k = m.k JOIN s [{{u}}] AS n ON n.k = l.k",
    f"SELECT l.k, m.t FROM {LEFT} LEFT JOIN s [{{u}}] AS m ON l.k = m.k",
]
JOINS = (
    [f"{body} {{hop}}{emit}" for body in BODIES for emit in ("", " EMIT DELTA")],
    [f"{body} EMIT CHANGES" for body in BODIES],
)
"""Hopping and sliding."""


@settings(max_examples=45)
@given(st.data())
def test_drawn_joins_that_come_go_and_change(data: st.DataObject) -> None:
    windows = [*RANGES, *ROWS, *PARTITIONS[:4]] if data.draw(st.booleans()) else RANGES
    asks = asked(windows=windows, templates=JOINS)
    drive(data.draw, asks, ["2 us", "4 us", "11 us", "3 ROWS"], "sr")


@settings(max_examples=15)
@given(st.data())
def test_who_fails_stops_alone(data: st.DataObject) -> None:
    """At the instant of the first row on which its condition on a window, or what it asks of it, fails."""
    fails = [[*some, *(one.replace("SELECT k,", "SELECT 6 // k AS k,", 1) for one in some)] for some in JOINS]
    drive_failing(data.draw, asked(FAILING, templates=(fails[0], fails[1])), asked(templates=JOINS))


@pytest.mark.parametrize("modes", ["DICO", "CICO"])
def test_a_row_that_no_boundary_sees_fails_all_the_same(modes: str) -> None:
    """Whether rows are kept in common or not."""
    for others in range(2):
        engine = make()
        for size in range(others):
            engine.query(f"SELECT k FROM s [RANGE {size + 3} us] EMIT CHANGES")
        left = "(SELECT 6 // k AS n FROM s [RANGE 1 us]) AS l"
        sql = f"SELECT l.n FROM {left} LEFT JOIN r [RANGE 1 us] ON l.n = r.k HOP BY 7 us"
        query = engine.query(sql, modes=modes)
        with pytest.raises(penstock.StoppedError, match="Division by zero"):
            engine.push("s", {"ts": [1, 2], "k": [1, 0], "v": [1.0] * 2, "t": ["x"] * 2, "b": [True] * 2})
        assert query._pipeline.error is not None


def some_rows(count: int, step: int, seed: int = 7) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "ts": np.arange(count) * step, "k": rng.integers(0, 200, count), "v": rng.random(count),
        "t": np.array(["text"] * count), "b": rng.random(count) < 0.5,
    }  # fmt: skip


def kept_by(engine: penstock.Engine) -> dict[str, int]:
    """Rows kept by the operators of each kind that are not in common."""
    runtime = engine._runtime
    parts = plans_of(runtime)
    operators = {id(one): one for part in parts for one in part.own_operators}
    found: dict[str, int] = {}
    for one in operators.values():
        found[type(one).__name__] = found.get(type(one).__name__, 0) + one.state_rows
    return found


def test_hopping_joins_keep_the_rows_of_the_longest_windows() -> None:
    """Whatever their windows, hops, modes, conditions and columns; and so do outer, semi and anti joins."""
    engine = make()
    for i in range(1, 25):
        where = ["", " WHERE v > 0.5", " WHERE k > 9"][i % 3]
        body = BODIES[i % 9].format(w=f"RANGE {i * 10} us", u=f"RANGE {250 - i * 10} us", where=where)
        is_inner = i % 9 in (0, 1, 7)  # which share a join where they read changes
        if i % 6:
            engine.query(f"{body} HOP BY {7 + i % 4} us", modes="CICO" if i % 2 or is_inner else "DICO")
        elif not is_inner:
            engine.query(f"{body} EMIT CHANGES")
    for stream in "sr":
        engine.push(stream, some_rows(1_000, 2))
    kept = {store.stream: store.state_rows for store in stores_of(engine)}
    assert set(kept) == {"s", "r"} and all(120 <= rows <= 126 for rows in kept.values()), "a window and a hop"
    groups = [one for one in engine.stats()["groups"] if one["strategy"] == "windows"]
    assert [one["state_rows"] for group in groups for one in group["operators"]] == list(kept.values())
    assert all(len(group["queries"]) == len(engine.queries) for group in groups)
    others = kept_by(engine)
    assert "WholeJoin" in others and "ChangeJoin" in others
    assert not {"WholeWindow", "Expire", "RowsWindow", "Arrive"} & set(others), "windows of their own"


@pytest.mark.parametrize(
    ("windows", "joined", "stored"),
    [
        (("RANGE 9 us", "RANGE 5 us"), "JOIN", []),
        (("RANGE 9 us", "ROWS 5"), "JOIN", ["ROWS 5"]),
        (("PARTITION BY k ROWS 2", "ROWS 5"), "JOIN", ["PARTITION BY k ROWS 2", "ROWS 5"]),
        (("RANGE 9 us", "RANGE UNBOUNDED"), "LEFT JOIN", ["RANGE 9 MICROSECONDS"]),
        (("RANGE 9 us", "RANGE 5 us"), "FULL JOIN", ["RANGE 9 MICROSECONDS", "RANGE 5 MICROSECONDS"]),
    ],
)
def test_windows_that_keep_nothing_stay_as_they_are(
    windows: tuple[str, str], joined: str, stored: list[str]
) -> None:
    """Rows that say when they leave are kept by the join alone."""
    engine = make()
    one, two = windows
    query = engine.query(f"SELECT s.k, r.v FROM s [{one}] {joined} r [{two}] ON s.k = r.k EMIT CHANGES")
    found = [node for node in plan_nodes(query._pipeline.plan) if isinstance(node, StoredWindowNode)]
    assert [str(node.window) for node in found] == stored
    for ts in range(1, 30):
        for stream in "sr":
            engine.push(stream, {"ts": [ts], "k": [ts % 4], "v": [1.0], "t": ["x"], "b": [True]})
    assert sum(len(store.members) for store in stores_of(engine)) == len(stored)


@pytest.mark.parametrize("options", [{"sharing": "unshared"}, {"expiry": "nta"}, {"execution": "taat"}])
def test_who_is_to_keep_its_own_rows_does(options: dict[str, Any]) -> None:
    engine = make(**options)
    for size in (5, 9):
        sql = f"SELECT s.k FROM s [RANGE {size} us] LEFT JOIN r [ROWS 5] ON s.k = r.k HOP BY 2 us"
        engine.query(sql, modes="DICO")
    assert not stores_of(engine)


@pytest.mark.parametrize("emit", ["DELTA", "COMPLETE"])
def test_unbounded_windows_keep_rows_once(emit: str) -> None:
    """Read whole, by joins and set operations; who comes later has all of them, and is exact at once."""
    engine, alone = make(), make(sharing="unshared")
    texts = [
        "SELECT DISTINCT k FROM s [RANGE UNBOUNDED] HOP BY 3 us",
        "SELECT s.k, r.v FROM s [RANGE UNBOUNDED] JOIN r [RANGE 4 us] ON s.k = r.k HOP BY 2 us",
        "SELECT s.k, r.v FROM s [RANGE 4 us] LEFT JOIN r [RANGE UNBOUNDED] ON s.k = r.k HOP BY 5 us",
    ]
    queries = [engine.query(f"{text} EMIT {emit}", modes="CICO") for text in texts]
    solos = [alone.query(f"{text} EMIT {emit}", modes="CICO") for text in texts]
    push_each(1, 22, engine, alone)
    text = "SELECT k FROM s [RANGE UNBOUNDED] WHERE k < 3 EXCEPT SELECT k FROM r [RANGE 2 us] HOP BY 2 us"
    late = engine.query(f"{text} EMIT {emit}", modes="CICO")
    assert late.complete_from is not None and late.complete_from.microsecond == 22
    push_each(22, 40, engine, alone)
    kept = {store.name: store.state_rows for store in stores_of(engine)}
    assert kept.pop("window s") == kept.pop("window r") == 39
    assert "WholeWindow" not in kept_by(engine)
    assert [answers_of(one) for one in queries] == [answers_of(one) for one in solos]
    assert '"state_bounded": false' in engine.explain(json=True)


def test_an_unbounded_window_is_in_common_from_the_start() -> None:
    """It could never go over later. Who comes when no more rows do is given them all the same."""
    engine = make()
    sql = "SELECT DISTINCT k FROM s [RANGE UNBOUNDED] HOP BY {} us EMIT DELTA"
    engine.query(sql.format(5), modes="CICO")
    (store,) = stores_of(engine)
    push_each(1, 22, engine)
    engine.advance(26)
    late = engine.query(sql.format(2), modes="CICO")
    engine.advance(30)
    assert answers_of(late) == {(28, (k,)): 1 for k in range(5)}
    assert stores_of(engine) == [store] and store.state_rows == 21


def test_silence_costs_no_boundaries_of_unbounded_windows() -> None:
    """A year of microseconds between two rows, in a query that says what changes."""
    engine = make()
    sql = "SELECT s.k, r.k AS m FROM s [RANGE {} us] FULL JOIN r [RANGE UNBOUNDED] ON s.k = r.k HOP BY 1 us"
    queries = [engine.query(f"{sql.format(size)} EMIT DELTA", modes="CICO") for size in (1, 2)]
    year = 365 * 86_400_000_000
    for ts in (3, year):
        for stream in "sr":
            engine.push(stream, {"ts": [ts], "k": [ts], "v": [1.0], "t": ["x"], "b": [True]})
    engine.advance(2 * year)
    for size, query in enumerate(queries, 1):
        pair, missing = (3, 3), (None, 3)
        assert sorted(answers_of(query).items(), key=str) == sorted(
            {
                (3, pair): 1, (3 + size, pair): -1, (3 + size, missing): 1,
                (year, (year, year)): 1, (year + size, (year, year)): -1, (year + size, (None, year)): 1,
            }.items(), key=str,
        )  # fmt: skip


def push_each(first: int, last: int, *engines: penstock.Engine) -> None:
    """A row of each stream at every instant."""
    for ts in range(first, last):
        for engine in engines:
            for stream in "sr":
                row = {"ts": [ts], "k": [ts % 5], "v": [ts * 7 % 11 / 4], "t": ["x"], "b": [True]}
                engine.push(stream, row)


def test_a_hopping_join_goes_over_when_it_is_not_alone() -> None:
    """Alone it has windows of its own, also if another query reads the same join; another window on one of
    the streams brings both to the stores."""
    engine, alone = make(), make(sharing="unshared")
    join = "FROM s [RANGE 6 us] JOIN r [RANGE 4 us] ON s.k = r.k HOP BY 2 us"
    first = engine.query(f"SELECT s.k, r.v {join}", name="first", modes="CICO")
    engine.query(f"SELECT s.k, r.v {join} EMIT DELTA", name="same", modes="CIDO")
    solo = alone.query(f"SELECT s.k, r.v {join}", modes="CICO")
    push_each(1, 8, engine, alone)
    assert not stores_of(engine), "the join is run once"
    engine.query("SELECT k FROM s [RANGE 9 us] WHERE k > 0 EMIT CHANGES", name="other")
    push_each(8, 20, engine, alone)
    assert not any(engine._runtime.is_replanned(name) for name in engine.queries)
    assert {store.stream for store in stores_of(engine)} == {"s", "r"}
    assert "rows of s kept once, also for other" in engine.explain()
    assert first.complete_from is None and answers_of(first) == answers_of(solo)


@pytest.mark.parametrize("modes", ["DIDO", "DICO", "CICO", "CIDO"])
def test_windows_shorter_and_longer_than_a_hop(modes: str) -> None:
    """A row at every instant: some are seen by no boundary, and what leaves at one is there until then."""
    engine, alone = make(), make(sharing="unshared")
    emit = "DELTA" if modes.endswith("DO") else "COMPLETE"
    running = []
    for body in BODIES[:8]:
        for sizes in ((5, 3), (9, 20)):
            text = body.format(w=f"RANGE {sizes[0]} us", u=f"RANGE {sizes[1]} us", where="")
            sql = f"{text} HOP BY 7 us EMIT {emit}"
            running.append((engine.query(sql, modes=modes), alone.query(sql, modes=modes)))
    push_each(1, 40, engine, alone)
    assert {store.stream for store in stores_of(engine)} == {"s", "r"}
    for one, other in running:
        assert answers_of(one) == answers_of(other)


@pytest.mark.parametrize(
    "windows",
    [("RANGE 20 us", "ROWS 12"), ("ROWS 20", "PARTITION BY k ROWS 3"), ("RANGE 9 us", "RANGE 14 us")],
)
def test_sliding_joins_as_alone(windows: tuple[str, str]) -> None:
    """Whatever reads them: the greatest value leaves before lesser ones."""
    engine, alone = make(), make(sharing="unshared")
    running = []
    for body in BODIES:
        sql = body.format(w=windows[0], u=windows[1], where=" WHERE k > 0") + " EMIT CHANGES"
        running.append((engine.query(sql), alone.query(sql)))
    push_each(1, 40, engine, alone)
    for one, other in running:
        assert answers_of(one) == answers_of(other)


def test_rows_that_move_have_other_numbers() -> None:
    """A join remembers the keys of rows by their numbers. Where a window comes or goes, rows of one instant
    may be kept in another order than before."""
    engine, alone = make(), make(sharing="unshared")
    sql = "SELECT s.k, s.v FROM s [RANGE 20 us] JOIN r [RANGE 20 us] ON s.k = r.k HOP BY 2 us"
    query, solo = engine.query(sql, modes="CICO"), alone.query(sql, modes="CICO")
    other = "SELECT k FROM s [RANGE {} us] WHERE k = {} EMIT CHANGES"
    running = [engine.query(other.format(30, 0))]

    def push(ts: int, keys: list[int]) -> None:
        rows = {"ts": [ts] * 6, "v": np.arange(6) / 2, "t": ["x"] * 6, "b": [True] * 6}
        for one in (engine, alone):
            one.push("s", {**rows, "k": keys})
            one.push("r", {**rows, "k": [1] * 6})

    for ts, (size, key) in enumerate([(30, 1), (40, 2), (25, 1), (35, 0)]):
        push(3 * ts + 1, [0, 1, 2, 2, 1, 0])
        push(3 * ts + 3, [2, 2, 1, 0, 1, 1])
        running.append(engine.query(other.format(size, key)))
        running.pop(0).drop()
    push(14, [1, 2, 1, 2, 0, 0])
    engine._runtime._check()
    assert answers_of(query) == answers_of(solo)


def test_a_late_join_finds_what_others_have_kept() -> None:
    """Windows no longer than those that are there, over rows and columns that are kept, are full at once."""
    engine = make()
    engine.query("SELECT s.k, r.v FROM s [RANGE 10 us] LEFT JOIN r [RANGE 20 us] ON s.k = r.k EMIT CHANGES")
    engine.query("SELECT s.k FROM s [ROWS 6] JOIN r [ROWS 6] ON s.k = r.k EMIT CHANGES")
    push_each(1, 31, engine)

    def since(sql: str, **options: Any) -> int | None:
        found = engine.query(sql, **options).complete_from
        return None if found is None else round((found - EPOCH).total_seconds() * 1e6)

    anti = "SELECT s.k FROM s [RANGE {} us] ANTI JOIN r [RANGE {} us] ON r.k = s.k {}"
    assert since(anti.format(10, 15, "EMIT CHANGES")) == 30
    assert since(anti.format(12, 15, "EMIT CHANGES")) == 32, "s lacks the rows from 19 to 20"
    assert since(anti.format(9, 16, "HOP BY 4 us"), modes="CICO") == 31
    assert since(anti.format(9, 21, "HOP BY 4 us EMIT DELTA"), modes="DIDO") == 31
    assert since("SELECT s.k FROM s [ROWS 4] JOIN r [ROWS 2] ON s.k = r.k EMIT CHANGES") == 30
    push_each(31, 60, engine)
    engine._runtime._check()


def test_a_join_over_the_last_rows_goes_to_and_fro() -> None:
    """Between keeping pairs and finding them again, for which it has windows of its own."""
    engine, alone = make(), make(sharing="unshared")
    sql = "SELECT s.k, r.v FROM s [RANGE 6 us] JOIN r [ROWS 4] ON s.k = r.k EMIT CHANGES"
    query, solo = engine.query(sql), alone.query(sql)
    push_each(1, 10, engine, alone)
    load = measure_join(query._pipeline.facts().shown)
    assert load is not None and load.pairs > 0
    found = []
    with mock.patch.object(choose_expiry, "choose_expiry", the_other):
        for first in (10, 30):
            engine._adapter.look_at_plans()
            push_each(first, first + 20, engine, alone)
            found.append((query._pipeline.approach, [store.stream for store in stores_of(engine)]))
    assert found == [("nta", []), ("promises", ["r"])]
    assert answers_of(query) == answers_of(solo)
