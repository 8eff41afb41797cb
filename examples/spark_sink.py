"""Spark streams through Penstock and back: files come in, a dozen queries share one join, results are tables.

    pip install 'penstock[spark]'
    python examples/spark_sink.py

It draws its data (spark_sensors.py) and runs the streaming query twice, the second time from where the first
one stopped. It takes less than a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from spark_sensors import add_file, read_streams

from penstock.connectors.spark import Sink, local_session, sink, tag_streams


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
        for number in range(2):
            add_file(folder, number)
        print(f"first run:  {run(spark, folder).rows:,} rows")
        for number in range(2, 4):
            add_file(folder, number)
        writer = run(spark, folder)
        writer.close()  # the input has ended: what is pending comes out
        print(f"second run: {writer.rows:,} rows")
        for degrees in range(30, 40, 3):
            found = spark.read.parquet(str(folder / "results" / f"query=muggy_{degrees}"))
            print(f"above {degrees} degrees and 99 %: {found.count():,} results")
        spark.read.parquet(str(folder / "results" / "query=report")).drop("batch").orderBy("_ts").show()


if __name__ == "__main__":
    main()
