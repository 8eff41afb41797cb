"""Windows over one stream whose rows are kept once: each query answers what it would answer alone.

Queries are drawn, added and dropped at drawn moments between drawn pushes, under drawn schedules; each is
held against an engine of its own, in which it was from the start and nothing is shared.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import plain, rows_of
from test_shared_select import CONDITIONS, DECLARE, FAILING, SCHEMA
from work_of import stores_of, sub_plans_of

import penstock
from penstock.engine.expressions import functions
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.windows import range_changes, window_lanes, window_store
from penstock.engine.windows.window_store import WindowStore
from penstock.query import EPOCH, NEVER

TEMPLATES = [
    "SELECT k, v FROM s [RANGE {w} us]{where} EMIT CHANGES",
    "SELECT t FROM s [RANGE {w} us]{where} EMIT CHANGES",
    "SELECT k + 1 AS n, b FROM s [RANGE {w} us]{where} EMIT CHANGES",
    "SELECT 1 AS one FROM s [RANGE {w} us]{where} EMIT CHANGES",
    "SELECT k, COUNT(*) AS n, SUM(v) AS x, MIN(v) AS l, MAX(k) AS h FROM s [RANGE {w} us]{where} GROUP BY k",
    "SELECT MAX(v) AS hi, COUNT(DISTINCT k) AS d, AVG(k) AS m FROM s [RANGE {w} us]{where}",
    "SELECT b, MIN(t) AS t FROM s [RANGE {w} us]{where} GROUP BY b",
    "SELECT DISTINCT k, b FROM s [RANGE {w} us]{where}",
    "SELECT k FROM s [RANGE {w} us]{where} EXCEPT ALL SELECT k FROM s [RANGE {u} us] WHERE v > 0.5",
    "SELECT k FROM s [RANGE {w} us]{where} UNION ALL SELECT k FROM s [RANGE {u} us] EMIT CHANGES",
    "SELECT k FROM s [NOW]{where} EMIT CHANGES",
    "SELECT k, v FROM s [ROWS {w}]{where} EMIT CHANGES",
    "SELECT t, MAX(v) AS hi FROM s [ROWS {w}]{where} GROUP BY t",
    "SELECT k FROM s [ROWS {w}]{where} EXCEPT SELECT k FROM s [RANGE {u} us]",
    "SELECT k, v FROM s [PARTITION BY k ROWS {w}]{where} EMIT CHANGES",
    "SELECT b, MAX(t) AS hi FROM s [PARTITION BY t, b ROWS {w}]{where} GROUP BY b",
    "SELECT k FROM s [ROWS {w}]{where} UNION SELECT k FROM s [PARTITION BY b ROWS {u}]",
]  # fmt: skip
STRATEGIES = ["auto", "auto", "auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain"]


@st.composite
def asked(draw: st.DrawFn, conditions: list[str] = CONDITIONS) -> str:
    where = draw(st.one_of(st.just(""), st.sampled_from(conditions).map(" WHERE {}".format)))
    sizes = st.sampled_from([1, 2, 3, 5, 5, 9, 20])
    return draw(st.sampled_from(TEMPLATES)).format(w=draw(sizes), u=draw(sizes), where=where)


@st.composite
def stream(draw: st.DrawFn, most: int = 25) -> pa.Table:
    """Ties, gaps, duplicates and NULLs."""
    ts, rows = 0, []
    for _ in range(draw(st.integers(1, most))):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 7]))
        rows.append(
            (
                ts,
                draw(st.one_of(st.none(), st.integers(-1, 3))),
                draw(st.sampled_from([None, 0.0, 0.5, 0.75, 1.5])),
                draw(st.sampled_from([None, "a", "ab", "b"])),
                draw(st.sampled_from([None, True, False])),
            )
        )
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, one.type) for c, one in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def make(**options: Any) -> penstock.Engine:
    """With a stream s, and one like it, r."""
    engine = penstock.Engine(**options)
    engine.execute(f"{DECLARE}; {DECLARE.replace('STREAM s', 'STREAM r')}")
    return engine


def changes_of(query: penstock.Query) -> Counter[Any]:
    """What has come, as the net change of each row at each instant."""
    found: Counter[Any] = Counter()
    rows = rows_of(query.results())
    assert [row[0] for row in rows] == sorted(row[0] for row in rows), "changes out of time order"
    for ts, diff, *row in rows:
        found[ts, plain(tuple(row))] += diff
    return Counter({key: count for key, count in found.items() if count})


@dataclass
class Asked:
    """A query among others, and alone from the start."""

    sql: str
    query: penstock.Query
    solo: penstock.Engine
    from_start: bool
    seen: list[Counter[Any]] = field(default_factory=lambda: [Counter(), Counter()])

    def check(self) -> None:
        """Whoever was there from the start has given the same by now; of all, the answers are kept."""
        new = changes_of(self.query), changes_of(self.solo.queries["alone"])
        assert not self.from_start or new[0] == new[1], self.sql
        for one, more in zip(self.seen, new, strict=True):
            one.update(more)

    def check_answers(self, end: int) -> None:
        """From `complete_from` on the answers are those of the query that was there from the start."""
        since = self.query.complete_from
        if since == NEVER:
            return
        begin = 0 if since is None else round((since - EPOCH).total_seconds() * 1e6)
        for instant in range(begin, end):
            answers = [folded(one, instant) for one in self.seen]
            assert answers[0] == answers[1], f"{self.sql} at {instant}, exact from {begin}"


def folded(changes: Counter[Any], instant: int) -> Counter[Any]:
    answer: Counter[Any] = Counter()
    for (ts, row), count in changes.items():
        if ts <= instant:
            answer[row] += count
    return Counter({row: count for row, count in answer.items() if count})


def solo(sql: str, come: pa.Table, now: int | None) -> penstock.Engine:
    """An engine for one query, which has seen what had come by now."""
    engine = make(sharing="unshared")
    engine.query(sql, name="alone")
    if come.num_rows:
        engine.push("s", come)
    if now is not None:
        engine.advance(now)
    return engine


def cramped(draw: Any, stack: ExitStack) -> None:
    """Limits so low that few rows reach them."""
    limits = {
        "LEAST_CHANGES": draw(st.sampled_from([1, 3, 4_096])),
        "MOST_CHANGES": draw(st.sampled_from([1, 1 << 22])),
        "FEW_MEMBERS": draw(st.sampled_from([0, 1, 8])),
        "FEW_LANES": draw(st.sampled_from([0, 0, 1, 8])),
        "FEW_CHANGES": draw(st.sampled_from([0, 3, 16_384])),
        "MOST_SHELVES": draw(st.sampled_from([1, 2, 8])),
        "STEP_ROWS": draw(st.sampled_from([1, 4, 32_768])),
    }
    for name, value in limits.items():
        module = next(one for one in (window_lanes, range_changes, window_store) if hasattr(one, name))
        stack.enter_context(mock.patch.object(module, name, value))


def scheduler(draw: Any) -> Any:
    seed = draw(st.integers(0, 1 << 20))
    return RoundRobin(draw(st.sampled_from([1, 3, 65_536]))) if seed % 2 else Shuffled(seed)


@settings(max_examples=120)
@given(st.data())
def test_drawn_queries_that_come_and_go(data: st.DataObject) -> None:
    draw = data.draw
    with ExitStack() as stack:
        cramped(draw, stack)
        rows = draw(stream())
        engine = make(sharing=draw(st.sampled_from(STRATEGIES)), scheduler=scheduler(draw))
        running: list[Asked] = []

        def add(at: int, now: int | None) -> None:
            sql = draw(asked())
            alone = solo(sql, rows.slice(0, at), now)
            running.append(Asked(sql, engine.query(sql), alone, not at))

        for _ in range(draw(st.integers(1, 3))):
            add(0, None)
        at, now = 0, None
        while at < rows.num_rows:
            size = draw(st.integers(1, 8))
            piece = rows.slice(at, size)
            for one in (engine, *(asked.solo for asked in running)):
                one.push("s", piece)
            at += piece.num_rows
            now = None
            if draw(st.integers(0, 2)) == 0:
                last = piece["ts"].cast(pa.int64())[-1].as_py()
                following = rows["ts"].cast(pa.int64())[at].as_py() if at < rows.num_rows else last + 30
                now = draw(st.integers(last, following))
                for one in (engine, *(asked.solo for asked in running)):
                    one.advance(now)
            engine._runtime._check()
            check_state(engine)
            for asked_ in running:
                asked_.check()
            if len(running) > 1 and draw(st.integers(0, 3)) == 0:
                running.pop(draw(st.integers(0, len(running) - 1))).query.drop()
            if len(running) < 7 and draw(st.booleans()):
                add(at, now)
            if draw(st.integers(0, 5)) == 0:
                names = [asked.query.name for asked in running]
                engine = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
                for asked_, name in zip(running, names, strict=True):
                    asked_.query = engine.queries[name]
        end = rows["ts"].cast(pa.int64())[-1].as_py() + 30
        for one in (engine, *(asked.solo for asked in running)):
            one.advance(end)
        for asked_ in running:
            asked_.check()
            asked_.check_answers(end)
        engine._runtime._check()
        for store in stores_of(engine):
            needed = {ref for member in store.members for ref in store.refs_of(member).tolist()}
            assert store.state_rows == len(needed), "rows that nobody needs"


def check_state(engine: penstock.Engine) -> None:
    """What is kept is what some window still holds, and rows of an instant that is not over."""
    for store in stores_of(engine):
        assert isinstance(store, WindowStore)
        sizes = {member.node.size for member in store.members if not member.by_rows[0]}
        if len(sizes) > window_store.MOST_SHELVES or store._side.terms.births_matter:
            continue
        in_some: set[int] = set()
        for member in store.members:
            in_some |= set(store.refs_of(member).tolist())
        kept = store._kept
        if any(member.by_rows[0] for member in store.members):
            in_some |= set(kept.refs_between(kept.over, kept.come).tolist())
        assert store.state_rows == len(in_some)


@settings(max_examples=60)
@given(st.data())
def test_who_fails_stops_alone(data: st.DataObject) -> None:
    """At the instant of the first row on which it fails, wherever batches were cut."""
    draw = data.draw
    with ExitStack() as stack:
        cramped(draw, stack)
        rows = draw(stream(12))
        engine = make(scheduler=scheduler(draw))
        texts = [draw(asked(FAILING)) for _ in range(draw(st.integers(1, 3)))] + [draw(asked())]
        running = [Asked(sql, engine.query(sql), solo(sql, rows.slice(0, 0), None), True) for sql in texts]
        at, alive = 0, list(running)
        while at < rows.num_rows:
            piece = rows.slice(at, draw(st.integers(1, 8)))
            at += piece.num_rows
            failed = False
            try:
                engine.push("s", piece)
            except penstock.StoppedError:
                failed = True
            for one in list(alive):
                try:
                    one.solo.push("s", piece)
                except penstock.StoppedError:
                    assert failed and one.query._pipeline.error is not None, one.sql
                    alive.remove(one)
                    last = bad_instant(rows.slice(0, at))
                    new = changes_of(one.query) if one.query._pipeline.sink.state_rows else Counter()
                    one.seen[0].update(new)
                    assert all(ts <= last for ts, _ in new), "it went on beyond its failure"
                else:
                    assert one.query._pipeline.error is None, one.sql
                    one.check()
            engine._runtime._check()


def bad_instant(piece: pa.Table) -> int:
    """When the last row with k = 0 comes, by which all of these divide, if they look at it."""
    rows = zip(piece["ts"].cast(pa.int64()).to_pylist(), piece["k"].to_pylist(), strict=True)
    return max(ts for ts, k in rows if k == 0)


@pytest.mark.parametrize("window", ["RANGE 9 us", "ROWS 9", "PARTITION BY k ROWS 1"])
def test_an_aggregate_goes_over_when_it_is_not_alone(window: str) -> None:
    """Alone it keeps an entry per row; in common with others it keeps its groups, once all rows are there."""
    engine = make()
    total = engine.query("SELECT k, SUM(v) AS x FROM s [RANGE 5 us] GROUP BY k", name="total")
    same = engine.query(
        "SELECT x FROM (SELECT k, SUM(v) AS x FROM s [RANGE 5 us] GROUP BY k) AS q", name="same"
    )

    def push(first: int, last: int) -> None:
        for ts in range(first, last):
            engine.push("s", {"ts": [ts], "k": [ts % 2], "v": [1.0], "t": ["x"], "b": [True]})

    push(1, 8)
    assert not stores_of(engine), "who reads the same aggregate is no other"
    engine.query(f"SELECT k FROM s [{window}] WHERE k > 0 EMIT CHANGES", name="other")
    (store,) = stores_of(engine)
    push(8, 12)
    assert engine._runtime.is_replanned("total"), "of the rows before 8 some are still in its window"
    push(12, 14)
    assert not engine._runtime.is_replanned("total") and not engine._runtime.is_replanned("same")
    assert {name for member in store.members for name in member.queries} == {"total", "same", "other"}
    groups = [op for part in sub_plans_of(engine) for op in part.own_operators]
    assert [one.state_rows for one in groups] == [2], "two groups, and no rows"
    assert total.complete_from is None and same.complete_from is None
    push(14, 20)
    alone = solo("SELECT k, SUM(v) AS x FROM s [RANGE 5 us] GROUP BY k", pa.table({}), None)
    for ts in range(1, 20):
        alone.push("s", {"ts": [ts], "k": [ts % 2], "v": [1.0], "t": ["x"], "b": [True]})
    assert changes_of(total) == changes_of(alone.queries["alone"])


def test_nothing_comes_below_a_promise() -> None:
    """Where much leaves at once it is told of in pieces, each before the promise that ends it."""
    engine = make()
    query = engine.query("SELECT k FROM s [RANGE 5 us] EMIT CHANGES")
    (store,) = stores_of(engine)
    (member,) = store.members
    promised: list[int] = []
    put, promise = member.output.put, member.output.promise

    def checked(batch: Any) -> None:
        assert not promised or batch.ts[0] >= promised[-1], "a row below a promise"
        put(batch)

    def noted(ts: int) -> None:
        promised.append(ts)
        promise(ts)

    member.output = mock.Mock(wraps=member.output, put=checked, promise=noted, queues=member.output.queues)
    with (
        mock.patch.object(range_changes, "LEAST_CHANGES", 2),
        mock.patch.object(range_changes, "MOST_CHANGES", 2),
    ):
        for ts in range(0, 40, 4):
            count = 6
            columns = {"k": [1] * count, "v": [0.0] * count, "t": ["x"] * count, "b": [True] * count}
            engine.push("s", {"ts": [ts, ts, ts + 1, ts + 1, ts + 2, ts + 3], **columns})
        engine.advance(100)
    assert len(promised) > 30
    assert sum(row[1] for row in rows_of(query.results())) == 0


def test_rows_that_leave_between_two_batches_come_before_the_promise() -> None:
    """A push of more rows than are taken at once: what leaves in between is older than what is to come."""
    engine = make()
    queries = [engine.query(f"SELECT k FROM s [RANGE {size} us] EMIT CHANGES") for size in (5, 7)]
    (store,) = stores_of(engine)
    for member in store.members:
        promised: list[int] = []
        put, promise = member.output.put, member.output.promise

        def checked(batch: Any, put: Any = put, promised: list[int] = promised) -> None:
            assert not promised or batch.ts[0] >= promised[-1], "a row below a promise"
            put(batch)

        def noted(ts: int, promise: Any = promise, promised: list[int] = promised) -> None:
            promised.append(ts)
            promise(ts)

        member.output = mock.Mock(
            wraps=member.output, put=checked, promise=noted, queues=member.output.queues, punctuation=0
        )
    count = 70_000
    texts, flags = np.array(["x"] * count), np.ones(count, bool)
    rows = {"ts": np.arange(count) * 10, "k": np.arange(count), "v": np.ones(count), "t": texts, "b": flags}
    engine.push("s", rows)
    assert [query.count for query in queries] == [2 * count - 1] * 2


def test_the_last_window_of_partitions_takes_its_rows_along() -> None:
    """
    ::

        [RANGE 1 us]   stays, and has the last row alone
        PARTITION BY   goes when it has kept five rows more, which no shelf has
    """
    engine = make()
    stays = engine.query("SELECT k FROM s [RANGE 1 us] EMIT CHANGES")
    goes = engine.query("SELECT DISTINCT k FROM s [PARTITION BY b ROWS 20]")
    (store,) = stores_of(engine)
    for ts in range(6):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [0.0], "t": ["x"], "b": [True]})
    assert store.state_rows == 6
    goes.drop()
    engine.push("s", {"ts": [6], "k": [6], "v": [0.0], "t": ["x"], "b": [True]})
    engine._runtime._check()
    assert store.state_rows == 1
    assert len(stays.results()) == 13


def test_a_query_started_by_a_subscriber_finds_what_is_there() -> None:
    """It starts when the running push is over, so nothing is on its way, and is given the row that came."""
    engine = make()
    first = engine.query("SELECT k FROM s [RANGE 5 us] EMIT CHANGES", name="first")
    started: list[penstock.Query] = []

    def start(rows: pa.RecordBatch) -> None:
        if not started:
            started.append(engine.query("SELECT k FROM s [RANGE 3 us] EMIT CHANGES"))

    first.subscribe(start)
    for ts in range(1, 8):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [0.0], "t": ["x"], "b": [True]})
    assert len(stores_of(engine)) == 1
    assert rows_of(started[0].results())[:5] == [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, -1, 1), (4, 1, 4)]
    started[0].drop()
    first.drop()
    assert not stores_of(engine) and not engine._runtime.at_work.owners


def test_a_condition_is_evaluated_once_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make()
    for size in (3, 5, 9):
        for where in ("k % 2 = 1", "k % 2 = 1 AND v > 0.5"):
            engine.query(f"SELECT k FROM s [RANGE {size} us] WHERE {where} EMIT CHANGES")
            engine.query(f"SELECT k, COUNT(*) AS n FROM s [RANGE {size} us] WHERE {where} GROUP BY k")
    calls: list[int] = []
    original = functions.FUNCTIONS["modulo"]

    def counted(call: Any, rows: Any) -> Any:
        calls.append(rows.length)
        return original(call, rows)

    monkeypatch.setitem(functions.FUNCTIONS, "modulo", counted)
    for ts in range(1, 30):
        engine.push("s", {"ts": [ts], "k": [ts % 4], "v": [0.7], "t": ["x"], "b": [True]})
    assert calls == [1] * 29


def test_an_altered_aggregate_is_no_company_for_itself() -> None:
    engine = make()
    sql = "SELECT k, SUM(v) AS x FROM s [RANGE {} us] GROUP BY k"
    query = engine.query(sql.format(5), name="total")
    for ts in range(1, 45):
        engine.push("s", {"ts": [ts], "k": [ts % 2], "v": [1.0], "t": ["x"], "b": [True]})
        if ts in (9, 20):
            engine.execute(f"ALTER QUERY total SET WINDOW {ts // 3} us")
        if ts == 22:
            engine.query("SELECT k FROM s [RANGE 2 us] EMIT CHANGES")
    assert len(stores_of(engine)) == 1 and not engine._runtime.is_replanned("total")
    (store,) = stores_of(engine)
    assert {name for member in store.members for name in member.queries} == {"total", "q1"}
    answer = folded(changes_of(query), 44)
    assert answer == Counter({(0, 3.0): 1, (1, 3.0): 1}), "the six rows since 39"


def test_a_total_that_goes_over_before_any_row_is_said_once() -> None:
    """Time has begun, the stream has no row yet, and another window comes: what the total was to say first is
    said by the plan that it has then."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT); CREATE STREAM u (ts TIMESTAMP, k BIGINT)")
    total = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 2 us]")
    engine.push("u", {"ts": [0], "k": [3]})
    engine.query("SELECT k FROM s [RANGE 20 us] EMIT CHANGES")
    engine.push("s", {"ts": [1, 8], "k": [0, 1]})
    assert rows_of(total.results()) == [(1, 1, 1), (3, -1, 1), (3, 1, 0), (8, -1, 0), (8, 1, 1)]


@pytest.mark.parametrize("sharing", ["auto", "unshared"])
def test_what_enters_at_the_instant_of_the_start(sharing: str) -> None:
    """Where nothing was there when a query began, all that comes is news, also of that very instant."""
    engine = penstock.Engine(sharing=sharing)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
    first = engine.query("SELECT k, COUNT(*) AS n FROM s [RANGE 9 us] GROUP BY k EMIT INSERTS")
    engine.advance(8)
    second = engine.query("SELECT DISTINCT k FROM s [RANGE 4 us] EMIT INSERTS")
    engine.push("s", {"ts": [8, 8, 11], "k": [2, 1, 1]})
    engine.close()
    assert (first.complete_from, second.complete_from) == (None, None)
    assert sorted(rows_of(first.results())) == [(8, 1, 1), (8, 2, 1), (11, 1, 2)]
    assert sorted(rows_of(second.results())) == [(8, 1), (8, 2)]


def test_what_enters_a_total_is_known_an_instant_after_the_total() -> None:
    """At 8 the last row that the late query missed leaves: the count is right from then on, but that it
    becomes 0 at 8 is news only to those who knew it before."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
    engine.push("s", {"ts": [1, 3], "k": [1, 1]})
    late = [
        engine.query(f"SELECT COUNT(*) AS n FROM s [RANGE 5 us] WHERE k > 0 EMIT {emit}")
        for emit in ("CHANGES", "INSERTS")
    ]
    assert [one.complete_from - EPOCH for one in late] == [
        pa.scalar(n, pa.duration("us")).as_py() for n in (8, 9)
    ]


def test_stats_have_a_store_whose_readers_have_one_window() -> None:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
    for number, column in enumerate(("k", "k + 1")):
        engine.query(f"SELECT {column} AS x FROM s [ROWS 1000] EMIT CHANGES", name=f"q{number}")
    engine.push("s", {"ts": list(range(50)), "k": list(range(50))})
    engine.advance(60)
    stores = [group for group in engine.stats()["groups"] if group["strategy"] == "windows"]
    assert [(one["queries"], one["operators"][0]["state_rows"]) for one in stores] == [(["q0", "q1"], 50)]
