"""Hash chains by newest-first links: insert, probe and expiry without a deletion.

heads   int32[buckets, a power of two]: place of the bucket's newest row, negative for none
links   int32 by place: place of the bucket's previous row, negative for none
keys    int64 by place

A place is a row number less `origin`, so that links take four bytes however many rows have passed. Following
links visits rows from newest to oldest, so the walk ends at the first expired one and nothing that points to
an expired row needs to be found or removed.

Places are turned into unsigned numbers before they index an array: of a signed one the compiled code asks
each time whether it counts from the end, which is a third of the time of a walk.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.cursor import AT_ROW, DONE, PROBER, RESUME
from penstock.engine.kernels.base.jit import expand, kernel

MIX = np.uint64(0x9E3779B97F4A7C15)


@expand
def bucket_of(key, shift):  # type: ignore[no-untyped-def]
    """Bucket of an int64 key: the top bits of a Fibonacci product."""
    return np.int64((np.uint64(key) * MIX) >> shift)


@expand
def link(keys, links, heads, shift, place):  # type: ignore[no-untyped-def]
    """Insert a row: it becomes the newest of its bucket."""
    at = np.uint64(place)
    bucket = np.uint64(bucket_of(keys[at], shift))
    links[at] = heads[bucket]
    heads[bucket] = place


@expand
def shift_of(buckets):  # type: ignore[no-untyped-def]
    """By how much a product is shifted to give one of `buckets`, a power of two from 2 on."""
    shift = 64
    while buckets > 1:
        buckets >>= 1
        shift -= 1
    return np.uint64(shift)


@kernel
def link_rows(keys, links, heads, start, end):  # type: ignore[no-untyped-def]
    """Insert the rows at places [start, end), oldest first. Writes `links` and `heads`."""
    shift = shift_of(len(heads))
    for place in range(start, end):
        link(keys, links, heads, shift, place)


@kernel
def run_hash(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted,
    key_low, key_high, row_from, row_until, end, cursor, out_prober, out_row,
):  # fmt: skip
    """Insert and probe in order (see indexes/index.py). Returns (pairs, places inserted so far).

    The caller owns out_prober and out_row; when they are full the cursor says where to go on. One prober
    after the other, each to its end: where each has many matches (else see hash_rounds.py).
    """
    shift = shift_of(len(heads))
    space = len(out_row)
    found = 0
    for prober in range(cursor[PROBER], len(key_low)):
        # 1. insert what precedes the prober
        until = row_until[prober] - origin
        while inserted < until:
            link(keys, links, heads, shift, inserted)
            inserted += 1
        # 2. walk the bucket, newest first, as far as it is alive
        key = key_low[prober]
        oldest = row_from[prober] - origin
        place = np.int64(heads[bucket_of(key, shift)])
        if key != key_high[prober]:
            place = np.int64(-1)
        if cursor[RESUME]:
            place = cursor[AT_ROW] - origin
            cursor[RESUME] = 0
        while place >= until:  # some may have been inserted ahead of their turn
            place = np.int64(links[np.uint64(place)])
        while place >= oldest:
            if keys[np.uint64(place)] == key:
                if found == space:
                    cursor[PROBER] = prober
                    cursor[RESUME] = 1
                    cursor[AT_ROW] = place + origin
                    return found, inserted
                out_prober[found] = prober
                out_row[found] = place + origin
                found += 1
            place = np.int64(links[np.uint64(place)])
    # 3. insert what no prober of this batch saw
    while inserted < end - origin:
        link(keys, links, heads, shift, inserted)
        inserted += 1
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return found, inserted
