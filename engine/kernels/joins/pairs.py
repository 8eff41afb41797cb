"""Pairs of a shared join, sorted out: rows that lie on several shelves, and who takes which pair."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel

ROW_BITS = 44  # of a reference to a row: below them its number, above them its shelf
ROW_MASK = (1 << ROW_BITS) - 1


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
def take_pairs_of(  # type: ignore[no-untyped-def]
    ts, left, right, left_age, right_age, leaves, words, left_size, right_size, low, high, bits,
    out_ts, out_left, out_right,
):  # fmt: skip
    """The pairs one member takes, in order, into the outputs, which have room for all; returns how many.

    ts, left, right, left_age, right_age: int64 per pair; leaves: int32[D, n]; words: int64[W, n]; of the
    member its windows, low, high: int32[D], bits: int64[W]. Written whether taken or not, and kept if it is.
    """
    count = np.int64(0)
    for i in range(len(ts)):
        out_ts[count] = ts[i]
        out_left[count] = left[i]
        out_right[count] = right[i]
        taken = np.int64(left_age[i] < left_size) & np.int64(right_age[i] < right_size)
        for d in range(len(low)):
            taken &= np.int64(leaves[d, i] >= low[d]) & np.int64(leaves[d, i] <= high[d])
        for w in range(len(bits)):
            taken &= np.int64((words[w, i] & bits[w]) == bits[w])
        count += taken
    return count
