"""Which members rows of one stream belong to, and the values of some rows."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.jit import kernel

from .query_index import DIMENSION, FIRST_LEAF, FIRST_PLACE, LEAVES, fits, lists_of


@kernel
def report_rows(leaves, words, members, filing, start, out_member, out_row):  # type: ignore[no-untyped-def]
    """Write (member, row) for the rows from `start` on, whatever the windows. Returns (written, next row).

    leaves: int32[D, n]; words: int64[W, n]; outputs: int32, the caller's. Where they are full, the row that
    did not fit as a whole is the next one.
    """
    trees, starts, entries, _, longest = lists_of(filing)
    low, high, bits = borrowed(members.low), borrowed(members.high), borrowed(members.bits)
    room = len(out_member)
    count = 0
    for f in range(start, leaves.shape[1]):
        before = count
        for t in range(-1, len(trees)):
            # 1. leave out a path on which nobody is
            node, first = np.int64(0), np.int64(0)
            if t >= 0:
                leaf = np.int64(leaves[trees[t, DIMENSION], f])
                if longest[trees[t, FIRST_LEAF] + leaf] == 0:
                    continue
                node, first = trees[t, LEAVES] + leaf, trees[t, FIRST_PLACE]
            # 2. the two lists of each place up to the root
            while True:
                number = 2 * (first + node)
                at, middle, end = starts[number], starts[number + 1], starts[number + 2]
                if count + middle - at > room:
                    return before, f
                while at < middle:
                    out_member[count] = entries[at]
                    out_row[count] = f
                    count += 1
                    at += 1
                while at < end:
                    m = entries[at]
                    at += 1
                    if fits(m, f, low, high, bits, leaves, words):
                        if count == room:
                            return before, f
                        out_member[count] = m
                        out_row[count] = f
                        count += 1
                node >>= 1
                if node == 0:
                    break
    return count, leaves.shape[1]


@kernel
def find_bit(words, bit, out):  # type: ignore[no-untyped-def]
    """Write the positions of the words that have `bit` into `out`, ascending; returns how many.

    words: int64[n]; out: int32[n], the caller's, of which what comes after the last position means nothing.
    """
    count = 0
    for i in range(len(words)):
        out[count] = i  # no jump depends on the word: what is not kept is written over
        count += (words[i] & bit) != 0
    return count


@kernel
def count_bit(words, bit):  # type: ignore[no-untyped-def]
    """How many of the words (int64) have `bit`."""
    count = 0
    for i in range(len(words)):
        count += (words[i] & bit) != 0
    return count


@kernel
def gather_rows(values, rows, out):  # type: ignore[no-untyped-def]
    """Write values[row] for each of the rows (int32 or int64) into `out`, the caller's. Values are int64."""
    for i in range(len(rows)):
        out[i] = values[rows[i]]
