"""Kernels of keys that grow against plain loops over their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.ordered_keys.fifo_tails import fifo_tails
from penstock.engine.kernels.ordered_keys.follow_keys import follow_keys
from penstock.engine.kernels.ordered_keys.order_arrivals import order_arrivals
from penstock.engine.kernels.ordered_keys.too_late import came_too_late

LEAST = -(1 << 63)
KEYS = st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=40)


def behind(keys: list[int | None], j: int) -> int:
    """How many rows behind the first that is not less a row comes; 0: behind none."""
    key = keys[j]
    if key is None:
        return 0
    return max((j - i for i in range(j) if keys[i] is not None and keys[i] >= key), default=0)  # type: ignore[operator]


def naive_follow(
    keys: list[int | None], declared: int, warm: int, step: int, steps: int
) -> list[tuple[int, int]]:
    """After each row: the frontier, and the factor."""
    found, frontier = [], LEAST
    for n in range(1, len(keys) + 1):
        factor = declared
        if declared < 0:
            begin = max(0, (n - 1) // step - steps + 1) * step
            factor = max(behind(keys, j) for j in range(begin, n))
        passed = [key for key in keys[: max(0, n - factor)] if key is not None and n >= warm]
        frontier = max([frontier, *(key + 1 for key in passed)])
        found.append((frontier, factor))
    return found


@pytest.mark.twin("follow_keys.follow_keys")
@given(
    KEYS,
    st.integers(-1, 6),
    st.sampled_from([0, 5, 20]),
    st.sampled_from([(1, 3), (4, 2), (7, 5), (100, 1)]),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_follow_keys(
    keys: list[int | None], declared: int, warm: int, steps: tuple[int, int], cuts: list[int]
) -> None:
    records, codes = np.zeros((2, len(keys) + 1), np.int64)
    peaks = np.zeros(steps[1], np.int64)
    first, end, at, frontier = 0, 0, -1, LEAST
    found: list[tuple[int, int]] = []
    edges = [0, *sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    for start, stop in itertools.pairwise(edges):
        part = keys[start:stop]
        frontiers, factors = np.zeros((2, len(part)), np.int64)
        first, end, at, frontier = follow_keys(
            np.array([key or 0 for key in part], np.int64),
            np.array([key is not None for key in part], np.uint8),
            start, records, codes, first, end, at, peaks, steps[0], declared, warm, 1_000, frontier,
            frontiers, factors,
        )  # fmt: skip
        found += zip(frontiers.tolist(), factors.tolist(), strict=True)
    assert found == naive_follow(keys, declared, warm, *steps)


@pytest.mark.twin("order_arrivals.order_arrivals")
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=8), min_size=2, max_size=4)
)
def test_order_arrivals(drawn: list[list[tuple[int, int]]]) -> None:
    """Frontiers rise by what was drawn; of equal times the last side comes first."""
    sides = [sorted(rows) for rows in drawn]
    rows = [(ts, -side, at) for side, own in enumerate(sides) for at, (ts, _) in enumerate(own)]
    starts = np.cumsum([0, *map(len, sides)])
    ts = np.array([ts for own in sides for ts, _ in own], np.int64)
    frontiers = np.concatenate([np.cumsum([rise for _, rise in own]) for own in sides]).astype(np.int64)
    now = np.zeros(len(sides), np.int64)
    lowest, second, who, places = np.empty((4, len(ts)), np.int64)
    order_arrivals(ts, starts, frontiers, now, lowest, second, who, places)
    known = [0] * len(sides)
    for place, (_, side, at) in enumerate(sorted(rows)):
        row = int(starts[-side]) + at
        assert places[row] == place
        assert [lowest[row], second[row]] == sorted(known)[:2]
        assert known[int(who[row])] == lowest[row]
        known[-side] = int(frontiers[row])
    assert now.tolist() == known


@pytest.mark.twin("too_late.came_too_late")
@given(st.data())
def test_came_too_late(data: st.DataObject) -> None:
    others = data.draw(st.lists(st.integers(0, 9), max_size=8))
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12), st.integers(0, len(others))), max_size=8)
    )
    gone = data.draw(st.one_of(st.none(), st.integers(0, 9)))
    codes, floors, until = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    late = np.zeros(len(rows), np.uint8)
    has_gone = gone is not None
    came_too_late(codes, floors, until, np.array(others, np.int64), gone or 0, has_gone, late)
    expected = [
        any(key <= other < floor for other in others[:count]) or (gone is not None and gone >= key)
        for key, floor, count in rows
    ]
    assert late.tolist() == expected


@pytest.mark.twin("fifo_tails.fifo_tails")
@given(st.data())
def test_fifo_tails(data: st.DataObject) -> None:
    sides = data.draw(st.integers(2, 4))
    number = data.draw(st.integers(0, sides - 1))
    codes = data.draw(st.lists(st.integers(0, 9), max_size=12))
    come = data.draw(st.integers(0, len(codes)))
    now = data.draw(st.lists(st.integers(0, 4), min_size=sides, max_size=sides))
    factor = data.draw(st.integers(0, 3))
    kept = len(codes) - come
    others = data.draw(st.lists(st.integers(0, sides - 1), max_size=10))
    owners = data.draw(st.permutations([number + sides] * kept + others))  # sides more: a row that is kept
    rises = data.draw(st.lists(st.integers(0, 2), min_size=len(owners), max_size=len(owners)))
    after = data.draw(st.lists(st.integers(0, 3), min_size=len(owners), max_size=len(owners)))
    frontier, frontiers = list(now), []
    for owner, rise in zip(owners, rises, strict=True):
        frontier[owner % sides] += rise
        frontiers.append(frontier[owner % sides])
    tails = np.zeros(len(owners), np.int64)
    last = fifo_tails(
        np.array(codes, np.int64), come, np.argsort(codes, kind="stable").astype(np.int64), number, factor,
        np.array(owners, np.int64) % sides, np.array([owner >= sides for owner in owners], np.uint8),
        np.array(frontiers, np.int64), np.array(after, np.int64), np.array(now, np.int64), tails,
    )  # fmt: skip
    held, expected, tail = codes[:come], [], 0
    frontier = list(now)
    for at, owner in enumerate(owners):
        expected.append(tail)
        if owner >= sides:
            held = codes[: len(held) + 1]
        if owner % sides == number:
            factor = after[at]
        frontier[owner % sides] = frontiers[at]
        needed = max(
            max(1, sum(code >= one for code in held[tail:]) + factor)
            for other, one in enumerate(frontier)
            if other != number
        )
        tail = max(tail, len(held) - needed)
    assert (tails.tolist(), last) == (expected, tail)


@pytest.mark.twin("most_alike.most_alike")
@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=6), st.integers(0, 6))
def test_most_alike(parts: list[list[int]], dropped: int) -> None:
    index, keys = HashIndex(5), list[int]()
    tail = 0
    for part in parts:
        first = index.end
        index.insert(np.array(part, np.int64))
        keys += part
        expected = max(
            (keys[tail : place + 1].count(keys[place]) for place in range(first - 5, len(keys))), default=0
        )
        assert index.most_alike(first) == expected
        tail = min(dropped, len(keys))
        index.purge(5 + tail)
