"""What lineage tells of a row: where its value lies among sorted constants, and a bit per condition."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def find_leaves(codes, constants, leaves):  # type: ignore[no-untyped-def]
    """Fill leaves (int32, one per code): 2i + 1 for constants[i] itself, 2i for what lies right below it.

    codes int64; constants int64, ascending, distinct. Above all of them is 2 * len(constants). All searches
    take one step of a binary search after the other: no jump depends on a value, and the steps vectorize.
    Places are unsigned, for the reason that hash.py gives.
    """
    count = len(constants)
    if count == 1:
        for i in range(len(codes)):
            leaves[i] = np.int32(constants[0] < codes[i]) + np.int32(constants[0] <= codes[i])
        return
    leaves[:] = 0
    if count == 0:
        return
    size = count  # how many constants from leaves[i] on may still be the last below codes[i]
    while size > 1:
        half = size >> 1
        for i in range(len(codes)):
            below = leaves[i]
            leaves[i] = below + half * (constants[np.uint64(below + half - 1)] < codes[i])
        size -= half
    for i in range(len(codes)):
        below = leaves[i] + (constants[np.uint64(leaves[i])] < codes[i])
        nearest = below - (below == count)  # if all are below, the last of them is not equal
        leaves[i] = 2 * below + (constants[np.uint64(nearest)] == codes[i])


@kernel
def set_bit(mask, offset, words, bit):  # type: ignore[no-untyped-def]
    """Set `bit` (int64) in words[i] (int64) where bit offset + i of mask (uint8, low bits first) is 1."""
    for i in range(len(words)):
        at = offset + i
        words[i] |= bit * np.int64((mask[at >> 3] >> (at & 7)) & 1)


@kernel
def mark_nulls(valid, offset, leaves, null_leaf):  # type: ignore[no-untyped-def]
    """Put `null_leaf` into leaves[i] (int32) where bit offset + i of valid (uint8, low bits first) is 0."""
    for i in range(len(leaves)):
        at = offset + i
        is_valid = (valid[at >> 3] >> (at & 7)) & 1
        leaves[i] = leaves[i] if is_valid else null_leaf
