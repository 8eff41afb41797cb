"""Changes of a window, for one of those who read it."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.joins.bounds import rows_up_to


@kernel
def take_changes(  # type: ignore[no-untyped-def]
    changes, demand, out
):
    """The changes whose rows one reader takes, in order, into the outputs, which have room for one more.

    changes: order, int32; times, refs, int64 by change; those from `entering` on enter, others leave; leaves,
    int32[D, n], words, int64[W, n] by change. demand: of the reader low, high, int32[D], bits, int64[W]. out:
    ts, sign, ref. Returns how many. Written whether taken or not, and kept if it is.
    """
    order, times, refs, entering, leaves, words = changes
    low, high, bits = demand
    out_ts, out_sign, out_ref = out
    count = np.int64(0)
    for place in order:
        i = np.int64(place)
        taken = np.int64(1)
        for d in range(len(low)):
            taken &= np.int64(leaves[d, i] >= low[d]) & np.int64(leaves[d, i] <= high[d])
        for w in range(len(bits)):
            taken &= np.int64((words[w, i] & bits[w]) == bits[w])
        out_ts[count] = times[i]
        out_sign[count] = 1 if i >= entering else -1
        out_ref[count] = refs[i]
        count += taken
    return count


@kernel
def displace_rows(ts, base, begin, end, size, first, out_ts, out_sign, out_row):  # type: ignore[no-untyped-def]
    """What the rows [begin, end), which are whole instants, change in a window of the last `size` rows.

    ts: int64 by row, less base; first: no row below it is in the window. At each instant what leaves, then
    what enters, into the outputs, which have room for twice as many changes as there are rows. Returns how
    many.
    """
    count = np.int64(0)
    row = begin
    while row < end:
        now = ts[row - base]
        stop = row + 1
        while stop < end and ts[stop - base] == now:
            stop += 1
        for gone in range(max(row - size, first), min(stop - size, row)):
            out_ts[count] = now
            out_sign[count] = -1
            out_row[count] = gone
            count += 1
        for come in range(max(row, stop - size), stop):
            out_ts[count] = now
            out_sign[count] = 1
            out_row[count] = come
            count += 1
        row = stop
    return count


@kernel
def link_rows(slot, following, last, begin):  # type: ignore[no-untyped-def]
    """Link the rows from `begin` on to those before them of the same partition.

    slot: int32 by row, its partition; following: int64 by row, the next row of its partition, -1 for none
    yet; last: int64 by partition, its last row, -1 for none. Both are the caller's.
    """
    for row in range(begin, len(slot)):
        before = last[slot[row]]
        if before >= 0:
            following[before] = row
        following[row] = -1
        last[slot[row]] = row


@kernel
def displace_in_partitions(  # type: ignore[no-untyped-def]
    slot, following, at, begin, size, oldest, count, out_ts, out_sign, out_row, out_gone
):
    """What the rows from `begin` on change in a window of the last `size` rows of each partition.

    slot, following: as linked above; at: int64 by row from `begin` on, the instants, in order and whole.
    oldest: int64 by partition, its first row in the window; count: int64, how many are in; both the caller's.
    At each instant what leaves, then what enters, into the outputs, which have room for twice as many changes
    as there are rows; out_gone: every row that is displaced, has room for as many. Returns how many of each.
    """
    made, gone = np.int64(0), np.int64(0)
    row, end = begin, begin + len(at)
    while row < end:
        now = at[row - begin]
        stop = row
        while stop < end and at[stop - begin] == now:
            own = slot[stop]
            if count[own] == 0:
                oldest[own] = stop
            if count[own] < size:
                count[own] += 1
            else:
                left = oldest[own]
                oldest[own] = following[left]
                out_gone[gone] = left
                gone += 1
                if left < row:
                    out_ts[made] = now
                    out_sign[made] = -1
                    out_row[made] = left
                    made += 1
            stop += 1
        for come in range(row, stop):
            if come >= oldest[slot[come]]:
                out_ts[made] = now
                out_sign[made] = 1
                out_row[made] = come
                made += 1
        row = stop
    return made, gone


@kernel
def find_few(  # type: ignore[no-untyped-def]
    ts, come, told, until, ref, sizes, demand, leaves, words, start, out
):  # fmt: skip
    """What enters and leaves the windows of many readers, of the rows of one shelf.

    ts: int64, non-decreasing, of all its rows; those from place `come` on enter, and are not after `until`.
    told, until: rows leave after the one and up to the other; ref: what is added to a place to refer to the
    row. sizes: int64[M]; demand: low, high, int32[M, D], bits, int64[M, W]; leaves: int32[D, n]; words:
    int64[W, n]. Entries go into `out` (member, ts, sign, ref) from `start` on; returns the next one, -1 if
    they do not fit. Of one reader, those that leave come first; each kind is in order of time.
    """
    low, high, bits = demand
    out_member, out_ts, out_sign, out_ref = out
    count = start
    for m in range(len(sizes)):
        size = sizes[m]
        begin = rows_up_to(told - size, ts, 0, len(ts))
        end = rows_up_to(until - size, ts, begin, len(ts))
        for sign in (-1, 1):
            for i in range(begin, end) if sign < 0 else range(come, len(ts)):
                taken = True
                for d in range(low.shape[1]):
                    taken &= low[m, d] <= leaves[d, i] <= high[m, d]
                for w in range(bits.shape[1]):
                    taken &= (words[w, i] & bits[m, w]) == bits[m, w]
                if taken:
                    if count == len(out_member):
                        return -1
                    out_member[count] = m
                    out_ts[count] = ts[i] + size if sign < 0 else ts[i]
                    out_sign[count] = sign
                    out_ref[count] = ref + i
                    count += 1
    return count
