"""Scale-out on real Spark: an engine per bucket gives what one engine gives, whatever the batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from scale_help import QUERIES, ended, run_scaled, until_end, whole_answers
from spark_help import (
    COLUMNS,
    add_files,
    both_streams,
    cut,
    draw_stream,
    from_duckdb,
    read_stream,
    rows,
    written,
)

import penstock
from penstock.connectors.spark import scale_out
from penstock.connectors.spark.buckets import bucket_names, spark_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = {"a": draw_stream(1), "b": draw_stream(2)}


@pytest.fixture(scope="module")
def answers() -> dict[str, Counter[Any]]:
    """One engine's, where DuckDB can say so equal to DuckDB's."""
    answers = whole_answers(STREAMS)
    for name, expected in from_duckdb(STREAMS).items():
        assert answers[name] == expected, name
    assert all(found.total() > 40 for found in answers.values())
    return answers


def found_in(spark: SparkSession, folder: Path, names: Any) -> dict[str, Counter[Any]]:
    return {name: until_end(rows) for name, rows in written(spark, folder / "out", names).items()}


def test_results_do_not_depend_on_batches_and_restarts(
    spark: SparkSession, tmp_path: Path, answers: dict[str, Any]
) -> None:
    """Batches without rows of one stream, and of the other; started again, with one query more.

    It goes on with the same state; the new query finds what the join has kept, and is exact at once.
    """
    parts = {
        "a": cut(ended(STREAMS["a"]), [10, 40, 40, 100]),
        "b": cut(ended(STREAMS["b"]), [40, 40, 80, 100]),
    }
    for name in parts:
        add_files(tmp_path / name, parts[name][:2])
    scaled = run_scaled(spark, tmp_path)
    assert scaled.key == {"a": "k", "b": "k"}
    before = found_in(spark, tmp_path, ["pairs"])["pairs"]
    for name in parts:
        add_files(tmp_path / name, parts[name][2:])
    near = """CREATE QUERY near AS SELECT l.id AS l, r.id AS r
              FROM a [RANGE 2 SECONDS] AS l JOIN b [RANGE 1 SECOND] AS r ON l.k = r.k;"""
    run_scaled(spark, tmp_path, QUERIES + near)
    assert found_in(spark, tmp_path, answers) == answers

    # All of it that comes after the first run, and what waited for its end.
    expected = whole_answers(STREAMS, near)["near"]
    found = found_in(spark, tmp_path, ["near"])["near"]
    reached = max(row[0] for row in before)
    assert before.total() > 200
    assert not found - expected
    assert {row for row in expected - found if row[0] > reached} == set()
    assert sum(row[0] > reached for row in found) > 200


def test_one_query_as_a_stream_with_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Without a watermark rows come in time order: one that does not is refused with LATE ERROR.

    So is a restart with other rows in the table; in another order they are the same.
    """
    add_files(tmp_path / "a", [rows(1, 2, 3), rows(4, 9, start=3)])
    frame = read_stream(spark, tmp_path / "a", slack=None)
    sql = """CREATE TABLE t (key BIGINT, label VARCHAR);
             CREATE QUERY labelled AS SELECT id, label FROM a JOIN t ON a.k = t.key LATE ERROR;"""
    labels = pa.table({"key": [1, 2], "label": ["one", "two"]})

    def run(labels: pa.Table = labels) -> None:
        stream = scale_out(sql, {"a": frame}, tables={"t": labels}, buckets=2).of("labelled")
        assert stream.isStreaming
        assert stream.columns == ["_ts", "id", "label"]
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    run()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert sorted(zip(found["id"].to_pylist(), found["label"].to_pylist(), strict=True)) == [
        (id_, "one") for id_ in range(5)
    ]
    add_files(tmp_path / "a", [rows(10, start=5)])
    with pytest.raises(StreamingQueryException, match="Expected the 2 rows of table `t` that"):
        run(labels.set_column(1, "label", pa.array(["one", "deux"])))
    run(labels.take([1, 0]))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 6
    add_files(tmp_path / "a", [rows(0, start=6)])
    with pytest.raises(StreamingQueryException, match="Expected rows in time order"):
        run()


def test_buckets_are_spread_over_the_partitions(spark: SparkSession) -> None:
    numbers = np.arange(1000)
    frame = spark.range(1000).select(F.hash(F.col("id").cast("int")).alias("hash"))
    assert frame.toArrow()["hash"].to_pylist() == spark_hash(numbers).tolist()
    names = spark.createDataFrame([(name,) for name in bucket_names(12)], "bucket INT")
    for partitions in (2, 3, 8):
        placed = names.repartition(partitions, "bucket").select(F.spark_partition_id().alias("p")).toArrow()
        assert sorted(placed["p"].to_pylist()) == sorted(n % partitions for n in range(12))


def test_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        add_files(tmp_path / name, [])
    streams = both_streams(spark, tmp_path)
    with pytest.raises(
        penstock.UnsupportedError, match="in query `far`, so that it can be split by"
    ) as raised:
        scale_out(f"{QUERIES}\nCREATE QUERY far AS SELECT COUNT(*) AS n FROM a [NOW];", streams)
    assert "found an aggregate of all rows, at line" in str(raised.value)
    scaled = scale_out(QUERIES, streams)
    with pytest.raises(penstock.UsageError, match=r"found `pair`\. Did you mean `pairs`"):
        scaled.of("pair")
    with pytest.raises(penstock.UsageError, match="Expected 1 to 4,096 buckets, found `0`"):
        scale_out(QUERIES, streams, buckets=0)
    with pytest.raises(penstock.UsageError, match="Expected streaming DataFrames"):
        scale_out(QUERIES, {})
    still = spark.createDataFrame(COLUMNS.empty_table())
    with pytest.raises(penstock.UsageError, match="Expected a streaming DataFrame for `a`"):
        scale_out(QUERIES, streams | {"a": still})
    bare = read_stream(spark, tmp_path / "a", slack=None)
    walled = bare.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    said = "Expected `timestamp` in the time column `ts`, found `timestamp_ntz`, in `a`. Cast it"
    with pytest.raises(penstock.SchemaError, match=said):
        scale_out(QUERIES, streams | {"a": walled})
    with pytest.raises(penstock.UnsupportedError, match=r"split by `a\.id, b\.id`"):
        scale_out(QUERIES, streams, key="id")
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        with pytest.raises(penstock.UsageError, match=r"Expected `min` in .*, found `max`"):
            scale_out(QUERIES, streams)
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
