"""Neighbouring slices that only count, one after the other: each works all that is in the queue before it.

What a slice passes on is in one of two tables, queues[0] and queues[1] (int64[FIELDS, room] each), until the
next slice has worked it. The states of all slices are in one flat array; `regions` says from where to where,
and there a state is int64[2, STATE_FIELDS, room]. See slice_join.py for references and states.

ranges, int64[slices, RANGE_SLOTS]: where a slice begins and ends, the ages at which females of either side
leave it, the place of its counter in `tally`, and whether its pairs are told apart by age.
flows, int64[slices, 2]: references taken and pairs found so far.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel, part
from penstock.engine.kernels.joins.slices import slice_of

from .slice_join import AGE, AT_RECORD, CLOCK, KIND, MALE, STATE_FIELDS, STATE_POS, TIME, run_slice

START, END, LIMIT, PLACE, IS_APART = 0, 1, 2, 4, 5
RANGE_SLOTS = 6

NEVER = -(1 << 62)  # before all times; less their pos it is still a number
FULL = 0.75  # of a state's room; if less is in use, its females are moved to the front


@part
def make_room(state, spans, rows):  # type: ignore[no-untyped-def]
    """Whether so many females more of either side have room, once those there are moved to the front."""
    room = state.shape[2]
    for side in range(2):
        first, until = spans[side, 0], spans[side, 1]
        if until + rows <= room:
            continue
        if until - first + rows > FULL * room:
            return False
        for field in range(STATE_FIELDS):
            for n in range(first, until):
                state[side, field, n - first] = state[side, field, n]
        spans[side, 0], spans[side, 1] = 0, until - first
    return True


@part
def count_leaving(state, spans, clocks, limits):  # type: ignore[no-untyped-def]
    """How many females of both sides leave a slice until the last time they are looked at."""
    leaving = 0
    for side in range(2):
        n = spans[side, 0]
        while n < spans[side, 1] and clocks[side] - state[side, STATE_POS, n] >= limits[side]:
            n += 1
        leaving += n - spans[side, 0]
    return leaving


@kernel
def run_slices(  # type: ignore[no-untyped-def]
    records, first, states, regions, spans, ranges, is_last, queues, pairs, slices, tally, flows, met
):
    """Work `records` in the slices from `first` on. Returns (slice, queue, references).

    That is the slice that lacks room, for so many references, which wait in queues[queue], or in `records`
    if queue is -1: its state, or the other queue, is too small. Or it is the number of slices if all is
    done: then so many references that the last one has passed on are in queues[queue].

    tally: int64 counters by age, added to; those of slices that are told apart are found by `slices` (ends,
    first, shift), see slices.py. pairs: int64[PAIR_FIELDS, room > 0], scratch. met: as in run_slice.
    """
    clocks = np.full(2, NEVER, np.int64)
    lasting = 0  # males and times, which pass all slices
    for n in range(records.shape[1]):
        kind = records[KIND, n]
        lasting += kind >= MALE
        if kind == TIME:
            clocks[0], clocks[1] = records[CLOCK, n], records[CLOCK + 1, n]
        elif kind >= MALE:
            clocks[MALE + 1 - kind] = records[CLOCK, n]
    cursor = np.zeros(3, np.int64)
    ends, buckets, shift = slices
    source, queue, stop = records, -1, records.shape[1]
    for at in range(first, len(regions)):
        begin, end = regions[at, 0], regions[at, 1]
        state = states[begin:end].reshape((2, STATE_FIELDS, (end - begin) // (2 * STATE_FIELDS)))
        limits = ranges[at, LIMIT : LIMIT + 2]
        # 1. is there room?
        if stop + count_leaving(state, spans[at], clocks, limits) > queues[0].shape[1]:
            return at, queue, stop
        if not make_room(state, spans[at], stop - lasting):
            return at, queue, stop
        # 2. work
        onward = queues[0] if queue == 1 else queues[1]
        is_apart = ranges[at, IS_APART] != 0
        passes_none = is_last and at == len(regions) - 1
        cursor[:] = 0
        passed = total = 0
        while cursor[AT_RECORD] < stop:
            passed, found = run_slice(
                source, stop, cursor, state, spans[at], ranges[at, START], ranges[at, END], limits,
                passes_none, onward, passed, pairs, not is_apart, met,
            )  # fmt: skip
            total += found
            # 3. count
            if is_apart:
                for n in range(found):
                    tally[slice_of(pairs[AGE, n], ends, buckets, shift)] += 1
            else:
                tally[ranges[at, PLACE]] += found
        flows[at, 0] += stop
        flows[at, 1] += total
        queue = 1 - max(queue, 0)
        source, stop = onward, passed
    return len(regions), queue, stop
