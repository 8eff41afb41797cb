"""What a group says at a point: nothing if it said so before, else its old row goes and a new one comes.

Rows that come out are not copied: a row is a point whose values it has. What groups said before these points
is put behind them, so that it is one of them too.

last    int64 by slot: `base` plus the point that has what the group said last, or plus `silent` if it said
        nothing; less than `base`: it has not been asked since, and `said` has it.
said    int64[slots, calls]; said_valid: uint8[slots, calls + 1], the last one: whether it has said anything.
"""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel


@kernel
def publish(  # type: ignore[no-untyped-def]
    asked, value, valid, key, kept, base, single, out
):  # fmt: skip
    """Compare each point with what its group said last.

    asked: of each point ts, slot, rows in the group, its key, and how many points. value: int64[calls, 2 *
    points], valid: uint8 likewise, key: int64[2 * points]: the first half of the former two is there, the
    rest is written. kept: last, said, said_valid (see above); single: the group is there even without rows.
    out: ts, sign, point, with room for two rows per point. Returns the number of rows.
    """
    point_ts, point_slot, point_rows, point_key, points = asked
    last, said, said_valid = kept
    out_ts, out_sign, out_point = out
    calls = len(value)
    silent = 2 * points
    behind = points
    count = 0
    for point in range(points):
        slot = point_slot[point]
        key[point] = point_key[point]
        before = last[slot] - base
        if before < 0:
            before = silent
            if said_valid[slot, calls]:
                before = behind
                behind += 1
                key[before] = point_key[point]
                for call in range(calls):
                    value[call, before] = said[slot, call]
                    valid[call, before] = said_valid[slot, call]
            last[slot] = base + before
        there = single or point_rows[point] > 0
        if before != silent:
            if there:
                same = True
                for call in range(calls):
                    if valid[call, point] != valid[call, before] or (
                        valid[call, point] and value[call, point] != value[call, before]
                    ):
                        same = False
                        break
                if same:
                    continue
            out_ts[count] = point_ts[point]
            out_sign[count] = -1
            out_point[count] = before
            count += 1
            last[slot] = base + silent
        if there:
            out_ts[count] = point_ts[point]
            out_sign[count] = 1
            out_point[count] = point
            count += 1
            last[slot] = base + point
    # What is said now is kept: a slot that has been asked has one last point, or is silent.
    for point in range(points):
        slot = point_slot[point]
        if last[slot] == base + point:
            said_valid[slot, calls] = 1
            for call in range(calls):
                said[slot, call] = value[call, point]
                said_valid[slot, call] = valid[call, point]
        elif last[slot] == base + silent:
            said_valid[slot, calls] = 0
    return count


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
