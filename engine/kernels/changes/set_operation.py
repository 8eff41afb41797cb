"""How many copies of a row are in the answer, from how many there are on either side."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import expand, kernel

DISTINCT, UNION, INTERSECT, INTERSECT_ALL, EXCEPT, EXCEPT_ALL = range(6)


@expand
def copies(kind, left, right):  # type: ignore[no-untyped-def]
    """How many of them the answer has."""
    if kind <= UNION:
        return 1 if left + right > 0 else 0
    if kind == INTERSECT:
        return 1 if left > 0 and right > 0 else 0
    if kind == INTERSECT_ALL:
        return min(left, right)
    if kind == EXCEPT:
        return 1 if left > 0 and right == 0 else 0
    return max(0, left - right)


@kernel
def run_set_operation(  # type: ignore[no-untyped-def]
    slot, sign, side, events, point_slot, point_until, points, counts, kind, target
):  # fmt: skip
    """Count rows per slot and side, and at each point say how many copies there should be.

    sign: int8 per event; side: int64, 0 or 1 (empty: 0); counts: int64[slots, 2]; target: int64 per point.
    """
    event = 0
    for point in range(points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            counts[slot[event], side[event] if len(side) else 0] += sign[event]
            event += 1
        if point < points:
            at = point_slot[point]
            target[point] = copies(kind, counts[at, 0], counts[at, 1])


@kernel
def tell_copies(  # type: ignore[no-untyped-def]
    point_ts, point_slot, point_key, first, points, target, said, out_ts, out_sign, out_key
):  # fmt: skip
    """Give a row for each copy that comes or goes, from point `first` on.

    said: int64 by slot, the copies there are; out_*: the caller's. Returns the point to go on with (`points`
    if all is said, another one if there is no room) and the number of rows.
    """
    out = 0
    for point in range(first, points):
        slot = point_slot[point]
        while said[slot] != target[point]:
            if out == len(out_ts):
                return point, out
            change = 1 if said[slot] < target[point] else -1
            said[slot] += change
            out_ts[out] = point_ts[point]
            out_sign[out] = change
            out_key[out] = point_key[point]
            out += 1
    return points, out
