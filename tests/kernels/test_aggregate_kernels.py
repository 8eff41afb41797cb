"""Kernels of aggregates and set operations against naive twins: lists of what is there at each point.

An event is a row that enters or leaves a group, a point the moment at which a group says what it is now
(engine/kernels/changes/groups.py). Drawn here: groups of events, each followed by the points it asks for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from change_joins_help import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_fingerprint import array_of
from test_group_kernels import in_order
from test_kernels import INT_MAX, INT_MIN, ints

from penstock.engine.changes.aggregates import Trees
from penstock.engine.changes.argument import NO_BYTES, encode
from penstock.engine.changes.group_table import NO_INTS
from penstock.engine.kernels.changes import exact_sum, groups, publish, set_operation, skyline
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.types import SqlType

GROUPS = 3
NO_TEXTS = (NO_INTS, np.empty(0, np.uint8))
some = settings(max_examples=examples(60))


def steps(event: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[list[Any], list[int]]]]:
    """Events, and the groups that are asked after them; again and again."""
    groups_ = st.integers(0, GROUPS - 1)
    return st.lists(st.tuples(st.lists(event, max_size=6), st.lists(groups_, unique=True)), max_size=8)


def int32(values: Any) -> NDArray:
    return np.array(values, np.int32)


def points_of(drawn: list[tuple[list[Any], list[int]]]) -> tuple[list[Any], NDArray, NDArray]:
    """All events; the slot of each point, and how many events are before it."""
    events = [event for part, _ in drawn for event in part]
    done = np.cumsum([len(part) for part, _ in drawn], dtype=np.int64).tolist()
    points = [(slot, until) for (_, asked), until in zip(drawn, done, strict=True) for slot in asked]
    return events, int32([slot for slot, _ in points]), int32([until for _, until in points])


SIGNED = st.tuples(st.integers(0, GROUPS - 1), st.sampled_from([1, 1, -1]))


@pytest.mark.twin("publish.run_counts")
@some
@given(steps(SIGNED))
def test_run_counts(drawn: list[Any]) -> None:
    events, slots, until = points_of(drawn)
    counts, value = np.zeros(GROUPS, np.int64), np.empty(len(slots), np.int64)
    slot, sign = int32([one for one, _ in events]), np.array([sign for _, sign in events], np.int8)
    publish.run_counts(slot, sign, len(events), slots, until, len(slots), counts, value)
    for point, group in enumerate(slots.tolist()):
        assert value[point] == sum(sign for one, sign in events[: until[point]] if one == group)
    assert counts.tolist() == [sum(sign for one, sign in events if one == group) for group in range(GROUPS)]


COPIES = {
    set_operation.DISTINCT: lambda left, right: min(left + right, 1),
    set_operation.UNION: lambda left, right: min(left + right, 1),
    set_operation.INTERSECT: lambda left, right: min(left, right, 1),
    set_operation.INTERSECT_ALL: min,
    set_operation.EXCEPT: lambda left, right: int(left > 0 and not right),
    set_operation.EXCEPT_ALL: lambda left, right: max(left - right, 0),
}


@pytest.mark.twin("set_operation.run_set_operation", "set_operation.tell_copies")
@pytest.mark.parametrize("kind", COPIES)
@settings(max_examples=examples(25))
@given(steps(st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 1), st.booleans())), st.integers(1, 5))
def test_run_tally_and_tell_copies(kind: int, drawn: list[Any], room: int) -> None:
    """Events (group, side, whether it is taken back, if there is one); output in pieces of any size."""
    events, slots, until = points_of(drawn)
    sides = [0 if kind == set_operation.DISTINCT else side for _, side, _ in events]
    signs: list[int] = []
    there: Counter[tuple[int, int]] = Counter()
    after = [Counter(there)]
    for (group, _, back), side in zip(events, sides, strict=True):
        signs.append(-1 if back and there[group, side] else 1)
        there[group, side] += signs[-1]
        after.append(Counter(there))
    wanted = [
        COPIES[kind](after[end][group, 0], after[end][group, 1])
        for group, end in zip(slots.tolist(), until.tolist(), strict=True)
    ]
    counts, target = np.zeros((GROUPS, 2), np.int64), np.empty(len(slots), np.int64)
    side_codes = NO_INTS if kind == set_operation.DISTINCT else ints(sides)
    set_operation.run_set_operation(
        int32([one for one, _, _ in events]), np.array(signs, np.int8), side_codes, len(events),
        slots, until, len(slots), counts, kind, target,
    )  # fmt: skip
    assert target.tolist() == wanted
    assert counts.tolist() == [[there[group, side] for side in (0, 1)] for group in range(GROUPS)]

    said, told, at = np.zeros(GROUPS, np.int64), [], 0
    point_ts, point_key = np.arange(len(slots)) + 50, np.arange(len(slots)) + 900
    while at < len(slots):
        ts, sign, key = np.empty(room, np.int64), np.empty(room, np.int8), np.empty(room, np.int64)
        at, count = set_operation.tell_copies(
            point_ts, slots, point_key, at, len(slots), target, said, ts, sign, key
        )  # fmt: skip
        assert count == room or at == len(slots)
        told += zip(ts[:count].tolist(), sign[:count].tolist(), key[:count].tolist(), strict=True)
    expected, copies = [], [0] * GROUPS
    for point, (group, number) in enumerate(zip(slots.tolist(), wanted, strict=True)):
        change = number - copies[group]
        expected += [(50 + point, 1 if change > 0 else -1, 900 + point)] * abs(change)
        copies[group] = number
    assert told == expected


ANSWER = st.tuples(*[st.one_of(st.none(), st.integers(0, 1))] * 2)
POINT = st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 1), ANSWER)


@pytest.mark.twin("publish.publish")
@some
@given(st.lists(st.lists(POINT, min_size=1, max_size=8), min_size=1, max_size=4), st.booleans())
def test_publish(batches: list[list[Any]], single: bool) -> None:
    """Points (group, rows in it, answers to two calls) against the answer each group gave last."""
    last, said = np.zeros(GROUPS, np.int64), np.zeros((GROUPS, 2), np.int64)
    said_valid, base = np.zeros((GROUPS, 3), np.uint8), 1
    answers: list[Any] = [None] * GROUPS
    for batch in batches:
        points = len(batch)
        value, valid = np.full((2, 2 * points), -9, np.int64), np.full((2, 2 * points), 9, np.uint8)
        for point, (_, _, answer) in enumerate(batch):
            value[:, point] = [cell or 0 for cell in answer]
            valid[:, point] = [cell is not None for cell in answer]
        key, ts = np.full(2 * points, -9, np.int64), np.empty(2 * points, np.int64)
        sign, row = np.empty(2 * points, np.int8), np.empty(2 * points, np.int64)
        count = publish.publish(
            (np.arange(points) + 50, int32([group for group, _, _ in batch]), ints([n for _, n, _ in batch]),
             np.arange(points) + 900, points), value, valid, key, (last, said, said_valid), base, single,
            (ts, sign, row),
        )  # fmt: skip
        base += 2 * points + 1
        found = []
        for at in range(count):
            cells = value[:, row[at]].tolist(), valid[:, row[at]].tolist()
            answer = tuple(number if there else None for number, there in zip(*cells, strict=True))
            found.append((int(ts[at]), int(sign[at]), answer))
            if sign[at] > 0:
                assert key[row[at]] == 900 + ts[at] - 50
        expected = []
        for point, (group, rows, answer) in enumerate(batch):
            new = answer if single or rows else None
            if new != answers[group]:
                expected += [(50 + point, -1, answers[group])] * (answers[group] is not None)
                expected += [(50 + point, 1, new)] * (new is not None)
                answers[group] = new
        assert found == expected


@pytest.mark.twin("groups.take_values")
@some
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(-1, 3), st.sampled_from([1, -1]))),
       st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=6, max_size=6))  # fmt: skip
def test_take_values(events: list[Any], values: list[int | None]) -> None:
    """Events (of a row or an entry, row, entry, sign): entries remember what rows put there."""
    kept: list[int | None] = [100, None, 102, 103]
    entry_code = ints([one or 0 for one in kept])
    entry_valid = np.array([one is not None for one in kept], np.uint8)
    events = [(is_row or entry < 0, row, entry, sign) for is_row, row, entry, sign in events]
    codes = np.empty(len(events), np.int64)
    signs = np.empty(len(events), np.int8)
    valid = np.array([one is not None for one in values], np.uint8)
    groups.take_values(
        np.array([sign for *_, sign in events], np.int8),
        int32([row if is_row else -1 for is_row, row, _, _ in events]),
        int32([entry for _, _, entry, _ in events]), len(events),
        frozen(ints([one or 0 for one in values])), frozen(NO_BYTES if valid.all() else valid),
        entry_code, entry_valid, codes, signs,
    )  # fmt: skip
    for place, (is_row, row, entry, sign) in enumerate(events):
        value = values[row] if is_row else kept[entry]
        if is_row and entry >= 0:
            kept[entry] = value
        assert signs[place] == (0 if value is None else sign)
        assert value is None or codes[place] == value
    there = [int(code) if is_valid else None for code, is_valid in zip(entry_code, entry_valid, strict=True)]
    assert there == kept


@pytest.mark.twin("groups.fill_table")
@some
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2)), unique=True, max_size=12), st.data())
def test_fill_table(prints: list[tuple[int, int]], data: st.DataObject) -> None:
    """Every group is found from where its fingerprint begins, before a free cell; free slots are not."""
    free = [data.draw(st.booleans()) for _ in prints]
    slots = np.zeros((12, groups.LINE), np.int64)
    slots[: len(prints), groups.A] = [a for a, _ in prints]
    slots[: len(prints), groups.B] = [b for _, b in prints]
    slots[: len(prints), groups.MARK] = [groups.FREE if one else groups.IDLE for one in free]
    table = np.full(32, -1, np.int32)
    groups.fill_table(slots, table, len(prints))
    assert sorted(table[table >= 0].tolist()) == [slot for slot, one in enumerate(free) if not one]
    for slot, (a, b) in enumerate(prints):
        cell = int(groups.bucket_of(np.int64(a ^ b), groups.shift_of(len(table))))
        while table[cell] >= 0 and table[cell] != slot:
            cell = (cell + 1) % len(table)
        assert (table[cell] == slot) != free[slot]


DOUBLES = st.one_of(
    st.none(), st.floats(), st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7e308])
)


@pytest.mark.twin("exact_sum.digit_range")
@some
@given(st.lists(DOUBLES, max_size=8))
def test_digit_range(values: list[float | None]) -> None:
    """Digits of 32 bits from the smallest double on: where the lowest bit of each mantissa lies."""
    array = array_of(values, SqlType.DOUBLE)
    codes = encode(array, SqlType.DOUBLE)[0]
    valid = np.array([value is not None for value in values], np.uint8) if array.null_count else NO_BYTES
    finite = [value for value in values if value and abs(value) < float("inf")]
    digits = [(max(np.frexp(value)[1] - 53, -1074) + 1074) // 32 for value in finite]
    wanted = (min(digits), max(digits)) if digits else (1, 0)
    assert exact_sum.digit_range(frozen(codes), frozen(valid)) == wanted


CODES = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([INT_MIN, INT_MAX]))
ROW = st.tuples(st.integers(0, GROUPS - 1), CODES, st.integers(0, 4))


class Stairs:
    """The kernels of MAX and MIN, as rows come: rings until they do not do, trees from then on."""

    def __init__(self, drawn: list[Any], in_order: bool, flip: int) -> None:
        """Rows (group, value, how long) come at one instant after the other, which ends with points."""
        rows, self.slots, self.until = points_of(drawn)
        came = [now for now, (part, _) in enumerate(drawn) for _ in part]
        self.point_ts = ints([now for now, (_, asked) in enumerate(drawn) for _ in asked])
        self.groups, self.values = [group for group, _, _ in rows], [value for _, value, _ in rows]
        self.ends = [now + (2 if in_order else life) for now, (_, _, life) in zip(came, rows, strict=True)]
        valid = np.array([value is not None for value in self.values], np.uint8)
        self.start = np.zeros(2, np.int64)
        codes = frozen(ints([value or 0 for value in self.values]))
        self.rows = codes, frozen(NO_BYTES if valid.all() else valid), frozen(ints(self.ends))
        self.value, self.valid = np.empty(len(self.slots), np.int64), np.empty(len(self.slots), np.uint8)
        self.results = flip, False, self.value, self.valid
        self.best = min if flip else max
        self.rings, self.meta = np.zeros((GROUPS, 4), np.int64), np.zeros(skyline.CLASSES + 1, np.int64)
        self.pool = np.zeros((5, 2), np.int64)
        self.meta[skyline.USED] = 1

    def arguments(self, events: int, points: int) -> tuple[Any, ...]:
        """What both kernels are told of so many events and points."""
        happened = int32(self.groups), np.arange(len(self.groups), dtype=np.int32), events
        return happened, (self.point_ts, self.slots, self.until, points), self.rows, self.start

    def run_rings(self) -> int:
        """With more room whenever there is none; DONE or DISORDER."""
        while True:
            arguments = self.arguments(len(self.groups), len(self.slots))
            status = skyline.run_skyline(*arguments, (self.rings, self.pool, self.meta), *self.results)
            if status != skyline.GROW:
                return int(status)
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])

    def run_trees(self, trees: Trees) -> None:
        """In two calls, of which the second goes on with what the first kept."""
        trees.reserve(GROUPS, len(self.groups))
        half = max(int(self.start[0]), len(self.slots) // 2)
        for points in (half, len(self.slots)):
            events = len(self.groups) if points == len(self.slots) else int([0, *self.until][points])
            arguments = self.arguments(events, points)
            skyline.run_stairs(*arguments, (trees.roots, trees.arrays, NO_TEXTS), *self.results)
            self.start[:] = points, max(events, int(self.start[1]))

    def check(self, points: int) -> None:
        """What is there at each of the first points: rows before it that have not left."""
        for point, (now, group, until) in enumerate(
            zip(self.point_ts[:points], self.slots, self.until, strict=False)
        ):
            rows = list(zip(self.groups, self.values, self.ends, strict=True))[:until]
            there = [value for one, value, end in rows if one == group and value is not None and end > now]
            assert bool(self.valid[point]) == bool(there)
            assert not there or self.value[point] == self.best(there)


FLIPS = st.sampled_from([0, -1])


@pytest.mark.twin("skyline.run_skyline")
@some
@given(steps(ROW), FLIPS)
def test_run_skyline(drawn: list[Any], flip: int) -> None:
    """Rows leave in the order in which they come."""
    stairs = Stairs(drawn, True, flip)
    assert stairs.run_rings() == skyline.DONE
    stairs.check(len(stairs.slots))


@pytest.mark.twin("skyline.run_stairs")
@some
@given(steps(ROW), FLIPS)
def test_run_stairs(drawn: list[Any], flip: int) -> None:
    """Rows leave in any order, some before they have come."""
    stairs = Stairs(drawn, False, flip)
    stairs.run_trees(Trees())
    stairs.check(len(stairs.slots))


@pytest.mark.twin("skyline.rings_to_trees")
@some
@given(steps(ROW), FLIPS)
@example([([(0, 3, 2), (1, 1, 4), (0, 2, 3), (0, 9, 1)], [0, 1])], 0)
def test_rings_to_trees(drawn: list[Any], flip: int) -> None:
    """Rings up to the first row that leaves early, then trees: each has what its ring had, by ets."""
    stairs = Stairs(drawn, False, flip)
    status, trees = stairs.run_rings(), Trees()
    points = int(stairs.start[0]) if status == skyline.DISORDER else len(stairs.slots)
    stairs.check(points)
    rings, pool = stairs.rings, stairs.pool
    trees.reserve(GROUPS, int(rings[:, skyline.COUNT].sum()))
    skyline.rings_to_trees(rings, pool, trees.roots, trees.arrays, NO_TEXTS)
    keys, codes, _, _ = trees.arrays
    for group, (block, size, head, count) in enumerate(rings.tolist()):
        ring = [pool[block + (head + i) % size].tolist() for i in range(count)]
        nodes = in_order(trees, int(trees.roots[group]))
        assert [[int(keys[node]), int(codes[node])] for node in nodes] == ring
    if status == skyline.DISORDER:
        stairs.run_trees(trees)
        stairs.check(len(stairs.slots))
