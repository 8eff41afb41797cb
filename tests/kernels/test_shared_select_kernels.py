"""Kernels of selects that run together, against loops over everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.kernels.joins.shared_select import count_bit, find_bit, gather_rows
from penstock.engine.members.lineage import Demand, Tags
from penstock.engine.selects.shared_select import RowIndex


@pytest.mark.twin("shared_select.find_bit", "shared_select.count_bit", "shared_select.gather_rows")
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(0, 63), st.data())
def test_rows_with_a_bit_and_their_values(words: list[int], place: int, data: st.DataObject) -> None:
    bit = (np.ones(1, np.uint64) << np.uint64(place)).view(np.int64)[0]
    array = np.array(words, np.int64)
    expected = [i for i, word in enumerate(words) if word >> place & 1]
    out = np.empty(len(words), np.int32)
    assert out[: find_bit(array, bit, out)].tolist() == expected
    assert count_bit(array, bit) == len(expected)
    rows = data.draw(st.lists(st.integers(0, len(words) - 1), max_size=9)) if words else []
    for dtype in (np.int32, np.int64):
        values = np.empty(len(rows), np.int64)
        gather_rows(array, np.array(rows, dtype), values)
        assert values.tolist() == [words[row] for row in rows]


def naive_report(demands: list[Demand], tags: Tags) -> list[tuple[int, int]]:
    """(row, lane) of all rows and lanes, each looked at."""
    return [
        (row, lane)
        for row in range(tags.leaves.shape[1])
        for lane, demand in enumerate(demands)
        if all(demand.low <= tags.leaves[:, row])
        and all(tags.leaves[:, row] <= demand.high)
        and all(tags.words[:, row] & demand.bits == demand.bits)
    ]


@pytest.mark.twin("shared_select.report_rows")
@given(st.data())
def test_lanes_of_rows_are_those_found_by_looking_at_each(data: st.DataObject) -> None:
    draw = data.draw
    leaf_counts = draw(st.lists(st.integers(1, 9), max_size=3))
    words = draw(st.integers(0, 2))
    size = draw(st.integers(1, 12))

    def array(low: int, high: int, shape: tuple[int, ...], dtype: type) -> NDArray:
        count = int(np.prod(shape))
        return np.array(
            draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), dtype
        ).reshape(shape)

    demands = []
    for _ in range(draw(st.integers(1, 8))):
        low, high = (array(0, 8, (len(leaf_counts),), np.int32) for _ in range(2))
        full = array(0, 1, (len(leaf_counts),), np.int32) == 1
        low[full], high[full] = 0, np.array(leaf_counts, np.int32)[full] - 1
        demands.append(Demand(low, high, array(0, 3, (words,), np.int64)))
    leaves = np.minimum(
        array(0, 8, (len(leaf_counts), size), np.int32), np.array(leaf_counts).reshape(-1, 1) - 1
    )
    tags = Tags(leaves.astype(np.int32), array(0, 3, (words, size), np.int64))
    parts = zip(*((one.low, one.high, one.bits) for one in demands), strict=True)
    index = RowIndex(Demand(*map(np.stack, parts)), leaf_counts)
    index._check()
    lanes, rows = np.empty((2, draw(st.integers(len(demands), 40))), np.int32)
    found: list[tuple[int, int]] = []
    start = 0
    while start < size:
        count, after = index.report_rows(tags, start, lanes, rows)
        assert after > start
        start = after
        found += zip(rows[:count].tolist(), lanes[:count].tolist(), strict=True)
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    assert sorted(found) == naive_report(demands, tags)
    index.count(0, np.zeros(size, np.int64), None, tags.leaves, tags.words)
    assert index.settle().tolist() == [sum(lane == one for _, lane in found) for one in range(len(demands))]
