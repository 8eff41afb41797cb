"""What a row does to the groups of a pane, and what groups say of a window made of panes.

A group has a slot, a number from 0 on. What is kept per slot stands in arrays by slot, of which there may be
more than there are slots in use. Counts and sums only grow, wrapping around: those of a window are the
difference of two moments, exactly. Extremes are codes in which the greatest is asked for, or places of texts;
NOTHING is no value at all.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel
from penstock.engine.kernels.changes.exact_sum import (
    COUNT,
    DIGITS,
    INFINITY,
    INT_MAX,
    MASK,
    add_double,
    bits_of,
    carry,
    read_double,
)
from penstock.engine.kernels.changes.ordered import compare
from penstock.engine.kernels.rows.hash import bucket_of, shift_of

NOTHING = -(1 << 63)


@expand
def ordered_code(bits):  # type: ignore[no-untyped-def]
    """The code of a double from its bits: -0.0 is 0.0, NaN above all (see kernels/rows/keys.py)."""
    code = bits ^ ((bits >> 63) & INT_MAX)
    if code == -1:
        code = 0
    if code > INFINITY or code < -INFINITY - 1:
        code = INT_MAX
    return code


@kernel
def find_slots(a, b, start, table, slot_a, slot_b, used, new_rows, out):  # type: ignore[no-untyped-def]
    """The slot of each row from `start` on, by its fingerprint; a row whose key is new gets the next one.

    a, b: int64 by row, b empty if it is always 0; table: int32[a power of two], slots by open addressing, -1
    for none; slot_a, slot_b: int64 by slot; new_rows: int32, gets the rows that made a slot, in order;
    out: int32 by row. Returns (rows done, slots in use): it stops before a row that has no room, when slots
    would be more than half the table or more than slot_a or new_rows hold.
    """
    shift = shift_of(len(table))
    mask = len(table) - 1
    room = min(len(table) // 2, len(slot_a))
    first = used
    wide = len(b) > 0
    for i in range(start, len(a)):
        key = a[i]
        second = b[i] if wide else 0
        cell = np.int64(bucket_of(key ^ second, shift))
        while True:
            slot = table[cell]
            if slot < 0:
                if used == room or used - first == len(new_rows):
                    return i, used
                slot = used
                table[cell] = slot
                slot_a[slot] = key
                slot_b[slot] = second
                new_rows[used - first] = i
                used += 1
                break
            if slot_a[slot] == key and slot_b[slot] == second:
                break
            cell = (cell + 1) & mask
        out[i] = slot
    return len(a), used


@kernel
def file_slots(slot_a, slot_b, used, table):  # type: ignore[no-untyped-def]
    """Put the slots into an empty table."""
    shift = shift_of(len(table))
    mask = len(table) - 1
    for slot in range(used):
        cell = np.int64(bucket_of(slot_a[slot] ^ slot_b[slot], shift))
        while table[cell] >= 0:
            cell = (cell + 1) & mask
        table[cell] = slot


@kernel
def count_rows(slots, start, stop, counts):  # type: ignore[no-untyped-def]
    """Count the rows [start, stop) by slot (int32 by row) into counts (int64 by slot)."""
    for i in range(start, stop):
        counts[slots[i]] += 1


@kernel
def count_nulls(slots, valid, start, stop, counts):  # type: ignore[no-untyped-def]
    """Count the rows [start, stop) whose value is NULL; valid: uint8 by row."""
    for i in range(start, stop):
        if not valid[i]:
            counts[slots[i]] += 1


@kernel
def raise_extremes(slots, values, valid, start, stop, flip, doubles, most):  # type: ignore[no-untyped-def]
    """Let most (int64 by slot) be no less than the codes of the rows [start, stop).

    values: int64 by row, bits of doubles if `doubles`; valid: uint8 by row, empty if there are no NULLs;
    flip: 0 for MAX, -1 for MIN.
    """
    checked = len(valid) > 0
    for i in range(start, stop):
        if checked and not valid[i]:
            continue
        code = values[i]
        if doubles:
            code = ordered_code(code)
        code ^= flip
        slot = slots[i]
        most[slot] = max(most[slot], code)


@kernel
def count_and_raise(slots, values, start, stop, flip, doubles, counts, most):  # type: ignore[no-untyped-def]
    """`count_rows` and `raise_extremes` in one pass over the rows, where there are no NULLs."""
    for i in range(start, stop):
        code = values[i]
        if doubles:
            code = ordered_code(code)
        code ^= flip
        slot = slots[i]
        counts[slot] += 1
        most[slot] = max(most[slot], code)


@expand
def exceeding(place, most, smallest, texts):  # type: ignore[no-untyped-def]
    """The place of the text that exceeds the other; `most` may be NOTHING, and stays if they are equal."""
    if most == NOTHING:
        return place
    order = compare(place, most, texts)
    return place if (order < 0 if smallest else order > 0) else most


@kernel
def raise_texts(slots, places, valid, start, stop, smallest, texts, most):  # type: ignore[no-untyped-def]
    """Let most (int64 by slot) be the places of texts that none of the rows [start, stop) exceeds.

    places: int64 by row, of its text; valid: uint8 by row, empty if there are no NULLs; smallest: texts that
    are less exceed others; texts: see ordered.py.
    """
    checked = len(valid) > 0
    for i in range(start, stop):
        if checked and not valid[i]:
            continue
        slot = slots[i]
        most[slot] = exceeding(places[i], most[slot], smallest, texts)


@kernel
def join_texts(most, other, smallest, texts):  # type: ignore[no-untyped-def]
    """The same with the extremes of other panes, by slot."""
    for slot in range(len(other)):
        if other[slot] != NOTHING:
            most[slot] = exceeding(other[slot], most[slot], smallest, texts)


@kernel
def stay_with_texts(value, valid, was_value, was_valid, texts):  # type: ignore[no-untyped-def]
    """Let places (int64 by slot) be those of before where the text is the same; was_...: fewer slots or as
    many; valid: uint8 by slot."""
    for slot in range(len(was_value)):
        if not valid[slot] or not was_valid[slot] or value[slot] == NOTHING or was_value[slot] == NOTHING:
            continue
        if compare(value[slot], was_value[slot], texts) == 0:
            value[slot] = was_value[slot]


@kernel
def add_sums(slots, values, valid, start, stop, doubles, base, sums):  # type: ignore[no-untyped-def]
    """Add the rows [start, stop) to sums (int64[slots, words], see exact_sum.py).

    values: int64 by row, codes of doubles if `doubles`; valid: uint8 by row, empty if there are no NULLs.
    """
    checked = len(valid) > 0
    for i in range(start, stop):
        if checked and not valid[i]:
            continue
        line = sums[slots[i]]
        line[COUNT] += 1
        value = values[i]
        if doubles:
            add_double(line, bits_of(value), np.int64(1), base)
        else:
            line[DIGITS] += value & MASK
            line[DIGITS + 1] += value >> 32


@kernel
def read_sums(after, before, doubles, as_double, base, value, counts):  # type: ignore[no-untyped-def]
    """The sums of a window, from those after and before it.

    after, before: int64[slots, words], before may have fewer slots, the others are 0 there; value: int64 by
    slot, bits of a double if `as_double`; counts: int64 by slot, how many values there are.
    Returns the first slot whose sum is no int64, -1 if there is none.
    """
    line = np.empty(after.shape[1], np.int64)
    bad = -1
    for slot in range(len(after)):
        for word in range(len(line)):
            line[word] = after[slot, word] - (before[slot, word] if slot < len(before) else 0)
        counts[slot] = line[COUNT]
        value[slot] = 0
        if not line[COUNT]:
            continue
        if doubles or as_double:
            value[slot] = read_double(line, base)
            continue
        carry(line)
        if not -(1 << 31) <= line[DIGITS + 1] < 1 << 31:
            if bad < 0:
                bad = slot
            continue
        value[slot] = (line[DIGITS + 1] << 32) | line[DIGITS]
    return bad


@kernel
def less_before(after, before, used, out):  # type: ignore[no-untyped-def]
    """out = after - before for the slots in use; `before` may have fewer, the others are 0 there."""
    known = min(used, len(before))
    for slot in range(known):
        out[slot] = after[slot] - before[slot]
    for slot in range(known, used):
        out[slot] = after[slot]


@kernel
def changed(counts, before, used, out):  # type: ignore[no-untyped-def]
    """The slots in use (int32) at which counts (int64) differ from those before, into out; how many.

    before: int64 of as many slots at least; gets the counts. out has room for all slots in use.
    """
    found = 0
    for slot in range(used):
        if counts[slot] != before[slot]:
            before[slot] = counts[slot]
            out[found] = slot
            found += 1
    return found


@kernel
def nonzero(counts, out):  # type: ignore[no-untyped-def]
    """The places (int64) at which counts is not 0, into out; how many there are."""
    found = 0
    for i in range(len(counts)):
        out[found] = i
        found += counts[i] != 0
    return found


@kernel
def differences(there, value, valid, was_there, was_value, was_valid, out_slot, out_sign):  # type: ignore[no-untyped-def]
    """What is said differently now: the slots' old rows as -1, their new ones as +1.

    there: uint8 by slot; value: int64[calls, slots]; valid: uint8[calls, slots]; was_...: the same of the
    time before, of as many slots or fewer; of the others nothing was there. out_slot: int64, out_sign:
    int8, room for two per slot. Returns how many.
    """
    out = 0
    known = len(was_there)
    for slot in range(len(there)):
        now = there[slot] != 0
        before = slot < known and was_there[slot] != 0
        if now and before:
            same = True
            for call in range(len(value)):
                if valid[call, slot] != was_valid[call, slot] or (
                    valid[call, slot] and value[call, slot] != was_value[call, slot]
                ):
                    same = False
                    break
            if same:
                continue
        if before:
            out_slot[out] = slot
            out_sign[out] = -1
            out += 1
        if now:
            out_slot[out] = slot
            out_sign[out] = 1
            out += 1
    return out
