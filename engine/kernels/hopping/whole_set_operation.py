"""Rows of one hop by how often they come on either side, by the slots of their values (key_slots.py)."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.changes.set_operation import UNION, copies


@kernel
def keep_copies(kind, left, right, counts, out_left, out_right):  # type: ignore[no-untyped-def]
    """The rows that make up the answer: of each value, the first so many as it has copies there.

    left, right: slots; counts: int64[slots, 3], zeros; out_*: int64, room for all rows of a side.
    Returns how many of the left and of the right.
    """
    for row in range(len(left)):
        counts[left[row], 0] += 1
    for row in range(len(right)):
        if right[row] >= 0:  # else it is not on the left
            counts[right[row], 1] += 1
    found = more = 0
    for row in range(len(left)):
        slot = left[row]
        if counts[slot, 2] < copies(kind, counts[slot, 0], counts[slot, 1]):
            counts[slot, 2] += 1
            out_left[found] = row
            found += 1
    if kind == UNION:
        for row in range(len(right)):
            slot = right[row]
            if counts[slot, 2] == 0:
                counts[slot, 2] = 1
                out_right[more] = row
                more += 1
    return found, more


@kernel
def compare_rows(before, after, counts, out_gone, out_new):  # type: ignore[no-untyped-def]
    """Rows of one hop that are not in the next, and those of the next that are new; how many of each.

    before, after: slots; counts: int64 by slot, zeros before and after; out_*: int64, room for all.
    """
    for row in range(len(after)):
        counts[after[row]] += 1
    gone = new = 0
    for row in range(len(before)):
        slot = before[row]
        if counts[slot] > 0:
            counts[slot] -= 1
        else:
            out_gone[gone] = row
            gone += 1
    for row in range(len(after)):
        slot = after[row]
        if counts[slot] > 0:
            counts[slot] -= 1
            out_new[new] = row
            new += 1
    return gone, new
