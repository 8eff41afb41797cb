"""Kernels that deal pairs out to a few members, against naive twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.kernels.joins.deal import (
    LABELS,
    TS,
    count_takers,
    deal_pairs,
    find_takers,
    label_pairs,
    order_runs,
)

ROW = st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 1, 2, 3]))
DEMAND = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 1, 2, 3]))


@pytest.mark.twin("deal.find_takers")
@given(st.lists(ROW, max_size=20), st.lists(DEMAND, max_size=5))
def test_find_takers(rows: list[tuple[int, int, int]], demands: list[tuple[int, int, int, int]]) -> None:
    table = np.array(rows, np.int64).reshape(-1, 3).T
    asked = np.array(demands, np.int64).reshape(-1, 4).T
    low = np.array([asked[0], np.zeros_like(asked[2])]).T.astype(np.int32)
    high = np.array([asked[1], asked[2]]).T.astype(np.int32)
    out = np.empty(len(rows), np.int64)
    find_takers(
        table[:2].astype(np.int32), table[2:].copy(), low.copy(), high.copy(), asked[3][:, None].copy(), out
    )
    expected = [
        sum(
            1 << m
            for m, (least, most, other, bits) in enumerate(demands)
            if least <= one <= most and two <= other and word & bits == bits
        )
        for one, two, word in rows
    ]
    assert out.tolist() == expected


@pytest.mark.twin("deal.label_pairs")
@given(
    pos=st.lists(st.integers(0, 20), min_size=1, max_size=12).map(sorted),
    gaps=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    sizes=st.lists(st.integers(1, 15), min_size=1, max_size=4),
    is_left=st.booleans(),
    data=st.data(),
)
def test_label_pairs(
    pos: list[int], gaps: list[int], sizes: list[int], is_left: bool, data: st.DataObject
) -> None:
    """Rows 5, 6, ... and probers after the last of them; the pairs come in two portions."""
    base, lifetime = 5, max(sizes)
    times = (np.cumsum(gaps) + pos[-1]).tolist()
    pairs = [
        (p, base + i)
        for p, now in enumerate(times)
        for i in reversed(range(len(pos)))
        if now - pos[i] < lifetime and data.draw(st.booleans())
    ]
    bits = (1 << len(sizes)) - 1
    own = data.draw(st.lists(st.integers(0, bits), min_size=len(times), max_size=len(times)) | st.just([]))
    takers = data.draw(st.lists(st.integers(0, bits), min_size=len(pos), max_size=len(pos)) | st.just([]))
    ends = np.unique(sizes)
    by_age = np.array([sum(1 << m for m, size in enumerate(sizes) if size >= end) for end in ends])
    found = tuple(np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), ())))
    out = np.empty((LABELS, len(pairs) + 1), np.int64)
    young = np.full(len(ends) - 1, base, np.int64)
    at = count = 0
    for bound in (times[len(times) // 2], times[-1]):
        at, count = label_pairs(
            found, at, len(pairs), bound,
            (np.array(times, np.int64), 100 + np.arange(len(times)), np.array(own, np.int64)),
            (np.array(pos, np.int64), base, base + len(pos), np.array(takers, np.int64), base, 1_000),
            ends[:-1].copy(), young, by_age, is_left, out, count,
        )  # fmt: skip
    expected = []
    for p, row in pairs:
        age = times[p] - pos[row - base]
        taken = sum(1 << m for m, size in enumerate(sizes) if age < size)
        taken &= (own[p] if own else bits) & (takers[row - base] if takers else bits)
        refs = (1_000 + row, 100 + p) if is_left else (100 + p, 1_000 + row)
        if taken:
            expected.append((times[p], *refs, taken))
    assert at == len(pairs)
    assert [tuple(label) for label in out[:, :count].T.tolist()] == expected


@pytest.mark.twin("deal.order_runs")
@given(st.lists(st.lists(st.integers(0, 9), max_size=8).map(sorted), min_size=1, max_size=5))
def test_order_runs(runs: list[list[int]]) -> None:
    times = np.array([time for run in runs for time in run], np.int64)
    starts = np.cumsum([0, *map(len, runs)])
    order = np.empty(len(times), np.int32)
    order_runs(times, starts, order)
    assert order.tolist() == np.argsort(times, kind="stable").tolist()


@pytest.mark.twin("deal.count_takers", "deal.deal_pairs")
@given(st.lists(st.integers(0, 7), max_size=20), st.randoms())
def test_pairs_are_dealt_by_bit(takers: list[int], chance: np.random.RandomState) -> None:
    labels = np.array([range(len(takers)), range(10, 10 + len(takers)), range(len(takers)), takers], np.int64)
    labels = labels.reshape(LABELS, len(takers))
    order = list(range(len(takers)))
    chance.shuffle(order)
    counts = np.zeros(3, np.int64)
    count_takers(labels[3], counts)
    for member in range(3):
        expected = [i for i in order if takers[i] >> member & 1]
        assert counts[member] == len(expected)
        out = [np.empty(len(expected) + 1, np.int64) for _ in range(3)]
        deal_pairs(labels, np.array(order, np.int32), member, *out)
        assert out[TS][:-1].tolist() == expected
        assert out[1][:-1].tolist() == [10 + i for i in expected]
