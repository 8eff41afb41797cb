"""What the two trees share: nodes of sorted entries, in a chain.

An entry is (key, row). Rows are inserted in order and expire in order, so a new entry follows all entries
with its key, and the oldest entry is the first with its key: an entry's place is found by its key alone,
although entries are ordered by (key, row). Only going on with an interrupted probe compares rows.

links   int64[nodes, columns]: COUNT, PREV, NEXT and what else the tree needs. Node 0 holds no entry; it
        closes the chain to a ring, so its NEXT is the first node and its PREV the last
keys    int64[nodes, node size], the first COUNT sorted
rows    int64[nodes, node size], beside the keys
state   int64[STATE_SLOTS]: the slots below
"""

from __future__ import annotations

from penstock.engine.kernels.base.cursor import AT_KEY, AT_ROW, PROBER, RESUME
from penstock.engine.kernels.base.jit import expand, part

COUNT = 0
PREV = 1
NEXT = 2

EXPIRED = 0  # rows below it have been removed, or never were inserted
INSERTED = 1  # rows below it have been inserted
SHORT = 2  # 1: the kernel stopped because it might run out of nodes
USED = 3  # nodes from here on have never been used
FREE = 4  # the first free node, chained by NEXT; 0: none
IN_USE = 5  # nodes in the ring, without node 0
STATE_SLOTS = 12  # the slots from 6 on are the B+tree's


@part
def count_below(keys, node, start, stop, key):  # type: ignore[no-untyped-def]
    """How many of the node's keys in slots [start, stop) are below `key`.

    Comparing them all, although they are sorted, is faster than halving: it compiles to vector compares,
    and no jump depends on the keys.
    """
    below = 0
    for i in range(start, stop):
        below += keys[node, i] < key
    return below


@part
def count_up_to(keys, node, start, stop, key):  # type: ignore[no-untyped-def]
    """How many of the node's keys in slots [start, stop) are at most `key`."""
    up_to = 0
    for i in range(start, stop):
        up_to += keys[node, i] <= key
    return up_to


@part
def count_entries_up_to(keys, rows, node, start, stop, key, row):  # type: ignore[no-untyped-def]
    """How many of the node's entries in slots [start, stop) are at most (key, row)."""
    up_to = 0
    for i in range(start, stop):
        up_to += (keys[node, i] < key) | ((keys[node, i] == key) & (rows[node, i] <= row))
    return up_to


@expand
def put(links, keys, rows, node, slot, key, row):  # type: ignore[no-untyped-def]
    """Put an entry into a node that has room, before the one at `slot`."""
    count = links[node, COUNT]
    shift_up(keys[node, slot : count + 1], key)
    shift_up(rows[node, slot : count + 1], row)
    links[node, COUNT] = count + 1


@expand
def take_out(links, keys, rows, node, slot):  # type: ignore[no-untyped-def]
    """Remove the entry at `slot`."""
    count = links[node, COUNT]
    shift_down(keys[node, slot:count])
    shift_down(rows[node, slot:count])
    links[node, COUNT] = count - 1


@part
def shift_up(part, first):  # type: ignore[no-untyped-def]
    """Move all by one place up, the last one out and `first` in. As a forward loop it is vectorised."""
    carried = first
    for i in range(len(part)):
        value = part[i]
        part[i] = carried
        carried = value


@part
def shift_down(part):  # type: ignore[no-untyped-def]
    """Move all by one place down, the first one out; the last place keeps its value."""
    for i in range(len(part) - 1):
        part[i] = part[i + 1]


@part
def new_node(links, state, prev):  # type: ignore[no-untyped-def]
    """A node without entries, in the chain after `prev`. The caller has made sure that there is one."""
    node = state[FREE]
    if node != 0:
        state[FREE] = links[node, NEXT]
    else:
        node = state[USED]
        state[USED] += 1
    state[IN_USE] += 1
    following = links[prev, NEXT]
    links[node, :] = 0
    links[node, PREV] = prev
    links[node, NEXT] = following
    links[prev, NEXT] = node
    links[following, PREV] = node
    return node


@part
def free_node(links, state, node):  # type: ignore[no-untyped-def]
    """Take a node out of the chain and keep it for later."""
    links[links[node, PREV], NEXT] = links[node, NEXT]
    links[links[node, NEXT], PREV] = links[node, PREV]
    links[node, NEXT] = state[FREE]
    state[FREE] = node
    state[IN_USE] -= 1


@expand
def emit(  # type: ignore[no-untyped-def]
    links, keys, rows, node, slot, key_high, prober, cursor, out_prober, out_row, found, counting,
):  # fmt: skip
    """Write the rows of the entries from (node, slot) on whose keys are at most key_high.

    Returns (pairs, whether all were written); if not, the cursor is set to the first that was not.
    """
    while node != 0:
        count = links[node, COUNT]
        stop = slot
        if keys[node, count - 1] <= key_high:
            stop = count
        else:
            while stop < count and keys[node, stop] <= key_high:
                stop += 1
        if counting:
            found += stop - slot
        else:
            room = min(stop - slot, len(out_row) - found)
            part = out_prober[found : found + room]
            for i in range(room):
                part[i] = prober
            part = out_row[found : found + room]
            matches = rows[node, slot : slot + room]
            for i in range(room):
                part[i] = matches[i]
            found += room
            if room < stop - slot:
                cursor[PROBER] = prober
                cursor[RESUME] = 1
                cursor[AT_KEY] = keys[node, slot + room]
                cursor[AT_ROW] = rows[node, slot + room]
                return found, False
        if stop < count:
            break
        node = links[node, NEXT]
        slot = 0
    return found, True
