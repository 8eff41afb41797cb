"""Changes of one instant that cancel each other."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel

from .hash import bucket_of, shift_of

FEW = 24  # changes of an instant that are compared with each other; more are hashed
SPREAD = np.int64(0x2545F4914F6CDD1D)


@kernel
def cancel_few(ts, sign, a, b, keep, many):  # type: ignore[no-untyped-def]
    """Clear keep[i] (uint8) for pairs of +1 and -1 of equal rows at one ts; instants with more than FEW rows
    are left alone, many[i] (uint8) is set there. ts int64 in order, sign int8, (a, b) int64 fingerprints.
    Returns whether any instant was left alone."""
    left = False
    start = 0
    while start < len(ts):
        stop = start + 1
        mixed = False
        while stop < len(ts) and ts[stop] == ts[start]:
            mixed |= sign[stop] != sign[start]
            stop += 1
        if mixed and stop - start > FEW:
            left = True
            many[start:stop] = 1
        elif mixed:
            for i in range(start + 1, stop):
                for j in range(start, i):
                    if keep[j] and sign[i] != sign[j] and a[i] == a[j] and b[i] == b[j]:
                        keep[i] = keep[j] = 0
                        break
        start = stop
    return left


@kernel
def cancel_many(ts, sign, a, b, heads, net, keep):  # type: ignore[no-untyped-def]
    """Set keep[i] (uint8, zeros) for what is left of equal rows at one ts: as many as there are more of one
    sign, the first of them. ts int64, sign int8, (a, b) int64 fingerprints. heads: int32, -1 everywhere, a
    power of two above the number of rows; net: int64 per row; both are the caller's."""
    shift = shift_of(len(heads))
    mask = len(heads) - 1
    first = np.empty(len(ts), np.int32)
    for i in range(len(ts)):
        place = np.int64(bucket_of(a[i] ^ (b[i] * SPREAD) ^ (ts[i] << 20), shift))
        while True:
            j = heads[place]
            if j < 0:
                heads[place] = j = i
                net[i] = 0
                break
            if a[j] == a[i] and b[j] == b[i] and ts[j] == ts[i]:
                break
            place = (place + 1) & mask
        first[i] = j
        net[j] += sign[i]
    for i in range(len(ts)):
        j = first[i]
        if net[j] * sign[i] > 0:
            keep[i] = 1
            net[j] -= sign[i]
