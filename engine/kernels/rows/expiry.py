"""What leaves when: entries by the time they are due, earliest first.

Entries that come in the order in which they are due, as the rows of one window do, go into a ring. Others go
into lists, one for each time, and only times are in a heap: pairs of a join are many, but they leave with a
row of the join, so that the times at which they do are few.

meta   int64[8]: where the ring begins, entries in the ring, times in the heap, entries in lists; nodes used
       and the first free one, lists used and the first free one (-1: none)
lists  int64[room, 7], a power of two of rows, whose columns are arrays of their own: LIST by place in the
       heap; ID and NEXT of a node; TIME, FIRST node and CHAIN (the next list in its bucket) of a list; BUCKET

Arrays have room for what is pushed: their owner sees to it (see expiry_queue.py). An id is any int64.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel, part

HEAD, RING, HEAP, LISTED, USED_NODES, FREE_NODE, USED_LISTS, FREE_LIST = range(8)
LIST, ID, NEXT, TIME, FIRST, CHAIN, BUCKET = range(7)
NEVER = (1 << 63) - 1
MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(24)


@expand
def first_due(ring_ets, heap_ets, meta):  # type: ignore[no-untyped-def]
    """When the earliest entry is due; NEVER if there is none."""
    due = NEVER
    if meta[RING]:
        due = ring_ets[meta[HEAD]]
    if meta[HEAP] and heap_ets[0] < due:
        due = heap_ets[0]
    return due


@expand
def bucket_of(ets, lists):  # type: ignore[no-untyped-def]
    return np.int64((np.uint64(ets) * MIX) >> SHIFT) & (len(lists) - 1)


@part
def push_due(ring_ets, ring_id, heap_ets, lists, meta, ets, id_):  # type: ignore[no-untyped-def]
    """Add an entry. The ring's length is a power of two."""
    mask = len(ring_ets) - 1
    if meta[RING] == 0 or ring_ets[(meta[HEAD] + meta[RING] - 1) & mask] <= ets:
        at = (meta[HEAD] + meta[RING]) & mask
        ring_ets[at] = ets
        ring_id[at] = id_
        meta[RING] += 1
        return
    # 1. a node for the entry
    node = meta[FREE_NODE]
    if node >= 0:
        meta[FREE_NODE] = lists[node, NEXT]
    else:
        node = meta[USED_NODES]
        meta[USED_NODES] += 1
    meta[LISTED] += 1
    lists[node, ID] = id_
    # 2. the list of its time, if there is one
    bucket = bucket_of(ets, lists)
    found = lists[bucket, BUCKET]
    while found >= 0 and lists[found, TIME] != ets:
        found = lists[found, CHAIN]
    if found >= 0:
        lists[node, NEXT] = lists[found, FIRST]
        lists[found, FIRST] = node
        return
    # 3. else a new one
    found = meta[FREE_LIST]
    if found >= 0:
        meta[FREE_LIST] = lists[found, CHAIN]
    else:
        found = meta[USED_LISTS]
        meta[USED_LISTS] += 1
    lists[node, NEXT] = -1
    lists[found, TIME] = ets
    lists[found, FIRST] = node
    lists[found, CHAIN] = lists[bucket, BUCKET]
    lists[bucket, BUCKET] = found
    at = meta[HEAP]
    meta[HEAP] += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap_ets[above] <= ets:
            break
        heap_ets[at] = heap_ets[above]
        lists[at, LIST] = lists[above, LIST]
        at = above
    heap_ets[at] = ets
    lists[at, LIST] = found


@part
def drop_first(heap_ets, lists, meta):  # type: ignore[no-untyped-def]
    """Take the earliest list, which is empty, out of the heap and its bucket."""
    gone = lists[0, LIST]
    bucket = bucket_of(lists[gone, TIME], lists)
    before = lists[bucket, BUCKET]
    if before == gone:
        lists[bucket, BUCKET] = lists[gone, CHAIN]
    else:
        while lists[before, CHAIN] != gone:
            before = lists[before, CHAIN]
        lists[before, CHAIN] = lists[gone, CHAIN]
    lists[gone, CHAIN] = meta[FREE_LIST]
    meta[FREE_LIST] = gone
    meta[HEAP] -= 1
    count = meta[HEAP]
    ets = heap_ets[count]
    last = lists[count, LIST]
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
        lists[at, LIST] = lists[below, LIST]
        at = below
    heap_ets[at] = ets
    lists[at, LIST] = last


@part
def pop_due(ring_ets, ring_id, heap_ets, lists, meta):  # type: ignore[no-untyped-def]
    """Take the earliest entry out and return its id; there must be one."""
    if meta[RING] and (meta[HEAP] == 0 or ring_ets[meta[HEAD]] <= heap_ets[0]):
        id_ = ring_id[meta[HEAD]]
        meta[HEAD] = (meta[HEAD] + 1) & (len(ring_ets) - 1)
        meta[RING] -= 1
        return id_
    first = lists[0, LIST]
    node = lists[first, FIRST]
    lists[first, FIRST] = lists[node, NEXT]
    lists[node, NEXT] = meta[FREE_NODE]
    meta[FREE_NODE] = node
    meta[LISTED] -= 1
    if lists[first, FIRST] < 0:
        drop_first(heap_ets, lists, meta)
    return lists[node, ID]


@kernel
def fill_buckets(lists, meta):  # type: ignore[no-untyped-def]
    """Put every list that is in the heap into its bucket; all buckets are empty."""
    for place in range(meta[HEAP]):
        held = lists[place, LIST]
        bucket = bucket_of(lists[held, TIME], lists)
        lists[held, CHAIN] = lists[bucket, BUCKET]
        lists[bucket, BUCKET] = held
