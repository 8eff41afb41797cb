"""Changes of a bag, sorted into groups: rows and expiries become events, instants become points.

An event is one row that enters or leaves a group; a point is the moment at which a group that was touched in
an instant has to say what its answer is now. Whoever aggregates walks the events and, before each point, has
applied all events below `until`.

slots    int64[capacity, 8], one line per group: its fingerprint, how many rows are in it, how many entries
         still refer to it, the row of its key, its mark (FREE, IDLE, TOUCHED). In a free slot the key is the
         next free slot.
table    int32[a power of two]: slot by fingerprint, open addressing, -1 for none. Never more than half full.
entries  int64 by entry: slot * 2, plus 1 if it puts a row back; the next free entry where there is none.
meta     int64[META], see below.

A slot is given back at a point at which its group has no rows and no entry refers to it.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel, part
from penstock.engine.kernels.rows.expiry import HEAD, HEAP, RING, first_due, pop_due, push_due
from penstock.engine.kernels.rows.hash import bucket_of, shift_of

A, B, ROWS, REFS, KEY, MARK = 0, 1, 2, 3, 4, 5
LINE = 8  # a cache line, of which two words are not used
FREE, IDLE, TOUCHED = -1, 0, 1

AT_ROW = 0  # the next row of the batch
NOW = 1  # the instant that is being worked
LISTED = 2  # groups touched in it
AT_POINT = 3  # of which so many have had their point
OPEN = 4  # 1: events of the instant are still being applied; 2: points are being made; 0: neither
UNSAID = 5  # 1: the one group without a key has not been heard of
USED_SLOTS = 6  # slots below this have been used
FREE_SLOT = 7  # the first free one below, -1: none
LIVE = 8  # groups
USED_ENTRIES = 9
FREE_ENTRY = 10
KEYS = 11  # rows of keys kept
EVENTS = 12
POINTS = 13
NEW = 14  # groups that are new
META = 15

DONE, FULL, GROW = 0, 1, 2
NEVER = (1 << 63) - 1


@expand
def find_cell(slots, table, shift, a, b):  # type: ignore[no-untyped-def]
    """Cell of the table that has this fingerprint's slot, or the empty one where it would be."""
    mask = len(table) - 1
    cell = np.int64(bucket_of(a ^ b, shift))
    while True:
        slot = table[cell]
        if slot < 0 or (slots[slot, A] == a and slots[slot, B] == b):
            break
        cell = (cell + 1) & mask
    return cell


@part
def empty_cell(slots, table, shift, cell):  # type: ignore[no-untyped-def]
    """Take a slot out of the table: those behind it move up, so that nothing marks the place."""
    mask = len(table) - 1
    hole = cell
    at = (cell + 1) & mask
    while table[at] >= 0:
        home = np.int64(bucket_of(slots[table[at], A] ^ slots[table[at], B], shift))
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = -1


@kernel
def fill_table(slots, table, used):  # type: ignore[no-untyped-def]
    """Put all groups into an empty table."""
    shift = shift_of(len(table))
    for slot in range(used):
        if slots[slot, MARK] != FREE:
            table[find_cell(slots, table, shift, slots[slot, A], slots[slot, B])] = slot


@kernel
def run_changes(  # type: ignore[no-untyped-def]
    rows, slots, table, entries, expiry, events, points, touched, new_rows, meta, known, limit, single,
    rows_only,
):  # fmt: skip
    """Work instants up to `limit` as far as there is room for events and points.

    rows: ts, sign (int8, empty: all +1), ets (empty: FOREVER), and the fingerprint, two int64; expiry: see
    expiry.py; events: slot, sign, row (-1: an expiry), entry (the expiry's, or made for the row; -1: none);
    points: ts, slot, until, rows, key; touched: int32 by slot, room; new_rows: int32, rows whose groups are
    new. known: when the single group speaks first, if no row comes by then. single: there is one group, slot
    0, and no key. rows_only: nobody asks for the events of expiries,
    nor for signs and entries; there are no entries then, only what they would have in them.
    Returns DONE, FULL (no room for more events or points: go on with empty ones) or GROW (no free slot).
    """
    ts, sign, ets, a, b = rows
    ring_ets, ring_id, heap_ets, heap_id, due_meta = expiry
    event_slot, event_sign, event_row, event_entry = events
    point_ts, point_slot, point_until, point_rows, point_key = points
    shift = shift_of(len(table))
    mask = len(ring_ets) - 1
    signed = len(sign) > 0
    ending = len(ets) > 0
    # What changes with every row stays out of the arrays in here: it costs half as much.
    row, event, point = meta[AT_ROW], meta[EVENTS], meta[POINTS]
    now, listed, at, state = meta[NOW], meta[LISTED], meta[AT_POINT], meta[OPEN]
    free_entry = meta[FREE_ENTRY]
    head, ring = due_meta[HEAD], due_meta[RING]
    due = first_due(ring_ets, heap_ets, due_meta)
    row_ts = ts[row] if row < len(ts) else NEVER
    status = DONE
    while True:
        # 1. the next instant
        if state == 0:
            now = min(due, row_ts)
            if meta[UNSAID]:
                now = min(now, known)
                if now <= limit:
                    meta[UNSAID] = 0
                    slots[0, MARK] = TOUCHED
                    touched[0] = 0
                    listed = 1
            if now > limit:
                break
            state = 1
        if state == 1:
            # 2. what is due
            while due <= now:
                if event == len(event_slot):
                    status = FULL
                    break
                if due_meta[HEAP]:
                    due_meta[HEAD], due_meta[RING] = head, ring
                    id_ = pop_due(ring_ets, ring_id, heap_ets, heap_id, due_meta)
                    head, ring = due_meta[HEAD], due_meta[RING]
                    due = first_due(ring_ets, heap_ets, due_meta)
                else:
                    id_ = ring_id[head]
                    head = (head + 1) & mask
                    ring -= 1
                    due = ring_ets[head] if ring else NEVER
                referred = id_
                if not rows_only:
                    referred = entries[id_]
                    entries[id_] = free_entry
                    free_entry = id_
                slot = referred >> 1
                change = 2 * (referred & 1) - 1
                slots[slot, REFS] -= 1
                slots[slot, ROWS] += change
                if slots[slot, MARK] == IDLE:
                    slots[slot, MARK] = TOUCHED
                    touched[listed] = slot
                    listed += 1
                if not rows_only:
                    event_slot[event] = slot
                    event_sign[event] = change
                    event_row[event] = -1
                    event_entry[event] = id_
                    event += 1
            if status != DONE:
                break
            # 3. the instant's rows
            while row_ts <= now:
                if event == len(event_slot):
                    status = FULL
                    break
                end = ets[row] if ending else NEVER
                if end > now:  # else it is not there at any instant
                    slot = 0
                    if not single:
                        cell = find_cell(slots, table, shift, a[row], b[row])
                        slot = np.int64(table[cell])
                        if slot < 0:
                            if meta[FREE_SLOT] >= 0:
                                slot = meta[FREE_SLOT]
                                meta[FREE_SLOT] = slots[slot, KEY]
                            elif meta[USED_SLOTS] == len(slots):
                                status = GROW
                                break
                            else:
                                slot = meta[USED_SLOTS]
                                meta[USED_SLOTS] += 1
                            table[cell] = slot
                            slots[slot, A] = a[row]
                            slots[slot, B] = b[row]
                            slots[slot, ROWS] = 0
                            slots[slot, REFS] = 0
                            slots[slot, KEY] = meta[KEYS]
                            slots[slot, MARK] = IDLE
                            meta[LIVE] += 1
                            meta[KEYS] += 1
                            new_rows[meta[NEW]] = row
                            meta[NEW] += 1
                    change = np.int64(sign[row]) if signed else 1
                    id_ = -1
                    if end != NEVER:
                        id_ = 2 * slot + (change < 0)
                        if not rows_only:
                            referred = id_
                            id_ = free_entry
                            if id_ >= 0:
                                free_entry = entries[id_]
                            else:
                                id_ = meta[USED_ENTRIES]
                                meta[USED_ENTRIES] += 1
                            entries[id_] = referred
                        if ring and ring_ets[(head + ring - 1) & mask] > end:
                            due_meta[HEAD], due_meta[RING] = head, ring
                            push_due(ring_ets, ring_id, heap_ets, heap_id, due_meta, end, id_)
                        else:
                            ring_ets[(head + ring) & mask] = end
                            ring_id[(head + ring) & mask] = id_
                            ring += 1
                        due = min(due, end)
                        slots[slot, REFS] += 1
                    slots[slot, ROWS] += change
                    if slots[slot, MARK] == IDLE:
                        slots[slot, MARK] = TOUCHED
                        touched[listed] = slot
                        listed += 1
                    event_slot[event] = slot
                    event_row[event] = row
                    if not rows_only:
                        event_sign[event] = change
                        event_entry[event] = id_
                    event += 1
                row += 1
                row_ts = ts[row] if row < len(ts) else NEVER
            if status != DONE:
                break
            state = 2
            at = 0
        # 4. a point for each group that was touched
        while at < listed and point < len(point_ts):
            slot = np.int64(touched[at])
            slots[slot, MARK] = IDLE
            point_ts[point] = now
            point_slot[point] = slot
            point_until[point] = event
            point_rows[point] = slots[slot, ROWS]
            point_key[point] = slots[slot, KEY]
            point += 1
            at += 1
            if slots[slot, ROWS] == 0 and slots[slot, REFS] == 0 and not single:
                cell = find_cell(slots, table, shift, slots[slot, A], slots[slot, B])
                empty_cell(slots, table, shift, cell)
                slots[slot, MARK] = FREE
                slots[slot, KEY] = meta[FREE_SLOT]
                meta[FREE_SLOT] = slot
                meta[LIVE] -= 1
        if at < listed:
            status = FULL
            break
        state = 0
        listed = 0
    meta[AT_ROW], meta[EVENTS], meta[POINTS] = row, event, point
    meta[NOW], meta[LISTED], meta[AT_POINT], meta[OPEN] = now, listed, at, state
    meta[FREE_ENTRY] = free_entry
    due_meta[HEAD], due_meta[RING] = head, ring
    return status


@kernel
def take_values(  # type: ignore[no-untyped-def]
    event_sign, event_row, event_entry, events, row_code, row_valid, entry_code, entry_valid,
    out_code, out_sign,
):  # fmt: skip
    """The value of each event, from its row or its entry; the value of a row goes into the entry made for it.

    row_code: int64 by row; row_valid: uint8 by row, empty if there are no NULLs; entry_code, entry_valid: by
    entry; out_code: int64; out_sign: int8, 0 where the value is NULL.
    """
    for event in range(events):
        row = event_row[event]
        entry = event_entry[event]
        if row >= 0:
            code = row_code[row]
            there = row_valid[row] if len(row_valid) else 1
            if entry >= 0:
                entry_code[entry] = code
                entry_valid[entry] = there
        else:
            code = entry_code[entry]
            there = entry_valid[entry]
        out_code[event] = code
        out_sign[event] = event_sign[event] if there else 0
