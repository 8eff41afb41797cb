"""Kernels of keys that grow against plain loops over their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.ordered_keys.fifo_tails import fifo_tails
from penstock.engine.kernels.ordered_keys.follow_keys import (
    AT,
    COME,
    END,
    FIRST,
    FRONTIER,
    LINE,
    follow_keys,
    move_records,
)
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


@pytest.mark.twin("follow_keys.follow_keys", "follow_keys.move_records")
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.one_of(st.none(), st.integers(0, 12))), max_size=60),
    st.integers(-1, 6),
    st.sampled_from([0, 5, 20]),
    st.sampled_from([(1, 3), (4, 2), (7, 5), (100, 1)]),
    st.lists(st.integers(0, 60), max_size=4),
    st.booleans(),
)
def test_follow_keys(
    rows: list[tuple[int, int | None]],
    declared: int,
    warm: int,
    steps: tuple[int, int],
    cuts: list[int],
    tidies: bool,
) -> None:
    """Each sequence as if it were alone; the pool is as small as can be and grows."""
    lines, peaks = np.zeros((3, LINE), np.int64), np.zeros((3, steps[1]), np.int64)
    lines[:, AT], lines[:, FRONTIER] = -1, LEAST
    records, codes, pool = np.zeros(9, np.int64), np.zeros(9, np.int64), 0
    found: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    before: list[tuple[int, int]] = []
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in itertools.pairwise(edges):
        part = rows[start:stop]
        seen = np.zeros((4, len(part)), np.int64)
        befores, frontiers, tops, factors = seen
        given = (
            np.array([key or 0 for _, key in part], np.int64),
            np.array([key is not None for _, key in part], np.uint8),
            np.array([sequence for sequence, _ in part], np.int64),
        )
        row = 0
        while True:
            row, pool = follow_keys(
                given, row, lines, peaks, records, codes, pool, (steps[0], declared, warm, 1_000), seen
            )
            if row == len(part):
                break
            records, codes = np.resize(records, len(records) + 9), np.resize(codes, len(codes) + 9)
        for (sequence, _), one, factor in zip(part, frontiers.tolist(), factors.tolist(), strict=True):
            found[sequence].append((one, factor))
        before += zip(befores.tolist(), tops.tolist(), strict=True)
        if tidies:
            packed, packed_codes = np.zeros((2, pool), np.int64)
            pool = move_records(lines, records, codes, packed, packed_codes)
            records, codes = packed, packed_codes
    for sequence in range(3):
        own = [key for one, key in rows if one == sequence]
        expected = naive_follow(own, declared, warm, *steps)
        assert found[sequence] == expected
        known = [key for key in own if key is not None]
        line = lines[sequence]
        assert line[COME] == len(own) and (line[END] > line[FIRST]) == bool(known)
        if known:
            assert codes[line[END] - 1] == max(known)
        tops = [max((key for key in own[:at] if key is not None), default=LEAST) for at in range(len(own))]
        earlier = [LEAST, *(frontier for frontier, _ in expected)][: len(own)]
        mine = [seen for (one, _), seen in zip(rows, before, strict=True) if one == sequence]
        assert mine == list(zip(earlier, tops, strict=True))
    assert found[-1] == [(LEAST, 0)] * len(found[-1])


@pytest.mark.twin("order_arrivals.order_arrivals")
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(-1, 2)), max_size=6),
        min_size=2,
        max_size=4,
    ),
    st.data(),
)
def test_order_arrivals(drawn: list[list[tuple[int, int, int]]], data: st.DataObject) -> None:
    """Per side, rows: their ts, by how much the frontier of their sequence rises, which of three that is.
    Even sides have one sequence for all rows, odd ones are found by the rows' numbers."""
    sides = [sorted(rows, key=lambda row: row[0]) for rows in drawn]
    rows = sorted((ts, -side, at) for side, own in enumerate(sides) for at, (ts, _, _) in enumerate(own))
    starts = np.concatenate([[0], np.cumsum([len(own) for own in sides])]).astype(np.int64)
    ts = np.array([ts for own in sides for ts, _, _ in own], np.int64)
    own = np.array(
        [of if side % 2 else min(of, 0) for side, rows in enumerate(sides) for _, _, of in rows], np.int64
    )
    looked = data.draw(st.lists(st.integers(0, 2), min_size=len(ts), max_size=len(ts)))
    numbers = np.array([[0] * len(ts), looked], np.int64)
    numberings = np.arange(len(sides)) % 2
    begins = np.concatenate([[0], np.cumsum([3 if side % 2 else 1 for side in range(len(sides))])])
    nows = np.zeros(begins[-1], np.int64)
    frontiers = np.zeros(len(ts), np.int64)
    for side in range(len(sides)):
        for of in range(3):
            mine = [at for at in range(starts[side], starts[side + 1]) if own[at] == of]
            frontiers[mine] = np.cumsum([sides[side][at - starts[side]][1] for at in mine])
    found = np.empty((4, len(ts)), np.int64)
    order_arrivals(ts, starts, frontiers, own, numbers, numberings, begins, nows, found)
    lowest, second, who, places = found
    known = [[0, 0, 0] for _ in sides]
    for place, (_, side, at) in enumerate(rows):
        row = int(starts[-side]) + at
        seen = [known[one][looked[row] if one % 2 else 0] for one in range(len(sides))]
        assert places[row] == place
        assert [lowest[row], second[row]] == sorted(seen)[:2]
        assert seen[int(who[row])] == lowest[row]
        if own[row] >= 0:
            known[-side][int(own[row])] = int(frontiers[row])
    assert nows.tolist() == [one for side, own in enumerate(known) for one in (own if side % 2 else own[:1])]


@pytest.mark.twin("too_late.came_too_late")
@given(st.data())
def test_came_too_late(data: st.DataObject) -> None:
    cell = st.integers(0, 2)
    others = data.draw(st.lists(st.tuples(st.integers(0, 9), cell), max_size=8))
    rows = data.draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 12), st.integers(0, len(others)), cell), max_size=8
        )
    )
    gone = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=3, max_size=3))
    codes, floors, until, cells = (np.array([row[i] for row in rows], np.int64) for i in range(4))
    late = np.zeros(len(rows), np.uint8)
    came_too_late(
        codes, cells, floors, until, *(np.array([one[i] for one in others], np.int64) for i in range(2)),
        np.array([one or 0 for one in gone], np.int64), np.array([one is not None for one in gone], np.uint8),
        late,
    )  # fmt: skip
    expected = [
        any(key <= other < floor and of == own for other, of in others[:count])
        or (gone[own] is not None and gone[own] >= key)  # type: ignore[operator]
        for key, floor, count, own in rows
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
