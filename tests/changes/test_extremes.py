"""MIN and MAX when the greatest leaves: what comes next is known, the window is not searched for it."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.changes.group_by import GroupBy
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.plan import AggregateCallNode, AggregateNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

ROWS = 60_000
STEP = 1_000


def fall(kind: str, function: str, window: int) -> tuple[float, int]:
    """Processor time for rows each of which is the answer when it leaves; and how many answers were given.

    ::

        value |  x
              |    x          of a window of n rows, n can still become the answer
              |      x
              +-----------
    """
    type_ = SqlType.VARCHAR if kind == "texts" else SqlType.BIGINT
    call = AggregateCallNode(function, 0, False, type_)  # type: ignore[arg-type]
    node = AggregateNode(SourceNode("s", (type_,)), 0, (call,), kind == "withdrawn")
    queue, out = Queue(), Queue()
    operator = GroupBy(node, queue, (type_,), "g", "promises")
    operator.output.queues.append(out)
    ts = np.arange(ROWS)
    values = ts if function == "min" else ROWS - ts
    texts = pa.array([f"{value:06}" for value in values.tolist()]) if kind == "texts" else pa.array(values)
    ends = ts + window + (3 * (ts % 2) if kind == "out of order" else 0)
    given = 0
    began = time.process_time()
    for at in range(0, ROWS, STEP):
        queue.put(Batch(ts[at : at + STEP], [texts.slice(at, STEP)], None, ends[at : at + STEP]))
        queue.promise(at + STEP - 1)
        while operator.step(32_768):
            pass
        while out.batches:
            given += int(np.count_nonzero(out.pop().signs > 0))
    return time.process_time() - began, given


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("kind", ["in order", "out of order", "withdrawn", "texts"])
def test_a_longer_window_costs_no_more(kind: str, function: str) -> None:
    """100 times as long: searched anew for every row that leaves, it would cost 100 times as much."""
    fall(kind, function, 200)  # compiles
    short, long = (min(fall(kind, function, window) for _ in range(2)) for window in (200, 20_000))
    assert long[1] >= (ROWS - 20_000) // 2, "the answer is hardly ever another one"
    assert long[0] < 8 * short[0]
