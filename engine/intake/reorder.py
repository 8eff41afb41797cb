"""Rows waiting for older ones: put in as they come, taken out in time order.

    runs    [ large, sorted . . . . . . . . ] [ smaller . . . ] [ small . ]      in order of arrival

A push becomes a sorted run. A run that is not much smaller than the one before it is merged with it, so there
are few runs and a row is sorted a logarithmic number of times. Rows of one ts keep their order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.views.view_memory import copied_bytes


class Reorder:
    """Held rows, in runs that are each in time order."""

    def __init__(self) -> None:
        self._runs: list[Batch] = []

    def __len__(self) -> int:
        return sum(run.length for run in self._runs)

    def add(self, rows: Batch) -> None:
        """Hold rows, in any order."""
        self._runs.append(in_time_order([rows]))
        while len(self._runs) > 1 and 2 * self._runs[-1].length > self._runs[-2].length:
            last = self._runs.pop()
            self._runs[-1] = in_time_order([self._runs[-1], last])

    def release(self, ts: int) -> Batch | None:
        """Take out the rows up to `ts`, in time order; None if there are none."""
        taken: list[Batch] = []
        kept: list[Batch] = []
        for run in self._runs:
            stop = int(run.ts.searchsorted(ts, side="right"))
            if stop:
                taken.append(run.slice(0, stop))
            if stop < run.length:
                kept.append(run.slice(stop, run.length))
        self._runs = kept
        return in_time_order(taken) if taken else None

    @property
    def times(self) -> list[NDArray]:
        """Of each run."""
        return [run.ts for run in self._runs]

    @property
    def runs(self) -> Sequence[Batch]:
        """Rows that wait."""
        return self._runs

    @property
    def bytes(self) -> int:
        """About what the held rows take."""
        return round(sum(map(copied_bytes, self._runs)))

    @property
    def earliest(self) -> int | None:
        return min((int(run.ts[0]) for run in self._runs), default=None)


def in_time_order(runs: list[Batch]) -> Batch:
    """The rows of some batches, given in order of arrival, as one batch in time order."""
    rows = concatenate(runs)
    if bool((rows.ts[1:] >= rows.ts[:-1]).all()):
        return rows
    return rows.take(np.argsort(rows.ts, kind="stable"))
