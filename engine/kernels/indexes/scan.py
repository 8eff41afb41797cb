"""Nested loops: every prober is compared with every row it sees.

keys   int64 by row

Rows are taken in blocks. A first pass only counts the matches of a block, without a branch, so that it
compiles to vector compares: where matches are few, nearly all rows are touched by nothing else. A second
pass goes through the groups of a block that has matches, and writes those of a group that has some.
"""

from __future__ import annotations

from penstock.engine.kernels.base.cursor import AT_ROW, DONE, PROBER, RESUME
from penstock.engine.kernels.base.jit import expand, kernel

# Measured: 512 and 32 are as good as the best, or better, at windows of 100 to 100,000 rows and at one
# match per probe as well as at one per hundred rows.
BLOCK_ROWS = 512
GROUP_ROWS = 32


@expand
def count_matches(keys, low, high):  # type: ignore[no-untyped-def]
    """How many keys are within [low, high]."""
    matches = 0
    for i in range(len(keys)):
        matches += (keys[i] >= low) & (keys[i] <= high)
    return matches


@expand
def write_matches(  # type: ignore[no-untyped-def]
    keys, low, high, first_row, prober, out_prober, out_row, found, until,
):  # fmt: skip
    """Write the first `until - found` matches, from place `found` on. Returns the row after the last."""
    at = 0
    start = 0
    while found < until:
        group = keys[start : start + GROUP_ROWS]
        stop = min(found + count_matches(group, low, high), until)
        # Without a branch: a place is written for every row, and kept if the row matches. The loop ends
        # with the group's last match, so every place is within the output.
        at = start
        while found < stop:
            out_prober[found] = prober
            out_row[found] = first_row + at
            found += (keys[at] >= low) & (keys[at] <= high)
            at += 1
        start += GROUP_ROWS
    return first_row + at


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
        row = row_from[prober]
        until = row_until[prober] if low <= high else row
        if cursor[RESUME]:
            row = cursor[AT_ROW]
            cursor[RESUME] = 0
        while row < until:
            block = keys[row - keys_base : min(row + BLOCK_ROWS, until) - keys_base]
            matches = count_matches(block, low, high)
            if not counting and matches > 0:
                if matches == len(block) and found + matches <= space:
                    for i in range(matches):
                        out_prober[found + i] = prober
                        out_row[found + i] = row + i
                else:
                    stop = min(found + matches, space)
                    next_row = write_matches(block, low, high, row, prober, out_prober, out_row, found, stop)
                    if found + matches > space:
                        cursor[PROBER] = prober
                        cursor[RESUME] = 1
                        cursor[AT_ROW] = next_row
                        return stop
            found += matches
            row += len(block)
        prober += 1
    cursor[PROBER] = prober
    cursor[DONE] = 1
    return found
