"""Selects over one stream that run together: each query gets what it would get alone, row by row, in order.

Queries are drawn, added and dropped at drawn moments between drawn pushes, under drawn schedules, and the
same is done to an engine that shares nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_of import selects_of

import penstock
from penstock.engine.expressions import functions
from penstock.engine.flow import scheduler
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.selects import shared_select
from penstock.engine.selects.shared_select import SharedSelect

DECLARE = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE, t VARCHAR, b BOOLEAN)"
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("k", pa.int64()),
        ("v", pa.float64()),
        ("t", pa.string()),
        ("b", pa.bool_()),
    ]
)
CONDITIONS = [
    "k > 0", "k > 1", "0 < k", "k <= 2", "k = 1", "k BETWEEN -1 AND 1", "k BETWEEN 2 AND 1", "v >= 0.5",
    "v < 1 AND k > 0", "k > 0 AND v < 1", "t = 'a'", "t = 'b'", "t LIKE 'a%'", "t LIKE 'a%' AND k > 0",
    "t IS NOT NULL", "t IS NULL", "b", "NOT b", "k % 2 = 1", "k % 2 = 1 AND v > 0", "k > 0 OR v > 0", "1 = 0",
    "1 = 1", "k + 0 > v", "ts > TIMESTAMP '1970-01-01 00:00:00.000005'",
]  # fmt: skip
FAILING = [
    "6 // k > 1",
    "6 // k > 1 AND v > 0.5",
    "6 // k > 1 AND k > -1",
    "v < 1 AND 6 % k = 0",
    "k <> 0 AND 6 // k > 1",
]
OUTPUTS = [
    "ts, k",
    "ts, k",
    "k, v, t, b",
    "t",
    "k, k AS again",
    "*",
    "k + 1 AS n, t",
    "1 AS one",
    "v * 2 AS w, k",
]


@dataclass
class Ask:
    """A query in the engine that shares and in the one that does not; rows seen by a subscriber of each."""

    sql: str
    pair: list[Any]
    counting: bool
    seen: list[list[Any]] = field(default_factory=lambda: [[], []])
    is_heard: bool = False

    def check(self) -> None:
        """Both have given the same, in the same order."""
        shared, alone = self.pair
        assert shared.count == alone.count, self.sql
        errors = [one._pipeline.error for one in self.pair]
        assert (errors[0] is None) == (errors[1] is None), (self.sql, errors)
        if self.counting:
            return
        if self.is_heard:
            self._compare(*self.seen)
            return
        if errors[0] is None or shared._pipeline.sink.state_rows:
            tables = [one.results() for one in self.pair]
            for table in tables:
                table.validate(full=True)
            self._compare(*(table.to_pylist() for table in tables))
            assert tables[0].schema == tables[1].schema

    def _compare(self, shared: list[Any], alone: list[Any]) -> None:
        if "UNION" in self.sql:  # rows of one instant come in the order in which the inputs were run
            assert [row["_ts"] for row in shared] == [row["_ts"] for row in alone], self.sql
            shared, alone = (sorted(rows, key=repr) for rows in (shared, alone))
        assert shared == alone, self.sql


def rows_of(draw: Any, start: int, size: int) -> pa.Table:
    steps = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    columns = {
        "ts": pa.array(np.cumsum([start, *steps])[1:], pa.timestamp("us")),
        "k": draw(st.lists(st.sampled_from([-2, -1, 1, 2, 3, None, 1, 2, 0]), min_size=size, max_size=size)),
        "v": draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, None]), min_size=size, max_size=size)),
        "t": draw(st.lists(st.sampled_from(["a", "ab", "b", "", None]), min_size=size, max_size=size)),
        "b": draw(st.lists(st.sampled_from([True, False, None]), min_size=size, max_size=size)),
    }
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names})


def select(draw: Any, may_fail: bool) -> str:
    where = draw(st.sampled_from([None, *CONDITIONS, *(FAILING if may_fail else [])]))
    outputs = draw(st.sampled_from([*OUTPUTS, *(["10 // k AS q"] if may_fail else [])]))
    source = draw(
        st.sampled_from(["s", "s [RANGE 3 us]", "s AS x", "s [ROWS 1]", "s [ROWS 2]", "s [ROWS 5]"])
    )
    return f"SELECT {outputs} FROM {source}" + (f" WHERE {where}" if where else "")


def union(draw: Any) -> str:
    source = draw(st.sampled_from(["s", "s", "s [ROWS 2]"]))
    parts = [f"SELECT k FROM {source} WHERE {draw(st.sampled_from(CONDITIONS))}" for _ in range(2)]
    return " UNION ALL ".join([*parts, "SELECT k + 1 FROM s WHERE k > 1"][: draw(st.integers(2, 3))])


def push(engine: penstock.Engine, rows: pa.Table) -> None:
    """Rows in; that a query fails on them is told by its error."""
    with contextlib.suppress(penstock.StoppedError):
        engine.push("s", rows)


@settings(max_examples=50)
@given(st.data())
def test_drawn_queries_that_come_and_go_get_what_they_get_alone(data: st.DataObject) -> None:
    draw = data.draw
    may_fail = draw(st.booleans())
    seed = draw(st.integers(0, 99))
    schedulers: list[Callable[[], Any]] = [lambda: None, lambda: Shuffled(seed, 8), lambda: RoundRobin(3)]
    make = draw(st.sampled_from(schedulers))
    slack = draw(st.booleans())
    declare = DECLARE[:-1] + (", WATERMARK FOR ts AS ts - INTERVAL 3 MICROSECONDS)" if slack else ")")
    engines = [penstock.Engine(scheduler=make()), penstock.Engine(sharing="unshared", scheduler=make())]
    for engine in engines:
        engine.execute(declare)
    asks: list[Ask] = []
    alive: list[Ask] = []

    def add() -> None:
        kind = draw(st.integers(0, 7))
        sql = union(draw) if kind == 0 else select(draw, may_fail)
        counting = kind == 1 or (kind == 0 and draw(st.booleans()))
        name = f"q{len(asks)}"
        asks.append(Ask(sql, [one.query(sql, name, count_only=counting) for one in engines], counting))
        alive.append(asks[-1])

    def hear(one: Ask) -> None:
        if one.counting or one.is_heard or one.pair[0]._pipeline.error is not None:
            return
        one.is_heard = True
        for query, seen in zip(one.pair, one.seen, strict=True):
            query.subscribe(lambda batch, seen=seen: seen.extend(batch.to_pylist()))

    for _ in range(draw(st.integers(0, 6))):
        add()
    now = 0
    with (
        mock.patch.object(shared_select, "BLOCK_BYTES", draw(st.sampled_from([1, 100, 1 << 17]))),
        mock.patch.object(shared_select, "MAX_ENTRIES", draw(st.sampled_from([1, 1 << 20]))),
    ):
        for _ in range(draw(st.integers(1, 6))):
            rows = rows_of(draw, now, draw(st.integers(1, 12)))
            now = int(rows["ts"].cast(pa.int64())[-1].as_py())
            if slack:
                rows = rows.take(sorted(range(rows.num_rows), key=lambda i: (i // 2, -i)))
                rows = rows if draw(st.booleans()) else rows.sort_by("ts")
            for engine in engines:
                push(engine, rows)
                engine._runtime._check()
            for _ in range(draw(st.integers(0, 2))):
                what = draw(st.sampled_from(["add", "add", "drop", "hear", "check", "explain"]))
                if what == "add":
                    add()
                elif what == "explain":
                    assert all(engine.explain(analyze=True) and engine.stats() for engine in engines)
                elif alive:
                    one = draw(st.sampled_from(alive))
                    if what == "drop":
                        one.check()
                        alive.remove(one)
                        for query in one.pair:
                            query.drop()
                    elif what == "hear":
                        hear(one)
                    else:
                        one.check()
        for engine in engines:
            with contextlib.suppress(penstock.StoppedError):
                engine.close()
    for one in asks:
        one.check()
    runtime = engines[0]._runtime
    assert all(shared.members for shared in selects_of(engines[0]))
    for one in alive:
        one.pair[0].drop()
    assert not list(runtime.shared)
    assert not any(ingest.output.queues for ingest in runtime.streams.values())


# -- who shares ---------------------------------------------------------------------------------------


def make_engine(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute(DECLARE)
    return engine


def table(size: int, start: int = 0) -> pa.Table:
    """Rows at start, start + 1 ... with k the same, v a tenth of it."""
    k = np.arange(start, start + size)
    columns = [k.astype("datetime64[us]"), k, k / 10, [f"t{i}" for i in k], k % 2 == 0]
    return pa.table([pa.array(column) for column in columns], SCHEMA)


def kinds(engine: penstock.Engine, name: str) -> list[str]:
    return [one["kind"] for one in engine.stats()["queries"][name]["operators"]]


def test_a_query_alone_has_its_own_select_and_the_second_makes_one_for_both() -> None:
    engine = make_engine()
    one = engine.query("SELECT k FROM s WHERE k > 1", "one")
    engine.push("s", table(4))
    assert kinds(engine, "one") == ["Select", "Sink"]
    assert engine.stats()["groups"] == []
    two = engine.query("SELECT k + 1 AS n FROM s WHERE k > 5", "two")
    counted = engine.query("SELECT k FROM s WHERE k > 4", "counted", count_only=True)
    engine.push("s", table(4, 4))
    (group,) = engine.stats()["groups"]
    assert group["queries"] == ["one", "two", "counted"]
    assert [one["kind"] for one in group["operators"]] == ["SharedSelect"]
    assert (group["operators"][0]["rows_in"], group["operators"][0]["rows_out"]) == (4, 4 + 2 + 3)
    assert (kinds(engine, "one"), kinds(engine, "two")) == (["Sink"], ["Select", "Sink"])
    assert one.results()["k"].to_pylist() == [2, 3, 4, 5, 6, 7]
    assert two.results()["n"].to_pylist() == [7, 8]
    assert (one.count, two.count, counted.count) == (6, 2, 3)
    two.drop()
    counted.drop()
    assert engine.stats()["groups"] == []
    assert kinds(engine, "one") == ["SharedSelect", "Sink"]
    engine.push("s", table(1, 8))
    assert one.results()["k"].to_pylist() == [8]
    assert counted.count == 3


def test_a_counting_query_keeps_its_count_when_others_come() -> None:
    engine = make_engine()
    counted = engine.query("SELECT k FROM s WHERE k > 1", count_only=True)
    engine.push("s", table(4))
    other = engine.query("SELECT k FROM s WHERE k > 100", count_only=True)
    engine.push("s", table(4, 4))
    assert (counted.count, other.count) == (6, 0)


def test_nothing_is_shared_if_that_is_asked_for() -> None:
    for source in ("s", "s [ROWS 2]"):
        engine = make_engine(sharing="unshared")
        for name in ("one", "two"):
            engine.query(f"SELECT k FROM {source}", name)
        assert not selects_of(engine)
        assert engine.stats()["groups"] == []
        assert kinds(engine, "two")[-2:] == ["Select", "Sink"]


def test_rows_windows_of_any_size_run_together() -> None:
    """Five rows at one instant: the last n of them enter a window of n."""
    engine = make_engine()
    rows = table(5).set_column(0, "ts", pa.array([7] * 5, pa.timestamp("us")))
    queries = [engine.query(f"SELECT k FROM s [ROWS {n}] WHERE k <> 3", f"q{n}") for n in (1, 2, 3, 9)]
    counted = engine.query("SELECT k FROM s [ROWS 4]", "counted", count_only=True)
    engine.push("s", rows)
    (group,) = engine.stats()["groups"]
    assert [one["kind"] for one in group["operators"]] == ["SharedWindowSelect"]
    assert group["queries"] == ["q1", "q2", "q3", "q9", "counted"]
    late = engine.query("SELECT k FROM s [ROWS 2]", "late")  # the instant is not over
    engine.push("s", rows.slice(0, 1))
    engine.close()
    found = [query.results()["k"].to_pylist() for query in queries]
    assert found == [[0], [4, 0], [4, 0], [0, 1, 2, 4, 0]]
    assert counted.count == 4
    assert late.results()["k"].to_pylist() == [0]


def test_a_condition_is_not_asked_of_rows_that_never_enter_a_window() -> None:
    """6 // k fails for k = 0, which nine later rows of its instant displace."""
    engine = make_engine()
    rows = table(10).set_column(0, "ts", pa.array([7] * 10, pa.timestamp("us")))
    few = engine.query("SELECT k FROM s [ROWS 9] WHERE 6 // k >= 1", "few")
    many = engine.query("SELECT k FROM s [ROWS 10] WHERE 6 // k >= 1", "many")
    engine.push("s", rows)
    with pytest.raises(penstock.StoppedError):
        engine.close()
    assert few.results()["k"].to_pylist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(penstock.StoppedError):
        many.results()


def test_an_altered_query_goes_on() -> None:
    engine = make_engine()
    one, two = (engine.query("SELECT k FROM s [RANGE 5 us] WHERE k >= 2", name) for name in ("one", "two"))
    engine.push("s", table(3))
    engine.execute("ALTER QUERY one SET WINDOW 1 ROWS")
    engine.push("s", table(3, 3))
    engine.execute("ALTER QUERY one SET WINDOW 5 MICROSECONDS")
    engine.push("s", table(3, 6))
    engine.close()
    assert two.results()["k"].to_pylist() == list(range(2, 9))
    assert set(one.results()["k"].to_pylist()) >= {2, 3, 4, 6, 7, 8}


# -- what it costs ------------------------------------------------------------------------------------


def test_a_condition_is_evaluated_once_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    for number in range(20):
        engine.query(
            f"SELECT k FROM s AS a{number} WHERE k % 3 = 1 AND k > {number}", count_only=number % 2 == 1
        )
    calls: list[int] = []
    original = functions.FUNCTIONS["modulo"]

    def counted(call: Any, rows: Any) -> Any:
        calls.append(rows.length)
        return original(call, rows)

    monkeypatch.setitem(functions.FUNCTIONS, "modulo", counted)
    engine.push("s", table(50))
    assert calls == [50]


def test_a_push_that_nobody_waits_for_gives_one_operator_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    queries = [engine.query(f"SELECT k FROM s WHERE k > {100 + number}") for number in range(50)]
    projected = engine.query("SELECT k + 1 AS n FROM s WHERE k > 200")
    engine.push("s", table(1))
    turns: list[Any] = []
    original = scheduler.take_turn

    def take_turn(operator: Any, *arguments: Any) -> None:
        turns.append(operator)
        original(operator, *arguments)

    monkeypatch.setattr(scheduler, "take_turn", take_turn)
    engine.push("s", table(1, 1))
    assert {type(operator) for operator in turns} == {SharedSelect}
    assert all(query.count == 0 for query in [*queries, projected])


def test_a_union_learns_how_far_time_has_come() -> None:
    engine = make_engine()
    engine.execute(DECLARE.replace("STREAM s", "STREAM other"))
    both = engine.query("SELECT k FROM s WHERE k > 100 UNION ALL SELECT k FROM other")
    engine.query("SELECT k FROM s")
    engine.push("other", table(3))
    assert both.count == 0
    engine.push("s", table(3))
    assert both.results()["k"].to_pylist() == [0, 1, 2]


def test_a_query_nobody_reads_holds_little_of_what_others_got() -> None:
    engine = make_engine()
    few = engine.query("SELECT k FROM s WHERE k = 7")
    many = [engine.query(f"SELECT k FROM s WHERE k > {number}") for number in range(20)]
    engine.push("s", table(30_000))
    for query in many:
        assert query.results().num_rows
    assert few._pipeline.sink.state_bytes <= shared_select.BLOCK_BYTES
    assert few.results()["k"].to_pylist() == [7]


def test_long_texts_are_not_put_together_for_many() -> None:
    engine = make_engine()
    queries = [engine.query(f"SELECT t FROM s WHERE k > {number}") for number in range(30)]
    long = "x" * 100_000
    rows = table(40).set_column(3, "t", pa.array([long] * 40))
    engine.push("s", rows)
    for number, query in enumerate(queries):
        kept = query._pipeline.sink.state_bytes
        assert kept < 1.1 * len(long) * (39 - number) + 10_000
        assert query.results()["t"].to_pylist() == [long] * (39 - number)


# -- while data flows ---------------------------------------------------------------------------------
