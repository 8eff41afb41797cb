"""IDLE AFTER: silent streams hold nobody, against a definition, explicit advances and DuckDB.

a                    1   2   3   4   5   6   7   8        has come to 8
s IDLE AFTER 5       1   2                      |
                             .  .  .  .  promise 3        from now on a row of s below 3 is late
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import SCHEMA, Oracle, Reference, rows_of

import penstock
from penstock.engine.flow.scheduler import Shuffled

NAMES = "abc"
LONG_AGO = -(10**9)
OWN = {f"only_{name}": ({name}, f"SELECT id FROM {name} LATE DROP") for name in NAMES}
TOGETHER = {
    "pairs": (
        {"a", "b"},
        "SELECT a.id AS x, b.id AS y FROM a [RANGE 6 us] JOIN b [RANGE 9 us] ON a.k = b.k LATE DROP",
    ),
    "counts": (
        {"a", "c"},
        "SELECT a.k, COUNT(*) AS n FROM a [RANGE 6 us] LEFT JOIN c [RANGE 4 us] ON a.k = c.k "
        "GROUP BY a.k LATE DROP",
    ),
    "all": ({"b", "c"}, "SELECT id FROM b UNION ALL SELECT id FROM c LATE DROP"),
    "self": ({"c"}, "SELECT x.id FROM c [RANGE 4 us] AS x JOIN c [ROWS 2] AS y ON x.k = y.k LATE DROP"),
}


def declare(slacks: dict[str, int], idle: dict[str, int]) -> str:
    return ";".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, "
        f"WATERMARK FOR ts AS ts - INTERVAL '{slacks[name]}' us"
        + (f", IDLE AFTER {idle[name]} us)" if name in idle else ")")
        for name in NAMES
    )


class Naive:
    """How far each stream has come, and which of its rows were taken."""

    def __init__(self, slacks: dict[str, int], idle: dict[str, int]) -> None:
        self.slacks, self.idle = slacks, idle
        self.latest = dict.fromkeys(NAMES, LONG_AGO)
        self.come = dict.fromkeys(NAMES, LONG_AGO)
        self.late: Counter[str] = Counter()
        self.taken: dict[str, list[tuple[int, int, int]]] = {name: [] for name in NAMES}

    def push(self, name: str, rows: Iterable[tuple[int, int, int]]) -> None:
        for row in rows:
            if row[0] < self.come[name]:
                self.late[name] += 1
                continue
            self.taken[name].append(row)
            self.latest[name] = max(self.latest[name], row[0])
            self.come[name] = max(self.come[name], self.latest[name] - self.slacks[name])

    def let_idle(self, queries: Iterable[set[str]]) -> dict[str, int]:
        """Raise the silent ones until nothing changes; the streams that were raised."""
        together = list(queries)
        before = dict(self.come)
        for _ in NAMES:  # as far as one can raise the next
            for silent, wait in self.idle.items():
                beside = {name for query in together if silent in query for name in query - {silent}}
                furthest = max((self.come[name] for name in beside), default=LONG_AGO)
                if furthest - wait >= self.latest[silent]:
                    self.come[silent] = max(self.come[silent], furthest - wait)
        return {name: ts for name, ts in self.come.items() if ts > before[name]}


def watermarks(engine: penstock.Engine) -> dict[str, int]:
    shown = {name: one["watermark"] for name, one in engine.stats()["streams"].items()}
    return {name: LONG_AGO if ts is None else ts for name, ts in shown.items()}


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    ts, ids, keys = columns
    return pa.table([ts, ids, keys, [0.0] * len(ts), ["x"] * len(ts)], schema=SCHEMA)


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, Any, Any]]:
    """Pushes to streams that follow a common time and fall silent, advances, queries that come and go."""
    now = 0
    steps: list[tuple[str, Any, Any]] = []
    talking = list(NAMES)
    for _ in range(draw(st.integers(1, 14))):
        now += draw(st.integers(0, 6))
        match draw(st.integers(0, 9)):
            case 0:
                steps.append(
                    ("advance", draw(st.sampled_from([None, *NAMES])), now + draw(st.integers(-9, 2)))
                )
            case 1:
                steps.append(("toggle", draw(st.sampled_from(sorted(TOGETHER))), None))
            case 2:
                talking = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
            case _:
                near = st.tuples(st.integers(now - 8, now + 3), st.integers(0, 1))
                steps.append(
                    ("push", draw(st.sampled_from(talking)), draw(st.lists(near, min_size=1, max_size=4)))
                )
    return steps


@given(
    runs(),
    st.fixed_dictionaries({name: st.sampled_from([0, 0, 3, 12]) for name in NAMES}),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 5, 9]), min_size=1),
    st.sets(st.sampled_from(sorted(TOGETHER))),
    st.integers(0, 99),
)
def test_as_if_time_was_advanced_there(
    steps: list[tuple[str, Any, Any]],
    slacks: dict[str, int],
    idle: dict[str, int],
    first: set[str],
    seed: int,
) -> None:
    """After every push, everything is as in an engine without IDLE AFTER in which the test advances time."""
    naive = Naive(slacks, idle)
    engine = penstock.Engine(scheduler=Shuffled(seed))
    told = penstock.Engine()
    engine.execute(declare(slacks, idle))
    told.execute(declare(slacks, {}))
    working = {**OWN, **{name: TOGETHER[name] for name in sorted(first)}}
    for one in (engine, told):
        for name, (_, sql) in working.items():
            one.query(sql, name)
    whole = {name: Counter[Any]() for name in first}
    id_ = 0
    for kind, name, value in steps:
        if kind == "toggle":
            for one in (engine, told):
                one.queries[name].drop() if name in working else one.query(TOGETHER[name][1], name)
            whole.pop(name, None)
            if name in working:
                del working[name]
            else:
                working[name] = TOGETHER[name]
            continue
        if kind == "push":
            rows = [(ts, id_ + at, key) for at, (ts, key) in enumerate(value)]
            id_ += len(rows)
            naive.push(name, rows)
            for one in (engine, told):
                one.push(name, table(rows))
        else:
            for one in (engine, told):
                one.advance(value, name)
            for each in NAMES if name is None else name:
                naive.come[each] = max(naive.come[each], value)
        for raised, ts in naive.let_idle(streams for streams, _ in working.values()).items():
            told.advance(ts, raised)
        engine._runtime._check()
        assert watermarks(engine) == naive.come == watermarks(told)
        assert {n: s["rows_late"] for n, s in engine.stats()["streams"].items()} == {
            n: naive.late[n] for n in NAMES
        }
        for query in working:
            results = [rows_of(one.queries[query].results()) for one in (engine, told)]
            assert Counter(results[0]) == Counter(results[1])
            assert [row[0] for row in results[0]] == [row[0] for row in results[1]]
            if query in whole:
                whole[query].update(results[0])
    check_with_duckdb(engine, naive, whole)


def check_with_duckdb(engine: penstock.Engine, naive: Naive, whole: dict[str, Counter[Any]]) -> None:
    """What queries that were there throughout have given in the end is the answer over the rows taken."""
    latest = max(naive.latest.values())
    engine.close()
    for name, results in whole.items():
        results.update(rows_of(engine.queries[name].results()))
    streams = {name: table(rows) for name, rows in naive.taken.items()}
    if "pairs" in whole:
        oracle = Oracle(streams, [Reference("a", "a", size=6), Reference("b", "b", size=9)])
        assert whole["pairs"] == oracle.inserts("a.id, b.id", "a.k = b.k")
    if "all" in whole:
        assert whole["all"] == Counter((ts, id_) for name in "bc" for ts, id_, _ in naive.taken[name])
    if "counts" in whole:
        oracle = Oracle(streams, [Reference("a", "a", size=6), Reference("c", "c", size=4)])
        for instant in range(-10, latest + 1):
            answer: Counter[Any] = Counter()
            for (ts, diff, *row), times in whole["counts"].items():
                if ts <= instant:
                    answer[tuple(row)] += diff * times
            sql = "SELECT a.k, count(*) FROM a LEFT JOIN c ON a.k = c.k GROUP BY a.k"
            assert +answer == oracle.answer(sql, instant)
            assert min(answer.values(), default=0) >= 0


def make(declare_: str, *queries: str) -> tuple[penstock.Engine, list[penstock.Query]]:
    engine = penstock.Engine()
    engine.execute(declare_)
    return engine, [engine.query(sql) for sql in queries]


TWO = "CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT, IDLE AFTER 10 us)"
JOIN = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 50 us] JOIN b [RANGE 50 us] ON a.k = b.k"


def test_a_silent_stream_holds_the_others_no_longer() -> None:
    engine, (query,) = make(TWO, JOIN)
    engine.push("b", {"ts": [100], "k": [1]})
    engine.push("a", {"ts": [101, 109], "k": [1, 1]})
    assert query.count == 0
    engine.push("a", {"ts": [120], "k": [1]})  # 20 ahead: time has come to 110 on b
    assert [row[0] for row in rows_of(query.results())] == [101, 109]
    with pytest.raises(penstock.LateError) as caught:
        engine.push("b", {"ts": [109], "k": [1]})
    assert str(caught.value) == (
        "Expected rows in time order (now from `1970-01-01 00:00:00.000110` on, as other streams went on, "
        "IDLE AFTER 10 MICROSECONDS), found `1970-01-01 00:00:00.000109`, 1 MICROSECOND behind, in `b`, "
        "row 1. Allow for it with a longer IDLE AFTER, or drop such rows with LATE DROP"
    )
    engine.push("b", {"ts": [110], "k": [1]})
    assert sorted(row[0] for row in rows_of(query.results())) == [110, 110]


def test_only_what_a_common_query_reads_counts() -> None:
    """Tables, the stream itself and streams of other queries move nothing; a query that comes does."""
    engine, _ = make(
        TWO + "; CREATE TABLE t (k BIGINT)",
        "SELECT k FROM a",
        "SELECT x.k FROM b [RANGE 5 us] AS x JOIN b [RANGE 5 us] AS y ON x.k = y.k",
        "SELECT b.k FROM b [NOW] JOIN t ON b.k = t.k",
    )
    engine.push("t", {"k": [1]})
    engine.push("b", {"ts": [100], "k": [1]})
    engine.push("a", {"ts": [200], "k": [1]})
    assert watermarks(engine) == {"a": 200, "b": 100}
    query = engine.query(JOIN)
    assert watermarks(engine) == {"a": 200, "b": 100}
    engine.push("b", {"ts": [150], "k": [1]})  # the push after which b is 50 behind
    assert watermarks(engine) == {"a": 200, "b": 190}
    query.drop()
    engine.push("a", {"ts": [300], "k": [1]})
    assert watermarks(engine) == {"a": 300, "b": 190}


def test_a_query_that_was_stopped_reads_nothing() -> None:
    engine, _ = make(TWO, "SELECT 1 // (a.k - b.k) AS x FROM a [RANGE 50 us] JOIN b [RANGE 50 us] ON TRUE")
    engine.push("b", {"ts": [100], "k": [1]})
    engine.push("a", {"ts": [100], "k": [2]})
    with pytest.raises(penstock.StoppedError):
        engine.push("b", {"ts": [100], "k": [2]})
    engine.push("a", {"ts": [200], "k": [2]})
    assert watermarks(engine) == {"a": 200, "b": 100}


def test_a_stream_within_its_slack_is_not_silent() -> None:
    """Its rows keep step; that its watermark is further behind than 10 is its slack."""
    engine, _ = make(
        "CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT, "
        "WATERMARK FOR ts AS ts - INTERVAL '30' us, IDLE AFTER 10 us)",
        JOIN,
    )
    for now in range(100, 200, 9):
        engine.push("b", {"ts": [now], "k": [1]})
        engine.push("a", {"ts": [now], "k": [1]})
        engine.push("b", {"ts": [now - 30], "k": [1]})
    assert watermarks(engine)["b"] == now - 30
    engine.push("a", {"ts": [now + 10], "k": [1]})
    assert watermarks(engine)["b"] == now


def test_the_first_hop_is_that_of_the_first_row() -> None:
    """That time passes on a stream without rows is no row: hops begin at 105, not at 95."""
    sql = (
        "SELECT COUNT(*) AS n FROM (SELECT k FROM a [RANGE 5 us] UNION ALL SELECT k FROM b [RANGE 5 us]) AS u"
    )
    engine, (query,) = make(TWO, f"{sql} HOP BY 5 us")
    for now in (103, 106, 111, 121):
        engine.push("a", {"ts": [now], "k": [1]})
    assert rows_of(query.results()) == [(105, 1), (110, 1)]


def test_a_checkpoint_knows_who_is_silent() -> None:
    engine, _ = make(TWO, JOIN)
    engine.push("b", {"ts": [100], "k": [1]})
    engine.push("a", {"ts": [115], "k": [1]})
    again = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
    for one in (engine, again):
        with pytest.raises(penstock.LateError, match="IDLE AFTER 10 MICROSECONDS"):
            one.push("b", {"ts": [104], "k": [1]})
        one.push("a", {"ts": [125], "k": [1]})
    assert watermarks(again) == watermarks(engine) == {"a": 125, "b": 115}
    results = [rows_of(next(iter(one.queries.values())).results()) for one in (engine, again)]
    assert results[0] == results[1] == [(115, pa.scalar(115, pa.timestamp("us")).as_py(), results[0][0][2])]


def test_time_of_one_stream() -> None:
    engine, (query,) = make(TWO.replace(", IDLE AFTER 10 us", ""), JOIN)
    engine.push("b", {"ts": [100], "k": [1]})
    engine.push("a", {"ts": [101], "k": [1]})
    engine.advance(100, "a")
    assert query.count == 0
    engine.advance(101, stream="B")
    assert query.count == 1
    assert watermarks(engine) == {"a": 101, "b": 101}
    with pytest.raises(penstock.UsageError, match="Expected a declared stream, found `c`"):
        engine.advance(102, "c")


def test_a_query_of_hops_that_comes_has_silent_streams_looked_at() -> None:
    """What a push would do to time is asked before it is done, and asking finds nothing out for good."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    engine.execute("CREATE STREAM c (ts TIMESTAMP, k BIGINT, IDLE AFTER 1 us)")
    engine.push("b", {"ts": [44], "k": [1]})
    engine.query("SELECT c.k FROM c [RANGE 7 us] JOIN b [RANGE 7 us] ON c.k = b.k HOP BY 5 us")
    engine.push("c", {"ts": [39], "k": [0]})
    assert engine._runtime.streams["c"].watermark == 43
