"""Sorting the keys of a batch: by their leading digits, and the rest by insertion.

Keys that are spread out are told apart by a few digits, far fewer than they have. Where they are not, because
many lie close together, insertion gives up and all digits are gone through.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import part

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
MANY_MOVES = 4  # per key: insertion gives up


@part
def sort_by_digit(from_keys, from_order, to_keys, to_order, low, shift):  # type: ignore[no-untyped-def]
    """Sort by one digit of the distance from `low` (uint64), keeping the order where it is the same.

    keys: int64; order: int32; all of one length.
    """
    starts = np.zeros(DIGITS + 1, np.uint32)
    mask = np.uint64(DIGITS - 1)
    for i in range(len(from_keys)):
        starts[(((np.uint64(from_keys[i]) - low) >> shift) & mask) + np.uint64(1)] += np.uint32(1)
    for digit in range(1, DIGITS):
        starts[digit] += starts[digit - 1]
    for i in range(len(from_keys)):
        digit = ((np.uint64(from_keys[i]) - low) >> shift) & mask
        to = starts[digit]
        starts[digit] = to + np.uint32(1)
        to_keys[to] = from_keys[i]
        to_order[to] = from_order[i]


@part
def sort_by_insertion(keys, order, most):  # type: ignore[no-untyped-def]
    """Sort what is nearly sorted; False if that takes more than `most` moves."""
    moves = 0
    for i in range(1, len(keys)):
        key = keys[i]
        if key < keys[i - 1]:
            place = order[i]
            j = i
            while j > 0 and key < keys[j - 1]:
                keys[j] = keys[j - 1]
                order[j] = order[j - 1]
                j -= 1
            keys[j] = key
            order[j] = place
            moves += i - j
            if moves > most:
                return False
    return True


@part
def sort_keys(keys, sorted_keys, order, spare_keys, spare_order):  # type: ignore[no-untyped-def]
    """The keys (int64) in rising order, and where each was (order: int32); equal ones stay in order.

    Outputs are as long as keys, at least 1, and so are the spare arrays, which are of the same types.
    """
    least = greatest = keys[0]
    for i in range(len(keys)):
        least = min(least, keys[i])
        greatest = max(greatest, keys[i])
    low = np.uint64(least)
    span = np.uint64(greatest) - low
    bits = 0
    while bits < 64 and span >> np.uint64(bits):
        bits += 1
    skipped = max(0, bits - 2 * DIGIT_BITS)
    while True:
        for i in range(len(keys)):
            sorted_keys[i] = keys[i]
            order[i] = i
        shift = skipped
        while shift < bits:
            sort_by_digit(sorted_keys, order, spare_keys, spare_order, low, np.uint64(shift))
            shift += DIGIT_BITS
            if shift < bits:
                sort_by_digit(spare_keys, spare_order, sorted_keys, order, low, np.uint64(shift))
                shift += DIGIT_BITS
            else:
                sorted_keys[:] = spare_keys
                order[:] = spare_order
        if skipped == 0 or sort_by_insertion(sorted_keys, order, MANY_MOVES * len(keys)):
            return
        skipped = 0
