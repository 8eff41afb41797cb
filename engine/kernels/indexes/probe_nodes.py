"""Probing nodes of sorted entries (see sorted_nodes.py), once it is known where each prober begins.

Most probers look at a few entries of one node. These are gone through without a jump that depends on keys;
the others walk along the chain.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.cursor import AT_KEY, AT_ROW, PROBER, RESUME
from penstock.engine.kernels.base.jit import expand, part
from penstock.engine.kernels.base.vectors import count_seen

from .sorted_nodes import FEW_ROWS, NODE_ROWS, WASTED


@expand
def emit(  # type: ignore[no-untyped-def]
    nodes, state, node, slot, key_high, row_from, row_until, prober, cursor, out_prober, out_row, found,
    counting,
):  # fmt: skip
    """Write rows of [row_from, row_until): of the entries from (node, slot) on with keys up to key_high.

    Returns (pairs, whether all were written); if not, the cursor is set to the first that was not.
    """
    keys, rows = nodes.keys, nodes.rows
    while node != 0 and nodes.least[node] <= key_high:
        count = nodes.size[node]
        start = node * NODE_ROWS
        stop = start + count
        if count > 0 and keys[stop - 1] > key_high:
            rest = keys[start + slot : stop]
            stop = start + slot
            for i in range(len(rest)):
                stop += rest[i] <= key_high
        first = found
        if counting:
            some = rows[start + slot : stop]
            for i in range(len(some)):
                found += (some[i] >= row_from) & (some[i] < row_until)
        elif stop - start - slot < len(out_row) - found:
            # A place is written for every entry, and kept if the prober sees it.
            for i in range(start + slot, stop):
                out_prober[found] = prober
                out_row[found] = rows[i]
                found += (rows[i] >= row_from) & (rows[i] < row_until)
        else:
            for i in range(start + slot, stop):
                if row_from <= rows[i] < row_until:
                    if found == len(out_row):
                        cursor[PROBER] = prober
                        cursor[RESUME] = 1
                        cursor[AT_KEY] = keys[i]
                        cursor[AT_ROW] = rows[i]
                        return found, False
                    out_prober[found] = prober
                    out_row[found] = rows[i]
                    found += 1
        state[WASTED] += stop - start - slot - (found - first)
        if stop < start + count:
            break
        node = np.int64(nodes.after[node])
        slot = 0
    return found, True


@expand
def is_far(nodes, node, here, low, high):  # type: ignore[no-untyped-def]
    """Whether keys of [low, high] may be elsewhere than among the few entries from `here` on."""
    last = nodes.keys[here + np.uint32(FEW_ROWS - 1)]
    return (node == 0) | (nodes.least[nodes.after[node]] <= high) | ((low <= last) & (last <= high))


@part
def count_near(nodes, low, high, row_from, row_until, at, place, far):  # type: ignore[no-untyped-def]
    """Count the matches of probers that look at a few entries; list the others in `far` (int32).

    low, high, row_from, row_until: int64 by prober, as in indexes/index.py; at, place: uint32, where they
    begin. Returns (matches, how many are listed).

    Entries after the node's last are another node's: no key there is within the range, or the prober is far.
    """
    keys, rows = nodes.keys, nodes.rows
    found = 0
    others = 0
    for i in range(len(low)):
        here = place[i]
        start = row_from[i]
        least = low[i]
        greatest = high[i]
        seen = np.uint64(max(row_until[i] - start, 0) * (least <= greatest))
        matches = count_seen(keys, rows, here, least, np.uint64(greatest) - np.uint64(least), start, seen)
        other = is_far(nodes, at[i], here, least, greatest)
        far[np.uint32(others)] = i
        others += other
        found += 0 if other else matches
    return found, others


@expand
def walk(  # type: ignore[no-untyped-def]
    nodes, state, node, here, low, high, row_from, row_until, prober, cursor, out_prober, out_row, found,
    counting,
):  # fmt: skip
    """Emit from where a prober begins, as find_places says it; returns what emit returns."""
    if low > high or row_from >= row_until:
        return found, True
    slot = here - node * NODE_ROWS
    if node == 0 or nodes.keys[here] < low:
        node = np.int64(nodes.after[node])
        slot = 0
    return emit(
        nodes, state, node, slot, high, row_from, row_until, prober, cursor, out_prober, out_row, found,
        counting,
    )  # fmt: skip


@part
def serve(  # type: ignore[no-untyped-def]
    nodes, state, first, low, high, row_from, row_until, at, place, far, cursor, out_prober, out_row, found,
    counting,
):  # fmt: skip
    """Serve probers from number `first` on, as many as there are in `low`; for arguments see count_near.

    Returns (pairs, whether all were served); if not, the cursor says where to go on.
    """
    if counting:
        matches, others = count_near(nodes, low, high, row_from, row_until, at, place, far)
        found += matches
        for i in far[:others]:
            found, _ = walk(
                nodes, state, np.int64(at[i]), np.int64(place[i]), low[i], high[i], row_from[i], row_until[i],
                first + i, cursor, out_prober, out_row, found, True,
            )  # fmt: skip
        return found, True
    for i in range(len(low)):
        here = place[i]
        if is_far(nodes, at[i], here, low[i], high[i]) or len(out_row) - found < FEW_ROWS:
            found, complete = walk(
                nodes, state, np.int64(at[i]), np.int64(here), low[i], high[i], row_from[i], row_until[i],
                first + i, cursor, out_prober, out_row, found, False,
            )  # fmt: skip
            if not complete:
                return found, False
        else:
            seen = np.uint64(max(row_until[i] - row_from[i], 0) * (low[i] <= high[i]))
            for j in range(FEW_ROWS):
                key = nodes.keys[here + np.uint32(j)]
                row = nodes.rows[here + np.uint32(j)]
                out_prober[np.uint64(found)] = first + i
                out_row[np.uint64(found)] = row
                found += (key >= low[i]) & (key <= high[i]) & (np.uint64(row - row_from[i]) < seen)
    return found, True
