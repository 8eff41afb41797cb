"""Panes in the life of an engine: who shares them, what they keep, who fails, what a newcomer finds."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checkpoint_help import Twins, again
from oracle import rows_of
from work_of import panes_of

import penstock
from penstock.engine.panes import pane_aggregate
from penstock.engine.panes import panes as panes_module
from penstock.engine.panes.pane_marks import Sparse

US = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DECLARE = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, x DOUBLE)"


def start(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute(DECLARE)
    return engine


def push(engine: penstock.Engine, ts: list[int], k: list[int | None], v: list[int | None]) -> None:
    rows = {"ts": ts, "k": k, "v": v, "x": [None if one is None else float(one) for one in v]}
    types = [pa.int64(), pa.int64(), pa.int64(), pa.float64()]
    engine.push("s", pa.table([pa.array(rows[n], t) for n, t in zip(rows, types, strict=True)], list(rows)))


def count(size: int, hop: int, calls: str = "COUNT(*) AS n", where: str = "", by: str = "k") -> str:
    return f"SELECT {by}, {calls} FROM s [RANGE {size} us]{where} GROUP BY {by} HOP BY {hop} us"


def test_all_windows_hops_and_calls_share() -> None:
    """Whatever windows, hops, origins, calls and outputs: one operator; another filter or key is another."""
    engine = start()
    engine.query(count(10, 5))
    engine.query(count(30, 7, "MAX(v) AS m") + " ORIGIN 3 EMIT DELTA")
    engine.query("SELECT AVG(q.x) * 2 AS d FROM s [RANGE 4 us] AS q GROUP BY q.k HOP BY 2 us", name="half")
    assert len(panes_of(engine)) == 1
    engine.query(count(10, 5, where=" WHERE v > 1"))
    engine.query(count(10, 5, by="v"))
    engine.query("SELECT COUNT(*) AS n FROM s [RANGE 10 us] HOP BY 5 us")
    assert len(panes_of(engine)) == 4
    push(engine, [1, 2, 8], [1, 1, 2], [1, 2, 3])
    (group,) = [one for one in engine.stats()["groups"] if one["strategy"] == "panes"]
    assert group["queries"] == ["q1", "q2", "half"] and group["operators"][0]["rows_in"] == 3
    shown = engine.explain()
    assert "PaneAggregate COUNT(*) BY s.k" in shown and "panes kept once, also for q2, half" in shown
    plan = json.loads(engine.explain(json=True))["queries"][0]["inputs"][0]
    assert plan["node"] == "PaneAggregate" and plan["shared_with"] == ["q2", "half"]
    for name in list(engine.queries):
        engine.queries[name].drop()
    assert not panes_of(engine) and not engine._runtime.at_work.owners
    assert not engine._runtime.streams["s"].output.queues


def test_unshared_panes_are_ones_own() -> None:
    engine = start(sharing="unshared")
    for _ in range(2):
        engine.query(count(10, 5))
    assert len(panes_of(engine)) == 2
    push(engine, [1, 6], [1, 1], [1, 1])
    assert [len(rows_of(one.results())) for one in engine.queries.values()] == [1, 1]


def test_a_newcomer_finds_the_panes_that_are_there() -> None:
    """Window 20, hop 10, after rows until 45: what begins at an edge of the first query is exact at once.

    first      0         10        20        30        40        50
               |----------|---------|---------|---------|---- now 45
    same       (30 .. 50] begins at an edge: exact from 46 on
    shifted    (25 .. 45] does not, nor does (35 .. 55]; (45 .. 65] does
    """
    engine = start()
    engine.query(count(40, 10))
    push(engine, [4, 12, 22, 28, 33, 37, 45], [1] * 7, [1] * 7)
    same = engine.query(count(20, 10))
    shifted = engine.query(count(20, 10) + " ORIGIN 5")
    fresh = engine.query(count(20, 10, "SUM(v) AS t"))
    assert same.complete_from == EPOCH + 46 * US
    assert shifted.complete_from == EPOCH + 56 * US
    assert fresh.complete_from == EPOCH + 61 * US, "(50 .. 70] is the first of which all was added up"
    later = engine.query(count(20, 10, "SUM(v) AS t"))
    assert later.complete_from == fresh.complete_from
    push(engine, [48, 66, 71], [1, 1, 1], [1, 1, 1])
    assert rows_of(same.results()) == [(50, 1, 4), (60, 1, 2), (70, 1, 1)]
    assert rows_of(shifted.results())[-1] == (65, 1, 1)
    assert rows_of(fresh.results())[-1] == rows_of(later.results())[-1] == (70, 1, 1)


def test_a_query_that_goes_takes_its_lanes_along() -> None:
    engine = start()
    stays = engine.query(count(10, 5))
    goes = engine.query(count(200, 1, "MAX(v) AS m, SUM(x) AS t"))
    push(engine, list(range(300)), [1] * 300, list(range(300)))
    (panes,) = panes_of(engine)
    assert panes.panes.count > 100
    goes.drop()
    push(engine, [320], [1], [1])
    engine._runtime._check()
    assert not panes.panes.values and panes.panes.count < 100
    assert rows_of(stays.results())[-1] == (305, 1, 4)


def test_state_is_bounded_and_empties() -> None:
    """Cells are panes times groups: a window of 60 with hops of 10 has 6 panes, and one that is open."""
    engine = start()
    delta = engine.query(count(60, 10, "COUNT(*) AS n, MAX(v) AS m, SUM(x) AS t") + " EMIT DELTA")
    (panes,) = panes_of(engine)
    for at in range(0, 2_000, 100):
        push(engine, list(range(at, at + 100)), [i % 7 for i in range(100)], [1] * 100)
        assert panes.state_rows <= 7 * 7
        panes._check()
    engine.advance(10_000)
    assert panes.state_rows == 0 and panes.panes.slots.used == 0
    assert panes.state_bytes < 20_000
    folded = sum(row[1] for row in rows_of(delta.results()))
    assert folded == 0, "something was never taken back"


def test_edges_that_only_short_windows_need_are_dropped() -> None:
    """A long window beside a short one with short hops: the short one's edges do not stay as long."""
    engine = start()
    long = engine.query(count(10_000, 1_000))
    engine.query(count(5, 1))
    push(engine, list(range(8_000)), [1] * 8_000, [1] * 8_000)
    (panes,) = panes_of(engine)
    assert panes.panes.count < 200
    panes._check()
    found = rows_of(long.results())
    assert [row[2] for row in found] == [1 + min(row[0], 9_999) for row in found]


@pytest.mark.parametrize("few", [0, 1_024])
@pytest.mark.parametrize("emit", ["", " EMIT DELTA"])
def test_keys_that_come_and_go(emit: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups without rows are let go, also while windows never are empty; with and without panes the same."""
    monkeypatch.setattr(panes_module, "FEW_SLOTS", few)
    monkeypatch.setattr(panes_module, "EDGE_SLOTS", 4)
    monkeypatch.setattr(panes_module, "MANY_SLOTS", 4)
    monkeypatch.setattr(pane_aggregate, "MANY_EDGES", 2)
    rng = np.random.default_rng(5)
    ts = np.sort(rng.integers(0, 3_000, 2_000)).tolist()
    keys, values = [at // 10 for at in ts], rng.integers(-50, 50, 2_000).tolist()
    given = []
    for by_panes in (True, False):
        engine = start(panes=by_panes)
        calls = "COUNT(*) AS n, MIN(v) AS a, MAX(x) AS b, SUM(x) AS c, AVG(v) AS d"
        queries = [engine.query(count(size, hop, calls) + emit) for size, hop in ((40, 10), (90, 7))]
        used = 0
        for at in range(0, 2_000, 37):
            push(engine, ts[at : at + 37], keys[at : at + 37], values[at : at + 37])
            engine._runtime._check()
            for panes in panes_of(engine):
                used = max(used, panes.panes.slots.used)
        engine.close()
        assert used < 100
        given.append([sorted(rows_of(query.results())) for query in queries])
    assert given[0] == given[1]


@pytest.mark.parametrize("few", [0, 1_024])
def test_many_groups_of_which_each_pane_has_few(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges kept by what has changed, or whole: the same answers, of several windows; NULLs, texts."""
    monkeypatch.setattr(panes_module, "FEW_SLOTS", few)
    monkeypatch.setattr(panes_module, "EDGE_SLOTS", 4)
    monkeypatch.setattr(pane_aggregate, "MANY_EDGES", 5)
    rng = np.random.default_rng(7)
    rows = 3_000
    values = rng.integers(-50, 50, rows).tolist()
    table = pa.table({
        "ts": np.sort(rng.integers(0, 3_000, rows)),
        "k": rng.integers(0, 150, rows),
        "v": pa.array([None if v % 9 == 0 else v for v in values]),
        "x": pa.array([None if v % 7 == 0 else v * 10.0 ** (v % 5) / 3 for v in values]),
    })  # fmt: skip
    calls = "COUNT(v) AS n, MIN(v) AS a, MAX(x) AS b, SUM(x) AS c, AVG(v) AS d, MIN(CAST(v AS VARCHAR)) AS e"
    given = []
    for by_panes in (True, False):
        engine = start(panes=by_panes)
        texts = [count(size, hop, calls) for size, hop in ((40, 10), (900, 70), (300, 11), (50, 100))]
        queries = [engine.query(sql) for sql in texts] + [engine.query(f"{texts[2]} EMIT DELTA")]
        for at in range(0, rows, 531):
            if at == 3 * 531:
                queries.pop(0).drop()
            engine.push("s", table.slice(at, 531))
            engine._runtime._check()
        kinds = [
            isinstance(mark, Sparse)
            for panes in panes_of(engine)
            for mark in panes.panes.rows.marks.found.values()
        ]
        assert not by_panes or (any(kinds) is not all(kinds)) is (few == 0)
        engine.close()
        given.append([sorted(map(repr, rows_of(query.results()))) for query in queries])
    assert given[0] == given[1]


def test_many_groups_take_no_more_than_their_rows() -> None:
    """20,000 groups, 250 hops to a window, 40 rows a hop: 12,000 sums are less than 20,000 times 250."""
    engine = start()
    query = engine.query("SELECT k, SUM(x) AS n, MAX(x) AS m FROM s [RANGE 2500 us] GROUP BY k HOP BY 10 us")
    rng = np.random.default_rng(3)
    for first in range(0, 5_000, 250):
        ts = np.sort(rng.integers(first, first + 250, 1_000))
        values = {"v": rng.integers(0, 9, 1_000), "x": rng.random(1_000)}
        engine.push("s", {"ts": ts, "k": rng.integers(0, 20_000, 1_000), **values})
        query.results()
    (panes,) = panes_of(engine)
    panes._check()
    assert panes.panes.slots.used > 5_000 and panes.panes.count > 200
    whole = panes.panes.slots.used * panes.panes.count * 8 * 10
    assert panes.state_bytes < whole / 10


def test_there_is_room_for_many_more_groups_at_once() -> None:
    """2,000 groups, one of which comes again, then 10,000 others: an edge is kept by what it differs in."""
    engine = start()
    query = engine.query("SELECT k, COUNT(*) AS n FROM s [RANGE 20 us] GROUP BY k HOP BY 10 us")
    (panes,) = panes_of(engine)
    for ts, keys in ((5, range(2_000)), (15, range(1)), (25, range(2_000, 12_000)), (35, range(1))):
        push(engine, [ts] * len(keys), list(keys), [1] * len(keys))
    counted = panes.panes._counted
    assert counted is not None and len(counted) >= panes.panes.slots.used == 12_000
    answers = rows_of(query.results())
    assert [ts for ts, _, _ in answers] == [10] * 2_000 + [20] * 2_000 + [30] * 10_001
    assert [(ts, k) for ts, k, n in answers if n == 2] == [(20, 0)]


def test_a_sum_beyond_int64_stops_its_query_alone() -> None:
    engine = start()
    short = engine.query(count(5, 5, "SUM(v) AS t"))
    long = engine.query(count(50, 5, "SUM(v) AS t"))
    average = engine.query(count(50, 5, "AVG(v) AS t"))
    counted = engine.query(count(50, 5, "SUM(v) AS t"), count_only=True)
    big = 1 << 62
    push(engine, [1, 4], [1, 2], [big, 3])
    with pytest.raises(penstock.StoppedError, match="int64 overflow in `SUM`, in query `q2`"):
        push(engine, [12, 21], [1, 1], [big, 1])
    assert rows_of(long.results()) == [(5, 1, big), (5, 2, 3), (10, 1, big), (10, 2, 3)]
    with pytest.raises(penstock.StoppedError, match="overflow"):
        long.results()
    push(engine, [31], [1], [1])
    assert rows_of(short.results())[-1] == (25, 1, 1)
    assert rows_of(average.results())[-1][2] == 3.0
    assert counted._pipeline.error is not None
    engine._runtime._check()


def test_an_argument_that_fails_stops_those_that_read_it() -> None:
    engine = start()
    plain = engine.query(count(10, 5))
    fails = engine.query(count(10, 5, "SUM(10 // v) AS t"))
    push(engine, [1, 4], [1, 1], [1, 2])
    with pytest.raises(penstock.StoppedError, match="in query `q2`"):
        push(engine, [6, 11, 11, 14, 21], [1, 1, 1, 1, 1], [5, 1, 0, 2, 1])
    assert rows_of(fails.results()) == [(5, 1, 15), (10, 1, 17)]
    assert rows_of(plain.results()) == [(5, 1, 2), (10, 1, 3), (15, 1, 4), (20, 1, 3)]
    engine._runtime._check()
    assert len(panes_of(engine)) == 1


def test_a_filter_that_fails_stops_all_who_share_it() -> None:
    engine = start()
    queries = [engine.query(count(size, 5, where=" WHERE 10 // v > 1")) for size in (5, 10)]
    push(engine, [1, 4], [1, 1], [1, 2])
    with pytest.raises(penstock.StoppedError, match="in query `q1`"):
        push(engine, [6, 8, 12, 12], [1, 1, 1, 1], [1, 1, 3, 0])
    assert [rows_of(one.results()) for one in queries] == [
        [(5, 1, 2), (10, 1, 2)],
        [(5, 1, 2), (10, 1, 4)],
    ]
    assert not panes_of(engine)
    again = engine.query(count(5, 5))
    push(engine, [26], [1], [1])
    assert rows_of(again.results()) == []


def test_a_total_has_a_row_at_every_hop() -> None:
    """Also where no row is in the window, and where the filter has let none through yet."""
    engine = start()
    total = "SELECT COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 5 us] WHERE v > 0 HOP BY 10 us"
    complete, delta = engine.query(total), engine.query(f"{total} EMIT DELTA")
    push(engine, [3, 18, 61], [1, 1, 1], [0, 7, 1])
    assert rows_of(complete.results()) == [
        (10, 0, None), (20, 1, 7), (30, 0, None), (40, 0, None), (50, 0, None), (60, 0, None),
    ]  # fmt: skip
    assert rows_of(delta.results()) == [
        (10, 1, 0, None), (20, -1, 0, None), (20, 1, 1, 7), (30, -1, 1, 7), (30, 1, 0, None),
    ]  # fmt: skip


def test_a_subscriber_may_start_a_query() -> None:
    engine = start()
    query = engine.query(count(10, 5))
    started: list[penstock.Query] = []
    query.subscribe(lambda _: started or started.append(engine.query(count(5, 5))))
    push(engine, [1, 7, 11, 16], [1, 1, 1, 1], [1, 1, 1, 1])
    push(engine, [21, 27], [1, 1], [1, 1])
    assert rows_of(started[0].results())[-1] == (25, 1, 1)
    engine._runtime._check()


def test_a_long_silence_costs_no_hops() -> None:
    """A year of microsecond hops without rows: nothing is said, and nobody counts them."""
    engine = start()
    query = engine.query(count(3, 1))
    push(engine, [1], [1], [1])
    push(engine, [31_536_000_000_000], [1], [1])
    engine.advance(2 * 31_536_000_000_000)
    assert [row[0] for row in rows_of(query.results())] == [
        1,
        2,
        3,
        *range(31_536_000_000_000, 31_536_000_000_003),
    ]


def test_panes_come_back_from_a_checkpoint() -> None:
    """In the middle of a pane; a newcomer finds the same in both engines."""
    engine = start()
    engine.query(count(15, 10, "COUNT(*) AS n, MAX(v) AS m, SUM(x) AS t"))
    engine.query(count(25, 5, "MIN(x) AS a, COUNT(v) AS c") + " EMIT DELTA")
    engine.query("SELECT AVG(x) AS d FROM s [RANGE 25 us] HOP BY 5 us EMIT DELTA")
    push(engine, [1, 3, 5, 10, 19, 22], [1, 2, 1, None, 1, 1], [1, None, 2, 3, 1, 4])
    twins = Twins(engine, again(engine))
    twins.compare()
    twins.do(lambda one: one.query(count(8, 4, "MAX(v) AS m")))
    twins.do(lambda one: push(one, [24, 33, 47], [3, 2, 1], [1, 7, 2]))
    twins.compare()
    twins = Twins(twins.two, again(twins.two))
    twins.do(lambda one: one.advance(100))
    twins.compare()


@pytest.mark.parametrize("call", ["MIN(t)", "MAX(t)", "MAX(s)"])
def test_what_came_before_anybody_asked_is_no_value(call: str) -> None:
    """Who starts in the midst of a pane does not know the values of its rows: they read as NULL."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM r (ts TIMESTAMP, t TIMESTAMP, s VARCHAR)")
    engine.query("SELECT COUNT(*) AS n FROM r [RANGE 10 us] HOP BY 10 us")
    engine.push("r", {"ts": [12, 13], "t": [5, 6], "s": ["x", "y"]})
    late = engine.query(f"SELECT {call} AS m FROM r [RANGE 10 us] HOP BY 10 us")
    engine.push("r", {"ts": [25], "t": [1], "s": ["z"]})
    engine.advance(31)
    before, after = late.results()["m"].to_pylist()
    assert before is None and after is not None
