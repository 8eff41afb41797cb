"""What a group says at a point: nothing if it said so before, else its old row goes and a new one comes."""

from __future__ import annotations

from .jit import kernel


@kernel
def publish(  # type: ignore[no-untyped-def]
    point_ts, point_slot, point_rows, point_key, points, value, valid, said, said_valid, single,
    out_ts, out_sign, out_key, out_value, out_valid,
):  # fmt: skip
    """Compare each point with what the group said last.

    value: int64[calls, points], valid: uint8 likewise; said: int64[slots, calls]; said_valid: uint8[slots,
    calls + 1], the last: whether it has said anything; single: the group is there even without rows.
    out_*: as much room as two rows per point. Returns the number of rows.
    """
    calls = len(value)
    out = 0
    for point in range(points):
        slot = point_slot[point]
        there = single or point_rows[point] > 0
        before = said_valid[slot, calls]
        if before and there:
            same = True
            for call in range(calls):
                if valid[call, point] != said_valid[slot, call] or (
                    valid[call, point] and value[call, point] != said[slot, call]
                ):
                    same = False
                    break
            if same:
                continue
        if before:
            out_ts[out] = point_ts[point]
            out_sign[out] = -1
            out_key[out] = point_key[point]
            for call in range(calls):
                out_value[call, out] = said[slot, call]
                out_valid[call, out] = said_valid[slot, call]
            out += 1
        if there:
            out_ts[out] = point_ts[point]
            out_sign[out] = 1
            out_key[out] = point_key[point]
            for call in range(calls):
                out_value[call, out] = value[call, point]
                out_valid[call, out] = valid[call, point]
                said[slot, call] = value[call, point]
                said_valid[slot, call] = valid[call, point]
            out += 1
        said_valid[slot, calls] = there
    return out


@kernel
def run_counts(slot, sign, events, point_slot, point_until, points, counts, value):  # type: ignore[no-untyped-def]
    """Add signs (int8) up per group, and at each point read the group's count. counts: int64 by slot."""
    event = 0
    for point in range(points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            counts[slot[event]] += sign[event]
            event += 1
        if point < points:
            value[point] = counts[point_slot[point]]
