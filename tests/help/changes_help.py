"""Drawn changes of a bag, ways to put them into queues, and the bag they make, computed the plain way."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.rows.window import FOREVER

END = 10_000


@dataclass(frozen=True)
class Change:
    ts: int
    sign: int
    ets: int
    values: tuple[Any, ...]


def same(value: Any) -> Any:
    """A value by which equals are equal: NaN is itself, 0.0 is -0.0, 1 is not 1.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (float, value + 0.0)
    return (type(value), value)


def row_key(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(same(value) for value in values)


@st.composite
def drawn_changes(
    draw: Any, values: st.SearchStrategy, *, withdrawn: bool, lives: Sequence[int | None] = (1, 4, 9, None)
) -> list[Change]:
    """Up to 40 changes: ties, gaps, duplicates, and rows withdrawn that are there."""
    changes: list[Change] = []
    ts = draw(st.integers(-5, 5))
    for _ in range(draw(st.integers(0, 40))):
        ts += draw(st.sampled_from((0, 0, 1, 2, 7)))
        there = alive(changes, ts)
        if withdrawn and there and draw(st.integers(0, 2)) == 0:
            one = there[draw(st.integers(0, len(there) - 1))]
            changes.append(Change(ts, -1, one.ets, one.values))
        else:
            life = draw(st.sampled_from(tuple(lives)))
            changes.append(Change(ts, 1, FOREVER if life is None else ts + life, draw(values)))
    return changes


def alive(changes: Sequence[Change], now: int) -> list[Change]:
    """The rows that are there at this instant."""
    there: dict[Any, list[Change]] = {}
    for change in changes:
        if change.ts > now:
            break
        same_rows = there.setdefault((change.ets, row_key(change.values)), [])
        if change.sign > 0:
            same_rows.append(change)
        else:
            same_rows.pop()
    return [one for rows in there.values() for one in rows if one.ets > now]


def instants(changes: Sequence[Change]) -> list[int]:
    """All instants at which something happens."""
    times = {change.ts for change in changes} | {change.ets for change in changes}
    return sorted(time for time in times if time <= END)


def as_batch(changes: Sequence[Change], types: Sequence[SqlType]) -> Batch:
    columns = [
        pa.array([change.values[i] for change in changes], ARROW_TYPES[t], from_pandas=False)
        for i, t in enumerate(types)
    ]
    sign = np.array([change.sign for change in changes], np.int8)
    ets = np.array([change.ets for change in changes], np.int64)
    return Batch(
        np.array([change.ts for change in changes], np.int64),
        columns,
        None if (sign == 1).all() else sign,
        None if (ets == FOREVER).all() else ets,
    )


def drive(
    operator: Operator,
    streams: Sequence[Sequence[Change]],
    types: Sequence[SqlType],
    seed: int | None,
    check: Callable[[], None] | None = None,
) -> list[Change]:
    """Put the changes in, cut and stepped at random (seed None: all at once), to the end. What comes out."""
    chance = random.Random(seed)
    out = Queue()
    operator.output.queues.append(out)
    at = [0] * len(streams)
    while any(at[i] < len(stream) for i, stream in enumerate(streams)):
        for i, (queue, stream) in enumerate(zip(operator.inputs, streams, strict=True)):
            count = len(stream) if seed is None else chance.choice((0, 1, 1, 2, 5, 30))
            part = stream[at[i] : at[i] + count]
            at[i] += len(part)
            if part:
                queue.put(as_batch(part, types))
            until = stream[at[i]].ts if at[i] < len(stream) else END
            low = max(queue.punctuation, stream[at[i] - 1].ts if at[i] else BEGINNING)
            if part or (at[i] and chance.random() < 0.5):
                promised = until if seed is None else chance.choice((low, low, (low + until) // 2, until))
                if chance.random() < 0.3 and promised > queue.punctuation:
                    queue.tell([promised])
                queue.promise(max(queue.punctuation, promised))
        while chance.random() < 0.7 and operator.step(chance.choice((1, 3, 1000))):
            operator._check()
    for queue in operator.inputs:
        queue.promise(END)
        queue.close()
    for _ in range(10_000):
        if not operator.step(chance.choice((1, 3, 1000))):
            break
        operator._check()
    assert operator.output.closed and out.closed, "it has not come to an end"
    assert not operator.step(1000)
    operator._check()
    return read(out)


def end_within_a_step(operator: Operator, types: Sequence[SqlType]) -> list[Change]:
    """Rows come at 0, 2 ... 14 and leave 1 later; the end comes while they are worked. What comes out."""
    out, nothing = Queue(), (None,) * len(types)
    operator.output.queues.append(out)
    operator.inputs[0].put(as_batch([Change(ts, 1, ts + 1, nothing) for ts in range(0, 16, 2)], types))
    for queue in operator.inputs:
        queue.promise(14)
    assert operator.step(1_000)
    for queue in operator.inputs:
        queue.promise(END)
        queue.close()
    while operator.step(1_000):
        operator._check()
    assert out.closed
    return read(out)


def read(out: Queue) -> list[Change]:
    rows: list[Change] = []
    while out.batches:
        batch = out.pop()
        batch._check()
        columns = [batch.column(i).to_pylist() for i in range(batch.width)]
        rows += [
            Change(int(ts), int(sign), int(ets), tuple(column[i] for column in columns))
            for i, (ts, sign, ets) in enumerate(zip(batch.ts, batch.signs, batch.ends, strict=True))
        ]
    assert [row.ts for row in rows] == sorted(row.ts for row in rows), "out of time order"
    return rows


def folded(rows: Sequence[Change], now: int) -> Counter[tuple[Any, ...]]:
    """The bag at this instant; no row leaves it that is not in it."""
    bag: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        assert row.ets == FOREVER
        if row.ts <= now:
            bag[row_key(row.values)] += row.sign
            assert bag[row_key(row.values)] >= 0, "a row left that had not entered"
    return +bag
