"""Nodes of sorted entries in a chain: what the two trees share.

An entry is (key, row), and entries are in this order along the chain. Rows are inserted in order, so a new
entry follows all entries with its key: its place is found by its key alone.

    node    [ entry | entry | entry | spare | spare ]      spare slots: key MAX_KEY, row NO_ROW

Rows expire in order, and nothing is done about it: entries of expired rows stay where they are, and probes
pass over them by row number. A node drops them when it is full and another entry is to go in; only a node
that is full of live entries splits. So a row is
searched for once, when it is inserted. Nodes are never freed one by one: when too many slots are wasted, live
entries are packed into new nodes.

The places of many keys are found together, a level of the tree or a halving of a node at a time for all of
them: no step of one search waits for another's, and no jump depends on a key.

least    int64 by node: no entry in it has a lower key, no entry before it a higher one
size     int64 by node: entries
before   uint32, two by node: the node before it, and its own number
after    uint32 by node: the node after it. Node 0 holds no entry and closes the chain to a ring
keys     int64, NODE_ROWS by node: the first `size` sorted, then spare slots
rows     int64, beside the keys
state    int64[STATE_SLOTS]: the slots below
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.jit import expand, part
from penstock.engine.kernels.base.node_size import TTREE_NODE as NODE_ROWS
from penstock.engine.kernels.base.vectors import LANES

EXPIRED = 0  # rows below it are seen by nobody any more, or never were inserted
INSERTED = 1  # rows below it have been inserted
SHORT = 2  # 1: the kernel stopped because it has run out of nodes
USED = 3  # nodes from here on have never been used
ROOT = 4
HEIGHT = 5
WASTED = 6  # entries passed over by probes since expired ones were last dropped everywhere
STATE_SLOTS = 8

MAX_KEY = np.iinfo(np.int64).max
NO_ROW = -1

LINE_BYTES = 64
AT_ONCE = 128  # places found together, and probers that are served after the rows of all have been inserted
MANY_PART = 4  # so many rows for one that is there are merged in, not put in one by one
SPLIT_ROWS = NODE_ROWS * 7 // 8  # a node that has more live entries than this, and is full, splits
PACKED_ROWS = NODE_ROWS * 3 // 4  # in nodes that were filled in one go
FEW_ROWS = LANES  # entries looked at without a jump


class Nodes(NamedTuple):
    """The arrays above."""

    least: NDArray
    size: NDArray
    before: NDArray
    after: NDArray
    keys: NDArray
    rows: NDArray


def allocate_nodes(nodes: int) -> Nodes:
    """Room for so many nodes, node 0 included; node 1 is in the chain, and empty."""
    new = Nodes(
        np.full(nodes, MAX_KEY),
        np.zeros(nodes, np.int64),
        np.zeros(2 * nodes, np.uint32),
        np.zeros(nodes, np.uint32),
        aligned(nodes * NODE_ROWS + FEW_ROWS, MAX_KEY),  # a few more: they are read, and not used
        aligned(nodes * NODE_ROWS + FEW_ROWS, NO_ROW),
    )
    new.before[1::2] = np.arange(nodes)
    new.before[0] = new.after[0] = 1
    return new


def aligned(size: int, value: int) -> NDArray:
    """An int64 array that begins where a line of the cache does, so that nodes do."""
    room = np.full(size + LINE_BYTES // 8, value)
    start = -room.ctypes.data % LINE_BYTES // 8
    return room[start : start + size]


@expand
def borrow_nodes(nodes):  # type: ignore[no-untyped-def]
    """The same, without counting references."""
    return Nodes(
        borrowed(nodes.least), borrowed(nodes.size), borrowed(nodes.before), borrowed(nodes.after),
        borrowed(nodes.keys), borrowed(nodes.rows),
    )  # fmt: skip


@part
def find_places(keys, sought, at, place):  # type: ignore[no-untyped-def]
    """place[i] (uint32): where node at[i] (uint32) has its first key that is not below sought[i] (int64).

    Where there is none, the first spare slot, or the last one if the node is full.
    """
    for i in range(len(sought)):
        place[i] = at[i] * np.uint32(NODE_ROWS)
    half = NODE_ROWS // 2
    while half > 0:
        last = np.uint32(half - 1)
        for i in range(len(sought)):
            here = place[i]
            place[i] = here + np.uint32(half * (keys[here + last] < sought[i]))
        half //= 2


@expand
def count_up_to(nodes, node, key):  # type: ignore[no-untyped-def]
    """How many entries of the node have keys up to `key`."""
    start = node * NODE_ROWS
    keys = nodes.keys[start : start + NODE_ROWS]
    up_to = 0
    for i in range(len(keys)):
        up_to += keys[i] <= key
    return min(up_to, nodes.size[node])


@part
def count_before(nodes, node, key, row):  # type: ignore[no-untyped-def]
    """How many entries of the node are before (key, row)."""
    start = node * NODE_ROWS
    before = 0
    for i in range(start, start + nodes.size[node]):
        before += (nodes.keys[i] < key) | ((nodes.keys[i] == key) & (nodes.rows[i] < row))
    return before


@expand
def put(nodes, node, slot, key, row):  # type: ignore[no-untyped-def]
    """Put an entry into a node that has room, before the one at `slot`.

    All slots are written, whether they change or not: no jump depends on where the entry goes.
    """
    start = node * NODE_ROWS
    keys = nodes.keys[start : start + NODE_ROWS]
    rows = nodes.rows[start : start + NODE_ROWS]
    key_before = key
    row_before = row
    for i in range(NODE_ROWS):
        key_here = keys[i]
        row_here = rows[i]
        keys[i] = key_here if i < slot else (key if i == slot else key_before)
        rows[i] = row_here if i < slot else (row if i == slot else row_before)
        key_before = key_here
        row_before = row_here
    nodes.size[node] += 1
    nodes.least[node] = min(nodes.least[node], key)


@part
def drop_expired(nodes, node, oldest):  # type: ignore[no-untyped-def]
    """Drop the node's entries of rows below `oldest`. Returns how many are left."""
    start = node * NODE_ROWS
    keys = nodes.keys[start : start + NODE_ROWS]
    rows = nodes.rows[start : start + NODE_ROWS]
    left = 0
    for i in range(NODE_ROWS):  # rows of spare slots are below any
        row = rows[i]
        keys[np.uint32(left)] = keys[i]
        rows[np.uint32(left)] = row
        left += row >= oldest
    for i in range(NODE_ROWS):
        keys[i] = keys[i] if i < left else MAX_KEY
        rows[i] = rows[i] if i < left else NO_ROW
    nodes.size[node] = left
    return left


@part
def split_node(nodes, state, node, keep):  # type: ignore[no-untyped-def]
    """Move all but the first `keep` entries to a new node after it, of which there is one. Returns that.

    If there are none to be moved, the caller sets the new node's least key.
    """
    fresh = state[USED]
    state[USED] += 1
    following = nodes.after[node]
    nodes.before[2 * fresh] = node
    nodes.after[fresh] = following
    nodes.after[node] = fresh
    nodes.before[2 * following] = fresh
    start = node * NODE_ROWS
    to = fresh * NODE_ROWS
    for i in range(start + keep, start + nodes.size[node]):
        nodes.keys[to] = nodes.keys[i]
        nodes.rows[to] = nodes.rows[i]
        nodes.keys[i] = MAX_KEY
        nodes.rows[i] = NO_ROW
        to += 1
    nodes.size[fresh] = to - fresh * NODE_ROWS
    nodes.size[node] = keep
    nodes.least[fresh] = nodes.keys[fresh * NODE_ROWS]
    return fresh


@part
def live_entries(nodes, state):  # type: ignore[no-untyped-def]
    """Copies of the keys and rows (int64) of all entries that have not expired, in order."""
    oldest = state[EXPIRED]
    keys = np.empty(state[USED] * NODE_ROWS, np.int64)
    rows = np.empty(state[USED] * NODE_ROWS, np.int64)
    to = np.uint64(0)
    node = nodes.after[0]
    while node != 0:
        start = np.uint64(node) * np.uint64(NODE_ROWS)
        for i in range(nodes.size[node]):
            row = nodes.rows[start + np.uint64(i)]
            keys[to] = nodes.keys[start + np.uint64(i)]
            rows[to] = row
            to += np.uint64(row >= oldest)
        node = nodes.after[node]
    return keys[:to], rows[:to]


@part
def halve(keys, new_keys):  # type: ignore[no-untyped-def]
    """How many of each of two sorted arrays are in the first half of both together."""
    half = (len(keys) + len(new_keys)) // 2
    low, high = max(0, half - len(new_keys)), min(half, len(keys))
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= new_keys[half - middle - 1]:
            low = middle + 1
        else:
            high = middle
    return low, half - low


@part
def merge(  # type: ignore[no-untyped-def]
    keys, rows, new_keys, order, first_row, out_keys, out_rows, at, i, i_end, j, j_end,
):  # fmt: skip
    """Merge what is left of [i, i_end) and of the new [j, j_end), from place `at` of the output on."""
    at, i, i_end, j, j_end = np.int64(at), np.int64(i), np.int64(i_end), np.int64(j), np.int64(j_end)
    while i < i_end or j < j_end:
        is_new = i == i_end or (j < j_end and new_keys[j] < keys[i])
        out_keys[at] = new_keys[j] if is_new else keys[i]
        out_rows[at] = first_row + order[j] if is_new else rows[i]
        j += is_new
        i += not is_new
        at += 1


@part
def merge_entries(keys, rows, new_keys, order, first_row):  # type: ignore[no-untyped-def]
    """Keys and rows (int64) of entries and new ones together, as new arrays. Arguments as in fill_nodes."""
    total = len(keys) + len(new_keys)
    out_keys, out_rows = np.empty(total, np.int64), np.empty(total, np.int64)
    # Each step waits for the one before. So the two halves are merged side by side, as long as there are
    # entries of both kinds, and without a jump that depends on which comes next.
    one = np.uint64(1)
    split, new_split = halve(keys, new_keys)
    i, i_end, j, j_end = np.uint64(0), np.uint64(split), np.uint64(0), np.uint64(new_split)
    k, k_end, l, l_end = i_end, np.uint64(len(keys)), j_end, np.uint64(len(new_keys))
    at, above = np.uint64(0), i_end + j_end
    while i < i_end and j < j_end and k < k_end and l < l_end:
        key, new_key, high_key, new_high_key = keys[i], new_keys[j], keys[k], new_keys[l]
        row, high_row = rows[i], rows[k]
        is_new, is_new_high = np.uint64(new_key < key), np.uint64(new_high_key < high_key)
        out_keys[at] = min(key, new_key)
        out_rows[at] = row + (first_row + order[j] - row) * np.int64(is_new)
        out_keys[above] = min(high_key, new_high_key)
        out_rows[above] = high_row + (first_row + order[l] - high_row) * np.int64(is_new_high)
        j += is_new
        i += one - is_new
        l += is_new_high
        k += one - is_new_high
        at += one
        above += one
    merge(keys, rows, new_keys, order, first_row, out_keys, out_rows, at, i, i_end, j, j_end)
    merge(keys, rows, new_keys, order, first_row, out_keys, out_rows, above, k, k_end, l, l_end)
    return out_keys, out_rows


@part
def fill_nodes(nodes, state, keys, rows):  # type: ignore[no-untyped-def]
    """Fill the nodes from 1 on with entries (int64, sorted); there are enough nodes.

    Returns how many nodes hold them, at least 1.
    """
    node = 0
    at = 0
    while node == 0 or at < len(keys):
        node += 1
        start = node * NODE_ROWS
        count = min(PACKED_ROWS, len(keys) - at)
        for i in range(count):
            nodes.keys[np.uint64(start + i)] = keys[np.uint64(at + i)]
        for i in range(count):
            nodes.rows[np.uint64(start + i)] = rows[np.uint64(at + i)]
        clear_slots(nodes, start + count, start + NODE_ROWS)
        nodes.size[node] = count
        nodes.least[node] = nodes.keys[start]
        nodes.before[2 * node] = node - 1
        nodes.after[node] = node + 1
        at += count
    nodes.after[node] = 0
    nodes.before[0] = node
    nodes.after[0] = 1
    clear_slots(nodes, (node + 1) * NODE_ROWS, min(state[USED], len(nodes.least)) * NODE_ROWS)
    state[USED] = node + 1
    return node


@part
def clear_slots(nodes, start, stop):  # type: ignore[no-untyped-def]
    """Make the slots [start, stop) of the arrays spare."""
    for i in range(start, stop):
        nodes.keys[i] = MAX_KEY
        nodes.rows[i] = NO_ROW
