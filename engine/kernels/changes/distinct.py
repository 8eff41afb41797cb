"""Of values that come more than once in a group, the first that comes and the last that goes.

cells   int64[a power of two, 4]: two int64 that tell values apart, the slot, and how often the value is
        there; 0: an empty cell. Open addressing, never more than half full.
meta    int64[1]: cells in use.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel, part
from penstock.engine.kernels.rows.hash import bucket_of, shift_of

COUNT = 3
SPREAD = 0x9E3779B1


@expand
def find_value(cells, shift, a, b, slot):  # type: ignore[no-untyped-def]
    """The cell of this value, or the empty one where it would be."""
    cell = np.int64(bucket_of(a ^ b ^ (slot * SPREAD), shift))
    while cells[cell, COUNT] and not (cells[cell, 0] == a and cells[cell, 1] == b and cells[cell, 2] == slot):
        cell = (cell + 1) & (len(cells) - 1)
    return cell


@part
def forget_value(cells, shift, cell):  # type: ignore[no-untyped-def]
    """Empty a cell: those behind it move up."""
    mask = len(cells) - 1
    hole = cell
    at = (cell + 1) & mask
    while cells[at, COUNT]:
        home = np.int64(bucket_of(cells[at, 0] ^ cells[at, 1] ^ (cells[at, 2] * SPREAD), shift))
        if ((at - home) & mask) >= ((at - hole) & mask):
            for k in range(4):
                cells[hole, k] = cells[at, k]
            hole = at
        at = (at + 1) & mask
    cells[hole, COUNT] = 0


@kernel
def copy_cells(old, cells):  # type: ignore[no-untyped-def]
    """Put all values into more cells, which are empty."""
    shift = shift_of(len(cells))
    for i in range(len(old)):
        if old[i, COUNT]:
            cell = find_value(cells, shift, old[i, 0], old[i, 1], old[i, 2])
            for k in range(4):
                cells[cell, k] = old[i, k]


@kernel
def run_distinct(slot, sign, a, b, first, events, cells, meta, out_sign):  # type: ignore[no-untyped-def]
    """Of events from `first` on, what they mean for distinct values: 1 it is there now, -1 it is not, 0.

    a, b: int64 per event (b empty: 0). Returns the event for which there is no room; `events` if none.
    """
    shift = shift_of(len(cells))
    for event in range(first, events):
        out_sign[event] = 0
        if sign[event] == 0:
            continue
        if 2 * meta[0] >= len(cells):
            return event
        second = b[event] if len(b) else 0
        cell = find_value(cells, shift, a[event], second, np.int64(slot[event]))
        before = cells[cell, COUNT]
        after = before + sign[event]
        if before == 0:
            cells[cell, 0] = a[event]
            cells[cell, 1] = second
            cells[cell, 2] = slot[event]
            meta[0] += 1
        cells[cell, COUNT] = after
        if after == 0:
            forget_value(cells, shift, cell)
            meta[0] -= 1
        out_sign[event] = np.int8(after > 0) - np.int8(before > 0)
    return events
