"""Outer, semi and anti joins: rows that are given while they have no match, or while they have one.

Pairs change the number of matches of their rows. At the end of an instant every row whose number came to or
from 0 is looked at: if it should be given and is not, or the other way round, it is sent. So within an
instant a row is not withdrawn and given again. A row of which not all pairs have come yet is `held`.

marks: uint8 by slot, of PRESENT (it has come and not gone), GIVEN, TOUCHED (on the list of those to look at).
"""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel, part

from .bag import ROW
from .change_join import CAME, WENT

PRESENT, GIVEN, TOUCHED = 1, 2, 4
NEITHER, WITHOUT, WITH = range(3)
"""What rows of a side are given: none; those without a match; those with one."""


@part
def look(side, slot, wanted, state, now, found, out):  # type: ignore[no-untyped-def]
    """Send a row if it is not as it should be. Returns how many were sent so far."""
    rows, counts, marks = state
    out_ts, out_sign, out_rows = out
    marks[slot] &= 255 - TOUCHED
    should = marks[slot] & PRESENT and (counts[slot] == 0) == (wanted == WITHOUT)
    given = marks[slot] & GIVEN
    if should and not given:
        out_sign[found] = 1
        marks[slot] |= GIVEN
    elif given and not should:
        out_sign[found] = -1
        marks[slot] &= 255 - GIVEN
    else:
        return found
    out_ts[found] = now
    out_rows[side, found] = rows[slot, ROW]
    out_rows[1 - side, found] = -1
    return found + 1


@part
def touch(side, slot, marks, touched, count):  # type: ignore[no-untyped-def]
    """Put a row on the list, once. Returns the list's length."""
    if marks[slot] & TOUCHED:
        return count
    marks[slot] |= TOUCHED
    touched[count] = 2 * slot + side
    return count + 1


@part
def come_or_go(side, slot, sign, marks, touched, count):  # type: ignore[no-untyped-def]
    """A row has come or gone. Returns the list's length."""
    if sign == CAME:
        marks[slot] |= PRESENT
    else:
        marks[slot] &= 255 - PRESENT
    return touch(side, slot, marks, touched, count)


@part
def match(side, slot, sign, state, touched, count):  # type: ignore[no-untyped-def]
    """A row has a match more or less. Returns the list's length."""
    counts = state[1]
    counts[slot] += sign
    if counts[slot] == (1 if sign > 0 else 0):
        return touch(side, slot, state[2], touched, count)
    return count


@kernel
def settle(left, right, wanted, entries, kept, has_pairs, held, carried, touched, out):  # type: ignore[no-untyped-def]
    """Turn entries of run_join into rows of the result.

    left, right: tuples of the sides' rows, counts and marks. wanted: two of NEITHER, WITHOUT, WITH.
    entries: ts, sign, rows, slots as run_join gave them; kept: uint8 each, 0 for a pair that does not count.
    has_pairs: whether pairs are part of the result. held: 2 * slot + side of the row to be left alone at the
    end, -1: none. carried: int64[2], the number of rows on the list from last time and their ts, updated.
    touched: int64, room for 2 per entry and one more; out: ts int64, sign int8, rows int64[2, n], room for 3
    per entry and one more. Returns the rows sent.
    """
    ts, sign, rows, slots = entries
    out_ts, out_sign, out_rows = out
    count, now = carried[0], carried[1]
    found = 0
    for k in range(len(ts) + 1):
        is_end = k == len(ts)
        if count and (is_end or ts[k] != now):
            left_alone = 0
            for n in range(count):
                slot, side = touched[n] >> 1, touched[n] & 1
                if is_end and touched[n] == held:
                    touched[0] = held
                    left_alone = 1
                elif side == 0:
                    found = look(0, slot, wanted[0], left, now, found, out)
                else:
                    found = look(1, slot, wanted[1], right, now, found, out)
            count = left_alone
        if is_end:
            break
        now = ts[k]
        one, two = slots[0, k], slots[1, k]
        if sign[k] == CAME or sign[k] == WENT:
            if one >= 0:
                count = come_or_go(0, one, sign[k], left[2], touched, count)
            else:
                count = come_or_go(1, two, sign[k], right[2], touched, count)
        elif kept[k]:
            if wanted[0]:
                count = match(0, one, sign[k], left, touched, count)
            if wanted[1]:
                count = match(1, two, sign[k], right, touched, count)
            if has_pairs:
                out_ts[found] = now
                out_sign[found] = sign[k]
                out_rows[0, found] = rows[0, k]
                out_rows[1, found] = rows[1, k]
                found += 1
    carried[0], carried[1] = count, now
    return found
