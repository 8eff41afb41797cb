"""For tests of scale-out: queries that can be split by k, and streams that end long after their answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from spark_help import BEGIN, COLUMNS, SECOND, SLACK, bag, both_streams, run_to_end

import penstock
from penstock.connectors.spark import ScaledOut, scale_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """
CREATE QUERY pairs AS
  SELECT l.id AS l, r.id AS r, l.name
  FROM a [RANGE 3 SECONDS] AS l JOIN b [RANGE 2 SECONDS] AS r ON l.k = r.k;
CREATE QUERY high AS SELECT id, v, ts AS at FROM a WHERE v > 0.5;
CREATE QUERY low AS SELECT id, v, ts AS at FROM b WHERE v <= 0.5;
CREATE QUERY totals AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 4 SECONDS] GROUP BY k;
CREATE QUERY alone AS
  SELECT l.k, l.id FROM a [RANGE 2 SECONDS] AS l
  WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 1 SECOND] AS r WHERE r.k = l.k);
CREATE QUERY report AS SELECT k, COUNT(*) AS n FROM b [RANGE 10 SECONDS] GROUP BY k HOP BY 5 SECONDS;
"""
END = BEGIN + 600 * SECOND


def ended(table: pa.Table) -> pa.Table:
    """The stream and a row long after it, in no bucket's windows, by which time has passed everything."""
    last = pa.Table.from_pydict({"ts": [END], "id": [-1], "k": [None], "v": [None], "name": [None]}, COLUMNS)
    return pa.concat_tables([table, last])


def until_end(rows: Counter[Any]) -> Counter[Any]:
    """Without what the last row makes."""
    return Counter({row: n for row, n in rows.items() if row[0] < END - 10 * SECOND})


def whole_answers(streams: dict[str, pa.Table], queries: str = QUERIES) -> dict[str, Counter[Any]]:
    """What one engine gives that sees everything."""
    engine = penstock.Engine()
    for name in streams:
        columns = "ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR"
        engine.execute(f"CREATE STREAM {name} ({columns}, WATERMARK FOR ts AS ts - {SLACK})")
    engine.execute(queries)
    for name, rows in streams.items():
        engine.push(name, ended(rows))
    return {name: until_end(bag(query.results())) for name, query in engine.queries.items()}


def run_scaled(spark: SparkSession, folder: Path, queries: str = QUERIES, **options: Any) -> ScaledOut:
    """Streams a and b of the folder, from where the last run stopped, to files."""
    scaled = scale_out(queries, both_streams(spark, folder), **{"buckets": 3} | options)
    writer = scaled.frame.writeStream.foreachBatch(scaled.write(str(folder / "out")))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    run_to_end(writer)
    return scaled
