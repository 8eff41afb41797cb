"""`penstock bench hopping`: hopping queries against DuckDB, and many of them against one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .hopping_aggregates import bench_many, bench_one
from .outcome import Outcome

CAPTION = (
    "Speeds and ratios are of processor time, best run, unless the note says otherwise. Rows per second are "
    "rows pushed; every hop's answer is delivered or counted, and the same as DuckDB's."
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: rows, rounds of each race."""

    rows: int
    rounds: int


FULL = Size(rows=1_000_000, rounds=3)
QUICK = Size(rows=150_000, rounds=2)


def bench_hopping(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above; pictures would go into `out`."""
    outcome = Outcome("hopping", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("GROUP BY, against DuckDB")
    bench_one(outcome, size.rows, size.rounds)
    tell("GROUP BY, many queries")
    bench_many(outcome, size.rows, size.rounds)
    return outcome
