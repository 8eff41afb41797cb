"""Rows that came when some that they would have met had gone."""

from __future__ import annotations

from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def came_too_late(
    codes: NDArray,
    cells: NDArray,
    floors: NDArray,
    until: NDArray,
    others: NDArray,
    other_cells: NDArray,
    gone: NDArray,
    has_gone: NDArray,
    late: NDArray,
) -> None:
    """Mark rows for which a row of another side had gone, of their cell and with a key that is not less.

    codes, cells, floors, until: int64 per row, its key, its cell, below which keys of the other side had gone
    when it came, and how many of `others` had come by then. others, other_cells: int64, keys and cells of the
    other side, in order of arrival; gone: int64 by cell, the greatest that went before all of these, where
    has_gone (uint8). late: uint8 per row, set to 1.
    """
    for row in range(len(codes)):
        cell = cells[row]
        if has_gone[cell] and gone[cell] >= codes[row]:
            late[row] = 1
            continue
        for place in range(until[row]):
            if other_cells[place] == cell and codes[row] <= others[place] < floors[row]:
                late[row] = 1
                break
