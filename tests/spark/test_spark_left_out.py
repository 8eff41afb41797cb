"""Rows that a streaming query leaves out: they are counted and do not stop it, unless a query says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from spark_help import (
    BEGIN,
    COLUMNS,
    DECLARED,
    SECOND,
    add_files,
    read_stream,
    rows,
    run_stream,
    run_to_end,
    written,
)

import penstock
from penstock.connectors.spark import scale_out, sink
from penstock.connectors.spark.request import Request
from penstock.connectors.spark.write_stream import EngineFeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YEAR = 365 * 86_400.0


def without_time(table: pa.Table, *numbers: int) -> pa.Table:
    """The rows, but that those at these places have no time."""
    times = [None if n in numbers else one for n, one in enumerate(table["ts"].to_pylist())]
    return table.set_column(0, COLUMNS.field("ts"), pa.array(times, COLUMNS.field("ts").type))


def test_a_late_row_and_one_without_a_time(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused with LATE ERROR, which can be taken back; the counts go on through a restart."""
    add_files(tmp_path / "a", [rows(1, 60), without_time(rows(50, 61, 62, start=2), 2)])
    out = tmp_path / "out"

    def run(query: str) -> Any:
        streams = {"a": read_stream(spark, tmp_path / "a")}
        writer = sink(query, streams=streams, state=tmp_path / "state", path=out)
        run_stream(streams["a"], writer, tmp_path / "checkpoint")
        return writer

    with pytest.raises(StreamingQueryException, match=r"LateError: Expected rows in time order .* LATE DROP"):
        run("CREATE QUERY q AS SELECT id FROM a LATE ERROR")
    assert {row[1] for row in written(spark, out, ["q"])["q"]} == {0}
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        writer = run("CREATE QUERY q AS -- as it comes\n SELECT id   FROM a")
    left_out = {"a": {"late": 1, "ahead": 0, "without_time": 1}}
    assert writer.stats() == {"rows": 3, "dropped": left_out}
    said = "Batch 1: left out 2 rows of `a` (1 late, 1 without a time)"
    ours = [one.getMessage() for one in caplog.records if one.name == "penstock.spark"]
    assert ours == [said]
    add_files(tmp_path / "a", [without_time(rows(63, 64, start=5), 0)])
    writer = run("CREATE QUERY q AS SELECT id FROM a LATE DROP")
    left_out["a"]["without_time"] = 2
    assert writer.stats()["dropped"] == left_out
    writer.close()
    assert {row[1] for row in written(spark, out, ["q"])["q"]} == {0, 1, 3, 6}


def test_a_row_ahead(spark: SparkSession, tmp_path: Path) -> None:
    """It moves neither the stream's time nor, through Spark's watermark, that of the next batch."""
    declared = DECLARED.replace("2 SECONDS", "2 SECONDS AHEAD AT MOST 1 HOUR")
    add_files(tmp_path / "a", [rows(1, 2, YEAR), rows(3, 9, start=3)])

    def run(query: str) -> Any:
        writer = sink(declared + query, state=tmp_path / "state", path=tmp_path / "out")
        run_stream(read_stream(spark, tmp_path / "a"), writer, tmp_path / "checkpoint")
        return writer

    with pytest.raises(StreamingQueryException, match=r"AheadError: .* LATE DROP drops the others"):
        run("CREATE QUERY q AS SELECT id FROM a LATE ERROR")
    writer = run("CREATE QUERY q AS SELECT id FROM a")
    assert writer.stats()["dropped"] == {"a": {"late": 0, "ahead": 1, "without_time": 0}}
    writer.close()
    found = written(spark, tmp_path / "out", ["q"])["q"]
    assert {row[1]: (row[0] - BEGIN) // SECOND for row in found} == {0: 1, 1: 2, 3: 3, 4: 9}


def test_scaled_out(spark: SparkSession, tmp_path: Path) -> None:
    """Spark shows the counts of a batch with the query's progress."""
    add_files(tmp_path / "a", [rows(1, 60), without_time(rows(50, 61, 62, start=2), 2), rows(99, start=5)])
    streams = {"a": read_stream(spark, tmp_path / "a")}
    scaled = scale_out("CREATE QUERY q AS SELECT k, id FROM a;", streams, buckets=1)
    writer = scaled.frame.writeStream.foreachBatch(scaled.write(str(tmp_path / "out")))
    query = run_to_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    seen = {one["batchId"]: one["observedMetrics"]["penstock"].asDict() for one in query.recentProgress}
    assert seen[1] == {"rows_late": 1, "rows_without_time": 1}
    assert seen[0] == seen[2] == {"rows_late": 0, "rows_without_time": 0}
    assert {row[2] for row in written(spark, tmp_path / "out", ["q"])["q"]} == {0, 1, 3}


def test_a_stream_that_is_written_to_the_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Spark's processes do it, without Spark."""
    from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

    options = {
        "queries": "CREATE STREAM a (ts TIMESTAMP, x BIGINT); CREATE QUERY q AS SELECT x FROM a",
        "stateLocation": str(tmp_path / "state"),
        "outputLocation": str(tmp_path / "out"),
    }
    schema = StructType([StructField("ts", TimestampType()), StructField("x", IntegerType())])
    for batch, times in enumerate([[5, 6], [2, None, 7]]):
        feed = EngineFeed(Request.of(options), schema)
        part = pa.record_batch(
            {"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": list(range(len(times)))}
        )
        feed.commit([feed.write(iter([part]))], batch)
    engine = penstock.Engine.restore(tmp_path / "state" / "batch-1.penstock")
    assert engine.stats()["streams"]["a"]["rows_late"] == 1
    assert "Batch 1: left out 2 rows of `a` (1 late, 1 without a time)" in caplog.text


def test_files_that_are_read_as_a_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that begins before the one before it has ended, and has a row without a time."""
    import pyarrow.parquet as pq

    from penstock.connectors.spark.read_stream import FilesRead, ResultStream

    for number, times in enumerate([[5, 6], [2, None, 7]]):
        part = pa.table(
            {"ts": pa.array(times, pa.timestamp("us")), "x": [10 * number + n for n in range(len(times))]}
        )
        pq.write_table(part, tmp_path / f"{number}.parquet")
    options = {
        "queries": "CREATE STREAM a (ts TIMESTAMP, x BIGINT); CREATE QUERY q AS SELECT x FROM a LATE ERROR",
        "input.a": str(tmp_path / "*.parquet"),
        "stateLocation": str(tmp_path / "state"),
    }

    def read(start: int, end: int) -> list[int]:
        stream = ResultStream(Request.of(options))
        stream._newest()
        return [x for part in stream.read(FilesRead({"a": start}, {"a": end})) for x in part["x"].to_pylist()]

    assert read(0, 1) == [0, 1]
    with pytest.raises(penstock.LateError):
        read(1, 2)
    options["queries"] = options["queries"].replace("SELECT x FROM a LATE ERROR", "SELECT x /**/ FROM  a")
    assert read(1, 2) == [12]
    assert "Files up to files-2: left out 2 rows of `a` (1 late, 1 without a time)" in caplog.text


def test_a_batch_of_too_many_hops_says_how_to_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """It comes again at every start; without the query, or with a longer hop, the state goes on."""
    add_files(tmp_path / "a", [rows(1, 2)])
    every = "CREATE QUERY every AS SELECT id FROM a;"

    def run(queries: str) -> None:
        frame = read_stream(spark, tmp_path / "a")
        made = sink(queries, streams={"a": frame}, state=tmp_path / "state", path=tmp_path / "out")
        run_stream(frame, made, tmp_path / "checkpoint")

    hops = "CREATE QUERY {} AS SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS] HOP BY {} SECONDS;"
    run(every + hops.format("hops", 1))
    add_files(tmp_path / "a", [rows(YEAR, YEAR + 60, start=2)])
    for _ in range(2):
        with pytest.raises(
            StreamingQueryException, match=r"Take the query out of the text, .* a longer HOP BY"
        ):
            run(every + hops.format("hops", 1))
    run(every + hops.format("days", 86_400))
    found = written(spark, tmp_path / "out", ["every", "days"])
    assert {row[1] for row in found["every"]} == {0, 1, 2}
    assert 360 < found["days"].total() < 370
