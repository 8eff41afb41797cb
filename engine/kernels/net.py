"""Changes of one instant that cancel each other."""

from __future__ import annotations

from .jit import kernel

FEW = 24  # changes of an instant that are compared with each other; more are sorted by the caller


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
