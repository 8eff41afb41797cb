"""Rows that came when some that they would have met had gone."""

from __future__ import annotations

from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def came_too_late(
    codes: NDArray, floors: NDArray, until: NDArray, others: NDArray, gone: int, has_gone: bool, late: NDArray
) -> None:
    """Mark rows for which a row of another side had gone with a key that is not less.

    codes, floors, until: int64 per row, its key, below which keys of the other side had gone when it came,
    and how many of `others` had come by then. others: int64, keys of the other side, in order of arrival;
    gone: the greatest that went before all of these, if has_gone. late: uint8 per row, set to 1.
    """
    for row in range(len(codes)):
        if has_gone and gone >= codes[row]:
            late[row] = 1
            continue
        for place in range(until[row]):
            if codes[row] <= others[place] < floors[row]:
                late[row] = 1
                break
