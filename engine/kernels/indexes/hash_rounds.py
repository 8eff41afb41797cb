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

from penstock.engine.kernels.base.cursor import DONE, PROBER
from penstock.engine.kernels.base.jit import expand, kernel
from penstock.engine.kernels.joins.cells import add_cells
from penstock.engine.kernels.joins.slices import slice_of
from penstock.engine.kernels.rows.hash import bucket_of, link, shift_of

BLOCK = 256  # probers that walk together: what is known of them stays in the first level cache
ROOM = 4_096  # matches of a block that are put into order together
AGES = 1_024  # of matches, whose slices are looked up together: they stay in that cache too


@expand
def insert(keys, links, heads, buckets, inserted, until):  # type: ignore[no-untyped-def]
    """Insert the rows at places [inserted, until); returns where the next is."""
    for place in range(inserted, until):
        link(keys, links, heads, buckets, place)
    return max(inserted, until)


@expand
def end_of_block(row_from, row_until, at):  # type: ignore[no-untyped-def]
    """Probers [at, here) walk together: fewer if the rows that come meanwhile are many of the live ones."""
    few = (row_until[at] - row_from[at]) // 4 + 16
    stop = min(at + BLOCK, len(row_from))
    while stop > at + 1 and row_until[stop - 1] - row_until[at] > few:
        stop = (at + stop) // 2
    return stop


@expand
def is_match(keys, origin, key_low, row_until, prober, place):  # type: ignore[no-untyped-def]
    """1 if the prober seeks the row and it is there for the prober, else 0."""
    is_there = place < row_until[prober] - origin
    return np.int64(keys[np.uint64(place)] == key_low[prober]) & np.int64(is_there)


@expand
def keep(prober, place, is_kept, count, walkers, places):  # type: ignore[no-untyped-def]
    """Who looks at which row next: written in any case, and counted if it is. How many there are now."""
    walkers[np.uint64(count)] = prober
    places[np.uint64(count)] = place
    return count + np.int64(is_kept)


@expand
def set_out(  # type: ignore[no-untyped-def]
    keys, links, heads, buckets, origin, inserted, key_low, key_high, row_from, row_until, at, walkers, places
):
    """Begin the block at prober `at`. Returns (where it ends, places inserted so far, who walks).

    Those of its probers that have a row to look at, and its place, come first in walkers and places.
    """
    stop = end_of_block(row_from, row_until, at)
    inserted = insert(keys, links, heads, buckets, inserted, row_until[stop - 1] - origin)
    count = np.int64(0)
    for number in range(at, stop):
        prober = np.uint64(number)
        key = key_low[prober]
        place = np.int64(heads[np.uint64(bucket_of(key, buckets))])
        is_live = np.int64(place >= row_from[prober] - origin) & np.int64(key == key_high[prober])
        count = keep(number, place, is_live, count, walkers, places)
    return stop, inserted, count


@expand
def finish(keys, links, heads, buckets, origin, inserted, end, probers, cursor):  # type: ignore[no-untyped-def]
    """Insert what no prober of this batch saw; places inserted so far."""
    cursor[PROBER] = probers
    cursor[DONE] = 1
    return insert(keys, links, heads, buckets, inserted, end - origin)


@kernel
def find_pairs(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted,
    key_low, key_high, row_from, row_until, end, cursor, out_prober, out_row,
):  # fmt: skip
    """What run_hash does, in blocks, each as a whole. Returns (pairs, places inserted so far).

    Stops before a block whose matches are too many for the output or for being put into order: the cursor
    says where. If nothing was found by then, that block has to be run one by one.
    """
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    hits, hit_places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    starts = np.empty(BLOCK + 1, np.int64)
    found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        # 1. find
        stop, inserted, count = set_out(
            keys, links, heads, buckets, origin, inserted,
            key_low, key_high, row_from, row_until, at, walkers, places,
        )  # fmt: skip
        more = np.int64(0)
        room = min(ROOM, len(out_row) - found)
        while count and more + count <= room:
            left = np.int64(0)
            for i in range(count):
                prober, place = np.uint64(walkers[np.uint64(i)]), places[np.uint64(i)]
                hits[np.uint64(more)] = prober
                hit_places[np.uint64(more)] = place
                more += is_match(keys, origin, key_low, row_until, prober, place)
                place = np.int64(links[np.uint64(place)])
                left = keep(prober, place, place >= row_from[prober] - origin, left, walkers, places)
            count = left
        if count:
            cursor[PROBER] = at
            return found, inserted
        # 2. put into the order of probers; the matches of each were found newest first
        starts[: stop - at + 1] = 0
        for i in range(more):
            starts[np.uint64(hits[i] - at + 1)] += 1
        starts[0] = found
        for i in range(stop - at):
            starts[i + 1] += starts[i]
        for i in range(more):
            of_prober = np.uint64(hits[i] - at)
            to = np.uint64(starts[of_prober])
            starts[of_prober] += 1
            out_prober[to] = hits[i]
            out_row[to] = hit_places[i] + origin
        found += more
        at = stop
    inserted = finish(keys, links, heads, buckets, origin, inserted, end, len(key_low), cursor)
    return found, inserted


@kernel
def count_pairs(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor
):
    """The number of pairs of all probers. Returns (pairs, places inserted so far)."""
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        at, inserted, count = set_out(
            keys, links, heads, buckets, origin, inserted,
            key_low, key_high, row_from, row_until, at, walkers, places,
        )  # fmt: skip
        while count:
            left = np.int64(0)
            for i in range(count):
                prober, place = np.uint64(walkers[np.uint64(i)]), places[np.uint64(i)]
                found += is_match(keys, origin, key_low, row_until, prober, place)
                place = np.int64(links[np.uint64(place)])
                left = keep(prober, place, place >= row_from[prober] - origin, left, walkers, places)
            count = left
    inserted = finish(keys, links, heads, buckets, origin, inserted, end, len(key_low), cursor)
    return found, inserted


@expand
def has_crowds(first, most):  # type: ignore[no-untyped-def]
    """Whether a bucket of a table of slices needs a search, as far as `most` looks tell."""
    crowds = np.int64(len(first) > most)
    for bucket in range(min(len(first), most)):
        crowds |= np.int64(first[np.uint64(bucket)] < 0)
    return crowds != 0


@expand
def add_ages(ages, count, ends, first, shift, is_crowded, histogram):  # type: ignore[no-untyped-def]
    """Count ages by slice, in a loop of its own: the arrays of both would not fit into registers."""
    if is_crowded:
        for i in range(count):
            histogram[np.uint64(slice_of(ages[np.uint64(i)], ends, first, shift))] += 1
    else:  # no jump at all
        last = len(first) - 1
        for i in range(count):
            age = ages[np.uint64(i)]
            start = np.uint64(first[np.uint64(min(age >> shift, last))])
            histogram[start + np.uint64(ends[start] <= age)] += 1


@kernel
def count_ages(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram,
):  # fmt: skip
    """Count each match in the slice of its age.

    times: int64 per prober; pos: int64 by row less `base`, when it came; ends, first, shift: see slices.py;
    histogram: int64 by slice, added to. Returns (pairs, places inserted so far).
    """
    is_crowded = has_crowds(first, len(times))
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    ages = np.empty(AGES, np.int64)
    ahead = origin - base
    total = found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        at, inserted, count = set_out(
            keys, links, heads, buckets, origin, inserted,
            key_low, key_high, row_from, row_until, at, walkers, places,
        )  # fmt: skip
        while count:
            if found + count > AGES:
                add_ages(ages, found, ends, first, shift, is_crowded, histogram)
                total += found
                found = np.int64(0)
            left = np.int64(0)
            for i in range(count):
                prober, place = np.uint64(walkers[np.uint64(i)]), places[np.uint64(i)]
                ages[np.uint64(found)] = times[prober] - pos[np.uint64(place + ahead)]
                found += is_match(keys, origin, key_low, row_until, prober, place)
                place = np.int64(links[np.uint64(place)])
                left = keep(prober, place, place >= row_from[prober] - origin, left, walkers, places)
            count = left
    add_ages(ages, found, ends, first, shift, is_crowded, histogram)
    inserted = finish(keys, links, heads, buckets, origin, inserted, end, len(key_low), cursor)
    return total + found, inserted


@kernel
def count_cells(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, inserted, key_low, key_high, row_from, row_until, end, cursor,
    times, pos, base, ends, first, shift, histogram, prober_cells, leaves, leaf_base, stride,
):  # fmt: skip
    """Count each match in the cell of its rows' leaves and the slice of its age.

    times, pos, base, ends, first, shift: as above; histogram: int32 by cell; prober_cells: int64 per prober,
    where its cells begin; leaves: int32 by row less leaf_base, each worth `stride` cells. Returns (pairs,
    places inserted so far).
    """
    buckets = shift_of(len(heads))
    walkers, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    ages, cells = np.empty(AGES, np.int64), np.empty(AGES, np.int64)
    ahead, leaf_ahead = origin - base, origin - leaf_base
    total = found = np.int64(0)
    at = cursor[PROBER]
    while at < len(key_low):
        at, inserted, count = set_out(
            keys, links, heads, buckets, origin, inserted,
            key_low, key_high, row_from, row_until, at, walkers, places,
        )  # fmt: skip
        while count:
            if found + count > AGES:
                add_cells(ages, cells, found, ends, first, shift, histogram)
                total += found
                found = np.int64(0)
            left = np.int64(0)
            for i in range(count):
                prober, place = np.uint64(walkers[np.uint64(i)]), places[np.uint64(i)]
                leaf = np.int64(leaves[np.uint64(place + leaf_ahead)])
                ages[np.uint64(found)] = times[prober] - pos[np.uint64(place + ahead)]
                cells[np.uint64(found)] = prober_cells[prober] + stride * leaf
                found += is_match(keys, origin, key_low, row_until, prober, place)
                place = np.int64(links[np.uint64(place)])
                left = keep(prober, place, place >= row_from[prober] - origin, left, walkers, places)
            count = left
    add_cells(ages, cells, found, ends, first, shift, histogram)
    inserted = finish(keys, links, heads, buckets, origin, inserted, end, len(key_low), cursor)
    return total + found, inserted
