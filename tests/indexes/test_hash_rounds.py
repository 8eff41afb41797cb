"""Hash chains walked by many probers at once, against the naive twin: blocks that are full, matches that are
too many for the output or for a block, calls that stop and go on.

Run with NUMBA_DISABLE_JIT=1 the kernels are plain Python, where every array access is checked:
`test_with_the_jit_off` does that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_indexes import NaiveHash
from numpy.typing import NDArray

from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.base.cursor import CURSOR_SLOTS, DONE, PROBER
from penstock.engine.kernels.indexes import hash_rounds
from penstock.engine.kernels.indexes.hash_rounds import BLOCK, ROOM
from penstock.engine.kernels.joins.slices import build_slices
from penstock.engine.kernels.rows import hash as chains

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ENDS = (40, 300)
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # hashing without the JIT


class Case:
    """Rows that were there, rows that come while probers probe, and what the twin finds."""

    def __init__(self, seed: int, probers: int, keys: int, coming: int, origin: int) -> None:
        dice = np.random.default_rng(seed)
        self.there, self.origin = 500, origin
        self.end = origin + self.there + coming
        self.keys = dice.integers(0, keys, self.there + coming)
        sought = dice.integers(0, keys + 1, probers)
        high = sought + (dice.random(probers) < 0.1)  # some seek a range, which hashing does not find
        until = origin + self.there + np.sort(dice.integers(0, coming + 1, probers))
        start = np.minimum(origin + np.sort(dice.integers(0, self.there + coming // 2, probers)), until)
        self.probers = sought, high, start, until
        self.times = until + dice.integers(0, 3, probers)
        twin = NaiveHash(origin)
        twin.extend(self.keys.tolist())
        self.expected = twin.pairs(Probes(*self.probers, self.end))

    def begin(self) -> tuple[NDArray, NDArray, NDArray, int]:
        """Chains of the rows that were there: keys, links, heads, origin."""
        links, heads = np.empty(len(self.keys), np.int32), np.full(256, -1, np.int32)
        chains.link_rows(self.keys, links, heads, 0, self.there)
        return self.keys, links, heads, self.origin

    def check(self, links: NDArray, heads: NDArray, inserted: int) -> None:
        """All rows are in the chains, newest first, each once."""
        assert inserted == len(self.keys)
        walked = []
        for head in heads.tolist():
            while head >= 0:
                walked.append(head)
                assert links[head] < head
                head = int(links[head])
        assert sorted(walked) == list(range(inserted))


CASES = st.builds(
    Case,
    seed=st.integers(0, 2**32),
    probers=st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7]),
    keys=st.sampled_from([3, 60, 5_000]),
    coming=st.sampled_from([0, 5, 400]),
    origin=st.sampled_from([0, 2**40]),
)
few = settings(max_examples=40 if JIT else 6, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def find_all(case: Case, space: int) -> int:
    """Go on until all is found, as the index does; how often the probers went one by one."""
    arrays, cursor = case.begin(), np.zeros(CURSOR_SLOTS, np.int64)
    inserted, at, singles = case.there, 0, 0
    out = np.empty(space, np.int64), np.empty(space, np.int64)
    find: Callable[..., Any] = hash_rounds.find_pairs
    work = find
    while not cursor[DONE]:
        found, inserted = work(*arrays, inserted, *case.probers, case.end, cursor, *out)
        pairs = list(zip(*(column[:found].tolist() for column in out), strict=True))
        assert pairs == case.expected[at : at + found]
        at += found
        if work is find and not cursor[DONE]:
            # a block is found as a whole or not at all
            assert [p for p, _ in case.expected[:at]] == [p for p, _ in case.expected if p < cursor[PROBER]]
        if not found and not cursor[DONE]:
            assert work is find, "nothing was found by a prober alone, and it is not the end"
            work = chains.run_hash
            singles += 1
    assert at == len(case.expected)
    case.check(arrays[1], arrays[2], inserted)
    return singles


@pytest.mark.twin("hash_rounds.find_pairs")
@few
@given(CASES, st.sampled_from([1, 3, 300, 5_000, 200_000]))
def test_find_pairs(case: Case, space: int) -> None:
    find_all(case, space)


@pytest.mark.twin("hash.run_hash")
@pytest.mark.parametrize(("space", "singles"), [(300, 1), (200_000, 1)])
def test_blocks_with_too_many_matches_go_one_by_one(space: int, singles: int) -> None:
    """Too many for the output, or for being put into order, however much room there is."""
    case = Case(1, 2 * BLOCK, 3, 400, 0)
    assert len(case.expected) > 2 * ROOM
    assert find_all(case, space) == singles


def test_blocks_that_fit_are_found_call_by_call() -> None:
    """Each call ends before the block that does not fit any more, and the next goes on with it."""
    case = Case(2, 8 * BLOCK, 500, 400, 7)
    assert len(case.expected) > 3 * BLOCK
    assert find_all(case, 4 * BLOCK) == 0


@pytest.mark.twin("hash_rounds.count_pairs", "hash_rounds.count_ages", "hash_rounds.count_cells")
@few
@given(CASES)
def test_counts(case: Case) -> None:
    """As many pairs as the twin finds, each in the slice of its age and in the cell of its rows' leaves."""
    slices, pos = build_slices(np.array(ENDS)), np.arange(case.origin, case.end)
    leaves = (case.keys % 2).astype(np.int32)
    of_prober = 6 * (np.arange(len(case.times)) % 4)
    ages = [int(case.times[prober]) - row for prober, row in case.expected]
    places = [sum(age >= end for end in ENDS) for age in ages]
    cells = [
        int(of_prober[prober] + 3 * leaves[row - case.origin]) + place
        for (prober, row), place in zip(case.expected, places, strict=True)
    ]
    sliced = case.times, pos, case.origin, *slices
    for kernel, extra, size, dtype, wanted in (
        (hash_rounds.count_pairs, None, 0, np.int64, []),
        (hash_rounds.count_ages, (), len(ENDS) + 1, np.int64, places),
        (hash_rounds.count_cells, (of_prober, leaves, case.origin, 3), 24, np.int32, cells),
    ):
        arrays, cursor = case.begin(), np.zeros(CURSOR_SLOTS, np.int64)
        histogram = np.zeros(size, dtype)
        more = () if extra is None else (*sliced, histogram, *extra)
        found, inserted = kernel(*arrays, case.there, *case.probers, case.end, cursor, *more)
        assert found == len(case.expected)
        assert cursor[DONE]
        assert histogram.tolist() == [wanted.count(place) for place in range(size)]
        case.check(arrays[1], arrays[2], inserted)


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_with_the_jit_off() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
