"""Windows of hopping queries whose rows are kept once, with those of sliding ones: each query answers what it
would answer alone.

Queries are drawn, added, altered and dropped at drawn moments between drawn pushes, in drawn modes, under
drawn schedules; each is held against an engine of its own, in which it was from the start and nothing is
shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import plain, rows_of
from test_reassign_modes import in_drawn_modes
from test_shared_select import CONDITIONS, FAILING
from test_window_store import bad_instant, changes_of, cramped, folded, make, scheduler, stream
from work_of import stores_of, sub_plans_of

import penstock
from penstock import adapt
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.rows.hops import Hops
from penstock.engine.windows import hop_steps
from penstock.optimizer.hopping.reassign_modes import Watch
from penstock.query import EPOCH, NEVER

TEMPLATES = [
    "SELECT k, v FROM s [{w}]{where} {hop} EMIT DELTA",
    "SELECT k + 1 AS n, t FROM s [{w}]{where} {hop}",
    "SELECT DISTINCT k, b FROM s [{w}]{where} {hop} EMIT DELTA",
    "SELECT DISTINCT k + 1 AS n FROM s [{w}]{where} {hop}",
    "SELECT k, COUNT(DISTINCT v) AS n, MAX(v) AS hi FROM s [{w}]{where} GROUP BY k {hop} EMIT DELTA",
    "SELECT COUNT(DISTINCT t) AS n, MIN(k) AS lo FROM s [{w}]{where} {hop}",
    "SELECT k FROM s [{w}]{where} EXCEPT ALL SELECT k FROM s [{u}] WHERE v > 0.5 {hop}",
    "SELECT k FROM s [{w}]{where} UNION ALL SELECT k FROM s [{u}] {hop} EMIT DELTA",
    "SELECT k FROM s [{w}]{where} INTERSECT SELECT k FROM s [{u}] {hop} EMIT DELTA",
    "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM s [{w}]{where} GROUP BY k) GROUP BY n {hop}",
]  # fmt: skip
SLIDING = [
    "SELECT k, v FROM s [{w}]{where} EMIT CHANGES",
    "SELECT k, COUNT(*) AS n, MAX(v) AS hi FROM s [{w}]{where} GROUP BY k",
    "SELECT DISTINCT t FROM s [{w}]{where}",
]
MODES = ["auto", "auto", "DIDO", "DICO", "CICO", "CIDO"]
EVERY_INSTANT = Hops(1)
PARTITIONS = [f"PARTITION BY {by} ROWS {size}" for by in ("k", "t", "k, b") for size in (1, 2, 4)]
ROWS = [*(f"ROWS {size}" for size in (1, 2, 3, 5, 9)), "RANGE 5 us"]
RANGES = [*(f"RANGE {size} us" for size in (1, 2, 3, 5, 5, 9, 20)), "RANGE UNBOUNDED"]


@dataclass(frozen=True)
class Ask:
    """A text, with a place for its windows, and how it is to be run."""

    template: str
    windows: tuple[str, str]
    modes: str | None = None
    hops: Hops = EVERY_INSTANT

    @property
    def sql(self) -> str:
        return self.template.format(w=self.windows[0], u=self.windows[1])

    def start(self, engine: penstock.Engine, **more: Any) -> penstock.Query:
        options = {} if self.modes is None else {"modes": self.modes}
        return engine.query(self.sql, **options, **more)


@st.composite
def asked(
    draw: st.DrawFn,
    conditions: list[str] = CONDITIONS,
    windows: list[str] = RANGES,
    templates: tuple[list[str], list[str]] = (TEMPLATES, SLIDING),
) -> Ask:
    """templates: of hopping queries and of sliding ones."""
    hopping, sliding = templates
    where = draw(st.one_of(st.just(""), st.sampled_from(conditions).map(" WHERE {}".format)))
    both = draw(st.sampled_from(windows)), draw(st.sampled_from(windows))
    if draw(st.integers(0, 2 if windows is PARTITIONS else 4)) == 0:
        return Ask(draw(st.sampled_from(sliding)).replace("{where}", where), both)
    hops = Hops(draw(st.sampled_from([1, 2, 3, 5, 7])), draw(st.sampled_from([0, 0, 2])))
    hop = f"HOP BY {hops.size} us ORIGIN TIMESTAMP '1970-01-01 00:00:00.00000{hops.origin}'"
    template = draw(st.sampled_from(hopping)).replace("{where}", where).replace("{hop}", hop)
    return Ask(template, both, draw(st.sampled_from(MODES)), hops)


History = list[Callable[[penstock.Engine], Any]]
"""What engines have been told: rows, and how far time has come."""


def answers_of(query: penstock.Query) -> Counter[Any]:
    """What has come: of whole answers their rows by hop, of others the net changes by instant."""
    if query.schema.names[1] == "_diff":
        return changes_of(query)
    rows = rows_of(query.results())
    assert [row[0] for row in rows] == sorted(row[0] for row in rows), "answers out of time order"
    return Counter((ts, plain(tuple(row))) for ts, *row in rows)


@dataclass
class Running:
    """A query among others, and alone from the start."""

    ask: Ask
    query: penstock.Query
    solo: penstock.Engine
    from_start: bool
    started: int = BEGINNING
    seen: list[Counter[Any]] = field(default_factory=lambda: [Counter(), Counter()])

    def check(self) -> None:
        """Whoever was there from the start has given the same by now; of all, the answers are kept."""
        new = answers_of(self.query), answers_of(self.solo.queries["alone"])
        assert not self.from_start or new[0] == new[1], self.ask
        assert all(ts >= self.started for ts, _ in new[0]), "an answer from before it was asked"
        for one, more in zip(self.seen, new, strict=True):
            one.update(more)

    def check_answers(self, end: int) -> None:
        """From `complete_from` on the answers are those of the query that was there from the start."""
        since = self.query.complete_from
        if since == NEVER:
            return
        begin = 0 if since is None else round((since - EPOCH).total_seconds() * 1e6)
        is_changes = self.query.schema.names[1] == "_diff"
        for instant in range(self.ask.hops.first(begin), end, self.ask.hops.size):
            if is_changes:
                answers = [folded(one, instant) for one in self.seen]
            else:
                answers = [Counter({k: n for k, n in one.items() if k[0] == instant}) for one in self.seen]
            assert answers[0] == answers[1], f"{self.ask} at {instant}, exact from {begin}"

    def alter(self, size: str, history: History) -> None:
        """From now on with another window, and held against a query that always had that."""
        engine = self.query._engine
        engine.execute(f"ALTER QUERY {self.query.name} SET WINDOW {size}")
        window = f"RANGE {size}" if "us" in size else f"ROWS {size.split()[0]}"
        self.ask = replace(self.ask, windows=(window, window))
        self.solo, self.from_start = solo(self.ask, history), False
        self.seen[1].clear()


def solo(ask: Ask, history: History) -> penstock.Engine:
    """An engine for one query, which has seen what had come by now."""
    engine = make(sharing="unshared")
    ask.start(engine, name="alone")
    for step in history:
        step(engine)
    return engine


def redrawn_modes(draw: Any, stack: ExitStack) -> None:
    """Let modes change at drawn moments."""

    def look(self: Watch, plan: Any, *given: Any) -> Any:
        return in_drawn_modes(draw, plan, given[-1]) if draw(st.integers(0, 3)) == 0 else None

    stack.enter_context(mock.patch.object(adapt, "LOOK_ROWS", 0))
    stack.enter_context(mock.patch.object(adapt, "LOOK_ROWS_EACH", 0))
    stack.enter_context(mock.patch.object(Watch, "look", look))


def times_of(rows: pa.Table) -> list[int]:
    return rows["ts"].cast(pa.int64()).to_pylist()


def drive(draw: Any, asks: st.SearchStrategy[Ask], sizes: list[str], names: str = "s") -> None:
    """Drawn queries over streams of these names that come, go and change."""
    with ExitStack() as stack:
        cramped(draw, stack)
        redrawn_modes(draw, stack)
        waiting = {name: draw(stream(25 // len(names))) for name in names}
        end = max(max(times_of(rows)) for rows in waiting.values())
        come = dict.fromkeys(names, BEGINNING)
        engine = make(scheduler=scheduler(draw))
        engine._adapter.look_at_modes_after = 0
        history: History = []
        running: list[Running] = []

        def add() -> None:
            ask = draw(asks)
            if running and draw(st.integers(0, 3)) == 0:  # the same again has its windows run once
                ask = draw(st.sampled_from(running)).ask
            one = Running(ask, ask.start(engine), solo(ask, history), not history, min(come.values()))
            running.append(one)

        def do(step: Callable[[penstock.Engine], Any]) -> None:
            history.append(step)
            for one in (engine, *(asked.solo for asked in running)):
                step(one)

        for _ in range(draw(st.integers(1, 3))):
            add()
        while left := [name for name in names if waiting[name].num_rows]:
            name = draw(st.sampled_from(left))
            piece = waiting[name].slice(0, draw(st.integers(1, 8)))
            waiting[name] = waiting[name].slice(piece.num_rows)
            do(methodcaller("push", name, piece))
            come[name] = times_of(piece)[-1]
            last = max(come.values())
            next_ = [times_of(rows)[0] for rows in waiting.values() if rows.num_rows]
            following = min(next_, default=last + 30)
            if last <= following and draw(st.integers(0, 2)) == 0:
                now = draw(st.integers(last, following))
                do(methodcaller("advance", now))
                come = dict.fromkeys(names, now)
            engine._runtime._check()
            assert len(stores_of(engine)) <= len(names), "rows of one stream are kept in two places"
            for one in running:
                one.check()
            if len(running) > 1 and draw(st.integers(0, 3)) == 0:
                running.pop(draw(st.integers(0, len(running) - 1))).query.drop()
            if len(running) < 6 and draw(st.booleans()):
                add()
            one = draw(st.sampled_from(running))
            if draw(st.integers(0, 4)) == 0 and "RANGE UNBOUNDED" not in one.ask.windows:
                one.alter(draw(st.sampled_from(sizes)), history)
            if draw(st.integers(0, 5)) == 0:
                kept = [one.query.name for one in running]
                engine = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
                for one, name in zip(running, kept, strict=True):
                    one.query = engine.queries[name]
        if draw(st.booleans()):  # else whatever is left in the windows stays there
            end += 60
            do(methodcaller("advance", end))
        do(methodcaller("close"))
        for one in running:
            one.check()
            one.check_answers(end)
        engine._runtime._check()


@settings(max_examples=120)
@given(st.data())
def test_drawn_queries_that_come_go_and_change(data: st.DataObject) -> None:
    drive(data.draw, asked(), ["2 us", "4 us", "11 us"])


@settings(max_examples=80)
@given(st.data())
def test_drawn_queries_over_rows_windows(data: st.DataObject) -> None:
    with mock.patch.object(hop_steps, "MOST_ROWS", data.draw(st.sampled_from([1, 12, 1 << 18]))):
        drive(data.draw, asked(windows=ROWS), ["2 ROWS", "4 ROWS", "11 us", "7 ROWS"])


@settings(max_examples=80)
@given(st.data())
def test_drawn_queries_over_partitions(data: st.DataObject) -> None:
    with mock.patch.object(hop_steps, "MOST_ROWS", data.draw(st.sampled_from([1, 12, 1 << 18]))):
        drive(data.draw, asked(windows=PARTITIONS), ["2 ROWS", "11 us"])


@settings(max_examples=60)
@given(st.data())
def test_drawn_queries_over_windows_of_all_kinds(data: st.DataObject) -> None:
    with mock.patch.object(hop_steps, "MOST_ROWS", data.draw(st.sampled_from([1, 12, 1 << 18]))):
        drive(data.draw, asked(windows=[*RANGES, *ROWS, *PARTITIONS]), ["2 ROWS", "4 us", "7 ROWS", "11 us"])


@settings(max_examples=40)
@given(st.data())
def test_who_fails_stops_alone(data: st.DataObject) -> None:
    """Those whose condition or SELECT list fails on a row stop there, also if no boundary sees it; the others
    go on as if they had been alone."""
    lists = [
        "SELECT DISTINCT 6 // k AS n, t FROM s [{w}]{where} {hop}",
        TEMPLATES[-1].replace(" k,", " 6 % k,"),
    ]
    drive_failing(data.draw, asked(FAILING, templates=([*TEMPLATES, *2 * lists], SLIDING)), asked())


def drive_failing(draw: Any, failing: st.SearchStrategy[Ask], others: st.SearchStrategy[Ask]) -> None:
    """Rows of s, on which some queries fail, and of r."""
    with ExitStack() as stack:
        cramped(draw, stack)
        waiting = {"s": draw(stream(12)), "r": draw(stream(6))}
        rows, engine = waiting["s"], make(scheduler=scheduler(draw))
        asks = [draw(failing) for _ in range(draw(st.integers(1, 3)))] + [draw(others)]
        alive = [Running(ask, ask.start(engine), solo(ask, []), True) for ask in asks]
        while left := [name for name, rows in waiting.items() if rows.num_rows]:
            name = draw(st.sampled_from(left))
            piece = waiting[name].slice(0, draw(st.integers(1, 8)))
            waiting[name] = waiting[name].slice(piece.num_rows)
            failed = False
            try:
                engine.push(name, piece)
            except penstock.StoppedError:
                failed = True
            for one in list(alive):
                try:
                    one.solo.push(name, piece)
                except penstock.StoppedError:
                    assert failed and one.query._pipeline.error is not None, one.ask
                    alive.remove(one)
                    last = bad_instant(rows.slice(0, rows.num_rows - waiting["s"].num_rows))
                    new = answers_of(one.query) if one.query._pipeline.sink.state_rows else Counter()
                    assert all(ts <= last for ts, _ in new), "it went on beyond its failure"
                else:
                    assert one.query._pipeline.error is None, one.ask
                    one.check()
            engine._runtime._check()


def test_a_hundred_hopping_windows_keep_the_rows_of_one() -> None:
    """Whatever their sizes, hops, modes, filters and columns."""
    rng = np.random.default_rng(7)
    count = 20_000
    rows = {
        "ts": np.arange(count) * 10, "k": rng.integers(0, 8, count), "v": rng.random(count),
        "t": np.array(["text"] * count), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    engine, alone = make(), make()
    longest = "SELECT ts, k, v, t, b FROM s [RANGE 90 MILLISECONDS] HOP BY 10 MILLISECONDS EMIT DELTA"
    alone.query(longest)
    engine.query(longest)
    for i in range(1, 90):
        where = f"v > {i / 200}" if i % 2 else f"k <= {i % 8}"
        what = ["k, v", "t", "DISTINCT k, b", "COUNT(DISTINCT k) AS n", "DISTINCT t"][i % 5]
        tail = f"HOP BY {1 + i % 9} MILLISECONDS EMIT {'DELTA' if i % 3 else 'COMPLETE'}"
        sql = f"SELECT {what} FROM s [RANGE {i} MILLISECONDS] WHERE {where} {tail}"
        engine.query(sql, modes=MODES[i % 6])
    for one in (engine, alone):
        one.push("s", rows)
    (store,), (single,) = stores_of(engine), stores_of(alone)
    assert len(store.members) > 80
    assert store.state_rows == single.state_rows == 10_000, "the rows of a window and a hop"
    assert store.state_bytes < 2 * single.state_bytes
    (group,) = (one for one in engine.stats()["groups"] if one["strategy"] == "windows")
    assert [one["state_rows"] for one in group["operators"]] == [10_000] and len(group["queries"]) == 90


def test_a_hopping_query_goes_over_when_it_is_not_alone() -> None:
    """Alone a set operation has a window of its own; another window brings both to the store."""
    engine = make()
    sql = "SELECT DISTINCT k FROM s [RANGE 6 us] HOP BY 2 us EMIT DELTA"
    query = engine.query(sql, name="first", modes="CICO")

    def push(first: int, last: int, into: penstock.Engine) -> None:
        for ts in range(first, last):
            into.push("s", {"ts": [ts], "k": [ts % 5], "v": [1.0], "t": ["x"], "b": [True]})

    push(1, 8, engine)
    assert not stores_of(engine)
    engine.query("SELECT k FROM s [RANGE 9 us] WHERE k > 0 HOP BY 3 us EMIT DELTA", name="other")
    (store,) = stores_of(engine)
    push(8, 12, engine)
    assert engine._runtime.is_replanned("first"), "of the rows before 8 some are still in its window"
    push(12, 18, engine)
    assert not engine._runtime.is_replanned("first")
    assert {name for member in store.members for name in member.queries} == {"first", "other"}
    assert "rows of s kept once, also for other" in engine.explain()
    assert query.complete_from is None and {one.node.whole for one in store.members} == {True, False}
    alone = make(sharing="unshared")
    alone.query(sql, name="alone")
    push(1, 18, alone)
    assert answers_of(query) == answers_of(alone.queries["alone"])


def test_who_comes_late_is_given_what_others_have_kept() -> None:
    """Rows are kept for a hop beyond the window, so that what leaves at a boundary is there until then."""
    engine = make()
    engine.query("SELECT k, v FROM s [RANGE 10 us] WHERE k > 0 HOP BY 3 us EMIT DELTA")
    for ts in range(1, 21):
        engine.push("s", {"ts": [ts], "k": [ts % 3], "v": [ts / 4], "t": ["x"], "b": [True]})

    def since(sql: str) -> int | None:
        found = engine.query(sql).complete_from
        return None if found is None else round((found - EPOCH).total_seconds() * 1e6)

    assert since("SELECT DISTINCT k FROM s [RANGE 4 us] WHERE k > 1 HOP BY 5 us EMIT DELTA") == 20
    assert since("SELECT v FROM s [RANGE 13 us] WHERE k = 2 HOP BY 4 us EMIT DELTA") == 20
    assert since("SELECT v FROM s [RANGE 15 us] WHERE k = 2 EMIT CHANGES") == 22, "those up to 7 are gone"
    assert since("SELECT v FROM s [RANGE 5 us] HOP BY 1 us EMIT DELTA") == 24, "k = 0 was never kept"
    assert since("SELECT t FROM s [RANGE 5 us] WHERE k > 1 HOP BY 1 us EMIT DELTA") == 25, "nobody had kept t"


@pytest.mark.parametrize("options", [{"sharing": "unshared"}, {"expiry": "nta"}, {"execution": "taat"}])
def test_who_is_to_keep_its_own_rows_does(options: dict[str, Any]) -> None:
    engine = make(**options)
    for size in (5, 9):
        engine.query(f"SELECT k FROM s [RANGE {size} us] HOP BY 2 us EMIT DELTA")
    assert not stores_of(engine)


def test_long_silence_costs_no_boundaries() -> None:
    """A year of microseconds between two rows."""
    engine = make()
    modes = ("DIDO", "CICO")
    queries = [
        engine.query(f"SELECT DISTINCT k FROM s [RANGE {5 + i} us] HOP BY 1 us EMIT DELTA", modes=mode)
        for i, mode in enumerate(modes)
    ]
    for ts in (3, 365 * 86_400_000_000):
        engine.push("s", {"ts": [ts], "k": [1], "v": [1.0], "t": ["x"], "b": [True]})
    engine.advance(365 * 86_400_000_000 + 30)
    year = 365 * 86_400_000_000
    for i, query in enumerate(queries):
        assert [row[:2] for row in rows_of(query.results())] == [
            (3, 1), (8 + i, -1), (year, 1), (year + 5 + i, -1)
        ]  # fmt: skip


def test_windows_of_partitions_keep_rows_once() -> None:
    """Whatever they are partitioned by, and however many rows they hold."""
    rng = np.random.default_rng(7)
    count = 5_000
    rows = {
        "ts": np.arange(count), "k": rng.integers(0, 50, count), "v": rng.random(count),
        "t": np.array(["text"] * count), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    engine = make()
    for size in range(1, 20):
        engine.query(f"SELECT k, v FROM s [PARTITION BY k ROWS {size}] WHERE v > {size / 30} EMIT CHANGES")
        engine.query(f"SELECT DISTINCT b FROM s [PARTITION BY k ROWS {size}]")
        for emit in ("DELTA", "COMPLETE"):
            engine.query(f"SELECT t FROM s [PARTITION BY k ROWS {size}] HOP BY {size} us EMIT {emit}")
    engine.push("s", rows)
    (store,) = stores_of(engine)
    assert len(store.members) > 60
    most, waiting = 50 * 19, 19  # rows of a hop that is not over are in nobody's window
    assert most <= store.state_rows <= most + waiting
    engine.query("SELECT b FROM s [PARTITION BY b ROWS 100] EMIT CHANGES")
    engine.push("s", {**rows, "ts": rows["ts"] + count})
    assert stores_of(engine) == [store]
    kept = store.state_rows
    assert most <= kept <= most + waiting, "the last rows of each b are among the last of each k"
    (group,) = (one for one in engine.stats()["groups"] if one["strategy"] == "windows")
    assert [one["state_rows"] for one in group["operators"]] == [kept]


def test_late_windows_of_partitions() -> None:
    """Who asks for no more than is kept is exact at once; what is gone of a silent partition never comes."""
    engine = make()

    def push(first: int, last: int) -> None:
        for ts in range(first, last):
            text = f"t{ts}"
            engine.push("s", {"ts": [ts], "k": [ts % 2], "v": [ts / 4], "t": [text], "b": [True]})

    early = "SELECT k, ts, v FROM s [PARTITION BY k ROWS {}] {}"
    engine.query(early.format(3, "EMIT CHANGES"))
    push(1, 4)
    whole = engine.query(early.format(9, "EMIT CHANGES"), name="whole")
    assert whole.complete_from.microsecond == 3, "no row has been dropped yet"
    other = engine.query("SELECT b, k, ts FROM s [PARTITION BY k ROWS 8] EMIT CHANGES", name="other")
    assert other.complete_from == NEVER, "nobody has kept b"
    small = engine.query("SELECT t, k, ts FROM s [PARTITION BY k ROWS 2] EMIT CHANGES", name="small")
    whole.drop()
    push(4, 12)
    fewer = engine.query("SELECT MAX(v) AS hi FROM s [PARTITION BY k ROWS 2]")
    hops = engine.query(early.format(3, "HOP BY 2 us EMIT DELTA"))
    more = engine.query(early.format(4, "EMIT CHANGES"))
    by_both = engine.query("SELECT k, ts FROM s [PARTITION BY k, v ROWS 1] EMIT CHANGES")
    assert [one.complete_from.microsecond for one in (fewer, hops)] == [11, 11]
    assert more.complete_from == by_both.complete_from == NEVER
    push(12, 24)
    engine.advance(26)
    held: Counter[Any] = Counter()
    for _, diff, _, ts, _ in rows_of(hops.results()):
        held[ts] += diff
    assert sorted(ts.microsecond for ts in +held) == [18, 19, 20, 21, 22, 23]
    for query, first in ((other, 8), (small, 20)):
        given: Counter[Any] = Counter()
        for _, diff, _, _, ts in rows_of(query.results()):
            given[ts] += diff
            assert given[ts] >= 0, "it lost a row that it never had"
        assert sorted(ts.microsecond for ts in +given) == [*range(first, 24)]
    assert "rows of s kept once, also for" in engine.explain()


def test_a_late_rows_window_has_nothing_to_lose() -> None:
    """Rows are dropped between its start and its first boundary; it never had them."""
    engine = make()
    engine.query("SELECT k FROM s [ROWS 5] EMIT CHANGES")

    def push(ts: int) -> None:
        engine.push("s", {"ts": [ts], "k": [ts], "v": [1.0], "t": ["x"], "b": [True]})

    for ts in range(1, 10):
        push(ts)
    late = engine.query("SELECT DISTINCT k FROM s [ROWS 2] HOP BY 20 us EMIT DELTA", modes="DIDO")
    for ts in range(10, 24):
        push(ts)
    engine._runtime._check()
    assert [row[1:] for row in rows_of(late.results())] == [(1, 19), (1, 20)]


@pytest.mark.parametrize("partition", ["", "PARTITION BY b "])
def test_hopping_windows_of_the_last_rows_keep_them_once(partition: str) -> None:
    """In every mode, also where boundaries are left out at which nothing can have changed."""
    engine = make()
    tails = [f"HOP BY {hop} us EMIT {emit}" for hop in (3, 5) for emit in ("DELTA", "COMPLETE")]
    queries = [
        engine.query(f"SELECT DISTINCT k FROM s [{partition}ROWS {size}] WHERE k > 0 {tail}", modes=mode)
        for size in (2, 50, 100)
        for tail in tails
        for mode in ("DIDO", "CICO")
    ]
    (store,) = stores_of(engine)
    assert {(one.node.whole, one.node.changed) for one in store.members} == {
        (False, False), (True, False), (True, True)
    }  # fmt: skip
    for ts in range(1, 500):
        engine.push("s", {"ts": [ts], "k": [ts % 70], "v": [1.0], "t": ["x"], "b": [True]})
    assert 100 <= store.state_rows <= 105, "and those of a hop that is not over"
    operators = {id(one): one for part in sub_plans_of(engine) for one in part.own_operators}
    assert not any(type(one).__name__ in ("WholeWindow", "RowsWindow") for one in operators.values())
    assert len({answer_at(query, 495) for query in queries[:8]}) == 1


def answer_at(query: penstock.Query, instant: int) -> frozenset[Any]:
    """What it has said of a boundary."""
    found = answers_of(query)
    if query.schema.names[1] == "_diff":
        return frozenset(folded(found, instant))
    return frozenset(row for ts, row in found if ts == instant)


def test_old_rows_of_others_are_in_no_window_of_the_last_rows() -> None:
    """Rows between those with k = 0, which a RANGE window keeps, and the last ones are gone."""
    sqls = [f"SELECT DISTINCT k FROM s [ROWS 1] HOP BY 10 us EMIT {emit}" for emit in ("DELTA", "COMPLETE")]
    engine, alone = make(), make(sharing="unshared")
    engine.query("SELECT k FROM s [RANGE 1 SECOND] WHERE k = 0 EMIT CHANGES")
    queries = [[one.query(sql, modes="CICO") for one in (engine, alone)] for sql in sqls]
    for ts in (1, 2, 3, 4, 12, 13, 14, 15, 35, 36, 61):
        for one in (engine, alone):
            one.push("s", {"ts": [ts], "k": [ts % 12 - 1], "v": [1.0], "t": ["x"], "b": [True]})
        engine._runtime._check()
    for one in (engine, alone):
        one.close()
    (store,) = stores_of(engine)
    assert len(store.members) == 3
    for shared, single in queries:
        assert answers_of(shared) == answers_of(single)


@pytest.mark.parametrize("partition", ["", "PARTITION BY b "])
def test_silence_costs_no_boundaries_over_the_last_rows(partition: str) -> None:
    """A year of microseconds between two rows, in a query that says what changes."""
    engine = make()
    sql = f"SELECT DISTINCT k FROM s [{partition}ROWS {{}}] HOP BY 1 us EMIT DELTA"
    queries = [engine.query(sql.format(size), modes="CICO") for size in (1, 2)]
    year = 365 * 86_400_000_000
    for ts in (3, year):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [1.0], "t": ["x"], "b": [True]})
    engine.advance(2 * year)
    assert len(stores_of(engine)) == 1
    found = [rows_of(query.results()) for query in queries]
    assert sorted(found[0]) == [(3, 1, 3), (year, -1, 3), (year, 1, year)]
    assert found[1] == [(3, 1, 3), (year, 1, year)]


def test_partitions_of_a_hop_that_ends_without_rows() -> None:
    """Rows are dropped while others wait for their boundary, which time alone brings about."""
    engine = make()
    engine.query("SELECT k, ts FROM s [PARTITION BY k ROWS 1] EMIT CHANGES")
    query = engine.query("SELECT ts FROM s [PARTITION BY k ROWS 2] HOP BY 10 us EMIT DELTA", modes="DIDO")
    whole = engine.query("SELECT ts FROM s [PARTITION BY k ROWS 3] HOP BY 10 us")
    for ts in (1, 11):
        count = np.arange(8)
        rows = {"ts": count + ts, "k": count % 3, "v": count / 2, "t": ["x"] * 8, "b": [True] * 8}
        engine.push("s", rows)
    engine.advance(21)
    held = [ts.microsecond for _, diff, ts in rows_of(query.results()) if diff > 0]
    assert sorted(held) == [3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 18]
    last = [ts.microsecond for at, ts in rows_of(whole.results()) if at == 20]
    assert sorted(last) == [6, 11, 12, 13, 14, 15, 16, 17, 18]
