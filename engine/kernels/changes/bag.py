"""Live rows by key: hash chains from which any row can be taken out at once, and what leaves when.

A row has a slot, free again once it has left. `bag` is a tuple of arrays, indexed by the names below:

ROWS    int64[slots, 8]: key (two), ets, row number in the store, links, fingerprint (two). A cache line each
STATE   int8[slots]: FREE, ALIVE, or gone and still to be looked at: WITHDRAWN, EXPIRED
HEADS   int32[buckets, 2]: newest and oldest slot of each bucket, negative for none; a power of two, from 2 on
META    int64: see below
ALIVE_ROWS   uint8 by row number less META[BASE]: 1 while the row is alive
DUE     the five arrays of expiry.py; ids are slots

Chains run from newest to oldest by OLDER and back by NEWER. An entry of the expiry queue may be of a row that
was withdrawn: then its slot is not alive or has another ets. If the slot has been given to a row with the
same ets, that row is due just as well. Room for slots, buckets and entries is the caller's job (see bag.py).
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel, part
from penstock.engine.kernels.rows.expiry import HEAD, NEVER, RING, first_due, pop_due, push_due
from penstock.engine.kernels.rows.hash import shift_of

ROWS, STATE, HEADS, META, ALIVE_ROWS, DUE = range(6)
KEY_A, KEY_B, ETS, ROW, OLDER, NEWER, PRINT_A, PRINT_B = range(8)
FREE, ALIVE, WITHDRAWN, EXPIRED = range(4)
FREED, FRESH, LIVE, FINITE, GONE, GONE_ROWS, BASE, LINKED = range(8)
"""META: first free slot, first slot never used, rows alive, those with an ets, the chain of slots that are
gone and not free yet, their number, what to take from row numbers, whether rows are in chains."""

NO_PRINT = np.int64(0)
MIX = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)


@expand
def chain_of(a, b, shift):  # type: ignore[no-untyped-def]
    """Bucket of a key."""
    h = np.uint64(a) ^ (np.uint64(b) * MIX)
    return np.int64(((h ^ (h >> HALF)) * MIX) >> shift)


@expand
def link_slot(rows, heads, shift, slot):  # type: ignore[no-untyped-def]
    """Put a row at the newest end of its chain."""
    chain = chain_of(rows[slot, KEY_A], rows[slot, KEY_B], shift)
    newest = np.int64(heads[chain, 0])
    rows[slot, OLDER] = newest
    rows[slot, NEWER] = -1
    heads[chain, 0] = slot
    if newest >= 0:
        rows[newest, NEWER] = slot
    else:
        heads[chain, 1] = slot


@expand
def enter(  # type: ignore[no-untyped-def]
    rows, state, heads, meta, alive, ring_ets, ring_id, heap_ets, heap_id, due_meta, shift, a, b, print_a,
    print_b, ets, row,
):  # fmt: skip
    """Add a row and return its slot. DUE comes in parts, which are not taken out of it for every row."""
    slot = meta[FREED]
    if slot >= 0:
        meta[FREED] = rows[slot, OLDER]
    else:
        slot = meta[FRESH]
        meta[FRESH] += 1
    rows[slot, KEY_A] = a
    rows[slot, KEY_B] = b
    rows[slot, ETS] = ets
    rows[slot, ROW] = row
    rows[slot, PRINT_A] = print_a
    rows[slot, PRINT_B] = print_b
    state[slot] = ALIVE
    alive[row - meta[BASE]] = 1
    meta[LIVE] += 1
    if meta[LINKED]:
        link_slot(rows, heads, shift, slot)
    if ets != NEVER:
        meta[FINITE] += 1
        last = (due_meta[HEAD] + due_meta[RING]) & (len(ring_ets) - 1)
        if due_meta[RING] and ring_ets[(last - 1) & (len(ring_ets) - 1)] > ets:
            push_due(ring_ets, ring_id, heap_ets, heap_id, due_meta, ets, slot)
        else:
            ring_ets[last] = ets
            ring_id[last] = slot
            due_meta[RING] += 1
    return slot


@expand
def leave(rows, state, heads, meta, alive, shift, slot):  # type: ignore[no-untyped-def]
    """Take a row out of its chain; its slot keeps what it says until it is let go."""
    if meta[LINKED]:
        older, newer = rows[slot, OLDER], rows[slot, NEWER]
        if older < 0 or newer < 0:
            chain = chain_of(rows[slot, KEY_A], rows[slot, KEY_B], shift)
            if newer < 0:
                heads[chain, 0] = older
            if older < 0:
                heads[chain, 1] = newer
        if older >= 0:
            rows[older, NEWER] = newer
        if newer >= 0:
            rows[newer, OLDER] = older
    state[slot] = WITHDRAWN
    alive[rows[slot, ROW] - meta[BASE]] = 0
    meta[LIVE] -= 1
    if rows[slot, ETS] != NEVER:
        meta[FINITE] -= 1


@expand
def let_go(rows, state, meta, slot, why, later):  # type: ignore[no-untyped-def]
    """Free the slot of a row that has left: at once, or `later`, by `release`."""
    if later:
        state[slot] = why
        rows[slot, OLDER] = meta[GONE]
        meta[GONE] = slot
        meta[GONE_ROWS] += 1
    else:
        state[slot] = FREE
        rows[slot, OLDER] = meta[FREED]
        meta[FREED] = slot


@expand
def is_row(rows, slot, a, b, print_a, print_b, ets):  # type: ignore[no-untyped-def]
    return (
        rows[slot, KEY_A] == a
        and rows[slot, KEY_B] == b
        and rows[slot, ETS] == ets
        and rows[slot, PRINT_A] == print_a
        and rows[slot, PRINT_B] == print_b
    )


@part
def find(rows, heads, shift, a, b, print_a, print_b, ets):  # type: ignore[no-untyped-def]
    """Slot of a row with these values, -1 if there is none. Looks from both ends: rows that are withdrawn are
    mostly the oldest (of a window) or the newest (a result that did not last)."""
    chain = chain_of(a, b, shift)
    new, old = np.int64(heads[chain, 0]), np.int64(heads[chain, 1])
    while old >= 0:
        if is_row(rows, old, a, b, print_a, print_b, ets):
            return old
        if old == new:
            return np.int64(-1)
        if is_row(rows, new, a, b, print_a, print_b, ets):
            return new
        old = rows[old, NEWER]
        if old == new:
            return np.int64(-1)
        new = rows[new, OLDER]
    return np.int64(-1)


@part
def expire(bag, now, later):  # type: ignore[no-untyped-def]
    """Drop the rows with ets <= now. Returns when the next one is due, or earlier."""
    rows, state, heads, meta, alive, (ring_ets, ring_id, heap_ets, heap_id, due_meta) = bag
    shift = shift_of(len(heads))
    due = first_due(ring_ets, heap_ets, due_meta)
    while due <= now and due != NEVER:
        slot = pop_due(ring_ets, ring_id, heap_ets, heap_id, due_meta)
        if state[slot] == ALIVE and rows[slot, ETS] == due:
            leave(rows, state, heads, meta, alive, shift, slot)
            let_go(rows, state, meta, slot, EXPIRED, later)
        due = first_due(ring_ets, heap_ets, due_meta)
    return due


@kernel
def release(bag, counts, marks, times):  # type: ignore[no-untyped-def]
    """Free the slots of rows that are gone, and write the ets of those that expired with a count above 0.

    counts, marks: int64 and uint8 by slot, set to 0. times: int64, room for all. Returns how many.
    """
    rows, state, meta = bag[ROWS], bag[STATE], bag[META]
    slot, told = meta[GONE], 0
    while slot >= 0:
        after = rows[slot, OLDER]
        if state[slot] == EXPIRED and counts[slot] > 0:
            times[told] = rows[slot, ETS]
            told += 1
        counts[slot] = 0
        marks[slot] = 0
        let_go(rows, state, meta, slot, FREE, False)
        slot = after
    meta[GONE] = -1
    meta[GONE_ROWS] = 0
    return told


@kernel
def relink(bag, slots, due):  # type: ignore[no-untyped-def]
    """Put the rows in `slots`, int64, oldest first, into empty chains; `due`: and into the empty queue."""
    rows, heads = bag[ROWS], bag[HEADS]
    ring_ets, ring_id, heap_ets, heap_id, due_meta = bag[DUE]
    shift = shift_of(len(heads))
    for slot in slots:
        if bag[META][LINKED]:
            link_slot(rows, heads, shift, slot)
        if due and rows[slot, ETS] != NEVER:
            push_due(ring_ets, ring_id, heap_ets, heap_id, due_meta, rows[slot, ETS], slot)


@kernel
def first_alive(alive, start, end):  # type: ignore[no-untyped-def]
    """The first place in [start, end) that is not 0, `end` if there is none."""
    while start < end and not alive[start]:
        start += 1
    return start
