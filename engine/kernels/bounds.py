"""Which rows of the other side a prober sees: windows and order, turned into row numbers.

Rows of the other side that were there before this batch all precede its probers; among the rows of the batch
those do that are older, and, for one of the two directions, those of the same ts (`inclusive`), so that each
pair is found once.
"""

from __future__ import annotations

from .jit import kernel


@kernel
def rows_before(times, shift, ts, base, start, end, inclusive, out):  # type: ignore[no-untyped-def]
    """out[i] = first row from `start` on whose ts is not below (inclusive: not at or below) times[i] - shift.

    times, ts (by row) and so out are non-decreasing int64. One comparison a step and no jump that depends on
    it: arrivals of two streams alternate at random, and a mispredicted jump costs more than a whole step.
    """
    slack = 1 if inclusive else 0
    i = 0
    row = start
    while i < len(times) and row < end:
        is_before = ts[row - base] < times[i] - shift + slack
        out[i] = row
        row += is_before
        i += not is_before
    while i < len(times):
        out[i] = row
        i += 1


@kernel
def rows_bounds(  # type: ignore[no-untyped-def]
    prober_ts, ts, base, tail, first_new, end, inclusive,
    places, places_base, come_ts, come, size, row_from, row_until,
):  # fmt: skip
    """ROWS `size`: the same by places in the stream (int64 by row), of which some rows may not be stored.

    come_ts: times of all rows of the stream in this batch, stored or not; come: how many came before it.
    Every row with ts up to the prober's displaces, whether the prober sees it or not.
    """
    low = tail
    high = first_new
    seen = 0
    for i in range(len(prober_ts)):
        t = prober_ts[i]
        while seen < len(come_ts) and come_ts[seen] <= t:
            seen += 1
        while high < end and (ts[high - base] < t or (inclusive and ts[high - base] == t)):
            high += 1
        while low < high and places[low - places_base] < come + seen - size:
            low += 1
        row_from[i] = low
        row_until[i] = high


@kernel
def silence_displaced(ts, places, come_ts, come, size, key_low, key_high):  # type: ignore[no-untyped-def]
    """Give probers (times ts, places in the stream) displaced at their own instant nothing to seek."""
    seen = 0
    for i in range(len(ts)):
        while seen < len(come_ts) and come_ts[seen] <= ts[i]:
            seen += 1
        if places[i] < come + seen - size:
            key_low[i] = 1
            key_high[i] = 0
