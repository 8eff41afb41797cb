"""A number for every key that has come: slots, by open addressing on the key's fingerprint.

table   int32[a power of two]: slot by fingerprint, -1 for none. Never more than half full.
a, b    int64 by slot: the fingerprint
null    uint8 per row: 1 if its key has a NULL, which has no slot (-1); empty if there is none
"""

from __future__ import annotations

from .hash import bucket_of, shift_of
from .jit import kernel


@kernel
def insert_keys(row_a, row_b, null, first, table, a, b, used, slots):  # type: ignore[no-untyped-def]
    """The slots of rows from `first` on, new ones for new keys. slots: int64 per row, the caller's.

    Returns the row to go on with (one that finds no room, or the number of rows) and the slots in use.
    """
    shift = shift_of(len(table))
    mask = len(table) - 1
    for row in range(first, len(row_a)):
        if len(null) and null[row]:
            slots[row] = -1
            continue
        cell = bucket_of(row_a[row] ^ row_b[row], shift)
        while True:
            slot = table[cell]
            if slot < 0 or (a[slot] == row_a[row] and b[slot] == row_b[row]):
                break
            cell = (cell + 1) & mask
        if slot < 0:
            if used == len(a):
                return row, used
            slot = used
            table[cell] = slot
            a[slot] = row_a[row]
            b[slot] = row_b[row]
            used += 1
        slots[row] = slot
    return len(row_a), used


@kernel
def find_keys(row_a, row_b, null, table, a, b, slots):  # type: ignore[no-untyped-def]
    """The slots of rows, -1 where the key has none. slots: int64 per row, the caller's."""
    shift = shift_of(len(table))
    mask = len(table) - 1
    for row in range(len(row_a)):
        slots[row] = -1
        if len(null) and null[row]:
            continue
        cell = bucket_of(row_a[row] ^ row_b[row], shift)
        while table[cell] >= 0:
            slot = table[cell]
            if a[slot] == row_a[row] and b[slot] == row_b[row]:
                slots[row] = slot
                break
            cell = (cell + 1) & mask


@kernel
def place_slots(table, a, b, used):  # type: ignore[no-untyped-def]
    """Put all slots into an empty table."""
    shift = shift_of(len(table))
    mask = len(table) - 1
    for slot in range(used):
        cell = bucket_of(a[slot] ^ b[slot], shift)
        while table[cell] >= 0:
            cell = (cell + 1) & mask
        table[cell] = slot


@kernel
def renumber_slots(slots, number, a, b, new_a, new_b, count):  # type: ignore[no-untyped-def]
    """Give the slots that rows have new numbers from `count` on. slots: int64 per row, changed in place.

    number: int64 by old slot, -1 for one that has no new number yet; new_a, new_b: the fingerprints by new
    slot. Returns how many numbers are given.
    """
    for row in range(len(slots)):
        slot = slots[row]
        if slot >= 0:
            if number[slot] < 0:
                number[slot] = count
                new_a[count] = a[slot]
                new_b[count] = b[slot]
                count += 1
            slots[row] = number[slot]
    return count
