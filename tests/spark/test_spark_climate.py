"""Real sensors through Spark, every way, end to end: exact against DuckDB.

The sensors' files are followed by one reading an hour later, without values: by it time has passed them all.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from spark_help import run_to_end
from test_room_climate import DECLARE, EXPECTED, QUERY

from penstock.connectors.spark import register, scale_out, sink, tag_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CREATE = f"CREATE QUERY muggy AS {QUERY};"
LONGEST = 540_364


def write_readings(real_data: Path, folder: Path, rows: int, files: int) -> None:
    readings = pq.read_table(real_data / "room_climate.parquet").slice(0, rows)
    pq.write_table(readings, folder / "readings.parquet")
    end = pc.max(readings["ts"]).as_py() + datetime.timedelta(hours=1)
    last = pa.Table.from_pylist([{"ts": end, "location": "nowhere", "node": 0}], readings.schema)
    (folder / "in").mkdir()
    size = -(-rows // files)
    for number in range(files):
        part = readings.slice(number * size, size)
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.concat_tables([part, last]) if number == files - 1 else part, path)
        os.utime(path, (number, number))


def streams_of(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    schema = spark.read.parquet(str(folder / "in")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return {
        "temperature": stream.select("ts", "location", "node", "temp_c").withWatermark("ts", "1 second"),
        "humidity": stream.select("ts", "location", "node", "humid_pct").withWatermark("ts", "1 second"),
    }


def inputs(folder: Path) -> dict[str, str]:
    files = str(folder / "in" / "*.parquet")
    return {"queries": DECLARE + CREATE, "input.temperature": files, "input.humidity": files}


def by_sink(spark: SparkSession, folder: Path) -> Any:
    streams = streams_of(spark, folder)
    writer = sink(CREATE, streams=streams, state=folder / "state", path=folder / "out")
    return tag_streams(streams).writeStream.foreachBatch(writer)


def by_scale_out(spark: SparkSession, folder: Path) -> Any:
    scaled = scale_out(CREATE, streams_of(spark, folder), buckets=3)
    assert scaled.key == {"temperature": "location", "humidity": "location"}
    return scaled.frame.writeStream.foreachBatch(scaled.write(str(folder / "out")))


def by_read_stream(spark: SparkSession, folder: Path) -> Any:
    register(spark)
    reader = spark.readStream.format("penstock").options(**inputs(folder))
    frame = reader.options(stateLocation=str(folder / "state"), maxFilesPerTrigger="1").load()
    return frame.writeStream.format("parquet").option("path", str(folder / "out" / "query=muggy" / "all"))


def by_write_stream(spark: SparkSession, folder: Path) -> Any:
    register(spark)
    locations = {"stateLocation": str(folder / "state"), "outputLocation": str(folder / "out")}
    writer = tag_streams(streams_of(spark, folder)).writeStream.format("penstock")
    return writer.options(queries=DECLARE + CREATE, **locations)


def by_read(spark: SparkSession, folder: Path) -> None:
    register(spark)
    frame = spark.read.format("penstock").options(**inputs(folder)).load()
    frame.write.parquet(str(folder / "out" / "query=muggy" / "all"))


@pytest.mark.parametrize(
    ("way", "rows"),
    [
        (by_sink, LONGEST),
        (by_scale_out, 60_000),
        (by_read_stream, 60_000),
        (by_write_stream, 60_000),
        *(
            pytest.param(way, LONGEST, marks=pytest.mark.slow)
            for way in (by_scale_out, by_read_stream, by_write_stream, by_read)
        ),
    ],
)
def test_room_climate(
    spark: SparkSession, tmp_path: Path, real_data: Path, way: Callable[..., Any], rows: int
) -> None:
    write_readings(real_data, tmp_path, rows, files=3 if rows == LONGEST else 2)
    writer = way(spark, tmp_path)
    if writer is not None:
        run_to_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE VIEW readings AS FROM '{tmp_path}/readings.parquet'")
    con.execute(f"CREATE TABLE expected AS {EXPECTED}")
    columns = "_ts::TIMESTAMP, location, node, t_ts::TIMESTAMP, h_ts::TIMESTAMP, temp_c, humid_pct"
    files = f"read_parquet('{tmp_path}/out/query=muggy/*/*.parquet', hive_partitioning=false)"
    con.execute(f"CREATE TABLE results AS SELECT {columns} FROM {files}")
    assert con.execute("SELECT count(*) FROM results").fetchone() > (2 * rows,)
    for one, other in (("expected", "results"), ("results", "expected")):
        left = con.execute(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchone()
        assert left == (0,), f"rows of {one} are missing in {other}"
