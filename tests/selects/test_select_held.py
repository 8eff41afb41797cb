"""A row on which a select fails, in an instant in which it may still be taken back.

10 // n of n = COUNT(*) - 2     at 1, two rows: n = 0 fails, unless a third row comes at 1
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.engine.flow.queue import Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.selects.select import Select

SQL = "SELECT 10 // n AS q FROM (SELECT COUNT(*) - 2 AS n FROM a [RANGE 5 us]) AS g EMIT CHANGES"


def start() -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT)")
    return engine, engine.query(SQL, name="q")


def test_it_is_held_until_its_instant_is_over() -> None:
    engine, query = start()
    for _ in range(3):
        engine.push("a", {"ts": [1], "k": [1]})
    engine.advance(2)
    assert query.results()["q"].to_pylist()[-1] == 10


def test_it_fails_as_soon_as_time_goes_on() -> None:
    engine, _ = start()
    for _ in range(2):
        engine.push("a", {"ts": [1], "k": [1]})
    with pytest.raises(penstock.StoppedError, match="`q`"):
        engine.advance(2)


def test_it_fails_at_the_end() -> None:
    engine, _ = start()
    for _ in range(2):
        engine.push("a", {"ts": [1], "k": [1]})
    with pytest.raises(penstock.StoppedError, match="`q`"):
        engine.close()


def test_it_is_held_while_what_takes_it_back_waits() -> None:
    """The batch behind it begins in its instant and goes on after that."""
    engine, _ = start()
    (select,) = (one for one in engine._runtime.pipelines["q"].own_operators if isinstance(one, Select))
    (queue,), found = select.inputs, Queue()
    select.output.queues = [found]
    for ts, count, sign in (([1], [2], [1]), ([1, 2], [2, 7], [-1, 1])):
        queue.put(Batch(np.array(ts), [pa.array(count)], np.array(sign, np.int8)))
    select.step(10)
    assert [batch.column(0).to_pylist() for batch in found.batches] == [[2]]
