"""A T-tree: a height-balanced binary tree whose nodes hold many sorted entries each.

    node   [ least .. greatest ]     left: entries before it      right: entries after it

After Lehman and Carey (1986). Nodes are as in sorted_nodes.py; the tree over them is in three arrays more:

child    uint32, two by node: left and right; its own number where there is none, so that a descent which
         has come to its end stays there while others go on
parent   uint32 by node; 0 for the root
height   int64 by node: 1 for a leaf

A descent compares with the least key of a node and nothing else. It ends at the node it looks for, or at the
one after that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.cursor import AT_KEY, AT_ROW, DONE, PROBER, RESUME
from penstock.engine.kernels.base.jit import kernel, part

from .probe_nodes import emit, serve
from .sort_keys import sort_keys
from .sorted_nodes import (
    AT_ONCE,
    EXPIRED,
    HEIGHT,
    INSERTED,
    MANY_PART,
    MAX_KEY,
    NODE_ROWS,
    PACKED_ROWS,
    ROOT,
    SHORT,
    SPLIT_ROWS,
    USED,
    WASTED,
    borrow_nodes,
    count_before,
    count_up_to,
    drop_expired,
    fill_nodes,
    find_places,
    live_entries,
    merge_entries,
    put,
    split_node,
)

MAX_DEPTH = 64


class Links(NamedTuple):
    """The arrays above."""

    child: NDArray
    parent: NDArray
    height: NDArray


def allocate_links(nodes: int) -> Links:
    """For so many nodes, node 0 included; node 1 is the root."""
    child = np.repeat(np.arange(nodes, dtype=np.uint32), 2)
    return Links(child, np.zeros(nodes, np.uint32), np.ones(nodes, np.int64))


@part
def height_below(links, node, side):  # type: ignore[no-untyped-def]
    """The height of the subtree on one side of the node: 0 or 1."""
    below = links.child[2 * node + side]
    return 0 if below == node else links.height[below]


@part
def hang(links, state, parent, former, node):  # type: ignore[no-untyped-def]
    """Put `node` where `former` was below `parent`."""
    links.parent[node] = parent
    if parent == 0:
        state[ROOT] = node
    else:
        links.child[2 * parent + (links.child[2 * parent] != former)] = node


@part
def measure(links, node):  # type: ignore[no-untyped-def]
    """Set the node's height from those below it."""
    links.height[node] = 1 + max(height_below(links, node, 0), height_below(links, node, 1))


@part
def rotate(links, state, top, heavy):  # type: ignore[no-untyped-def]
    """Raise the child on the heavy side above its parent; returns it."""
    light = 1 - heavy
    child = np.int64(links.child[2 * top + heavy])
    inner = np.int64(links.child[2 * child + light])
    hang(links, state, np.int64(links.parent[top]), top, child)
    if inner == child:
        links.child[2 * top + heavy] = top
    else:
        links.child[2 * top + heavy] = inner
        links.parent[inner] = top
    links.child[2 * child + light] = top
    links.parent[top] = child
    measure(links, top)
    measure(links, child)
    return child


@part
def rebalance(links, state, node):  # type: ignore[no-untyped-def]
    """Restore heights and balance from `node` upwards, as far as they change."""
    while node != 0:
        height = links.height[node]
        left, right = height_below(links, node, 0), height_below(links, node, 1)
        if -1 <= left - right <= 1:
            links.height[node] = 1 + max(left, right)
        else:
            heavy = 0 if left > right else 1
            child = np.int64(links.child[2 * node + heavy])
            if height_below(links, child, 1 - heavy) > height_below(links, child, heavy):
                rotate(links, state, child, 1 - heavy)
            node = rotate(links, state, node, heavy)
        if links.height[node] == height:
            return
        node = np.int64(links.parent[node])
    state[HEIGHT] = links.height[state[ROOT]]


@part
def hang_leaf(nodes, links, state, node, fresh):  # type: ignore[no-untyped-def]
    """Take a new node into the tree, which is in the chain after `node` already."""
    links.child[2 * fresh] = links.child[2 * fresh + 1] = fresh
    links.height[fresh] = 1
    # Of two neighbours one is below the other and has no child on the side that faces it.
    if links.child[2 * node + 1] == node:
        links.child[2 * node + 1] = fresh
        links.parent[fresh] = node
    else:
        after = nodes.after[fresh]
        links.child[2 * after] = fresh
        links.parent[fresh] = after
    rebalance(links, state, np.int64(links.parent[fresh]))


@part
def build_links(links, state, nodes):  # type: ignore[no-untyped-def]
    """A tree as flat as can be over the nodes 1 to `nodes`, which are in the order of the chain."""
    # Ranges of nodes [first, last] that are still to be hung below a parent, on one side of it.
    todo = np.empty((MAX_DEPTH, 4), np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 1, nodes, 0, 0
    left = 1
    while left > 0:
        left -= 1
        first, last, parent, side = todo[left, 0], todo[left, 1], todo[left, 2], todo[left, 3]
        node = (first + last) >> 1
        links.parent[node] = parent
        if parent == 0:
            state[ROOT] = node
        else:
            links.child[2 * parent + side] = node
        height = 0
        while last - first + 1 >> height:
            height += 1
        links.height[node] = height
        links.child[2 * node] = links.child[2 * node + 1] = node
        if first < node:
            todo[left, 0], todo[left, 1], todo[left, 2], todo[left, 3] = first, node - 1, node, 0
            left += 1
        if node < last:
            todo[left, 0], todo[left, 1], todo[left, 2], todo[left, 3] = node + 1, last, node, 1
            left += 1
    state[HEIGHT] = links.height[state[ROOT]]


@part
def needed_nodes(state, more):  # type: ignore[no-untyped-def]
    """Nodes that the live entries and so many more take if they are packed, node 0 included."""
    return (state[INSERTED] - state[EXPIRED] + more) // PACKED_ROWS + 2


@part
def pack(old, new, links, state):  # type: ignore[no-untyped-def]
    """Move the live entries to new nodes, or to the same; there are enough. Lay the tree anew."""
    keys, rows = live_entries(old, state)
    build_links(links, state, fill_nodes(new, state, keys, rows))
    state[WASTED] = 0


@kernel
def pack_ttree(old, new, links, state):  # type: ignore[no-untyped-def]
    """The same, from outside; there is nothing in the new nodes yet."""
    pack(old, new, links, state)


@part
def descend(nodes, links, state, sought, at):  # type: ignore[no-untyped-def]
    """at[i] (uint32): the last node whose least key is below sought[i] (int64); 0 if there is none."""
    least, child, before = nodes.least, links.child, nodes.before
    root = state[ROOT]
    for i in range(len(sought)):
        at[i] = root
    for _ in range(state[HEIGHT]):
        for i in range(len(sought)):
            node = at[i]
            at[i] = child[2 * node + (least[node] < sought[i])]
    for i in range(len(sought)):
        node = at[i]
        at[i] = before[2 * node + (least[node] < sought[i])]


@part
def seek_entry(nodes, links, state, key, row, sought, at):  # type: ignore[no-untyped-def]
    """(node, slot) of an entry that is there. sought, at: room for one."""
    sought[0] = key
    descend(nodes, links, state, sought, at)
    node = np.int64(at[0])
    slot = count_before(nodes, node, key, row)
    while slot == nodes.size[node]:  # entries with the key may be in many nodes
        node = np.int64(nodes.after[node])
        slot = count_before(nodes, node, key, row)
    return node, slot


@part
def make_room(nodes, links, state, node, key):  # type: ignore[no-untyped-def]
    """The node where an entry with this key goes, which was full and has room now; 0: no spare node."""
    count = drop_expired(nodes, node, state[EXPIRED])
    if count <= SPLIT_ROWS:
        return node
    # Keys that only rise fill their nodes.
    is_last = nodes.after[node] == 0 and nodes.keys[node * NODE_ROWS + count - 1] <= key
    if count < NODE_ROWS and (is_last or state[USED] == len(nodes.least)):
        return node
    if state[USED] == len(nodes.least):
        return 0
    fresh = split_node(nodes, state, node, count if is_last else count // 2)
    if is_last:
        nodes.least[fresh] = key
    hang_leaf(nodes, links, state, node, fresh)
    return fresh if nodes.least[fresh] <= key else node


@part
def insert_few(nodes, links, state, keys, sought, at, place):  # type: ignore[no-untyped-def]
    """Insert the next rows one by one: as many as there are keys (int64, AT_ONCE at most).

    Stops with state[SHORT] = 1 if there is no spare node. sought, at, place: room for as many.
    """
    # 1. where they go: after all entries with their keys
    for i in range(len(keys)):
        sought[i] = keys[i] + (keys[i] < MAX_KEY)
    descend(nodes, links, state, sought, at)
    find_places(nodes.keys, sought, at, place)
    # 2. insert; what others have changed meanwhile is put right
    for i in range(len(keys)):
        key = keys[i]
        node = np.int64(at[i])
        here = np.int64(place[i])
        if key == MAX_KEY:
            node = np.int64(nodes.before[0])
        elif node == 0:
            node = np.int64(nodes.after[0])
        while nodes.least[nodes.after[node]] <= key and nodes.after[node] != 0:
            node = np.int64(nodes.after[node])
        if nodes.size[node] == NODE_ROWS:
            node = make_room(nodes, links, state, node, key)
            if node == 0:
                state[SHORT] = 1
                return
        slot = here - node * NODE_ROWS
        if slot < 0 or slot > nodes.size[node] or nodes.keys[here - 1] > key:  # it was cut or split
            slot = count_up_to(nodes, node, key)
        else:
            while nodes.keys[here] <= key and slot < nodes.size[node]:
                here += 1
                slot += 1
        put(nodes, node, slot, key, state[INSERTED])
        state[INSERTED] += 1


@part
def insert_many(nodes, links, state, keys):  # type: ignore[no-untyped-def]
    """Insert the next rows, as many as there are keys (int64), by merging them with the live entries.

    Does nothing but setting state[SHORT] = 1 if there are not enough nodes.
    """
    count = len(keys)
    if needed_nodes(state, count) > len(nodes.least):
        state[SHORT] = 1
        return
    sorted_keys, spare_keys = np.empty(count, np.int64), np.empty(count, np.int64)
    order, spare_order = np.empty(count, np.int32), np.empty(count, np.int32)
    sort_keys(keys, sorted_keys, order, spare_keys, spare_order)
    old_keys, old_rows = live_entries(nodes, state)
    all_keys, all_rows = merge_entries(old_keys, old_rows, sorted_keys, order, state[INSERTED])
    build_links(links, state, fill_nodes(nodes, state, all_keys, all_rows))
    state[INSERTED] += count


@kernel
def run_ttree(  # type: ignore[no-untyped-def]
    nodes, links, state, row_keys, keys_base, key_low, key_high, row_from, row_until, end, floor,
    cursor, out_prober, out_row, found, counting,
):  # fmt: skip
    """Insert, expire and probe in order (see indexes/index.py). Returns how many pairs there are now.

    row_keys  int64 by row
    end       rows below are to be inserted in the end, and rows below `floor` have expired then
    found     pairs that are in the output already

    The caller owns the output; when it is full the cursor says where to go on. When nodes run out
    the kernel stops with state[SHORT] = 1, to be called again, with more nodes and the pairs found.
    """
    nodes = borrow_nodes(nodes)
    links = Links(borrowed(links.child), borrowed(links.parent), borrowed(links.height))
    state = borrowed(state)
    cursor = borrowed(cursor)
    out_prober = borrowed(out_prober)
    out_row = borrowed(out_row)
    row_keys = borrowed(row_keys)
    sought = np.empty(AT_ONCE, np.int64)
    at = np.empty(AT_ONCE, np.uint32)
    place = np.empty(AT_ONCE, np.uint32)
    far = np.empty(AT_ONCE + 1, np.int32)
    state[SHORT] = 0
    prober = cursor[PROBER]
    while prober <= len(key_low):
        # Rows are inserted before the first of the probers that see some of them is served, if they are not
        # too many: a prober passes over what it does not see. Past the last prober there is one more round,
        # for the rows that none of them saw.
        last = prober == len(key_low)
        oldest = floor if last else row_from[prober]
        until = end if last else row_until[prober]
        live = state[INSERTED] - max(state[EXPIRED], min(oldest, state[INSERTED]))
        is_many = MANY_PART * (end - state[INSERTED]) > live
        stop = prober + 1
        reach = state[INSERTED] + (max(AT_ONCE, live * 3 // 4) if is_many else AT_ONCE)
        while stop < len(key_low) and row_until[stop] <= reach:
            until = row_until[stop]
            stop += 1
        # 1. expire; rows that do before anyone can see them are not inserted
        state[INSERTED] = max(state[INSERTED], min(oldest, until))
        state[EXPIRED] = max(state[EXPIRED], min(oldest, state[INSERTED]))
        # 2. insert
        if is_many and state[INSERTED] < until:
            insert_many(nodes, links, state, row_keys[state[INSERTED] - keys_base : until - keys_base])
        while state[INSERTED] < until and not state[SHORT]:
            first = state[INSERTED] - keys_base
            some = row_keys[first : min(first + AT_ONCE, until - keys_base)]
            insert_few(nodes, links, state, some, sought[: len(some)], at, place)
        if state[SHORT]:
            cursor[PROBER] = prober
            return found
        if last:
            break
        # 3. probe
        if cursor[RESUME]:
            cursor[RESUME] = 0
            node, slot = seek_entry(nodes, links, state, cursor[AT_KEY], cursor[AT_ROW], sought[:1], at)
            found, complete = emit(
                nodes, state, node, slot, key_high[prober], row_from[prober], row_until[prober],
                prober, cursor, out_prober, out_row, found, counting,
            )  # fmt: skip
            if not complete:
                return found
            prober += 1
        while prober < stop:
            if state[WASTED] > state[USED] * NODE_ROWS:
                if needed_nodes(state, 0) > len(nodes.least):  # packed nodes hold less than full ones
                    state[SHORT] = 1
                    cursor[PROBER] = prober
                    return found
                pack(nodes, nodes, links, state)
            part_end = min(stop, prober + AT_ONCE)
            low = key_low[prober:part_end]
            descend(nodes, links, state, low, at)
            find_places(nodes.keys, low, at, place)
            found, complete = serve(
                nodes, state, prober, low, key_high[prober:part_end], row_from[prober:part_end],
                row_until[prober:part_end], at, place, far, cursor, out_prober, out_row, found, counting,
            )  # fmt: skip
            if not complete:
                return found
            prober = part_end
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found
