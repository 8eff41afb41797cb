"""MIN and MAX per group where rows may be withdrawn: all values in order, with how often they are there."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel

from .exact_sum import bits_of
from .ordered import compare, find_key, first_node, insert_key, last_node, remove_key


@kernel
def run_extremes(  # type: ignore[no-untyped-def]
    happened, asked, kept, said, smallest, doubles, value, valid
):  # fmt: skip
    """Add and take values away, and at each point find the group's least or greatest.

    happened: of each event slot, sign (int8, 0 for NULL), code (int64, a number or the place of a text), and
    how many; asked: of each point its slot and the event until which it counts, and how many. kept: roots,
    int64 by slot; tree and texts, see ordered.py, with a free node for each event. said: int64 by slot, for
    texts: the place of the last one, which stays as long as the text is the same, -1: none. value: int64 per
    point, bits if `doubles`, else the code; valid: uint8.
    """
    slot, sign, codes, events = happened
    point_slot, point_until, points = asked
    roots, (keys, counts, child, meta), texts = kept
    event = 0
    for point in range(points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            if sign[event]:
                group = slot[event]
                code = codes[event]
                child[0] = roots[group]
                node = find_key(keys, child, code, texts)
                if not node:
                    insert_key(keys, counts, child, meta, code, sign[event], texts)
                elif counts[node] + sign[event]:
                    counts[node] += sign[event]
                else:
                    remove_key(keys, counts, child, meta, code, texts)
                roots[group] = child[0]
            event += 1
        if point == points:
            break
        group = point_slot[point]
        child[0] = roots[group]
        node = first_node(child) if smallest else last_node(child)
        valid[point] = node != 0
        if node:
            code = keys[node]
            if len(texts[0]):
                if said[group] < 0 or compare(said[group], code, texts) != 0:
                    said[group] = code
                code = said[group]
            value[point] = bits_of(code) if doubles else code
        elif len(texts[0]):
            said[group] = -1
