"""One join, and a dozen or a hundred with different windows, against joins of Spark's own on the same cores.

Spark joins a stream with a stream on an equal key and a range of time, and keeps its state per join. So a
question is a streaming query, and N questions are N of them, all at work at once (`separate`). By hand one
can do better where questions differ by their windows alone: one join with the longest window, and for each
question a filter of its pairs (`together`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .outcome import Outcome, Target
from .spark_input import W1Files, count_results, feed, scratch, windows_us
from .spark_overhead import run_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGETS = {1: Target(">=", 3), 12: Target(">=", 20)}
MOST_SEPARATE = 12  # streaming queries of Spark's in a race; of more, some are run, and their time multiplied
ROUNDS = 2  # of the race with one query, the best of each counts; the others take too long for a second

Tell = Callable[[str], None]
Sizes = dict[int, tuple[int, int]]


def bench_joins(
    outcome: Outcome, spark: SparkSession, folder: Path, separate: Sizes, together: Sizes, tell: Tell
) -> None:
    """Each number of queries on the rows its rival can do in time; everyone warms up on a few rows."""
    files = W1Files(spark, folder / "warming", 2_000, 1)
    run_sink(files, folder)
    join_separately(files, folder, 1, [0])
    join_together(files, folder, 2, [0, 1])
    for name, sizes, rival in (
        ("a streaming query each", separate, join_separately),
        ("one join, a filter each", together, join_together),
    ):
        for number, size in sizes.items():
            tell(f"{number} {'query' if number == 1 else 'queries'} against Spark: {name}")
            files = W1Files(spark, folder / f"{number} {name}", *size)
            step = max(1, number // MOST_SEPARATE) if rival is join_separately else 1
            compared = range(step - 1, number, step)
            ours_s = theirs_s = math.inf
            for _ in range(ROUNDS if number == 1 else 1):
                run_s, _, ours = run_sink(files, folder, number, compared)
                ours_s = min(ours_s, run_s)
                run_s, theirs = rival(files, folder, number, compared)
                theirs_s = min(theirs_s, run_s * number / len(compared))
            group = f"W1, {number} {'window' if number == 1 else 'windows'}, against Spark with {name}"
            outcome.compare(group, {"penstock": {ours}, "spark": {theirs}})
            note = f"{files.rows:,} rows in {files.batches} batches, {ours_s:.1f} s"
            outcome.add(group, "penstock", files.rows / ours_s, "rows/s", note=note)
            note = f"{theirs_s:.1f} s" + (f", from {len(compared)} of them" if step > 1 else "")
            outcome.add(group, "Spark", files.rows / theirs_s, "rows/s", note=note)
            target = TARGETS.get(number) if rival is join_separately else None
            outcome.add(group, "ratio", theirs_s / ours_s, "x", target)


def spark_join(files: W1Files, window_us: int) -> DataFrame:
    """The pairs of a window, as Spark's stream-stream join finds them."""
    from pyspark.sql import functions as F

    a, b = files.streams["a"].alias("a"), files.streams["b"].alias("b")
    reach = f"INTERVAL '{window_us / 1e6:.6f}' SECOND"
    near = F.expr(f"a.key = b.key AND b.ts > a.ts - {reach} AND b.ts < a.ts + {reach}")
    return a.join(b, near).select(
        F.greatest("a.ts", "b.ts").alias("_ts"),
        (F.unix_micros("a.ts") - F.unix_micros("b.ts")).alias("apart"),
        "a.key",
        F.col("a.value").alias("left_value"),
        F.col("b.value").alias("right_value"),
    )


def join_separately(files: W1Files, folder: Path, number: int, asked: Sequence[int]) -> tuple[float, int]:
    """A streaming query for each of the windows asked for, at once, to files; seconds and what came out."""
    with scratch(folder) as here:
        began = time.perf_counter()
        sizes = windows_us(number)
        running = []
        for n in asked:
            writer = spark_join(files, sizes[n]).drop("apart").writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(here / f"checkpoint{n}"))
            running.append(writer.trigger(availableNow=True).start(str(here / "out" / f"q{n}")))
        for query in running:
            query.awaitTermination()
        elapsed_s = time.perf_counter() - began
        return elapsed_s, count_results(here / "out", asked)


def join_together(files: W1Files, folder: Path, number: int, asked: Sequence[int]) -> tuple[float, int]:
    """One streaming query with the longest window; each batch's pairs go to the windows they are in."""
    from pyspark.sql import functions as F

    with scratch(folder) as here:
        sizes = windows_us(number)

        def write(pairs: DataFrame, batch_id: int) -> None:
            found = F.array(*[F.lit(f"q{n}") for n in range(number)])
            # Windows grow by equal steps: a pair is in all that are longer than its rows are apart.
            first = (F.abs("apart") / sizes[0]).cast("int") + 1
            each = pairs.withColumn("query", F.explode(F.slice(found, first, F.lit(number) - first + 1)))
            writer = each.drop("apart").withColumn("batch", F.lit(batch_id)).write.mode("append")
            writer.partitionBy("query", "batch").parquet(str(here / "out"))

        began = time.perf_counter()
        feed(spark_join(files, sizes[-1]), write, here)
        elapsed_s = time.perf_counter() - began
        return elapsed_s, count_results(here / "out", asked)
