"""Rows of several streams in the order in which they come, and how far all streams had come before each."""

from __future__ import annotations

from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel


@kernel
def order_arrivals(
    ts: NDArray,
    starts: NDArray,
    frontiers: NDArray,
    now: NDArray,
    lowest: NDArray,
    second: NDArray,
    behind: NDArray,
    places: NDArray,
) -> None:
    """Say of each row how many come before it, and which frontiers its stream and the others had then.

    ts: int64, of all rows, those of one stream after those of another, each in order; starts: int64, where
    each stream's begin, and the end. frontiers: int64, that of the row's stream after it; now: int64 per
    stream, before all rows, and after them when this returns. Writes, int64 per row: lowest, the least of
    all frontiers before it; second, the least but for the stream that has that; behind, which stream that is;
    places, how many rows come before it. Of equal ts the row of the last stream comes first.
    """
    at = starts[:-1].copy()
    for place in range(len(ts)):
        # 1. whose row comes next
        side = -1
        for one in range(len(now)):
            if at[one] < starts[one + 1] and (side < 0 or ts[at[one]] <= ts[at[side]]):
                side = one
        row = at[side]
        # 2. who is furthest behind
        least = 0
        for one in range(1, len(now)):
            if now[one] < now[least]:
                least = one
        following = -1
        for one in range(len(now)):
            if one != least and (following < 0 or now[one] < now[following]):
                following = one
        lowest[row], second[row], behind[row], places[row] = now[least], now[following], least, place
        now[side] = frontiers[row]
        at[side] += 1
