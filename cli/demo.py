"""`penstock demo`: three queries over an hour of sensor readings, from files to results, in seconds."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.api import Engine
    from penstock.connectors.merge import Feed

    from .demo_page import Page

LIVE_S = 8.0
SHOWN_RESULTS = 3


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("penstock-demo"),
    show_default=True,
    help="Where the demo's files go.",
)
def demo(folder: Path) -> None:
    """See it work on generated sensor data.

    Writes an hour of two streams as Parquet and CSV files, runs three queries over them, and shows results,
    what they share, the plan and how fast it was.
    """
    from .demo_data import HOUR_S, QUERIES
    from .demo_page import Page
    from .explain import explain_plan

    page = Page()
    page.title("Penstock: three standing questions over two sensor streams")
    rows = prepare(folder)
    page.say(f"Wrote {rows:,} readings, an hour of two streams, into {folder}/")
    page.heading("The questions: asked once, answered as the data comes")
    page.sql(QUERIES)

    page.heading("The whole hour, as fast as this machine goes")
    apart = run_fast(folder, "unshared")  # first: it also pays for loading what both need
    fast = run_fast(folder)
    if fast.has_compiled:  # a first run says more about the compiler than about the engine
        fast = run_fast(folder)
    for name, batch in fast.samples.items():
        page.results(name, fast.counts[name], batch)
    page.say(
        f"{fast.rows:,} rows through {len(fast.counts)} queries in {fast.seconds:.2f} s,"
        f" reading the files included: {fast.rows / fast.seconds:,.0f} rows/s"
    )
    assert apart.counts == fast.counts, "a join each gives other results than one for all"
    page.say(
        f"The three share one join: it kept {fast.most_kept:,} rows at most, three joins {apart.most_kept:,}."
    )
    if sys.stdout.isatty():
        speed = HOUR_S / LIVE_S
        page.heading(f"The same hour again, {speed:.0f} times as fast as it happened")
        run_live(folder, speed, page)

    page.heading("How it is done (this is penstock explain)")
    page.plan(explain_plan(str(folder / "queries.sql"), name_inputs(folder)))
    page.heading("Now you")
    page.command(command_line(folder))
    page.say(f"Change the questions in {folder / 'queries.sql'}, or name files of your own after -i.")


@dataclass(frozen=True, slots=True)
class FastRun:
    """What one pass over the files gave.

    samples: the first results of each query. most_kept: rows all joins together held, where it was most.
    """

    rows: int
    seconds: float
    most_kept: int
    counts: dict[str, int]
    samples: dict[str, pa.RecordBatch]
    has_compiled: bool


def prepare(folder: Path) -> int:
    """Writes the files into a folder of their own; returns how many rows that is."""
    from penstock.connectors.writing import writing
    from penstock.engine.rows.errors import UsageError

    from .demo_data import QUERIES, write_demo

    queries = folder / "queries.sql"
    with writing(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        # Whoever changed the questions, as we ask them to, keeps the declarations at the top.
        is_ours = queries.is_file() and queries.read_text(errors="replace")[:100] == QUERIES[:100]
        if any(folder.iterdir()) and not is_ours:
            raise UsageError(
                f"Expected an empty folder for the demo, found files in `{folder}`; give another --dir"
            )
        return write_demo(folder)


def name_inputs(folder: Path) -> list[str]:
    return [f"temperature={folder / 'temperature.parquet'}", f"humidity={folder / 'humidity.csv'}"]


def command_line(folder: Path) -> str:
    """The command that does the same again, a line per input."""
    lines = [shlex.join([*program(), "run", str(folder / "queries.sql")])]
    lines += [shlex.join(["-i", text]) for text in name_inputs(folder)]
    return " \\\n  ".join(lines)


def program() -> list[str]:
    """The words that start this program: its name if the shell would find it, else as it was started."""
    started = sys.argv[0]
    if os.path.basename(started) == "__main__.py":
        return [sys.orig_argv[0], "-m", "penstock.cli"]
    found = shutil.which("penstock")
    return ["penstock"] if found is not None and os.path.samefile(found, started) else [started]


def start(folder: Path, sharing: str = "auto") -> tuple[Engine, list[Feed]]:
    from .session import load_engine, open_feeds

    engine = load_engine(str(folder / "queries.sql"), sharing, "auto")
    return engine, open_feeds(engine, name_inputs(folder))


def run_fast(folder: Path, sharing: str = "auto") -> FastRun:
    """All rows, without waiting for their time."""
    from penstock.compile_notice import compile_notice
    from penstock.connectors.merge import read_in_time_order

    from .drive import Driver

    compiled = compile_notice.count
    engine, feeds = start(folder, sharing)
    samples: dict[str, list[pa.RecordBatch]] = {name: [] for name in engine.queries}
    for name, query in engine.queries.items():
        query.subscribe(samples[name].append)
    kept: list[int] = []
    began = time.perf_counter()
    driver = Driver(engine)
    driver.run(read_in_time_order(feeds), lambda: kept.append(rows_kept(engine)))
    seconds = time.perf_counter() - began
    counts = {name: query.count for name, query in engine.queries.items()}
    first = {name: batches[0].slice(0, SHOWN_RESULTS) for name, batches in samples.items() if batches}
    return FastRun(driver.rows, seconds, max(kept), counts, first, compile_notice.count > compiled)


def rows_kept(engine: Engine) -> int:
    """Rows that the operators hold, shared or not."""
    stats = engine.stats()
    owners = [*stats["queries"].values(), *stats["groups"]]
    return sum(operator["state_rows"] for owner in owners for operator in owner["operators"])


def run_live(folder: Path, speed: float, page: Page) -> None:
    """All rows at `speed` times their own pace, results on the screen as they come."""
    from penstock.connectors.merge import replay

    from .drive import Driver

    engine, feeds = start(folder)
    driver = Driver(engine)
    with page.live(list(engine.queries)) as screen:
        for name, query in engine.queries.items():
            query.subscribe(partial(screen.receive, name))
        driver.run(replay(feeds, speed), lambda: screen.update(driver.rows, driver.now_us))
        screen.finish(driver.rows, driver.now_us)
