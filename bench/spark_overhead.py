"""The sink against pushing the same Arrow tables straight into an engine, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock

from .outcome import Outcome
from .spark_input import W1Files, count_results, feed, scratch, write_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.connectors.spark import Sink

GROUP = "W1 through the sink"
PHASES = {
    "read": "Parquet read, rows to Arrow",
    "sort": "split by stream, sorted by time",
    "push": "pushed: the join",
    "results": "results to Spark and to files",
    "save": "state saved",
}


def bench_overhead(outcome: Outcome, spark: SparkSession, files: W1Files, folder: Path) -> None:
    """Each way twice; the second run counts."""
    from penstock.connectors.spark import tag_streams

    united = tag_streams(files.streams)

    def run_feed(function: Any) -> float:
        with scratch(folder) as here:
            began = time.perf_counter()
            feed(united, function, here)
            return time.perf_counter() - began

    for _ in range(2):
        direct_s, direct = push_directly(files)
        sink_s, sink, given = run_sink(files, folder)
        idle_s = run_feed(lambda frame, batch: None)
        reading_s = run_feed(lambda frame, batch: frame.write.format("noop").mode("overwrite").save())
    outcome.compare(GROUP, {"direct": {direct}, "sink": {given}})
    note = f"{files.rows:,} rows in {files.batches} batches"
    outcome.add(GROUP, "through the sink", files.rows / sink_s, "rows/s", note=note)
    outcome.add(GROUP, "the same tables pushed directly", files.rows / direct_s, "rows/s")
    outcome.add(GROUP, "the sink against that", direct_s / sink_s, "x")
    group = "Where the time of the sink goes"
    for phase, name in PHASES.items():
        share = f"{sink.seconds[phase] / sink_s:.0%}"
        if phase == "read":
            share += (
                f"; Spark takes {max(0, reading_s - idle_s):.2f} s to read the files and do nothing with them"
            )
        outcome.add(group, name, sink.seconds[phase], "s", note=share)
    rest_s = sink_s - sum(sink.seconds.values())
    note = f"{rest_s / sink_s:.0%}; {idle_s:.2f} s with a sink that does nothing"
    outcome.add(group, "Spark's own: offsets, commits, planning", rest_s, "s", note=note)


def push_directly(files: W1Files) -> tuple[float, int]:
    """An engine alone, results as Arrow after each batch."""
    engine = penstock.Engine()
    for name in files.slices:
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, key BIGINT, value DOUBLE)")
    engine.execute(write_queries(1))
    query = engine.queries["q0"]
    began = time.perf_counter()
    results = 0
    for parts in zip(*files.slices.values(), strict=True):
        for name, part in zip(files.slices, parts, strict=True):
            engine.push(name, part)
        results += query.results().num_rows
    engine.close()
    results += query.results().num_rows
    return time.perf_counter() - began, results


def run_sink(
    files: W1Files, folder: Path, number: int = 1, compared: Sequence[int] = (0,)
) -> tuple[float, Sink, int]:
    """Seconds of as many queries, the sink, and what came out of those to be compared."""
    from penstock.connectors.spark import sink, tag_streams

    with scratch(folder) as here:
        began = time.perf_counter()
        writer = sink(write_queries(number), streams=files.streams, state=here / "state", path=here / "out")
        feed(tag_streams(files.streams), writer, here)
        writer.close()
        elapsed_s = time.perf_counter() - began
        return elapsed_s, writer, count_results(here / "out", compared)
