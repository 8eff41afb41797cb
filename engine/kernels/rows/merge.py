"""Several lists in time order become one."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel


@kernel
def merge_pairs(  # type: ignore[no-untyped-def]
    a_prober, a_row, a_at, a_count, a_done, a_ts, a_first,
    b_prober, b_row, b_at, b_count, b_done, b_ts, b_first,
    out_ts, out_left, out_right,
):  # fmt: skip
    """Pairs of the left's probers (a) and of the right's (b), by the prober's ts, into the three outputs.

    prober: int64 position in that side's batch, whose times are ts and whose first row number is first;
    row: int64 row number on the other side; [at, count) are still to be merged; done: none come after them.
    The outputs have room for both. Stops where a list ends that is not done. Returns (pairs, a_at, b_at).
    """
    n = 0
    while a_at < a_count and b_at < b_count:
        # Which comes first is anyone's guess: chosen by mask, because a wrong guess costs more than the step.
        a, b = a_prober[a_at], b_prober[b_at]
        ta, tb = a_ts[a], b_ts[b]
        is_a = np.int64(ta <= tb)
        mask = -is_a
        left, other_left = a_first + a, b_row[b_at]
        right, other_right = a_row[a_at], b_first + b
        out_ts[n] = tb ^ ((ta ^ tb) & mask)
        out_left[n] = other_left ^ ((left ^ other_left) & mask)
        out_right[n] = other_right ^ ((right ^ other_right) & mask)
        a_at += is_a
        b_at += 1 - is_a
        n += 1
    if b_at == b_count and b_done:
        while a_at < a_count:
            out_ts[n] = a_ts[a_prober[a_at]]
            out_left[n] = a_first + a_prober[a_at]
            out_right[n] = a_row[a_at]
            a_at += 1
            n += 1
    if a_at == a_count and a_done:
        while b_at < b_count:
            out_ts[n] = b_ts[b_prober[b_at]]
            out_left[n] = b_row[b_at]
            out_right[n] = b_first + b_prober[b_at]
            b_at += 1
            n += 1
    return n, a_at, b_at


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
