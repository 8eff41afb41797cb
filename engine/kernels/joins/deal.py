"""Pairs dealt out to a few members: who takes a row is a bit per member, and who takes a pair their AND.

A labelled pair is a column of int64[4, n]: its time, its rows on the left and on the right, its takers. Pairs
of one direction are a run, in time order; what is dealt is the runs together. Places are unsigned where a
pair is looked at, for the reason that hash.py gives.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel

TS, LEFT, RIGHT, TAKERS = range(4)
LABELS = 4
MAX_TAKERS = 62


@kernel
def find_takers(leaves, words, low, high, bits, out):  # type: ignore[no-untyped-def]
    """The members whose demands each row meets, as bits, into `out` (int64).

    leaves: int32[D, n]; words: int64[W, n]; by member: low, high: int32[M, D], bits: int64[M, W].
    """
    for i in range(len(out)):
        takers = np.int64(0)
        for m in range(len(low)):
            fits = np.int64(1)
            for d in range(len(leaves)):
                fits &= np.int64(leaves[d, i] >= low[m, d]) & np.int64(leaves[d, i] <= high[m, d])
            for w in range(len(words)):
                fits &= np.int64((words[w, i] & bits[m, w]) == bits[m, w])
            takers |= fits << m
        out[i] = takers


@kernel
def label_pairs(  # type: ignore[no-untyped-def]
    found, at, count, bound, probers, rows, ends, young, by_age, is_left, out, start
):
    """Label the pairs [at, count) up to the time `bound` that somebody takes: (next pair, next label).

    found: (position of the prober, row), int64 each. probers: (times, references, takers), int64 by position;
    rows: (when they came, base, end, takers, base, what is added to a row to refer to it). Takers: empty if
    all rows have all. ends: int64, ascending: ages at which members stop taking rows, but for the last.
    young: int64, the first row below each of these ages, as far as is known; kept up to date. by_age: int64,
    the takers of rows that are past none, one, ... of them. is_left: whether the rows are on the left.
    out: labels, the caller's, with room for all.
    """
    prober, row = found
    times, refs, own_takers = probers
    pos, pos_base, pos_end, takers, takers_base, ref_base = rows
    out_ts, out_takers = out[TS], out[TAKERS]
    mine, theirs = (out[LEFT], out[RIGHT]) if is_left else (out[RIGHT], out[LEFT])
    n = start
    while at < count:
        # 1. what all pairs of a prober have in common
        p = np.uint64(prober[np.uint64(at)])
        now, ref = times[p], refs[p]
        if now > bound:
            break
        for s in range(len(ends)):
            while young[s] < pos_end and now - pos[young[s] - pos_base] >= ends[s]:
                young[s] += 1
        own = own_takers[p] if len(own_takers) else np.int64(-1)
        end = at
        while end < count and prober[np.uint64(end)] == np.int64(p):
            end += 1
        # 2. its pairs: written whether taken or not, and kept if they are, as a jump would be guessed wrong
        for i in range(at, end):
            r = row[np.uint64(i)]
            past = np.int64(0)
            for s in range(len(ends)):
                past += np.int64(r < young[np.uint64(s)])
            taken = own & by_age[np.uint64(past)]
            if len(takers):
                taken &= takers[np.uint64(r - takers_base)]
            to = np.uint64(n)
            out_ts[to] = now
            mine[to] = r + ref_base
            theirs[to] = ref
            out_takers[to] = taken
            n += np.int64(taken != 0)
        at = end
    return at, n


@kernel
def order_runs(times, starts, order):  # type: ignore[no-untyped-def]
    """Write the order in time of several runs into `order` (int32); equal times by run.

    times: int64, in order within each run; run i is [starts[i], starts[i + 1]).
    """
    runs = len(starts) - 1
    heads = starts[:-1].copy()
    n = 0
    while True:
        # 1. the run that is first, and up to when it stays so
        best, least, limit = -1, np.int64(0), np.int64(0)
        has_limit = False
        for i in range(runs):
            if heads[i] == starts[i + 1]:
                continue
            head = times[heads[i]]
            if best < 0 or head < least:
                if best >= 0:
                    limit, has_limit = least - 1, True  # equal times are the earlier run's
                best, least = i, head
            elif not has_limit or head < limit:
                limit, has_limit = head, True
        if best < 0:
            return
        # 2. its pairs up to then
        at, end = heads[best], starts[best + 1]
        while at < end and (not has_limit or times[np.uint64(at)] <= limit):
            order[np.uint64(n)] = at
            n += 1
            at += 1
        heads[best] = at


@kernel
def count_takers(takers, counts):  # type: ignore[no-untyped-def]
    """Add to each member's count (int64) the pairs that have its bit."""
    for m in range(len(counts)):
        total = np.int64(0)
        for i in range(len(takers)):
            total += (takers[np.uint64(i)] >> m) & 1
        counts[m] += total


@kernel
def deal_pairs(labels, order, member, out_ts, out_left, out_right):  # type: ignore[no-untyped-def]
    """The pairs that have a member's bit, in order, into the outputs: the caller's, with room for one more.

    labels: as above; order: int32, of their columns; member: the place of its bit.
    """
    times, left, right, takers = labels[TS], labels[LEFT], labels[RIGHT], labels[TAKERS]
    n = np.int64(0)
    for place in order:
        i, to = np.uint64(place), np.uint64(n)
        out_ts[to] = times[i]
        out_left[to] = left[i]
        out_right[to] = right[i]
        n += (takers[i] >> member) & 1
