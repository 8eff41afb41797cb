"""A T-tree: a height-balanced binary tree whose nodes hold many sorted entries each.

    node   [ least .. greatest ]     left: entries before it      right: entries after it

Nodes are as in nodes.py, with five columns more, and their chain is the order of the entries, so that
neighbours are found without climbing. Node 0 stands for "no child" (height 0) and for the
parent of the root, which is its LEFT. A row of `links` is 64 bytes, and all that descending reads.

After Lehman and Carey (1986): an entry goes into the node that bounds it; if that is full, the node's
least entry moves on to the node before; a node with two children that runs low takes entries from the
node before; a node with one child takes that one in when both fit into one. A rotation that puts a
nearly empty node above two others (a leaf of one entry, as a rule) fills it up from the node before.

Measured at windows of 100 to 100,000 rows, nodes of 64 to 128 entries cost the same within a tenth; the
smallest of them leave the least room empty.
"""

from __future__ import annotations

from .calls import borrowed
from .cursor import AT_KEY, AT_ROW, DONE, PROBER, RESUME
from .jit import expand, kernel, part
from .node_size import TTREE_NODE as NODE_ROWS
from .nodes import (
    COUNT,
    EXPIRED,
    IN_USE,
    INSERTED,
    NEXT,
    PREV,
    SHORT,
    count_below,
    count_entries_up_to,
    count_up_to,
    emit,
    free_node,
    new_node,
    put,
    shift_down,
    take_out,
)

LEFT = 3
RIGHT = 4
PARENT = 5
HEIGHT = 6
LEAST = 7  # the key of the first entry
LINK_COLUMNS = 8

# A node with two children that falls below LOW_ROWS is filled up to FILL_ROWS, if so many are to be had.
LOW_ROWS = NODE_ROWS // 2
FILL_ROWS = NODE_ROWS * 3 // 4
# Nodes are merged when they come to this or less: a merged node has room before it must spill again.
MERGE_ROWS = NODE_ROWS * 3 // 4


@part
def rotate(links, top, heavy):  # type: ignore[no-untyped-def]
    """Raise the child on the heavy side (LEFT or RIGHT) above its parent; returns it."""
    light = LEFT + RIGHT - heavy
    child = links[top, heavy]
    inner = links[child, light]
    parent = links[top, PARENT]
    links[parent, LEFT if links[parent, LEFT] == top else RIGHT] = child
    links[child, PARENT] = parent
    links[top, heavy] = inner
    if inner != 0:
        links[inner, PARENT] = top
    links[child, light] = top
    links[top, PARENT] = child
    links[top, HEIGHT] = 1 + max(links[links[top, LEFT], HEIGHT], links[links[top, RIGHT], HEIGHT])
    links[child, HEIGHT] = 1 + max(links[links[child, LEFT], HEIGHT], links[links[child, RIGHT], HEIGHT])
    return child


@part
def fill_from_before(links, keys, rows, node, wanted):  # type: ignore[no-untyped-def]
    """Move the last `wanted` entries of the node before to the front of `node`, which has room."""
    before = links[node, PREV]
    rest = links[before, COUNT] - wanted
    for i in range(links[node, COUNT] - 1, -1, -1):
        keys[node, i + wanted] = keys[node, i]
        rows[node, i + wanted] = rows[node, i]
    for i in range(wanted):
        keys[node, i] = keys[before, rest + i]
        rows[node, i] = rows[before, rest + i]
    links[node, COUNT] += wanted
    links[node, LEAST] = keys[node, 0]
    links[before, COUNT] = rest


@part
def rebalance(links, keys, rows, node):  # type: ignore[no-untyped-def]
    """Restore heights and balance from `node` upwards, as far as they change."""
    while node != 0:
        height = links[node, HEIGHT]
        left = links[links[node, LEFT], HEIGHT]
        right = links[links[node, RIGHT], HEIGHT]
        if -1 <= left - right <= 1:
            links[node, HEIGHT] = 1 + max(left, right)
        else:
            heavy = LEFT if left > right else RIGHT
            light = LEFT + RIGHT - heavy
            child = links[node, heavy]
            if links[links[child, light], HEIGHT] > links[links[child, heavy], HEIGHT]:
                rotate(links, child, light)
            node = rotate(links, node, heavy)
            short = LOW_ROWS - links[node, COUNT]
            if short > 0:
                fill_from_before(links, keys, rows, node, min(short, links[links[node, PREV], COUNT] - 1))
        if links[node, HEIGHT] == height:
            return
        node = links[node, PARENT]


@part
def new_leaf(links, keys, rows, state, before, key, row):  # type: ignore[no-untyped-def]
    """A leaf of one entry between the node `before` and the one after it."""
    after = links[before, NEXT]
    node = new_node(links, state, before)
    # Of two neighbours one is below the other and has no child on the side that faces it.
    if before != 0 and links[before, RIGHT] == 0:
        links[before, RIGHT] = node
        links[node, PARENT] = before
    else:
        links[after, LEFT] = node
        links[node, PARENT] = after
    links[node, COUNT] = 1
    links[node, HEIGHT] = 1
    links[node, LEAST] = key
    keys[node, 0] = key
    rows[node, 0] = row
    rebalance(links, keys, rows, links[node, PARENT])


@part
def unlink(links, keys, rows, state, node):  # type: ignore[no-untyped-def]
    """Free a node without entries and with at most one child."""
    child = links[node, LEFT] + links[node, RIGHT]
    parent = links[node, PARENT]
    links[parent, LEFT if links[parent, LEFT] == node else RIGHT] = child
    if child != 0:
        links[child, PARENT] = parent
    free_node(links, state, node)
    rebalance(links, keys, rows, parent)


@expand
def insert(links, keys, rows, state, key, row):  # type: ignore[no-untyped-def]
    """Insert an entry whose row is greater than any before. Needs one spare node."""
    # 1. the last node that begins at or before the entry; 0 if none does
    node = 0
    below = links[0, LEFT]
    while below != 0:
        if links[below, LEAST] <= key:
            node = below
            below = links[below, RIGHT]
        else:
            below = links[below, LEFT]
    count = links[node, COUNT]
    # 2. it belongs within that node, ...
    if node != 0 and key < keys[node, count - 1]:
        slot = count_up_to(keys, node, 0, count, key)
        if count < NODE_ROWS:
            put(links, keys, rows, node, slot, key, row)
            return
        # ... which is full: its least entry moves to the node before
        least_key = keys[node, 0]
        least_row = rows[node, 0]
        shift_down(keys[node, :slot])
        shift_down(rows[node, :slot])
        keys[node, slot - 1] = key
        rows[node, slot - 1] = row
        links[node, LEAST] = keys[node, 0]
        before = links[node, PREV]
        count = links[before, COUNT]
        if before != 0 and count < NODE_ROWS:
            keys[before, count] = least_key
            rows[before, count] = least_row
            links[before, COUNT] = count + 1
        else:
            new_leaf(links, keys, rows, state, before, least_key, least_row)
        return
    # 3. or between that node and the next
    after = links[node, NEXT]
    if node != 0 and count < NODE_ROWS:
        keys[node, count] = key
        rows[node, count] = row
        links[node, COUNT] = count + 1
    elif after != 0 and links[after, COUNT] < NODE_ROWS:
        put(links, keys, rows, after, 0, key, row)
        links[after, LEAST] = key
    else:
        new_leaf(links, keys, rows, state, node, key, row)


@expand
def seek(links, keys, key):  # type: ignore[no-untyped-def]
    """(node, slot) of the first entry whose key is at least `key`; node 0 if there is none."""
    node = 0
    below = links[0, LEFT]
    while below != 0:
        if links[below, LEAST] < key:
            node = below
            below = links[below, RIGHT]
        else:
            below = links[below, LEFT]
    count = links[node, COUNT]
    if node == 0 or keys[node, count - 1] < key:
        return links[node, NEXT], 0
    return node, count_below(keys, node, 0, count, key)


@part
def seek_entry(links, keys, rows, key, row):  # type: ignore[no-untyped-def]
    """(node, slot) of an entry that is there."""
    node = 0
    below = links[0, LEFT]
    while below != 0:
        least = links[below, LEAST]
        if least < key or (least == key and rows[below, 0] <= row):
            node = below
            below = links[below, RIGHT]
        else:
            below = links[below, LEFT]
    return node, count_entries_up_to(keys, rows, node, 0, links[node, COUNT], key, row) - 1


@expand
def remove(links, keys, rows, state, key):  # type: ignore[no-untyped-def]
    """Remove the oldest row, whose key is `key`."""
    node, slot = seek(links, keys, key)
    take_out(links, keys, rows, node, slot)
    count = links[node, COUNT]
    if slot == 0:
        links[node, LEAST] = keys[node, 0]
    left = links[node, LEFT]
    right = links[node, RIGHT]
    if left != 0 and right != 0:
        if count < LOW_ROWS:
            before = links[node, PREV]
            fill_from_before(links, keys, rows, node, min(FILL_ROWS - count, links[before, COUNT]))
            if links[before, COUNT] == 0:
                unlink(links, keys, rows, state, before)
    elif count == 0:
        unlink(links, keys, rows, state, node)
    elif left != 0:
        if count + links[left, COUNT] <= MERGE_ROWS:
            fill_from_before(links, keys, rows, node, links[left, COUNT])
            unlink(links, keys, rows, state, left)
    elif right != 0 and count + links[right, COUNT] <= MERGE_ROWS:
        for i in range(links[right, COUNT]):
            keys[node, count + i] = keys[right, i]
            rows[node, count + i] = rows[right, i]
        links[node, COUNT] += links[right, COUNT]
        unlink(links, keys, rows, state, right)


@kernel
def run_ttree(  # type: ignore[no-untyped-def]
    nodes, state, row_keys, keys_base, key_low, key_high, row_from, row_until, end, floor,
    cursor, out_prober, out_row, found, counting,
):  # fmt: skip
    """Insert, expire and probe in order (see indexes/index.py). Returns how many pairs there are now.

    nodes     (links, keys, rows) as above
    row_keys  int64 by row
    end       rows below are to be inserted in the end, and rows below `floor` to be removed
    found     pairs that are in the output already

    The caller owns the output; when it is full the cursor says where to go on. When nodes might run out
    the kernel stops with state[SHORT] = 1, to be called again, with more nodes and the pairs found.
    """
    links, keys, rows = borrowed(nodes[0]), borrowed(nodes[1]), borrowed(nodes[2])
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
            remove(links, keys, rows, state, row_keys[row - keys_base])
        # Rows that expire before anyone can see them are not inserted.
        row = max(state[INSERTED], min(oldest, until))
        state[EXPIRED] = max(state[EXPIRED], min(oldest, row))
        # 2. insert
        while row < until:
            if state[IN_USE] + 1 == len(links):
                state[INSERTED] = row
                state[SHORT] = 1
                cursor[PROBER] = prober
                return found
            insert(links, keys, rows, state, row_keys[row - keys_base], row)
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
                node, slot = seek_entry(links, keys, rows, cursor[AT_KEY], cursor[AT_ROW])
            else:
                node, slot = seek(links, keys, low)
            found, complete = emit(
                links, keys, rows, node, slot, high, prober, cursor, out_prober, out_row, found, counting
            )
            if not complete:
                return found
        prober += 1
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found
