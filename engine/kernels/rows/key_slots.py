"""A number for every key that has come: slots, by open addressing on the key's fingerprint.

table   int32[a power of two]: slot by fingerprint, -1 for none. Never more than half full.
keys    int64[slots, 2]: the fingerprint by slot
row_a   int64 per row: the first word of its fingerprint; row_b: the second, empty if it is 0 in all rows
null    uint8 per row: 1 if its key has a NULL, which has no slot (-1); empty if there is none

Integers often stand close together. The slot of a key of one word from `low` on and below `high` is how far
it is from `low`, whether it has come or not, and the table knows nothing of it; other slots follow.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel

from .hash import bucket_of, shift_of


@expand
def find_cell(table, keys, shift, a, b):  # type: ignore[no-untyped-def]
    """Cell of the table that has this key's slot, or the empty one where it would be."""
    mask = len(table) - 1
    cell = np.int64(bucket_of(a ^ b, shift))
    while True:
        slot = table[cell]
        if slot < 0 or (keys[slot, 0] == a and keys[slot, 1] == b):
            break
        cell = (cell + 1) & mask
    return cell


@kernel
def line_up(row_a, low, high, slots):  # type: ignore[no-untyped-def]
    """The slots of keys of one word that are all between `low` and `high`; how many are not.

    If any are not, nothing of what was written to `slots` counts.
    """
    outside = 0
    for row in range(len(row_a)):
        a = row_a[row]
        is_inside = low <= a < high
        slots[row] = a - low if is_inside else 0
        outside += not is_inside
    return outside


@kernel
def insert_keys(  # type: ignore[no-untyped-def]
    row_a, row_b, null, first, table, keys, low, high, used, slots
):  # fmt: skip
    """The slots of rows from `first` on, new ones for new keys. slots: int32 per row, the caller's.

    Returns the row to go on with (one that finds no room, or the number of rows) and the slots in use.
    """
    shift = shift_of(len(table))
    for row in range(first, len(row_a)):
        if len(null) and null[row]:
            slots[row] = -1
            continue
        a = row_a[row]
        b = np.int64(0) if len(row_b) == 0 else row_b[row]
        if b == 0 and low <= a < high:
            slots[row] = a - low
            continue
        cell = find_cell(table, keys, shift, a, b)
        slot = table[cell]
        if slot < 0:
            if used == len(keys):
                return row, used
            slot = np.int32(used)
            table[cell] = slot
            keys[slot, 0] = a
            keys[slot, 1] = b
            used += 1
        slots[row] = slot
    return len(row_a), used


@kernel
def find_keys(row_a, row_b, null, table, keys, low, high, slots):  # type: ignore[no-untyped-def]
    """The slots of rows, -1 where the key has none. slots: int32 per row, the caller's."""
    shift = shift_of(len(table))
    for row in range(len(row_a)):
        slots[row] = -1
        if len(null) == 0 or not null[row]:
            a = row_a[row]
            b = np.int64(0) if len(row_b) == 0 else row_b[row]
            if b == 0 and low <= a < high:
                slots[row] = a - low
            else:
                slots[row] = table[find_cell(table, keys, shift, a, b)]


@kernel
def place_slots(table, keys, first, used):  # type: ignore[no-untyped-def]
    """Put slots from `first` on into an empty table."""
    shift = shift_of(len(table))
    mask = len(table) - 1
    for slot in range(first, used):
        cell = np.int64(bucket_of(keys[slot, 0] ^ keys[slot, 1], shift))
        while table[cell] >= 0:
            cell = (cell + 1) & mask
        table[cell] = slot


@kernel
def renumber_slots(slots, number, keys, new_keys, count):  # type: ignore[no-untyped-def]
    """Give the slots that rows have new numbers from `count` on. slots: int32 per row, changed in place.

    number: int64 by old slot, -1 for one that has no new number yet; new_keys: by new slot, the caller's.
    Returns how many numbers are given.
    """
    for row in range(len(slots)):
        slot = slots[row]
        if slot >= 0:
            if number[slot] < 0:
                number[slot] = count
                new_keys[count, 0] = keys[slot, 0]
                new_keys[count, 1] = keys[slot, 1]
                count += 1
            slots[row] = number[slot]
    return count
