"""Kernels of bags and of joins of changes against naive twins: dicts, sets and lists that say what is meant.

Each runs compiled and as plain Python (`py_func`), on the same draws.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernels import both, ints

from penstock.engine.kernels.changes import bag as bags
from penstock.engine.kernels.changes import matches
from penstock.engine.kernels.changes.bag import (
    ALIVE,
    ETS,
    EXPIRED,
    FREE,
    KEY_A,
    KEY_B,
    NEWER,
    OLDER,
    ROW,
    WITHDRAWN,
)
from penstock.engine.kernels.changes.change_join import CAME, WENT, count_ends
from penstock.engine.kernels.changes.matches import NEITHER, WITH, WITHOUT
from penstock.engine.kernels.rows.expiry import NEVER, pop_due
from penstock.engine.kernels.rows.hash import shift_of
from penstock.engine.rows.expiry_queue import ExpiryQueue

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # hashing without the JIT
ENDS = st.sampled_from([3, 5, 8, NEVER])


def empty_bag(slots: int) -> tuple[Any, ...]:
    """The arrays of a bag with nothing in it; what no row has written is -9."""
    meta = np.zeros(8, np.int64)
    meta[[bags.FREED, bags.GONE]] = -1
    return (
        np.full((slots, 8), -9, np.int64), np.zeros(slots, np.int8), np.full((4, 2), -1, np.int32), meta,
        np.zeros(slots, np.uint8), ExpiryQueue().arrays,
    )  # fmt: skip


def chain(rows: Any, slot: int) -> list[int]:
    """Slots from one on, by OLDER."""
    found = []
    while slot >= 0:
        found.append(slot)
        slot = int(rows[slot, OLDER])
    return found


@pytest.mark.twin("bag.release")
@given(
    st.lists(st.tuples(st.sampled_from([FREE, ALIVE, WITHDRAWN, EXPIRED]), ENDS, st.integers(0, 2))),
    st.randoms(use_true_random=False),
)
def test_release(drawn: list[tuple[int, int, int]], dice: Any) -> None:
    """Slots (what they are, ets, count): those that are gone become free, and some tell their time."""
    gone = [slot for slot, (state, _, _) in enumerate(drawn) if state in (WITHDRAWN, EXPIRED)]
    free = [slot for slot, (state, _, _) in enumerate(drawn) if state == FREE]
    dice.shuffle(gone)
    told = [drawn[slot][1] for slot in gone if drawn[slot][0] == EXPIRED and drawn[slot][2] > 0]
    for kernel in both(bags.release):
        bag = empty_bag(len(drawn))
        rows, state, _, meta, *_ = bag
        state[:] = [one for one, _, _ in drawn]
        rows[:, ETS] = [ets for _, ets, _ in drawn]
        for name, slots in ((bags.GONE, gone), (bags.FREED, free)):
            meta[name] = slots[0] if slots else -1
            for slot, after in pairwise([*slots, -1]):
                rows[slot, OLDER] = after
        meta[bags.GONE_ROWS] = len(gone)
        counts, marks = ints([count for _, _, count in drawn]), np.full(len(drawn), 7, np.uint8)
        times = np.empty(len(gone), np.int64)
        assert times[: kernel(bag, counts, marks, times)].tolist() == told
        assert state.tolist() == [FREE if slot in gone else one for slot, (one, _, _) in enumerate(drawn)]
        assert counts.tolist() == [0 if slot in gone else n for slot, (_, _, n) in enumerate(drawn)]
        assert marks.tolist() == [0 if slot in gone else 7 for slot in range(len(drawn))]
        assert Counter(chain(rows, int(meta[bags.FREED]))) == Counter(gone + free)
        assert (meta[bags.GONE], meta[bags.GONE_ROWS]) == (-1, 0)


KEYS = st.tuples(st.integers(-3, 3), st.integers(0, 1))


@pytest.mark.twin("bag.relink")
@given(
    st.lists(st.tuples(KEYS, ENDS), max_size=20),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.booleans(),
)
def test_relink(drawn: list[tuple[tuple[int, int], int]], dice: Any, is_linked: bool, due: bool) -> None:
    """Rows (key, ets) in any order of slots: each in the chain of its key, and due at its end."""
    slots = list(range(len(drawn)))
    dice.shuffle(slots)
    for kernel in both(bags.relink):
        bag = empty_bag(len(drawn))
        rows, _, heads, meta, _, queue = bag
        meta[bags.LINKED] = is_linked
        for slot, (key, ets) in enumerate(drawn):
            rows[slot, [KEY_A, KEY_B]], rows[slot, ETS] = key, ets
        kernel(bag, ints(slots), due)
        expected: dict[int, list[int]] = {number: [] for number in range(len(heads))}
        for slot in reversed(slots if is_linked else []):
            expected[int(bags.chain_of(*rows[slot, [KEY_A, KEY_B]], shift_of(len(heads))))].append(slot)
        for number, (newest, oldest) in enumerate(heads.tolist()):
            found = chain(rows, newest)
            assert found == expected[number]
            assert oldest == (found[-1] if found else -1)
            assert [rows[slot, NEWER] for slot in found] == [-1, *found][:-1]
        ends = [(drawn[slot][1], slot) for slot in slots if due and drawn[slot][1] != NEVER]
        popped = [int(pop_due(*queue)) for _ in ends]
        assert [drawn[slot][1] for slot in popped] == sorted(ets for ets, _ in ends)
        assert sorted(popped) == sorted(slot for _, slot in ends)


@pytest.mark.twin("change_join.count_ends")
@given(
    st.lists(ENDS, min_size=1, max_size=4),
    st.lists(ENDS, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, -1]), st.booleans())),
)
def test_count_ends(left: list[int], right: list[int], drawn: list[tuple[int, int, int, bool]]) -> None:
    """Pairs (slots, sign, whether meant) of rows that end then: the row that ends first counts them."""
    pairs = [(one % len(left), two % len(right), sign, kept) for one, two, sign, kept in drawn]
    expected = [0] * len(left), [0] * len(right)
    for one, two, sign, kept in pairs:
        end = min(left[one], right[two])
        if kept and end != NEVER:
            side, slot = (0, one) if left[one] == end else (1, two)
            expected[side][slot] += sign
    for kernel in both(count_ends):
        sides = [empty_bag(len(ends)) for ends in (left, right)]
        for side, ends in zip(sides, (left, right), strict=True):
            side[0][:, ETS] = ends
        counts = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
        slots = ints([[one for one, *_ in pairs], [two for _, two, *_ in pairs]])
        signs = np.array([sign for _, _, sign, _ in pairs], np.int8)
        kernel(*sides, counts, signs, slots, np.flatnonzero([kept for *_, kept in pairs]))
        assert (counts[0].tolist(), counts[1].tolist()) == expected


SLOTS = 3
Entry = tuple[int, int, int, int, bool]  # ts, sign, slots of left and right, whether it counts


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """Rows that come and go, and pairs of them, of which only those that are there are withdrawn."""
    there: list[tuple[int, int, bool]] = []
    present: set[tuple[int, int]] = set()
    found: list[Entry] = []
    ts = 0
    for _ in range(draw(st.integers(0, 25))):
        ts += draw(st.sampled_from([0, 0, 1, 2]))
        if draw(st.booleans()):
            row = side, slot = draw(st.integers(0, 1)), draw(st.integers(0, SLOTS - 1))
            sign = WENT if row in present else CAME
            present ^= {row}
            found.append((ts, sign, -1 if side else slot, slot if side else -1, True))
        elif there and draw(st.booleans()):
            one, two, kept = there.pop(draw(st.integers(0, len(there) - 1)))
            found.append((ts, -1, one, two, kept))
        else:
            pair = draw(st.integers(0, SLOTS - 1)), draw(st.integers(0, SLOTS - 1)), draw(st.booleans())
            there.append(pair)
            found.append((ts, 1, *pair))
    return found


def naive_settle(drawn: list[Entry], wanted: tuple[int, int], has_pairs: bool) -> list[tuple[int, ...]]:
    """(ts, sign, rows of left and right, -1 for none): after each instant, whoever is not as it should be."""
    present: set[tuple[int, int]] = set()
    given_: set[tuple[int, int]] = set()
    counts: Counter[tuple[int, int]] = Counter()
    out: list[tuple[int, ...]] = []
    for ts, instant in groupby(drawn, key=lambda entry: entry[0]):
        for _, sign, one, two, kept in instant:
            if sign in (CAME, WENT):
                present ^= {(0, one) if one >= 0 else (1, two)}
            elif kept:
                counts[0, one] += sign
                counts[1, two] += sign
                out += [(ts, sign, 100 + one, 200 + two)] * has_pairs
        for row in ((side, slot) for side in (0, 1) if wanted[side] != NEITHER for slot in range(SLOTS)):
            should = row in present and (counts[row] == 0) == (wanted[row[0]] == WITHOUT)
            if should != (row in given_):
                given_ ^= {row}
                side, slot = row
                out.append((ts, 1 if should else -1, *((100 + slot, -1) if side == 0 else (-1, 200 + slot))))
    return out


class Settling:
    """The kernel and what it keeps from call to call."""

    def __init__(self, kernel: Any, wanted: tuple[int, int], has_pairs: bool) -> None:
        self.kernel, self.wanted, self.has_pairs = kernel, wanted, has_pairs
        self.sides = []
        for first in (100, 200):
            rows = np.zeros((SLOTS, 8), np.int64)
            rows[:, ROW] = first + np.arange(SLOTS)
            self.sides.append((rows, np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.uint8)))
        self.carried, self.carry = np.zeros(2, np.int64), ints([])

    def run(self, drawn: list[Entry], held: int = -1) -> list[tuple[int, ...]]:
        ts, slots = ints([entry[0] for entry in drawn]), ints([[e[2] for e in drawn], [e[3] for e in drawn]])
        sign = np.array([entry[1] for entry in drawn], np.int8)
        rows = np.where(slots >= 0, slots + ints([[100], [200]]), -1)
        kept = np.array([entry[4] for entry in drawn], np.uint8)
        room = 3 * len(drawn) + 1
        touched = np.full(2 * len(drawn) + 1 + len(self.carry), -9, np.int64)
        touched[: len(self.carry)] = self.carry
        out = np.empty(room, np.int64), np.empty(room, np.int8), np.empty((2, room), np.int64)
        sent = self.kernel(
            *self.sides, self.wanted, (ts, sign, rows, slots), kept, self.has_pairs, held,
            self.carried, touched, out,
        )  # fmt: skip
        self.carry = touched[: self.carried[0]].copy()
        ts, sign, rows = (array[..., :sent] for array in out)
        return list(zip(ts.tolist(), sign.tolist(), *rows.tolist(), strict=True))


WANTED = st.tuples(*[st.sampled_from([NEITHER, WITHOUT, WITH])] * 2)


@pytest.mark.twin("matches.settle")
@given(entries(), WANTED, st.booleans(), st.data())
def test_settle(drawn: list[Entry], wanted: tuple[int, int], has_pairs: bool, data: st.DataObject) -> None:
    """In calls of whole instants, at the end of each of which some row may be left for the next."""
    instants = [list(instant) for _, instant in groupby(drawn, key=lambda entry: entry[0])]
    holds = [data.draw(st.integers(-1, 2 * SLOTS - 1)) for _ in instants]
    expected = naive_settle(drawn, wanted, has_pairs)
    for kernel in both(matches.settle):
        settling = Settling(kernel, wanted, has_pairs)
        found = [row for part, held in zip(instants, holds, strict=True) for row in settling.run(part, held)]
        found += settling.run([])
        assert sorted(found) == sorted(expected)
        assert [ts for ts, *_ in found] == sorted(ts for ts, *_ in found)
        assert len(settling.carry) == 0


def test_a_row_that_is_held_waits_for_its_pairs() -> None:
    """It comes, and its match follows in the next call at the same instant: it never had none."""
    for kernel in both(matches.settle):
        settling = Settling(kernel, (WITHOUT, NEITHER), True)
        assert settling.run([(5, CAME, 0, -1, True)], held=0) == []
        assert settling.run([(5, 1, 0, 1, True)]) == [(5, 1, 100, 201)]
        assert settling.run([(6, -1, 0, 1, True)]) == [(6, -1, 100, 201), (6, 1, 100, -1)]
