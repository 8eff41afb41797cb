"""Kernels and lanes of panes against plain Python: slots, counts, sums, extremes, differences."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from change_joins_help import JIT, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes.argument import NO_BYTES, encode
from penstock.engine.kernels.hopping import panes as kernels
from penstock.engine.panes.pane_lanes import NOTHING, Counts, Extremes, Sums, TextExtremes
from penstock.engine.panes.pane_slots import PaneSlots
from penstock.engine.panes.pane_texts import PaneTexts
from penstock.engine.rows.types import ARROW_TYPES, SqlType

DOUBLES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -0.0, 0.1, 1e308, 5e-324, -1e308])
)
BIG = 1 << 62


@settings(max_examples=examples(60))
@given(st.data())
def test_slots_are_given_in_the_order_of_keys(data: st.DataObject) -> None:
    """Several batches, two columns, NULLs; some slots kept in between."""
    keys = st.tuples(st.one_of(st.none(), st.integers(-2, 40)), st.sampled_from([None, "", "x", "y"]))
    slots = PaneSlots((SqlType.BIGINT, SqlType.VARCHAR))
    known: list[Any] = []
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(keys, min_size=1, max_size=40))
        arrays = [pa.array(column, t) for column, t in zip(zip(*rows), (pa.int64(), pa.string()))]  # noqa: B905
        found = slots.find(arrays, len(rows))
        for row in rows:
            if row not in known:
                known.append(row)
        assert [known[slot] for slot in found.tolist()] == rows
        slots._check()
        if data.draw(st.booleans()):
            kept = sorted(data.draw(st.sets(st.integers(0, len(known) - 1))))
            slots.keep(np.array(kept, np.int64))
            known = [known[slot] for slot in kept]
            slots._check()
        assert list(zip(*(one.to_pylist() for one in slots.whole()), strict=True)) == known


def test_slots_grow() -> None:
    slots = PaneSlots((SqlType.BIGINT,))
    keys = np.random.default_rng(1).permutation(5_000 if JIT else 900)
    for part in np.array_split(keys, 3):
        slots.find([pa.array(part)], len(part))
    assert slots.used == len(keys) and slots.whole()[0].to_pylist() == keys.tolist()
    slots._check()


class Lanes:
    """Rows (slot, value or None) pane by pane, in our lanes and as a plain list."""

    def __init__(self, type_: SqlType) -> None:
        self.type = type_
        doubles = type_ is SqlType.DOUBLE
        self.counts, self.nulls, self.sums = Counts(), Counts(), Sums(doubles)
        self.extremes = {"min": Extremes(doubles, True), "max": Extremes(doubles, False)}
        self.edges = [0]
        self.panes: list[tuple[int, list[tuple[int, Any]]]] = []  # by the edge they end at

    @property
    def all(self) -> list[Any]:
        return [self.counts, self.nulls, self.sums, *self.extremes.values()]

    def pane(self, rows: list[tuple[int, Any]], used: int, sparse: bool = False) -> None:
        slots = np.array([slot for slot, _ in rows], np.int32)
        array = pa.array([value for _, value in rows], ARROW_TYPES[self.type], from_pandas=False)
        codes = encode(array, self.type)[0]
        raw = np.frombuffer(array.buffers()[1], np.int64, len(array))
        valid = np.array([value is not None for _, value in rows], np.uint8)
        valid = valid if array.null_count else NO_BYTES
        if self.type is SqlType.DOUBLE:
            self.sums.widen(codes, valid)
        cut = len(rows) // 2
        for start, stop in ((0, cut), (cut, len(rows))):
            self.counts.reserve(used)
            kernels.count_rows(slots, start, stop, self.counts.totals)
            if len(valid):
                self.nulls.reserve(used)
                kernels.count_nulls(slots, valid, start, stop, self.nulls.totals)
            self.sums.add(slots, codes, valid, start, stop, used)
            for one in self.extremes.values():
                one.add(slots, raw, valid, start, stop, used)
        edge = self.edges[-1] + 1
        touched = np.unique(slots) if sparse else None
        for lane in (self.counts, self.nulls, self.sums):
            lane.mark(edge, used, touched)
        for one in self.extremes.values():
            one.mark(self.edges[-1], used, touched)
        for lane in self.all:
            lane._check()
        self.edges.append(edge)
        self.panes.append((edge, rows))

    def values(self, edge: int, slot: int) -> list[Any]:
        return [v for end, rows in self.panes if end > edge for s, v in rows if s == slot]


def total_of(values: list[Any]) -> Any:
    """Exact, rounded once."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    infinite = [value for value in values if math.isinf(value)]
    if infinite:
        return infinite[0]
    try:
        return float(sum(map(Fraction, values)))
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


def order(value: float) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@pytest.mark.twin(
    "panes.count_rows", "panes.count_nulls", "panes.raise_extremes", "panes.add_sums", "panes.read_sums"
)
@settings(max_examples=examples(120))
@given(st.data())
@pytest.mark.parametrize("type_", [SqlType.DOUBLE, SqlType.BIGINT])
def test_lanes_from_any_edge(type_: SqlType, data: st.DataObject) -> None:
    """Whatever edges are dropped and slots kept on the way, every edge there is tells what came after it."""
    draw = data.draw
    value = DOUBLES if type_ is SqlType.DOUBLE else st.integers(-BIG, BIG)
    lanes, used = Lanes(type_), 1
    for _ in range(draw(st.integers(1, 12))):
        used = min(used + draw(st.integers(0, 2)), 5)
        row = st.tuples(st.integers(0, used - 1), st.one_of(value, value, st.none()))
        lanes.pane(draw(st.lists(row, min_size=1, max_size=5)), used, draw(st.integers(0, 4)) > 0)
        if draw(st.integers(0, 2)) == 0:
            gone = [edge for edge in lanes.edges[:-1] if draw(st.integers(0, 2)) == 0]
            for lane in lanes.all:
                lane.drop(gone)
            lanes.edges = [edge for edge in lanes.edges if edge not in gone]
            oldest = lanes.edges[0]
            lanes.panes = [pane for pane in lanes.panes if pane[0] > oldest]
        if draw(st.integers(0, 5)) == 0:
            kept = [s for s in range(used) if lanes.values(lanes.edges[0], s) or draw(st.booleans())]
            for lane in lanes.all:
                lane.keep(np.array(kept, np.int64))
            places = {slot: place for place, slot in enumerate(kept)}
            lanes.panes = [(end, [(places[s], v) for s, v in rows]) for end, rows in lanes.panes]
            used = max(len(kept), 1)
        compare(lanes, used)


def compare(lanes: Lanes, used: int) -> None:
    for edge in lanes.edges:
        counts, nulls = lanes.counts.since(edge, used), lanes.nulls.since(edge, used)
        sums, numbers, _ = lanes.sums.since(edge, used, True)
        extremes = {name: one.since(edge, used)[0] for name, one in lanes.extremes.items()}
        for slot in range(used):
            every = lanes.values(edge, slot)
            there = [value for value in every if value is not None]
            assert counts[slot] == len(every) and nulls[slot] == len(every) - len(there)
            assert numbers[slot] == len(there)
            if there:
                found = sums[slot : slot + 1].view(np.float64)[0]
                assert repr(found + 0.0) == repr(np.float64(total_of(there)) + 0.0)
            for name, pick in (("min", min), ("max", max)):
                if not there:
                    assert extremes[name][slot] == NOTHING
                    continue
                wanted = encode(pa.array([pick(there, key=order)], ARROW_TYPES[lanes.type]), lanes.type)[0][0]
                assert extremes[name][slot] ^ lanes.extremes[name].flip == wanted


@pytest.mark.twin("panes.changed")
@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.integers(0, 8))
def test_slots_that_have_changed(pairs: list[tuple[int, int]], used: int) -> None:
    used = min(used, len(pairs))
    counts, before = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    wanted = [slot for slot, (now, then) in enumerate(pairs[:used]) if now != then]
    rest = before[used:].tolist()
    out = np.empty(used, np.int32)
    assert out[: kernels.changed(counts, before, used, out)].tolist() == wanted
    assert before.tolist() == counts[:used].tolist() + rest


def test_a_sum_beyond_int64_is_told() -> None:
    lanes = Lanes(SqlType.BIGINT)
    lanes.pane([(0, BIG), (1, 5), (0, BIG)], 2)
    assert lanes.sums.since(0, 2, False)[2] == 0
    lanes.pane([(0, -BIG)], 2)
    value, _, bad = lanes.sums.since(0, 2, False)
    assert bad == -1 and value.tolist() == [BIG, 5]


TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "aa", "ab", "b", "\xe9", "z" * 20]))


@pytest.mark.twin("panes.raise_texts", "panes.join_texts", "panes.stay_with_texts")
@settings(max_examples=examples(60))
@given(st.data())
def test_extremes_of_texts(data: st.DataObject) -> None:
    """Panes of rows, windows from any edge, slots that come later; texts let go in between."""
    texts, draw = PaneTexts(), data.draw
    lanes = {True: TextExtremes(texts, True), False: TextExtremes(texts, False)}
    panes: list[list[tuple[int, str | None]]] = []
    used, said = 1, np.full(0, NOTHING, np.int64)
    for edge in range(draw(st.integers(1, 7))):
        used += draw(st.integers(0, 2))
        rows = draw(st.lists(st.tuples(st.integers(0, used - 1), TEXTS), min_size=1, max_size=6))
        panes.append(rows)
        array = pa.array([text for _, text in rows], pa.string())
        valid = np.array([text is not None for _, text in rows], np.uint8) if array.null_count else NO_BYTES
        slots, places = np.array([slot for slot, _ in rows], np.int32), texts.append(array)
        for lane in lanes.values():
            lane.add(slots, places, valid, 0, len(rows), used)
            lane.mark(edge, used, np.unique(slots) if draw(st.booleans()) else None)
        begin = draw(st.integers(0, edge))
        for smallest, lane in lanes.items():
            found, is_known = lane.since(begin, used)
            came = [
                [t for one in panes[begin:] for s, t in one if s == slot and t is not None]
                for slot in range(used)
            ]
            best = min if smallest else max
            wanted = [best(one, key=str.encode) if one else None for one in came]
            assert is_known and texts.take(found, found != NOTHING).to_pylist() == wanted
        before = texts.take(said, said != NOTHING).to_pylist()
        known, was_known = (one.astype(np.uint8) for one in (found != NOTHING, said != NOTHING))
        stays = found.copy()
        kernels.stay_with_texts(stays, known, said, was_known, texts.buffers)
        assert texts.take(stays, known).to_pylist() == wanted
        pairs = zip(stays.tolist(), said.tolist(), wanted, before, strict=False)
        assert all((now == then) == (text == old) for now, then, text, old in pairs)
        said = stays
        if draw(st.booleans()):
            referring = [said, *(one for lane in lanes.values() for one in lane.places)]
            number = len(set(np.concatenate(referring).tolist()) - {NOTHING})
            texts.keep([(one, one != NOTHING) for one in referring])
            assert texts.count == number
            assert texts.take(said, said != NOTHING).to_pylist() == wanted


@pytest.mark.twin("panes.differences")
@settings(max_examples=examples(60))
@given(st.data())
def test_differences(data: st.DataObject) -> None:
    """Old rows as -1, new ones as +1, nothing for what is the same."""
    row = st.one_of(st.none(), st.tuples(*[st.one_of(st.none(), st.integers(0, 1))] * 2))
    now = data.draw(st.lists(row, min_size=1, max_size=8))
    was = data.draw(st.lists(row, max_size=len(now)))

    def arrays(rows: list[Any]) -> tuple[Any, Any, Any]:
        there = np.array([one is not None for one in rows], np.uint8)
        cells = [[None if one is None else one[call] for one in rows] for call in range(2)]
        value = np.array([[cell or 0 for cell in line] for line in cells], np.int64).reshape(2, len(rows))
        valid = np.array([[cell is not None for cell in line] for line in cells], np.uint8)
        return there, value, valid.reshape(2, len(rows))

    slot, sign = np.empty(2 * len(now), np.int64), np.empty(2 * len(now), np.int8)
    count = kernels.differences(*arrays(now), *arrays(was), slot, sign)
    wanted = []
    for place, new in enumerate(now):
        old = was[place] if place < len(was) else None
        if old != new:
            wanted += [(place, -1)] * (old is not None) + [(place, 1)] * (new is not None)
    assert list(zip(slot[:count].tolist(), sign[:count].tolist(), strict=True)) == wanted


@pytest.mark.twin("panes.count_and_raise", "panes.nonzero", "panes.less_before")
@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 3), DOUBLES), min_size=1, max_size=20), st.booleans())
def test_one_pass_is_two(rows: list[tuple[int, float]], smallest: bool) -> None:
    slots = np.array([slot for slot, _ in rows], np.int32)
    bits = np.array([value for _, value in rows], np.float64).view(np.int64)
    flip, found = -1 if smallest else 0, []
    for both in (True, False):
        counts, most = np.zeros(4, np.int64), np.full(4, NOTHING, np.int64)
        if both:
            kernels.count_and_raise(slots, bits, 0, len(rows), flip, True, counts, most)
        else:
            kernels.count_rows(slots, 0, len(rows), counts)
            kernels.raise_extremes(slots, bits, NO_BYTES, 0, len(rows), flip, True, most)
        found.append((counts.tolist(), most.tolist()))
    assert found[0] == found[1]
    room = np.empty(5, np.int64)
    counts = np.array(found[0][0])
    assert room[: kernels.nonzero(counts, room)].tolist() == np.flatnonzero(counts).tolist()
    out = np.empty(4, np.int64)
    kernels.less_before(counts, counts[:2], 4, out)
    assert out.tolist() == [0, 0, *counts[2:].tolist()]


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    """As plain Python every access is checked."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stdout
