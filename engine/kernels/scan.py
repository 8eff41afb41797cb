"""Nested loops: every prober is compared with every row it sees.

keys   int64 by row

Rows are taken in blocks. A first pass only counts the matches of a block, without a branch, so that it
compiles to vector compares; rows of a block without a match, nearly all of them in a selective join, are
touched once and by nothing else. A second pass writes the matches of a block that has some.
"""

from __future__ import annotations

from .cursor import AT_ROW, DONE, PROBER, RESUME
from .jit import kernel

# Measured: shorter blocks spend more on starting the vector loop (big windows), longer ones more on finding
# the match within its block (windows of a few hundred rows, where a scan can win).
BLOCK_ROWS = 128


@kernel
def run_scan(  # type: ignore[no-untyped-def]
    keys, keys_base, key_low, key_high, row_from, row_until, cursor, out_prober, out_row, counting,
):  # fmt: skip
    """Probe in order (see indexes/index.py). Returns how many pairs were found.

    The caller owns out_prober and out_row; when they are full the cursor says where to go on.
    """
    space = len(out_row)
    found = 0
    prober = cursor[PROBER]
    while prober < len(key_low):
        low = key_low[prober]
        high = key_high[prober]
        at = row_from[prober] - keys_base
        until = row_until[prober] - keys_base
        if cursor[RESUME]:
            at = cursor[AT_ROW] - keys_base
            cursor[RESUME] = 0
        if low > high:
            until = at
        while at < until:
            # 1. count
            block = keys[at : min(at + BLOCK_ROWS, until)]
            hits = 0
            for i in range(len(block)):
                hits += (block[i] >= low) & (block[i] <= high)
            # 2. write, as far as there is room
            if counting:
                found += hits
            elif hits == len(block) and found + hits <= space:
                for i in range(hits):
                    out_prober[found + i] = prober
                    out_row[found + i] = keys_base + at + i
                found += hits
            elif hits > 0:
                full = found + hits > space
                hits = min(hits, space - found)
                i = 0
                # The place after the last match is written too, and again by the next match; the loop
                # ends with the last match, so that place is always within the output.
                while hits > 0:
                    out_prober[found] = prober
                    out_row[found] = keys_base + at + i
                    match = (block[i] >= low) & (block[i] <= high)
                    found += match
                    hits -= match
                    i += 1
                if full:
                    cursor[PROBER] = prober
                    cursor[RESUME] = 1
                    cursor[AT_ROW] = keys_base + at + i
                    return found
            at += len(block)
        prober += 1
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found
