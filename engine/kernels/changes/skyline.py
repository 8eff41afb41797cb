"""MAX per group where rows leave by themselves only: of each group, the values that can still become it.

A value that is not above another which leaves no earlier will never be the greatest. What is left, in the
order in which it leaves, is a flight of stairs going down: the first is the answer, and when it leaves, the
next one is.

    value |  x
          |      x   x               the x are kept, the o are not
          |   o    o      x
          +-------------------- ets

`run_skyline` keeps the stairs of each group in a ring, for rows that leave in the order in which they come: a
new one takes away from its end what is not above it. `run_stairs` keeps them as ordered trees by
ets, for all others. MIN is MAX of the codes with all bits turned over: `flip` is -1 for it, else 0.
"""

from __future__ import annotations

from penstock.engine.kernels.base.jit import expand, kernel, part

from .exact_sum import bits_of
from .ordered import find_key, first_node, insert_key, node_before, node_from, remove_key

NEVER = (1 << 63) - 1
BLOCK, SIZE, HEAD, COUNT = 0, 1, 2, 3
ETS, CODE = 0, 1
FIRST_SIZE = 4
LOOKS = 4
CLASSES = 48
USED = CLASSES
DONE, GROW, DISORDER = 0, 1, 2


@expand
def class_of(size):  # type: ignore[no-untyped-def]
    """Blocks of FIRST_SIZE are class 0, each next class is twice as large."""
    number = 0
    while size > FIRST_SIZE:
        size >>= 1
        number += 1
    return number


@part
def larger_block(line, pool, meta):  # type: ignore[no-untyped-def]
    """Move a ring into a block of twice the size; whether there was one."""
    old, size = line[BLOCK], line[SIZE]
    new_size = 2 * size if size else FIRST_SIZE
    number = class_of(new_size)
    block = meta[number]
    if block:
        meta[number] = pool[block, ETS]
    else:
        block = meta[USED]
        if block + new_size > len(pool):
            return False
        meta[USED] += new_size
    for i in range(line[COUNT]):
        at = old + ((line[HEAD] + i) & (size - 1))
        pool[block + i, ETS] = pool[at, ETS]
        pool[block + i, CODE] = pool[at, CODE]
    if size:
        pool[old, ETS] = meta[number - 1]
        meta[number - 1] = old
    line[BLOCK] = block
    line[SIZE] = new_size
    line[HEAD] = 0
    return True


@kernel
def run_skyline(  # type: ignore[no-untyped-def]
    happened, asked, rows, start, kept, flip, doubles, value, valid
):  # fmt: skip
    """Take rows in, and at each point find the group's greatest.

    happened: slot and row (int32, -1: an expiry) of each event, and how many; asked: ts, slot, and the event
    until which it counts, of each point, and how many; rows: code, valid (uint8, empty: no NULLs) and ets
    (empty: never) of each; start: point and event to begin with, int64[2].
    kept: rings, int64[slots, 4], each group's block in the pool, its size (a power of two, 0: none), where in
    it the ring begins, how many are in it; pool, int64[, 2], ets and code; meta, the first free block of each
    class (linked by ets, 0: none), and the end of those in use. value, valid: per point.
    Returns DONE, GROW (the pool is too small) or DISORDER (a row leaves earlier than one before it); start
    says where to go on.
    """
    slot, row, events = happened
    point_ts, point_slot, point_until, points = asked
    row_code, row_valid, row_ets = rows
    rings, pool, meta = kept
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
            block, mask, head, count = (
                rings[group, BLOCK], rings[group, SIZE] - 1, rings[group, HEAD], rings[group, COUNT]
            )  # fmt: skip
            if count:
                last = block + ((head + count - 1) & mask)
                if pool[last, ETS] >= end:
                    if pool[last, CODE] >= code:
                        event += 1
                        continue
                    if pool[last, ETS] > end:
                        start[0] = point
                        start[1] = event
                        return DISORDER
                # Whether one more goes is anybody's guess, and a wrong guess costs more than four looks.
                while True:
                    below = 0
                    for i in range(LOOKS):
                        last = block + ((head + count - 1 - i) & mask)
                        below += (i < count) & (pool[last, CODE] <= code)
                    count -= below
                    if below < LOOKS:
                        break
            if count > mask:
                if not larger_block(rings[group], pool, meta):
                    start[0] = point
                    start[1] = event
                    return GROW
                block, mask, head = rings[group, BLOCK], rings[group, SIZE] - 1, rings[group, HEAD]
            last = block + ((head + count) & mask)
            pool[last, ETS] = end
            pool[last, CODE] = code
            rings[group, COUNT] = count + 1
            event += 1
        if point == points:
            break
        now = point_ts[point]
        group = point_slot[point]
        count = rings[group, COUNT]
        if count:
            block, mask, head = rings[group, BLOCK], rings[group, SIZE] - 1, rings[group, HEAD]
            if pool[block + head, ETS] <= now:
                while count and pool[block + head, ETS] <= now:
                    head = (head + 1) & mask
                    count -= 1
                rings[group, HEAD] = head
                rings[group, COUNT] = count
                if count == 0:
                    number = class_of(mask + 1)
                    pool[block, ETS] = meta[number]
                    meta[number] = block
                    rings[group, SIZE] = 0
            if count:
                code = pool[block + head, CODE] ^ flip
                value[point] = bits_of(code) if doubles else code
        valid[point] = count != 0
    return DONE


@kernel
def rings_to_trees(rings, pool, roots, tree, texts):  # type: ignore[no-untyped-def]
    """Put each group's ring into a tree by ets. There is a free node for each of what is in the rings."""
    keys, values, child, meta = tree
    for group in range(len(rings)):
        child[0] = 0
        for i in range(rings[group, COUNT]):
            at = rings[group, BLOCK] + ((rings[group, HEAD] + i) & (rings[group, SIZE] - 1))
            insert_key(keys, values, child, meta, pool[at, ETS], pool[at, CODE], texts)
        roots[group] = child[0]


@kernel
def run_stairs(  # type: ignore[no-untyped-def]
    happened, asked, rows, start, kept, flip, doubles, value, valid
):  # fmt: skip
    """The same for rows that leave in any order. kept: roots, int64 by slot; tree: values by ets; no text."""
    slot, row, events = happened
    point_ts, point_slot, point_until, points = asked
    row_code, row_valid, row_ets = rows
    roots, (keys, values, child, meta), texts = kept
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
                    remove_key(keys, values, child, meta, keys[node], texts)
                    node = node_before(keys, child, end)
                node = find_key(keys, child, end, texts)
                if node:
                    values[node] = code
                else:
                    insert_key(keys, values, child, meta, end, code, texts)
                roots[group] = child[0]
            event += 1
        if point == points:
            break
        now = point_ts[point]
        group = point_slot[point]
        child[0] = roots[group]
        node = first_node(child)
        while node and keys[node] <= now:
            remove_key(keys, values, child, meta, keys[node], texts)
            node = first_node(child)
        roots[group] = child[0]
        valid[point] = node != 0
        if node:
            code = values[node] ^ flip
            value[point] = bits_of(code) if doubles else code
