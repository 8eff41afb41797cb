"""Two lists of pairs in time order become one."""

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
