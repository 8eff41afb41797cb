"""Kernels of keys and times against naive twins: dicts, sorted lists, hashes in Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from change_joins_help import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernels import INT_MAX, INT_MIN, INTEGERS, ints

from penstock.engine.kernels.hopping import panes
from penstock.engine.kernels.rows import expiry, fingerprint, key_slots, times
from penstock.engine.kernels.rows.expiry import BUCKET, CHAIN, HEAP, LIST, NEVER, TIME
from penstock.engine.keys.fingerprint import NO_VALIDITY
from penstock.engine.keys.key_slots import NO_BYTES, NO_INTS
from penstock.engine.keys.keys import encode_values, seek, seek_codes
from penstock.engine.rows.band import Band
from penstock.engine.rows.expiry_queue import ExpiryQueue
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.types import SqlType

some = settings(max_examples=examples(60))
WORD = 2**64


def signed(number: int) -> int:
    """The int64 with the same 64 bits."""
    return (number + 2**63) % WORD - 2**63


def mixed(h: int, multiplier: int, shift: int) -> int:
    h = h * multiplier % WORD
    return h ^ (h >> shift)


def mixed_a(h: int, code: int) -> int:
    return mixed(h % WORD ^ code % WORD, 0xFF51AFD7ED558CCD, 33)


def mixed_b(h: int, code: int) -> int:
    return mixed((h + code) % WORD, 0xC4CEB9FE1A85EC53, 29)


def hash_of(text: bytes) -> tuple[int, int]:
    """FNV-1a and a running mix, each closed with the other's seed."""
    a, b = 0xCBF29CE484222325, 0x84222325CBF29CE4
    for byte in text:
        a = (a ^ byte) * 0x100000001B3 % WORD
        b = mixed(b + byte + 1, 0x9E3779B97F4A7C15, 29)
    return signed(mixed_a(a, 0x84222325CBF29CE4)), signed(mixed_b(b, 0xCBF29CE484222325))


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.twin("fingerprint.hash_texts")
@some
@given(st.lists(st.binary(max_size=9), max_size=5))
def test_hash_texts(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    a, b = fingerprint.hash_texts(frozen(offsets), np.frombuffer(b"".join(texts), np.uint8))
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [hash_of(text) for text in texts]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.twin("fingerprint.hash_column")
@some
@given(st.lists(st.tuples(INTEGERS, INTEGERS, INTEGERS, INTEGERS, st.booleans()), max_size=6), st.booleans())
def test_hash_column(rows: list[tuple[int, int, int, int, bool]], has_nulls: bool) -> None:
    """Hashes so far, the codes of one more value, whether it is there."""
    a, b, first, second = (ints([row[i] for row in rows]) for i in range(4))
    valid = np.array([row[4] for row in rows], np.uint8) if has_nulls else NO_VALIDITY
    fingerprint.hash_column(a, b, first, second, valid)
    for i, (one, two, *codes, there) in enumerate(rows):
        if has_nulls and not there:
            codes = [0xA5A5A5A55A5A5A5A, 0x5A5A5A5AA5A5A5A5]
        assert a[i] == signed(mixed_a(one, codes[0])) and b[i] == signed(mixed_b(two, codes[1]))


# -- slots by key --------------------------------------------------------------------------------------

Key = tuple[int, int]
KEYS = st.tuples(st.sampled_from([INT_MIN, -1, 0, 1, 2, 3, 40, INT_MAX]), st.integers(0, 2))


def arrays_of(keys: list[Key | None], short: bool) -> tuple[Any, Any, Any]:
    """Fingerprints, and which rows have a NULL in their keys, as kernels read them."""
    a, b = ([0 if key is None else key[word] for key in keys] for word in (0, 1))
    null = np.array([key is None for key in keys], np.uint8)
    return frozen(ints(a)), NO_INTS if short else frozen(ints(b)), frozen(null) if null.any() else NO_BYTES


def check_table(table: Any, keys: list[Key], first: int = 0) -> None:
    """Each slot from the first on, once, where a search from its bucket meets it before an empty cell."""
    assert sorted(table[table >= 0].tolist()) == list(range(first, len(keys)))
    for slot, (a, b) in list(enumerate(keys))[first:]:
        cell = int(key_slots.bucket_of(np.int64(a ^ b), key_slots.shift_of(len(table))))
        while table[cell] != slot:
            assert table[cell] >= 0, "an empty cell before the slot"
            cell = (cell + 1) % len(table)


LINES = st.sampled_from([(0, 0), (-1, 4), (INT_MAX - 2, INT_MAX)])
"""Keys of one word between these have the first slots, in their order."""


@pytest.mark.twin("key_slots.line_up")
@some
@given(st.lists(KEYS), LINES)
def test_line_up(keys: list[Key], line: tuple[int, int]) -> None:
    slots = np.full(len(keys), -9, np.int32)
    outside = key_slots.line_up(frozen(ints([key for key, _ in keys])), *line, slots)
    assert outside == sum(key not in range(*line) for key, _ in keys)
    assert outside or slots.tolist() == [range(*line).index(key) for key, _ in keys]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.twin("key_slots.insert_keys", "key_slots.find_keys", "key_slots.place_slots")
@some
@given(
    st.lists(st.lists(st.one_of(st.none(), KEYS, KEYS), min_size=1, max_size=10), min_size=1, max_size=3),
    st.lists(st.one_of(st.none(), KEYS), max_size=8),
    st.booleans(),
    LINES,
)
def test_key_slots(
    batches: list[list[Key | None]], sought: list[Key | None], short: bool, line: tuple[int, int]
) -> None:
    """Keys that come, and keys that are looked up; as numbers or as fingerprints; some have come in line."""
    if short:
        batches = [[key and (key[0], 0) for key in batch] for batch in batches]
        sought = [key and (key[0], 0) for key in sought]
    known: list[Key] = [(key, 0) for key in range(*line)]
    lined = used = len(known)
    stored, table = np.empty((8 if lined else 2, 2), np.int64), np.full(16 if lined else 4, -1, np.int32)
    stored[:lined] = ints(known).reshape(lined, 2)
    for batch in batches:
        rows, slots, at = arrays_of(batch, short), np.full(len(batch), -9, np.int32), 0
        while True:
            at, used = key_slots.insert_keys(*rows, at, table, stored, *line, used, slots)
            if at == len(batch):
                break
            assert used == len(stored) and batch[at] not in known, "stopped although there was room"
            known += [key for key in dict.fromkeys(batch[:at]) if key is not None and key not in known]
            stored = np.concatenate([stored, np.empty_like(stored)])
            table = np.full(2 * len(stored), -1, np.int32)
            key_slots.place_slots(table, stored, lined, used)
            check_table(table, known, lined)
        known += [key for key in dict.fromkeys(batch) if key is not None and key not in known]
        assert [None if slot < 0 else known[slot] for slot in slots.tolist()] == batch
        assert used == len(known) and list(map(tuple, stored[:used].tolist())) == known
    check_table(table, known, lined)
    found = np.full(len(sought), -9, np.int32)
    key_slots.find_keys(*arrays_of(sought, short), table, stored, *line, found)
    assert found.tolist() == [known.index(key) if key in known else -1 for key in sought]


@pytest.mark.twin("key_slots.renumber_slots")
@some
@given(st.lists(st.lists(st.integers(-1, 6), max_size=8), max_size=3))
def test_renumber_slots(inputs: list[list[int]]) -> None:
    """New numbers in the order in which slots are met, all inputs together; their keys go with them."""
    old, new = ints([(10 * slot, slot) for slot in range(7)]), np.full((7, 2), -9, np.int64)
    number, count = np.full(7, -1, np.int64), 0
    arrays = [np.array(rows, np.int32) for rows in inputs]
    for rows in arrays:
        count = key_slots.renumber_slots(rows, number, old, new, count)
    met = list(dict.fromkeys(slot for rows in inputs for slot in rows if slot >= 0))
    assert count == len(met) and new[:count].tolist() == [[10 * slot, slot] for slot in met]
    assert [rows.tolist() for rows in arrays] == [
        [met.index(slot) if slot >= 0 else -1 for slot in rows] for rows in inputs
    ]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.twin("panes.find_slots", "panes.file_slots")
@some
@given(st.lists(KEYS, min_size=1, max_size=30), st.booleans(), st.integers(1, 4))
def test_slots_of_panes(keys: list[Key], short: bool, room: int) -> None:
    """The slot of each row in the order in which keys come; more room whenever it stops for it."""
    if short:
        keys = [(key[0], 0) for key in keys]
    known = list(dict.fromkeys(keys))
    a, b = frozen(ints([one for one, _ in keys])), frozen(ints([two for _, two in keys]))
    stored_a, stored_b, table = ints([0]), ints([0]), np.full(2, -1, np.int32)
    out, new_rows, at, used = np.full(len(keys), -9, np.int32), np.empty(room, np.int32), 0, 0
    new: list[int] = []
    while True:
        before = used
        at, used = panes.find_slots(
            a, NO_INTS if short else b, at, table, stored_a, stored_b, used, new_rows, out
        )
        new += new_rows[: used - before].tolist()
        if at == len(keys):
            break
        assert used - before == room or used == len(stored_a), "stopped although there was room"
        if used == len(stored_a):
            stored_a, stored_b = (np.resize(one, 2 * used) for one in (stored_a, stored_b))
            table = np.full(2 * len(stored_a), -1, np.int32)
            panes.file_slots(stored_a, stored_b, used, table)
            check_table(table, known[:used])
    assert [known[slot] for slot in out.tolist()] == keys and used == len(known)
    assert new == [keys.index(key) for key in known]
    assert list(zip(stored_a[:used].tolist(), stored_b[:used].tolist(), strict=True)) == known
    check_table(table, known)


# -- what is due ---------------------------------------------------------------------------------------


@pytest.mark.twin("times.push_times", "times.pop_times")
@some
@given(st.lists(st.tuples(st.lists(st.sampled_from([*range(12), NEVER]), max_size=9), st.integers(0, 14))))
def test_times_that_are_to_come(rounds: list[tuple[list[int], int]]) -> None:
    """Times that come and are taken out up to now; NEVER is no time."""
    queue, waiting = ExpiryQueue(), set[int]()
    for new, now in rounds:
        queue.reserve(len(new))
        times.push_times(queue.arrays, ints(new))
        queue._check()
        waiting |= {time for time in new if time != NEVER}
        out = np.empty(len(queue), np.int64)
        due = sorted(time for time in waiting if time <= now)
        assert out[: times.pop_times(queue.arrays, now, out)].tolist() == due
        waiting -= set(due)


@pytest.mark.twin("expiry.fill_buckets")
@some
@given(st.lists(st.integers(0, 60), unique=True, max_size=16), st.randoms(use_true_random=False))
def test_fill_buckets(due: list[int], dice: Any) -> None:
    """Lists in any order of the heap: each is in the chain of its time's bucket, once."""
    lists, meta = np.full((16, 7), -1, np.int64), np.zeros(8, np.int64)
    held = list(range(len(due)))
    dice.shuffle(held)
    lists[: len(due), LIST], lists[held, TIME], meta[HEAP] = held, due, len(due)
    expiry.fill_buckets(lists, meta)
    chains: dict[int, set[int]] = {}
    for bucket, first in enumerate(lists[:, BUCKET].tolist()):
        while first >= 0:
            chains.setdefault(bucket, set()).add(int(lists[first, TIME]))
            first = int(lists[first, CHAIN])
    expected: dict[int, set[int]] = {}
    for time in due:
        expected.setdefault((time * 0x9E3779B97F4A7C15 % WORD >> 24) % 16, set()).add(time)
    assert chains == expected


@given(
    st.lists(st.floats(), max_size=8),
    st.lists(st.integers(-9, 9), max_size=8),
    st.sampled_from([None, 0, -1, 0.5]),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.booleans(),
)
def test_what_codes_seek_is_what_their_values_seek(
    doubles: list[float],
    integers: list[int],
    low: float | None,
    high: int | None,
    low_closed: bool,
    high_closed: bool,
) -> None:
    band = Band(low, low_closed, high, high_closed)
    arrays = {SqlType.DOUBLE: pa.array(doubles, pa.float64()), SqlType.BIGINT: pa.array(integers, pa.int64())}
    for type_, values in arrays.items():
        wanted = seek(values, type_, band)
        for one, two in zip(seek_codes(encode_values(values, type_), type_, band), wanted, strict=True):
            assert one.tolist() == two.tolist()
