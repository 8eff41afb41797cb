"""Selects that run together when a subscriber starts, drops or raises, and when a predicate fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from test_shared_select import make_engine, table
from work_of import selects_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled


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
        with pytest.raises(penstock.SubscriberError, match="not now"):
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
    with pytest.raises(penstock.StoppedError, match=r"Division by zero in `100 // s\.k`, in query `bad0`"):
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
    with pytest.raises(penstock.StoppedError, match="in query `bad`"):
        engine.push("s", zeros_at(8, 5))
    assert query.results()["q"].to_pylist() == [-3, -6]
    with pytest.raises(penstock.StoppedError):
        query.results()


def test_when_all_fail_the_stream_is_left_and_may_be_read_again() -> None:
    engine = make_engine()
    queries = [engine.query(f"SELECT k FROM s WHERE 6 // k > {number}") for number in range(3)]
    with pytest.raises(penstock.StoppedError):
        engine.push("s", zeros_at(4, 1))
    assert not selects_of(engine)
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
    with pytest.raises(penstock.StoppedError, match="in query `bad`"):
        engine.push("s", zeros_at(40_000, 3))
    assert started[0]._pipeline.error is None
    engine.push("s", table(3, 50_000))
    assert (bad.count, started[0].count) == (3, 0)
    engine.push("s", table(3, 50_003).set_column(1, "k", pa.array([1, 2, 3])))
    assert started[0].count == 3


# -- kernels ------------------------------------------------------------------------------------------
