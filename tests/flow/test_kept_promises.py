"""The watch over queues in all tests: it sees what it is there for, and it is on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from kept_promises import broken

import penstock
from penstock.engine.chain import ordered_union
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.rows.batch import Batch


def rows(*ts: int) -> Batch:
    return Batch(np.array(ts, np.int64), [pa.array(ts)])


def test_rows_below_a_promise_are_seen() -> None:
    queue = Queue()
    queue.promise(5)
    queue.put(rows(5, 6))
    with broken("below 5, found one at 4"):
        queue.put(rows(4, 7))


def test_what_is_there_before_all_time_is_below_no_promise() -> None:
    queue = Queue(5)
    queue.put(rows(BEGINNING))
    with broken("below 5, found one at 3"):
        queue.put(rows(BEGINNING, 3))


def test_promises_and_messages_do_not_fall() -> None:
    queue = Queue()
    queue.promise(5)
    for action in (lambda: queue.promise(4), lambda: setattr(queue, "punctuation", 4)):
        with broken("5 or later, found 4"):
            action()
    queue.tell([3, 4])
    with broken("in order"):
        queue.tell([3])


def test_rows_out_of_order_are_seen() -> None:
    queue = Queue()
    queue.put(rows(5, 6))
    for wrong in (rows(7, 6), rows(5)):
        with broken("in order"):
            queue.put(wrong)
    queue.promise(6)
    with broken("below 6, found one at 5"):
        queue.put(rows(7, 5))


def test_nothing_follows_the_end() -> None:
    queue = Queue()
    queue.close()
    with broken("nothing after the end"):
        queue.put(rows(1))
    with broken("no promise after the end"):
        queue.promise(1)


def promise_the_greatest(inputs: Sequence[Queue], output: Outlet) -> bool:
    """A union that believes the slice that has come furthest."""
    now = max(queue.frontier for queue in inputs)
    if output.punctuation < now < penstock.engine.rows.window.MAX_TS:
        output.promise(now)
        return True
    return False


def test_a_union_that_promises_too_much_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the operator above it would have noticed, in some draws."""
    monkeypatch.setattr(ordered_union, "pass_time", promise_the_greatest)
    engine = penstock.Engine(sharing="chain")
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    for window in (2, 9):
        engine.query(f"SELECT a.k FROM a JOIN b ON a.k = b.k WINDOW {window} us")
    with broken("expected no rows below"):
        push_at_random(engine, Random(1))


def push_at_random(engine: penstock.Engine, random: Random) -> None:
    now = {"a": 0, "b": 0}
    for stream in "ab" * 100:
        ts = sorted(random.randint(now[stream], now[stream] + 8) for _ in range(random.randint(1, 5)))
        now[stream] = ts[-1]
        engine.push(stream, {"ts": ts, "k": [random.randint(0, 1) for _ in ts]})


def test_a_table_that_a_late_query_reads_ends_behind_its_rows() -> None:
    """Time has begun, so that the table is whole when the query comes."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE TABLE t (k BIGINT, v BIGINT)")
    engine.push("t", {"k": [1, 2], "v": [3, 4]})
    engine.push("a", {"ts": [1], "k": [1]})
    query = engine.query("SELECT a.k, t.v FROM a [RANGE 5 us] LEFT JOIN t ON a.k = t.k")
    engine.push("a", {"ts": [2], "k": [2]})
    assert query.results()["v"].to_pylist() == [4]
