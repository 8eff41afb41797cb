"""`df.writeStream.format("penstock")`: streams of Spark fed to queries, every result once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock import UsageError

pytest.importorskip("pyspark", reason="the Spark connector needs pyspark")

from spark_help import QUERIES, add_files, bag, both_streams, cut, draw_stream, embedded, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR, "
    "WATERMARK FOR ts AS ts - 2 SECONDS);"
    for name in "ab"
)
NAMES = ("pairs", "high", "low", "totals", "report")


def given(folder: Path) -> dict[str, str]:
    return {
        "queries": DECLARED + QUERIES,
        "stateLocation": str(folder / "state"),
        "outputLocation": str(folder / "results"),
    }


def feed(session: SparkSession, folder: Path) -> None:
    from penstock.connectors.spark import tag_streams

    frame = tag_streams(both_streams(session, folder))
    writer = frame.writeStream.format("penstock").options(**given(folder))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def without_close(streams: dict[str, pa.Table]) -> dict[str, Counter[Any]]:
    """What an engine has given when all rows have come and none is known to be the last."""
    return embedded(streams, close=False)


def test_streams_of_spark_are_fed_to_queries(spark: SparkSession, tmp_path: Path) -> None:
    """In four batches, of which the third is given again: as if it had come once."""
    from penstock.connectors.spark import register

    register(spark)
    streams = {"a": draw_stream(1), "b": draw_stream(2)}
    parts = {name: cut(table, (20, 45, 80, 100)) for name, table in streams.items()}
    for name in streams:
        add_files(tmp_path / name, parts[name][:3])
    feed(spark, tmp_path)
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    commits[-1].unlink()
    for name in streams:
        add_files(tmp_path / name, parts[name][3:])
    feed(spark, tmp_path)
    assert written(spark, tmp_path / "results", NAMES) == without_close(streams)
    assert not (tmp_path / "state" / "rows").exists()  # nothing is left aside


def messages(made: Any, table: pa.Table) -> list[Any]:
    """What two tasks answer that have half the rows each, outside of Spark."""
    half = table.num_rows // 2
    return [made.write(iter(part.to_batches())) for part in (table.slice(0, half), table.slice(half))]


def feeder(folder: Path, **more: str) -> Any:
    from pyspark.sql.types import StructType

    from penstock.connectors.spark.source import PenstockSource

    return PenstockSource({**given(folder), **more}).streamWriter(StructType([]), False)


def results(folder: Path, name: str) -> Counter[Any]:
    import pyarrow.parquet as pq

    files = sorted((folder / "results" / f"query={name}").rglob("*.parquet"))
    return sum((bag(pq.ParquetFile(one).read()) for one in files), Counter())


def forget_engines() -> None:
    """As in a new process."""
    from penstock.connectors.spark import write_stream

    write_stream._at_hand.clear()


def tagged(streams: dict[str, pa.Table]) -> pa.Table:
    return pa.concat_tables(
        table.add_column(0, "_stream", pa.repeat(name, table.num_rows)) for name, table in streams.items()
    )


def test_a_batch_that_is_given_again_replaces_itself(tmp_path: Path) -> None:
    """In the same process and in another; a failed batch leaves nothing behind."""
    streams = {"a": draw_stream(3), "b": draw_stream(4)}
    parts = {name: cut(table, (30, 60, 100)) for name, table in streams.items()}
    batches = [tagged({name: parts[name][at] for name in parts}) for at in range(3)]
    made = feeder(tmp_path)
    made.commit(messages(made, batches[0]), 0)
    made.commit(messages(made, batches[1]), 1)
    made.commit(messages(made, batches[1]), 1)
    forget_engines()
    made.commit(messages(made, batches[1]), 1)
    made.abort([None, *messages(made, batches[2])], 2)
    made.commit([], 2)
    forget_engines()
    made.commit(messages(made, batches[2]), 2)
    wanted = without_close(streams)
    assert {name: results(tmp_path, name) for name in NAMES} == wanted
    assert sum(wanted["pairs"].values()) > 1000


def test_queries_added_and_taken_out_between_two_runs_in_one_process(tmp_path: Path) -> None:
    """The process has the engine of the run before at hand, which knows nothing of the change."""
    streams = {"a": draw_stream(3), "b": draw_stream(4)}
    parts = {name: cut(table, (30, 100)) for name, table in streams.items()}
    batches = [tagged({name: parts[name][at] for name in parts}) for at in range(2)]
    before = feeder(tmp_path, queries=DECLARED + "CREATE QUERY old AS SELECT id FROM a;")
    before.commit(messages(before, batches[0]), 0)
    after = feeder(tmp_path, queries=DECLARED + "CREATE QUERY new AS SELECT id FROM a;")
    after.commit(messages(after, batches[1]), 1)
    assert not (tmp_path / "results" / "query=old" / "batch=1").exists()
    assert results(tmp_path, "new")


def test_one_stream_is_declared_by_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType, TimestampType

    from penstock.connectors.spark.source import PenstockSource

    schema = StructType([StructField("ts", TimestampType()), StructField("x", LongType())])
    sql = "CREATE QUERY big AS SELECT x FROM readings WHERE x > 1"
    made = PenstockSource({**given(tmp_path), "queries": sql, "stream": "readings"}).streamWriter(
        schema, False
    )
    made.commit(
        messages(made, pa.table({"ts": pa.array([2, 1, 3], pa.timestamp("us", "UTC")), "x": [2, 1, 3]})), 0
    )
    assert results(tmp_path, "big") == Counter({(2, 2): 1, (3, 3): 1})


@pytest.mark.parametrize("missing", ["stateLocation", "outputLocation"])
def test_a_feed_needs_its_folders(tmp_path: Path, missing: str) -> None:
    with pytest.raises(UsageError, match=f"Expected the option `{missing}`"):
        feeder(tmp_path, **{missing: ""})


def test_only_tables_are_read_from_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected a declared table in the option `input\.a`, found `a`"):
        feeder(tmp_path, **{"input.a": "a.parquet"})
