"""Changes of two bags, in order, each joined with the other bag as it is then.

Order: by ts; at one ts what leaves before what enters, left before right; each side in its own order.
What is told of a side is a tuple of arrays with an entry per change, in this order:

ts, end    int64; end: the row's ets
sign       int8
a, b       int64: its key
null       uint8: 1 if it joins nothing; empty if there is no such row
print      two int64: what tells rows of one key apart; empty if the bag has none yet
number     int64: that of the row in the store, if it enters; where rows are not stored its place

`out` is a tuple of arrays for pairs, the caller's: ts, ets int64[n]; sign int8[n]; rows, slots int64[2, n].
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel
from penstock.engine.kernels.rows.expiry import NEVER
from penstock.engine.kernels.rows.hash import shift_of

from .bag import (
    ETS,
    KEY_A,
    KEY_B,
    LIVE,
    NO_PRINT,
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
)

AT, INSIDE, SIDE, SLOT, NUMBER_NOW, PLACE, MISSING, DONE, CURSOR = 0, 2, 3, 4, 5, 6, 7, 8, 9
"""cursor: the next change of each side (two); whether it is being joined, then: its side, its slot and row
number, the other side's slot to go on with; withdrawn rows that were not there; all done; its length."""
IS_STORED, IS_COUNTED, LATER, PATIENCE, OPTIONS = 0, 2, 4, 5, 6
"""options, int64: whether rows of each side are stored (two), counted (two); whether slots are freed by
`release` only; after how many changes, at most, rows that have left are dropped: till then, skipped."""
CAME, WENT = 2, -2
"""Signs of entries that are no pairs: a row of a counted side has come or gone."""


@expand
def change(  # type: ignore[no-untyped-def]
    rows, state, heads, meta, alive, ring_ets, ring_id, heap_ets, heap_id, due_meta, shift, is_stored, sign,
    a, b, print_a, print_b, ets, number,
):  # fmt: skip
    """Make one change of a bag. Returns the row's slot; -1: rows are not stored, -2: it is not there."""
    slot = np.int64(-1)
    if is_stored and sign > 0:
        slot = enter(
            rows, state, heads, meta, alive, ring_ets, ring_id, heap_ets, heap_id, due_meta, shift, a, b,
            print_a, print_b, ets, number,
        )  # fmt: skip
    elif is_stored:
        slot = find(rows, heads, shift, a, b, print_a, print_b, ets)
        if slot >= 0:
            leave(rows, state, heads, meta, alive, shift, slot)
        else:
            slot = np.int64(-2)
    return slot


@kernel
def run_join(left, right, lefts, rights, known, options, cursor, out):  # type: ignore[no-untyped-def]
    """Make the changes `lefts` and `rights` of two bags, join each, at last drop what is due up to `known`.

    Returns the entries written to `out`; when it is full, or as good as full, the cursor says where to go on.
    """
    left_rows, left_state, left_heads, left_meta, left_alive, left_due = left
    left_ring, left_ring_id, left_heap, left_heap_id, left_due_meta = left_due
    right_rows, right_state, right_heads, right_meta, right_alive, right_due = right
    right_ring, right_ring_id, right_heap, right_heap_id, right_due_meta = right_due
    left_shift, right_shift = shift_of(len(left_heads)), shift_of(len(right_heads))
    left_ts, left_end, left_sign, left_a, left_b, left_null, left_print, left_print_2 = lefts[:8]
    left_number = lefts[8]
    right_ts, right_end, right_sign, right_a, right_b, right_null, right_print, right_print_2 = rights[:8]
    right_number = rights[8]
    out_ts, out_ets, out_sign, out_rows, out_slots = out
    later = options[LATER] != 0
    left_stored, right_stored = options[IS_STORED] != 0, options[IS_STORED + 1] != 0
    left_counted, right_counted = options[IS_COUNTED] != 0, options[IS_COUNTED + 1] != 0
    left_printed, right_printed = len(left_print) > 0, len(right_print) > 0
    left_nulls, right_nulls = len(left_null) > 0, len(right_null) > 0
    space = len(out_ts)
    found = 0
    i, j = cursor[AT], cursor[AT + 1]
    side, slot, number, place = cursor[SIDE], cursor[SLOT], cursor[NUMBER_NOW], cursor[PLACE]
    inside = cursor[INSIDE] != 0
    sweep = i + j
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
            now, sign, ets, a, b = left_ts[i], left_sign[i], left_end[i], left_a[i], left_b[i]
            is_null, counted = left_nulls and left_null[i] != 0, left_counted
        else:
            now, sign, ets, a, b = right_ts[j], right_sign[j], right_end[j], right_a[j], right_b[j]
            is_null, counted = right_nulls and right_null[j] != 0, right_counted
        if not inside:
            # 2. the change itself, and where its partners are
            if i + j >= sweep:
                expire(left, now, later)
                expire(right, now, later)
                sweep = i + j + min(options[PATIENCE], 16 + ((left_meta[LIVE] + right_meta[LIVE]) >> 3))
            slot = np.int64(-2)
            print_a, print_b = NO_PRINT, NO_PRINT
            if ets > now and (not is_null or counted):
                if side == 0:
                    number = left_number[i]
                    if left_printed:
                        print_a, print_b = left_print[i], left_print_2[i]
                    slot = change(
                        left_rows, left_state, left_heads, left_meta, left_alive,
                        left_ring, left_ring_id, left_heap, left_heap_id, left_due_meta, left_shift,
                        left_stored, sign, a, b, print_a, print_b, ets, number,
                    )  # fmt: skip
                    if slot >= 0:
                        number = left_rows[slot, ROW]
                    place = np.int64(right_heads[chain_of(a, b, right_shift), 0])
                else:
                    number = right_number[j]
                    if right_printed:
                        print_a, print_b = right_print[j], right_print_2[j]
                    slot = change(
                        right_rows, right_state, right_heads, right_meta, right_alive,
                        right_ring, right_ring_id, right_heap, right_heap_id, right_due_meta, right_shift,
                        right_stored, sign, a, b, print_a, print_b, ets, number,
                    )  # fmt: skip
                    if slot >= 0:
                        number = right_rows[slot, ROW]
                    place = np.int64(left_heads[chain_of(a, b, left_shift), 0])
                cursor[MISSING] += slot == -2
            if slot == -2:
                i += 1 - side
                j += side
                continue
            if is_null:
                place = np.int64(-1)
            if counted:
                out_ts[found] = now
                out_ets[found] = NEVER
                out_sign[found] = CAME if sign > 0 else WENT
                out_rows[side, found] = number
                out_rows[1 - side, found] = -1
                out_slots[side, found] = slot
                out_slots[1 - side, found] = -1
                found += 1
        # 3. its pairs
        inside = False
        rows = right_rows if side == 0 else left_rows
        other = 1 - side
        while place >= 0:
            if rows[place, KEY_A] == a and rows[place, KEY_B] == b and rows[place, ETS] > now:
                if found == space:
                    inside = True
                    break
                out_ts[found] = now
                out_ets[found] = min(ets, rows[place, ETS])
                out_sign[found] = sign
                out_rows[side, found] = number
                out_rows[other, found] = rows[place, ROW]
                out_slots[side, found] = slot
                out_slots[other, found] = place
                found += 1
            place = rows[place, OLDER]
        if inside:
            cursor[AT], cursor[AT + 1], cursor[INSIDE] = i, j, 1
            cursor[SIDE], cursor[SLOT], cursor[NUMBER_NOW], cursor[PLACE] = side, slot, number, place
            return found
        # 4. a row that left is let go once its pairs are found
        if sign < 0 and slot >= 0:
            if side == 0:
                let_go(left_rows, left_state, left_meta, slot, WITHDRAWN, later)
            else:
                let_go(right_rows, right_state, right_meta, slot, WITHDRAWN, later)
        i += 1 - side
        j += side
    expire(left, known, later)
    expire(right, known, later)
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
