"""Streams for tests of Spark: with ties, gaps, NULLs and disorder, cut into files, one per micro-batch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

import penstock
from penstock.connectors.spark import Sink, sink, tag_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SLACK = "2 seconds"
QUICK = {f"spark.{one}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for one in ("driver", "executor")}
"""Settings for tests: they are over before Java has done compiling to best code."""
COLUMNS = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("v", pa.float32()),
        ("name", pa.string()),
    ]
)
QUERIES = """
CREATE QUERY pairs AS
  SELECT l.id AS l, r.id AS r, l.name
  FROM a [RANGE 3 SECONDS] AS l JOIN b [RANGE 2 SECONDS] AS r ON l.k = r.k;
CREATE QUERY high AS SELECT id, v, ts AS at FROM a WHERE v > 0.5;
CREATE QUERY low AS SELECT id, v, ts AS at FROM b WHERE v <= 0.5;
CREATE QUERY totals AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 4 SECONDS] GROUP BY k;
CREATE QUERY report AS SELECT COUNT(*) AS n FROM b [RANGE 10 SECONDS] HOP BY 5 SECONDS;
"""
DECLARED = """CREATE STREAM a (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR,
                               WATERMARK FOR ts AS ts - 2 SECONDS);"""
EXPECTED = {
    "pairs": """SELECT greatest(l.us, r.us), l.id, r.id, l.name FROM all_a l JOIN all_b r ON l.k = r.k
                WHERE r.us - l.us < 3000000 AND l.us - r.us < 2000000""",
    "high": "SELECT us, id, v::DOUBLE, us FROM all_a WHERE v > 0.5",
    "low": "SELECT us, id, v::DOUBLE, us FROM all_b WHERE v <= 0.5",
}


def draw_stream(seed: int, rows: int = 600, seconds: int = 60) -> pa.Table:
    """Rows in order of arrival: up to 1.5 s out of order by time, many of them tied with another."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, seconds * 4, rows)) * (SECOND // 4)
    ts[rng.random(rows) < 0.3] += 1
    arrival = np.argsort(ts + rng.integers(0, int(1.5 * SECOND), rows), kind="stable")
    key = pa.array(rng.integers(0, 8, rows), pa.int32(), mask=rng.random(rows) < 0.1)
    value = pa.array(rng.random(rows), pa.float32(), mask=rng.random(rows) < 0.1)
    name = pa.array([None if n % 7 == 0 else f"ä{n % 5}" for n in range(rows)])
    columns = [pa.array(ts + BEGIN, pa.timestamp("us", "UTC")), pa.array(np.arange(rows) + seed * 10_000)]
    return pa.Table.from_arrays([*columns, key, value, name], schema=COLUMNS).take(pa.array(arrival))


def cut(table: pa.Table, ends: Sequence[int]) -> list[pa.Table]:
    """The table up to each of `ends`, a share in percent, from the one before."""
    rows = [0, *(table.num_rows * end // 100 for end in ends)]
    return [table.slice(start, end - start) for start, end in pairwise(rows)]


def add_files(folder: Path, parts: Iterable[pa.Table]) -> None:
    """One file per micro-batch, in the order in which Spark will take them: that of their age."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        number = len(list(folder.iterdir()))
        path = folder / f"{number:04}.parquet"
        pq.write_table(part, path)
        os.utime(path, (BEGIN // SECOND + number, BEGIN // SECOND + number))


def read_stream(spark: SparkSession, folder: Path, slack: str | None = SLACK) -> DataFrame:
    """The files of a folder as a stream, one per batch."""
    schema = spark.createDataFrame(COLUMNS.empty_table()).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return frame.withWatermark("ts", slack) if slack else frame


def both_streams(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    return {name: read_stream(spark, folder / name) for name in ("a", "b")}


def run_stream(frame: DataFrame, sink: Sink, checkpoint: Path) -> None:
    """All there is, then stop; raises what the sink raised."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def run_to_end(writer: Any) -> Any:
    """All there is, then stop; the query. Spark gives its Python processes ten seconds to start: a machine
    that is too busy for that gets another try, which goes on from the checkpoint."""
    for last in (False, False, True):
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if last or "failed to connect back" not in str(error):
                raise
    raise AssertionError("the last try returns or raises")


def run_both(spark: SparkSession, folder: Path, sink: Sink) -> None:
    """Streams a and b of the folder, from where the last run stopped."""
    run_stream(tag_streams(both_streams(spark, folder)), sink, folder / "checkpoint")


def embedded(
    streams: dict[str, pa.Table], queries: str = QUERIES, *, close: bool = True
) -> dict[str, Counter[Any]]:
    """What the engine gives by itself, without Spark, for all rows at once; `close`: none will follow."""
    engine = penstock.Engine()
    for name in streams:
        engine.execute(
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR, "
            "WATERMARK FOR ts AS ts - 2 SECONDS)"
        )
    engine.execute(queries)
    for name, rows in streams.items():
        engine.push(name, rows)
    if close:
        engine.close()
    return {name: bag(query.results()) for name, query in engine.queries.items()}


def from_duckdb(streams: dict[str, pa.Table]) -> dict[str, Counter[Any]]:
    """What the queries that only give rows must give, from whole tables."""
    con = duckdb.connect()
    for name, rows in streams.items():
        con.register(f"in_{name}", rows)
        con.execute(f"CREATE TABLE all_{name} AS SELECT *, epoch_us(ts) AS us FROM in_{name}")
    return {name: Counter(con.execute(sql).fetchall()) for name, sql in EXPECTED.items()}


def bag(table: pa.Table) -> Counter[Any]:
    """Rows with times as microseconds, and how often each comes."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns
    ]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


def written(
    spark: SparkSession, folder: Path, names: Iterable[str], format: str = "parquet"
) -> dict[str, Counter[Any]]:
    """What the sink wrote for each query, batches put together."""
    found = {}
    for name in names:
        path = folder / f"query={name}"
        if path.exists():
            found[name] = bag(spark.read.format(format).load(str(path)).drop("batch").toArrow())
        else:
            found[name] = Counter()
    return found


def rows(*seconds: float, start: int = 0) -> pa.Table:
    """Rows of a stream at these times after the beginning."""
    n = len(seconds)
    ts = pa.array([BEGIN + int(one * SECOND) for one in seconds], COLUMNS.field("ts").type)
    ids, keys = pa.array(range(start, start + n)), pa.array([1] * n, pa.int32())
    columns = [ts, ids, keys, pa.array([0.75] * n, pa.float32()), pa.array(["x"] * n)]
    return pa.Table.from_arrays(columns, schema=COLUMNS)


def make_sink(spark: SparkSession, folder: Path) -> Sink:
    """All queries over the streams a and b of the folder."""
    return sink(QUERIES, streams=both_streams(spark, folder), state=folder / "state", path=folder / "out")
