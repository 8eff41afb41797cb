"""How far out of order the keys of a stream come, and which can still come, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import expand, kernel

LAST_CODE = (1 << 63) - 1


NEAR = 512  # records among which one is mostly found


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


@kernel
def follow_keys(
    codes: NDArray,
    valid: NDArray,
    come: int,
    records: NDArray,
    record_codes: NDArray,
    first: int,
    end: int,
    at: int,
    late: NDArray,
    late_rows: NDArray,
    head: int,
    tail: int,
    declared: int,
    warm: int,
    window: int,
    reach: int,
    frontier: int,
    frontiers: NDArray,
    factors: NDArray,
) -> tuple[int, int, int, int, int, int]:
    """Fill in, after each row, the factor and the least code that can still come.

    codes: int64, NULL where valid (uint8) is 0; come: rows before these. records, record_codes: int64, where
    the running maximum rose, at [first, end), with room for all rows; `at`: the last of them whose code no
    row to come can have, first - 1 if there is none. late, late_rows: int64, rows that came behind one that
    is not less, and how many rows behind the first of these, the greatest of the last `window` rows at
    [head, tail), falling, with room for all rows. declared: the factor, -1: as measured. Before `warm` rows
    have come nothing is known of what can still come. Records are kept for `reach` rows. Writes frontiers
    and factors (int64 per row). Returns first, end, at, head, tail, frontier.
    """
    for row in range(len(codes)):
        come += 1
        if valid[row]:
            code = codes[row]
            if end == first or code > record_codes[end - 1]:
                records[end] = come
                record_codes[end] = code
                end += 1
            else:
                rows = come - records[first_at_least(record_codes, code, first, end)]
                while tail > head and late_rows[tail - 1] <= rows:
                    tail -= 1
                late[tail] = come
                late_rows[tail] = rows
                tail += 1
        while head < tail and late[head] <= come - window:
            head += 1
        factor = declared
        if declared < 0:
            factor = late_rows[head] if head < tail else 0
        while come >= warm and at + 1 < end and records[at + 1] <= come - factor:
            at += 1
            frontier = max(frontier, min(record_codes[at], LAST_CODE - 1) + 1)
        while first < at and records[first + 1] <= come - reach:
            first += 1
        frontiers[row] = frontier
        factors[row] = factor
    return first, end, at, head, tail, frontier
