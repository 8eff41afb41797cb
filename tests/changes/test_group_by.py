"""GROUP BY against a twin that computes every group anew from the rows that are there, at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes_help import (
    END,
    Change,
    alive,
    drawn_changes,
    drive,
    end_within_a_step,
    folded,
    instants,
    read,
    row_key,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes import aggregates, group_table, text_extreme
from penstock.engine.changes.group_by import GroupBy
from penstock.engine.flow.heard_time import Learning
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.plan.plan import AggregateCallNode, AggregateNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType

TYPES = (SqlType.BIGINT, SqlType.VARCHAR, SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN)
DOUBLES = st.sampled_from((None, 0.0, -0.0, 0.1, 0.2, 0.3, 1e308, -1e308, 5e-324, 1e-300, 2.5, -7.75, 1e16))
SPECIAL = st.sampled_from((math.nan, math.inf, -math.inf))
VALUES = st.tuples(
    st.sampled_from((None, 1, 2)),
    st.sampled_from((None, "", "a", "ä", "ab", "b\0", "b", "z" * 20)),
    st.sampled_from((None, 0, 1, 1, -3, 2**62, -(2**62))),
    st.one_of(DOUBLES, DOUBLES, DOUBLES, SPECIAL),
    st.sampled_from((None, True, False)),
)

Call = tuple[str, int | None, bool]


CALLS: list[Call] = [
    ("count", None, False),
    ("count", 1, True),
    ("count", 4, False),
    ("count", 3, True),
    ("sum", 3, False),
    ("sum", 3, True),
    ("avg", 2, False),
    ("avg", 3, False),
    ("avg", 2, True),
    ("avg", 3, True),
    ("min", 2, False),
    ("min", 3, False),
    ("max", 2, False),
    ("max", 3, False),
    ("max", 4, False),
    ("min", 1, False),
    ("max", 1, False),
]


def node_of(keys: int, calls: Sequence[Call], withdrawn: bool) -> AggregateNode:
    def type_of(function: str, argument: int | None) -> SqlType:
        if function == "count" or argument is None:
            return SqlType.BIGINT
        return SqlType.DOUBLE if function == "avg" else TYPES[argument]

    nodes = tuple(AggregateCallNode(f, a, d, type_of(f, a)) for f, a, d in calls)  # type: ignore[arg-type]
    return AggregateNode(SourceNode("s", TYPES), keys, nodes, withdrawn)


def exact_sum(values: Sequence[float]) -> float:
    """Of doubles: NaN and infinities as they are, everything else exact and rounded once."""
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for infinite in (math.inf, -math.inf):
        if infinite in values:
            return infinite
    total = sum((Fraction(v) for v in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def order(value: Any) -> Any:
    """NaN is above all numbers; texts are in the order of their bytes."""
    if isinstance(value, str):
        return value.encode()
    return (isinstance(value, float) and math.isnan(value), value)


def aggregate(call: Call, rows: Sequence[tuple[Any, ...]]) -> Any:
    function, argument, distinct = call
    if argument is None:
        return len(rows)
    values = [row[argument] for row in rows if row[argument] is not None]
    if distinct:
        values = list({row_key((value,)): value for value in values}.values())
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        best = (min if function == "min" else max)(values, key=order)
        return best + 0.0 if isinstance(best, float) else best
    if isinstance(values[0], float):
        total: Any = exact_sum(values)
    else:
        total = sum(values)
    return float(total) / len(values) if function == "avg" else total


def answer(changes: Sequence[Change], now: int, keys: int, calls: Sequence[Call]) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[tuple[Any, ...]]] = {(): []} if keys == 0 else {}
    for one in alive(changes, now):
        groups.setdefault(row_key(one.values[:keys]), []).append(one.values)
    return Counter(
        row_key((rows[0][:keys] if rows else ()) + tuple(aggregate(call, rows) for call in calls))
        for rows in groups.values()
    )


LEARNINGS: tuple[Learning, ...] = ("promises", "messages", "rows")


def small_rooms(patch: pytest.MonkeyPatch) -> None:
    """So little room that everything has to grow, and is cut wherever it can be."""
    patch.setattr(group_table, "MAX_EVENTS", 3)
    patch.setattr(group_table, "MAX_POINTS", 2)
    patch.setattr(group_table, "MIN_SLOTS", 1)
    patch.setattr(group_table, "MIN_KEYS", 2)
    patch.setattr(aggregates, "MIN_POOL", 2)
    patch.setattr(text_extreme, "MIN_TEXTS", 1)


@pytest.mark.parametrize("withdrawn", [False, True])
@pytest.mark.parametrize("keys", [0, 1, 2])
@settings(max_examples=40)
@given(data=st.data())
def test_every_instant_is_right(withdrawn: bool, keys: int, data: Any) -> None:
    changes = data.draw(drawn_changes(VALUES, withdrawn=withdrawn))
    calls = data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=len(CALLS), unique=True))
    node = node_of(keys, calls, withdrawn)
    learning = data.draw(st.sampled_from(LEARNINGS))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 99)))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            small_rooms(patch)
        operator = GroupBy(node, Queue(), TYPES, "g", learning)
        out = drive(operator, [changes], TYPES, seed)
    for now in instants(changes):
        if keys or now >= changes[0].ts:
            assert folded(out, now) == answer(changes, now, keys, calls), now
    if not any(change.ets > END for change in changes):
        assert operator.state_rows == 0
    if seed is None:
        check_net(out, keys)


def check_net(out: Sequence[Change], keys: int) -> None:
    """Within an instant no group says more than one -1 and one +1, and they differ."""
    seen: dict[Any, Change] = {}
    for row in out:
        place = (row.ts, row.sign, row_key(row.values[:keys]))
        assert place not in seen
        seen[place] = row
        other = seen.get((row.ts, -row.sign, row_key(row.values[:keys])))
        assert other is None or row_key(other.values) != row_key(row.values)


# Calls over one BIGINT column behind one key, rows without ets.
PAIR = (SqlType.BIGINT, SqlType.BIGINT)


def pair(
    calls: Sequence[Call], keys: int = 1, learning: Learning = "promises"
) -> tuple[GroupBy, Queue, Queue]:
    nodes = tuple(
        AggregateCallNode(f, a, d, SqlType.DOUBLE if f == "avg" else SqlType.BIGINT)  # type: ignore[arg-type]
        for f, a, d in calls
    )
    operator = GroupBy(AggregateNode(SourceNode("s", PAIR), keys, nodes, False), Queue(), PAIR, "g", learning)
    out = Queue()
    operator.output.queues.append(out)
    return operator, operator.inputs[0], out


def rows(ts: Sequence[int], keys: Sequence[int], values: Sequence[int], ets: Any = None) -> Batch:
    ends = None if ets is None else np.array(ets, np.int64)
    return Batch(
        np.array(ts, np.int64), [pa.array(keys, pa.int64()), pa.array(values, pa.int64())], None, ends
    )


def run(operator: GroupBy) -> None:
    while operator.step(32_768):
        operator._check()


def test_a_sum_beyond_int64_fails_after_what_came_before() -> None:
    operator, queue, out = pair([("sum", 1, False)])
    queue.put(rows([1, 2, 2, 3], [1, 2, 1, 3], [2**62, 5, 2**62, 7]))
    queue.promise(9)
    with pytest.raises(DataError, match="int64 overflow in `SUM`"):
        run(operator)
    assert [(row.ts, row.sign, row.values) for row in read(out)] == [(1, 1, (1, 2**62))]


def test_a_sum_may_leave_int64_within_an_instant() -> None:
    operator, queue, out = pair([("sum", 1, False)])
    queue.put(rows([1, 1, 1], [1, 1, 1], [2**62, 2**62, -(2**62)]))
    queue.promise(9)
    run(operator)
    assert [row.values for row in read(out)] == [(1, 2**62)]


@pytest.mark.parametrize("learning", ["promises", "messages", "rows"])
def test_without_keys_there_is_a_row_before_all_time(learning: Learning) -> None:
    """promise 3   message 4 (promise 5)   row at 7, which leaves at 9"""
    operator, queue, out = pair([("count", None, False), ("max", 1, False)], 0, learning)
    run(operator)
    queue.promise(3)
    run(operator)
    queue.tell([4])
    queue.promise(5)
    run(operator)
    queue.put(rows([7], [0], [6], [9]))
    queue.promise(8)
    run(operator)
    queue.promise(10)
    queue.close()
    run(operator)
    said = [(row.ts, row.sign, row.values) for row in read(out)]
    nothing = (0, None)
    assert said == [
        (BEGINNING, 1, nothing),
        (7, -1, nothing),
        (7, 1, (1, 6)),
        (9, -1, (1, 6)),
        (9, 1, nothing),
    ]
    assert operator.state_rows == 0


def test_memory_does_not_grow_with_the_keys_that_have_been() -> None:
    operator, queue, out = pair([("count", None, False), ("max", 1, False), ("count", 1, True)])
    size = 0
    for round_ in range(60):
        ts = np.arange(10_000) + 10_000 * round_
        queue.put(rows(ts, ts, ts % 7, ts + 1000))
        queue.promise(int(ts[-1]))
        run(operator)
        out.clear()
        if round_ == 5:
            size = operator.state_bytes
    assert operator.state_rows == 2000
    assert operator.state_bytes <= size
    queue.promise(10**9)
    run(operator)
    assert operator.state_rows == 0


def test_what_waits_in_a_queue_stays_true_when_slots_and_keys_are_used_again() -> None:
    operator, queue, out = pair([("count", None, False), ("sum", 1, False)])
    expected = []
    for round_ in range(200):
        ts = np.arange(50) + 50 * round_
        queue.put(rows(ts, ts, 2 * ts, ts + 10))
        queue.promise(int(ts[-1]))
        run(operator)
        expected += [(t, 1, (t, 1, 2 * t)) for t in ts.tolist()]
    said = [(row.ts, row.sign, row.values) for row in read(out)]
    assert [one for one in said if one[1] > 0] == expected


def test_many_groups_at_one_instant_come_out_in_bounded_batches() -> None:
    operator, queue, out = pair([("count", None, False)])
    many = 100_000
    queue.put(rows([5] * many, range(many), [0] * many, [9] * many))
    queue.promise(20)
    run(operator)
    assert all(batch.length <= 32_768 for batch in out.batches)
    signs = [(row.ts, row.sign) for row in read(out)]
    assert signs == [(5, 1)] * many + [(9, -1)] * many
    assert operator.state_rows == 0


def test_nothing_is_promised_beyond_what_may_still_come_out() -> None:
    """An operator that listens to rows alone has not heard of 20: its group may still go at 9."""
    operator, queue, out = pair([("count", None, False)], learning="rows")
    queue.put(rows([5], [1], [1], [9]))
    queue.promise(20)
    run(operator)
    assert out.punctuation == 9
    queue.put(rows([21], [2], [1], [30]))
    queue.promise(21)
    run(operator)
    assert [(row.ts, row.sign) for row in read(out)] == [(5, 1), (9, -1), (21, 1)]
    assert out.punctuation == 21


def test_the_memory_of_a_burst_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.changes.group_by.BURST_BYTES", 1 << 22)
    operator, queue, out = pair([("count", None, False), ("sum", 1, False), ("min", 1, False)])
    many = 60_000
    queue.put(rows([5] * many, range(many), range(many), [9] * many))
    queue.promise(8)
    run(operator)
    assert operator.state_rows == 2 * many and operator.state_bytes > 10 * many
    queue.put(rows([9], [1], [4], [11]))
    queue.promise(20)
    run(operator)
    assert operator.state_rows == 0 and operator.state_bytes < 4 * many
    queue.put(rows([21], [1], [5], [30]))
    queue.promise(22)
    run(operator)
    last = out.batches[-1]
    assert [last.column(i)[-1].as_py() for i in range(4)] == [1, 1, 5, 5]


def test_keys_and_arguments_without_a_type() -> None:
    """NULL as a key, and COUNT(NULL)."""
    types = (SqlType.NULL, SqlType.NULL)
    calls = (
        AggregateCallNode("count", 1, False, SqlType.BIGINT),
        AggregateCallNode("count", None, False, SqlType.BIGINT),
    )
    operator = GroupBy(AggregateNode(SourceNode("s", types), 1, calls, False), Queue(), types, "g", "rows")
    changes = [Change(1, 1, 5, (None, None)), Change(2, 1, 6, (None, None))]
    out = drive(operator, [changes], types, None)
    assert [(row.ts, row.sign, row.values) for row in out] == [
        (1, 1, (None, 0, 1)),
        (2, -1, (None, 0, 1)),
        (2, 1, (None, 0, 2)),
        (5, -1, (None, 0, 2)),
        (5, 1, (None, 0, 1)),
        (6, -1, (None, 0, 1)),
    ]


@pytest.mark.parametrize("learning", LEARNINGS)
def test_what_leaves_leaves_before_the_end(learning: Learning, monkeypatch: pytest.MonkeyPatch) -> None:
    small_rooms(monkeypatch)
    operator = GroupBy(node_of(0, [("count", None, False)], False), Queue(), TYPES, "g", learning)
    out = end_within_a_step(operator, TYPES)
    assert [folded(out, now) for now in range(16)] == [Counter([row_key((n,))]) for n in 8 * (1, 0)]
