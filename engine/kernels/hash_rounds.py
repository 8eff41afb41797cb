"""Hash chains walked by many probers at once.

A prober that walks its chain alone waits at every link, and how long the chain is, is anyone's guess: the
processor guesses wrong once a prober, which costs more than the walk. So probers go in blocks, a step each in
every round, and whoever has come to the end of its chain is left out of the next: no jump depends on a chain.

    walkers   o o o o o o o o     round 1: a step each
              o   o     o   o     round 2
                        o         round 3

The rows that precede the last prober of a block are inserted before any of the block probes; a prober passes
over those that are not there yet for it. Blocks are short enough for these to be few among the live ones.

heads, links, keys, origin: see hash.py; key_low, key_high, row_from, row_until, end: see indexes/index.py.
"""

from __future__ import annotations

import numpy as np

from .cells import add_cells
from .cursor import DONE, PROBER
from .hash import bucket_of, link, shift_of
from .jit import expand, kernel
from .slices import slice_of

BLOCK = 256  # probers that walk together: what is known of them stays in the first level cache
ROOM = 4_096  # matches of a block that are put into order together


@expand
def end_of_block(row_from, row_until, at):  # type: ignore[no-untyped-def]
    """Probers [at, here) walk together: fewer if the rows that come meanwhile are many of the live ones."""
    few = (row_until[at] - row_from[at]) // 4 + 16
    stop = min(at + BLOCK, len(row_from))
    while stop > at + 1 and row_until[stop - 1] - row_until[at] > few:
        stop = (at + stop) // 2
    return stop


@expand
def insert(keys, links, heads, shift, inserted, until):  # type: ignore[no-untyped-def]
    """Insert the rows at places [inserted, until); returns where the next is."""
    for place in range(inserted, until):
        link(keys, links, heads, shift, place)
    return max(inserted, until)


@expand
def set_out(  # type: ignore[no-untyped-def]
    heads, shift, origin, key_low, key_high, row_from, at, stop, walkers, places
):
    """Put those of the probers [at, stop) that have a row to look at, and its place, in front; how many."""
    count = np.int64(0)
    for prober in range(at, stop):
        place = np.int64(heads[bucket_of(key_low[prober], shift)])
        walkers[count] = prober
        places[count] = place
        is_live = place >= row_from[prober] - origin
        count += np.int64(is_live) & np.int64(key_low[prober] == key_high[prober])
    return count


@expand
def walk(  # type: ignore[no-untyped-def]
    keys, links, origin, key_low, row_from, row_until, walkers, places, count, hits, hit_places, found
):
    """One round: each looks at its row and goes on. Returns (how many are still under way, matches in all).

    Written whether it matches or not, and kept if it does; the same with who goes on.
    """
    left = np.int64(0)
    for i in range(count):
        prober, place = walkers[i], places[i]
        hits[found] = prober
        hit_places[found] = place
        is_there = place < row_until[prober] - origin
        found += np.int64(keys[place] == key_low[prober]) & np.int64(is_there)
        place = np.int64(links[place])
        walkers[left] = prober
        places[left] = place
        left += np.int64(place >= row_from[prober] - origin)
    return left, found


@kernel
def find_pairs(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted,
    key_low, key_high, row_from, row_until, end, cursor, out_prober, out_row,
):  # fmt: skip
    """What run_hash does, in blocks, each as a whole. Returns (pairs, places inserted so far).

    Stops before a block whose matches are too many for the output or for being put into order: the cursor
    says where. If nothing was found by then, that block has to be run one by one.
    """
    shift = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    hits, hit_places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    starts = np.empty(BLOCK + 1, np.int64)
    found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        stop = end_of_block(row_from, row_until, at)
        inserted = insert(keys, links, heads, shift, inserted, row_until[stop - 1] - origin)
        # 1. find
        count = set_out(heads, shift, origin, key_low, key_high, row_from, at, stop, walkers, places)
        more = np.int64(0)
        room = min(ROOM, len(out_row) - found)
        while count and more + count <= room:
            count, more = walk(
                keys, links, origin, key_low, row_from, row_until,
                walkers, places, count, hits, hit_places, more,
            )  # fmt: skip
        if count:
            cursor[PROBER] = at
            return found, inserted
        # 2. put into the order of probers; the matches of each were found newest first
        starts[: stop - at + 1] = 0
        for i in range(more):
            starts[hits[i] - at + 1] += 1
        starts[0] = found
        for i in range(stop - at):
            starts[i + 1] += starts[i]
        for i in range(more):
            to = starts[hits[i] - at]
            starts[hits[i] - at] = to + 1
            out_prober[to] = hits[i]
            out_row[to] = hit_places[i] + origin
        found += more
        at = stop
    inserted = insert(keys, links, heads, shift, inserted, end - origin)
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return found, inserted


@kernel
def count_pairs(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor
):
    """The number of pairs of all probers. Returns (pairs, places inserted so far)."""
    shift = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        stop = end_of_block(row_from, row_until, at)
        inserted = insert(keys, links, heads, shift, inserted, row_until[stop - 1] - origin)
        count = set_out(heads, shift, origin, key_low, key_high, row_from, at, stop, walkers, places)
        while count:
            left = np.int64(0)
            for i in range(count):
                prober, place = walkers[i], places[i]
                is_there = place < row_until[prober] - origin
                found += np.int64(keys[place] == key_low[prober]) & np.int64(is_there)
                place = np.int64(links[place])
                walkers[left] = prober
                places[left] = place
                left += np.int64(place >= row_from[prober] - origin)
            count = left
        at = stop
    inserted = insert(keys, links, heads, shift, inserted, end - origin)
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return found, inserted


@expand
def add_ages(ages, count, ends, first, shift, histogram):  # type: ignore[no-untyped-def]
    """Count ages by slice."""
    for i in range(count):
        histogram[slice_of(ages[i], ends, first, shift)] += 1


@expand
def find_ages(times, pos, ahead, hits, hit_places, count, ages):  # type: ignore[no-untyped-def]
    """How old the row of each match is; slices are looked up later, in a loop of its own."""
    for i in range(count):
        ages[i] = times[hits[i]] - pos[hit_places[i] + ahead]


@kernel
def count_slices(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram,
):  # fmt: skip
    """Count each match in the slice of its age.

    times: int64 per prober; pos: int64 by row less `base`, when it came; ends, first, shift: see slices.py;
    histogram: int64 by slice, added to. Returns (pairs, places inserted so far).
    """
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    hits, hit_places, ages = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    total = found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        stop = end_of_block(row_from, row_until, at)
        inserted = insert(keys, links, heads, buckets, inserted, row_until[stop - 1] - origin)
        count = set_out(heads, buckets, origin, key_low, key_high, row_from, at, stop, walkers, places)
        while count:
            if found + count > ROOM:
                find_ages(times, pos, origin - base, hits, hit_places, found, ages)
                add_ages(ages, found, ends, first, shift, histogram)
                total += found
                found = np.int64(0)
            count, found = walk(
                keys, links, origin, key_low, row_from, row_until,
                walkers, places, count, hits, hit_places, found,
            )  # fmt: skip
        at = stop
    find_ages(times, pos, origin - base, hits, hit_places, found, ages)
    add_ages(ages, found, ends, first, shift, histogram)
    inserted = insert(keys, links, heads, buckets, inserted, end - origin)
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return total + found, inserted


@expand
def find_cells(  # type: ignore[no-untyped-def]
    prober_cells, leaves, leaf_ahead, stride, hits, hit_places, count, cells
):
    """Where the slices of the leaves of each match begin."""
    for i in range(count):
        cells[i] = prober_cells[hits[i]] + stride * np.int64(leaves[hit_places[i] + leaf_ahead])


@kernel
def count_cells(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram, prober_cells, leaves, leaf_base, stride,
):  # fmt: skip
    """The same, counting each match in the cell of its rows' leaves and the slice of its age.

    histogram: int32 by cell; prober_cells: int64 per prober, where its cells begin; leaves: int32 by row less
    leaf_base, each worth `stride` cells.
    """
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    hits, hit_places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    ages, cells = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    total = found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        stop = end_of_block(row_from, row_until, at)
        inserted = insert(keys, links, heads, buckets, inserted, row_until[stop - 1] - origin)
        count = set_out(heads, buckets, origin, key_low, key_high, row_from, at, stop, walkers, places)
        while count:
            if found + count > ROOM:
                find_ages(times, pos, origin - base, hits, hit_places, found, ages)
                find_cells(prober_cells, leaves, origin - leaf_base, stride, hits, hit_places, found, cells)
                add_cells(ages, cells, found, ends, first, shift, histogram)
                total += found
                found = np.int64(0)
            count, found = walk(
                keys, links, origin, key_low, row_from, row_until,
                walkers, places, count, hits, hit_places, found,
            )  # fmt: skip
        at = stop
    find_ages(times, pos, origin - base, hits, hit_places, found, ages)
    find_cells(prober_cells, leaves, origin - leaf_base, stride, hits, hit_places, found, cells)
    add_cells(ages, cells, found, ends, first, shift, histogram)
    inserted = insert(keys, links, heads, buckets, inserted, end - origin)
    cursor[PROBER] = len(key_low)
    cursor[DONE] = 1
    return total + found, inserted
