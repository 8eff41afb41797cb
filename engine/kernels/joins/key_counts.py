"""Matches counted without being looked at: for each key, how many live rows there are in each slice of age.

keys    int64[places, a power of two]: a key, where `taken`
taken   uint8 by place: whether there is a key
counts  int32[places, leaves * slices]: live rows of the key, by leaf and slice

Keys are found by open addressing and never leave; the table is made anew when it is half full. A row is
counted in the first slice when it is inserted and moves on when it has outlived one:

    rows    [ gone . . | slice 2 . . . | slice 1 . . | slice 0 . . . | to be inserted . . ]
                        tails[2]        tails[1]      tails[0]        inserted
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.cursor import DONE, PROBER
from penstock.engine.kernels.base.jit import expand, kernel
from penstock.engine.kernels.rows.hash import bucket_of, shift_of

INSERTED, USED, SHORT = range(3)  # slots of `state`: rows inserted, places taken, whether these ran out
STATE_SLOTS = 3
FOREVER = np.iinfo(np.int64).max


@expand
def find_place(key, keys, taken, shift):  # type: ignore[no-untyped-def]
    """The place of a key, or the free one where it belongs."""
    place = np.int64(bucket_of(key, shift))
    while taken[place] and keys[place] != key:
        place = (place + 1) & (len(keys) - 1)
    return place


@expand
def outlive(counters, at, at_base, row, slice_, slices):  # type: ignore[no-untyped-def]
    """A row leaves a slice: for the next, or for good."""
    first = at[row - at_base]
    counters[first + slice_] -= 1
    if slice_ + 1 < slices:
        counters[first + slice_ + 1] += 1


@kernel
def count_by_key(  # type: ignore[no-untyped-def]
    table, ends, tails, state, rows, probers, end, cursor, stride, histogram, most
):
    """Insert and probe in order, equality only, adding each prober's matches to the cells of the histogram.

    table: (keys, taken, counts) as above. ends: int64, where slices end. tails: int64 as above.
    rows: (keys, base, when they came, base, leaves, base, at, base), each by row less its base; at: int64,
    where the counters of a row's key and leaf begin; leaves: int32, empty if all are 0.
    probers: (keys, rows they see end at, times, slices they look back, first cells), int64 each.
    stride: cells per leaf of the rows. Returns how many pairs were found.

    Stops with more than `most` of them, or with state[SHORT] = 1 if the table is half full; the cursor says
    where to go on.
    """
    keys, taken, counts = table
    row_keys, keys_base, pos, pos_base, leaves, leaf_base, at, at_base = rows
    sought, row_until, times, reach, first_cells = probers
    counters = counts.reshape(-1)
    width = counts.shape[1]
    slices = len(ends)
    leaf_count = width // slices
    shift = shift_of(len(keys))
    inserted = state[INSERTED]
    state[SHORT] = 0
    found = np.int64(0)
    for prober in range(cursor[PROBER], len(sought) + 1):
        # 1. insert what precedes the prober; past the last one, what none of them saw
        is_last = prober == len(sought)
        until = end if is_last else row_until[prober]
        while inserted < until:
            place = find_place(row_keys[inserted - keys_base], keys, taken, shift)
            if not taken[place]:
                if 2 * state[USED] >= len(keys):
                    state[INSERTED], state[SHORT] = inserted, 1
                    cursor[PROBER] = prober
                    return found
                keys[place], taken[place] = row_keys[inserted - keys_base], 1
                state[USED] += 1
            own = np.int64(leaves[inserted - leaf_base]) if len(leaves) else np.int64(0)
            at[inserted - at_base] = place * width + own * slices
            counters[at[inserted - at_base]] += 1
            inserted += 1
        state[INSERTED] = inserted
        if is_last:
            cursor[DONE] = 1
            break
        # 2. move on what has outlived its slice
        now = times[prober]
        for s in range(slices):
            row = tails[s]
            while ends[s] < FOREVER and row < inserted and now - pos[row - pos_base] >= ends[s]:
                outlive(counters, at, at_base, row, s, slices)
                row += 1
            tails[s] = row
        # 3. count
        place = find_place(sought[prober], keys, taken, shift)
        if taken[place]:
            for leaf in range(leaf_count):
                cell = first_cells[prober] + stride * leaf
                for s in range(min(reach[prober], slices)):
                    count = counts[place, leaf * slices + s]
                    histogram[cell + s] += count
                    found += count
        if found > most:
            cursor[PROBER] = prober + 1
            return found
    cursor[PROBER] = len(sought)
    return found


@kernel
def forget_rows(counts, tails, state, at, at_base, row):  # type: ignore[no-untyped-def]
    """Rows below `row` are gone, whatever their age; the rest as above."""
    counters = counts.reshape(-1)
    slices = len(tails)
    state[INSERTED] = max(state[INSERTED], row)
    for s in range(slices):
        for one in range(tails[s], row):
            outlive(counters, at, at_base, one, s, slices)
        tails[s] = max(tails[s], row)
