"""Buffers against a plain list: rows by number, and whoever holds some of them keeps what it saw."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import SqlType


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_rows_and_views_stay_what_they_are(slides: bool, seed: int) -> None:
    chance = random.Random(seed)
    buffer = RowBuffer("int64")
    buffer.slides = slides
    held: list[tuple[NDArray, int, int]] = []
    for _ in range(200):
        rows = np.arange(buffer.end, buffer.end + chance.choice((0, 1, 50, 300, 1000)))
        if chance.random() < 0.5:
            buffer.append(rows)
        else:
            buffer.extend(len(rows))[:] = rows
        buffer.drop(buffer.end - chance.choice((0, 100, 700, 100_000)))
        buffer._check()
        assert np.array_equal(buffer.live, np.arange(buffer.tail, buffer.end))
        if chance.random() < 0.2 and len(buffer):
            first = chance.randrange(buffer.tail, buffer.end)
            held.append((buffer.run(first, buffer.end)[:7][::2], first, min(first + 7, buffer.end)))
        if chance.random() < 0.2:
            held = held[-2:]
        if chance.random() < 0.1:
            held.clear()
        for rows, first, end in held:
            assert np.array_equal(rows, np.arange(first, end)[::2]), "rows that somebody holds have changed"


def test_a_buffer_that_nobody_holds_uses_its_memory_again() -> None:
    buffer = RowBuffer("int64")
    buffer.slides = True
    arrays = set()
    for _ in range(100):
        buffer.append(np.arange(1000))
        buffer.drop(buffer.end - 300)
        arrays.add(buffer.data.ctypes.data)
    assert len(arrays) < 6


def test_a_store_that_fits_goes_on() -> None:
    """It takes what its rows need, keeps their numbers, and more can come."""
    store = Store((SqlType.BIGINT, SqlType.VARCHAR))
    for start in range(0, 3_000, 1_000):
        numbers = list(range(start, start + 1_000))
        store.append(np.array(numbers), [pa.array(numbers), pa.array(list(map(str, numbers)))])
        store.drop(start + 900)
        store.fit()
        store._check()
        assert store.nbytes < 100 * 32
        rows = (
            store.columns[0].run(start + 900, start + 1_000),
            store.columns[1].run(start + 900, start + 1_000),
        )
        assert [one.to_pylist() for one in rows] == [numbers[900:], [str(i) for i in numbers[900:]]]


def test_runs_of_a_store_outlive_its_rows() -> None:
    store = Store((SqlType.BIGINT, SqlType.VARCHAR, SqlType.BOOLEAN, SqlType.DOUBLE))
    store.slide()
    runs = []
    for start in range(0, 20_000, 500):
        numbers = list(range(start, start + 500))
        columns = [numbers, [None if i % 7 == 0 else str(i) for i in numbers]]
        columns += [[i % 3 == 0 for i in numbers], [i / 2 if i % 5 else None for i in numbers]]
        arrays = [pa.array(column, from_pandas=False) for column in columns]
        store.append(np.array(numbers), arrays)
        store.drop(store.ts.end - 300)
        store._check()
        made = [one.run(store.ts.tail, store.ts.end) for one in store.columns]
        assert made == [array.slice(200) for array in arrays]
        runs = [*runs[-3:], (made, [array.slice(200).to_pylist() for array in arrays])]
        for kept, wanted in runs:
            assert [array.to_pylist() for array in kept] == wanted
