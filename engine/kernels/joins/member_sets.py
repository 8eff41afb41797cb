"""Pairs counted or reported for 64 members at once, a bit each, and their counts as numbers written upright.

A pair's members are the AND of a few sets: those whose windows are longer than its age, and for each of its
leaves those whose intervals contain the leaf. Reporting them is listing its bits. Adding 1 to the counts of
all of them is adding a set to columns of bits, a word of 64 members at a time:

    plane 2   0 0 1 0     counts 1, 3, 6, 0          and the set 1 1 0 0 added:
    plane 1   0 1 1 0                                plane 0 ^ set, the carry to plane 1, ...
    plane 0   1 1 0 0

Most carries end soon, but no jump should depend on that: so a few low planes take every pair, and are added
to the others before they are full.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel

from .query_index import lowest_bit
from .slices import slice_of

PLANES = 24
LOW_PLANES = 4
MOST_AT_ONCE = (1 << PLANES) - 1


@expand
def carry_up(planes):  # type: ignore[no-untyped-def]
    """Add the low planes to the others, and clear them."""
    words = planes.shape[1]
    for w in range(words):
        carry = np.uint64(0)
        for p in range(LOW_PLANES):
            one, two = planes[p, w], planes[LOW_PLANES + p, w]
            planes[p, w] = 0
            planes[LOW_PLANES + p, w] = one ^ two ^ carry
            carry = (one & two) | (carry & (one ^ two))
        p = 2 * LOW_PLANES
        while carry and p < len(planes):
            two = planes[p, w]
            planes[p, w] = two ^ carry
            carry &= two
            p += 1


@kernel
def count_in_sets(age, leaves, slices, by_age, bases, by_leaf, counts):  # type: ignore[no-untyped-def]
    """Add the pairs to the counts (int64 by member) of the members they belong to.

    age: int64, at most MOST_AT_ONCE; leaves: int32[D, pairs]; by_age: uint64[slices + 1, words], by_leaf: of
    all dimensions, that of dimension d from bases[d] on.
    """
    words = by_age.shape[1]
    planes = np.zeros((LOW_PLANES + PLANES, words), np.uint64)
    some = np.empty(words, np.uint64)
    low0, low1, low2, low3 = planes[0], planes[1], planes[2], planes[3]
    added = 0
    for f in range(len(age)):
        some[:] = by_age[slice_of(age[f], slices.ends, slices.first, slices.shift)]
        for d in range(len(leaves)):
            here = by_leaf[bases[d] + leaves[d, f]]
            for w in range(words):
                some[w] &= here[w]
        for w in range(words):
            carry = some[w]
            one, two, three = low0[w], low1[w], low2[w]
            low0[w] = one ^ carry
            carry &= one
            low1[w] = two ^ carry
            carry &= two
            low2[w] = three ^ carry
            carry &= three
            low3[w] ^= carry
        added += 1
        if added == (1 << LOW_PLANES) - 1:
            carry_up(planes)
            added = 0
    carry_up(planes)
    for m in range(len(counts)):
        word, bit = m >> 6, np.uint64(m & 63)
        for p in range(PLANES):
            counts[m] += np.int64((planes[LOW_PLANES + p, word] >> bit) & np.uint64(1)) << p


@kernel
def report_from_sets(  # type: ignore[no-untyped-def]
    probed, age, leaves, slices, by_age, bases, by_leaf, start, out_member, out_pair
):
    """Write (member, pair) for the pairs from `start` on, members ascending. Returns (entries written, next
    pair).

    probed: uint8; slices, by_age: of the left and of the right, otherwise as for count_in_sets. The caller
    owns the outputs; where they are full, the pair that did not fit as a whole is the next one.
    """
    left, right = slices
    of_left, of_right = by_age
    words = of_left.shape[1]
    some = np.empty(words, np.uint64)
    room = len(out_member)
    count = 0
    for f in range(start, len(age)):
        if probed[f]:
            some[:] = of_right[slice_of(age[f], right.ends, right.first, right.shift)]
        else:
            some[:] = of_left[slice_of(age[f], left.ends, left.first, left.shift)]
        for d in range(len(leaves)):
            here = by_leaf[bases[d] + leaves[d, f]]
            for w in range(words):
                some[w] &= here[w]
        before = count
        for w in range(words):
            rest = some[w]
            while rest:
                if count == room:
                    return before, f
                out_member[count] = 64 * w + lowest_bit(rest)
                out_pair[count] = f
                count += 1
                rest &= rest - np.uint64(1)
    return count, len(age)
