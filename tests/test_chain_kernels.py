"""The kernels of the chain against naive twins."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.expression import Column
from penstock.engine.kernels.slice_join import (
    AGE,
    AT_RECORD,
    CLOCK,
    CURSOR_SLOTS,
    FEMALE,
    FIELDS,
    HIGH_KEY,
    KEY,
    KIND,
    LEFT_ROW,
    LIFETIME,
    LOW_KEY,
    MALE,
    OWN_AGE,
    PAIR_FIELDS,
    POS,
    PROBED,
    PROBER_AGE,
    REACH,
    RIGHT_ROW,
    ROW,
    STATE_FIELDS,
    TIME,
    TS,
    run_slice,
    take_pairs,
    write_references,
)
from penstock.engine.types import SqlType
from penstock.engine.window import FOREVER

TYPES = (SqlType.BIGINT, SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR)
ARROW = pa.int64(), pa.int64(), pa.float64(), pa.string()
ID, K, V, S = (Column(type_, n, name) for n, (type_, name) in enumerate(zip(TYPES, "ikvs", strict=True)))


@dataclass
class NaiveSlice:
    """What run_slice does, one reference at a time, without any limit on the output."""

    start: int
    end: int
    limits: tuple[int, int]
    is_last: bool
    females: tuple[list[list[int]], list[list[int]]] = field(default_factory=lambda: ([], []))
    onward: list[list[int]] = field(default_factory=list)
    pairs: list[list[int]] = field(default_factory=list)

    def work(self, record: list[int]) -> None:
        kind = record[KIND]
        if kind in (FEMALE, FEMALE + 1):
            self.females[kind - FEMALE].append([record[ROW], record[POS], record[KEY], record[LIFETIME]])
            return
        clocks = (
            {0: record[CLOCK], 1: record[CLOCK + 1]} if kind == TIME else {MALE + 1 - kind: record[CLOCK]}
        )
        for side, clock in clocks.items():
            while self.females[side] and clock - self.females[side][0][1] >= self.limits[side]:
                row, pos, key, lifetime = self.females[side].pop(0)
                if lifetime > self.end and not self.is_last:
                    self.onward.append([record[TS], FEMALE + side, row, pos, key, lifetime, 0, 0])
        if kind != TIME and record[REACH] > self.start:
            side = MALE + 1 - kind
            for row, pos, key, _ in self.females[side]:
                age = record[CLOCK] - pos
                if age < record[REACH] and record[LOW_KEY] <= key <= record[HIGH_KEY]:
                    rows = (row, record[ROW]) if side == 0 else (record[ROW], row)
                    self.pairs.append([record[TS], *rows, side, age, record[OWN_AGE]])
        if not self.is_last:
            self.onward.append(record)


@st.composite
def reference_tables(draw: st.DrawFn) -> np.ndarray:
    records, now = [], 0
    for rows in range(draw(st.integers(0, 25))):
        now += draw(st.sampled_from([0, 0, 1, 3]))
        kind = draw(st.integers(0, 4))
        key = draw(st.integers(0, 2))
        if kind < MALE:
            records.append([now, kind, rows, now, key, draw(st.integers(1, 20)), 0, 0])
        elif kind < TIME:
            reach = draw(st.sampled_from([0, 2, 5, 9, FOREVER]))
            records.append([now, kind, rows, now, key, draw(st.integers(key - 1, 2)), reach, rows % 2])
        else:
            records.append([now, kind, 0, now, now, 0, 0, 0])
    return np.array(records, np.int64).reshape(-1, FIELDS).T.copy()


@settings(max_examples=150)
@given(
    reference_tables(),
    st.integers(0, 3),
    st.sampled_from([1, 4, FOREVER]),
    st.booleans(),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30)),
)
def test_run_slice_twin(
    records: np.ndarray, start: int, width: int, is_last: bool, rooms: tuple[int, int, int]
) -> None:
    """With any room for output, and stopped anywhere, the same comes out."""
    end = FOREVER if width == FOREVER else start + width
    limits = np.array([end, min(end, start + 2)], np.int64)
    naive_slice = NaiveSlice(start, end, (int(limits[0]), int(limits[1])), is_last)
    for record in records.T.tolist():
        naive_slice.work(record)
    state = np.empty((2, STATE_FIELDS, 64), np.int64)
    spans, cursor = np.zeros((2, 2), np.int64), np.zeros(CURSOR_SLOTS, np.int64)
    onward, pairs = np.empty((FIELDS, rooms[0]), np.int64), np.empty((PAIR_FIELDS, rooms[1]), np.int64)
    all_onward, all_pairs = [], []
    while cursor[AT_RECORD] < records.shape[1]:
        stop = min(int(cursor[AT_RECORD]) + rooms[2], records.shape[1])
        passed, found = run_slice(
            records, stop, cursor, state, spans, start, end, limits, is_last, onward, pairs
        )
        all_onward += onward[:, :passed].T.tolist()
        all_pairs += pairs[:, :found].T.tolist()
    assert all_onward == naive_slice.onward
    assert all_pairs == naive_slice.pairs
    for side in (0, 1):
        assert state[side, :, spans[side, 0] : spans[side, 1]].T.tolist() == naive_slice.females[side]


def test_run_slice_finds_matches_in_many_blocks() -> None:
    """More females than are compared at once, matches at both ends of blocks, output full in between."""
    count = 1_600
    keys = np.zeros(count, np.int64)
    keys[[0, 31, 32, 511, 512, 1_023, 1_024, 1_599]] = 1
    records = np.zeros((FIELDS, count + 1), np.int64)
    records[KIND, :count], records[ROW, :count] = FEMALE + 1, np.arange(count)
    records[KEY, :count], records[LIFETIME] = keys, 100
    records[:, count] = [0, MALE, 7, 0, 1, 1, 100, 0]
    for room in (1, 3, 1_000):
        state = np.empty((2, STATE_FIELDS, count), np.int64)
        spans, cursor = np.zeros((2, 2), np.int64), np.zeros(CURSOR_SLOTS, np.int64)
        onward, pairs = np.empty((FIELDS, 1), np.int64), np.empty((PAIR_FIELDS, room), np.int64)
        found_rows: list[int] = []
        while cursor[AT_RECORD] <= count:
            _, found = run_slice(
                records, count + 1, cursor, state, spans, 0, 100, np.array([100, 100]), True, onward, pairs
            )
            found_rows += pairs[RIGHT_ROW, :found].tolist()
            assert (pairs[LEFT_ROW, :found] == 7).all()
        assert found_rows == np.flatnonzero(keys).tolist()


@given(st.lists(st.integers(0, 4), max_size=8), st.lists(st.integers(0, 4), max_size=8))
def test_write_references_twin(left: list[int], right: list[int]) -> None:
    tables = []
    for side, times in enumerate((sorted(left), sorted(right))):
        table = np.arange(2 * FIELDS * len(times)).reshape(2 * FIELDS, -1) + 1_000 * side
        table[TS] = table[FIELDS + TS] = times
        tables.append(table)
    out = np.empty((FIELDS, 2 * (len(left) + len(right))), np.int64)
    write_references(tables[0], tables[1], out)
    rows = [
        (table[TS, i], -side, i, table) for side, table in enumerate(tables) for i in range(table.shape[1])
    ]
    expected = []
    for _, _, i, table in sorted(rows, key=lambda row: row[:3]):
        expected += [table[:FIELDS, i].tolist(), table[FIELDS:, i].tolist()]
    assert out.T.tolist() == expected


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 6), max_size=12), st.tuples(*[st.integers(0, 4)] * 6))
def test_take_pairs_twin(drawn: list[tuple[int, ...]], bounds: tuple[int, ...]) -> None:
    pairs = np.array(drawn, np.int64).reshape(-1, PAIR_FIELDS).T.copy()
    pairs[PROBED] %= 2
    windows, since = (np.array(bounds[n : n + 2], np.int64) for n in (0, 2))
    out = np.empty(pairs.shape[1], np.int64)
    count = take_pairs(pairs, windows, since, out)
    expected = []
    for n, pair in enumerate(pairs.T.tolist()):
        older = pair[PROBED]
        prober = 1 - older
        row = pair[LEFT_ROW] if prober == 0 else pair[RIGHT_ROW]
        if pair[AGE] < windows[older] and pair[PROBER_AGE] < windows[prober] and since[prober] <= row:
            expected.append(n)
    assert out[:count].tolist() == expected
