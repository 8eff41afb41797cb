"""Rows far ahead of their stream: a clock that is wrong must not move time.

A row is ahead if its ts is more than `limit_us` above how far the stream has come: the greatest ts that was
taken, or what an advance said. It is not taken, and time stays. A stream may have jumped, though: when `rows`
of them have come in a row that agree, the last one is taken, and time is there.

    limit 10    taken  1  2           3           60 61
                ahead        90 91       58 59                 three that agree: 60 is believed

Rows agree if they would do for a stream of their own: each is within the slack of those before it in the run,
and not ahead of them. A row that is taken ends the run; one that is late does not matter. Before a first row
there is nothing to be ahead of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows.ahead import AHEAD, LATE, judge_rows
from penstock.engine.rows.batch import NO_ROWS

from .ahead_rule import AheadRule


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a push: positions of its late rows and of those ahead, and the run after it."""

    late: NDArray
    ahead: NDArray
    run: int
    run_latest: int
    jumps: int


class Ahead:
    """One stream's rows ahead: the run at present, and what has been counted."""

    def __init__(self, rule: AheadRule) -> None:
        self.rule = rule
        self.rows = 0
        """Rows that were dropped."""
        self.jumps = 0
        """How often rows in a row were believed."""
        self._run = 0
        self._run_latest = 0

    def judge(
        self, ts: NDArray, latest: int | None, watermark: int, slack_us: int, is_refusing: bool
    ) -> Verdict:
        """Look at rows in the order they came; latest: the greatest ts taken so far.

        is_refusing: up to the first that is not taken, since the whole push will not be.
        """
        verdicts = np.zeros(len(ts), np.uint8)
        judged, run, run_latest, jumps = judge_rows(
            ts, verdicts, latest or 0, latest is not None, watermark, slack_us,
            self.rule.limit_us, self.rule.rows, self._run, self._run_latest, is_refusing,
        )  # fmt: skip
        seen = verdicts[:judged]
        return Verdict(np.flatnonzero(seen == LATE), np.flatnonzero(seen == AHEAD), run, run_latest, jumps)

    def refuse(self, verdict: Verdict) -> None:
        """A push was refused for a row ahead: that row has come, the others have not."""
        self._run, self._run_latest = verdict.run, verdict.run_latest

    def take(self, verdict: Verdict) -> None:
        """A push was taken in but for its late rows and those ahead."""
        self._run, self._run_latest = verdict.run, verdict.run_latest
        self.rows += len(verdict.ahead)
        self.jumps += verdict.jumps

    def pass_by(self, late: NDArray, rows: int) -> Verdict:
        """What there is to say of a push of so many rows none of which is ahead."""
        run = self._run if len(late) == rows else 0
        return Verdict(late, NO_ROWS, run, self._run_latest, 0)

    def _check(self) -> None:
        assert 0 <= self._run < self.rule.rows, "a run that is long enough is over"
