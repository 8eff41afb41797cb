"""Rows of several streams in the order in which they come, and how far all streams had come before each."""

from __future__ import annotations

from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def order_arrivals(
    ts: NDArray,
    starts: NDArray,
    frontiers: NDArray,
    own: NDArray,
    numbers: NDArray,
    numberings: NDArray,
    begins: NDArray,
    nows: NDArray,
    found: NDArray,
) -> None:
    """Say of each row how many come before it, and which frontiers its stream and the others had then.

    ts: int64, of all rows, those of one stream after those of another, each in order; starts: int64, where
    each stream's begin, and the end. frontiers: int64, that of the row's sequence after it; own: int64, the
    number of that among those of its stream, -1: none. nows: int64, the frontiers of all sequences of all
    streams before all rows, and after them when this returns; begins: int64, where each stream's begin.
    numbers: int64, a line per numbering, the row's number there; numberings: int64 per stream, the line by
    which its frontiers are found. Writes found, four lines of int64 per row: lowest, the least of all
    streams' frontiers before it; second, the least but for the stream that has that; behind, which stream
    that is; places, how many rows come before it. Of equal ts the row of the last stream comes first.
    """
    lowest, second, behind, places = found[0], found[1], found[2], found[3]
    streams = len(starts) - 1
    at = starts[:-1].copy()
    for place in range(len(ts)):
        # 1. whose row comes next
        side = -1
        for one in range(streams):
            if at[one] < starts[one + 1] and (side < 0 or ts[at[one]] <= ts[at[side]]):
                side = one
        row = at[side]
        # 2. who is furthest behind
        least, low = -1, 0
        following, next_low = -1, 0
        for one in range(streams):
            now = nows[begins[one] + numbers[numberings[one], row]]
            if least < 0 or now < low:
                following, next_low = least, low
                least, low = one, now
            elif following < 0 or now < next_low:
                following, next_low = one, now
        lowest[row], second[row], behind[row], places[row] = low, next_low, least, place
        if own[row] >= 0:
            nows[begins[side] + own[row]] = frontiers[row]
        at[side] += 1
