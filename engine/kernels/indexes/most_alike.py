"""How often a key comes, at most, among the rows of a hash chain; the chains are those of hash.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def most_alike(keys: NDArray, links: NDArray, tail: int, first: int, end: int) -> int:
    """The most rows with the key of one of the rows [first, end), among those from `tail` on up to that row.

    keys: int64, links: int32, by place; all rows are inserted. A key is counted from its last row on, as far
    as rows next to each other show that it is the last.
    """
    most = 0
    for place in range(end - 1, first - 1, -1):
        if place + 1 < end and keys[place + 1] == keys[place]:
            continue
        count = 1
        at = np.int64(links[place])
        while at >= tail:
            if keys[at] == keys[place]:
                count += 1
            at = np.int64(links[at])
        most = max(most, count)
    return most
