"""Hash chains by newest-first links: insert, probe and expiry without a deletion.

heads   int64[buckets, a power of two]: newest row of the bucket, -1 for none
links   int32 by row: how many rows back the bucket's previous row is; 0: none in reach
keys    int64 by row

Following links visits rows from newest to oldest, so the walk ends at the first expired one and nothing
that points to an expired row needs to be found or removed.
"""

from __future__ import annotations

import numpy as np

from .calls import expand
from .cursor import AT_ROW, DONE, PROBER, RESUME
from .jit import inline, kernel

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(32)
MAX_LINK = 0x7FFFFFFF


@inline
def bucket_of(key, mask):  # type: ignore[no-untyped-def]
    """Bucket of an int64 key: the high half of a Fibonacci product, folded."""
    return np.int64((np.uint64(key) * MIX) >> SHIFT) & mask


@expand
def link(keys, keys_base, links, links_base, heads, row):  # type: ignore[no-untyped-def]
    """Insert a row: it becomes the newest of its bucket."""
    bucket = bucket_of(keys[row - keys_base], len(heads) - 1)
    newest = heads[bucket]
    back = row - newest
    links[row - links_base] = back if newest >= 0 and back <= MAX_LINK else 0
    heads[bucket] = row


@kernel
def link_rows(keys, keys_base, links, links_base, heads, start, end):  # type: ignore[no-untyped-def]
    """Insert rows [start, end), oldest first. Writes `links` and `heads`."""
    for row in range(start, end):
        link(keys, keys_base, links, links_base, heads, row)


@kernel
def run_hash(  # type: ignore[no-untyped-def]
    keys, keys_base, links, links_base, heads, inserted,
    key_low, key_high, row_from, row_until, end, cursor, out_prober, out_row, counting,
):  # fmt: skip
    """Insert and probe in order (see indexes/index.py). Returns (pairs, rows inserted so far).

    The caller owns out_prober and out_row; when they are full the cursor says where to go on.
    """
    mask = len(heads) - 1
    space = len(out_row)
    found = 0
    prober = cursor[PROBER]
    while prober < len(key_low):
        # 1. insert what precedes the prober
        while inserted < row_until[prober]:
            link(keys, keys_base, links, links_base, heads, inserted)
            inserted += 1
        # 2. walk the bucket, newest first, as far as it is alive
        key = key_low[prober]
        oldest = row_from[prober]
        if cursor[RESUME]:
            row = cursor[AT_ROW]
            cursor[RESUME] = 0
        elif key == key_high[prober]:
            row = heads[bucket_of(key, mask)]
        else:
            row = np.int64(-1)
        while row >= oldest and row >= 0:
            if keys[row - keys_base] == key:
                if not counting:
                    if found == space:
                        cursor[PROBER] = prober
                        cursor[RESUME] = 1
                        cursor[AT_ROW] = row
                        return found, inserted
                    out_prober[found] = prober
                    out_row[found] = row
                found += 1
            back = links[row - links_base]
            row = row - back if back > 0 else np.int64(-1)
        prober += 1
    # 3. insert what no prober of this batch saw
    while inserted < end:
        link(keys, keys_base, links, links_base, heads, inserted)
        inserted += 1
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found, inserted
