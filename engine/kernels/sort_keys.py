"""Sorting the keys of a batch: by one digit after the other, the least first.

Digits in which all keys agree are passed over, so that keys from a small range are sorted in few rounds.
"""

from __future__ import annotations

import numpy as np

from .jit import part

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
KEY_BITS = 64
SIGN = np.int64(-(1 << 63))


@part
def sort_keys(keys, sorted_keys, order, spare_keys, spare_order):  # type: ignore[no-untyped-def]
    """The keys (int64) in rising order, and where each was (order: int32); of equal ones the first comes first.

    Outputs are as long as keys, and so are the spare arrays, which are of the same types.
    """
    count = len(keys)
    differing = np.int64(0)
    for i in range(count):
        sorted_keys[i] = keys[i] ^ SIGN  # so that negative keys come before others
        order[i] = i
        differing |= keys[i] ^ keys[0]
    starts = np.empty(DIGITS, np.int64)
    is_swapped = False
    for shift in range(0, KEY_BITS, DIGIT_BITS):
        if (differing >> shift) & (DIGITS - 1) == 0:
            continue
        from_keys, from_order = sorted_keys, order
        to_keys, to_order = spare_keys, spare_order
        if is_swapped:
            from_keys, from_order, to_keys, to_order = to_keys, to_order, from_keys, from_order
        starts[:] = 0
        for i in range(count):
            starts[(from_keys[i] >> shift) & (DIGITS - 1)] += 1
        before = 0
        for digit in range(DIGITS):
            here = starts[digit]
            starts[digit] = before
            before += here
        for i in range(count):
            digit = (from_keys[i] >> shift) & (DIGITS - 1)
            to = starts[digit]
            starts[digit] = to + 1
            to_keys[to] = from_keys[i]
            to_order[to] = from_order[i]
        is_swapped = not is_swapped
    for i in range(count):
        if is_swapped:
            sorted_keys[i] = spare_keys[i]
            order[i] = spare_order[i]
        sorted_keys[i] ^= SIGN
