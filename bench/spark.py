"""`penstock bench spark`: what the foreachBatch sink and scale-out cost, and gain over Spark's joins.

W1's streams (1,000 rows per second each, 10,000 keys, windows of up to 10 s) as Parquet files, read by Spark.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .outcome import Outcome
from .spark_input import W1Files
from .spark_join import bench_joins
from .spark_overhead import bench_overhead
from .spark_scale_out import bench_scale_out

CAPTION = "Speeds are of elapsed time, from Parquet files to result files, on a local session with two tasks."

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """Rows per stream and micro-batches: of the overhead, and of the races by number of queries."""

    overhead: tuple[int, int]
    separate: dict[int, tuple[int, int]]  # against as many joins of Spark's
    together: dict[int, tuple[int, int]]  # against one join of Spark's with a filter per query
    scaled: tuple[int, int]
    scaled_queries: tuple[int, ...]


FULL = Size(
    overhead=(1_000_000, 4),
    separate={1: (300_000, 3), 12: (30_000, 2), 100: (10_000, 1)},
    together={12: (30_000, 2), 100: (10_000, 1)},
    scaled=(150_000, 3),
    scaled_queries=(1, 12),
)
QUICK = Size(
    (100_000, 2), {1: (20_000, 2), 12: (5_000, 1)}, {12: (5_000, 1), 100: (5_000, 1)}, (5_000, 1), (1,)
)


def bench_spark(size: Size, out: Path, tell: Tell) -> Outcome:
    """Everything above."""
    from penstock.connectors.spark import local_session

    outcome = Outcome("spark", CAPTION, data={"size": dataclasses.asdict(size)})
    tell("a Spark session")
    spark = local_session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tell("what the sink costs")
        bench_overhead(outcome, spark, W1Files(spark, folder / "overhead", *size.overhead), folder)
        bench_joins(outcome, spark, folder, size.separate, size.together, tell)
        tell("scaled out")  # last: it leaves RocksDB as the state store, which slows joins of Spark down
        scaled = W1Files(spark, folder / "scaled", *size.scaled)
        bench_scale_out(outcome, spark, scaled, folder, size.scaled_queries)
    return outcome
