"""What leaves when: entries by the time they are due, earliest first.

Entries that come in the order in which they are due, as the rows of one window do, go into a ring; others go
into a heap. `meta` is int64[3]: where the ring begins, how many are in it, how many are in the heap. Arrays
have room for what is pushed: their owner sees to it (see expiry_queue.py). An id is any int64.
"""

from __future__ import annotations

from .jit import expand, part

HEAD, RING, HEAP = 0, 1, 2
NEVER = (1 << 63) - 1


@expand
def first_due(ring_ets, heap_ets, meta):  # type: ignore[no-untyped-def]
    """When the earliest entry is due; NEVER if there is none."""
    due = NEVER
    if meta[RING]:
        due = ring_ets[meta[HEAD]]
    if meta[HEAP] and heap_ets[0] < due:
        due = heap_ets[0]
    return due


@part
def push_due(ring_ets, ring_id, heap_ets, heap_id, meta, ets, id_):  # type: ignore[no-untyped-def]
    """Add an entry. The ring's length is a power of two."""
    mask = len(ring_ets) - 1
    if meta[RING] == 0 or ring_ets[(meta[HEAD] + meta[RING] - 1) & mask] <= ets:
        at = (meta[HEAD] + meta[RING]) & mask
        ring_ets[at] = ets
        ring_id[at] = id_
        meta[RING] += 1
        return
    at = meta[HEAP]
    meta[HEAP] += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap_ets[above] <= ets:
            break
        heap_ets[at] = heap_ets[above]
        heap_id[at] = heap_id[above]
        at = above
    heap_ets[at] = ets
    heap_id[at] = id_


@part
def pop_due(ring_ets, ring_id, heap_ets, heap_id, meta):  # type: ignore[no-untyped-def]
    """Take the earliest entry out and return its id; there must be one."""
    if meta[RING] and (meta[HEAP] == 0 or ring_ets[meta[HEAD]] <= heap_ets[0]):
        id_ = ring_id[meta[HEAD]]
        meta[HEAD] = (meta[HEAD] + 1) & (len(ring_ets) - 1)
        meta[RING] -= 1
        return id_
    id_ = heap_id[0]
    meta[HEAP] -= 1
    count = meta[HEAP]
    ets = heap_ets[count]
    last = heap_id[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and heap_ets[below + 1] < heap_ets[below]:
            below += 1
        if heap_ets[below] >= ets:
            break
        heap_ets[at] = heap_ets[below]
        heap_id[at] = heap_id[below]
        at = below
    heap_ets[at] = ets
    heap_id[at] = last
    return id_
