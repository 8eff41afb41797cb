"""Penstock on all of a cluster: an engine per bucket of the key on Spark's executors, state in Spark's store.

    pip install 'penstock[spark]'
    python examples/spark_scale_out.py

It runs two queries over drawn data (spark_sensors.py), then goes on from the checkpoint with more data and
with a third query, which finds in the shared join what it needs of the time before. It takes less than a
minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from spark_sensors import add_file, read_streams

from penstock.connectors.spark import local_session, scale_out

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


def run(spark: SparkSession, folder: Path, queries: str) -> None:
    """Take in what is there and has not been taken in yet; a folder of results for each query."""
    scaled = scale_out(queries, read_streams(spark, folder), buckets=4)
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
