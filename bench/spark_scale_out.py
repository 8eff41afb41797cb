"""W1 on Spark's executors: an engine per bucket of the key, against the sink's and Spark's own join.

On one machine the buckets share its two cores with everything else that Spark does; what this shows is what
the way through Spark's shuffle and state store costs.
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .outcome import Outcome
from .spark_input import W1Files, feed, scratch, windows_us, write_queries
from .spark_join import spark_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 2
GROUP = "W1 scaled out, {} {}"


def bench_scale_out(
    outcome: Outcome, spark: SparkSession, files: W1Files, folder: Path, numbers: tuple[int, ...]
) -> None:
    """Every way twice, and the second run counts: the first has the workers to start."""
    for number in numbers:
        group = GROUP.format(number, "window" if number == 1 else "windows")
        for _ in range(2):
            scaled_s, scaled = run_scaled(spark, files, folder, number)
            sink_s, given = run_sink(spark, files, folder, number)
        outcome.compare(group, {"scaled out": {scaled}, "sink": {given}})
        note = f"{files.rows:,} rows in {files.batches} batches, {BUCKETS} buckets, {scaled_s:.1f} s"
        outcome.add(group, "scaled out", files.rows / scaled_s, "rows/s", note=note)
        outcome.add(group, "through the sink", files.rows / sink_s, "rows/s", note=f"{sink_s:.1f} s")
        if number == 1:
            for _ in range(2):
                join_s, joined = run_join(spark, files, folder)
            outcome.compare(f"{group}, against Spark", {"scaled out": {scaled}, "Spark": {joined}})
            outcome.add(group, "Spark's own join", files.rows / join_s, "rows/s", note=f"{join_s:.1f} s")
            outcome.add(group, "scaled out against that", join_s / scaled_s, "x")


def run_scaled(spark: SparkSession, files: W1Files, folder: Path, number: int) -> tuple[float, int]:
    """Seconds, and results of the longest window."""
    from penstock.connectors.spark import scale_out

    with scratch(folder) as here:
        began = time.perf_counter()
        scaled = scale_out(write_queries(number), files.streams, buckets=BUCKETS)
        feed(scaled.frame, scaled.write(str(here / "out")), here)
        elapsed_s = time.perf_counter() - began
        return elapsed_s, count(spark, files, here / "out" / f"query=q{number - 1}")


def run_sink(spark: SparkSession, files: W1Files, folder: Path, number: int) -> tuple[float, int]:
    from penstock.connectors.spark import sink, tag_streams

    with scratch(folder) as here:
        began = time.perf_counter()
        writer = sink(write_queries(number), streams=files.streams, state=here / "state", path=here / "out")
        feed(tag_streams(files.streams), writer, here)
        elapsed_s = time.perf_counter() - began
        return elapsed_s, count(spark, files, here / "out" / f"query=q{number - 1}")


def run_join(spark: SparkSession, files: W1Files, folder: Path) -> tuple[float, int]:
    def write(frame: DataFrame, batch_id: int) -> None:
        frame.drop("apart").write.parquet(str(here / "out" / f"batch={batch_id}"))

    with scratch(folder) as here:
        began = time.perf_counter()
        feed(spark_join(files, windows_us(1)[0]), write, here)
        elapsed_s = time.perf_counter() - began
        return elapsed_s, count(spark, files, here / "out")


def count(spark: SparkSession, files: W1Files, path: Path) -> int:
    """Results up to a second before the streams end: the last ones wait for what does not come."""
    from pyspark.sql import functions as F

    ends = [parts[-1]["ts"][-1].as_py() for parts in files.slices.values()]
    last = min(ends) - datetime.timedelta(seconds=1)
    return int(spark.read.parquet(str(path)).filter(F.col("_ts") < F.lit(last)).count())
