"""Selects over one stream that run together: each query gets what it would get alone, row by row, in order.

Queries are drawn, added and dropped at drawn moments between drawn pushes, under drawn schedules, and the
same is done to an engine that shares nothing. The kernels are compared with loops over everything.
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
from numpy.typing import NDArray

import penstock
from penstock.engine import functions, scheduler
from penstock.engine.kernels.shared_select import count_bit, find_bit, gather_rows
from penstock.engine.lineage import Demand, Tags
from penstock.engine.operators import shared_select
from penstock.engine.operators.shared_select import RowIndex, SharedSelect
from penstock.engine.scheduler import RoundRobin, Shuffled

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
    with contextlib.suppress(penstock.DataError):
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
            with contextlib.suppress(penstock.DataError):
                engine.close()
    for one in asks:
        one.check()
    runtime = engines[0]._runtime
    for stream, shared in runtime.selects.items():
        assert stream == "s" and shared.members
    for one in alive:
        one.pair[0].drop()
    assert not runtime.selects and not runtime._selects.single and not runtime.window_selects
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
        assert not engine._runtime.selects and not engine._runtime.window_selects
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
    with pytest.raises(penstock.DataError):
        engine.close()
    assert few.results()["k"].to_pylist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(penstock.DataError):
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


@pytest.mark.parametrize("first", ["SELECT k FROM s", "SELECT k + 0 AS k FROM s"])
@pytest.mark.parametrize("make", [lambda: None, lambda: RoundRobin(1), lambda: Shuffled(7, 3)])
def test_a_query_started_by_a_subscriber_gets_the_rows_after_those_being_worked(
    first: str, make: Callable[[], Any]
) -> None:
    engine = make_engine(scheduler=make())
    started: list[Any] = []
    seen: list[int] = []

    def start(batch: pa.RecordBatch) -> None:
        seen.extend(batch["k"].to_pylist())
        if len(started) < 3:
            started.append(engine.query("SELECT k FROM s WHERE k >= 0"))

    engine.query(first).subscribe(start)
    engine.push("s", pa.concat_tables([table(5), table(70_000, 5)]))
    assert seen == list(range(70_005))
    assert started
    assert all(query.count == 0 for query in started)
    engine.push("s", table(4, 70_005))
    assert seen == list(range(70_009))
    assert {tuple(query.results()["k"].to_pylist()) for query in started[:1]} == {
        tuple(range(70_005, 70_009))
    }


def test_a_query_dropped_by_its_own_subscriber_is_silent_and_the_others_go_on() -> None:
    engine = make_engine()
    one, two = engine.query("SELECT k FROM s"), engine.query("SELECT k FROM s")
    seen: list[int] = []

    def once(batch: pa.RecordBatch) -> None:
        seen.append(batch.num_rows)
        one.drop()

    one.subscribe(once)
    engine.push("s", table(100_000))
    assert seen == [32_768]
    assert two.count == 100_000


def test_a_subscriber_that_raises_does_not_stop_the_others() -> None:
    engine = make_engine()
    one, two = engine.query("SELECT k FROM s"), engine.query("SELECT k FROM s WHERE k > 0")

    def refuse(_: pa.RecordBatch) -> None:
        raise ValueError("not now")

    one.subscribe(refuse)
    for start in (0, 3):
        with pytest.raises(ValueError, match="not now"):
            engine.push("s", table(3, start))
    assert (one.count, two.count) == (6, 5)


# -- failures -----------------------------------------------------------------------------------------


def zeros_at(size: int, *places: int) -> pa.Table:
    rows = table(size, 1)
    k = rows["k"].to_pylist()
    for place in places:
        k[place] = 0
    return rows.set_column(1, "k", pa.array(k))


def test_a_predicate_that_fails_stops_its_queries_and_no_others() -> None:
    engine = make_engine()
    bad = [
        engine.query("SELECT ts, k FROM s WHERE 100 // k > 0", f"bad{n}", count_only=n == 1) for n in (0, 1)
    ]
    later = engine.query("SELECT ts FROM s WHERE k < 9 AND v > 1 AND 100 // k > 0", "later")
    spared = engine.query("SELECT ts FROM s WHERE k > 0 AND 100 // k > 0", "spared")
    counted = engine.query("SELECT ts FROM s WHERE k > 0 AND 100 // k > 0", "counted", count_only=True)
    good = engine.query("SELECT k FROM s WHERE k > 20")
    with pytest.raises(penstock.DataError, match=r"Division by zero in `100 // s\.k`, in query `bad0`"):
        engine.push("s", zeros_at(30, 5, 20))
    assert [query.count for query in bad] == [5, 5]
    assert bad[0].results().num_rows == 5
    assert later.count == 0  # v is above 1 from the eleventh row on, and there k is 9 and more until it is 0
    assert later._pipeline.error is not None
    assert spared.results().num_rows == counted.count == spared.count == 28
    assert good.count == 9
    assert engine.stats()["groups"][0]["queries"] == ["spared", "counted", good.name]
    engine.push("s", table(3, 31))
    assert (spared.count, good.count, bad[0].count) == (31, 12, 5)


def test_rows_before_the_first_bad_one_come_out_whatever_is_bad_about_it() -> None:
    """The output fails at the third row, the predicate at the sixth."""
    engine = make_engine()
    engine.query("SELECT k FROM s")
    query = engine.query("SELECT 6 // (k - 3) AS q FROM s WHERE 6 // k >= 0", "bad")
    with pytest.raises(penstock.DataError, match="in query `bad`"):
        engine.push("s", zeros_at(8, 5))
    assert query.results()["q"].to_pylist() == [-3, -6]
    with pytest.raises(penstock.DataError):
        query.results()


def test_when_all_fail_the_stream_is_left_and_may_be_read_again() -> None:
    engine = make_engine()
    queries = [engine.query(f"SELECT k FROM s WHERE 6 // k > {number}") for number in range(3)]
    with pytest.raises(penstock.DataError):
        engine.push("s", zeros_at(4, 1))
    assert not engine._runtime.selects
    assert not engine._runtime.streams["s"].output.queues
    again = engine.query("SELECT k FROM s")
    engine.push("s", table(2, 9))
    assert [query.count for query in queries] == [1, 1, 1]
    assert again.count == 2


def test_a_query_that_fails_may_start_and_drop_others_with_its_last_rows() -> None:
    engine = make_engine()
    bad = engine.query("SELECT k FROM s WHERE 6 // k > 0", "bad")
    also = engine.query("SELECT t FROM s WHERE 6 // k > 0", "also")
    started: list[Any] = []

    def react(_: pa.RecordBatch) -> None:
        if not started:
            also.drop()
            started.append(engine.query("SELECT k FROM s WHERE 6 // k > 0", "also"))

    bad.subscribe(react)
    with pytest.raises(penstock.DataError, match="in query `bad`"):
        engine.push("s", zeros_at(40_000, 3))
    assert started[0]._pipeline.error is None
    engine.push("s", table(3, 50_000))
    assert (bad.count, started[0].count) == (3, 0)
    engine.push("s", table(3, 50_003).set_column(1, "k", pa.array([1, 2, 3])))
    assert started[0].count == 3


# -- kernels ------------------------------------------------------------------------------------------


@pytest.mark.twin("shared_select.find_bit", "shared_select.count_bit", "shared_select.gather_rows")
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(0, 63), st.data())
def test_rows_with_a_bit_and_their_values(words: list[int], place: int, data: st.DataObject) -> None:
    bit = (np.ones(1, np.uint64) << np.uint64(place)).view(np.int64)[0]
    array = np.array(words, np.int64)
    expected = [i for i, word in enumerate(words) if word >> place & 1]
    out = np.empty(len(words), np.int32)
    assert out[: find_bit(array, bit, out)].tolist() == expected
    assert count_bit(array, bit) == len(expected)
    rows = data.draw(st.lists(st.integers(0, len(words) - 1), max_size=9)) if words else []
    for dtype in (np.int32, np.int64):
        values = np.empty(len(rows), np.int64)
        gather_rows(array, np.array(rows, dtype), values)
        assert values.tolist() == [words[row] for row in rows]


def naive_report(demands: list[Demand], tags: Tags) -> list[tuple[int, int]]:
    """(row, lane) of all rows and lanes, each looked at."""
    return [
        (row, lane)
        for row in range(tags.leaves.shape[1])
        for lane, demand in enumerate(demands)
        if all(demand.low <= tags.leaves[:, row])
        and all(tags.leaves[:, row] <= demand.high)
        and all(tags.words[:, row] & demand.bits == demand.bits)
    ]


@pytest.mark.twin("shared_select.report_rows")
@given(st.data())
def test_lanes_of_rows_are_those_found_by_looking_at_each(data: st.DataObject) -> None:
    draw = data.draw
    leaf_counts = draw(st.lists(st.integers(1, 9), max_size=3))
    words = draw(st.integers(0, 2))
    size = draw(st.integers(1, 12))

    def array(low: int, high: int, shape: tuple[int, ...], dtype: type) -> NDArray:
        count = int(np.prod(shape))
        return np.array(
            draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), dtype
        ).reshape(shape)

    demands = []
    for _ in range(draw(st.integers(1, 8))):
        low, high = (array(0, 8, (len(leaf_counts),), np.int32) for _ in range(2))
        full = array(0, 1, (len(leaf_counts),), np.int32) == 1
        low[full], high[full] = 0, np.array(leaf_counts, np.int32)[full] - 1
        demands.append(Demand(low, high, array(0, 3, (words,), np.int64)))
    leaves = np.minimum(
        array(0, 8, (len(leaf_counts), size), np.int32), np.array(leaf_counts).reshape(-1, 1) - 1
    )
    tags = Tags(leaves.astype(np.int32), array(0, 3, (words, size), np.int64))
    parts = zip(*((one.low, one.high, one.bits) for one in demands), strict=True)
    index = RowIndex(Demand(*map(np.stack, parts)), leaf_counts)
    index._check()
    lanes, rows = np.empty((2, draw(st.integers(len(demands), 40))), np.int32)
    found: list[tuple[int, int]] = []
    start = 0
    while start < size:
        count, after = index.report_rows(tags, start, lanes, rows)
        assert after > start
        start = after
        found += zip(rows[:count].tolist(), lanes[:count].tolist(), strict=True)
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    assert sorted(found) == naive_report(demands, tags)
    index.count(0, np.zeros(size, np.int64), None, tags.leaves, tags.words)
    assert index.settle().tolist() == [sum(lane == one for _, lane in found) for one in range(len(demands))]
