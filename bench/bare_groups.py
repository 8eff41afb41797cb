"""GROUP BY with nothing around it: what the machine can do, against which the engine's is measured.

One loop over the arrays of a whole stream: rows enter and leave in time order, each finds the slot of its key
in a hash table, and once an instant is over every group it touched is held against what it was before. No
batches, no Arrow, no queues, no operators; the arrays are the caller's, touched before the clock starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import expand, kernel

from .bare import bucket_of
from .streams import Stream

COUNTED = np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0, np.int64), np.empty((2, 0))


@expand
def slot_of(key, keys, used):  # type: ignore[no-untyped-def]
    """Where the key is, or is from now on. keys: int64[a power of two]; used: uint8 beside it."""
    mask = len(keys) - 1
    slot = bucket_of(key, mask)
    while used[slot] and keys[slot] != key:
        slot = (slot + 1) & mask
    keys[slot] = key
    used[slot] = 1
    return slot


@expand
def touch(slot, instant, seen, touched, number, now, was):  # type: ignore[no-untyped-def]
    """Note what a group is before its first change of an instant; how many are noted."""
    if seen[slot] != instant:
        seen[slot] = instant
        was[0, slot] = now[0, slot]
        was[1, slot] = now[1, slot]
        was[2, slot] = now[2, slot]
        touched[number] = slot
        number += 1
    return number


@expand
def tell(ts, keys, touched, number, now, was, found, out):  # type: ignore[no-untyped-def]
    """Changes of the touched groups: the old row, the new one, as far as there is one. How many by then."""
    out_ts, out_sign, out_key, out_value = out
    writing = len(out_ts) > 0
    for place in range(number):
        slot = touched[place]
        stays = was[1, slot] == now[1, slot] and was[2, slot] == now[2, slot]
        if stays and (was[0, slot] > 0) == (now[0, slot] > 0):
            continue
        if was[0, slot] > 0:
            if writing:
                out_ts[found] = ts
                out_sign[found] = -1
                out_key[found] = keys[slot]
                out_value[0, found] = was[1, slot]
                out_value[1, found] = was[2, slot]
            found += 1
        if now[0, slot] > 0:
            if writing:
                out_ts[found] = ts
                out_sign[found] = 1
                out_key[found] = keys[slot]
                out_value[0, found] = now[1, slot]
                out_value[1, found] = now[2, slot]
            found += 1
    return found


@kernel
def count_and_max(ts, key, value, size, slots, links, groups, out):  # type: ignore[no-untyped-def]
    """Changes of COUNT and MAX per key over a sliding window; how many.

    slots: int32 by row. links: int32[2, rows], a list per group of the rows that are or will be its maximum,
    greatest first. groups: (keys, used, seen, touched, ends int32[2, slots], now float64[3, slots], was).
    now and was: rows, first and second column. out: of length 0, or room for all.
    """
    keys, used, seen, touched, ends, now, was = groups
    low = row = found = 0
    instant = 0
    while row < len(ts):
        at = ts[row]
        if low < row and ts[low] + size < at:
            at = ts[low] + size
        instant += 1
        number = 0
        while low < row and ts[low] + size == at:
            slot = slots[low]
            number = touch(slot, instant, seen, touched, number, now, was)
            now[0, slot] -= 1
            now[1, slot] -= 1
            if ends[0, slot] == low:
                after = links[0, low]
                ends[0, slot] = after
                if after >= 0:
                    links[1, after] = -1
                    now[2, slot] = value[after]
                else:
                    ends[1, slot] = -1
                    now[2, slot] = 0
            low += 1
        while row < len(ts) and ts[row] == at:
            slot = slot_of(key[row], keys, used)
            slots[row] = slot
            number = touch(slot, instant, seen, touched, number, now, was)
            now[0, slot] += 1
            now[1, slot] += 1
            last = ends[1, slot]
            while last >= 0 and value[last] <= value[row]:
                last = links[1, last]
            links[0, row] = -1
            links[1, row] = last
            ends[1, slot] = row
            if last >= 0:
                links[0, last] = row
            else:
                ends[0, slot] = row
                now[2, slot] = value[row]
            row += 1
        found = tell(at, keys, touched, number, now, was, found, out)
    return found


@kernel
def sum_and_average(ts, key, value, size, slots, links, groups, out):  # type: ignore[no-untyped-def]
    """Changes of SUM and AVG per key, by plain additions and subtractions; as count_and_max, no links."""
    keys, used, seen, touched, _, now, was = groups
    low = row = found = 0
    instant = 0
    while row < len(ts):
        at = ts[row]
        if low < row and ts[low] + size < at:
            at = ts[low] + size
        instant += 1
        number = 0
        while low < row and ts[low] + size == at:
            slot = slots[low]
            number = touch(slot, instant, seen, touched, number, now, was)
            now[0, slot] -= 1
            now[1, slot] -= value[low]
            low += 1
        while row < len(ts) and ts[row] == at:
            slot = slot_of(key[row], keys, used)
            slots[row] = slot
            number = touch(slot, instant, seen, touched, number, now, was)
            now[0, slot] += 1
            now[1, slot] += value[row]
            row += 1
        for place in range(number):
            slot = touched[place]
            if now[0, slot] > 0:
                now[2, slot] = now[1, slot] / now[0, slot]
        found = tell(at, keys, touched, number, now, was, found, out)
    return found


class BareGroups:
    """A loop with its arrays: `reset` before each run, which is not part of it."""

    def __init__(self, stream: Stream, size_us: int, slots: int, is_sum: bool, changes: int = 0) -> None:
        """slots: a power of two, well above the number of keys; changes: room to write them, 0: count."""
        rows = len(stream)
        self._run = sum_and_average if is_sum else count_and_max
        self._inputs = (stream.ts, stream.key, stream.value, size_us)
        self._rows = np.zeros(rows, np.int32), np.zeros((2, 0 if is_sum else rows), np.int32)
        self._groups = (
            np.zeros(slots, np.int64), np.zeros(slots, np.uint8), np.zeros(slots, np.int64),
            np.zeros(slots, np.int64), np.zeros((2, slots), np.int32), np.zeros((3, slots)),
            np.zeros((3, slots)),
        )  # fmt: skip
        self._out = COUNTED
        if changes:
            self._out = (
                np.zeros(changes, np.int64), np.zeros(changes, np.int8), np.zeros(changes, np.int64),
                np.zeros((2, changes)),
            )  # fmt: skip

    def reset(self) -> None:
        _, used, seen, _, ends, now, was = self._groups
        used[:], seen[:], ends[:] = 0, 0, -1
        now[:], was[:] = 0, 0

    def run(self) -> int:
        """How many changes there are."""
        return int(self._run(*self._inputs, *self._rows, self._groups, self._out))

    def changes(self) -> tuple[NDArray, ...]:
        """ts, sign, key and the two aggregates of all changes."""
        self.reset()
        found = self.run()
        ts, sign, key, value = self._out
        return ts[:found], sign[:found], key[:found], value[0, :found], value[1, :found]
