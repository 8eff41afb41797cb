"""Changes of two bags, in order, each joined with the other bag as it is then.

Order: by ts; at one ts what leaves before what enters, left before right; each side in its own order.
`events` of a side is a tuple of arrays, indexed by the names below, one entry per change:

TS, END    int64; SIGN: int8; A, B: int64, its key; NULL_KEY: uint8, 1: joins nothing; empty: no such row
PRINT      two int64, what tells rows of one key apart; empty if the bag has none yet
NUMBER     int64: the row's number in the store, for one that enters; for one that is not stored, in any case

`out` is a tuple of arrays for pairs, the caller's: ts, ets int64[n]; sign int8[n]; rows, slots int64[2, n].
"""

from __future__ import annotations

import numpy as np

from .bag import (
    ETS,
    HEADS,
    KEY_A,
    KEY_B,
    OLDER,
    ROW,
    ROWS,
    WITHDRAWN,
    chain_of,
    enter,
    expire,
    find,
    leave,
    let_go,
    next_due,
)  # fmt: skip
from .expiry import NEVER
from .hash import shift_of
from .jit import kernel, part

TS, END, SIGN, A, B, NULL_KEY, PRINT_1, PRINT_2, NUMBER = range(9)
AT, INSIDE, SIDE, SLOT, NUMBER_NOW, PLACE, MISSING, DONE, CURSOR = 0, 2, 3, 4, 5, 6, 7, 8, 9
"""cursor: the next change of each side (two); whether it is being joined, then: its side, its slot and row
number, the other side's slot to go on with; withdrawn rows that were not there; all done; its length."""
IS_STORED, IS_COUNTED, LATER, OPTIONS = 0, 2, 4, 5
"""options, int64: whether rows of each side are stored (two), counted (two); `release` frees slots."""
CAME, WENT = 2, -2
"""Signs of entries that are no pairs: a row of a counted side has come or gone."""


@part
def walk(rows, place, a, b, ts, ets, sign, side, slot, number, found, out):  # type: ignore[no-untyped-def]
    """Pairs of a row with a chain of the other side, from `place` on. Returns how many are in `out` now, and
    where to go on if it is full; -1 if the chain is done."""
    out_ts, out_ets, out_sign, out_rows, out_slots = out
    space = len(out_ts)
    other = 1 - side
    while place >= 0:
        if rows[place, KEY_A] == a and rows[place, KEY_B] == b:
            if found == space:
                return found, place
            out_ts[found] = ts
            out_ets[found] = min(ets, rows[place, ETS])
            out_sign[found] = sign
            out_rows[side, found] = number
            out_rows[other, found] = rows[place, ROW]
            out_slots[side, found] = slot
            out_slots[other, found] = place
            found += 1
        place = rows[place, OLDER]
    return found, place


@part
def change(bag, shift, events, at, stored, later):  # type: ignore[no-untyped-def]
    """Make one change of a bag. Returns the row's slot and its number; slot -2: it is not there."""
    number = events[NUMBER][at]
    if not stored:
        return np.int64(-1), number
    printed = len(events[PRINT_1]) > 0
    print_a, print_b = (events[PRINT_1][at], events[PRINT_2][at]) if printed else (np.int64(0), np.int64(0))
    a, b, ets = events[A][at], events[B][at], events[END][at]
    if events[SIGN][at] > 0:
        return enter(bag, shift, a, b, print_a, print_b, ets, number), number
    slot = find(bag, shift, a, b, print_a, print_b, ets)
    if slot < 0:
        return np.int64(-2), number
    leave(bag, shift, slot)
    return slot, bag[ROWS][slot, ROW]


@kernel
def run_join(left, right, lefts, rights, known, options, cursor, out):  # type: ignore[no-untyped-def]
    """Make the changes `lefts` and `rights` of two bags, join each, at last drop what is due up to `known`.

    Returns the entries written to `out`; when it is full, or as good as full, the cursor says where to go on.
    """
    left_shift, right_shift = shift_of(len(left[HEADS])), shift_of(len(right[HEADS]))
    left_due, right_due = next_due(left), next_due(right)
    left_ts, right_ts = lefts[TS], rights[TS]
    left_sign, right_sign = lefts[SIGN], rights[SIGN]
    later = options[LATER] != 0
    out_ts, out_ets, out_sign, out_rows, out_slots = out
    space = len(out_ts)
    found = 0
    i, j = cursor[AT], cursor[AT + 1]
    side, slot, number, place = cursor[SIDE], cursor[SLOT], cursor[NUMBER_NOW], cursor[PLACE]
    inside = cursor[INSIDE] != 0
    while True:
        if not inside:
            # 1. who is next
            if i < len(left_ts):
                side = 0
                if j < len(right_ts) and (
                    right_ts[j] < left_ts[i]
                    or (right_ts[j] == left_ts[i] and right_sign[j] < 0 and left_sign[i] > 0)
                ):
                    side = 1
            elif j < len(right_ts):
                side = 1
            else:
                break
            if found == space:
                cursor[AT], cursor[AT + 1], cursor[INSIDE] = i, j, 0
                return found
        if side == 0:
            now, sign, ets, a, b = left_ts[i], left_sign[i], lefts[END][i], lefts[A][i], lefts[B][i]
            is_null = len(lefts[NULL_KEY]) > 0 and lefts[NULL_KEY][i] != 0
        else:
            now, sign, ets, a, b = right_ts[j], right_sign[j], rights[END][j], rights[A][j], rights[B][j]
            is_null = len(rights[NULL_KEY]) > 0 and rights[NULL_KEY][j] != 0
        if not inside:
            # 2. what has left by now, the change itself, and where its partners are
            if left_due <= now:
                left_due = expire(left, left_shift, now, later)
            if right_due <= now:
                right_due = expire(right, right_shift, now, later)
            place = np.int64(-1)
            slot = np.int64(-2)
            if ets > now and (not is_null or options[IS_COUNTED + side]):
                if side == 0:
                    slot, number = change(left, left_shift, lefts, i, options[IS_STORED], later)
                    left_due = min(left_due, ets)
                    place = np.int64(right[HEADS][chain_of(a, b, right_shift), 0])
                else:
                    slot, number = change(right, right_shift, rights, j, options[IS_STORED + 1], later)
                    right_due = min(right_due, ets)
                    place = np.int64(left[HEADS][chain_of(a, b, left_shift), 0])
                if slot == -2:
                    cursor[MISSING] += 1
            if slot == -2:
                i += 1 - side
                j += side
                continue
            if is_null:
                place = np.int64(-1)
            if options[IS_COUNTED + side]:
                out_ts[found] = now
                out_ets[found] = NEVER
                out_sign[found] = CAME if sign > 0 else WENT
                out_rows[side, found] = number
                out_rows[1 - side, found] = -1
                out_slots[side, found] = slot
                out_slots[1 - side, found] = -1
                found += 1
        # 3. its pairs
        if place >= 0:
            rows = right[ROWS] if side == 0 else left[ROWS]
            found, place = walk(rows, place, a, b, now, ets, sign, side, slot, number, found, out)
            if place >= 0:
                cursor[AT], cursor[AT + 1], cursor[INSIDE] = i, j, 1
                cursor[SIDE], cursor[SLOT], cursor[NUMBER_NOW], cursor[PLACE] = side, slot, number, place
                return found
        inside = False
        # 4. a row that left is let go once its pairs are found
        if sign < 0 and slot >= 0:
            if side == 0:
                let_go(left, slot, WITHDRAWN, later)
            else:
                let_go(right, slot, WITHDRAWN, later)
        i += 1 - side
        j += side
    if known >= left_due:
        expire(left, left_shift, known, later)
    if known >= right_due:
        expire(right, right_shift, known, later)
    cursor[AT], cursor[AT + 1], cursor[INSIDE], cursor[DONE] = i, j, 0, 1
    return found


@kernel
def count_ends(left, right, counts, signs, slots, kept):  # type: ignore[no-untyped-def]
    """Count each pair with the row that ends it: the one with the smaller ets, left if they are the same.

    counts: int64 by slot of each side (two); signs int8, slots int64[2, n]; kept: int64, the pairs meant.
    """
    left_counts, right_counts = counts
    for k in kept:
        one, two = slots[0, k], slots[1, k]
        one_ets, two_ets = left[ROWS][one, ETS], right[ROWS][two, ETS]
        if one_ets <= two_ets:
            if one_ets != NEVER:
                left_counts[one] += signs[k]
        else:
            right_counts[two] += signs[k]
