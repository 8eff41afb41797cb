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

import penstock
from penstock.engine import functions
from penstock.engine.kernels.changes import displace_rows, find_few, take_changes
from penstock.engine.operators import tell_ranges, window_lanes, window_store
from penstock.engine.operators.window_store import WindowStore
from penstock.engine.scheduler import RoundRobin, Shuffled
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
        module = next(one for one in (window_lanes, tell_ranges, window_store) if hasattr(one, name))
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
        for store in engine._runtime.windows:
            needed = {ref for member in store.members for ref in store.refs_of(member).tolist()}
            assert store.state_rows == len(needed), "rows that nobody needs"


def check_state(engine: penstock.Engine) -> None:
    """What is kept is what some window still holds, and rows of an instant that is not over."""
    for store in engine._runtime.windows:
        assert isinstance(store, WindowStore)
        sizes = {member.node.size for member in store.members if not member.by_rows[0]}
        if len(sizes) > window_store.MOST_SHELVES or store._side.births_matter:
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
            except penstock.DataError:
                failed = True
            for one in list(alive):
                try:
                    one.solo.push("s", piece)
                except penstock.DataError:
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


def test_a_hundred_windows_keep_the_rows_of_one() -> None:
    """Whatever their sizes, filters, columns and aggregates: rows once, and of aggregates only groups."""
    rng = np.random.default_rng(7)
    count = 20_000
    rows = {
        "ts": np.arange(count) * 10, "k": rng.integers(0, 8, count), "v": rng.random(count),
        "t": np.array(["text"] * count), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    engine, alone = make(), make()
    longest = "SELECT ts, k, v, t, b FROM s [RANGE 100 MILLISECONDS] EMIT CHANGES"
    alone.query(longest)
    engine.query(longest)
    for i in range(1, 100):
        where = f"v > {i / 200}" if i % 2 else f"k <= {i % 8}"
        what = ["k, v", "t", "k, COUNT(*) AS n, SUM(v) AS x", "k, MAX(v) AS hi", "DISTINCT b"][i % 5]
        group = " GROUP BY k" if "k, COUNT" in what or "MAX" in what else ""
        tail = "" if group or "DISTINCT" in what else " EMIT CHANGES"
        engine.query(f"SELECT {what} FROM s [RANGE {i} MILLISECONDS] WHERE {where}{group}{tail}")
    for one in (engine, alone):
        one.push("s", rows)
    (store,), (single,) = engine._runtime.windows, alone._runtime.windows
    assert store.state_rows == single.state_rows == 10_000
    operators = {
        id(one): one
        for part in (*engine._runtime.parts.values(), *engine._runtime.pipelines.values())
        for one in part.own_operators
    }
    others = [one.state_rows for one in operators.values() if type(one).__name__ != "Sink"]
    assert sum(others) <= 100 * 8, "aggregates keep rows of their own"
    assert store.state_bytes < 2 * single.state_bytes


def test_windows_of_all_kinds_keep_rows_once() -> None:
    """A row is kept if it is in some window, RANGE or ROWS or of partitions: once, with its columns."""
    rng = np.random.default_rng(7)
    count = 20_000
    keys = np.where(rng.random(count) < 0.02, rng.integers(8, 40, count), rng.integers(0, 8, count))
    rows = {
        "ts": np.arange(count) * 10, "k": keys, "v": rng.random(count),
        "t": np.array([f"text {i}" for i in range(count)]), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    what = ["k, v", "t", "ts, b", "k, t"]
    windows = [
        [f"RANGE {i} MILLISECONDS" for i in range(1, 11)],
        [f"ROWS {100 * i}" for i in range(1, 11)],
        [f"PARTITION BY k ROWS {10 * i}" for i in range(1, 11)],
    ]
    together, apart = make(), [make() for _ in windows]
    for engine, kinds in zip(apart, windows, strict=True):
        for i, window in enumerate(kinds):
            for one in (together, engine):
                one.query(f"SELECT {what[i % 4]} FROM s [{window}] EMIT CHANGES")
    for one in (together, *apart):
        for begin in range(0, count, 6_000):
            one.push("s", {name: values[begin : begin + 6_000] for name, values in rows.items()})
        one.advance(count * 10 - 5)  # the last instant is over
        one._runtime._check()
    (store,) = together._runtime.windows
    recent = set(range(count - 1_000, count))  # in RANGE 10 MILLISECONDS, and ROWS 1000
    last = {i for key in set(keys.tolist()) for i in np.flatnonzero(keys == key)[-100:].tolist()}
    assert len(last - recent) > 100 and len(recent - last) > 100
    (group,) = (one for one in together.stats()["groups"] if one["strategy"] == "windows")
    assert [one["state_rows"] for one in group["operators"]] == [len(recent | last)]
    assert len(group["queries"]) == 30
    alone = [next(iter(engine._runtime.windows)) for engine in apart]
    assert store.state_rows < sum(one.state_rows for one in alone) / 1.5
    assert together.explain().count("rows of s kept once, also for") == 30


def test_rows_that_only_partitions_need() -> None:
    """::

    k = 1   1                        in PARTITION BY k ROWS 1 for ever, in RANGE 3 until 4
    k = 2     2 3 4 5 ... 20         in RANGE 3, the last one in its partition, too
    """
    engine = make()
    engine.query("SELECT v, k FROM s [PARTITION BY k ROWS 1] EMIT CHANGES")
    engine.query("SELECT k FROM s [RANGE 3 us] WHERE v > 0 EMIT CHANGES")
    (store,) = engine._runtime.windows
    for ts in range(1, 21):
        engine.push("s", {"ts": [ts], "k": [1 + (ts > 1)], "v": [1.0], "t": ["x"], "b": [True]})
        engine._runtime._check()
        assert store.state_rows == (ts if ts < 4 else 4), "the row at 1, and three"
    wide = engine.query("SELECT v FROM s [RANGE 30 us] EMIT CHANGES")
    assert wide.complete_from - EPOCH == pa.scalar(48, pa.duration("us")).as_py(), "from 18 on all is there"
    assert sorted(rows_of(wide.results())) == [], "what was there is no news"
    engine.push("s", {"ts": [21], "k": [1], "v": [0.0], "t": ["x"], "b": [True]})
    assert store.state_rows == 5, "for the wide window those at 1, 18, 19, 20, 21"
    wide.drop()
    engine.advance(24)
    assert store.state_rows == 2, "the last one of each partition"


@pytest.mark.parametrize("where", ["k <= 2", "k <= 1", "k > 2", "k % 2 = 1", "k % 2 = 1 AND v < 3"])
def test_rows_that_were_apart_are_told_apart(where: str) -> None:
    """Each v comes once: all rows are in PARTITION BY v ROWS 1, most of them only there; who comes late
    asks for rows by conditions that others had, or new ones."""
    engine = make()
    engine.query("SELECT v, k FROM s [PARTITION BY v ROWS 1] EMIT CHANGES")
    for before in ("k <= 2", "k % 2 = 1"):
        engine.query(f"SELECT k FROM s [RANGE 3 us] WHERE {before} EMIT CHANGES")
    sql = f"SELECT k, v FROM s [RANGE 18 us] WHERE {where} EMIT CHANGES"
    alone = solo(sql, pa.table({}), None)

    def push(first: int, last: int) -> None:
        for ts in range(first, last):
            for one in (engine, alone):
                one.push("s", {"ts": [ts], "k": [ts % 5], "v": [ts / 4], "t": ["x"], "b": [True]})

    push(1, 21)
    (store,) = engine._runtime.windows
    assert len(store._kept.apart) == 18
    late = engine.query(sql)
    held = folded(changes_of(alone.queries["alone"]), 20)
    push(21, 60)
    assert late.complete_from - EPOCH == pa.scalar(20, pa.duration("us")).as_py()
    found = changes_of(late)
    assert held and folded(found, 20) == held
    assert {key: n for key, n in found.items() if key[0] > 20} == changes_of(alone.queries["alone"])


def test_rows_go_as_soon_as_no_window_needs_them() -> None:
    """::

    k = 1      |==========|          in RANGE 10
    k = 2      |===|                 in RANGE 3 alone
    others                           never kept
    """
    engine = make()
    engine.query("SELECT v FROM s [RANGE 10 us] WHERE k = 1 EMIT CHANGES")
    engine.query("SELECT COUNT(*) AS n FROM s [RANGE 3 us] WHERE k <= 2")
    (store,) = engine._runtime.windows

    def push(ts: int, *keys: int) -> int:
        columns = {"v": [0.0] * len(keys), "t": ["x"] * len(keys), "b": [True] * len(keys)}
        engine.push("s", {"ts": [ts] * len(keys), "k": list(keys), **columns})
        return store.state_rows

    assert push(1, 1, 2, 3) == 2
    assert push(3, 2, 7) == 3
    assert push(4, 9) == 2, "k = 2 at 1 has left"
    assert push(6, 9) == 1
    engine.advance(11)
    assert store.state_rows == 0


def test_who_comes_late_is_given_what_others_have_kept() -> None:
    engine = make()
    engine.query("SELECT k, v FROM s [RANGE 10 us] WHERE k > 0 EMIT CHANGES")
    for ts in range(1, 21):
        engine.push("s", {"ts": [ts], "k": [ts % 3], "v": [ts / 4], "t": ["x"], "b": [True]})

    def since(sql: str) -> int | None:
        found = engine.query(sql).complete_from
        return None if found is None else round((found - EPOCH).total_seconds() * 1e6)

    assert since("SELECT k, MAX(v) AS hi FROM s [RANGE 4 us] WHERE k > 1 GROUP BY k") == 20
    assert since("SELECT v FROM s [RANGE 12 us] WHERE k = 2 EMIT CHANGES") == 22, "those of 9 and 10 are gone"
    assert since("SELECT v FROM s [RANGE 5 us] EMIT CHANGES") == 24, "k = 0 was never kept, last before 19"
    assert since("SELECT t FROM s [RANGE 5 us] WHERE k > 1 EMIT CHANGES") == 25, "nobody had kept t"


def test_who_comes_late_finds_what_windows_of_other_kinds_have_kept() -> None:
    """Of twenty rows, one a microsecond, k = 0, 1, 2, 0, ...: the last nine are there in each case."""

    def since(kept: str, asked: str, columns: str = "k, v") -> int | None:
        engine = make()
        engine.query(f"SELECT k, v FROM s [{kept}] EMIT CHANGES")
        for ts in range(1, 21):
            engine.push("s", {"ts": [ts], "k": [ts % 3], "v": [ts / 4], "t": ["x"], "b": [True]})
        late = engine.query(f"SELECT {columns} FROM s [{asked}] EMIT CHANGES")
        engine.advance(21)
        found = late.complete_from
        return None if found == NEVER else round((found - EPOCH).total_seconds() * 1e6)

    for kept in ("RANGE 9 us", "ROWS 9", "PARTITION BY k ROWS 3"):
        assert since(kept, "RANGE 8 us") == 20
        assert since(kept, "ROWS 8") == 20
        assert since(kept, "RANGE 15 us") == 26, "those at 10 and before are gone"
        assert since(kept, "ROWS 15") is None
        assert since(kept, "RANGE 8 us", "t") == 28, "nobody had kept t"
        assert since(kept, "PARTITION BY b ROWS 2", "k, b") is None
    assert since("PARTITION BY k ROWS 3", "PARTITION BY k ROWS 2") == 20
    assert since("RANGE 9 us", "PARTITION BY k ROWS 2") is None, "a key may not have come since"
    for kept in ("RANGE 90 us", "ROWS 90", "PARTITION BY v ROWS 1"):
        for asked_ in ("RANGE 40 us", "ROWS 40", "PARTITION BY k ROWS 40"):
            assert since(kept, asked_) == 20, "all rows are there"


def test_who_comes_late_is_without_rows_on_which_it_fails() -> None:
    """Whoever had asked from the start would have ended at 2, and nobody has the answer."""
    engine = make()
    engine.query("SELECT k, v FROM s [RANGE 20 us] EMIT CHANGES")
    for ts in range(1, 5):
        engine.push("s", {"ts": [ts], "k": [ts % 2], "v": [ts / 4], "t": ["x"], "b": [True]})
    late = engine.query("SELECT v FROM s [RANGE 10 us] WHERE 6 % k = 0 EMIT CHANGES")
    assert late.complete_from - EPOCH == pa.scalar(14, pa.duration("us")).as_py()
    assert engine.query("SELECT v FROM s [RANGE 10 us] EMIT CHANGES").complete_from.microsecond == 4


@pytest.mark.parametrize("window", ["ROWS 2", "PARTITION BY k ROWS 2", "PARTITION BY b ROWS 2"])
def test_who_begins_in_an_instant_lacks_what_nobody_kept_of_it(window: str) -> None:
    """Of three rows at 5, the first came before it, and only those with k = 0 were kept."""
    engine = make()
    engine.query("SELECT k FROM s [RANGE 50 us] WHERE k = 0 EMIT CHANGES")

    def push(*keys: int) -> None:
        count = len(keys)
        columns = {"v": [0.0] * count, "t": ["x"] * count, "b": [True] * count}
        engine.push("s", {"ts": [5] * count, "k": list(keys), **columns})

    push(0, 7)
    late = engine.query(f"SELECT k, b FROM s [{window}] EMIT CHANGES")
    push(8, 9)
    engine.advance(6)
    engine._runtime._check()
    assert sorted(rows_of(late.results())) == [(5, 1, 8, True), (5, 1, 9, True)]


def test_late_rows_windows_lack_what_was_not_kept() -> None:
    """A ROWS window that comes later has the last rows if it asks for nothing new, else it waits."""
    engine = make()
    engine.query("SELECT k, v FROM s [ROWS 4] EMIT CHANGES")
    for ts in range(1, 9):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [ts / 4], "t": [f"t{ts}"], "b": [True]})
    fewer = engine.query("SELECT MAX(k) AS k FROM s [ROWS 3]")
    more = engine.query("SELECT k FROM s [ROWS 6] EMIT CHANGES")
    texts = engine.query("SELECT t FROM s [ROWS 2] EMIT CHANGES")
    for ts in range(9, 13):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [ts / 4], "t": [f"t{ts}"], "b": [True]})
    engine.advance(13)
    since = [one.complete_from for one in (fewer, more, texts)]
    assert [one.microsecond for one in since] == [8, 9, 10]
    given = Counter(row[2] for row in rows_of(texts.results()))
    assert set(given) == {"t9", "t10", "t11", "t12"}, "no text that was not kept"
    assert rows_of(fewer.results())[-1][1:] == (1, 12)
    held: Counter[Any] = Counter()
    for _, diff, k in rows_of(more.results()):
        held[k] += diff
    assert sorted(+held) == [7, 8, 9, 10, 11, 12]


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
    assert not list(engine._runtime.windows), "who reads the same aggregate is no other"
    engine.query(f"SELECT k FROM s [{window}] WHERE k > 0 EMIT CHANGES", name="other")
    (store,) = engine._runtime.windows
    push(8, 12)
    assert engine._runtime.is_replanned("total"), "of the rows before 8 some are still in its window"
    push(12, 14)
    assert not engine._runtime.is_replanned("total") and not engine._runtime.is_replanned("same")
    assert {name for member in store.members for name in member.readers} == {"total", "same", "other"}
    groups = [op for part in engine._runtime.parts for op in part.own_operators]
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
    (store,) = engine._runtime.windows
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
        mock.patch.object(tell_ranges, "LEAST_CHANGES", 2),
        mock.patch.object(tell_ranges, "MOST_CHANGES", 2),
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
    (store,) = engine._runtime.windows
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


def test_a_query_started_by_a_subscriber_begins_with_nothing() -> None:
    """Some of what has come is on its way: it keeps rows of its own, and they are all it gives."""
    engine = make()
    first = engine.query("SELECT k FROM s [RANGE 5 us] EMIT CHANGES", name="first")
    started: list[penstock.Query] = []

    def start(rows: pa.RecordBatch) -> None:
        if not started:
            started.append(engine.query("SELECT k FROM s [RANGE 3 us] EMIT CHANGES"))

    first.subscribe(start)
    for ts in range(1, 8):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [0.0], "t": ["x"], "b": [True]})
    assert len(list(engine._runtime.windows)) == 2
    assert rows_of(started[0].results())[:4] == [(2, 1, 2), (3, 1, 3), (4, 1, 4), (5, -1, 2)]
    started[0].drop()
    first.drop()
    assert not list(engine._runtime.windows) and not engine._runtime._owners


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


@pytest.mark.twin("changes.take_changes")
@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_take_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, dimensions, words = int(rng.integers(0, 30)), int(rng.integers(0, 3)), int(rng.integers(0, 3))
    order = rng.permutation(count).astype(np.int32)
    times, refs = rng.integers(0, 99, count), rng.integers(0, 99, count)
    entering = int(rng.integers(0, count + 1))
    leaves = rng.integers(0, 4, (dimensions, count)).astype(np.int32)
    bits = rng.integers(0, 4, (words, count))
    low = rng.integers(0, 2, dimensions).astype(np.int32)
    high = low + rng.integers(0, 3, dimensions).astype(np.int32)
    asked_bits = rng.integers(0, 4, words)
    out = [np.empty(count + 1, kind) for kind in (np.int64, np.int8, np.int64)]
    found = take_changes(order, times, refs, entering, leaves, bits, low, high, asked_bits, *out)
    expected = [
        (times[i], 1 if i >= entering else -1, refs[i])
        for i in order
        if all(low[d] <= leaves[d, i] <= high[d] for d in range(dimensions))
        and all(bits[w, i] & asked_bits[w] == asked_bits[w] for w in range(words))
    ]
    assert list(zip(*(one[:found].tolist() for one in out), strict=True)) == expected


@pytest.mark.twin("changes.displace_rows")
@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=20),
    st.integers(1, 8), st.integers(0, 9), st.integers(0, 5),
)  # fmt: skip
def test_displace_rows(gaps: list[int], size: int, before: int, first: int) -> None:
    """Window by window, of the instants from row `before` on; a late window has no rows below `first`."""
    ts = np.cumsum(gaps)
    before = int(np.searchsorted(ts, ts[min(before, len(ts) - 1)]))  # instants are whole
    first = min(first, before)
    base = -3
    out = [np.empty(2 * len(ts), kind) for kind in (np.int64, np.int8, np.int64)]
    places = np.concatenate([np.full(-base, -9), ts])
    count = displace_rows(places, base, before, len(ts), size, first, *out)
    found = list(zip(*(one[:count].tolist() for one in out), strict=True))
    held = set(range(max(first, before - size), before))
    expected = []
    for now in sorted(set(ts[before:].tolist())):
        end = int(np.searchsorted(ts, now, side="right"))
        there = set(range(max(first, end - size), end))
        expected += [(now, -1, row) for row in sorted(held - there)]
        expected += [(now, 1, row) for row in sorted(there - held)]
        held = there
    assert found == expected


@pytest.mark.twin("changes.find_few")
@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_find_few(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, members = int(rng.integers(0, 25)), int(rng.integers(1, 6))
    dimensions, words = int(rng.integers(0, 2)), int(rng.integers(0, 2))
    ts = np.sort(rng.integers(0, 30, count))
    come = int(rng.integers(0, count + 1))
    until = int(ts[-1]) if count else 30
    told = int(rng.integers(-5, until + 1))
    sizes = rng.integers(1, 12, members)
    leaves = rng.integers(0, 4, (dimensions, count)).astype(np.int32)
    bits = rng.integers(0, 4, (words, count))
    low = rng.integers(0, 2, (members, dimensions)).astype(np.int32)
    high = low + rng.integers(0, 3, (members, dimensions)).astype(np.int32)
    asked_bits = rng.integers(0, 4, (members, words))
    expected = []
    for m in range(members):
        gone = [(m, ts[i] + sizes[m], -1, 7 + i) for i in range(count) if told < ts[i] + sizes[m] <= until]
        for entry in [*gone, *((m, ts[i], 1, 7 + i) for i in range(come, count))]:
            i = entry[3] - 7
            if all(low[m, d] <= leaves[d, i] <= high[m, d] for d in range(dimensions)) and all(
                bits[w, i] & asked_bits[m, w] == asked_bits[m, w] for w in range(words)
            ):
                expected.append(entry)
    room = int(rng.integers(0, 2 * len(expected) + 2))
    out = [np.empty(3 + room, kind) for kind in (np.int64, np.int64, np.int8, np.int64)]
    found = find_few(ts, come, told, until, 7, sizes, low, high, asked_bits, leaves, bits, 3, *out)
    if room < len(expected):
        assert found == -1
    else:
        assert list(zip(*(one[3:found].tolist() for one in out), strict=True)) == expected


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
    assert len(list(engine._runtime.windows)) == 1 and not engine._runtime.is_replanned("total")
    (store,) = engine._runtime.windows
    assert {name for member in store.members for name in member.readers} == {"total", "q1"}
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
