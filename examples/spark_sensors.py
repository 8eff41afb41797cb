"""What the Spark examples run on: files of readings of two kinds of sensors, and streams over them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
BEGIN = 1_767_600_000 * SECOND  # 5 January 2026, 08:00
FILE_SECONDS = 600
ROWS_PER_SECOND = 50
SENSORS = {"temperature": (15.0, 25.0), "humidity": (30.0, 70.0)}
"""The least value, and how far values go above it."""


def add_file(folder: Path, number: int) -> None:
    """Ten minutes of readings of 100 locations, for each stream; some come up to two seconds late."""
    for stream, (least, spread) in SENSORS.items():
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


def read_streams(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """Each folder as a stream, one file per micro-batch, with rows up to five seconds late."""
    return {
        name: spark.readStream.schema("ts TIMESTAMP, location BIGINT, value DOUBLE")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        .withWatermark("ts", "5 seconds")
        for name in SENSORS
    }
