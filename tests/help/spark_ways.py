"""Every way through Spark, over the streams a and b of a folder, each with its own checkpoint and results.

`hold` is called when a batch's results are written and Spark has not noted yet that it is done; what it does
there is the caller's business: nothing, or wait to be killed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.cloudpickle import register_pickle_by_value
from scale_help import until_end
from spark_help import SLACK, bag, both_streams

import penstock
from penstock.connectors.spark import Sink, scale_out, sink, tag_streams
from penstock.connectors.spark.saved_states import SavedStates
from penstock.connectors.spark.source import PenstockSource
from penstock.connectors.spark.write_stream import EngineFeed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Hold = Callable[[str, int], None]
"""Given the way and the batch."""

DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR, "
    f"WATERMARK FOR ts AS ts - {SLACK});"
    for name in "ab"
)
QUERIES = """
CREATE QUERY pairs AS
  SELECT l.id AS l, r.id AS r FROM a [RANGE 3 SECONDS] AS l JOIN b [RANGE 2 SECONDS] AS r ON l.k = r.k;
CREATE QUERY high AS SELECT id, k FROM a WHERE v > 0.5;
"""


class HeldStates(SavedStates):
    """Held before the state is saved."""

    def __init__(self, folder: Path, hold: Callable[[int], None]) -> None:
        super().__init__(folder)
        self._hold = hold

    def save(self, engine: penstock.Engine, batch_id: int, *more: Any) -> None:
        self._hold(batch_id)
        super().save(engine, batch_id, *more)


class HeldFeed(EngineFeed):
    """Held after its own commit, in the process of Spark's that commits."""

    hold: Callable[[int], None]

    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, batchId)
        self.hold(batchId)


class HeldSource(PenstockSource):
    """The format, with feeds that are held; `hold` is set by whoever registers it."""

    hold: Callable[[int], None]

    def streamWriter(self, schema: Any, overwrite: bool) -> HeldFeed:
        made = HeldFeed(self._request, schema)
        made.hold = type(self).hold
        return made


def through_sink(spark: SparkSession, streams: Path, folder: Path, hold: Callable[[int], None]) -> Any:
    """Held when the state is saved too."""
    frames = both_streams(spark, streams)
    writer = sink(QUERIES, streams=frames, state=folder / "state", path=folder / "out")
    return tag_streams(frames).writeStream.foreachBatch(then_hold(writer, hold))


def through_sink_before(spark: SparkSession, streams: Path, folder: Path, hold: Callable[[int], None]) -> Any:
    """Held between results and state."""
    frames = both_streams(spark, streams)
    made = sink(QUERIES, streams=frames, state=folder / "state", path=folder / "out")
    writer = Sink(made._setup, HeldStates(folder / "state", hold), made._output)
    return tag_streams(frames).writeStream.foreachBatch(writer)


def through_scale_out(spark: SparkSession, streams: Path, folder: Path, hold: Callable[[int], None]) -> Any:
    scaled = scale_out(QUERIES, both_streams(spark, streams), buckets=2)
    write = scaled.write(str(folder / "out"))
    return scaled.frame.writeStream.foreachBatch(then_hold(write, hold))


def through_read_stream(spark: SparkSession, streams: Path, folder: Path, hold: Callable[[int], None]) -> Any:
    """The results of one query; what Spark's user does with them is idempotent by batch."""
    spark.dataSource.register(PenstockSource)
    inputs = {f"input.{name}": str(streams / name / "*.parquet") for name in "ab"}
    options = {"queries": DECLARED + QUERIES, "query": "pairs", "maxFilesPerTrigger": "1"}
    reader = spark.readStream.format("penstock").options(**options, **inputs)
    frame = reader.option("stateLocation", str(folder / "state")).load()

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / "out" / "query=pairs" / f"batch={batch_id}"))

    return frame.writeStream.foreachBatch(then_hold(write, hold))


def through_write_stream(
    spark: SparkSession, streams: Path, folder: Path, hold: Callable[[int], None]
) -> Any:
    register_pickle_by_value(sys.modules[__name__])  # Spark's processes do not have the tests on their path
    held = type("Held", (HeldSource,), {"hold": staticmethod(hold)})
    spark.dataSource.register(held)
    locations = {"stateLocation": str(folder / "state"), "outputLocation": str(folder / "out")}
    writer = tag_streams(both_streams(spark, streams)).writeStream.format("penstock")
    return writer.option("queries", DECLARED + QUERIES).options(**locations)


WAYS: dict[str, Callable[..., Any]] = {
    "sink": through_sink,
    "sink-before": through_sink_before,
    "scale-out": through_scale_out,
    "read-stream": through_read_stream,
    "write-stream": through_write_stream,
}


def then_hold(write: Callable[[Any, int], None], hold: Callable[[int], None]) -> Callable[[Any, int], None]:
    def write_and_hold(frame: Any, batch_id: int) -> None:
        write(frame, batch_id)
        hold(batch_id)

    return write_and_hold


def no_hold(way: str, batch_id: int) -> None:
    pass


def prepare(spark: SparkSession, way: str, folder: Path, hold: Hold = no_hold) -> DataStreamWriter:
    """For all that the folder has now, from where the way's last run stopped."""
    writer = WAYS[way](spark, folder, folder / way, partial(hold, way))
    return writer.option("checkpointLocation", str(folder / way / "checkpoint"))


def check_ledger(folder: Path, way: str, expected: dict[str, Counter[Any]]) -> None:
    """Results are unique, by the ids in them: each is there once, and nothing else."""
    for name in ("pairs",) if way == "read-stream" else expected:
        found: Counter[Any] = Counter()
        for file in (folder / way / "out" / f"query={name}").glob("batch=*/*.parquet"):
            found += bag(pq.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us"))
        found = until_end(found)
        ledger = {
            "lost": (expected[name] - found).total(),
            "doubled": sum(n - 1 for n in found.values()),
            "invented": len(set(found) - set(expected[name])),
        }
        assert ledger == {"lost": 0, "doubled": 0, "invented": 0}, (way, name)
        assert expected[name].total() > 200
