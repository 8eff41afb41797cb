"""The net changes of each instant: what enters and leaves in the same instant was never in the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows.net import cancel_few, cancel_many
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

from .fingerprint import fingerprint


def net_changes(batch: Batch, types: Sequence[SqlType]) -> Batch:
    """The batch without pairs of +1 and -1 of equal rows at one ts, and in each instant the -1 first."""
    sign = batch.sign
    if sign is None or bool((sign == sign[0]).all()):
        return batch
    a, b = fingerprint([batch.column(i) for i in range(batch.width)], types, batch.length)
    keep, many = np.ones(batch.length, np.uint8), np.zeros(batch.length, np.uint8)
    if cancel_few(batch.ts, sign, a, b, keep, many):
        rows = np.flatnonzero(many)
        keep[rows] = cancel_equal(batch.ts[rows], sign[rows], a[rows], b[rows])
    kept = np.flatnonzero(keep)
    order = np.lexsort((sign[kept], batch.ts[kept]))
    return batch.take(kept[order])


def cancel_equal(ts: NDArray, sign: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """The same for any number of changes: 1 for each row that stays."""
    rows = len(ts)
    heads = np.full(1 << max(1, (2 * rows).bit_length()), -1, np.int32)
    keep = np.zeros(rows, np.uint8)
    cancel_many(ts, sign, a, b, heads, np.empty(rows, np.int64), keep)
    return keep
