"""Rows of one hop, joined by the slots of their keys (see key_slots.py; -1 joins nothing)."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel

AT, PLACE, CURSOR = 0, 1, 2
"""cursor, int64: the row to go on with, the place of its next partner, its length."""


@kernel
def sort_by_slot(slots, starts, places):  # type: ignore[no-untyped-def]
    """Rows by slot: those of slot s are places[starts[s] : starts[s + 1]], in their order.

    slots: int32 per row; starts: int64, zeros, two more than there are slots; places: int64, room for all
    rows. Writes both.
    """
    for row in range(len(slots)):
        starts[slots[row] + 2] += slots[row] >= 0
    for slot in range(2, len(starts)):
        starts[slot] += starts[slot - 1]
    for row in range(len(slots)):
        slot = slots[row]
        if slot >= 0:
            places[starts[slot + 1]] = row
            starts[slot + 1] += 1


@kernel
def pair_rows(slots, starts, places, cursor, out_left, out_right):  # type: ignore[no-untyped-def]
    """Pairs of rows with the sorted rows of their slots, until the output is full; how many.

    The caller owns out_left and out_right (int64). All is done when cursor[AT] is the number of rows.
    """
    found = 0
    place = cursor[PLACE]
    for row in range(cursor[AT], len(slots)):
        slot = slots[row]
        if slot < 0:
            continue
        stop = starts[slot + 1]
        if place < starts[slot]:
            place = starts[slot]
        while place < stop:
            if found == len(out_left):
                cursor[AT] = row
                cursor[PLACE] = place
                return found
            out_left[found] = row
            out_right[found] = places[place]
            found += 1
            place += 1
        place = 0
    cursor[AT] = len(slots)
    cursor[PLACE] = 0
    return found


@kernel
def select_matched(left, right, marks, matched, out):  # type: ignore[no-untyped-def]
    """Rows of the left whose key is among the right's, or is not; how many.

    left, right: slots; marks: uint8 by slot, zeros, written to; matched: which are wanted; out: int64, room
    for all rows of the left.
    """
    for row in range(len(right)):
        if right[row] >= 0:
            marks[right[row]] = 1
    found = 0
    for row in range(len(left)):
        slot = left[row]
        there = slot >= 0 and marks[slot] == 1
        out[found] = row
        found += there == matched
    return found
