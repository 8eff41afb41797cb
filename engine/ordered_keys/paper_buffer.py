"""Which rows the paper's buffers hold, first in, first out: `evict="fifo"`.

M_i = max over the other sides j of max(1, rows of i that the frontier of j has not passed + k_i), after each
arrival, once that has looked for partners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.ordered_keys.fifo_tails import fifo_tails

from .arrivals import Arrivals
from .ordered_side import OrderedSide


@dataclass(slots=True)
class Held:
    """Of one side: the first row that is held before each arrival, by place, and after all; and the greatest
    key of the rows that went before each arrival, where `has_gone`."""

    first: NDArray
    after: int
    gone: NDArray
    has_gone: NDArray


def held_from(side: OrderedSide, sides: Sequence[OrderedSide], arrivals: Arrivals, stored: NDArray) -> Held:
    """What is held of a side while rows arrive; those of `stored`, by their positions, are stored already."""
    number = side.number
    codes = np.ascontiguousarray(side.codes.live)
    is_kept = np.zeros(len(arrivals.owners), np.uint8)
    is_kept[arrivals.sides[number].places[stored]] = 1
    tails = np.empty(len(arrivals.owners), np.int64)
    after = fifo_tails(
        codes, side.first_row - side.tail, np.argsort(codes, kind="stable"), number, side.held_factor,
        arrivals.owners, is_kept, arrivals.frontiers, arrivals.factors, arrivals.before, tails,
    )  # fmt: skip
    gone, has_gone = int(side.gone.codes[0]), bool(side.gone.known[0])
    most = np.maximum.accumulate(np.concatenate([[gone if has_gone else np.iinfo(np.int64).min], codes]))
    return Held(side.tail + tails, side.tail + int(after), most[tails], (tails > 0) | has_gone)
