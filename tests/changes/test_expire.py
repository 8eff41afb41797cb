"""Expire: the same bag at every instant, with a -1 for what left by itself."""

from __future__ import annotations

from typing import Any

import pytest
from change_joins_help import END, Change, Fold, alive, changes, examples, push, row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes import bag, expire
from penstock.engine.changes.expire import Expire
from penstock.engine.flow.heard_time import Learning
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.plan import ExpireNode, SourceNode
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

TYPES = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR)
VALUES = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from([0.0, -0.0, float("nan"), None]),
    st.sampled_from(["a", "", None]),
)
LEARNINGS = st.sampled_from(["promises", "messages", "rows"])


def expire_of(queue: Queue, learning: Learning, types: Any = TYPES) -> Expire:
    return Expire(ExpireNode(SourceNode("s", types)), queue, types, "expire", learning)


@given(
    st.data(),
    LEARNINGS,
    st.integers(0, 999),
    st.sampled_from(["finite", "both"]),
    st.sampled_from([1, 4, 1000]),
)
@settings(max_examples=examples(100))
def test_is_the_same_bag(data: st.DataObject, learning: Learning, seed: int, ends: str, chunk: int) -> None:
    rows = data.draw(changes(VALUES, ends, 20))
    queue = Queue()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expire, "CHUNK_ROWS", chunk)
        patch.setattr(bag, "FEW_ROWS", 2)
        patch.setattr(bag, "MIN_SLOTS", 2)
        operator = expire_of(queue, learning)
        fold = Fold(operator)
        push(fold, [(queue, rows, TYPES)], seed)
    fold.check_order()
    assert all(row.ets == FOREVER for row in fold.read())
    for ts in range(END + 2):
        assert fold.at(ts) == sum_up(alive(rows, ts))
    assert operator.state_rows == 0
    assert operator.counters.rows_in == len(rows)
    assert operator.counters.rows_out == len(fold.rows)


def sum_up(rows: Any) -> Any:
    from collections import Counter

    return Counter(row_of(row) for row in rows)


def test_what_is_due_goes_before_what_comes() -> None:
    """
    a  0 |====| 4          ts of output:  0 +a   4 -a +b   6 -b
    b       4 |==| 6
    """
    queue = Queue()
    fold = Fold(expire_of(queue, "promises", (SqlType.BIGINT,)))
    push(fold, [(queue, [Change(0, 1, 4, (1,)), Change(4, 1, 6, (2,))], (SqlType.BIGINT,))], 1)
    assert [(row.ts, row.sign, row.values[0]) for row in fold.read()] == [
        (0, 1, 1), (4, -1, 1), (4, 1, 2), (6, -1, 2),
    ]  # fmt: skip


def test_a_row_withdrawn_early_is_not_withdrawn_again() -> None:
    rows = [Change(0, 1, 9, (1,)), Change(0, 1, 9, (1,)), Change(3, -1, 9, (1,)), Change(5, -1, 9, (1,))]
    queue = Queue()
    fold = Fold(expire_of(queue, "promises", (SqlType.BIGINT,)))
    push(fold, [(queue, rows, (SqlType.BIGINT,))], 1)
    assert [(row.ts, row.sign) for row in fold.read()] == [(0, 1), (0, 1), (3, -1), (5, -1)]


def test_what_it_has_not_heard_of_it_does_not_promise() -> None:
    """By rows alone it hears of no promise: the row due at 4 may still have to be sent."""
    queue = Queue()
    operator = expire_of(queue, "rows", (SqlType.BIGINT,))
    fold = Fold(operator)
    from change_joins_help import batch_of

    queue.put(batch_of([Change(0, 1, 4, (1,))], (SqlType.BIGINT,), True))
    queue.promise(20)
    while fold.step(100):
        pass
    assert fold.queue.punctuation == 4
    assert len(fold.read()) == 1
    queue.close()
    while fold.step(100):
        pass
    assert [(row.ts, row.sign) for row in fold.read()] == [(0, 1), (4, -1)]
    assert fold.queue.closed


def test_state_is_bounded_by_what_is_alive() -> None:
    """Rows for ever among rows for a short time do not stay in the store."""
    queue = Queue()
    operator = expire_of(queue, "promises", (SqlType.BIGINT,))
    fold = Fold(operator)
    from change_joins_help import batch_of

    rows = [Change(ts, 1, 10**6 if ts == 0 else FOREVER if ts % 2 else ts + 5, (ts,)) for ts in range(40_000)]
    for start in range(0, len(rows), 1000):
        queue.put(batch_of(rows[start : start + 1000], (SqlType.BIGINT,), True))
        queue.promise(rows[start + 999].ts)
        while operator.step(1000):
            pass
        fold.queue.clear()
    assert operator.state_rows <= 4
    assert operator.state_bytes < 400_000
    operator._check()
