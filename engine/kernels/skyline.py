"""MAX per group where rows leave by themselves only: of each group, the values that can still become it.

A value that is not above another which leaves no earlier will never be the greatest. What is left, in the
order in which it leaves, is a flight of stairs going down: the first is the answer, and when it leaves, the
next one is.

    value |  x
          |      x   x               the x are kept, the o are not
          |   o    o      x
          +-------------------- ets

`run_skyline` keeps the stairs of each group as a list, for rows that leave in the order in which they come: a
new one takes away from the end of the list what is not above it. `run_stairs` keeps them as ordered trees by
ets, for all others. MIN is MAX of the codes with all bits turned over: `flip` is -1 for it, else 0.
"""

from __future__ import annotations

import numpy as np

from .exact_sum import bits_of
from .jit import kernel
from .ordered import find_key, first_node, insert_key, node_before, node_from, remove_key

NEVER = (1 << 63) - 1
HEAD, TAIL = 0, 1
ETS, CODE, NEXT, PREVIOUS = 0, 1, 2, 3
USED, FREE = 0, 1


@kernel
def run_skyline(  # type: ignore[no-untyped-def]
    slot, row, start, events, point_ts, point_slot, point_until, points,
    row_code, row_valid, row_ets, ends, nodes, meta, flip, doubles, value, valid,
):  # fmt: skip
    """Take rows in, and at each point find the group's greatest.

    row: int32 per event, -1: an expiry; row_code, row_valid (uint8, empty: no NULLs), row_ets (empty: never)
    by row; start: point and event to begin with, int64[2]. ends: int32[slots, 2], each list's first and last
    node, 0: none; nodes: int64[nodes, 4], ets, code, next and previous one; meta: nodes used, first free one.
    There is a free node for each event. value, valid: per point.
    Returns whether all is done; not if a row leaves earlier than one before it: start says which event.
    """
    event = start[1]
    for point in range(start[0], points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            at = row[event]
            if at < 0 or (len(row_valid) and not row_valid[at]):
                event += 1
                continue
            group = slot[event]
            code = row_code[at] ^ flip
            end = row_ets[at] if len(row_ets) else NEVER
            node = np.int64(ends[group, TAIL])
            if node and nodes[node, ETS] >= end and nodes[node, CODE] >= code:
                event += 1
                continue
            if node and nodes[node, ETS] > end:
                start[0] = point
                start[1] = event
                return False
            while node and nodes[node, CODE] <= code:
                before = nodes[node, PREVIOUS]
                nodes[node, NEXT] = meta[FREE]
                meta[FREE] = node
                node = before
            new = meta[FREE]
            if new:
                meta[FREE] = nodes[new, NEXT]
            else:
                meta[USED] += 1
                new = meta[USED]
            nodes[new, ETS] = end
            nodes[new, CODE] = code
            nodes[new, NEXT] = 0
            nodes[new, PREVIOUS] = node
            if node:
                nodes[node, NEXT] = new
            else:
                ends[group, HEAD] = new
            ends[group, TAIL] = new
            event += 1
        if point == points:
            break
        now = point_ts[point]
        group = point_slot[point]
        node = np.int64(ends[group, HEAD])
        if node and nodes[node, ETS] <= now:
            while node and nodes[node, ETS] <= now:
                after = nodes[node, NEXT]
                nodes[node, NEXT] = meta[FREE]
                meta[FREE] = node
                node = after
            ends[group, HEAD] = node
            if node:
                nodes[node, PREVIOUS] = 0
            else:
                ends[group, TAIL] = 0
        valid[point] = node != 0
        if node:
            code = nodes[node, CODE] ^ flip
            value[point] = bits_of(code) if doubles else code
    return True


@kernel
def lists_to_trees(ends, nodes, roots, tree):  # type: ignore[no-untyped-def]
    """Put each group's list into a tree by ets. There is a free node for each of the lists' nodes."""
    keys, values, child, meta = tree
    for group in range(len(ends)):
        child[0] = 0
        node = np.int64(ends[group, HEAD])
        while node:
            insert_key(keys, values, child, meta, nodes[node, ETS], nodes[node, CODE])
            node = nodes[node, NEXT]
        roots[group] = child[0]


@kernel
def run_stairs(  # type: ignore[no-untyped-def]
    slot, row, start, events, point_ts, point_slot, point_until, points,
    row_code, row_valid, row_ets, roots, tree, flip, doubles, value, valid,
):  # fmt: skip
    """The same for rows that leave in any order. roots: int64 by slot; tree: values by ets (ordered.py)."""
    keys, values, child, meta = tree
    event = start[1]
    for point in range(start[0], points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            at = row[event]
            if at < 0 or (len(row_valid) and not row_valid[at]):
                event += 1
                continue
            group = slot[event]
            code = row_code[at] ^ flip
            end = row_ets[at] if len(row_ets) else NEVER
            child[0] = roots[group]
            node = node_from(keys, child, end)
            if not (node and values[node] >= code):
                node = node_before(keys, child, end)
                while node and values[node] <= code:
                    remove_key(keys, child, meta, keys[node])
                    node = node_before(keys, child, end)
                node = find_key(keys, child, end)
                if node:
                    values[node] = code
                else:
                    insert_key(keys, values, child, meta, end, code)
                roots[group] = child[0]
            event += 1
        if point == points:
            break
        now = point_ts[point]
        group = point_slot[point]
        child[0] = roots[group]
        node = first_node(child)
        while node and keys[node] <= now:
            remove_key(keys, child, meta, keys[node])
            node = first_node(child)
        roots[group] = child[0]
        valid[point] = node != 0
        if node:
            code = values[node] ^ flip
            value[point] = bits_of(code) if doubles else code
    return np.bool_(True)
