"""Bag against a list: rows enter, are withdrawn, expire, and are laid out anew."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from change_joins_help import JIT, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes import bag as module
from penstock.engine.changes.bag import Bag
from penstock.engine.flow.told_times import ToldTimes
from penstock.engine.kernels.changes import bag as kernels
from penstock.engine.kernels.rows.expiry import NEVER
from penstock.engine.kernels.rows.hash import shift_of
from penstock.engine.rows.types import SqlType
from penstock.engine.views.outer_view import OuterView

TYPES = (SqlType.BIGINT, SqlType.VARCHAR)


def plain(kernel: Any) -> Any:
    """The Python a kernel is compiled from."""
    return getattr(kernel, "py_func", kernel)


class Twin:
    """The same in Python: rows (key, text, ets) in the order in which they came."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.bag = Bag(TYPES, [1])
        self.rows: list[tuple[int, str, int]] = []
        self.now = 0
        self.views: list[Any] = []

    def enter(self) -> None:
        """A batch, some rows of which are never alive."""
        count = self.dice.choice([1, 3, 40])
        rows = [
            (
                self.dice.randrange(4),
                self.dice.choice("ab"),
                self.dice.choice([NEVER, self.now + self.dice.randint(1, 9)]),
            )
            for _ in range(count)
        ]
        arrays = [pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])]
        prints = self.bag.prints(arrays, count) if self.bag.has_prints else np.zeros((2, count), np.int64)
        first = self.bag.append(np.full(count, self.now), arrays)
        *parts, due = self.bag.arrays
        shift = shift_of(len(parts[2]))
        for i, (key, text, ets) in enumerate(rows):
            if self.dice.random() < 0.8:
                plain(kernels.enter)(
                    *parts,
                    *due,
                    shift,
                    np.int64(key),
                    np.int64(0),
                    prints[0][i],
                    prints[1][i],
                    ets,
                    first + i,
                )
                self.rows.append((key, text, ets))

    def withdraw(self) -> None:
        """A row that is there, or one that is not."""
        if not self.bag.has_prints:
            self.bag.print_all()
        key, text, ets = row = (
            self.dice.choice(self.rows)
            if self.rows and self.dice.random() < 0.8
            else (self.dice.randrange(5), "b", self.now + 3)
        )
        print_a, print_b = self.bag.prints([pa.array([key]), pa.array([text])], 1)
        rows, state, heads, meta, alive, _ = self.bag.arrays
        shift = shift_of(len(heads))
        slot = kernels.find(rows, heads, shift, key, 0, print_a[0], print_b[0], ets)
        assert (slot >= 0) == (row in self.rows)
        if slot >= 0:
            plain(kernels.leave)(rows, state, heads, meta, alive, shift, slot)
            plain(kernels.let_go)(rows, state, meta, slot, kernels.WITHDRAWN, self.dice.random() < 0.5)
            self.rows.remove(row)

    def expire(self) -> None:
        """Time passes."""
        self.now += self.dice.randint(0, 4)
        kernels.expire(self.bag.arrays, self.now, self.dice.random() < 0.5)
        self.rows = [row for row in self.rows if row[2] > self.now]

    def tidy(self) -> None:
        """Rows may move; who looked at them before still sees them."""
        slots = self.bag.live_slots()
        numbers = self.bag.arrays[0][slots, kernels.ROW]
        self.views.append((self.bag.views(), numbers, [array.to_pylist() for array in self.bag.values()]))
        self.bag.release()
        self.bag.tidy()

    def check(self) -> None:
        self.bag._check()
        keys, texts = (array.to_pylist() for array in self.bag.values())
        found = list(zip(keys, texts, self.bag.ends().tolist(), strict=True))
        assert sorted(found) == sorted(self.rows)
        assert self.bag.first_due <= min((row[2] for row in self.rows), default=NEVER)


@given(st.integers(0, 10**6), st.lists(st.sampled_from(["enter", "withdraw", "expire", "tidy"]), max_size=40))
@settings(max_examples=examples(60))
def test_is_a_bag(seed: int, steps: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_ROWS", 4)
        patch.setattr(module, "MANY_SLOTS", 64)
        twin = Twin(seed)
        for step in ["enter", *steps]:
            getattr(twin, step)()
            twin.check()
        for views, numbers, seen in twin.views:
            assert [view.take(numbers).to_pylist() for view in views] == seen


def test_row_minus_one_is_null() -> None:
    bag = Bag(TYPES, [1])
    bag.append(np.zeros(2, np.int64), [pa.array([1, 2]), pa.array(["a", None])])
    ints, texts = (OuterView(view) for view in bag.views())
    assert ints.take(np.array([1, -1, 0])).to_pylist() == [2, None, 1]
    assert texts.take(np.array([1, -1, 0])).to_pylist() == [None, None, "a"]
    assert texts.take(np.array([-1, -1])).to_pylist() == [None, None]
    assert texts.text_bytes(np.array([-1, 0, 0])) == 2


@given(st.lists(st.tuples(st.lists(st.integers(1, 9), max_size=5), st.integers(0, 4)), max_size=8))
def test_times_are_told_once_and_in_order(steps: list[tuple[list[int], int]]) -> None:
    told, waiting, now = ToldTimes(), set(), 0
    for times, by in steps:
        told.add(np.array([now + time for time in times] + [NEVER], np.int64))
        waiting |= {now + time for time in times}
        now += by
        assert told.until(now) == sorted(time for time in waiting if time <= now)
        waiting = {time for time in waiting if time > now}
        told._check()


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    """Bags and the operators over them on plain Python kernels, where every access to an array is checked."""
    names = "test_bag.py", "test_expire.py", "test_change_join.py"
    files = [str(Path(__file__).with_name(name)) for name in names]
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", "not long and not bounded"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
