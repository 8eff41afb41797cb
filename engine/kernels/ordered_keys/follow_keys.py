"""How far out of order the keys of a stream come, and which can still come, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import expand, kernel, part

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
    peaks: NDArray,
    step: int,
    declared: int,
    warm: int,
    reach: int,
    frontier: int,
    frontiers: NDArray,
    factors: NDArray,
) -> tuple[int, int, int, int]:
    """Fill in, after each row, the factor and the least code that can still come.

    codes: int64, NULL where valid (uint8) is 0; come: rows before these. records, record_codes: int64, where
    the running maximum rose, at [first, end), with room for all rows; `at`: the last of them whose code no
    row to come can have, first - 1 if there is none. peaks: int64, how far behind the first that is not less
    a row came at most, of `step` rows each, the last so many steps in turn; written. declared: the factor,
    -1: the greatest of these. Before `warm` rows have come nothing is known of what can still come. Records
    are kept for `reach` rows. Writes frontiers and factors (int64 per row). Returns first, end, at, frontier.

    Few rows come further behind than all before them in their step. That is seen at the record which lies so
    far behind, `edge`; only then it is looked for how far it is.
    """
    most = peaks.max()
    slot = (come // step) % len(peaks)
    edge = last_up_to(records, come - peaks[slot], first, end)
    for row in range(len(codes)):
        if come % step == 0:
            slot = (come // step) % len(peaks)
            peaks[slot] = 0
            most = peaks.max()
        come += 1
        if valid[row]:
            code = codes[row]
            if end == first or code > record_codes[end - 1]:
                records[end] = come
                record_codes[end] = code
                end += 1
            else:
                while edge + 1 < end and records[edge + 1] < come - peaks[slot]:
                    edge += 1
                if edge >= first and code <= record_codes[edge]:
                    found = first_at_least(record_codes, code, first, edge + 1)
                    peaks[slot] = come - records[found]
                    most = max(most, peaks[slot])
                    edge = found - 1
        factor = declared if declared >= 0 else most
        while come >= warm and at + 1 < end and records[at + 1] <= come - factor:
            at += 1
            frontier = max(frontier, min(record_codes[at], LAST_CODE - 1) + 1)
        while first < at and records[first + 1] <= come - reach:
            first += 1
        frontiers[row] = frontier
        factors[row] = factor
    return first, end, at, frontier
