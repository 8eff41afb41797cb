"""DISTINCT and the set operations against counting the rows that are there, at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes_help import Change, alive, drawn_changes, drive, end_within_a_step, folded, instants, row_key
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes import group_table
from penstock.engine.changes.set_operation import SetOperator
from penstock.engine.flow.heard_time import Learning
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.plan import SetOperationNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

TYPES = (SqlType.DOUBLE, SqlType.VARCHAR, SqlType.BOOLEAN)
VALUES = st.tuples(
    st.sampled_from((None, 0.0, math.nan, 1.5)), st.sampled_from((None, "a")), st.sampled_from((None, True))
)
KINDS = [
    ("distinct", False),
    ("union", False),
    ("intersect", False),
    ("intersect", True),
    ("except", False),
    ("except", True),
]
LEARNINGS: tuple[Learning, ...] = ("promises", "messages", "rows")


def tally(kind: str, all_: bool, learning: Learning, types: Sequence[SqlType] = TYPES) -> SetOperator:
    sources = tuple(SourceNode(f"s{i}", tuple(types)) for i in range(1 if kind == "distinct" else 2))
    node = SetOperationNode(kind, all_, sources)  # type: ignore[arg-type]
    return SetOperator(node, tuple(Queue() for _ in sources), types, "t", learning)


def answer(kind: str, all_: bool, streams: Sequence[Sequence[Change]], now: int) -> Counter[Any]:
    left, right = (
        Counter(row_key(one.values) for one in alive(stream, now)) for stream in (*streams, ())[:2]
    )
    match kind, all_:
        case "distinct" | "union", _:
            return Counter(set(left) | set(right))
        case "intersect", True:
            return left & right
        case "intersect", False:
            return Counter(set(left) & set(right))
        case "except", True:
            return left - right
    return Counter(set(left) - set(right))


def small_rooms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_table, "MAX_EVENTS", 3)
    patch.setattr(group_table, "MAX_POINTS", 2)
    patch.setattr(group_table, "MIN_SLOTS", 1)
    patch.setattr(group_table, "MIN_KEYS", 2)
    patch.setattr("penstock.engine.changes.set_operation.MAX_ROWS", 1)


@pytest.mark.parametrize(("kind", "all_"), KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_every_instant_is_right(kind: str, all_: bool, data: Any) -> None:
    withdrawn = data.draw(st.booleans())
    learning = data.draw(st.sampled_from(LEARNINGS))
    operator = tally(kind, all_, learning)
    streams = [data.draw(drawn_changes(VALUES, withdrawn=withdrawn)) for _ in operator.inputs]
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            small_rooms(patch)
            operator = tally(kind, all_, learning)
        out = drive(operator, streams, TYPES, data.draw(st.one_of(st.none(), st.integers(0, 99))))
    for now in instants([change for stream in streams for change in stream]):
        assert folded(out, now) == answer(kind, all_, streams, now), now
    if all(change.ets <= 10_000 for stream in streams for change in stream):
        assert operator.state_rows == 0


def test_many_copies_come_out_in_bounded_batches() -> None:
    """EXCEPT ALL: 100,000 copies on the left at one instant, and as many on the right at another."""
    operator = tally("except", True, "promises", (SqlType.BIGINT,))
    left, right = operator.inputs
    out = Queue()
    operator.output.queues.append(out)
    rows = 100_000
    ones = pa.array(np.ones(rows, np.int64))
    left.put(Batch(np.zeros(rows, np.int64), [ones]))
    right.put(Batch(np.full(rows, 5), [ones]))
    for queue in (left, right):
        queue.promise(10)
        queue.close()
    steps = 0
    while operator.step(1_000_000):
        steps += 1
        assert all(batch.length <= 32_768 for batch in out.batches)
        operator._check()
    signs = np.concatenate([batch.sign for batch in out.batches if batch.sign is not None])
    assert len(signs) == 2 * rows and signs.sum() == 0 and signs[:rows].all()
    assert steps >= 2 * rows // 32_768


@pytest.mark.parametrize("learning", LEARNINGS)
def test_what_leaves_leaves_before_the_end(learning: Learning, monkeypatch: pytest.MonkeyPatch) -> None:
    small_rooms(monkeypatch)
    out = end_within_a_step(tally("except", False, learning), TYPES)
    assert [sum(folded(out, now).values()) for now in range(16)] == 8 * [1, 0]
