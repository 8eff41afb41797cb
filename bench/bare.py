"""The join with nothing around it: what the machine can do, against which the engine is measured.

One loop over the arrays of two whole streams: each row, in time order, probes the other side's hash chains
(newest first, ending at the first expired row) and is put into its own. No batches, no Arrow, no queues, no
operators; the arrays it writes to are the caller's, allocated and touched before the clock starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel, part

from .streams import Stream

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(40)


@part
def bucket_of(key, mask):  # type: ignore[no-untyped-def]
    return np.int64((np.uint64(key) * MIX) >> SHIFT) & mask


@kernel
def write_pairs(  # type: ignore[no-untyped-def]
    a_ts, a_key, b_ts, b_key, size, a_heads, a_links, b_heads, b_links, out_a, out_b
):
    """All pairs of row numbers, in the order in which they are found. Returns how many.

    ts, key: int64 by row. heads: int32[a power of two], -1; links: int32 by row; out: int64, room for all.
    """
    mask = len(a_heads) - 1
    i = j = a_low = b_low = found = 0
    while i < len(a_ts) or j < len(b_ts):
        if j == len(b_ts) or (i < len(a_ts) and a_ts[i] <= b_ts[j]):
            key = a_key[i]
            while b_low < j and a_ts[i] - b_ts[b_low] >= size:
                b_low += 1
            bucket = bucket_of(key, mask)
            row = b_heads[bucket]
            while row >= b_low:
                if b_key[row] == key:
                    out_a[found] = i
                    out_b[found] = row
                    found += 1
                row = b_links[row]
            a_links[i] = a_heads[bucket]
            a_heads[bucket] = i
            i += 1
        else:
            key = b_key[j]
            while a_low < i and b_ts[j] - a_ts[a_low] >= size:
                a_low += 1
            bucket = bucket_of(key, mask)
            row = a_heads[bucket]
            while row >= a_low:
                if a_key[row] == key:
                    out_a[found] = row
                    out_b[found] = j
                    found += 1
                row = a_links[row]
            b_links[j] = b_heads[bucket]
            b_heads[bucket] = j
            j += 1
    return found


@kernel
def count_pairs(  # type: ignore[no-untyped-def]
    a_ts, a_key, b_ts, b_key, size, a_heads, a_links, b_heads, b_links
):
    """How many pairs there are; as write_pairs."""
    mask = len(a_heads) - 1
    i = j = a_low = b_low = found = 0
    while i < len(a_ts) or j < len(b_ts):
        if j == len(b_ts) or (i < len(a_ts) and a_ts[i] <= b_ts[j]):
            key = a_key[i]
            while b_low < j and a_ts[i] - b_ts[b_low] >= size:
                b_low += 1
            bucket = bucket_of(key, mask)
            row = b_heads[bucket]
            while row >= b_low:
                found += b_key[row] == key
                row = b_links[row]
            a_links[i] = a_heads[bucket]
            a_heads[bucket] = i
            i += 1
        else:
            key = b_key[j]
            while a_low < i and b_ts[j] - a_ts[a_low] >= size:
                a_low += 1
            bucket = bucket_of(key, mask)
            row = a_heads[bucket]
            while row >= a_low:
                found += a_key[row] == key
                row = a_links[row]
            b_links[j] = b_heads[bucket]
            b_heads[bucket] = j
            j += 1
    return found


@kernel
def nested_loop(a_ts, a_key, b_ts, b_key, size, band, start, out_a, out_b):  # type: ignore[no-untyped-def]
    """The nested loop as a textbook has it: each row is compared with every live row, one after the other.

    All pairs with keys at most `band` apart, found by rows from `start` on; returns how many. Writing a pair
    where there is one keeps the compiler from comparing several rows at once, as the engine's scan does.
    """
    i = j = a_low = b_low = found = 0
    while i < len(a_ts) or j < len(b_ts):
        if j == len(b_ts) or (i < len(a_ts) and a_ts[i] <= b_ts[j]):
            while b_low < j and a_ts[i] - b_ts[b_low] >= size:
                b_low += 1
            if i >= start:
                for row in range(b_low, j):
                    if abs(a_key[i] - b_key[row]) <= band:
                        out_a[found] = i
                        out_b[found] = row
                        found += 1
            i += 1
        else:
            while a_low < i and b_ts[j] - a_ts[a_low] >= size:
                a_low += 1
            if j >= start:
                for row in range(a_low, i):
                    if abs(b_key[j] - a_key[row]) <= band:
                        out_a[found] = row
                        out_b[found] = j
                        found += 1
            j += 1
    return found


class NestedLoop:
    """The textbook's loop over two streams: `total` pairs, and the work of the rows from `start` on."""

    def __init__(self, a: Stream, b: Stream, size_us: int, band: int, start: int) -> None:
        self._inputs = (a.ts, a.key, b.ts, b.key, size_us, band)
        self._start = start
        self._out = [np.zeros(8 * (len(a) + len(b)), np.int64) for _ in range(2)]

    def total(self) -> int:
        return int(nested_loop(*self._inputs, 0, *self._out))

    def work(self) -> int:
        return int(nested_loop(*self._inputs, self._start, *self._out))


class BareJoin:
    """The loop with its arrays: `reset` before each run, which is not part of it."""

    def __init__(self, a: Stream, b: Stream, size_us: int, buckets: int, pairs: int) -> None:
        self._inputs = (a.ts, a.key, b.ts, b.key, size_us)
        self._heads = [np.empty(buckets, np.int32) for _ in range(2)]
        self._links = [np.zeros(len(stream.ts), np.int32) for stream in (a, b)]
        self._out = [np.zeros(pairs, np.int64) for _ in range(2)]

    def reset(self) -> None:
        for heads in self._heads:
            heads[:] = -1

    def write(self) -> int:
        """Row numbers of all pairs."""
        return int(write_pairs(*self._inputs, *self._state, *self._out))

    def count(self) -> int:
        """Their number only."""
        return int(count_pairs(*self._inputs, *self._state))

    def pairs(self) -> tuple[NDArray, NDArray]:
        """What `write` found."""
        self.reset()
        found = self.write()
        return self._out[0][:found], self._out[1][:found]

    @property
    def _state(self) -> tuple[NDArray, ...]:
        return self._heads[0], self._links[0], self._heads[1], self._links[1]
