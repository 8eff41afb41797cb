"""`penstock bench`: what we claim, measured. Benches by name, run one after the other."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from penstock.engine.rows.errors import UsageError, did_you_mean

from .outcome import Outcome
from .report import save, show

Tell = Callable[[str], None]
Bench = Callable[[bool, Path, Tell], Outcome]

FILE_WIDTH = 140  # columns, when the output is not a terminal
EXTRA = ("duckdb", "polars", "matplotlib")


def run_join(quick: bool, out: Path, tell: Tell) -> Outcome:
    """One window join: bare loops, DuckDB, Polars, the paper's figures, memory."""
    from penstock.optimizer.calibrate.calibrate import calibrate

    from .join import FULL, QUICK, bench_join

    tell("weights of the cost model")
    return bench_join(QUICK if quick else FULL, out, tell, calibrate(quick=quick))


def run_sharing(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Many queries over the same streams: sharing strategies, other systems, the paper's figures."""
    from .sharing import FULL, QUICK, bench_sharing

    return bench_sharing(QUICK if quick else FULL, out, tell)


def run_expiry(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Incremental queries with each approach to expiry: bare loops, other systems, the paper's figures."""
    from .expiry import FULL, QUICK, bench_expiry

    return bench_expiry(QUICK if quick else FULL, out, tell)


def run_hopping(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Hopping queries: modes and plans, the figures of the thesis, against DuckDB, one and many."""
    from .hopping import FULL, QUICK, bench_hopping

    return bench_hopping(QUICK if quick else FULL, out, tell)


def run_threads(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Threads: what a turn costs when nobody waits, engines side by side."""
    from .threads import FULL, QUICK, bench_threads

    return bench_threads(QUICK if quick else FULL, out, tell)


def run_oblivious(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Joins without windows on keys that grow: what is found, held and predicted, how fast."""
    from .oblivious import FULL, QUICK, bench_oblivious

    return bench_oblivious(QUICK if quick else FULL, out, tell)


def run_spark(quick: bool, out: Path, tell: Tell) -> Outcome:
    """Spark in and out: what the sink costs, and what it gains over joins of Spark's own."""
    import penstock.connectors.spark  # noqa: F401  (says what to install, before anything is measured)

    from .spark import FULL, QUICK, bench_spark

    return bench_spark(QUICK if quick else FULL, out, tell)


BENCHES: dict[str, Bench] = {
    "join": run_join,
    "sharing": run_sharing,
    "expiry": run_expiry,
    "hopping": run_hopping,
    "threads": run_threads,
    "oblivious": run_oblivious,
    "spark": run_spark,
}


def run(names: list[str], quick: bool, out: Path) -> int:
    """Run the named benches, all if none is named; 0 if all answers agree, whatever the speeds."""
    for name in names:
        if name not in BENCHES:
            raise UsageError(
                f"Expected a bench, found `{name}`. {did_you_mean(name, BENCHES) or ''}".rstrip()
            )
    missing = [package for package in EXTRA if importlib.util.find_spec(package) is None]
    if missing:
        found = ", ".join(f"`{package}`" for package in missing)
        raise UsageError(
            f"Expected the packages benches compare with, found no {found}: pip install 'penstock[bench]'"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Expected a folder for the results, found `{out}`: {error.strerror}") from None
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    agree = True
    for name in names or list(BENCHES):
        outcome = BENCHES[name](quick, out, lambda line: console.print(f"[dim]{line} ...[/dim]"))
        show(outcome, console, quick)
        written = [save(outcome, out, quick), *(out / picture for picture in outcome.pictures)]
        console.print("Written: " + ", ".join(str(path) for path in written), soft_wrap=True, highlight=False)
        agree &= outcome.agrees
    return 0 if agree else 1
