"""Pairs of a shared join, sorted out: rows that lie on several shelves, and who takes which pair."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel

ROW_BITS = 44  # of a reference to a row: below them its number, above them its shelf
ROW_MASK = (1 << ROW_BITS) - 1
TOGETHER = 1_024  # pairs told together: what is known of them stays in the first level cache


@kernel
def gather_shelf(refs, shelf, data, base, out):  # type: ignore[no-untyped-def]
    """out[i] = data[row - base] for the references (int64) to rows of this shelf; others stay as they are.

    Which shelf comes next is anyone's guess: so every value is read, and kept or not, without a jump.
    """
    for i in range(len(refs)):
        is_here = (refs[i] >> ROW_BITS) == shelf
        at = (refs[i] & ROW_MASK) - base
        value = data[at if is_here else 0]
        out[i] = value if is_here else out[i]


@kernel
def take_pairs_of(pairs, ages, tags, sizes, demand, out):  # type: ignore[no-untyped-def]
    """The pairs one member takes, in order, into the outputs, which have room for one more; returns how many.

    pairs: (ts, left, right), int64; ages: of their rows, left and right, int64, none: young enough; tags:
    (leaves, words) of both, int32[D, n] and int64[W, n]; of the member sizes: its windows, int64; demand:
    (low, high, bits), int32[D] and int64[W]; out: (ts, left, right), int64.
    Whether a pair is taken is told for many at once, a condition after the other, without a jump; then all
    are written, taken or not, and kept if they are.
    """
    ts, left, right = pairs
    left_age, right_age = ages
    leaves, words = tags
    low, high, bits = demand
    out_ts, out_left, out_right = out
    count = np.int64(0)
    taken = np.empty(TOGETHER, np.bool_)
    for start in range(0, len(ts), TOGETHER):
        some = min(len(ts) - start, TOGETHER)
        taken[:some] = True
        if len(left_age):
            size = sizes[0]
            for i in range(some):
                taken[i] &= left_age[start + i] < size
        if len(right_age):
            size = sizes[1]
            for i in range(some):
                taken[i] &= right_age[start + i] < size
        for d in range(len(low)):
            first, last, own = low[d], high[d], leaves[d]
            for i in range(some):
                taken[i] &= (own[start + i] >= first) & (own[start + i] <= last)
        for w in range(len(bits)):
            asked, word = bits[w], words[w]
            for i in range(some):
                taken[i] &= (word[start + i] & asked) == asked
        for i in range(some):
            at, to = np.uint64(start + i), np.uint64(count)
            out_ts[to] = ts[at]
            out_left[to] = left[at]
            out_right[to] = right[at]
            count += np.int64(taken[i])
    return count
