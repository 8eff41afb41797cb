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
HEAD, TAIL, LINE = 0, 3, 6
ETS, CODE, NEXT, PREVIOUS = 1, 2, 3, 0
USED, FREE = 0, 1


@kernel
def run_skyline(  # type: ignore[no-untyped-def]
    slot, row, start, events, point_ts, point_slot, point_until, points,
    row_code, row_valid, row_ets, ends, nodes, meta, flip, doubles, value, valid,
):  # fmt: skip
    """Take rows in, and at each point find the group's greatest.

    row: int32 per event, -1: an expiry; row_code, row_valid (uint8, empty: no NULLs), row_ets (empty: never)
    by row; start: point and event to begin with, int64[2]. ends: int64[slots, 6]: of each list, the first node
    with its ets and code, and the last one likewise; node 0: none. nodes: int64[nodes, 4]: previous one, ets,
    code, next one; meta: nodes used, first free one. There is a free node for each event. value, valid: per
    point. Returns whether all is done; not if a row leaves earlier than one before it: start says which event.
    """
    event = start[1]
    free, used = meta[FREE], meta[USED]
    is_done = True
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
            node = ends[group, TAIL]
            if node:
                if ends[group, TAIL + ETS] >= end:
                    if ends[group, TAIL + CODE] >= code:
                        event += 1
                        continue
                    if ends[group, TAIL + ETS] > end:
                        start[0] = point
                        start[1] = event
                        is_done = False
                        break
                if ends[group, TAIL + CODE] <= code:
                    while True:
                        before = nodes[node, PREVIOUS]
                        nodes[node, NEXT] = free
                        free = node
                        node = before
                        if node == 0 or nodes[node, CODE] > code:
                            break
            new = free
            if new:
                free = nodes[new, NEXT]
            else:
                used += 1
                new = used
            nodes[new, ETS] = end
            nodes[new, CODE] = code
            nodes[new, NEXT] = 0
            nodes[new, PREVIOUS] = node
            if node:
                nodes[node, NEXT] = new
            else:
                ends[group, HEAD] = new
                ends[group, HEAD + ETS] = end
                ends[group, HEAD + CODE] = code
            ends[group, TAIL] = new
            ends[group, TAIL + ETS] = end
            ends[group, TAIL + CODE] = code
            event += 1
        if point == points or not is_done:
            break
        now = point_ts[point]
        group = point_slot[point]
        node = ends[group, HEAD]
        if node and ends[group, HEAD + ETS] <= now:
            while node and nodes[node, ETS] <= now:
                after = nodes[node, NEXT]
                nodes[node, NEXT] = free
                free = node
                node = after
            ends[group, HEAD] = node
            if node:
                nodes[node, PREVIOUS] = 0
                ends[group, HEAD + ETS] = nodes[node, ETS]
                ends[group, HEAD + CODE] = nodes[node, CODE]
            else:
                ends[group, TAIL] = 0
        valid[point] = node != 0
        if node:
            code = ends[group, HEAD + CODE] ^ flip
            value[point] = bits_of(code) if doubles else code
    meta[FREE], meta[USED] = free, used
    return is_done


@kernel
def lists_to_trees(ends, nodes, roots, tree):  # type: ignore[no-untyped-def]
    """Put each group's list into a tree by ets. There is a free node for each of the lists' nodes."""
    keys, values, child, meta = tree
    for group in range(len(ends)):
        child[0] = 0
        node = ends[group, HEAD]
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
