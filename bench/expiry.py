"""`penstock bench expiry`: what it costs to know that rows have left their windows, approach by approach.

GROUP BY against bare loops and other systems, sums to the last bit, the paper's figures 7 to 10, and how far
the approach chosen by itself is from the best.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .expiry_figures import Behind, Scale, bench_figures
from .expiry_groups import DUE, bench_again, bench_drift, bench_groups
from .outcome import Outcome

CAPTION = (
    "Speeds and ratios are of processor time, best run, unless the note says otherwise. Changes of answers "
    "are counted or delivered as they happen; all approaches must give the same."
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: rows, rounds of each race, the figures' points."""

    rows: int
    drift_rows: int
    rounds: int
    scale: Scale


FULL = Size(
    rows=1_000_000, drift_rows=1_000_000, rounds=3,
    scale=Scale(
        shares=(0.1, 0.25, 0.5, 0.75, 1.0), delay_s=120, multiplicities=(1, 2, 3, 4, 5), messages_s=30,
        capacity_s=3_000, capacity_step_s=100, selectivities=(0.0005, 0.001, 0.0025, 0.005, 0.01),
        busy_s=20, rates=(50, 125, 200, 275, 350), throughput_s=60, rounds=4,
    ),
)  # fmt: skip
QUICK = Size(
    rows=150_000, drift_rows=50_000, rounds=2,
    scale=Scale(
        shares=(0.1, 0.5, 1.0), delay_s=60, multiplicities=(1, 3, 5), messages_s=15, capacity_s=1_500,
        capacity_step_s=100, selectivities=(0.001, 0.005, 0.01), busy_s=10, rates=(50, 200, 350),
        throughput_s=20, rounds=2,
    ),
)  # fmt: skip


def bench_expiry(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above; pictures go into `out`."""
    outcome = Outcome("expiry", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("GROUP BY, bare loops")
    behind = bench_groups(outcome, size.rows, size.rounds)
    tell("GROUP BY, other systems")
    bench_again(outcome, size.rows, min(size.rounds, 2))
    tell("sums of nasty doubles")
    bench_drift(outcome, size.drift_rows)
    tell("the paper's figures")
    behind += bench_figures(outcome, size.scale, out)
    report_auto(outcome, behind)
    return outcome


def report_auto(outcome: Outcome, behind: Behind) -> None:
    """`auto` against the best of the approaches that can be forced."""
    where, ratio = min(behind, key=lambda one: one[1])
    note = f"{where}; {len(behind)} points"
    outcome.add("auto against the best approach", "worst ratio of speeds", ratio, "x", DUE, note)
    outcome.data["auto_against_best"] = dict(behind)
