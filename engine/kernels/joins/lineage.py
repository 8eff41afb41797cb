"""What lineage tells of a row: where its value lies among sorted cuts, and a bit per condition."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel, part


@kernel
def find_leaves(codes, cuts, leaves):  # type: ignore[no-untyped-def]
    """Fill leaves (int32, one per code): how many cuts are not above the code.

    codes int64; cuts int64, ascending, distinct. All searches take one step of a binary search after the
    other: no jump depends on a value, and the steps vectorize. Places are unsigned, for the reason that
    hash.py gives.
    """
    leaves[:] = 0
    size = len(cuts)  # how many cuts from leaves[i] on may still be the last that is not above codes[i]
    while size > 1:
        half = size >> 1
        for i in range(len(codes)):
            below = leaves[i]
            leaves[i] = below + half * (cuts[np.uint64(below + half - 1)] <= codes[i])
        size -= half
    if size:
        for i in range(len(codes)):
            leaves[i] += cuts[np.uint64(leaves[i])] <= codes[i]


@part
def is_above(cut_starts, cuts, cut, starts, texts, i):  # type: ignore[no-untyped-def]
    """Whether a cut is above text i, by their bytes."""
    at, end = cut_starts[cut], cut_starts[cut + 1]
    there, stop = starts[i], starts[i + 1]
    while at < end and there < stop:
        if cuts[at] != texts[there]:
            return cuts[at] > texts[there]
        at += 1
        there += 1
    return at < end


@kernel
def find_text_leaves(starts, texts, cut_starts, cuts, leaves):  # type: ignore[no-untyped-def]
    """The same for texts: starts int32, one more than there are; their bytes uint8."""
    for i in range(len(leaves)):
        low, high = (
            0,
            len(cut_starts) - 1,
        )  # cuts before `low` are not above the text, those from `high` on are
        while low < high:
            middle = (low + high) >> 1
            if is_above(cut_starts, cuts, middle, starts, texts, i):
                high = middle
            else:
                low = middle + 1
        leaves[i] = low


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
