"""What has come to a side of a join, and what probers found there: what costs are worked out from.

In:      how many rows came and were kept, how many pairs were found of how many that could have been.
Kept:    counts, here and in the joins that this one goes on for; what they were at the last two looks;
         of some of the rows that came last, how long they live and what they satisfy.
Dropped: samples when members have changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS

SAMPLE_ROWS = 512  # of a batch that are remembered


class Look(NamedTuple):
    """What has come to a side up to a time, and how many of its rows probers found and could have found."""

    rows_in: int = 0
    rows_kept: int = 0
    found: int = 0
    met: int = 0
    ts: int | None = None
    """None: the beginning."""


class Seen:
    """Nothing yet."""

    def __init__(self) -> None:
        self.rows_in = 0
        self.rows_kept = 0
        self.found = 0
        """Pairs found by probing this side."""
        self.met = 0
        """Live rows of this side that its probers could have matched: found / met is the selectivity."""
        self._before = 0, 0
        """The same two of a join that this one goes on for."""
        self.rows_before = 0, 0
        """Rows of these in and kept by that join."""
        self.looks = Look(), Look()
        """What had come at the last two looks at how rows are kept, the older first."""
        self.first_ts: int | None = None
        self.last_ts = 0
        self.lifetimes: NDArray = NO_ROWS
        """How long some of the rows of the last batches live, 0: not needed; all alike if there are none."""
        self.sample: tuple[NDArray, NDArray] | None = None
        """Leaves and words of some of the rows that came last, needed or not."""

    def come(self, ts: NDArray, kept: int) -> None:
        """Rows with these times have come, and so many of them are kept."""
        self.rows_in += len(ts)
        self.rows_kept += kept
        self.first_ts = int(ts[0]) if self.first_ts is None else self.first_ts
        self.last_ts = int(ts[-1])

    def find(self, pairs: int) -> None:
        """Probers have found so many rows."""
        self.found += pairs

    def meet(self, rows: int) -> None:
        """Probers could have found so many."""
        self.met += rows

    @property
    def now(self) -> Look:
        """What has come so far."""
        found, met = self._before[0] + self.found, self._before[1] + self.met
        return Look(self.rows_in, self.rows_kept, found, met, self.last_ts)

    @property
    def recently(self) -> Look:
        """What has come since the last look but one: streams change, and what was long ago says little."""
        now, then = self.now, self.looks[0]
        return Look(
            now.rows_in - then.rows_in, now.rows_kept - then.rows_kept, now.found - then.found,
            now.met - then.met, now.ts,
        )  # fmt: skip

    def look(self) -> None:
        """How rows are kept is thought over now: what comes is measured since the look before."""
        self.looks = self.looks[1], self.now

    def follow(self, former: Seen) -> None:
        """Count on from where another side over the same stream was."""
        self.rows_before = self.rows_in, self.rows_kept = former.rows_in, former.rows_kept
        self.first_ts, self.last_ts = former.first_ts, former.last_ts
        self._before = former._before[0] + former.found, former._before[1] + former.met
        self.looks = former.looks

    # -- samples ------------------------------------------------------------------------------------

    def forget_samples(self) -> None:
        """Others ask for something else now."""
        self.lifetimes, self.sample = NO_ROWS, None

    def sample_lifetimes(self, lifetime: NDArray) -> None:
        """Remember how long some rows live."""
        some = lifetime[:: 1 + len(lifetime) // SAMPLE_ROWS]
        self.lifetimes = np.concatenate([self.lifetimes, some])[-4 * SAMPLE_ROWS :]

    def sample_tags(self, leaves: NDArray, words: NDArray) -> None:
        """Remember what some rows satisfy."""
        some = slice(None, None, 1 + leaves.shape[1] // SAMPLE_ROWS)
        known = (leaves[:, :0], words[:, :0]) if self.sample is None else self.sample
        self.sample = (
            np.hstack([known[0], leaves[:, some]])[:, -4 * SAMPLE_ROWS :],
            np.hstack([known[1], words[:, some]])[:, -4 * SAMPLE_ROWS :],
        )

    def _check_restored(self) -> None:
        expect(min(self.rows_in, self.rows_kept, self.found, self.met) >= 0, "counts of rows")
        if self.sample is not None:
            leaves, words = self.sample
            expect(leaves.shape[1] == words.shape[1], "leaves and words of the same rows")
