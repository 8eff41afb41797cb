"""Changes of bags, drawn, pushed through an operator and folded; and how to be naive about them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.flow.queue import Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.rows.window import FOREVER

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
END = 40
"""Drawn changes happen before this; finite ends too."""


@dataclass(frozen=True)
class Change:
    """A row enters or leaves."""

    ts: int
    sign: int
    ets: int
    values: tuple[Any, ...]


def examples(count: int) -> int:
    """How many to draw: fewer where kernels are plain Python."""
    return count if JIT else count // 4


def same(value: Any) -> Any:
    """A value as rows are compared: NaN is NaN, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def row_of(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(same(value) for value in values)


@st.composite
def changes(draw: st.DrawFn, values: Any, ends: str, max_size: int = 14) -> list[Change]:
    """Rows that come and go. ends: finite, forever or both."""
    made: list[Change] = []
    live: list[Change] = []
    ts = 0
    for _ in range(draw(st.integers(0, max_size))):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        if ts >= END - 1:
            break
        live = [row for row in live if row.ets > ts]
        if live and draw(st.integers(0, 2)) == 0:
            place = draw(st.sampled_from([0, len(live) - 1, len(live) // 2]))
            gone = live.pop(place)
            made.append(Change(ts, -1, gone.ets, gone.values))
            continue
        is_finite = ends == "finite" or (ends == "both" and draw(st.booleans()))
        ets = draw(st.integers(ts + 1, min(END, ts + 12))) if is_finite else FOREVER
        row = Change(ts, 1, ets, draw(values))
        live.append(row)
        made.append(row)
    return made


def alive(rows: Sequence[Change], ts: int) -> list[tuple[Any, ...]]:
    """The rows that are there at an instant, in their order."""
    live: list[Change] = []
    for row in rows:
        if row.ts <= ts:
            if row.sign > 0:
                live.append(row)
            else:
                key = row.ets, row_of(row.values)
                live.pop(next(i for i, one in enumerate(live) if (one.ets, row_of(one.values)) == key))
    return [row.values for row in live if row.ets > ts]


def batch_of(rows: Sequence[Change], types: Sequence[SqlType], plain: bool) -> Batch:
    """plain: without signs and ends where they say nothing."""
    ts = np.array([row.ts for row in rows], np.int64)
    sign = np.array([row.sign for row in rows], np.int8)
    ets = np.array([row.ets for row in rows], np.int64)
    columns = [pa.array([row.values[i] for row in rows], ARROW_TYPES[type_]) for i, type_ in enumerate(types)]
    return Batch(
        ts,
        columns,
        None if plain and (sign > 0).all() else sign,
        None if plain and (ets == FOREVER).all() else ets,
    )


def rows_of(batch: Batch) -> list[Change]:
    columns = [batch.column(i).to_pylist() for i in range(batch.width)]
    values = list(zip(*columns, strict=True)) if columns else [()] * batch.length
    parts = batch.ts.tolist(), batch.signs.tolist(), batch.ends.tolist()
    return [Change(ts, sign, ets, row) for ts, sign, ets, row in zip(*parts, values, strict=True)]


class Fold:
    """What an operator gave, and whether it kept its word while it did."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.queue = Queue()
        operator.output.queues.append(self.queue)
        self.rows: list[Change] = []
        self.batches: list[int] = []
        self._held: list[Batch] = []

    def step(self, quantum: int) -> bool:
        promised = self.queue.punctuation
        worked = self.operator.step(quantum)
        self.operator._check()
        while self.queue.batches:
            batch = self.queue.pop()
            batch._check()
            assert batch.ts[0] >= promised, "older than what was promised"
            self._held.append(batch)
            self.batches.append(batch.length)
        return worked

    def read(self) -> list[Change]:
        """All rows so far; read late, when stores have moved on."""
        for batch in self._held:
            self.rows += rows_of(batch)
        self._held.clear()
        return self.rows

    def check_order(self) -> None:
        """Times do not go back, and nothing leaves that is not there."""
        there: Counter[Any] = Counter()
        last = -(1 << 62)
        for row in self.read():
            assert row.ts >= last, "output out of time order"
            last = row.ts
            key = row.ets, row_of(row.values)
            assert row.ets > row.ts, "a change of a row that has left already"
            there[key] += row.sign
            assert there[key] >= 0, f"{row} leaves and is not there"

    def at(self, ts: int) -> Counter[Any]:
        """The bag at an instant."""
        there: Counter[Any] = Counter()
        for row in self.read():
            if row.ts <= ts < row.ets:
                there[row_of(row.values)] += row.sign
        return +there


def push(
    fold: Fold,
    inputs: Sequence[tuple[Queue, Sequence[Change], Sequence[SqlType]]],
    seed: int,
    end: int = END + 1,
) -> None:
    """Rows into the queues in random parts, with promises now and then, and steps of any quantum between."""
    dice = random.Random(seed)
    waiting = [list(rows) for _, rows, _ in inputs]
    open_ = list(range(len(inputs)))
    while open_:
        which = dice.choice(open_)
        queue, _, types = inputs[which]
        rows = waiting[which]
        size = dice.choice([1, 2, 5, 20])
        part, waiting[which] = rows[:size], rows[size:]
        if part:
            queue.put(batch_of(part, types, dice.random() < 0.7))
        if dice.random() < 0.6:
            upto = waiting[which][0].ts if waiting[which] else end
            last = part[-1].ts if part else queue.punctuation
            ts = dice.choice([upto, last])
            if ts > queue.punctuation:
                queue.promise(ts)
        if not waiting[which] and dice.random() < 0.5:
            if queue.punctuation < end:
                queue.promise(end)
            queue.close()
            open_.remove(which)
        if dice.random() < 0.7:
            fold.step(dice.choice([1, 3, 1000]))
    for _ in range(10_000):
        if not fold.step(dice.choice([1, 3, 1000])):
            break
    else:
        raise AssertionError("it never ends")
    assert fold.queue.closed
