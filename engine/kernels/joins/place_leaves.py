"""How many ROWS windows a row of a pair has left."""

from __future__ import annotations

from penstock.engine.kernels.base.jit import kernel

from .bounds import rows_up_to


@kernel
def place_leaves(ts, places, come_ts, come, sizes, leaves):  # type: ignore[no-untyped-def]
    """Of rows at some places in their stream, the windows of `sizes` rows that each has left at the time of
    its pair.

    ts, places: int64 per pair, ts non-decreasing; come_ts: int64, times of the rows of the stream in this
    batch; come: how many came before it; sizes: int64, ascending. Fills leaves (int32), owned by the caller.
    """
    seen = 0
    for i in range(len(ts)):
        while seen < len(come_ts) and come_ts[seen] <= ts[i]:
            seen += 1
        age = come + seen - 1 - places[i]
        leaves[i] = rows_up_to(age, sizes, 0, len(sizes))
