"""Kernels that change bags, Expire's and the join's, against naive twins: lists of the rows alive.

Rows of one key, print and end are the same row: which of them is withdrawn makes no difference. So rows are
compared by these three and not by number.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from change_joins_help import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_change_kernels import empty_bag
from test_kernels import ints

from penstock.engine.kernels.changes import bag as bags
from penstock.engine.kernels.changes import change_join, expire
from penstock.engine.kernels.changes.bag import ALIVE, LINKED, ROW
from penstock.engine.kernels.changes.change_join import CAME, WENT
from penstock.engine.kernels.rows.expiry import NEVER

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # hashing without the JIT
some = settings(max_examples=examples(80))
MOST = 40
NO_INTS, NO_BYTES = np.empty(0, np.int64), np.empty(0, np.uint8)
NULL = (0, 1)
"""The key of rows with a NULL in it; others have 0 in their second word."""


class Row(NamedTuple):
    key: tuple[int, int]
    print: int
    ets: int


class Change(NamedTuple):
    ts: int
    sign: int
    row: Row


@st.composite
def changes(draw: st.DrawFn, ends: bool, nulls: bool, may_miss: bool) -> list[Change]:
    """Rows that come and, some of them, are withdrawn; `may_miss`: also rows that are not there."""
    found: list[Change] = []
    there: list[Row] = []
    ts = 0
    for _ in range(draw(st.integers(0, 14))):
        ts += draw(st.sampled_from([0, 0, 1, 2, 4]))
        there = [row for row in there if row.ets > ts]
        if there and draw(st.integers(0, 2)) == 0:
            found.append(Change(ts, -1, there.pop(draw(st.integers(0, len(there) - 1)))))
            continue
        key = NULL if nulls and draw(st.integers(0, 3)) == 0 else (draw(st.integers(0, 2)), 0)
        end = draw(st.sampled_from([ts, ts + 1, ts + 3, ts + 9, NEVER])) if ends else NEVER
        row = Row(key, draw(st.integers(0, 1)), end)
        if may_miss and row not in there and draw(st.integers(0, 5)) == 0:
            found.append(Change(ts, -1, row))
            continue
        there.append(row)
        found.append(Change(ts, 1, row))
    return found


def bag_of(linked: bool = True) -> tuple[Any, ...]:
    bag = empty_bag(MOST)
    bag[3][LINKED] = linked
    return bag


def alive_in(bag: tuple[Any, ...], rows: list[Row]) -> list[Row]:
    """The rows alive, by their numbers; slots and the array of who is alive agree."""
    numbers = bag[0][bag[1] == ALIVE, ROW].tolist()
    assert sorted(numbers) == np.flatnonzero(bag[4]).tolist()
    return sorted(rows[number] for number in numbers)


@pytest.mark.twin("bag.first_alive")
@given(st.lists(st.booleans(), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_first_alive(alive: list[bool], start: int, end: int) -> None:
    end = min(end, len(alive))
    start = min(start, end)
    wanted = next((place for place in range(start, end) if alive[place]), end)
    assert bags.first_alive(np.array(alive, np.uint8), start, end) == wanted


# -- Expire --------------------------------------------------------------------------------------------


def naive_expire(drawn: list[Change], there: list[Row], known: int) -> tuple[list[Any], int]:
    """What comes out, (ts, sign, row), and how many withdrawn rows are missing."""
    out: list[tuple[int, int, Row]] = []
    missing = 0
    for now, sign, row in [*drawn, Change(known, 0, Row(NULL, 0, 0))]:
        for gone in sorted((one for one in there if one.ets <= now), key=lambda one: one.ets):
            out.append((gone.ets, -1, gone))
            there.remove(gone)
        if row.ets <= now:
            continue
        if row.ets != NEVER and sign > 0:
            there.append(row)
        elif row.ets != NEVER:
            if row not in there:
                missing += 1
                continue
            there.remove(row)
        out.append((now, sign, row))
    return out, missing


@pytest.mark.twin("expire.run_expire")
@some
@given(changes(ends=True, nulls=False, may_miss=True), st.integers(0, 14), st.integers(1, 6), st.booleans())
def test_run_expire(drawn: list[Change], cut: int, space: int, linked: bool) -> None:
    """In two batches, output in pieces of any size; without chains nothing is withdrawn early."""
    drawn = [change for change in drawn if linked or change.sign > 0 or change.row.ets == NEVER]
    drawn = [change._replace(row=change.row._replace(print=0)) for change in drawn]
    rows, bag, there = [change.row for change in drawn], bag_of(linked), []
    for first, batch, after in ((0, drawn[:cut], drawn[cut:]), (cut, drawn[cut:], [])):
        known = after[0].ts if after else batch[-1].ts + 5 if batch else 20
        expected, missing = naive_expire(batch, there, known)
        ts, ets = ints([change.ts for change in batch]), ints([change.row.ets for change in batch])
        sign = np.array([change.sign for change in batch], np.int8)
        keys = [ints([change.row.key[word] for change in batch]) if linked else NO_INTS for word in (0, 1)]
        cursor, found = np.zeros(expire.SLOTS, np.int64), []
        while not cursor[expire.DONE]:
            out = np.empty(space, np.int64), np.empty(space, np.int8), np.empty(space, np.int64)
            count = expire.run_expire(bag, ts, sign, ets, *keys, first, known, cursor, out)
            assert count == space or cursor[expire.DONE]
            found += zip(*(column[:count].tolist() for column in out), strict=True)
        assert [ts for ts, _, _ in found] == [ts for ts, _, _ in expected]
        assert sorted((ts, sign, rows[number]) for ts, sign, number in found) == sorted(expected)
        assert cursor[expire.MISSING] == missing
        assert alive_in(bag, rows) == sorted(there)


# -- the join ------------------------------------------------------------------------------------------


class Side:
    """Changes of one input, the kernel's bag, and the rows alive."""

    def __init__(self, drawn: list[Change], stored: bool, counted: bool, printed: bool) -> None:
        if not printed:
            drawn = [change._replace(row=change.row._replace(print=0)) for change in drawn]
        self.changes, self.stored, self.counted, self.printed = drawn, stored, counted, printed
        self.bag = bag_of()
        self.there: list[Row] = []
        # rows that enter are numbered; where rows are not stored, all changes are
        self.rows = [change.row for change in drawn if not stored or change.sign > 0]

    def events(self) -> tuple[Any, ...]:
        def column(values: Any) -> NDArray:
            return ints(list(values))

        rows = [change.row for change in self.changes]
        null = np.array([row.key == NULL for row in rows], np.uint8)
        enters = np.array([change.sign > 0 for change in self.changes], bool)
        return (
            column(change.ts for change in self.changes), column(row.ets for row in rows),
            np.array([change.sign for change in self.changes], np.int8),
            column(row.key[0] for row in rows), column(row.key[1] for row in rows),
            null if null.any() else NO_BYTES,
            *(column(sign * row.print for row in rows) if self.printed else NO_INTS for sign in (1, -1)),
            np.arange(len(rows)) if not self.stored else ints(np.cumsum(enters) - 1),
        )  # fmt: skip


def merged(lefts: list[Change], rights: list[Change]) -> list[tuple[int, Change]]:
    """In the order of the module: by ts; what leaves before what enters, left before right."""
    found: list[tuple[int, Change]] = []
    left, right = list(lefts), list(rights)
    while left or right:
        is_right = not left or (
            bool(right)
            and (right[0].ts < left[0].ts or (right[0].ts == left[0].ts and right[0].sign < 0 < left[0].sign))
        )
        found.append((1, right.pop(0)) if is_right else (0, left.pop(0)))
    return found


Entry = tuple[int, int, int, Row | None, Row | None]


def naive_join(sides: tuple[Side, Side]) -> tuple[list[list[Entry]], int]:
    """For each change its entries (ts, ets, sign, left, right); how many withdrawn rows are missing."""
    out: list[list[Entry]] = []
    missing = 0
    for number, (now, sign, row) in merged(sides[0].changes, sides[1].changes):
        side, other = sides[number], sides[1 - number]
        for one in sides:
            one.there = [there for there in one.there if there.ets > now]
        if row.ets <= now or (row.key == NULL and not side.counted):
            continue
        if side.stored and sign < 0:
            if row not in side.there:
                missing += 1
                continue
            side.there.remove(row)
        elif side.stored:
            side.there.append(row)
        pair = (row, None) if number == 0 else (None, row)
        entries: list[Entry] = [(now, NEVER, CAME if sign > 0 else WENT, *pair)] * side.counted
        for match in other.there if row.key != NULL else ():
            if match.key == row.key:
                pair = (row, match) if number == 0 else (match, row)
                entries.append((now, min(row.ets, match.ets), sign, *pair))
        out.append(entries)
    return out, missing


@st.composite
def joins(draw: st.DrawFn) -> tuple[Side, Side]:
    sides = []
    for _ in range(2):
        counted = draw(st.booleans())
        stored = counted or draw(st.integers(0, 3)) > 0
        drawn = draw(changes(ends=not counted, nulls=True, may_miss=stored))
        sides.append(Side(drawn, stored, counted, draw(st.booleans())))
    return sides[0], sides[1]


def as_key(entry: Entry) -> Any:
    return tuple((-1,) if cell is None else cell for cell in entry)


@pytest.mark.twin("change_join.run_join")
@some
@given(joins(), st.integers(1, 7), st.booleans(), st.sampled_from([0, 1000]), st.integers(0, 5))
def test_run_join(sides: tuple[Side, Side], space: int, later: bool, patience: int, rest: int) -> None:
    """Output in pieces of any size; rows that have left are dropped at once, or late and skipped."""
    expected, missing = naive_join(sides)
    known = max([change.ts for side in sides for change in side.changes], default=0) + rest
    options = ints([sides[0].stored, sides[1].stored, sides[0].counted, sides[1].counted, later, patience])
    cursor, found = np.zeros(change_join.CURSOR, np.int64), []
    while not cursor[change_join.DONE]:
        out = (
            np.empty(space, np.int64), np.empty(space, np.int64), np.empty(space, np.int8),
            np.empty((2, space), np.int64), np.empty((2, space), np.int64),
        )  # fmt: skip
        count = change_join.run_join(
            sides[0].bag, sides[1].bag, sides[0].events(), sides[1].events(), known, options, cursor, out
        )
        assert count == space or cursor[change_join.DONE]
        ts, ets, sign, rows, slots = (column[..., :count].tolist() for column in out)
        for at in range(count):
            pair = []
            for side, numbers, places in zip(sides, rows, slots, strict=True):
                assert (numbers[at] < 0) <= (places[at] < 0)
                pair.append(None if numbers[at] < 0 else side.rows[numbers[at]])
                if later and places[at] >= 0:
                    assert side.bag[0][places[at], ROW] == numbers[at]
            found.append((ts[at], ets[at], sign[at], *pair))
    assert cursor[change_join.MISSING] == missing
    entries = iter(found)
    for wanted in expected:
        assert sorted(islice(entries, len(wanted)), key=as_key) == sorted(wanted, key=as_key)
    assert list(entries) == []
    for side in sides:
        there = sorted(row for row in side.there if row.ets > known)
        assert alive_in(side.bag, side.rows) == there
