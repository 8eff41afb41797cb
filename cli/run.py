"""`penstock run`: queries over files, results to standard output or files."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .options import (
    InputCommand,
    Seconds,
    Speed,
    input_option,
    memory_options,
    plan_options,
    queries_argument,
    time_unit_option,
)
from .read_options import make_rules, read_options

if TYPE_CHECKING:
    from penstock.api import Engine
    from penstock.connectors.writers import OutputFormat

    from .drive import Driver
    from .results import Results

FILE_SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl"}
RATED_S = 1.0

EPILOG = """\b
Example:
  penstock run queries.sql -i temperature=temps.parquet -i humidity='hum/*.csv' -o results/

Inputs are Parquet, CSV with a header row, JSON lines or Arrow IPC, by extension or else by content, also
compressed (.gz, .zst, .bz2, .lz4); `-` is standard input. Files of one pattern are read one after the other
in natural order; several -i of one stream are merged by time. Integers for a TIMESTAMP are microseconds, or
what its UNIT or --time-unit says; times without a zone are UTC. Rows in messages count from 1, the header
left out.
"""


@click.command(cls=InputCommand, epilog=EPILOG)
@queries_argument
@input_option("The file or pattern a stream is read from; repeatable.")
@time_unit_option
@click.option("-o", "--output", metavar="DIR", help="Write one file per query here, not to standard output.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    help="Of the files in DIR.  [default: parquet]",
)
@click.option("--overwrite", is_flag=True, help="Replace result files that exist.")
@click.option(
    "--flush-every",
    type=Seconds(),
    default="5s",
    show_default=True,
    metavar="TIME",
    help="How long results wait in memory; Parquet of a longer run is a folder of files.",
)
@read_options
@plan_options
@memory_options
@click.option(
    "--speed", type=Speed(), metavar="10x", help="Replay at this multiple of the streams' own time."
)
@click.option("--drain", is_flag=True, help="At the end let time pass until all bounded windows are empty.")
@click.option("-q", "--quiet", is_flag=True, help="No notes and no summary on standard error.")
def run(
    queries: str,
    inputs: tuple[str, ...],
    time_units: tuple[str, ...],
    output: str | None,
    format_: OutputFormat | None,
    overwrite: bool,
    flush_every: float,
    sharing: str,
    index: str,
    expiry: str,
    modes: str | Mapping[str, str],
    optimize: str,
    disorder: str,
    memory_limit: str | None,
    spool: str | None,
    spool_limit: str | None,
    speed: float | None,
    drain: bool,
    quiet: bool,
    **reading: Any,
) -> None:
    """Run the queries of a file over streams read from files.

    Without -o, results go to standard output, one JSON object per line, with the query's name.
    """
    from penstock.engine.rows.errors import UsageError

    from .drive import Driver
    from .interrupts import Interrupts
    from .progress import Progress
    from .results import Results
    from .session import find_files_read, load_engine, load_tables, note, open_feeds, streams_read

    if format_ is not None and output is None:
        raise UsageError("Expected -o DIR with --format, found none; standard output is always JSON lines")
    if queries == "-" and any(text.partition("=")[2].strip() == "-" for text in inputs):
        raise UsageError("Expected `-` (standard input) for the queries or an input, found it for both")
    if output is not None:
        check_folder(output)
    started = time.perf_counter()
    memory = {"disorder": disorder, "memory_limit": memory_limit, "spool": spool, "spool_limit": spool_limit}
    engine = load_engine(queries, sharing, index, expiry, quiet, modes, optimize, **memory)
    if not inputs:
        refuse_no_input(engine)
    driver = Driver(engine)
    files_read = find_files_read(engine, queries, inputs)
    tell = None if quiet else note
    rules = make_rules(tell, files_read, overwrite, **reading)
    with ExitStack() as stack:
        if rules.bad_rows is not None:
            stack.callback(rules.bad_rows.close)
        feeds = open_feeds(engine, inputs, time_units, rules)  # first: one pipe may be written for all
        for feed in feeds:
            stack.callback(feed.close)
        tables = load_tables(engine, inputs, time_units, rules)
        if not quiet:
            note_missing_inputs(engine, {*tables, *(feed.stream for feed in feeds)})
        interrupts = stack.enter_context(Interrupts())
        results = stack.enter_context(
            Results(
                engine.queries, interrupts, files_read, output, format_ or "parquet", overwrite, flush_every
            )
        )
        is_seen = output is None and sys.stdout is not None and sys.stdout.isatty()
        shown = sys.stderr.isatty() and not quiet and not is_seen
        progress = stack.enter_context(Progress(driver, feeds, shown=shown))

        def update() -> None:
            progress()
            results.look()

        from penstock.connectors.merge import read_in_time_order, replay

        read = streams_read(engine).values()
        steps = read_in_time_order(feeds, read) if speed is None else replay(feeds, speed)
        driver.run(steps, update, drain)
    if not quiet:
        left_out = 0 if rules.bad_rows is None else rules.bad_rows.count
        for line in summarise(engine, driver, results, time.perf_counter() - started, left_out):
            note(line)
    if driver.first_failure is not None:
        raise click.exceptions.Exit(driver.first_failure.exit_code)


def check_folder(output: str) -> None:
    """Whoever names a file after -o is told what to write instead."""
    from penstock.engine.rows.errors import UsageError

    if os.path.isdir(output):
        return
    stem, suffix = os.path.splitext(output)
    if suffix.lower() in FILE_SUFFIXES:
        wanted = shlex.join(["-o", stem, "--format", FILE_SUFFIXES[suffix.lower()]])
        raise UsageError(f"Expected a folder after -o, found `{output}`; write `{wanted}`")
    if os.path.lexists(output):
        raise UsageError(f"Expected a folder after -o, found the file `{output}`")


def refuse_no_input(engine: Engine) -> None:
    """Without any -i, streams that queries read were forgotten, not meant to be empty."""
    from penstock.engine.rows.errors import UsageError

    from .session import streams_read

    for stream in (stream for streams in streams_read(engine).values() for stream in streams):
        raise UsageError(f"Expected an input, found none; write -i {stream}=FILE")


def note_missing_inputs(engine: Engine, given: set[str]) -> None:
    """A stream that a query reads and no -i names is empty: that may be meant, so it is only said."""
    from .session import note, streams_read

    read = dict.fromkeys(stream for streams in streams_read(engine).values() for stream in streams)
    for stream in read:
        if stream not in given:
            note(f"Note: no -i for the stream `{stream}`: it is empty")
    for table in dict.fromkeys(table for query in engine.queries.values() for table in query.tables):
        if table not in given:
            note(f"Note: no -i for the table `{table}`: it is empty")


def summarise(
    engine: Engine, driver: Driver, results: Results, seconds: float, left_out: int = 0
) -> list[str]:
    """A line per query (rows of its streams, results, seconds of work, file), then one for the run."""
    from .session import streams_read

    stats = engine.stats()
    read = streams_read(engine)
    rows = []
    for name, query in engine.queries.items():
        rows_in = sum(stats["streams"][stream]["rows_in"] for stream in read[name])
        busy_s = sum(operator["busy_s"] for operator in stats["queries"][name]["operators"])
        ending = "".join(
            f"  {word}"
            for word in (results.path_of(name), stats["queries"][name]["error"] and "stopped")
            if word
        )
        rows.append((name, count(rows_in, "row"), count(query.count, "result"), f"{busy_s:.2f} s", ending))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}{row[4]}"
        for row in rows
    ]
    late, ahead = (sum(one[key] for one in stats["streams"].values()) for key in ("rows_late", "rows_ahead"))
    dropped = f", {count(late, 'late row')} dropped" if late else ""
    dropped += f", {count(ahead, 'row')} ahead dropped" if ahead else ""
    dropped += f", {count(left_out, 'bad row')} left out" if left_out else ""
    # A short run is mostly its start: a rate would say nothing about the engine.
    rate = f", {driver.rows / seconds:,.0f} rows/s" if seconds >= RATED_S else ""
    return [*lines, f"{count(driver.rows, 'row')} in {seconds:.2f} s{rate}{dropped}"]


def count(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
