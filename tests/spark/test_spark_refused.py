"""What the foreachBatch sink refuses, in one line: rows of no stream, state of another run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from spark_help import DECLARED, add_files, bag, read_stream, rows, run_stream, written

import penstock
from penstock.connectors.spark import sink, tag_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def failure(caught: pytest.ExceptionInfo[StreamingQueryException]) -> str:
    """The line our error adds to what Spark says."""
    lines = str(caught.value).splitlines()
    return next(line for line in lines if line.startswith("penstock.") and "Error: " in line)


def test_rows_of_no_stream_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    queries = DECLARED + DECLARED.replace("STREAM a", "STREAM b") + "CREATE QUERY q AS SELECT id FROM a"
    writer = sink(queries, state=tmp_path / "s", path=tmp_path / "o")
    frame = spark.createDataFrame(rows(1))
    with pytest.raises(penstock.UsageError, match=r"Expected a column `_stream` .* as there are `a`, `b`"):
        writer(frame, 0)
    with pytest.raises(
        penstock.DataError, match="Expected one of `a`, `b` in column `_stream`, found `c`, row 1"
    ):
        writer(tag_streams({"c": frame}), 0)


def test_a_query_that_fails_on_the_data(spark: SparkSession, tmp_path: Path) -> None:
    """It stops the stream; taken out, the others go on with the same batch, nothing lost or doubled."""
    good = "CREATE QUERY good AS SELECT id FROM a;"
    bad = "CREATE QUERY bad AS SELECT CAST(name AS BIGINT) AS number FROM a;"

    def take(queries: str) -> None:
        writer = sink(DECLARED + queries, state=tmp_path / "state", path=tmp_path / "out")
        writer(spark.createDataFrame(rows(1, 2, 9)), 0)
        writer.close()

    with pytest.raises(penstock.StoppedError, match="`x`"):
        take(good + bad)
    take(good)
    assert written(spark, tmp_path / "out", ["good", "bad"])["bad"] == Counter()
    given = Counter(row[1] for row in written(spark, tmp_path / "out", ["good"])["good"].elements())
    assert given == Counter([0, 1, 2])


def test_state_and_results_of_another_run_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    add_files(tmp_path / "a", [rows(1, 9), rows(12, 19, start=2), rows(22, 29, start=4)])

    def run(state: str, checkpoint: str) -> None:
        streams = {"a": read_stream(spark, tmp_path / "a")}
        query = "CREATE QUERY q AS SELECT id FROM a"
        writer = sink(query, streams=streams, state=tmp_path / state, path=tmp_path / "out")
        run_stream(streams["a"], writer, tmp_path / checkpoint)

    run("state", "checkpoint")
    with pytest.raises(StreamingQueryException) as caught:
        run("state", "other-checkpoint")
    assert "UsageError: Expected the state of Spark query `" in failure(caught)
    assert not (tmp_path / "state" / "owner.json").exists(), "who was refused leaves no mark"
    with pytest.raises(StreamingQueryException) as caught:
        run("other-state", "third-checkpoint")
    assert "Expected results of batches before 0 in `" in failure(caught)
    add_files(tmp_path / "a", [rows(32, start=6)])
    with pytest.raises(StreamingQueryException) as caught:
        run("lost-state", "checkpoint")
    assert "Expected the state after batch 2 in `" in failure(caught)
    run("state", "checkpoint")


def test_what_cannot_be_is_refused_when_the_sink_is_made(tmp_path: Path) -> None:
    def refused(message: str, queries: str = "CREATE QUERY q AS SELECT id FROM a", **keywords: Any) -> None:
        with pytest.raises(penstock.PenstockError) as caught:
            sink(DECLARED + queries, state=tmp_path, **keywords)
        assert str(caught.value).startswith(message)

    out = {"path": tmp_path / "out"}
    refused("Expected a `path` for results or functions in `results`, found neither")
    refused("Expected a `path` for results or functions in `results`, found both", **out, results={})
    refused("Expected a query, found none", "", **out)
    refused("Expected a query in `results`, found `p`. Known: `q`", results={"p": print})
    refused("Expected a keyword of Engine in `engine`, found `shares`", **out, engine={"shares": "auto"})
    refused("Expected no `scheduler` in `engine`, found one", **out, engine={"scheduler": None})
    refused("Expected no result column `batch`", "CREATE QUERY q AS SELECT id AS batch FROM a", **out)
    with pytest.raises(penstock.BindError, match="at line 3, column"):
        sink(DECLARED + "\nCREATE QUERY q AS SELECT idd FROM a", state=tmp_path, **out)
    with pytest.raises(penstock.UsageError, match="Expected a stream, found none: give its DataFrame"):
        sink("", state=tmp_path, **out)
    assert list(tmp_path.iterdir()) == []


def test_streams_that_cannot_be_united(spark: SparkSession) -> None:
    base = spark.sql("SELECT timestamp_micros(1) AS ts, 1 AS id")
    other = spark.sql("SELECT timestamp_micros(1) AS ts, 'x' AS Id")
    with pytest.raises(penstock.SchemaError) as caught:
        tag_streams({"a": base, "b": other})
    said = "Expected column `Id` to be `int` as in `a`, found `string`, in `b`. Cast one of them, or rename"
    assert str(caught.value).startswith(said)
    walled = spark.sql("SELECT timestamp_ntz '2024-01-01 00:00:00' AS ts")
    with pytest.raises(penstock.SchemaError, match="`ts` to be `timestamp` as in `a`, found `timestamp_ntz`"):
        tag_streams({"a": base, "b": walled})
    with pytest.raises(penstock.SchemaError, match="Expected no column `_stream`"):
        tag_streams({"a": spark.sql("SELECT 1 AS _STREAM")})
    with pytest.raises(penstock.UsageError, match="Expected at least one DataFrame"):
        tag_streams({})
    wide = tag_streams(
        {"a": base, "b": spark.sql("SELECT timestamp_micros(2) AS ts, 3L AS id, true AS flag")}
    )
    assert wide.schema.simpleString() == "struct<_stream:string,ts:timestamp,id:bigint,flag:boolean>"
    assert bag(wide.toArrow()) == Counter([("a", 1, 1, None), ("b", 2, 3, True)])
