"""How many rows the paper's buffer of a stream holds, arrival by arrival: first in, first out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def fifo_tails(
    codes: NDArray,
    come: int,
    order: NDArray,
    number: int,
    factor: int,
    sides: NDArray,
    is_kept: NDArray,
    frontiers: NDArray,
    factors: NDArray,
    now: NDArray,
    tails: NDArray,
) -> int:
    """Fill in the first row that is held before each arrival; returns that after all.

    codes: int64, the keys of one side's rows, of which `come` are there; order: int64, their places by key.
    number, factor: of that side. Per arrival of any side: sides (int64); is_kept (uint8), whether it is one
    of these rows; frontiers and factors (int64) of its side after it. now: int64 per side, the frontiers
    before all. tails: int64 per arrival, written.

    The buffer holds as many rows as have keys that the other side can still have, and `factor` more: for the
    other side for which that is most, and at least one (equation 7, with its rates and lags counted).
    """
    count = len(now)
    frontier = now.copy()
    passed = np.zeros(count, np.int64)  # of the rows by key, how many are below each frontier
    below = np.zeros(count, np.int64)  # of the rows that are held, how many
    tail = 0
    for one in range(count):
        while passed[one] < len(order) and codes[order[passed[one]]] < frontier[one]:
            below[one] += order[passed[one]] < come
            passed[one] += 1
    for arrival in range(len(sides)):
        tails[arrival] = tail
        one = sides[arrival]
        if is_kept[arrival]:
            for other in range(count):
                below[other] += codes[come] < frontier[other]
            come += 1
        if one == number:
            factor = factors[arrival]
        frontier[one] = frontiers[arrival]
        while passed[one] < len(order) and codes[order[passed[one]]] < frontier[one]:
            below[one] += tail <= order[passed[one]] < come
            passed[one] += 1
        needed = 1
        for other in range(count):
            if other != number:
                needed = max(needed, come - tail - below[other] + factor)
        while tail < come - needed:
            for other in range(count):
                below[other] -= codes[tail] < frontier[other]
            tail += 1
    return tail
