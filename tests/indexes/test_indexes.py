"""The four join indexes against their naive twins: same pairs, in the same order, invariants after each step.

Run with NUMBA_DISABLE_JIT=1 the kernels are plain Python, where every array access is checked; then tree
nodes hold only 4 entries, so that a hundred rows make a deep tree. `test_with_the_jit_off` does that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import penstock.engine.kernels.base.node_size as node_size

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
if not JIT:
    # The trees' kernels take the size when they are imported, and cache nothing on disk with the JIT off.
    node_size.TTREE_NODE = node_size.BTREE_NODE = 4

from naive_indexes import NAIVE_TWINS, NaiveScan  # noqa: E402

from penstock.engine.indexes.build import INDEX_KINDS, build_index, supports_ranges  # noqa: E402
from penstock.engine.indexes.index import Index, Probes  # noqa: E402
from penstock.engine.kernels.indexes.nodes import IN_USE  # noqa: E402
from penstock.engine.kernels.indexes.sorted_nodes import NODE_ROWS, USED  # noqa: E402
from penstock.engine.rows.buffer import RowBuffer  # noqa: E402

MIN, MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
EXTREMES = (MIN, MIN + 1, -1, 0, 1, MAX - 1, MAX)
ROWS_SCALE = 3 if JIT else 1
MARKS = {
    "scan": pytest.mark.twin("scan.run_scan"),
    "hash": (),  # its kernels are in test_hash_rounds.py
    "t-tree": pytest.mark.twin("ttree.run_ttree", "ttree.pack_ttree"),
    "b+tree": pytest.mark.twin("btree.run_btree"),
}
each_kind = pytest.mark.parametrize("kind", INDEX_KINDS)
each_tree = pytest.mark.parametrize("kind", ["t-tree", "b+tree"])
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # hashing without the JIT


@dataclass(frozen=True)
class Step:
    """One batch: rows that come, probers, what is purged before and after, how big the output is."""

    keys: NDArray
    key_low: NDArray
    key_high: NDArray
    row_from: tuple[float, ...]  # fractions of the rows there are, as are the purges
    row_until: tuple[float, ...]
    purge_before: float
    purge_after: float
    space: int


def draw_keys(draw: st.DrawFn, rows: int) -> NDArray:
    """Keys in one of the orders that trees care about."""
    order = draw(st.sampled_from(["random", "ties", "rising", "falling", "constant", "extreme"]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if order == "extreme":
        return random.choice(np.array(EXTREMES, np.int64), rows)
    if order == "constant":
        return np.full(rows, draw(st.sampled_from(EXTREMES)), np.int64)
    keys = random.integers(0, 5 if order == "ties" else 1000, rows)
    return {"rising": np.sort(keys), "falling": np.sort(keys)[::-1]}.get(order, keys).astype(np.int64)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    rows = draw(st.sampled_from([0, 1, 7, 40, 100])) * ROWS_SCALE
    probers = draw(st.integers(0, 8))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    low = random.choice(np.concatenate([EXTREMES, random.integers(-5, 1005, 20)]), probers).astype(np.int64)
    width = draw(st.sampled_from([-1, 0, 3, 200, MAX]))
    high = np.array([min(max(int(key) + width, MIN), MAX) for key in low], np.int64)
    if draw(st.booleans()):
        low, high = np.full(probers, MIN, np.int64), np.full(probers, MAX, np.int64)
    fractions = st.floats(0, 1)
    return Step(
        keys=draw_keys(draw, rows),
        key_low=low,
        key_high=high,
        row_from=tuple(sorted(random.random(probers) * draw(st.sampled_from([0.0, 0.3, 1.0])))),
        row_until=tuple(sorted(random.random(probers))),
        purge_before=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        purge_after=draw(st.one_of(st.just(0.0), st.just(1.0), fractions)),
        space=draw(st.sampled_from([1, 2, 3, 5, 64, 5000])),
    )


class Driver:
    """An index, a second one that only counts, and the naive twin, kept in step."""

    def __init__(self, kind: str, first_row: int) -> None:
        self.kind = kind
        self.index = build_index(kind, first_row)
        self.counter = build_index(kind, first_row)
        self.naive: NaiveScan = NAIVE_TWINS[kind](first_row)
        self.inserted = self.floor = first_row

    def take(self, step: Step) -> None:
        for index in (self.index, self.counter):
            index.extend(step.keys)
        self.naive.extend(step.keys.tolist())
        self.purge(step.purge_before)
        probes = self.probes(step)
        expected = self.naive.pairs(probes)
        assert run(self.index, probes, step.space) == expected
        assert count(self.counter, self.probes(step)) == len(expected)
        self.inserted = self.naive.end
        if len(probes.row_from):
            self.floor = max(self.floor, min(int(probes.row_from[-1]), self.naive.end))
        self.check()
        self.purge(step.purge_after)

    def purge(self, fraction: float) -> None:
        """Purge that part of the rows that are not expired; everything, and further, if 1."""
        row = self.floor + int((self.naive.end - self.floor) * fraction) + (3 if fraction == 1 else 0)
        for held in (self.index, self.counter, self.naive):
            held.purge(row)
        self.floor = max(self.floor, self.naive.tail)
        self.inserted = max(self.inserted, self.naive.tail)
        self.check()

    def probes(self, step: Step) -> Probes:
        end = self.naive.end
        start, until = np.array(step.row_from), np.array(step.row_until)
        row_from = (self.floor + start * (end - self.floor + 2)).astype(np.int64)
        row_until = (self.inserted + until * (end - self.inserted + 1)).astype(np.int64)
        return Probes(step.key_low, step.key_high, row_from, np.minimum(row_until, end), end)

    def check(self) -> None:
        for index in (self.index, self.counter):
            index._check()
            assert index.keys.tolist() == self.naive.keys
        assert self.index.nbytes == sum(map(array_bytes, vars(self.index).values()))

    def rebuild(self) -> None:
        """An index built from the live keys answers as the old one does."""
        keys = self.naive.keys
        self.index = build_index(self.kind, self.naive.tail, np.array(keys, np.int64))
        self.floor = self.naive.tail
        self.index._check()


def run(index: Index, probes: Probes, space: int) -> list[tuple[int, int]]:
    """All pairs, with an output of `space`; a call that ends before the end has found some."""
    out_prober, out_row = np.empty(space, np.int64), np.empty(space, np.int64)
    pairs: list[tuple[int, int]] = []
    while not probes.done:
        found = index.run(probes, out_prober, out_row, False)
        assert 0 < found <= space or probes.done
        pairs += zip(out_prober[:found].tolist(), out_row[:found].tolist(), strict=True)
    return pairs


def count(index: Index, probes: Probes) -> int:
    nothing = np.empty(1, np.int64)
    found = index.run(probes, nothing, nothing, True)
    assert probes.done
    return found


def window_probes(keys: NDArray, band: int, start: int, window: int) -> Probes:
    """Prober i comes with row start + i and sees the `window` rows up to it."""
    until = np.arange(start + 1, start + len(keys) + 1)
    return Probes(keys - band, keys + band, np.maximum(until - window, 0), until, start + len(keys))


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS[kind]) for kind in INDEX_KINDS])
@settings(max_examples=60 if JIT else 40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first_row=st.sampled_from([0, 17, 2**40]), drawn=st.lists(steps(), min_size=1, max_size=8))
def test_twin(kind: str, first_row: int, drawn: list[Step]) -> None:
    driver = Driver(kind, first_row)
    for step in drawn:
        driver.take(step)
    driver.rebuild()
    driver.take(drawn[0])


@each_kind
def test_sliding_window(kind: str) -> None:
    """Thousands of rows through a window, as a join does it: one in, one out, one probe each."""
    window, rows, batch = (2000, 6000, 1500) if JIT else (60, 300, 70)
    keys = np.random.default_rng(5).integers(-window, window, rows)
    band = 2 if supports_ranges(kind) else 0
    index = build_index(kind)
    for start in range(0, rows, batch):
        part = keys[start : start + batch]
        index.extend(part)
        expected = []
        for i, key in enumerate(part):
            oldest = max(0, start + i + 1 - window)
            near = np.flatnonzero(np.abs(keys[oldest : start + i + 1] - key) <= band)
            expected += [(i, row) for row in (oldest + near).tolist()]
        assert sorted(run(index, window_probes(part, band, start, window), 4096)) == expected
        index.purge(start + len(part) - window)
        index._check()


@each_kind
@pytest.mark.parametrize("kept", [1, NODE_ROWS // 2, NODE_ROWS - NODE_ROWS // 8])
def test_the_greatest_key_after_its_node_was_cut(kind: str, kept: int) -> None:
    """NaN is above all numbers, with the code of a free slot. A full node is cut for the rows before."""
    index = build_index(kind)
    sought, floor = np.array([MAX]), np.array([0])
    for row in range(NODE_ROWS):
        index.extend(np.array([2 * row]))
        assert not run(index, Probes(sought, sought, floor, np.array([row + 1]), row + 1), 64)
    floor[0] = NODE_ROWS - kept
    index.purge(int(floor[0]))
    index.extend(np.array([*[2 * NODE_ROWS - 3] * 3, MAX]))
    end = NODE_ROWS + 4
    assert run(index, Probes(sought, sought, floor, np.array([end]), end), 64) == [(0, end - 1)]
    index._check()


@each_kind
@pytest.mark.parametrize("order", ["rising", "falling", "random", "constant", "zigzag"])
def test_key_orders(kind: str, order: str) -> None:
    """Fill, expire half from the old end, fill again, expire all: the shapes that unbalance trees."""
    rows = 3000 if JIT else 150
    keys = np.arange(rows, dtype=np.int64)
    if order == "falling":
        keys = keys[::-1].copy()
    elif order == "random":
        np.random.default_rng(1).shuffle(keys)
    elif order == "constant":
        keys[:] = 7
    elif order == "zigzag":
        keys[1::2] *= -1
    index = build_index(kind, 0, keys)
    index._check()
    index.purge(rows // 2)
    index._check()
    index.extend(keys)
    whole = np.array([MIN]), np.array([MAX])
    sought = whole if supports_ranges(kind) else (np.array([7]), np.array([7]))
    probes = Probes(*sought, np.array([rows * 3 // 4]), np.array([rows * 2]), 2 * rows)
    live = np.concatenate([keys, keys])[rows * 3 // 4 :]
    assert count(index, probes) == np.count_nonzero((live >= sought[0]) & (live <= sought[1]))
    index._check()
    index.purge(2 * rows)
    index._check()
    assert len(index.keys) == 0


@each_kind
def test_constant_keys_resume_within_the_run(kind: str) -> None:
    """One key in many nodes: going on finds the row by (key, row), not the first of its key."""
    rows = 500 if JIT else 60
    index = build_index(kind, 0, np.full(rows, MAX))
    probes = Probes(np.array([MAX]), np.array([MAX]), np.array([0]), np.array([rows]), rows)
    pairs = run(index, probes, 3)
    assert sorted(row for _, row in pairs) == list(range(rows))


@each_kind
@pytest.mark.parametrize("step", [1, 3, 40])
def test_rows_come_in_batches_of_any_size(kind: str, step: int) -> None:
    """Few rows are put in one by one, many are merged in: in turns, with ties, and rows that go unseen."""
    window, rounds = (700, 24) if JIT else (50, 12)
    random = np.random.default_rng(step)
    index, naive = build_index(kind), NAIVE_TWINS[kind](0)
    row = 0
    for number in range(rounds):
        count = step if number % 3 else window // (1 + number % 4)
        keys = random.integers(0, 60 if number % 2 else 10**6, count)
        index.extend(keys)
        naive.extend(keys.tolist())
        probes = window_probes(keys, 5 if supports_ranges(kind) else 0, row, window)
        expected = naive.pairs(probes)
        assert run(index, probes, 100) == expected
        index._check()
        row += count
        index.purge(row - window)
        naive.purge(row - window)
        index._check()
        assert index.nbytes <= 100 * window + 40_000


@each_kind
def test_full_exactly_at_the_end_is_done(kind: str) -> None:
    index = build_index(kind, 0, np.array([1, 2, 1, 1, 1, 0]))
    probes = Probes(np.array([1]), np.array([1]), np.array([0]), np.array([6]), 6)
    out = np.empty(4, np.int64)
    assert index.run(probes, out, out.copy(), False) == 4
    assert probes.done


@each_kind
def test_rows_expired_before_anyone_sees_them(kind: str) -> None:
    """A prober whose window begins after the rows that come: they go unseen, later ones are found."""
    index = build_index(kind, 10)
    index.extend(np.array([1, 1, 1, 1]))
    one = np.array([1, 1])
    probes = Probes(one, one, np.array([13, 13]), np.array([12, 14]), 14)
    assert run(index, probes, 5) == [(1, 13)]
    index._check()


@each_kind
def test_rows_purged_before_they_are_inserted(kind: str) -> None:
    """Their keys are gone once the array of keys has moved, so they must not be inserted any more."""
    index = build_index(kind, 0)
    index.extend(np.full(200, 1))
    index.purge(150)
    index.extend(np.full(300, 1))
    index._check()
    one = np.array([1])
    assert count(index, Probes(one, one, np.array([150]), np.array([500]), 500)) == 350
    index._check()


@each_kind
def test_memory_follows_the_window(kind: str) -> None:
    """After a burst has drained, the structure is small again; a steady window does not grow."""
    burst, window, steady = (200_000, 1000, 40) if JIT else (6000, 30, 5)
    random = np.random.default_rng(3)
    index = build_index(kind, 0, random.integers(0, 10**6, burst))
    full = structure_bytes(index)
    index.purge(burst - window)
    drained = structure_bytes(index)
    index._check()
    assert drained <= full / 10
    row = burst
    for _ in range(steady):
        keys = random.integers(0, 10**6, window)
        index.extend(keys)
        run(index, window_probes(keys, 0, row, window), 64)
        row += window
        index.purge(row - window)
    index._check()
    assert structure_bytes(index) <= 4 * max(drained, 1)


def array_bytes(value: object) -> int:
    """Bytes of an index's attribute."""
    if isinstance(value, tuple):
        return sum(map(array_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray | RowBuffer) else 0


def structure_bytes(index: Index) -> int:
    """Bytes without what is kept by row: those arrays shrink when they next move."""
    by_row = [index._keys, index._links] if index.kind == "hash" else [index._keys]  # type: ignore[attr-defined]
    return index.nbytes - sum(buffer.nbytes for buffer in by_row)


@each_tree
def test_sparse_leaves_are_packed(kind: str) -> None:
    """A row or two per node stay alive, spread over all keys: the tree is built anew, not kept at that."""
    size, groups = node_size.TTREE_NODE, 100
    rounds = [np.arange(groups, dtype=np.int64) * 1000 + i for i in range(size)]
    index = build_index(kind, 0, np.concatenate(rounds))
    index.purge((size - 1) * groups)
    index._check()
    assert len(index.keys) == groups
    state = index._state  # type: ignore[attr-defined]
    assert (state[USED] if kind == "t-tree" else state[IN_USE]) * size <= 4 * groups


def test_build_refuses_an_unknown_kind() -> None:
    with pytest.raises(AssertionError, match="found skip-list"):
        build_index("skip-list")


@each_kind
def test_probes_that_break_the_contract(kind: str) -> None:
    """A kernel checks nothing, so the index refuses rows that are gone or not there yet."""
    index = build_index(kind, 0, np.arange(10))
    index.purge(5)
    one = np.array([1])
    out = np.empty(1, np.int64)
    for row_from, row_until, end in ((4, 10, 10), (5, 11, 10), (5, 10, 11)):
        probes = Probes(one, one, np.array([row_from]), np.array([row_until]), end)
        with pytest.raises(AssertionError, match="expected"):
            index.run(probes, out, out, False)


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    """The same tests on plain Python kernels, with tiny nodes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


MANY_MATCHES = """
import numpy as np
from penstock.engine.indexes.build import build_index
from penstock.engine.indexes.index import Probes

rng = np.random.default_rng(1)
index, window, step = build_index("t-tree"), 2_000, 1_000
for start in range(0, 6_000, step):
    end = start + step
    index.extend(rng.integers(0, 100, step))
    keys, until = rng.integers(0, 100, step), np.arange(start + 1, end + 1)
    probes = Probes(keys, keys, np.maximum(until - window, 0), until, end)
    while not probes.done:
        index.run(probes, *np.empty((2, 4_096), np.int64), False)
    index.purge(end - window)
    index._check()
"""


def test_full_nodes_that_are_packed_have_room() -> None:
    """Entries that probers pass over again and again are dropped by packing, which may take more nodes than
    there are. Without the JIT, where a place outside an array is an error."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MANY_MATCHES], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
