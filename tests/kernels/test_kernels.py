"""Kernels of the join against naive twins: a line or two of Python that say what is meant.

Each runs compiled and as plain Python (`py_func`), on the same draws. The index kernels have twins of their
own, in naive_indexes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.kernels.base import gather, vectors
from penstock.engine.kernels.indexes import sort_keys, sorted_nodes
from penstock.engine.kernels.joins import bounds
from penstock.engine.kernels.rows import hash as hash_chains
from penstock.engine.kernels.rows import keys, merge


@numba.njit
def compiled_count_seen(keys, rows, here, low, width, start, seen):  # type: ignore[no-untyped-def]
    return vectors.count_seen(keys, rows, here, low, width, start, seen)


TIMES = st.lists(st.integers(0, 12), max_size=12).map(sorted)


def both(kernel: Any) -> list[Callable[..., Any]]:
    """The compiled function and the Python it was compiled from."""
    return [kernel, kernel.py_func]


def ints(values: Any) -> NDArray:
    return np.array(values, np.int64)


@pytest.mark.twin("bounds.meet")
@given(TIMES, TIMES, st.integers(0, 5), st.integers(0, 5))
def test_meet(left: list[int], right: list[int], left_first: int, right_first: int) -> None:
    for kernel in both(bounds.meet):
        by_left, by_right = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
        kernel(ints(left), ints(right), left_first, right_first, by_left, by_right)
        assert by_left.tolist() == [right_first + sum(r <= t for r in right) for t in left]
        assert by_right.tolist() == [left_first + sum(l < t for l in left) for t in right]


@pytest.mark.twin("bounds.first_alive")
@given(TIMES, TIMES, st.integers(1, 8), st.integers(0, 3))
def test_first_alive(probers: list[int], stored: list[int], size: int, base: int) -> None:
    """Rows stored from number `base` on; a prober sees those that are not newer than it."""
    until = [base + sum(ts <= t for ts in stored) for t in probers]
    expected = [base + sum(t - ts >= size for ts in stored) for t in probers]
    for kernel in both(bounds.first_alive):
        found = np.empty(len(probers), np.int64)
        end = base + len(stored)
        seen = kernel(ints(probers), ints(until), size, ints(stored), base, base, end, found)
        assert found.tolist() == expected
        assert seen == sum(until) - sum(expected)


@pytest.mark.twin("bounds.first_places")
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=12), TIMES, st.integers(1, 5))
def test_first_places(rows: list[tuple[int, bool]], probers: list[int], size: int) -> None:
    """A stream of which some rows are stored; a window of the last `size` rows, stored or not."""
    rows = sorted(rows)
    come = [ts for ts, _ in rows]
    places = [place for place, (_, is_stored) in enumerate(rows) if is_stored]
    until = [sum(come[place] <= t for place in places) for t in probers]
    expected = []
    for t, seen in zip(probers, until, strict=True):
        alive = range(sum(ts <= t for ts in come) - size, len(come))
        expected.append(min(seen, sum(place < alive.start for place in places)))
    for kernel in both(bounds.first_places):
        found = np.empty(len(probers), np.int64)
        seen = kernel(ints(probers), ints(until), ints(places), 0, 0, ints(come), 0, size, found)
        assert found.tolist() == expected
        assert seen == sum(until) - sum(expected)


@pytest.mark.twin("bounds.silence_displaced")
@given(TIMES, st.integers(1, 4), st.integers(0, 9))
def test_silence_displaced(come: list[int], size: int, before: int) -> None:
    """`before` rows came earlier; of those at one instant only the last `size` were ever in the window."""
    expected = [sum(ts <= t for ts in come) - size <= place for place, t in enumerate(come)]
    for kernel in both(bounds.silence_displaced):
        low, high = np.full(len(come), 5), np.full(len(come), 5)
        kernel(ints(come), ints(range(len(come))) + before, ints(come), before, size, low, high)
        assert [bool(a <= b) for a, b in zip(low, high, strict=True)] == expected


@pytest.mark.twin("merge.merge_pairs")
@given(st.data(), st.booleans(), st.booleans())
def test_merge_pairs(data: st.DataObject, a_done: bool, b_done: bool) -> None:
    lists = []
    for _ in range(2):
        ts = data.draw(TIMES)
        most = len(ts) - 1
        probers = sorted(data.draw(st.lists(st.integers(0, most), max_size=9))) if ts else []
        lists.append((ts, probers, list(range(100, 100 + len(probers)))))
    (a_ts, a_prober, a_row), (b_ts, b_prober, b_row) = lists
    pairs = [(a_ts[p], 0, i, 7 + p, a_row[i]) for i, p in enumerate(a_prober)]
    pairs += [(b_ts[p], 1, i, b_row[i], 9 + p) for i, p in enumerate(b_prober)]
    merged = sorted(pairs)
    # It stops where a list ends that is not done: what comes after might come before the rest of the other.
    for side, done, count in ((0, a_done, len(a_prober)), (1, b_done, len(b_prober))):
        if not done:
            ends = [place for place, pair in enumerate(merged) if pair[1] == side and pair[2] == count - 1]
            merged = merged[: ends[0] + 1] if ends else [] if not count else merged
    for kernel in both(merge.merge_pairs):
        out = [np.empty(len(pairs), np.int64) for _ in range(3)]
        count, a_at, b_at = kernel(
            ints(a_prober), ints(a_row), 0, len(a_prober), a_done, ints(a_ts), 7,
            ints(b_prober), ints(b_row), 0, len(b_prober), b_done, ints(b_ts), 9, *out,
        )  # fmt: skip
        found = list(zip(*(column[:count].tolist() for column in out), strict=True))
        assert found == [(ts, left, right) for ts, _, _, left, right in merged]
        assert a_at == sum(pair[1] == 0 for pair in merged)
        assert b_at == sum(pair[1] == 1 for pair in merged)


@pytest.mark.twin("merge.order_runs")
@given(st.lists(st.lists(st.integers(0, 9), max_size=8).map(sorted), min_size=1, max_size=5))
def test_order_runs(runs: list[list[int]]) -> None:
    times = np.array([time for run in runs for time in run], np.int64)
    starts = np.cumsum([0, *map(len, runs)])
    order = np.empty(len(times), np.int32)
    merge.order_runs(times, starts, order)
    assert order.tolist() == np.argsort(times, kind="stable").tolist()


@pytest.mark.twin("gather.gather")
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.data())
def test_gather(values: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(3, 3 + len(values) - 1)))
    for kernel in both(gather.gather):
        assert kernel(ints(values), 3, ints(rows)).tolist() == [values[row - 3] for row in rows]


@pytest.mark.twin("gather.text_offsets", "gather.gather_text", "gather.text_length")
@given(st.lists(st.binary(max_size=6), min_size=1, max_size=8), st.data())
def test_gather_text(texts: list[bytes], data: st.DataObject) -> None:
    rows = ints(data.draw(st.lists(st.integers(2, 2 + len(texts) - 1))))
    starts = ints(np.cumsum([40, *map(len, texts)]))
    stored = np.frombuffer(b"".join(texts), np.uint8)
    expected = [texts[row - 2] for row in rows]
    for place in range(2):
        offsets = both(gather.text_offsets)[place](starts, 2, rows)
        assert offsets.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
        found = both(gather.gather_text)[place](starts, 2, stored, 40, rows, offsets)
        assert found.tobytes() == b"".join(expected)
        assert both(gather.text_length)[place](starts, 2, rows) == sum(map(len, expected))


def fnv(text: bytes) -> int:
    """64-bit FNV-1a with a final mix, in plain integers."""
    h, mask = 0xCBF29CE484222325, (1 << 64) - 1
    for byte in text:
        h = ((h ^ byte) * 0x100000001B3) & mask
    h ^= h >> 33
    h = (h * 0xFF51AFD7ED558CCD) & mask
    h ^= h >> 33
    return h - (1 << 64) if h >> 63 else h


@pytest.mark.twin("keys.hash_text")
@given(st.lists(st.binary(max_size=12), max_size=6))
def test_hash_text(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    stored = np.frombuffer(b"".join(texts), np.uint8)
    assert keys.hash_text(offsets, stored).tolist() == [fnv(text) for text in texts]


def combined(one: int, other: int) -> int:
    """The hash of two numbers, in Python's integers."""
    mask = 2**64 - 1
    h = ((one & mask) * 0xFF51AFD7ED558CCD) & mask
    h ^= h >> 33
    h = ((h ^ (other & mask)) * 0xC4CEB9FE1A85EC53) & mask
    h ^= h >> 33
    return h - (1 << 64) if h >> 63 else h


@pytest.mark.twin("keys.combine_hashes")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=6))
def test_combine_hashes(pairs: list[tuple[int, int]]) -> None:
    for kernel in both(keys.combine_hashes):
        found = kernel(ints([one for one, _ in pairs]), ints([other for _, other in pairs]))
        assert found.tolist() == [combined(one, other) for one, other in pairs]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_combined_hashes_tell_the_order(one: int, other: int) -> None:
    ab = keys.combine_hashes(ints([one]), ints([other]))[0]
    ba = keys.combine_hashes(ints([other]), ints([one]))[0]
    assert (ab == ba) == (one == other)
    assert ab == keys.combine_hashes(ints([one]), ints([other]))[0]


@pytest.mark.twin("hash.link_rows")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(st.lists(st.integers(-9, 9), max_size=30), st.data())
def test_link_rows(values: list[int], data: st.DataObject) -> None:
    """Links of the live rows laid anew: each chain leads from its newest to its oldest."""
    start = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(start, len(values)))
    stored = ints(values)
    for kernel in both(hash_chains.link_rows):
        links, heads = np.full(len(values), -9, np.int32), np.full(8, -1, np.int32)
        kernel(stored, links, heads, start, end)
        shift = hash_chains.shift_of(len(heads))
        for bucket, newest in enumerate(heads.tolist()):
            walked = []
            while newest >= 0:
                walked.append(newest)
                newest = int(links[newest])
            rows = reversed(range(start, end))
            assert walked == [row for row in rows if hash_chains.bucket_of(stored[row], shift) == bucket]


INT_MIN, INT_MAX = -(2**63), 2**63 - 1
SHIFTS = st.sampled_from([0, 1, -1, 7, -7, 2**62 + 1, -(2**62) - 1])
INTEGERS = st.one_of(
    st.integers(INT_MIN, INT_MAX), st.sampled_from([INT_MIN, INT_MIN + 1, INT_MAX - 1, INT_MAX])
)


@pytest.mark.twin("keys.seek_integers")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(st.lists(INTEGERS, max_size=8), SHIFTS, st.booleans(), SHIFTS, st.booleans())
def test_seek_integers(
    values: list[int], low_shift: int, from_least: bool, high_shift: int, to_greatest: bool
) -> None:
    low_shift, high_shift = 0 if from_least else low_shift, 0 if to_greatest else high_shift
    for kernel in both(keys.seek_integers):
        low, high = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        kernel(ints(values), np.int64(low_shift), from_least, np.int64(high_shift), to_greatest, low, high)
        for value, least, greatest in zip(values, low.tolist(), high.tolist(), strict=True):
            wanted_low = INT_MIN if from_least else max(INT_MIN, value + low_shift)
            wanted_high = INT_MAX if to_greatest else min(INT_MAX, value + high_shift)
            if wanted_low > INT_MAX or wanted_high < INT_MIN:
                assert least > greatest
            else:
                assert (least, greatest) == (wanted_low, wanted_high)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(st.lists(st.one_of(INTEGERS, st.integers(0, 9), st.integers(0, 2**40)), min_size=1, max_size=300))
def test_sort_keys(values: list[int]) -> None:
    """Spread out or close together, so that insertion does or gives up; ties stay in order."""
    for kernel in both(sort_keys.sort_keys):
        out, spare = np.empty((2, len(values)), np.int64)
        order, spare_order = np.empty((2, len(values)), np.int32)
        kernel(ints(values), out, order, spare, spare_order)
        assert out.tolist() == sorted(values)
        assert order.tolist() == sorted(range(len(values)), key=lambda i: values[i])


def test_sort_keys_where_insertion_gives_up() -> None:
    """Two keys far apart, and all others so close to each other that their leading digits are the same."""
    values = np.random.default_rng(2).integers(0, 1000, 3000)
    values[[0, 1]] = INT_MIN, INT_MAX
    out, spare = np.empty((2, len(values)), np.int64)
    order, spare_order = np.empty((2, len(values)), np.int32)
    sort_keys.sort_keys(values, out, order, spare, spare_order)
    assert (order == np.argsort(values, kind="stable")).all()
    assert (out == np.sort(values)).all()


@given(st.lists(INTEGERS, max_size=40), st.lists(INTEGERS, max_size=40))
def test_merge_entries(old: list[int], new: list[int]) -> None:
    """New entries follow old ones with the same key."""
    old, new = sorted(old), sorted(new)
    entries = sorted(
        [*zip(old, range(len(old)), strict=True), *zip(new, range(100, 100 + len(new)), strict=True)]
    )
    for kernel in both(sorted_nodes.merge_entries):
        out_keys, out_rows = kernel(
            ints(old), np.arange(len(old)), ints(new), np.arange(len(new), dtype=np.int32), 100
        )
        assert list(zip(out_keys.tolist(), out_rows.tolist(), strict=True)) == entries


@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(
    st.lists(st.tuples(INTEGERS, st.integers(0, 20)), min_size=9, max_size=9), INTEGERS, INTEGERS, st.data()
)
def test_count_seen(entries: list[tuple[int, int]], one: int, other: int, data: st.DataObject) -> None:
    low, high = min(one, other), max(one, other)
    start, seen = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))

    wanted = sum(low <= key <= high and start <= row < start + seen for key, row in entries[1:])
    all_keys, all_rows = (ints(column) for column in zip(*entries, strict=True))
    for function in (compiled_count_seen, vectors.count_seen):
        found = function(all_keys, all_rows, np.uint32(1), low, np.uint64(high - low), start, np.uint64(seen))
        assert found == wanted


@pytest.mark.twin("keys.keep_equal")
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=8))
def test_keep_equal(pairs: list[tuple[int, int, bool]]) -> None:
    values = ints([10, 20, 10])
    for kernel in both(keys.keep_equal):
        keep = np.array([kept for _, _, kept in pairs], np.uint8)
        kernel(values, 0, ints([a for a, _, _ in pairs]), values, 0, ints([b for _, b, _ in pairs]), keep)
        assert keep.tolist() == [kept and values[a] == values[b] for a, b, kept in pairs]


@pytest.mark.twin("keys.keep_equal_text")
@given(st.lists(st.binary(max_size=3), min_size=3, max_size=3), st.data())
def test_keep_equal_text(texts: list[bytes], data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2))))
    starts = ints(np.cumsum([5, *map(len, texts)]))
    stored = np.frombuffer(b"".join(texts), np.uint8)
    side = (starts, 0, stored, 5)
    for kernel in both(keys.keep_equal_text):
        keep = np.ones(len(pairs), np.uint8)
        kernel(*side, ints([a for a, _ in pairs]), *side, ints([b for _, b in pairs]), keep)
        assert keep.tolist() == [texts[a] == texts[b] for a, b in pairs]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, float("inf"), float("-inf"), 5e-324])
def test_codes_of_doubles_keep_their_order(value: float) -> None:
    from penstock.engine.keys.keys import encode_double

    others = np.array([-np.inf, -2.0, -0.0, 0.0, 5e-324, 2.0, 1e300, np.inf])
    code, codes = encode_double(np.array([value]))[0], encode_double(others)
    assert ((codes < code) == (others < value)).all()
    assert ((codes == code) == (others == value)).all()
    assert (encode_double(np.array([np.nan, -np.nan])) > encode_double(np.array([np.inf]))).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_stands_where_null_is_warns_of_nothing() -> None:
    """Bits there are anyone's, also those of a NaN that signals when it is touched."""
    from penstock.engine.keys.keys import encode_double

    signalling = np.array([0x7FF0000000000001], np.int64).view(np.float64)
    assert encode_double(signalling).tolist() == encode_double(np.array([np.nan])).tolist()
