"""Hash chains by newest-first links: insert, probe and expiry without a deletion.

heads   int32[buckets, a power of two]: place of the bucket's newest row, negative for none
links   int32 by place: place of the bucket's previous row, negative for none
keys    int64 by place

A place is a row number less `origin`, so that links take four bytes however many rows have passed. Following
links visits rows from newest to oldest, so the walk ends at the first expired one and nothing that points to
an expired row needs to be found or removed.
"""

from __future__ import annotations

import numpy as np

from .cells import add_cells
from .cursor import AT_ROW, DONE, PROBER, RESUME
from .jit import expand, kernel
from .slices import slice_of

MIX = np.uint64(0x9E3779B97F4A7C15)


@expand
def bucket_of(key, shift):  # type: ignore[no-untyped-def]
    """Bucket of an int64 key: the top bits of a Fibonacci product."""
    return np.int64((np.uint64(key) * MIX) >> shift)


@expand
def link(keys, links, heads, shift, place):  # type: ignore[no-untyped-def]
    """Insert a row: it becomes the newest of its bucket."""
    bucket = bucket_of(keys[place], shift)
    links[place] = heads[bucket]
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
    key_low, key_high, row_from, row_until, end, cursor, out_prober, out_row, counting,
):  # fmt: skip
    """Insert and probe in order (see indexes/index.py). Returns (pairs, places inserted so far).

    The caller owns out_prober and out_row; when they are full the cursor says where to go on.
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
        if counting:
            while place >= oldest:
                found += keys[place] == key
                place = np.int64(links[place])
            continue
        while place >= oldest:
            if keys[place] == key:
                if found == space:
                    cursor[PROBER] = prober
                    cursor[RESUME] = 1
                    cursor[AT_ROW] = place + origin
                    return found, inserted
                out_prober[found] = prober
                out_row[found] = place + origin
                found += 1
            place = np.int64(links[place])
    # 3. insert what no prober of this batch saw
    while inserted < end - origin:
        link(keys, links, heads, shift, inserted)
        inserted += 1
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return found, inserted


@expand
def add_ages(ages, count, ends, first, shift, histogram):  # type: ignore[no-untyped-def]
    """Count ages by slice."""
    for i in range(count):
        histogram[slice_of(ages[i], ends, first, shift)] += 1


@kernel
def count_slices(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram, ages,
):  # fmt: skip
    """Insert and probe in order, equality only, counting each match in the slice of its age.

    times: int64 per prober; pos: int64 by row less `base`, when it came; ends, first, shift: see slices.py;
    histogram: int64 by slice, added to; ages: int64, room. Returns (pairs, places inserted so far).
    """
    buckets = shift_of(len(heads))
    total = found = 0
    ahead = origin - base
    for prober in range(cursor[PROBER], len(key_low)):
        until = row_until[prober] - origin
        while inserted < until:
            link(keys, links, heads, buckets, inserted)
            inserted += 1
        key = key_low[prober]
        oldest = row_from[prober] - origin
        now = times[prober]
        place = np.int64(heads[bucket_of(key, buckets)])
        while place >= oldest:
            # Written whether it matches or not, and kept if it does: a jump would be guessed wrong too often.
            # Slices are looked up later, many at once: in here that would wait for the next link.
            ages[found] = now - pos[place + ahead]
            found += keys[place] == key
            place = np.int64(links[place])
            if found == len(ages):
                add_ages(ages, found, ends, first, shift, histogram)
                total += found
                found = 0
    add_ages(ages, found, ends, first, shift, histogram)
    while inserted < end - origin:
        link(keys, links, heads, buckets, inserted)
        inserted += 1
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return total + found, inserted


@kernel
def count_cells(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram, ages, cells, prober_cells, leaves, leaf_base, stride,
):  # fmt: skip
    """The same, counting each match in the cell of its rows' leaves and the slice of its age.

    histogram: int32 by cell; prober_cells: int64 per prober, where its cells begin; leaves: int32 by row less
    leaf_base, each worth `stride` cells; cells: int64, as much room as ages.
    """
    buckets = shift_of(len(heads))
    total = found = 0
    ahead = origin - base
    leaf_ahead = origin - leaf_base
    for prober in range(cursor[PROBER], len(key_low)):
        until = row_until[prober] - origin
        while inserted < until:
            link(keys, links, heads, buckets, inserted)
            inserted += 1
        key = key_low[prober]
        oldest = row_from[prober] - origin
        now = times[prober]
        cell = prober_cells[prober]
        place = np.int64(heads[bucket_of(key, buckets)])
        while place >= oldest:
            ages[found] = now - pos[place + ahead]
            cells[found] = cell + stride * np.int64(leaves[place + leaf_ahead])
            found += keys[place] == key
            place = np.int64(links[place])
            if found == len(ages):
                add_cells(ages, cells, found, ends, first, shift, histogram)
                total += found
                found = 0
    add_cells(ages, cells, found, ends, first, shift, histogram)
    while inserted < end - origin:
        link(keys, links, heads, buckets, inserted)
        inserted += 1
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return total + found, inserted
