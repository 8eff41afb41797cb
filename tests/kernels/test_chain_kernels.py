"""The kernels of the chain against naive twins."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.expressions.expression import Column
from penstock.engine.kernels.chain.slice_join import (
    AT_RECORD,
    CLOCK,
    CURSOR_SLOTS,
    FEMALE,
    FIELDS,
    HIGH_KEY,
    KEY,
    KIND,
    LIFETIME,
    LOW_KEY,
    MALE,
    NOBODY,
    OF_FEMALE,
    OF_MALE,
    OWN_AGE,
    PAIR_FIELDS,
    POS,
    REACH,
    ROW,
    STATE_FIELDS,
    TIME,
    TS,
    first_males,
    fit_tags,
    fit_windows,
    merge_runs,
    rows_of_pairs,
    run_slice,
    write_references,
)
from penstock.engine.kernels.chain.slice_run import run_slices
from penstock.engine.kernels.joins.slices import build_slices
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

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
    met: list[int] = field(default_factory=lambda: [0, 0])

    def work(self, at: int, record: list[int]) -> None:
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
        if kind != TIME and record[REACH] > self.start and record[LOW_KEY] <= record[HIGH_KEY]:
            side = MALE + 1 - kind
            for row, pos, key, _ in self.females[side]:
                age = record[CLOCK] - pos
                self.met[side] += age < record[REACH]
                if age < record[REACH] and record[LOW_KEY] <= key <= record[HIGH_KEY]:
                    self.pairs.append([at, row, age])
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


@pytest.mark.twin("slice_join.run_slice")
@settings(max_examples=150)
@given(
    reference_tables(),
    st.integers(0, 3),
    st.sampled_from([1, 4, FOREVER]),
    st.booleans(),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30)),
    st.booleans(),
)
def test_run_slice_twin(
    records: np.ndarray, start: int, width: int, is_last: bool, rooms: tuple[int, int, int], counting: bool
) -> None:
    """With any room for output, and stopped anywhere, the same comes out."""
    end = FOREVER if width == FOREVER else start + width
    limits = np.array([end, min(end, start + 2)], np.int64)
    naive_slice = NaiveSlice(start, end, (int(limits[0]), int(limits[1])), is_last)
    for at, record in enumerate(records.T.tolist()):
        naive_slice.work(at, record)
    state = np.empty((2, STATE_FIELDS, 64), np.int64)
    spans, cursor = np.zeros((2, 2), np.int64), np.zeros(CURSOR_SLOTS, np.int64)
    onward, pairs = np.empty((FIELDS, rooms[0]), np.int64), np.empty((PAIR_FIELDS, rooms[1]), np.int64)
    all_onward, all_pairs, count, met = [], [], 0, np.zeros(2, np.int64)
    while cursor[AT_RECORD] < records.shape[1]:
        stop = min(int(cursor[AT_RECORD]) + rooms[2], records.shape[1])
        passed, found = run_slice(
            records, stop, cursor, state, spans, start, end, limits, is_last, onward, 0, pairs, counting, met
        )
        all_onward += onward[:, :passed].T.tolist()
        all_pairs += pairs[:, : 0 if counting else found].T.tolist()
        count += found
    assert all_onward == naive_slice.onward
    assert count == len(naive_slice.pairs)
    assert met.tolist() == naive_slice.met
    assert all_pairs == ([] if counting else naive_slice.pairs)
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
        state, met = np.empty((2, STATE_FIELDS, count), np.int64), np.zeros(2, np.int64)
        spans, cursor = np.zeros((2, 2), np.int64), np.zeros(CURSOR_SLOTS, np.int64)
        onward, pairs = np.empty((FIELDS, 1), np.int64), np.empty((PAIR_FIELDS, room), np.int64)
        found_rows: list[int] = []
        while cursor[AT_RECORD] <= count:
            limits = np.array([100, 100])
            _, found = run_slice(
                records, count + 1, cursor, state, spans, 0, 100, limits, True, onward, 0, pairs, False, met
            )
            found_rows += pairs[OF_FEMALE, :found].tolist()
            assert (pairs[OF_MALE, :found] == count).all()
        assert found_rows == np.flatnonzero(keys).tolist()


@pytest.mark.twin("slice_run.run_slices")
@settings(max_examples=150)
@given(
    st.lists(reference_tables(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4),
    st.booleans(),
    st.tuples(st.integers(1, 40), st.integers(1, 12)),
)
def test_run_slices_twin(
    tables: list[np.ndarray], shapes: list[tuple[int, bool]], is_last: bool, rooms: tuple[int, int]
) -> None:
    """Naive slices one after the other; with any room for queues and states, which grow when asked for."""
    ends = np.cumsum([width for width, _ in shapes]).tolist()
    starts = [0, *ends[:-1]]
    last = [is_last and end == ends[-1] for end in ends]
    slow = [NaiveSlice(*one) for one in zip(starts, ends, [(e, min(e, 5)) for e in ends], last, strict=True)]
    found = build_slices(np.arange(1, ends[-1] + 1))
    ranges = np.array([
        [start, end, end, min(end, 5), start, apart]
        for start, end, (_, apart) in zip(starts, ends, shapes, strict=True)
    ])  # fmt: skip
    queue_room, state_room = rooms
    data = [np.empty((2, STATE_FIELDS, state_room), np.int64) for _ in shapes]
    spans, flows = np.zeros((len(shapes), 2, 2), np.int64), np.zeros((len(shapes), 2), np.int64)
    tally, met = np.zeros(ends[-1] + 1, np.int64), np.zeros(2, np.int64)
    expected = np.zeros_like(tally)
    now = 0
    for table in tables:
        table = table.copy()
        table[TS] += now  # later than those before
        table[CLOCK] += now
        table[CLOCK + 1, table[KIND] == TIME] += now
        now = int(table[TS].max(initial=now))
        # 1. the twin
        waiting = table.T.tolist()
        for slice_, (_, apart) in zip(slow, shapes, strict=True):
            slice_.onward, slice_.pairs = [], []
            for at, record in enumerate(waiting):
                slice_.work(at, record)
            for _, _, age in slice_.pairs:
                expected[age if apart else slice_.start] += 1
            waiting = slice_.onward
        # 2. the kernel, and room where it lacks some
        records, number = np.asfortranarray(table), 0
        while True:
            sizes = np.cumsum([0, *(state.size for state in data)])
            flat = np.concatenate([state.ravel() for state in data])
            queues = tuple(np.empty((queue_room, FIELDS), np.int64).T for _ in range(2))
            number, queue, stop = run_slices(
                records, number, flat, np.stack([sizes[:-1], sizes[1:]], 1), spans, ranges, is_last, queues,
                np.empty((PAIR_FIELDS, 2), np.int64), (found.ends, found.first, found.shift), tally, flows,
                met,
            )  # fmt: skip
            data = [flat[low:high].reshape(2, STATE_FIELDS, -1).copy() for low, high in pairwise(sizes)]
            if queue >= 0:
                records = queues[queue][:, :stop].copy(order="F")
            if number == len(shapes):
                break
            assert stop == records.shape[1]
            queue_room = max(queue_room, 2 * stop + 100)
            wider = np.empty((2, STATE_FIELDS, 2 * data[number].shape[2] + stop), np.int64)
            wider[:, :, : data[number].shape[2]] = data[number]
            data[number] = wider
        assert (records.T.tolist() if stop else []) == waiting
        for slice_, state, (left, right) in zip(slow, data, spans.tolist(), strict=True):
            assert state[0, :, slice(*left)].T.tolist() == slice_.females[0]
            assert state[1, :, slice(*right)].T.tolist() == slice_.females[1]
    assert tally.tolist() == expected.tolist()
    assert flows[:, 1].sum() == expected.sum()
    assert met.tolist() == np.sum([slice_.met for slice_ in slow], axis=0).tolist()


@pytest.mark.twin("slice_join.write_references")
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


PAIR = st.tuples(*[st.integers(0, 4)] * 4, st.integers(0, 1))  # row and age of both; the side that probes


@pytest.mark.twin("slice_join.fit_windows", "slice_join.rows_of_pairs", "slice_join.fit_tags")
@given(st.lists(PAIR, max_size=12), st.tuples(*[st.integers(0, 4)] * 6), st.integers(0, 1))
def test_fits_twin(drawn: list[tuple[int, int, int, int, int]], bounds: tuple[int, ...], side: int) -> None:
    """Windows and since of a member, and a tag asked of one side."""
    records = np.zeros((FIELDS, 2 * len(drawn)), np.int64)
    pairs = np.zeros((PAIR_FIELDS, len(drawn)), np.int64)
    for n, (row, own_age, female, age, by) in enumerate(drawn):
        pairs[:, n] = 2 * n + 1, female, age
        records[[KIND, ROW, OWN_AGE], 2 * n + 1] = MALE + by, row, own_age
    windows, since = (np.array(bounds[n : n + 2], np.int64) for n in (0, 2))
    fits, rows = np.empty(len(drawn), np.uint8), np.empty((2, len(drawn)), np.int64)
    fit_windows(pairs, records, windows, since, fits)
    expected = [
        bool(age < windows[1 - by] and own_age < windows[by] and row >= since[by])
        for row, own_age, _, age, by in drawn
    ]
    assert fits.tolist() == expected
    rows_of_pairs(pairs, records, rows)
    of_side = [row if by == side else female for row, _, female, _, by in drawn]
    assert rows[side].tolist() == of_side
    base, low, high = 3, *sorted(bounds[4:])
    tags = np.arange(5) * 2 % 5
    fit_tags(pairs, records, side, np.concatenate([[9] * base, tags]), -base, low, high, 1, fits)
    expected = [
        bool(fit and low <= tags[row] <= high and tags[row] % 2)
        for fit, row in zip(expected, of_side, strict=True)
    ]
    assert fits.tolist() == expected


@pytest.mark.twin("slice_join.first_males")
@given(st.lists(st.sampled_from([FEMALE, FEMALE + 1, MALE, MALE + 1, TIME]), max_size=9))
def test_first_males_twin(kinds: list[int]) -> None:
    records = np.zeros((FIELDS, len(kinds)), np.int64)
    records[KIND], records[ROW] = kinds, np.arange(len(kinds)) + 5
    expected = [
        next((n + 5 for n, kind in enumerate(kinds) if kind == MALE + side), NOBODY) for side in (0, 1)
    ]
    assert list(first_males(records)) == expected


@pytest.mark.twin("slice_join.merge_runs")
@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=8), min_size=1, max_size=9))
def test_merge_runs_twin(drawn: list[list[int]]) -> None:
    """Of one ts, pairs come run by run, and in a run as they were."""
    runs = [sorted(run) for run in drawn]
    ts = np.array([ts for run in runs for ts in run], np.int64)
    rows = np.stack([np.arange(len(ts)), -np.arange(len(ts))])
    out_ts, out_rows = np.empty_like(ts), np.empty_like(rows)
    merge_runs(np.cumsum([len(run) for run in runs]), ts, rows, out_ts, out_rows)
    order = ts.argsort(kind="stable")
    assert out_ts.tolist() == ts[order].tolist()
    assert out_rows.tolist() == rows[:, order].tolist()
