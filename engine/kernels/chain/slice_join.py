"""A slice of a window join: references come in, pairs and references go out.

A table is int64[fields, n], a column of it one reference or one pair, in time order. Field TS of a reference
is when it was written, what the others mean depends on its kind:

    female   ROW  POS    KEY      LIFETIME
    male     ROW  CLOCK  LOW_KEY  HIGH_KEY  REACH  OWN_AGE
    time          CLOCK (left)  CLOCK + 1 (right)

The age of a female is a male's clock less her pos, in microseconds or rows. A pair says where its male is in
the table of references that was worked, the row of its female, and her age at that time. A state is
int64[2, 4, room]: of each side the females [span[0], span[1]) in order of their pos, fields STATE_ROW to
STATE_LIFETIME.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.indexes.scan import BLOCK_ROWS, count_matches, write_matches
from penstock.engine.kernels.joins.slices import slice_of

TS, KIND, ROW, POS, KEY, LIFETIME = 0, 1, 2, 3, 4, 5
CLOCK, LOW_KEY, HIGH_KEY, REACH, OWN_AGE = 3, 4, 5, 6, 7
FIELDS = 8

FEMALE, MALE, TIME = 0, 2, 4  # kinds; FEMALE + side, MALE + side
NOBODY = (1 << 63) - 1  # after all rows, and all times

OF_MALE, OF_FEMALE, AGE = 0, 1, 2  # of a pair
PAIR_FIELDS = 3

STATE_ROW, STATE_POS, STATE_KEY, STATE_LIFETIME = 0, 1, 2, 3
STATE_FIELDS = 4

AT_RECORD, IS_PROBING, AT_FEMALE = 0, 1, 2  # slots of the cursor
CURSOR_SLOTS = 3


@kernel
def write_references(left, right, out):  # type: ignore[no-untyped-def]
    """Both sides' new rows in time order, of one ts the right's first, each as a male and then a female.

    left, right: int64[2 * FIELDS, n], the male's fields and then the female's. The caller owns out:
    int64[FIELDS, twice the rows].
    """
    i = j = n = 0
    while i < left.shape[1] or j < right.shape[1]:
        is_right = i == left.shape[1] or (j < right.shape[1] and right[TS, j] <= left[TS, i])
        for field in range(FIELDS):
            if is_right:
                out[field, n] = right[field, j]
                out[field, n + 1] = right[FIELDS + field, j]
            else:
                out[field, n] = left[field, i]
                out[field, n + 1] = left[FIELDS + field, i]
        j += is_right
        i += not is_right
        n += 2


@kernel
def run_slice(  # type: ignore[no-untyped-def]
    records, stop, cursor, state, spans, start, end, limits, is_last, onward, passed, pairs, counting, met
):
    """Work references up to `stop`, from where the cursor says. Returns (passed on in all, pairs found).

    The slice is [start, end); a female leaves at the age limits[side], which is `end` or less. The caller
    owns onward (int64[FIELDS, room > 0]) and pairs (int64[PAIR_FIELDS, room > 0]) and has left room in the
    state for all females that come; of onward the first `passed` are taken. When one of the two is full, the
    cursor remembers where to go on. If
    counting, pairs are not written, and any number of them is found. met: int64[2], added to: females of each
    side that males were compared with.
    """
    found = 0
    at = cursor[AT_RECORD]
    while at < stop:
        kind = records[KIND, at]
        # a female is inserted
        if kind < MALE:
            to = spans[kind, 1]
            state[kind, STATE_ROW, to] = records[ROW, at]
            state[kind, STATE_POS, to] = records[POS, at]
            state[kind, STATE_KEY, to] = records[KEY, at]
            state[kind, STATE_LIFETIME, to] = records[LIFETIME, at]
            spans[kind, 1] = to + 1
            at += 1
            continue
        if not cursor[IS_PROBING]:
            # 1. purge
            for side in range(2):
                if kind == TIME:
                    clock = records[CLOCK + side, at]
                elif side == MALE + 1 - kind:
                    clock = records[CLOCK, at]
                else:
                    continue
                first, until = spans[side, 0], spans[side, 1]
                while first < until and clock - state[side, STATE_POS, first] >= limits[side]:
                    if not is_last and state[side, STATE_LIFETIME, first] > end:
                        if passed == onward.shape[1]:
                            spans[side, 0] = first
                            cursor[AT_RECORD] = at
                            return passed, found
                        onward[TS, passed] = records[TS, at]
                        onward[KIND, passed] = FEMALE + side
                        onward[ROW, passed] = state[side, STATE_ROW, first]
                        onward[POS, passed] = state[side, STATE_POS, first]
                        onward[KEY, passed] = state[side, STATE_KEY, first]
                        onward[LIFETIME, passed] = state[side, STATE_LIFETIME, first]
                        onward[REACH, passed] = 0
                        onward[OWN_AGE, passed] = 0
                        passed += 1
                    first += 1
                spans[side, 0] = first
            # 2. probe: from the first female within reach
            cursor[IS_PROBING] = 1
            if kind != TIME:
                side = MALE + 1 - kind
                low, high = spans[side, 0], spans[side, 1]
                if records[REACH, at] <= start or records[LOW_KEY, at] > records[HIGH_KEY, at]:
                    low = high
                elif records[REACH, at] < end:
                    while low < high:
                        middle = (low + high) >> 1
                        if records[CLOCK, at] - state[side, STATE_POS, middle] >= records[REACH, at]:
                            low = middle + 1
                        else:
                            high = middle
                cursor[AT_FEMALE] = low
                met[side] += spans[side, 1] - low
        if kind != TIME:
            side = MALE + 1 - kind
            low_key, high_key = records[LOW_KEY, at], records[HIGH_KEY, at]
            row, until = cursor[AT_FEMALE], spans[side, 1]
            while row < until:
                block = state[side, STATE_KEY, row : min(row + BLOCK_ROWS, until)]
                matches = count_matches(block, low_key, high_key)
                next_row = row + len(block)
                if counting:
                    found += matches
                elif matches > 0:
                    if found == pairs.shape[1]:
                        cursor[AT_RECORD] = at
                        cursor[AT_FEMALE] = row
                        return passed, found
                    stop_at = min(found + matches, pairs.shape[1])
                    is_cut = found + matches > pairs.shape[1]
                    last = write_matches(
                        block, low_key, high_key, row, at, pairs[OF_MALE], pairs[OF_FEMALE], found, stop_at
                    )
                    clock = records[CLOCK, at]
                    for n in range(found, stop_at):
                        female = pairs[OF_FEMALE, n]
                        pairs[OF_FEMALE, n] = state[side, STATE_ROW, female]
                        pairs[AGE, n] = clock - state[side, STATE_POS, female]
                    found = stop_at
                    if is_cut:
                        cursor[AT_RECORD] = at
                        cursor[AT_FEMALE] = last
                        return passed, found
                row = next_row
            cursor[AT_FEMALE] = row
        # 3. propagate
        if not is_last:
            if passed == onward.shape[1]:
                cursor[AT_RECORD] = at
                return passed, found
            for field in range(FIELDS):
                onward[field, passed] = records[field, at]
            passed += 1
        cursor[IS_PROBING] = 0
        at += 1
    cursor[AT_RECORD] = at
    return passed, found


@kernel
def first_males(records):  # type: ignore[no-untyped-def]
    """(left, right): the first row of a male of each side, NOBODY if there is none; their rows only grow."""
    left = right = NOBODY
    for n in range(records.shape[1]):
        if records[KIND, n] == MALE and left == NOBODY:
            left = records[ROW, n]
        elif records[KIND, n] == MALE + 1 and right == NOBODY:
            right = records[ROW, n]
        if left != NOBODY and right != NOBODY:
            break
    return left, right


@kernel
def rows_of_pairs(pairs, records, rows):  # type: ignore[no-untyped-def]
    """Fill rows (int64[2, n]): the rows of each pair on the left and on the right."""
    for n in range(pairs.shape[1]):
        male = pairs[OF_MALE, n]
        side = records[KIND, male] - MALE
        rows[side, n] = records[ROW, male]
        rows[1 - side, n] = pairs[OF_FEMALE, n]


@kernel
def merge_runs(ends, ts, rows, out_ts, out_rows):  # type: ignore[no-untyped-def]
    """Put runs of pairs, each in time order, into one time order; of one ts, earlier runs first.

    ends: int64[k], where each run ends; none is empty. ts: int64[n], rows: int64[2, n], one run after the
    other; the caller owns out_ts and out_rows, of the same shapes.

    At each instant all runs are looked at, as most slices have pairs of most males; what is next of a run is
    remembered, so that one without any is passed over at once.
    """
    at = np.empty(len(ends), np.int64)
    next_ts = np.empty(len(ends), np.int64)
    now = NOBODY
    for run in range(len(ends)):
        at[run] = ends[run - 1] if run else 0
        next_ts[run] = ts[at[run]]
        now = min(now, next_ts[run])
    to = 0
    while now < NOBODY:
        later = NOBODY
        for run in range(len(ends)):
            come = next_ts[run]
            if come == now:
                n, end = at[run], ends[run]
                while come == now:
                    out_ts[to] = now
                    out_rows[0, to] = rows[0, n]
                    out_rows[1, to] = rows[1, n]
                    to += 1
                    n += 1
                    come = ts[n] if n < end else NOBODY
                at[run] = n
                next_ts[run] = come
            later = min(later, come)
        now = later


@kernel
def fit_windows(pairs, records, windows, since, fits):  # type: ignore[no-untyped-def]
    """Fill fits (uint8[n]): pairs within a member's windows whose male came while it was a member.

    pairs: int64[PAIR_FIELDS, n]; records: what their males are in; windows, since: int64[2], by side; since:
    the first row of a male.
    """
    for n in range(pairs.shape[1]):
        male = pairs[OF_MALE, n]
        side = records[KIND, male] - MALE
        is_within = (pairs[AGE, n] < windows[1 - side]) & (records[OWN_AGE, male] < windows[side])
        fits[n] = is_within & (records[ROW, male] >= since[side])


@kernel
def fit_tags(pairs, records, side, tags, base, low, high, bits, fits):  # type: ignore[no-untyped-def]
    """Clear fits (uint8[n]) where a tag of the pair's row on a side is not as asked.

    tags: integers by row less base, of rows of pairs that fit so far; low <= tag <= high, all of `bits` set.
    """
    for n in range(pairs.shape[1]):
        if fits[n]:
            male = pairs[OF_MALE, n]
            row = records[ROW, male] if records[KIND, male] == MALE + side else pairs[OF_FEMALE, n]
            tag = tags[row - base]
            fits[n] = (tag >= low) & (tag <= high) & (tag & bits == bits)


@kernel
def count_ages(pairs, ends, first, shift, counts):  # type: ignore[no-untyped-def]
    """Add to counts (int64, one more than there are ends) the pairs in each slice; see slices.py."""
    for n in range(pairs.shape[1]):
        counts[slice_of(pairs[AGE, n], ends, first, shift)] += 1
