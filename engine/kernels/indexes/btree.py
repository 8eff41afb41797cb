"""A B+tree: all entries in a chain of leaves, above them nodes that say where to go.

    inner    [ - | separator 1 | separator 2 ]        child i: entries from separator i up to, exclusively,
               |        |             |               separator i + 1; an entry before separator 1 is in
            child 0   child 1      child 2            child 0, whatever slot 0 holds

Leaves are the nodes of nodes.py. Separators are entries (key, row), of rows that may be gone; inner nodes
have arrays of their own:

inner_links   int64[inner, 3]: COUNT of children; NEXT chains free ones, 0 ends them, node 0 is not used
inner_keys    int64[inner, NODE_ROWS], inner_rows and children likewise

A full node splits in two halves, except that the last leaf stays full when the next entry follows all
others: keys that only rise fill their leaves. A node is freed when it is empty and is not merged before:
where as many rows come as go, leaves stay half full (0.49 measured, random keys). A root of one child
gives way to the child, so the root has two or more, or is a leaf, and only then may be empty. The size of
nodes was measured as for the T-tree, with the same outcome.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.cursor import AT_KEY, AT_ROW, DONE, PROBER, RESUME
from penstock.engine.kernels.base.jit import expand, kernel, part
from penstock.engine.kernels.base.node_size import BTREE_NODE as NODE_ROWS

from .nodes import (
    COUNT,
    EXPIRED,
    IN_USE,
    INSERTED,
    NEXT,
    SHORT,
    count_below,
    count_entries_up_to,
    count_up_to,
    emit,
    free_node,
    new_node,
    put,
    shift_down,
    shift_up,
    take_out,
)

LINK_COLUMNS = 3
INNER_COLUMNS = 3

# More slots of `state`.
ROOT = 6
HEIGHT = 7  # levels of inner nodes; 0: the root is a leaf
INNER_USED = 8
INNER_FREE = 9
INNER_IN_USE = 10

# A level more takes half a node's children times as many splits: 2^63 rows do not get this far.
MAX_HEIGHT = 16
HALF = NODE_ROWS // 2


@part
def new_inner(inner, state):  # type: ignore[no-untyped-def]
    """An inner node without children. The caller has made sure that there is one."""
    links = inner[0]
    node = state[INNER_FREE]
    if node != 0:
        state[INNER_FREE] = links[node, NEXT]
    else:
        node = state[INNER_USED]
        state[INNER_USED] += 1
    state[INNER_IN_USE] += 1
    links[node, COUNT] = 0
    return node


@part
def free_inner(inner, state, node):  # type: ignore[no-untyped-def]
    """Keep an inner node for later."""
    inner[0][node, NEXT] = state[INNER_FREE]
    state[INNER_FREE] = node
    state[INNER_IN_USE] -= 1


@part
def put_child(inner, node, slot, key, row, child):  # type: ignore[no-untyped-def]
    """Put a child and the separator before it into an inner node that has room."""
    links, keys, rows, children = inner
    count = links[node, COUNT]
    shift_up(keys[node, slot : count + 1], key)
    shift_up(rows[node, slot : count + 1], row)
    shift_up(children[node, slot : count + 1], child)
    links[node, COUNT] = count + 1


@part
def find_path(inner, state, key, row, path):  # type: ignore[no-untyped-def]
    """Write into path[level] the inner node and the slot of the child that lead to (key, row)."""
    links, keys, rows, children = inner
    node = state[ROOT]
    for level in range(state[HEIGHT]):
        slot = count_entries_up_to(keys, rows, node, 1, links[node, COUNT], key, row)
        path[level, 0] = node
        path[level, 1] = slot
        node = children[node, slot]


@part
def split(nodes, inner, state, leaf, slot, key, row):  # type: ignore[no-untyped-def]
    """Insert an entry at `slot` of a full leaf. Needs a spare leaf and a spare inner node per level."""
    links, keys, rows = nodes
    inner_links, inner_keys, inner_rows, children = inner
    path = np.empty((MAX_HEIGHT, 2), np.int64)
    find_path(inner, state, key, row, path)
    # 1. the leaf
    child = new_node(links, state, leaf)
    keep = NODE_ROWS if slot == NODE_ROWS and links[child, NEXT] == 0 else HALF
    for i in range(keep, NODE_ROWS):
        keys[child, i - keep] = keys[leaf, i]
        rows[child, i - keep] = rows[leaf, i]
    links[leaf, COUNT] = keep
    links[child, COUNT] = NODE_ROWS - keep
    if slot < keep:
        put(links, keys, rows, leaf, slot, key, row)
    else:
        put(links, keys, rows, child, slot - keep, key, row)
    key = keys[child, 0]
    row = rows[child, 0]
    # 2. the levels above, as far as they are full
    for level in range(state[HEIGHT] - 1, -1, -1):
        node = path[level, 0]
        slot = path[level, 1] + 1
        if inner_links[node, COUNT] < NODE_ROWS:
            put_child(inner, node, slot, key, row, child)
            return
        other = new_inner(inner, state)
        for i in range(HALF, NODE_ROWS):
            inner_keys[other, i - HALF] = inner_keys[node, i]
            inner_rows[other, i - HALF] = inner_rows[node, i]
            children[other, i - HALF] = children[node, i]
        inner_links[node, COUNT] = HALF
        inner_links[other, COUNT] = NODE_ROWS - HALF
        if slot <= HALF:
            put_child(inner, node, slot, key, row, child)
        else:
            put_child(inner, other, slot - HALF, key, row, child)
        key = inner_keys[other, 0]
        row = inner_rows[other, 0]
        child = other
    # 3. a new root; its first separator is never looked at
    root = new_inner(inner, state)
    put_child(inner, root, 0, key, row, state[ROOT])
    put_child(inner, root, 1, key, row, child)
    state[ROOT] = root
    state[HEIGHT] += 1


@part
def cut(links, inner, state, leaf, key, row):  # type: ignore[no-untyped-def]
    """Free a leaf, not the only one, after its last entry (key, row) has gone."""
    inner_links, inner_keys, inner_rows, children = inner
    path = np.empty((MAX_HEIGHT, 2), np.int64)
    find_path(inner, state, key, row, path)
    free_node(links, state, leaf)
    for level in range(state[HEIGHT] - 1, -1, -1):
        node = path[level, 0]
        slot = path[level, 1]
        count = inner_links[node, COUNT]
        shift_down(inner_keys[node, slot:count])
        shift_down(inner_rows[node, slot:count])
        shift_down(children[node, slot:count])
        inner_links[node, COUNT] = count - 1
        if count > 1:
            break
        free_inner(inner, state, node)
    while state[HEIGHT] > 0 and inner_links[state[ROOT], COUNT] == 1:
        root = state[ROOT]
        state[ROOT] = children[root, 0]
        state[HEIGHT] -= 1
        free_inner(inner, state, root)


@expand
def insert(nodes, inner, state, key, row):  # type: ignore[no-untyped-def]
    """Insert an entry whose row is greater than any before."""
    links, keys, rows = nodes
    inner_links, inner_keys, _inner_rows, children = inner
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        node = children[node, count_up_to(inner_keys, node, 1, inner_links[node, COUNT], key)]
    count = links[node, COUNT]
    slot = count_up_to(keys, node, 0, count, key)
    if count < NODE_ROWS:
        put(links, keys, rows, node, slot, key, row)
    else:
        split(nodes, inner, state, node, slot, key, row)


@expand
def seek(nodes, inner, state, key):  # type: ignore[no-untyped-def]
    """(leaf, slot) of the first entry whose key is at least `key`; leaf 0 if there is none."""
    links, keys, _rows = nodes
    inner_links, inner_keys, _inner_rows, children = inner
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        node = children[node, count_below(inner_keys, node, 1, inner_links[node, COUNT], key)]
    count = links[node, COUNT]
    slot = count_below(keys, node, 0, count, key)
    if slot == count:
        node = links[node, NEXT]
        slot = 0
    return node, slot


@part
def seek_entry(nodes, inner, state, key, row):  # type: ignore[no-untyped-def]
    """(leaf, slot) of an entry that is there."""
    links, keys, rows = nodes
    inner_links, inner_keys, inner_rows, children = inner
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        count = inner_links[node, COUNT]
        slot = count_entries_up_to(inner_keys, inner_rows, node, 1, count, key, row)
        node = children[node, slot]
    return node, count_entries_up_to(keys, rows, node, 0, links[node, COUNT], key, row) - 1


@expand
def remove(nodes, inner, state, key, row):  # type: ignore[no-untyped-def]
    """Remove the oldest row, whose key is `key`."""
    links, keys, rows = nodes
    node, slot = seek(nodes, inner, state, key)
    take_out(links, keys, rows, node, slot)
    if links[node, COUNT] == 0 and state[HEIGHT] > 0:
        cut(links, inner, state, node, key, row)


@kernel
def run_btree(  # type: ignore[no-untyped-def]
    nodes, state, row_keys, keys_base, key_low, key_high, row_from, row_until, end, floor,
    cursor, out_prober, out_row, found, counting,
):  # fmt: skip
    """Insert, expire and probe in order (see indexes/index.py). Returns how many pairs there are now.

    nodes     (links, keys, rows, inner_links, inner_keys, inner_rows, children) as above
    row_keys  int64 by row
    end       rows below are to be inserted in the end, and rows below `floor` to be removed
    found     pairs that are in the output already

    The caller owns the output; when it is full the cursor says where to go on. When nodes might run out
    the kernel stops with state[SHORT] = 1, to be called again, with more nodes and the pairs found.
    """
    links, keys, rows = borrowed(nodes[0]), borrowed(nodes[1]), borrowed(nodes[2])
    leaves = (links, keys, rows)
    inner = (borrowed(nodes[3]), borrowed(nodes[4]), borrowed(nodes[5]), borrowed(nodes[6]))
    state = borrowed(state)
    cursor = borrowed(cursor)
    out_prober = borrowed(out_prober)
    out_row = borrowed(out_row)
    state[SHORT] = 0
    prober = cursor[PROBER]
    while prober <= len(key_low):
        # Past the last prober there is one more round, for the rows that none of them saw.
        last = prober == len(key_low)
        oldest = floor if last else row_from[prober]
        until = end if last else row_until[prober]
        # 1. expire
        for row in range(state[EXPIRED], min(oldest, state[INSERTED])):
            remove(leaves, inner, state, row_keys[row - keys_base], row)
        # Rows that expire before anyone can see them are not inserted.
        row = max(state[INSERTED], min(oldest, until))
        state[EXPIRED] = max(state[EXPIRED], min(oldest, row))
        # 2. insert
        while row < until:
            spare = len(inner[0]) - 1 - state[INNER_IN_USE]
            if state[IN_USE] + 1 == len(links) or spare <= state[HEIGHT]:
                state[INSERTED] = row
                state[SHORT] = 1
                cursor[PROBER] = prober
                return found
            insert(leaves, inner, state, row_keys[row - keys_base], row)
            row += 1
        state[INSERTED] = row
        if last:
            break
        # 3. probe
        low = key_low[prober]
        high = key_high[prober]
        if low <= high:
            if cursor[RESUME]:
                cursor[RESUME] = 0
                node, slot = seek_entry(leaves, inner, state, cursor[AT_KEY], cursor[AT_ROW])
            else:
                node, slot = seek(leaves, inner, state, low)
            found, complete = emit(
                links, keys, rows, node, slot, high, prober, cursor, out_prober, out_row, found, counting
            )
            if not complete:
                return found
        prober += 1
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found
