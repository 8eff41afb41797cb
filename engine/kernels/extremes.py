"""MAX per group where rows may be withdrawn: all values in order, with how often they are there.

MIN is MAX of the codes with all bits turned over: `flip` is -1 for it, else 0.
"""

from __future__ import annotations

from .exact_sum import bits_of
from .jit import kernel
from .ordered import find_key, insert_key, last_node, remove_key


@kernel
def run_extremes(  # type: ignore[no-untyped-def]
    slot, sign, codes, events, point_slot, point_until, points, roots, tree, flip, doubles, value, valid
):  # fmt: skip
    """Add and take values away, and at each point find the group's greatest.

    sign: int8, 0 for NULL; codes: int64 per event; roots: int64 by slot; tree: see ordered.py, with a free
    node for each event; value: int64 per point, bits if `doubles`, else the code; valid: uint8.
    """
    keys, counts, child, meta = tree
    event = 0
    for point in range(points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            if sign[event]:
                group = slot[event]
                code = codes[event] ^ flip
                child[0] = roots[group]
                node = find_key(keys, child, code)
                if not node:
                    insert_key(keys, counts, child, meta, code, sign[event])
                elif counts[node] + sign[event]:
                    counts[node] += sign[event]
                else:
                    remove_key(keys, child, meta, code)
                roots[group] = child[0]
            event += 1
        if point == points:
            break
        child[0] = roots[point_slot[point]]
        node = last_node(child)
        valid[point] = node != 0
        if node:
            code = keys[node] ^ flip
            value[point] = bits_of(code) if doubles else code
