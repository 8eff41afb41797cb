"""`penstock bench hopping`: hopping queries in every mode and plan, against DuckDB, and many against one.

Figures 7.1 to 7.6 of the thesis on multi-mode hopping windows, GROUP BY by panes and an anti join against
DuckDB, and 100 aggregates over one stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .hopping_aggregates import bench_many, bench_one
from .hopping_antijoin import bench_antijoin
from .hopping_modes import bench_modes
from .hopping_shapes import bench_searches, bench_shapes
from .outcome import Outcome

CAPTION = (
    "Speeds and ratios are of processor time, best run, unless the note says otherwise. Rows per second are "
    "rows pushed; every hop's answer is delivered or counted, and the same as DuckDB's or of all modes."
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: rows and rounds of the races, the figures' points and rounds, random plans."""

    rows: int
    rounds: int
    ratios: tuple[float, ...]
    windows_s: tuple[int, ...]
    figure_rounds: int
    plans: int


FULL = Size(
    rows=1_000_000, rounds=3, ratios=(0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
    windows_s=(5, 10, 20, 30, 40), figure_rounds=5, plans=1_000,
)  # fmt: skip
QUICK = Size(
    rows=150_000, rounds=2, ratios=(0.02, 0.1, 0.4, 1.0), windows_s=(5, 20), figure_rounds=2, plans=100
)


def bench_hopping(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above; pictures go into `out`."""
    outcome = Outcome("hopping", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("modes over hop and window")
    bench_modes(outcome, size.ratios, size.windows_s, size.figure_rounds, out)
    tell("plans")
    bench_searches(outcome, size.plans, out)
    bench_shapes(outcome, size.windows_s, size.figure_rounds, out)
    tell("GROUP BY, against DuckDB")
    bench_one(outcome, size.rows, size.rounds)
    tell("anti join, against DuckDB")
    bench_antijoin(outcome, size.rows, size.rounds)
    tell("GROUP BY, many queries")
    bench_many(outcome, size.rows, size.rounds)
    return outcome
