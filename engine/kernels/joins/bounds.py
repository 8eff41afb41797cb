"""Which rows of the other side a prober sees: windows and order, turned into row numbers.

Arrivals of two streams alternate at random, and a mispredicted jump costs more than a whole step. So these
loops take one step per comparison and no jump depends on its outcome.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel


@kernel
def meet(left_ts, right_ts, left_first, right_first, seen_by_left, seen_by_right):  # type: ignore[no-untyped-def]
    """Who precedes whom among the new rows of both sides: the older, and of equal ts the right.

    ts: int64, non-decreasing; first: the row number of the first new row. Fills seen_by (int64, one per row):
    the row number below which the other side's rows precede it. Rows that were there before all do.
    """
    i = j = 0
    while i < len(left_ts) and j < len(right_ts):
        is_right = right_ts[j] <= left_ts[i]
        seen_by_left[i] = right_first + j
        seen_by_right[j] = left_first + i
        j += is_right
        i += not is_right
    while i < len(left_ts):
        seen_by_left[i] = right_first + j
        i += 1
    while j < len(right_ts):
        seen_by_right[j] = left_first + i
        j += 1


@expand
def rows_up_to(last, ts, low, high):  # type: ignore[no-untyped-def]
    """The first place in [low, high) of ts, non-decreasing, that is after `last`; high if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if ts[middle] <= last:
            low = middle + 1
        else:
            high = middle
    return low


@expand
def step_alive(times, size, ts, i, at, ahead, row_from):  # type: ignore[no-untyped-def]
    """One comparison of prober i with the row at `at`: the row has expired, or it is the prober's first."""
    row_from[i] = at + ahead
    expired = np.int64(ts[at] <= times[i] - size)
    return i + 1 - expired, at + expired


@kernel
def first_alive(times, row_until, size, ts, base, tail, end, row_from):  # type: ignore[no-untyped-def]
    """RANGE `size`: the first of the rows [tail, end) that is still in the window at each of `times`.

    times, ts (by row) and so row_from are non-decreasing int64. A row that does not precede a prober is not
    older than it, so never expired for it: row_from stays within row_until. Returns how many rows all see.

    A comparison waits for the one before it. So the probers are cut into quarters, whose first rows are found
    by halving, and the four go on side by side.
    """
    first, last = tail - base, end - base  # as places in ts
    # 1. probers that have outlived all rows
    count = len(times)
    if first < last:
        count = rows_up_to(ts[last - 1] + size - 1, times, 0, count)
    else:
        count = 0
    row_from[count:] = end
    # 2. four quarters, as long as none has come to its end
    quarter = count >> 2
    i, j, k, m = 0, quarter, 2 * quarter, 3 * quarter
    at_i = at_j = at_k = at_m = first
    steps = 0
    if quarter:
        at_j = rows_up_to(times[j - 1] - size, ts, first, last)
        at_k = rows_up_to(times[k - 1] - size, ts, at_j, last)
        at_m = rows_up_to(times[m - 1] - size, ts, at_k, last)
        stop = rows_up_to(times[count - 1] - size, ts, at_m, last)
        steps = quarter + min(min(at_j - at_i, at_k - at_j), min(at_m - at_k, stop - at_m))
    for _ in range(steps):
        i, at_i = step_alive(times, size, ts, i, at_i, base, row_from)
        j, at_j = step_alive(times, size, ts, j, at_j, base, row_from)
        k, at_k = step_alive(times, size, ts, k, at_k, base, row_from)
        m, at_m = step_alive(times, size, ts, m, at_m, base, row_from)
    # 3. what is left of each
    while i < quarter:
        i, at_i = step_alive(times, size, ts, i, at_i, base, row_from)
    while j < 2 * quarter:
        j, at_j = step_alive(times, size, ts, j, at_j, base, row_from)
    while k < 3 * quarter:
        k, at_k = step_alive(times, size, ts, k, at_k, base, row_from)
    while m < count:
        m, at_m = step_alive(times, size, ts, m, at_m, base, row_from)
    seen = np.int64(0)
    for prober in range(len(times)):
        seen += row_until[prober] - row_from[prober]
    return seen


@kernel
def first_places(  # type: ignore[no-untyped-def]
    times, row_until, places, base, tail, come_ts, come, size, row_from
):
    """ROWS `size`: the same by places in the stream (int64 by row), of which some rows may not be stored.

    come_ts: times of all rows of the stream in this batch, stored or not; come: how many came before it.
    Every row with ts up to the prober's displaces, whether the prober sees it or not. Returns how many rows
    all see.
    """
    row = tail
    arrived = 0
    seen = 0
    for i in range(len(times)):
        while arrived < len(come_ts) and come_ts[arrived] <= times[i]:
            arrived += 1
        while row < row_until[i] and places[row - base] < come + arrived - size:
            row += 1
        row_from[i] = row
        seen += row_until[i] - row
    return seen


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


@kernel
def precede(times, ts, first, inclusive, seen):  # type: ignore[no-untyped-def]
    """Who of some new rows (times ts, non-decreasing; the first has row number `first`) precedes each prober.

    times: int64, the probers'. Fills seen (int64): the row number below which rows precede the prober: older
    ones, and those of its own ts if inclusive.
    """
    j = 0
    for i in range(len(times)):
        last = times[i] if inclusive else times[i] - 1
        while j < len(ts) and ts[j] <= last:
            j += 1
        seen[i] = first + j


@kernel
def first_within(clock, reach, size, pos, base, row_from, row_until):  # type: ignore[no-untyped-def]
    """Raise row_from to the first row within each prober's own reach: clock - pos < reach.

    clock, reach: int64 per prober; pos: int64 by row, non-decreasing; rows older than `size` are out already.
    row_from, row_until: non-decreasing. Returns how many rows all see.
    """
    if len(clock) == 0:
        return 0
    first, end = row_from[0], row_until[-1]
    rows = pos[first - base : end - base]
    out = np.zeros(len(clock), np.int32)  # rows from `first` on that are out of reach, as far as is known
    last = np.empty(len(clock), np.int64)
    for i in range(len(clock)):
        last[i] = clock[i] - reach[i] if reach[i] < size else np.iinfo(np.int64).min
    # All probers take one step of a binary search after the other: the steps vectorize.
    most = len(rows)
    while most > 0:
        half = (most + 1) >> 1
        for i in range(len(clock)):
            out[i] += half * (rows[out[i] + half - 1] <= last[i])
        most -= half
    seen = 0
    for i in range(len(clock)):
        row = min(max(first + out[i], row_from[i]), row_until[i])
        row_from[i] = row
        seen += row_until[i] - row
    return seen
