"""ROWS windows as changes, against the last rows at each instant, taken from a list."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes_help import END, Change, as_batch, drive, folded, read, row_key
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.flow.queue import Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER
from penstock.engine.windows.rows_window import RowsWindow

TYPES = [SqlType.BIGINT, SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR]
KEYS = st.one_of(st.none(), st.integers(0, 2))
DOUBLES = st.sampled_from([None, float("nan"), 0.0, -0.0, 2.5])
TEXTS = st.sampled_from([None, "", "a", "b"])
PARTITIONS: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (1, 2), (3, 1)]


@st.composite
def arrivals(draw: st.DrawFn) -> list[Change]:
    """Rows with ties and gaps; the first column tells them apart."""
    rows, ts = [], draw(st.integers(-3, 3))
    for number in range(draw(st.integers(0, 40))):
        ts += draw(st.sampled_from([0, 0, 0, 1, 3]))
        rows.append(Change(ts, 1, FOREVER, (number, draw(KEYS), draw(DOUBLES), draw(TEXTS))))
    return rows


def window_at(rows: list[Change], size: int, partition: tuple[int, ...], now: int) -> Counter[Any]:
    """The last rows of each partition among those that have come by the end of an instant."""
    parts: dict[Any, list[Change]] = defaultdict(list)
    for row in rows:
        if row.ts <= now:
            parts[row_key([row.values[i] for i in partition])].append(row)
    return Counter(row_key(row.values) for part in parts.values() for row in part[-size:])


@settings(max_examples=200)
@given(
    arrivals(),
    st.integers(1, 5),
    st.sampled_from(PARTITIONS),
    st.one_of(st.none(), st.integers(0, 1 << 20)),
)
def test_rows_window_against_a_list(
    rows: list[Change], size: int, partition: tuple[int, ...], seed: int | None
) -> None:
    operator = RowsWindow(size, partition, Queue(), TYPES, "window")
    out = drive(operator, [rows], TYPES, seed)
    for now in sorted({row.ts for row in rows}):
        assert folded(out, now) == window_at(rows, size, partition, now)
    last = max((row.ts for row in rows), default=0)
    assert operator.state_rows == window_at(rows, size, partition, last).total()
    moves = [(row.ts, row_key(row.values)) for row in out]
    assert len(set(moves)) == len(moves), "nobody comes and goes in one instant"
    assert operator.counters.rows_in == len(rows)
    assert operator.counters.rows_out == len(out)


@given(arrivals(), st.integers(1, 5), st.sampled_from(PARTITIONS), st.integers(0, 1 << 20))
def test_rows_window_does_not_depend_on_cuts(
    rows: list[Change], size: int, partition: tuple[int, ...], seed: int
) -> None:
    whole = drive(RowsWindow(size, partition, Queue(), TYPES, "window"), [rows], TYPES, None)
    cut = drive(RowsWindow(size, partition, Queue(), TYPES, "window"), [rows], TYPES, seed)

    def by_instant(changes: list[Change]) -> Counter[Any]:
        return Counter((row.ts, row.sign, row_key(row.values)) for row in changes)

    assert by_instant(whole) == by_instant(cut)


def test_the_example_of_its_text() -> None:
    """ROWS 2 of rows a at 3, b and c at 5, d at 8: +a at 3; -a +b +c at 5; -b +d at 8.

    ::

        a   3 |=| 5
        b       5 |==| 8
        c       5 |=======
        d            8 |==
    """
    rows = [Change(ts, 1, FOREVER, (n, None, None, None)) for n, ts in enumerate((3, 5, 5, 8))]
    out = drive(RowsWindow(2, (), Queue(), TYPES, "window"), [rows], TYPES, None)
    moves = sorted((row.ts, row.sign, row.values[0]) for row in out)
    assert moves == [(3, 1, 0), (5, -1, 0), (5, 1, 1), (5, 1, 2), (8, -1, 1), (8, 1, 3)]


def test_more_rows_in_an_instant_than_the_window_holds() -> None:
    """Only the last ones were ever in it."""
    rows = [Change(3, 1, FOREVER, (n, None, None, None)) for n in range(10)]
    out = drive(RowsWindow(2, (), Queue(), TYPES, "window"), [rows], TYPES, None)
    assert sorted((row.ts, row.sign, row.values[0]) for row in out) == [(3, 1, 8), (3, 1, 9)]


def test_an_instant_waits_until_it_is_over() -> None:
    queue, out = Queue(), Queue()
    operator = RowsWindow(1, (), queue, TYPES, "window")
    operator.output.queues.append(out)
    rows = [Change(3, 1, FOREVER, (n, None, None, None)) for n in range(2)]
    queue.put(as_batch(rows[:1], TYPES))
    queue.promise(3)
    while operator.step(10):
        operator._check()
    assert (operator.state_rows, out.rows) == (0, 0)
    queue.put(as_batch(rows[1:], TYPES))
    queue.promise(4)
    while operator.step(10):
        operator._check()
    assert [row.values[0] for row in read(out)] == [1]
    assert operator.filled == 3


@pytest.mark.parametrize("size", [1, 3])
def test_when_the_window_was_first_full(size: int) -> None:
    """The ts of the row that filled it; with partitions that is not known."""
    rows = [Change(ts, 1, FOREVER, (ts, None, None, None)) for ts in (2, 4, 6, 8)]
    operator = RowsWindow(size, (), Queue(), TYPES, "window")
    drive(operator, [rows], TYPES, 1)
    assert operator.filled == rows[size - 1].ts
    operator = RowsWindow(size, (1,), Queue(), TYPES, "window")
    drive(operator, [rows], TYPES, 1)
    assert operator.filled is None


def test_state_is_bounded_by_the_windows() -> None:
    """Many rows, few partitions: no more is kept than the windows hold."""
    queue = Queue()
    operator = RowsWindow(3, (1,), queue, TYPES[:2], "window")
    operator.output.queues.append(Queue())
    chance, sizes = random.Random(1), set[int]()
    for start in range(0, END, 1000):
        ts = np.arange(start, start + 1000)
        keys = [chance.choice([None, 1, 2, 3]) for _ in ts]
        queue.put(Batch(ts, [pa.array(ts), pa.array(keys, pa.int64())]))
        queue.promise(start + 1000)
        while operator.step(100):
            operator._check()
        sizes.add(operator.state_bytes)
    assert operator.state_rows == 4 * 3
    assert max(sizes) < 100_000, "more is kept than as much again, or a little"
