"""Values, NULLs and times go every way through Spark unchanged, in a session that is not in UTC."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_help import bag, run_to_end

import penstock
from penstock.connectors.spark import declare_stream, register, scale_out, sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "CREATE QUERY q AS SELECT wall, day, small, f, flag, word, ts AS at FROM s;"
WALL = [datetime.datetime(2024, 3, 10, 2, 30), None, datetime.datetime(1969, 12, 31, 23), None, None]
INSTANTS = [datetime.datetime(2024, 3, 10, 6, 30) + datetime.timedelta(hours=n) for n in range(4)]
"""Clocks go forward in New York between the first and the third: one hour of the wall is missing there."""
END = datetime.datetime(2025, 1, 1)
ROWS = pa.table(
    {
        "ts": pa.array([*INSTANTS, END], pa.timestamp("us", "UTC")),
        "wall": pa.array(WALL, pa.timestamp("us")),
        "day": pa.array([datetime.date(2024, 3, 10), None, datetime.date(1969, 12, 31), None, None]),
        "small": pa.array([1, None, -128, 4, None], pa.int8()),
        "f": pa.array([0.5, None, float("-inf"), 1e30, None], pa.float32()),
        "flag": pa.array([True, None, False, True, None]),
        "word": pa.array(["ä", None, "", "x", None]),
    }
)


@pytest.fixture
def abroad(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def before_end(table: pa.Table) -> Counter[Any]:
    """What the last row makes is not looked at: it waits for time to pass."""
    last_us = int(END.replace(tzinfo=datetime.UTC).timestamp()) * 1_000_000
    return Counter({row: n for row, n in bag(table).items() if row[0] < last_us})


def run(writer: Any, folder: Path, name: str) -> None:
    run_to_end(writer.option("checkpointLocation", str(folder / f"checkpoint-{name}")))


def test_every_way_in_another_zone(abroad: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "0.parquet")
    still = abroad.read.parquet(str(tmp_path / "in"))
    types = ["timestamp", "timestamp_ntz", "date", "tinyint", "float", "boolean", "string"]
    assert [field.dataType.simpleString() for field in still.schema] == types
    stream = (
        abroad.readStream.schema(still.schema).parquet(str(tmp_path / "in")).withWatermark("ts", "0 seconds")
    )
    declared = declare_stream("s", stream)
    engine = penstock.Engine()
    engine.execute(declared + QUERY)
    engine.push("s", ROWS)
    engine.close()
    expected = before_end(engine.queries["q"].results())
    assert expected.total() == 4

    out = {name: str(tmp_path / f"out-{name}") for name in ("parquet", "orc", "scaled", "fed")}
    for format in ("parquet", "orc"):  # by the driver, by a job of Spark's
        state = tmp_path / f"state-{format}"
        writer = sink(QUERY, streams={"s": stream}, state=state, path=out[format], format=format)
        run(stream.writeStream.foreachBatch(writer), tmp_path, format)
        writer.close()
    scaled = scale_out(QUERY, {"s": stream}, key="word", buckets=2)
    run(scaled.frame.writeStream.foreachBatch(scaled.write(out["scaled"], "orc")), tmp_path, "scaled")
    register(abroad)
    given = {"queries": declared + QUERY, "stateLocation": str(tmp_path / "state-fed")}
    feed = stream.writeStream.format("penstock").options(**given, outputLocation=out["fed"])
    run(feed, tmp_path, "fed")
    for name, path in out.items():
        reader = abroad.read.format("orc" if name in ("orc", "scaled") else "parquet")
        found = before_end(reader.load(f"{path}/query=q").drop("batch").toArrow())
        assert found == expected, name
    options = {"queries": declared + QUERY, "input.s": str(tmp_path / "in" / "*.parquet")}
    assert before_end(abroad.read.format("penstock").options(**options).load().toArrow()) == expected
