"""The net changes of each instant: what enters and leaves in the same instant was never in the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .batch import Batch
from .fingerprint import fingerprint
from .kernels.net import cancel_few
from .types import SqlType


def net_changes(batch: Batch, types: Sequence[SqlType]) -> Batch:
    """The batch without pairs of +1 and -1 of equal rows at one ts, and in each instant the -1 first."""
    sign = batch.sign
    if sign is None or bool((sign == sign[0]).all()):
        return batch
    a, b = fingerprint([batch.column(i) for i in range(batch.width)], types, batch.length)
    keep, many = np.ones(batch.length, np.uint8), np.zeros(batch.length, np.uint8)
    if cancel_few(batch.ts, sign, a, b, keep, many):
        rows = np.flatnonzero(many)
        keep[rows] = cancel_sorted(batch.ts[rows], sign[rows], a[rows], b[rows])
    kept = np.flatnonzero(keep)
    order = np.lexsort((sign[kept], batch.ts[kept]))
    return batch.take(kept[order])


def cancel_sorted(ts: NDArray, sign: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """The same by sorting: 1 for each row that stays."""
    order = np.lexsort((b, a, ts))
    ts, a, b, signs = ts[order], a[order], b[order], sign[order].astype(np.int64)
    begins = np.ones(len(ts), bool)
    begins[1:] = (ts[1:] != ts[:-1]) | (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    group = np.cumsum(begins) - 1
    net = np.bincount(group, signs).astype(np.int64)[group]
    # Of each group, as many rows of the sign of its net as that is.
    wanted = signs == np.sign(net)
    place = np.cumsum(wanted)
    first = np.flatnonzero(begins)[group]
    before = place[first] - wanted[first]
    keep = np.zeros(len(ts), np.uint8)
    keep[order] = wanted & (place - before <= np.abs(net))
    return keep
