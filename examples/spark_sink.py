"""Spark streams through Penstock and back: files come in, a dozen queries share one join, results are tables.

    pip install 'penstock[spark]'
    python examples/spark_sink.py

It draws its own data and runs the streaming query twice, the second time from where the first one stopped.
It takes less than a minute.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.connectors.spark import Sink, local_session, sink, tag_streams

SECOND = 1_000_000
BEGIN = 1_767_600_000 * SECOND  # 5 January 2026, 08:00
FILE_SECONDS = 600
ROWS_PER_SECOND = 50
SCHEMA = "ts TIMESTAMP, location BIGINT, value DOUBLE"


def add_files(folder: Path, numbers: range) -> None:
    """Ten minutes of readings of 100 locations per file; some come up to two seconds late."""
    for stream, least, spread in (("temperature", 15.0, 25.0), ("humidity", 30.0, 70.0)):
        (folder / stream).mkdir(parents=True, exist_ok=True)
        for number in numbers:
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


def read_streams(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """Each folder as a stream, one file per micro-batch, with rows up to five seconds late."""
    return {
        name: spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        .withWatermark("ts", "5 seconds")
        for name in ("temperature", "humidity")
    }


def write_queries() -> str:
    """Muggy places, at ten thresholds with a window each; and how many readings came, every ten minutes."""
    muggy = [
        f"""CREATE QUERY muggy_{degrees} AS
              SELECT t.location, t.value AS celsius, h.value AS humidity
              FROM temperature AS t JOIN humidity AS h ON t.location = h.location
              WHERE t.value > {degrees} AND h.value > 99 WINDOW {degrees - 29} SECONDS;"""
        for degrees in range(30, 40)
    ]
    report = """CREATE QUERY report AS
                  SELECT COUNT(*) AS readings, MAX(value) AS highest FROM temperature [RANGE 10 MINUTES]
                  HOP BY 10 MINUTES;"""
    return "\n".join([*muggy, report])


def run(spark: SparkSession, folder: Path) -> Sink:
    """Take in what is there and has not been taken in yet."""
    streams = read_streams(spark, folder)
    writer = sink(write_queries(), streams=streams, state=folder / "state", path=folder / "results")
    query = (
        tag_streams(streams)
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return writer


def main() -> None:
    spark = local_session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add_files(folder, range(2))
        print(f"first run:  {run(spark, folder).rows:,} rows")
        add_files(folder, range(2, 4))
        writer = run(spark, folder)
        writer.close()  # the input has ended: what is pending comes out
        print(f"second run: {writer.rows:,} rows")
        for degrees in range(30, 40, 3):
            found = spark.read.parquet(str(folder / "results" / f"query=muggy_{degrees}"))
            print(f"above {degrees} degrees and 99 %: {found.count():,} results")
        spark.read.parquet(str(folder / "results" / "query=report")).drop("batch").orderBy("_ts").show()


if __name__ == "__main__":
    main()
