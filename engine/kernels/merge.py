"""Two lists of pairs in time order become one.

Each pair goes straight to its place: as many pairs are before it as come before it in its own list, and as
many as the other's probers that precede its prober have found. Comparing the heads of two lists step by step
would wait for each comparison, and guess its outcome wrong every other time.
"""

from __future__ import annotations

import numpy as np

from .jit import expand, kernel

AT_ONCE = 256  # pairs of one list


@expand
def first_from(prober, low, high, bound):  # type: ignore[no-untyped-def]
    """The first place in [low, high) of a list of probers, in order, that is not below `bound`; else high."""
    while low < high:
        middle = (low + high) >> 1
        if prober[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@expand
def pairs_before(prober, at, stop):  # type: ignore[no-untyped-def]
    """The first prober of the pairs [at, stop), and how many of them have one below it, below it + 1, ..."""
    first = prober[at] if at < stop else 0
    last = prober[stop - 1] if at < stop else -1
    before = np.zeros(last - first + 2, np.int64)
    for k in range(at, stop):
        before[prober[k] - first + 1] = k + 1 - at
    for i in range(1, len(before)):
        before[i] = max(before[i], before[i - 1])
    return first, before


@kernel
def merge_pairs(  # type: ignore[no-untyped-def]
    a_prober, a_row, a_at, a_count, a_done, a_ts, a_first, a_seen,
    b_prober, b_row, b_at, b_count, b_done, b_ts, b_first, b_seen,
    out_ts, out_left, out_right,
):  # fmt: skip
    """Pairs of the left's probers (a) and of the right's (b), as these came, into the three outputs.

    prober: int64 position in that side's batch, whose times are ts and whose first row number is first; seen:
    int64 by position, the row number below which the other side's rows precede it (see bounds.meet);
    row: int64 row number on the other side; [at, count) are still to be merged; done: none come after them.
    The outputs have room for both. Stops where a list ends that is not done. Returns (pairs, a_at, b_at).
    """
    # 1. how far: what comes after the end of a list that is not done might come before the rest of the other
    a_stop, b_stop = a_count, b_count
    if not a_done:
        b_stop = b_at
        if a_at < a_count:
            b_stop = first_from(b_prober, b_at, b_count, a_seen[a_prober[a_count - 1]] - b_first)
    if not b_done:
        a_stop = a_at
        if b_at < b_count:
            a_stop = first_from(a_prober, a_at, a_count, b_seen[b_prober[b_count - 1]] - a_first)
    # 2. how many pairs are before those of each prober in the other list
    a_low, a_before = pairs_before(a_prober, a_at, a_stop)
    b_low, b_before = pairs_before(b_prober, b_at, b_stop)
    # 3. to their places, some of each list in turn: neighbours in the output are written while it is at hand
    a_last, b_last = len(a_before) - 1, len(b_before) - 1
    i, j = a_at, b_at
    while i < a_stop or j < b_stop:
        a_end, b_end = min(i + AT_ONCE, a_stop), b_stop
        if a_end < a_stop:
            b_end = b_at + b_before[min(max(a_seen[a_prober[a_end]] - b_first - b_low, 0), b_last)]
        for k in range(i, a_end):
            prober = a_prober[k]
            to = k - a_at + b_before[min(max(a_seen[prober] - b_first - b_low, 0), b_last)]
            out_ts[to] = a_ts[prober]
            out_left[to] = a_first + prober
            out_right[to] = a_row[k]
        for k in range(j, b_end):
            prober = b_prober[k]
            to = k - b_at + a_before[min(max(b_seen[prober] - a_first - a_low, 0), a_last)]
            out_ts[to] = b_ts[prober]
            out_left[to] = b_row[k]
            out_right[to] = b_first + prober
        i, j = a_end, b_end
    return a_stop - a_at + b_stop - b_at, a_stop, b_stop
