"""Queries on all of a cluster: an engine per bucket of the key, on Spark's executors.

    streams --> pack --> shuffle by bucket --> engine of the bucket --> results of all queries, packed
            mapInArrow                       transformWithState         `ScaledOut.of` unpacks one query's

Every engine has all queries and shares their work as any engine does; it sees the rows of its keys alone.
Which column is the key follows from the queries (find_partition_key.py), and those that cannot be split by it
are refused. State is in Spark's state store, RocksDB, and Spark's checkpoint has it: after a
crash, and when executors come and go, batches are given again, and results are as if nothing had happened.

Time. A bucket hears of it from its own rows, less the delay of `withWatermark`, and from Spark's watermark,
which is that of all rows of the batches before. So results may wait for the next batch, also one without
rows, and those that wait for time to pass come out in a run that has reached it. There is no end of
the input: the answer of a hop that Spark's watermark has not passed waits for more. A row is late if it is
older than Spark's watermark, or than its own stream in its bucket less the delay: never if an engine that
had all rows in the same batches would take it. Late rows are dropped, as are those without a time, but it is
not Spark that drops them, which would do so in silence: how many they were in a batch is in `lastProgress` of
its query, among the metrics observed, as `penstock`. With LATE ERROR they stop the query.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.api import Engine
from penstock.carry_on import describe, timing
from penstock.engine.rows.errors import SchemaError, UsageError, did_you_mean

from .bucket_engine import BucketEngine
from .buckets import MOST
from .pack_rows import GIVEN, LEFT_OUT, QUERY, RESULTS, Packer, Unpacker
from .scaled_files import ScaledFiles
from .scaled_frame import ScaledFrame
from .schema import WATERMARK_DELAY, declare_stream, order_of, own_type, spark_schema
from .start_engine import Setup
from .table_rows import digest_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""With every batch Spark's checkpoint gets what has changed in a bucket's state, not all of it."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OBSERVED = "penstock"
"""The name of the metrics that Spark shows of a batch."""
WATERMARKS = "spark.sql.streaming.multipleWatermarkPolicy"


class ScaledOut:
    """Queries spread over buckets; made by `scale_out`."""

    def __init__(
        self, frame: DataFrame, schemas: Mapping[str, pa.Schema], key: Mapping[str, str], buckets: int
    ) -> None:
        self.frame: DataFrame = ScaledFrame.of(frame, buckets)
        """The results of all queries as a stream, packed: `query`, and `rows` as Arrow."""
        self.key = dict(key)
        """The column by which each stream is split."""
        self._schemas = schemas
        self._buckets = buckets

    @property
    def queries(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._schemas)

    def of(self, query: str, frame: DataFrame | None = None) -> DataFrame:
        """The results of a query: as a stream, or those in a batch of `frame`.

        A stream that is started runs the engines of all queries, for this one. To have several, start
        `frame` once and take them from its batches, as `write` does.
        """
        name = next((one for one in self._schemas if one.lower() == query.lower()), None)
        if name is None:
            hint = did_you_mean(query, self._schemas) or ""
            raise UsageError(f"Expected the name of a query, found `{query}`. {hint}".rstrip())
        packed = self.frame if frame is None else frame
        rows = packed.mapInArrow(Unpacker(name), spark_schema(self._schemas[name]))
        return ScaledFrame.of(rows, self._buckets) if frame is None else rows

    def write(
        self, path: str, format: str = "parquet", options: Mapping[str, Any] | None = None
    ) -> ScaledFiles:
        """A function for `frame.writeStream.foreachBatch`: a folder for each query, as those of `sink`.

        A batch that is given again replaces its files.
        """
        return ScaledFiles(self._schemas, path, format, options or {})


def scale_out(
    queries: str,
    streams: Mapping[str, DataFrame],
    *,
    key: str | Mapping[str, str] | None = None,
    buckets: int | None = None,
    tables: Mapping[str, Any] | None = None,
    ordered: Mapping[str, Mapping[str, str]] | None = None,
    engine: Mapping[str, Any] | None = None,
) -> ScaledOut:
    """Run `queries` over streaming DataFrames, split by key over the executors.

    `queries`: CREATE QUERY statements, and CREATE TABLE with `tables`, rows by name, which every engine gets.
    `key`: the column by which streams are split, one name for all or one for each; found if it is not given.
    `ordered`: columns that grow, with what stands behind ORDERED, as {"s": {"n": "WITHIN 5 ROWS"}}.
    `buckets`: how many engines, else as many as Spark runs tasks at a time. Neither can change while the
    checkpoint is kept, nor rows of tables; queries may be added and taken out. `engine`: keywords of
    `penstock.Engine`. A query that is started has no more shuffle partitions than buckets, whatever the
    session's setting. RocksDB becomes the state store of the session's queries that are started from now on.
    """
    # 1. what is asked
    if not streams:
        raise UsageError("Expected streaming DataFrames by the names of their streams, found none")
    frames = {name: with_watermark(name, frame) for name, frame in streams.items()}
    if (engine or {}).get("spool") is not None:
        raise UsageError(
            "Expected no `spool` in `engine` of scale_out, found one: the state of an engine goes from one "
            "machine to another, and what it has on a disk does not"
        )
    session = next(iter(frames.values())).sparkSession
    growing = order_of(frames, ordered)
    declared = [declare_stream(name, frame, ordered=growing[name]) for name, frame in frames.items()]
    rows = {name: one.toArrow() if hasattr(one, "toArrow") else one for name, one in (tables or {}).items()}
    setup = Setup("\n".join([*declared, queries]), rows, engine or {})
    # 2. how it is split
    model = setup.go_on(None)
    split_by = model.partition_key(dict.fromkeys(model.streams, key) if isinstance(key, str) else key)
    count = session.sparkContext.defaultParallelism if buckets is None else buckets
    if not isinstance(count, int) or not 1 <= count <= MOST:
        raise UsageError(f"Expected 1 to {MOST:,} buckets, found `{count}`")
    prepare(session)
    # 3. the flow
    packed = [pack(frames[name], model, name, split_by[name], count) for name in split_by]
    layout = f"{count} buckets by {', '.join(f'`{name}.{split_by[name]}`' for name in sorted(split_by))}"
    processor = BucketEngine(setup, layout, fingerprint_of(model), count)
    together = reduce(lambda one, other: one.union(other), packed)
    given = together.groupBy("bucket").transformWithState(processor, GIVEN, "append", "eventTime")
    left_out = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in LEFT_OUT]
    results = given.observe(OBSERVED, *left_out).where(f"{QUERY} IS NOT NULL").select(*RESULTS)
    return ScaledOut(results, setup.result_schemas, split_by, count)


def with_watermark(name: str, frame: DataFrame) -> DataFrame:
    """The frame with a watermark: one of no delay on its time, if it has none."""
    if not frame.isStreaming:
        raise UsageError(f"Expected a streaming DataFrame for `{name}`, found one that is not")
    if any(WATERMARK_DELAY in field.metadata for field in frame.schema.fields):
        return frame
    declare_stream(name, frame)  # says what is wrong with its columns
    time_column = next(field for field in frame.schema.fields if field.name.lower() == "ts")
    if not isinstance(time_column.dataType, spark.TimestampType):  # Spark has no other watermarks
        raise SchemaError(
            f"Expected `timestamp` in the time column `{time_column.name}`, "
            f"found `{time_column.dataType.simpleString()}`",
            source=name,
            hint="Cast it, or name another with withWatermark",
        )
    return frame.withWatermark("ts", "0 seconds")


def prepare(session: SparkSession) -> None:
    """The settings that the stateful operator asks for."""
    if not hasattr(session, "_jsparkSession"):
        raise UsageError("Expected a session in the driver's own process, found one of Spark Connect")
    policy = session.conf.get(WATERMARKS)
    if policy != "min":
        raise UsageError(f"Expected `min` in {WATERMARKS}, found `{policy}`: slower streams would be late")
    if not session.conf.get(PROVIDER, "").endswith("RocksDBStateStoreProvider"):
        session.conf.set(PROVIDER, ROCKSDB)
    if session.conf.get(CHANGELOG, "") == "":
        session.conf.set(CHANGELOG, "true")


def pack(frame: DataFrame, model: Engine, stream: str, key: str, buckets: int) -> DataFrame:
    columns = model.streams[stream]
    names, types = tuple(columns.names), tuple(map(own_type, columns))
    time_column = names.index(model.time_column(stream))
    packer = Packer(stream, names, types, time_column, names.index(key), buckets)
    delay_ms = model.slack(stream) // datetime.timedelta(milliseconds=1)
    # `at` carries the delay, as Spark's own column of time does, so that the operator has timers.
    fields = [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("stream", spark.StringType()),
        spark.StructField("at", spark.TimestampType(), metadata={WATERMARK_DELAY: delay_ms}),
        spark.StructField("rows", spark.BinaryType()),
    ]
    return frame.mapInArrow(packer, spark.StructType(fields))


def fingerprint_of(model: Engine) -> str:
    """Stands for the queries and all they need."""
    said = [
        {name: describe(query) for name, query in model.queries.items()},
        {name: str(schema) for name, schema in [*model.streams.items(), *model.tables.items()]},
        {name: timing(model, name) for name in model.streams},
        {name: digest_rows(model.table_rows(name)) for name in model.tables},
        sorted((name, repr(value)) for name, value in model.options.items()),
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]
