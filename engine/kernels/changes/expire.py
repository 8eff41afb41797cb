"""Rows pass, and are followed by their withdrawal when they are due."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.rows.expiry import NEVER, first_due, pop_due
from penstock.engine.kernels.rows.hash import shift_of

from .bag import ALIVE, ETS, EXPIRED, NO_PRINT, ROW, WITHDRAWN, enter, find, leave, let_go

AT, MISSING, DONE, SLOTS = range(4)
"""cursor: the row to be handled next, rows withdrawn that were not there, whether all is done; its length."""


@kernel
def run_expire(bag, ts, sign, ets, a, b, first, known, cursor, out):  # type: ignore[no-untyped-def]
    """Pass rows on, in time order with the withdrawals of rows that are due; then what is due up to `known`.

    ts, ets int64 and sign int8 per row; a, b: int64, its fingerprint, empty if the bag has no chains; its
    number is first + its place. out: ts, sign (int8) and row, the caller's; when they are full the cursor
    says where to go on. Returns the rows written.
    """
    out_ts, out_sign, out_row = out
    rows, state, heads, meta, alive, due = bag
    ring_ets, ring_id, heap_ets, heap_id, due_meta = due
    shift = shift_of(len(heads))
    linked = len(a) > 0
    space = len(out_ts)
    found = 0
    for i in range(cursor[AT], len(ts) + 1):
        now = ts[i] if i < len(ts) else known
        while True:
            end = first_due(ring_ets, heap_ets, due_meta)
            if end > now or end == NEVER:
                break
            if found == space:
                cursor[AT] = i
                return found
            slot = pop_due(ring_ets, ring_id, heap_ets, heap_id, due_meta)
            if state[slot] == ALIVE and rows[slot, ETS] == end:
                out_ts[found] = end
                out_sign[found] = -1
                out_row[found] = rows[slot, ROW]
                found += 1
                leave(rows, state, heads, meta, alive, shift, slot)
                let_go(rows, state, meta, slot, EXPIRED, False)
        if i == len(ts):
            break
        if found == space:
            cursor[AT] = i
            return found
        end = ets[i]
        if end <= now:
            continue
        if end != NEVER:
            if sign[i] > 0:
                key_a, key_b = (a[i], b[i]) if linked else (NO_PRINT, NO_PRINT)
                enter(
                    rows, state, heads, meta, alive, ring_ets, ring_id, heap_ets, heap_id, due_meta, shift,
                    key_a, key_b, NO_PRINT, NO_PRINT, end, first + i,
                )  # fmt: skip
            else:
                slot = find(rows, heads, shift, a[i], b[i], NO_PRINT, NO_PRINT, end)
                if slot < 0:
                    cursor[MISSING] += 1
                    continue
                leave(rows, state, heads, meta, alive, shift, slot)
                let_go(rows, state, meta, slot, WITHDRAWN, False)
        out_ts[found] = now
        out_sign[found] = sign[i]
        out_row[found] = first + i
        found += 1
    cursor[AT] = len(ts)
    cursor[DONE] = 1
    return found
