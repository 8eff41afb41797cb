"""How far out of order the keys of a stream come, and which can still come, row by row.

A stream is one sequence of keys, or has one for each value of some columns. A sequence is a line of numbers:

    COME       rows of it so far
    FIRST END  where its records stand in the pool: the rows at which its running maximum rose, and their keys
    ROOM       where the room for its records ends
    AT         the last of its records whose key no row to come can have; FIRST - 1: there is none
    FRONTIER   the least key that can still come
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import expand, kernel, part

LAST_CODE = (1 << 63) - 1
NONE = -(1 << 63)  # no key so far

COME, FIRST, END, ROOM, AT, FRONTIER = range(6)
LINE = 6

NEAR = 512  # records among which one is mostly found
LEAST_ROOM = 8  # records


@expand
def first_at_least(codes, code, first, end):  # type: ignore[no-untyped-def]
    """The first place in [first, end) of codes, rising, with one that is not less; the last has one.

    It is among the last ones, mostly; in which half of these it lies is as good as random, so no jump depends
    on that.
    """
    low = first
    if end - first > NEAR:
        if codes[end - NEAR - 1] < code:
            low = end - NEAR
        else:
            end -= NEAR
    rows = end - low
    while rows > 1:
        half = rows >> 1
        low += half * np.int64(codes[low + half - 1] < code)
        rows -= half
    return low


@part
def last_up_to(records, place, first, end):  # type: ignore[no-untyped-def]
    """The last place in [first, end) of records, rising, that is not above `place`; first - 1 if none is."""
    low, high = first, end
    while low < high:
        middle = (low + high) >> 1
        if records[middle] <= place:
            low = middle + 1
        else:
            high = middle
    return low - 1


@part
def write_line(lines, sequence, come, first, end, room, at, frontier):  # type: ignore[no-untyped-def]
    lines[sequence, COME] = come
    lines[sequence, FIRST] = first
    lines[sequence, END] = end
    lines[sequence, ROOM] = room
    lines[sequence, AT] = at
    lines[sequence, FRONTIER] = frontier


@kernel
def follow_keys(
    rows: tuple[NDArray, NDArray, NDArray],
    row: int,
    lines: NDArray,
    peaks: NDArray,
    records: NDArray,
    record_codes: NDArray,
    pool: int,
    rule: tuple[int, int, int, int],
    found: NDArray,
) -> tuple[int, int]:
    """Fill in, for rows from `row` on, the factor and the least code that can still come.

    rows: codes, int64, NULL where valid, uint8, is 0; and the line of each row's sequence, int64, -1: it has
    none. rule: step, declared, warm, reach. lines, peaks: int64, a line per sequence, written; peaks: how far
    behind the first that is not less a row came at most, of `step` rows each, the last so many steps in turn.
    records, record_codes: the pool, int64, of which `pool` are in use. declared: the factor, -1: the greatest
    of the peaks. Before `warm` rows of a sequence have come nothing is known of what can still come. Records
    are kept for `reach` rows. Writes found, four lines of int64 per row: the frontiers of its sequence before
    the row and after it, the greatest code before it, the factor. Returns the row to go on with (one for
    which the pool has no room, or the number of rows), and how much of the pool is in use.

    Few rows come further behind than all before them in their step. That is seen at the record which lies so
    far behind, `edge`; only then it is looked for how far it is.
    """
    codes, valid, sequences = rows
    step, declared, warm, reach = rule
    befores, frontiers, tops, factors = found[0], found[1], found[2], found[3]
    sequence = come = first = end = room = at = frontier = most = slot = edge = -1
    while row < len(codes):
        if sequences[row] < 0:
            befores[row] = frontiers[row] = tops[row] = NONE
            factors[row] = 0
            row += 1
            continue
        if sequences[row] != sequence:
            if sequence >= 0:
                write_line(lines, sequence, come, first, end, room, at, frontier)
            sequence = sequences[row]
            come, first, end = lines[sequence, COME], lines[sequence, FIRST], lines[sequence, END]
            room, at, frontier = lines[sequence, ROOM], lines[sequence, AT], lines[sequence, FRONTIER]
            most = peaks[sequence].max()
            slot = (come // step) % peaks.shape[1]
            edge = last_up_to(records, come - peaks[sequence, slot], first, end)
        if end == room:  # its records move to where there is room for twice as many
            live = end - first
            size = max(LEAST_ROOM, 2 * live)
            if pool + size > len(records):
                break
            for place in range(live):
                records[pool + place] = records[first + place]
                record_codes[pool + place] = record_codes[first + place]
            at += pool - first
            edge += pool - first
            first, end, room = pool, pool + live, pool + size
            pool += size
        if come % step == 0:
            slot = (come // step) % peaks.shape[1]
            peaks[sequence, slot] = 0
            most = peaks[sequence].max()
        come += 1
        befores[row] = frontier
        tops[row] = record_codes[end - 1] if end > first else NONE
        if valid[row]:
            code = codes[row]
            if end == first or code > record_codes[end - 1]:
                records[end] = come
                record_codes[end] = code
                end += 1
            else:
                while edge + 1 < end and records[edge + 1] < come - peaks[sequence, slot]:
                    edge += 1
                if edge >= first and code <= record_codes[edge]:
                    passed = first_at_least(record_codes, code, first, edge + 1)
                    peaks[sequence, slot] = come - records[passed]
                    most = max(most, peaks[sequence, slot])
                    edge = passed - 1
        factor = declared if declared >= 0 else most
        while come >= warm and at + 1 < end and records[at + 1] <= come - factor:
            at += 1
            frontier = max(frontier, min(record_codes[at], LAST_CODE - 1) + 1)
        while first < at and records[first + 1] <= come - reach:
            first += 1
        frontiers[row] = frontier
        factors[row] = factor
        row += 1
    if sequence >= 0:
        write_line(lines, sequence, come, first, end, room, at, frontier)
    return row, pool


@kernel
def move_records(
    lines: NDArray, records: NDArray, record_codes: NDArray, to_records: NDArray, to_codes: NDArray
) -> int:
    """Put the records of all sequences side by side into a new pool; returns how much of that is in use.

    lines: int64, written; the arrays of the pools: int64, the new ones with room for all records.
    """
    used = 0
    for sequence in range(len(lines)):
        first, live = lines[sequence, FIRST], lines[sequence, END] - lines[sequence, FIRST]
        for place in range(live):
            to_records[used + place] = records[first + place]
            to_codes[used + place] = record_codes[first + place]
        lines[sequence, AT] += used - first
        lines[sequence, FIRST] = used
        used += live
        lines[sequence, END] = lines[sequence, ROOM] = used
    return used
