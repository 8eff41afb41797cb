"""Penstock on all of a cluster: an engine per bucket of the key on Spark's executors, state in Spark's store.

    pip install 'penstock[spark]'
    python examples/spark_scale_out.py

It draws its own data, runs two queries over it, then goes on from the checkpoint with more data and with a
third query, which finds in the shared join what it needs of the time before. It takes less than a minute.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.connectors.spark import local_session, scale_out

SECOND = 1_000_000
BEGIN = 1_767_600_000 * SECOND  # 5 January 2026, 08:00
FILE_SECONDS = 600
ROWS_PER_SECOND = 50
QUERIES = """
CREATE QUERY muggy AS
  SELECT t.location, t.value AS celsius, h.value AS humidity
  FROM temperature AS t JOIN humidity AS h ON t.location = h.location
  WHERE t.value > 35 AND h.value > 98 WINDOW 20 SECONDS;
CREATE QUERY report AS
  SELECT location, COUNT(*) AS readings, MAX(value) AS highest FROM temperature [RANGE 5 MINUTES]
  GROUP BY location HOP BY 5 MINUTES;
"""
ONE_MORE = """
CREATE QUERY sweltering AS
  SELECT t.location, t.value AS celsius
  FROM temperature AS t JOIN humidity AS h ON t.location = h.location
  WHERE t.value > 39 AND h.value > 98 WINDOW 10 SECONDS;
"""


def add_file(folder: Path, number: int) -> None:
    """Ten minutes of readings of 100 locations, for each stream; some come up to two seconds late."""
    for stream, least, spread in (("temperature", 15.0, 25.0), ("humidity", 30.0, 70.0)):
        (folder / stream).mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng([number, len(stream)])
        rows = FILE_SECONDS * ROWS_PER_SECOND
        start = BEGIN + number * FILE_SECONDS * SECOND
        seen = np.sort(rng.integers(start, start + FILE_SECONDS * SECOND, rows))
        table = pa.table(
            {
                "ts": pa.array(seen - rng.integers(0, 2 * SECOND, rows), pa.timestamp("us", "UTC")),
                "location": rng.integers(0, 100, rows),
                "value": least + spread * rng.random(rows),
            }
        )
        path = folder / stream / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (number, number))  # Spark takes the oldest first


def read_stream(spark: SparkSession, path: Path) -> DataFrame:
    """A folder as a stream, one file per micro-batch, with rows up to five seconds late."""
    files = spark.readStream.schema("ts TIMESTAMP, location BIGINT, value DOUBLE")
    return files.option("maxFilesPerTrigger", 1).parquet(str(path)).withWatermark("ts", "5 seconds")


def run(spark: SparkSession, folder: Path, queries: str) -> None:
    """Take in what is there and has not been taken in yet; a folder of results for each query."""
    streams = {name: read_stream(spark, folder / name) for name in ("temperature", "humidity")}
    scaled = scale_out(queries, streams, buckets=4)
    print(f"{', '.join(scaled.queries)}: split by {scaled.key['temperature']}")
    query = (
        scaled.frame.writeStream.foreachBatch(scaled.write(str(folder / "results")))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    spark = local_session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add_file(folder, 0)
        run(spark, folder, QUERIES)
        add_file(folder, 1)
        run(spark, folder, QUERIES + ONE_MORE)
        for query in ("muggy", "sweltering"):
            found = spark.read.parquet(str(folder / "results" / f"query={query}"))
            print(f"{query}: {found.count():,} results")
        report = spark.read.parquet(str(folder / "results" / "query=report"))
        report.groupBy("_ts").count().orderBy("_ts").show()


if __name__ == "__main__":
    main()
