"""`format("penstock")` of Spark: results as a DataFrame and as a stream, and streams fed to queries.

    pip install 'penstock[spark]'
    python examples/spark_source.py

Makes files of two sensor streams, reads a report over them as a DataFrame, then a join as a stream while
more files come in, and in the end feeds a stream of Spark's to the report. It takes less than a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.spark import local_session, register

CLIMATE = """
    CREATE QUERY climate AS
      SELECT location, COUNT(*) AS readings, AVG(value) AS mean
      FROM temperature [RANGE 1 MINUTE] GROUP BY location HOP BY 30 SECONDS;
"""
QUERIES = f"""
    CREATE STREAM temperature (ts TIMESTAMP, location BIGINT, value DOUBLE);
    CREATE STREAM humidity    (ts TIMESTAMP, location BIGINT, value DOUBLE);

    CREATE QUERY muggy AS
      SELECT t.location, t.value AS temperature, h.value AS humidity
      FROM temperature AS t JOIN humidity AS h ON t.location = h.location
      WHERE t.value > 30 AND h.value > 80 WINDOW 10 SECONDS;
{CLIMATE}"""


def write_minute(folder: Path, minute: int) -> None:
    """A file of each stream: ten readings a second at 20 locations."""
    draw = np.random.default_rng(minute)
    for stream, mean in (("temperature", 24), ("humidity", 70)):
        ts = np.sort(draw.integers(0, 60_000_000, 600)) + (1_767_225_600 + 60 * minute) * 1_000_000
        table = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "location": draw.integers(0, 20, 600),
                "value": draw.normal(mean, 6, 600).round(1),
            }
        )
        pq.write_table(table, folder / f"{stream}-{minute}.parquet")


def main() -> None:
    spark = local_session()
    register(spark)
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    for minute in range(3):
        write_minute(folder, minute)
    inputs = {
        "queries": QUERIES,
        "input.temperature": str(folder / "temperature-*.parquet"),
        "input.humidity": str(folder / "humidity-*.parquet"),
    }

    # 1. queries over files are a DataFrame
    climate = spark.read.format("penstock").options(**inputs, query="climate").load()
    climate.orderBy("_ts", "location").show(5, truncate=False)

    # 2. over folders that grow, a stream; it goes on where it was
    for _ in range(2):
        stream = (
            spark.readStream.format("penstock")
            .options(**inputs, query="muggy", stateLocation=str(folder / "state"), maxFilesPerTrigger="2")
            .load()
        )
        running = (
            stream.writeStream.format("parquet")
            .option("path", str(folder / "muggy"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
        count = spark.read.parquet(str(folder / "muggy")).count()
        files = len(list(folder.glob("temperature-*")))
        print(f"after {files} files of each stream: {count} muggy pairs")
        for minute in range(3, 5):
            write_minute(folder, minute)

    # 3. a stream of Spark's is fed to a query; `stream` names it, its columns are those of its rows
    readings = spark.readStream.schema("ts TIMESTAMP, location BIGINT, value DOUBLE")
    feeding = (
        readings.parquet(inputs["input.temperature"])
        .writeStream.format("penstock")
        .options(queries=CLIMATE, stream="temperature", stateLocation=str(folder / "fed-state"))
        .option("outputLocation", str(folder / "fed"))
        .option("checkpointLocation", str(folder / "fed-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    feeding.awaitTermination()
    fed = spark.read.parquet(str(folder / "fed" / "query=climate"))
    print(f"fed: {fed.count()} lines of the report")
    print(f"everything is in {folder}")


if __name__ == "__main__":
    main()
