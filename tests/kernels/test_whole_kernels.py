"""Kernels of operators that read whole answers, each against the plain way to say the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.kernels.changes import set_operation as kinds
from penstock.engine.kernels.hopping.whole_join import AT, CURSOR, pair_rows, select_matched, sort_by_slot
from penstock.engine.kernels.hopping.whole_set_operation import compare_rows, keep_copies
from penstock.engine.keys.key_slots import KeySlots
from penstock.engine.rows.frozen import frozen

SLOTS = st.lists(st.integers(-1, 6), max_size=30)
VALUES = st.lists(st.integers(0, 5), max_size=30)
FAR = 1 << 62
MAX_KEY = (1 << 63) - 1
NUMBERS = st.one_of(st.integers(-3, 12), st.sampled_from([-FAR, FAR, FAR + 1, 70_000, -(1 << 63)]))
KEYS = st.lists(st.tuples(NUMBERS, st.integers(0, 1), st.booleans()), max_size=40)


JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def ints(values: list[int]) -> NDArray:
    return np.array(values, np.int64)


def slots_of(values: list[int]) -> NDArray:
    return np.array(values, np.int32)


def as_keys(rows: list[tuple[int, int, bool]], short: bool, nulls: bool) -> tuple[NDArray, NDArray, NDArray]:
    a = frozen(ints([row[0] for row in rows]))
    b = frozen(ints([] if short else [row[1] for row in rows]))
    null = np.array([row[2] for row in rows] if nulls else [], np.uint8)
    return a, b, frozen(null)


@given(
    st.lists(st.tuples(KEYS, st.booleans(), st.booleans()), max_size=5),
    KEYS,
    st.none() | st.tuples(NUMBERS, st.integers(0, 12)),
)
def test_slots_are_equal_if_and_only_if_keys_are(
    batches: list[tuple[list[tuple[int, int, bool]], bool, bool]],
    asked: list[tuple[int, int, bool]],
    line: tuple[int, int] | None,
) -> None:
    slots = KeySlots()
    if line is not None:
        slots._line_up(line[0], line[0] + line[1], 1 + line[1])
    known: dict[tuple[int, int], int] = {}
    kept: list[tuple[NDArray, list[tuple[int, int] | None]]] = []
    for rows, short, nulls in batches:
        found = slots.insert(as_keys(rows, short, nulls), np.empty(len(rows), np.int32))
        named = [None if nulls and row[2] else (row[0], 0 if short else row[1]) for row in rows]
        for slot, key in zip(found.tolist(), named, strict=True):
            assert slot == -1 if key is None else slot == known.setdefault(key, slot) >= 0
        kept.append((found, named))
        slots._check()
    assert len(set(known.values())) == len(known)
    found = slots.find(as_keys(asked, False, True), np.empty(len(asked), np.int32))
    for slot, (a, b, null) in zip(found.tolist(), asked, strict=True):
        if null:
            assert slot == -1
        elif (a, b) in known:
            assert slot == known[a, b]
        else:
            assert slot not in known.values()
    half = kept[::2]
    slots.keep_only([numbers for numbers, _ in half])
    slots._check()
    living = {key for _, named in half for key in named if key is not None}
    assert slots.used == len(living)
    numbers = {key: n for found, named in half for n, key in zip(found.tolist(), named, strict=True)}
    assert len({n for key, n in numbers.items() if key is not None}) == len(living)


@pytest.mark.parametrize("first", [0, -5_000, MAX_KEY - 4_000, -MAX_KEY - 1])
def test_keys_close_together_have_slots_in_line(first: int) -> None:
    slots = KeySlots()
    keys = first + np.random.default_rng(1).integers(0, 4_000, 20_000)
    none = frozen(ints([])), frozen(np.empty(0, np.uint8))
    found = slots.insert((frozen(keys), *none), np.empty(len(keys), np.int32))
    assert np.array_equal(found, keys - keys.min())
    far = frozen(ints([first // 2 + 7, int(keys[0]), 1 << 61]))
    more = slots.insert((far, *none), np.empty(3, np.int32)).tolist()
    assert more[1] == found[0] and len({*more, *found.tolist()}) == len(np.unique([*keys, *far]))
    slots._check()


def test_slots_grow() -> None:
    slots = KeySlots()
    rows = np.arange(100_000) * 1_000_003
    both = frozen(np.repeat(rows, 2)), frozen(ints([])), frozen(np.empty(0, np.uint8))
    found = slots.insert(both, np.empty(200_000, np.int32))
    assert np.array_equal(found, np.repeat(np.arange(100_000), 2))
    slots._check()


@pytest.mark.twin("whole_join.sort_by_slot", "whole_join.pair_rows")
@given(SLOTS, SLOTS, st.integers(1, 7))
def test_pairs_have_one_slot(left: list[int], right: list[int], room: int) -> None:
    starts, places = np.zeros(9, np.int64), np.empty(len(right), np.int64)
    sort_by_slot(slots_of(right), starts, places)
    cursor, found = np.zeros(CURSOR, np.int64), []
    for _ in range(1000):
        out = np.empty(room, np.int64), np.empty(room, np.int64)
        count = pair_rows(slots_of(left), starts, places, cursor, *out)
        found += list(zip(out[0][:count].tolist(), out[1][:count].tolist(), strict=True))
        if cursor[AT] == len(left):
            break
        assert count == room, "a chunk that is not full and not the last"
    assert found == [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b >= 0]


@pytest.mark.twin("whole_join.select_matched")
@given(SLOTS, SLOTS, st.booleans())
def test_matched_rows(left: list[int], right: list[int], wanted: bool) -> None:
    marks, out = np.zeros(7, np.uint8), np.empty(len(left), np.int64)
    count = select_matched(slots_of(left), slots_of(right), marks, wanted, out)
    assert out[:count].tolist() == [i for i, a in enumerate(left) if (a >= 0 and a in right) == wanted]


@pytest.mark.twin("whole_set_operation.keep_copies")
@pytest.mark.parametrize("kind", range(6))
@given(left=VALUES, right=VALUES)
def test_copies_of_rows(kind: int, left: list[int], right: list[int]) -> None:
    if kind == kinds.DISTINCT:
        right = []
    out = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    found = keep_copies(kind, slots_of(left), slots_of(right), np.zeros((6, 3), np.int64), *out)
    rows = [left[i] for i in out[0][: found[0]]] + [right[i] for i in out[1][: found[1]]]
    one, two = Counter(left), Counter(right)
    wanted = {
        kinds.DISTINCT: Counter(set(one)),
        kinds.UNION: Counter(set(one) | set(two)),
        kinds.INTERSECT: Counter(set(one) & set(two)),
        kinds.INTERSECT_ALL: one & two,
        kinds.EXCEPT: Counter(set(one) - set(two)),
        kinds.EXCEPT_ALL: one - two,
    }[kind]
    assert Counter(rows) == wanted


@pytest.mark.twin("whole_set_operation.compare_rows")
@given(VALUES, VALUES)
def test_what_has_changed(before: list[int], after: list[int]) -> None:
    counts = np.zeros(6, np.int64)
    gone, new = np.empty(len(before), np.int64), np.empty(len(after), np.int64)
    left, come = compare_rows(slots_of(before), slots_of(after), counts, gone, new)
    assert Counter(before[i] for i in gone[:left]) == Counter(before) - Counter(after)
    assert Counter(after[i] for i in new[:come]) == Counter(after) - Counter(before)
    assert not counts.any()


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    """The same on plain Python kernels, where every access to an array is checked."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
