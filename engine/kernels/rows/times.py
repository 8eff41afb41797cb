"""Times that are to come, each once if they come in order; the queue is that of expiry.py, without ids."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel

from .expiry import NEVER, first_due, pop_due, push_due


@kernel
def push_times(due, times):  # type: ignore[no-untyped-def]
    """Add times, int64; one that is equal to the last is left out."""
    ring_ets, ring_id, heap_ets, heap_id, meta = due
    for time in times:
        last = (meta[0] + meta[1] - 1) & (len(ring_ets) - 1)
        if time != NEVER and (meta[1] == 0 or ring_ets[last] != time):
            push_due(ring_ets, ring_id, heap_ets, heap_id, meta, time, 0)


@kernel
def pop_times(due, now, out):  # type: ignore[no-untyped-def]
    """Take the times up to `now` out, in order, each once; out int64, room for all. Returns their number."""
    ring_ets, ring_id, heap_ets, heap_id, meta = due
    found = 0
    while first_due(ring_ets, heap_ets, meta) <= now:
        time = first_due(ring_ets, heap_ets, meta)
        if time == NEVER:
            break
        pop_due(ring_ets, ring_id, heap_ets, heap_id, meta)
        if found == 0 or out[found - 1] != time:
            out[found] = time
            found += 1
    return found
