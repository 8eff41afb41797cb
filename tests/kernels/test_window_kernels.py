"""Kernels of windows in common against naive twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.kernels.windows.changes import displace_rows, find_few, take_changes


@pytest.mark.twin("changes.take_changes")
@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_take_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, dimensions, words = int(rng.integers(0, 30)), int(rng.integers(0, 3)), int(rng.integers(0, 3))
    order = rng.permutation(count).astype(np.int32)
    times, refs = rng.integers(0, 99, count), rng.integers(0, 99, count)
    entering = int(rng.integers(0, count + 1))
    leaves = rng.integers(0, 4, (dimensions, count)).astype(np.int32)
    bits = rng.integers(0, 4, (words, count))
    low = rng.integers(0, 2, dimensions).astype(np.int32)
    high = low + rng.integers(0, 3, dimensions).astype(np.int32)
    asked_bits = rng.integers(0, 4, words)
    out = [np.empty(count + 1, kind) for kind in (np.int64, np.int8, np.int64)]
    changes = order, times, refs, entering, leaves, bits
    found = take_changes(changes, (low, high, asked_bits), tuple(out))
    expected = [
        (times[i], 1 if i >= entering else -1, refs[i])
        for i in order
        if all(low[d] <= leaves[d, i] <= high[d] for d in range(dimensions))
        and all(bits[w, i] & asked_bits[w] == asked_bits[w] for w in range(words))
    ]
    assert list(zip(*(one[:found].tolist() for one in out), strict=True)) == expected


@pytest.mark.twin("changes.displace_rows")
@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=20),
    st.integers(1, 8), st.integers(0, 9), st.integers(0, 5),
)  # fmt: skip
def test_displace_rows(gaps: list[int], size: int, before: int, first: int) -> None:
    """Window by window, of the instants from row `before` on; a late window has no rows below `first`."""
    ts = np.cumsum(gaps)
    before = int(np.searchsorted(ts, ts[min(before, len(ts) - 1)]))  # instants are whole
    first = min(first, before)
    base = -3
    out = [np.empty(2 * len(ts), kind) for kind in (np.int64, np.int8, np.int64)]
    places = np.concatenate([np.full(-base, -9), ts])
    count = displace_rows(places, base, before, len(ts), size, first, *out)
    found = list(zip(*(one[:count].tolist() for one in out), strict=True))
    held = set(range(max(first, before - size), before))
    expected = []
    for now in sorted(set(ts[before:].tolist())):
        end = int(np.searchsorted(ts, now, side="right"))
        there = set(range(max(first, end - size), end))
        expected += [(now, -1, row) for row in sorted(held - there)]
        expected += [(now, 1, row) for row in sorted(there - held)]
        held = there
    assert found == expected


@pytest.mark.twin("changes.find_few")
@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_find_few(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, members = int(rng.integers(0, 25)), int(rng.integers(1, 6))
    dimensions, words = int(rng.integers(0, 2)), int(rng.integers(0, 2))
    ts = np.sort(rng.integers(0, 30, count))
    come = int(rng.integers(0, count + 1))
    until = int(ts[-1]) if count else 30
    told = int(rng.integers(-5, until + 1))
    sizes = rng.integers(1, 12, members)
    leaves = rng.integers(0, 4, (dimensions, count)).astype(np.int32)
    bits = rng.integers(0, 4, (words, count))
    low = rng.integers(0, 2, (members, dimensions)).astype(np.int32)
    high = low + rng.integers(0, 3, (members, dimensions)).astype(np.int32)
    asked_bits = rng.integers(0, 4, (members, words))
    expected = []
    for m in range(members):
        gone = [(m, ts[i] + sizes[m], -1, 7 + i) for i in range(count) if told < ts[i] + sizes[m] <= until]
        for entry in [*gone, *((m, ts[i], 1, 7 + i) for i in range(come, count))]:
            i = entry[3] - 7
            if all(low[m, d] <= leaves[d, i] <= high[m, d] for d in range(dimensions)) and all(
                bits[w, i] & asked_bits[m, w] == asked_bits[m, w] for w in range(words)
            ):
                expected.append(entry)
    room = int(rng.integers(0, 2 * len(expected) + 2))
    out = [np.empty(3 + room, kind) for kind in (np.int64, np.int64, np.int8, np.int64)]
    demand = low, high, asked_bits
    found = find_few(ts, come, told, until, 7, sizes, demand, leaves, bits, 3, tuple(out))
    if room < len(expected):
        assert found == -1
    else:
        assert list(zip(*(one[3:found].tolist() for one in out), strict=True)) == expected
