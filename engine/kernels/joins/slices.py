"""The slice of an age: how many of the distinct windows, in ascending order, it has outlived.

    ends      0 ........ ends[0] ........ ends[1] ........ ends[2] ........
    slice     |    0     |       1        |       2        |       3          (3: older than all)

Ages are cut into buckets of 2**shift; `first` says for each bucket at which end to start. A bucket with at
most one end inside, which is nearly every one where windows are evenly spaced, needs one comparison and no
jump. The entry of a crowded bucket is inverted (negative); its ends are searched by halving.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.jit import expand, kernel, part

BUCKETS_PER_END = 16
MIN_BUCKETS = 64
MAX_BUCKETS = 1 << 16  # of 4 bytes: leaves half of a second level cache to others
SHIFTS = 63
COUNTED = 8  # ends compared without a jump


class Slices(NamedTuple):
    """Distinct windows and the table by which an age finds its slice.

    ends    int64, ascending: where slices 0, 1, ... end; 2**63-1 for unbounded
    first   int32 by bucket: number of ends up to the bucket's start, but at most the last end's place
    shift   bits by which an age is shifted to give its bucket; ages beyond the table share the last one
    """

    ends: NDArray
    first: NDArray
    shift: int

    def _check_restored(self) -> None:
        anew = build_slices(self.ends)
        is_same = np.array_equal(anew.ends, self.ends) and np.array_equal(anew.first, self.first)
        if not is_same or anew.shift != self.shift:
            raise ValueError("expected slices as they are made of their ends")


def build_slices(windows: NDArray) -> Slices:
    """Slices of windows (int64 > 0) in any order, with repetitions, or none."""
    ends = np.unique(np.asarray(windows, np.int64))
    if len(ends) == 0:
        return Slices(ends, np.full(1, -1, np.int32), 0)
    assert ends[0] > 0, f"expected windows above 0, found {ends[0]}"
    room = min(max(BUCKETS_PER_END * len(ends), MIN_BUCKETS), MAX_BUCKETS)
    shift = int(choose_shift(ends, room))
    first = np.empty(min(room, (int(ends[-1]) >> shift) + 1), np.int32)
    fill_first(ends, shift, first)
    changes = np.flatnonzero(first[1:] != first[:-1])  # after the last change one bucket does for all
    return Slices(ends, first[: changes[-1] + 2 if len(changes) else 1].copy(), shift)


def slices_of(windows: NDArray) -> tuple[Slices, Slices]:
    """Slices of the windows (int64[2, M]) of left and right; the same where these are alike."""
    left = build_slices(windows[0])
    return left, left if np.array_equal(windows[0], windows[1]) else build_slices(windows[1])


@expand
def slice_of(age, ends, first, shift):  # type: ignore[no-untyped-def]
    """Number of ends up to `age` (int64 >= 0): int64 in 0 .. len(ends)."""
    start = np.int64(first[np.uint64(min(age >> shift, len(first) - 1))])
    if start >= 0:
        found = start + np.int64(ends[np.uint64(start)] <= age)
    else:
        found = search_crowd(age, borrowed(ends), ~start)
    return found


@part
def search_crowd(age, ends, low):  # type: ignore[no-untyped-def]
    """Number of ends up to `age`, not less than `low`: doubling steps from there, then halving."""
    step = COUNTED
    while low + step <= len(ends) and ends[low + step - 1] <= age:
        low += step
        step *= 2
    while step > COUNTED:
        step //= 2
        if low + step <= len(ends) and ends[low + step - 1] <= age:
            low += step
    # Which of a few ends it is cannot be guessed: all are compared, and no jump depends on the outcome.
    found = np.int64(max(min(low, len(ends) - COUNTED), 0))  # ends left out before it were outlived
    if len(ends) >= COUNTED:
        low = found
        for at in range(COUNTED):
            found += np.int64(ends[low + at] <= age)
    else:
        for at in range(len(ends)):
            found += np.int64(ends[at] <= age)
    return found


@kernel
def choose_shift(ends, room):  # type: ignore[no-untyped-def]
    """The largest of the shifts with which `room` buckets need the fewest steps inside crowded ones.

    The steps are averaged over ages up to the largest bounded end, and over ends, and both added: most
    matches are old where windows are skewed, but an end may be so far off that no match gets there.
    """
    bounded = len(ends) - 1
    if bounded > 0 and ends[bounded] == np.iinfo(np.int64).max:
        bounded -= 1
    span = np.float64(ends[bounded])
    best, best_cost = 0, np.inf
    for shift in range(SHIFTS):
        cost = 0.0
        at = 0
        while at < len(ends):
            bucket = min(ends[at] >> shift, room - 1)
            is_last = bucket == room - 1
            start = bucket << shift
            inside = 0
            while at < len(ends) and (is_last or ends[at] >> shift == bucket):
                inside += ends[at] > start
                at += 1
            if inside > 1:
                width = span - start if is_last else 2.0**shift
                cost += np.log2(inside) * (inside / len(ends) + min(max(width, 0.0) / span, 1.0))
        if cost <= best_cost:
            best, best_cost = shift, cost
    return best


@kernel
def fill_first(ends, shift, first):  # type: ignore[no-untyped-def]
    """Fill `first` (int32 by bucket, owned by the caller) for ends (int64, ascending, at least one)."""
    at = 0
    for bucket in range(len(first)):
        start = bucket << shift
        while at < len(ends) and ends[at] <= start:
            at += 1
        beyond = at + 2
        is_last = bucket == len(first) - 1
        crowded = beyond <= len(ends) and (is_last or ends[beyond - 1] >> shift == bucket)
        place = min(at, len(ends) - 1)
        first[bucket] = ~place if crowded else place
