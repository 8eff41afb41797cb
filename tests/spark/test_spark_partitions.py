"""Scale-out in a session with Spark's default of 200 shuffle partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from scale_help import run_scaled
from spark_help import add_files, both_streams, rows, run_to_end, written

from penstock.connectors.spark import scale_out
from penstock.connectors.spark.buckets import SPREAD
from penstock.connectors.spark.scaled_frame import PARTITIONS, partitions_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "CREATE QUERY every AS SELECT k, id FROM a;"


@pytest.fixture
def default_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "200")
    yield
    assert spark.conf.get(PARTITIONS) == "200", "put back"
    spark.conf.set(PARTITIONS, before)


def begun_with(checkpoint: Path) -> int:
    """What Spark has noted with the query's first batch."""
    settings = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])["conf"]
    return int(settings[PARTITIONS])


@pytest.mark.usefixtures("default_partitions")
def test_a_query_has_as_many_partitions_as_buckets(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark makes of its frame is refused, not run with so many."""
    for name in "ab":
        add_files(tmp_path / name, [rows(1, 2, 3)])
    run_scaled(spark, tmp_path, QUERY)
    assert begun_with(tmp_path / "checkpoint") == 3
    assert written(spark, tmp_path / "out", ["every"])["every"].total() == 1, (
        "the others are within the slack"
    )

    spark.conf.set(PARTITIONS, "9")  # 200 take long even to fail
    derived = scale_out(QUERY, both_streams(spark, tmp_path), buckets=2).of("every").where("id > 0")
    writer = derived.writeStream.option("checkpointLocation", str(tmp_path / "other")).format("memory")
    with pytest.raises(StreamingQueryException) as caught:
        run_to_end(writer.queryName("derived"))
    assert f"Expected at most 8 in {PARTITIONS} for 2 buckets, found 9" in str(caught.value)
    assert spark.sql("SELECT * FROM derived").count() == 0
    spark.conf.set(PARTITIONS, "200")


def test_how_many() -> None:
    assert [partitions_for(buckets, 200) for buckets in (1, 3, 11, 64, 200, 4096)] == [1, 3, 10, 64, 200, 200]
    assert partitions_for(12, 8) == 8, "as the session says, if there is a bucket for each"
    assert all(SPREAD % partitions_for(buckets, 5000) == 0 for buckets in range(1, 500))
