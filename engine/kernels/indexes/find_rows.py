"""Rows of a hash chain for seekers that come in any order; the chains are those of hash.py."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.cursor import AT_ROW, DONE, PROBER, RESUME
from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.rows.hash import bucket_of, shift_of


@kernel
def find_rows(  # type: ignore[no-untyped-def]
    keys, links, heads, origin, sought, probers, row_from, row_until, cursor, out_seeker, out_row
):
    """Write (seeker, row) for each row with the seeker's key in [row_from, row_until) of its prober.

    keys, links, heads: all rows, inserted. sought, probers: int64 per seeker, its key and who it seeks for;
    row_from, row_until: int64 per prober. Returns how many were written, in the order of seekers and newest
    rows first. The caller owns out_seeker and out_row; when they are full the cursor says where to go on.
    """
    shift = shift_of(len(heads))
    space = len(out_row)
    found = 0
    for seeker in range(cursor[PROBER], len(sought)):
        key, prober = sought[seeker], probers[seeker]
        oldest, until = row_from[prober] - origin, row_until[prober] - origin
        place = np.int64(heads[bucket_of(key, shift)])
        if cursor[RESUME]:
            place = cursor[AT_ROW] - origin
            cursor[RESUME] = 0
        while place >= until:
            place = np.int64(links[np.uint64(place)])
        while place >= oldest:
            if keys[np.uint64(place)] == key:
                if found == space:
                    cursor[PROBER] = seeker
                    cursor[RESUME] = 1
                    cursor[AT_ROW] = place + origin
                    return found
                out_seeker[found] = seeker
                out_row[found] = place + origin
                found += 1
            place = np.int64(links[np.uint64(place)])
    cursor[PROBER] = len(sought)
    cursor[DONE] = 1
    return found
