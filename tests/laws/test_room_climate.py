"""Real sensors: temperature joined with humidity per (location, node), exact against DuckDB.

540,364 readings of 12 nodes in 144 sessions, with late rows and repeats as they happened.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

DECLARE = """
CREATE STREAM temperature (ts TIMESTAMP, location VARCHAR, node BIGINT, temp_c DOUBLE,
                           WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
CREATE STREAM humidity    (ts TIMESTAMP, location VARCHAR, node BIGINT, humid_pct DOUBLE,
                           WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
"""
QUERY = """
SELECT t.location, t.node, t.ts AS t_ts, h.ts AS h_ts, temp_c, humid_pct
FROM temperature [RANGE 10 SECONDS] AS t JOIN humidity [RANGE 5 SECONDS] AS h
  ON t.location = h.location AND h.node = t.node
WHERE temp_c > 20
"""
# The same pairs from whole tables; the 10 s bucket only spares DuckDB comparing each row with every other.
EXPECTED = """
WITH t AS (SELECT epoch_us(ts) AS ts, location, node, temp_c FROM readings WHERE temp_c > 20),
     h AS (SELECT epoch_us(ts) AS ts, location, node, humid_pct FROM readings),
     near AS (SELECT *, ts // 10000000 + unnest([-1, 0, 1]) AS bucket FROM h)
SELECT make_timestamp(greatest(t.ts, near.ts)) AS _ts, t.location, t.node::BIGINT AS node,
       make_timestamp(t.ts) AS t_ts, make_timestamp(near.ts) AS h_ts, temp_c, humid_pct
FROM t JOIN near ON t.location = near.location AND t.node = near.node AND t.ts // 10000000 = near.bucket
WHERE near.ts - t.ts < 10000000 AND t.ts - near.ts < 5000000
"""


@pytest.fixture(scope="module")
def readings(real_data: Path) -> pa.Table:
    return pq.read_table(real_data / "room_climate.parquet")


@pytest.fixture(scope="module")
def database(readings: pa.Table) -> duckdb.DuckDBPyConnection:
    """With the answer in a table."""
    con = duckdb.connect()
    con.register("readings", readings)
    con.execute(f"CREATE TABLE expected AS {EXPECTED}")
    return con


@pytest.mark.parametrize("index", ["auto", ("t-tree", "b+tree")])
def test_room_climate_oracle(
    readings: pa.Table, database: duckdb.DuckDBPyConnection, index: str | tuple[str, str]
) -> None:
    engine = penstock.Engine(index=index)
    engine.execute(DECLARE)
    query = engine.query(QUERY)
    for start in range(0, readings.num_rows, 50_000):
        part = readings.slice(start, 50_000)
        engine.push("temperature", part)
        engine.push("humidity", part)
    engine.close()
    results = query.results()
    assert results.schema.field("_ts").type == pa.timestamp("us")
    assert engine.stats()["streams"]["temperature"]["rows_late"] == 0

    con = database.cursor()
    con.register("results", results)
    assert con.execute("SELECT count(*) FROM expected").fetchone() == (results.num_rows,)
    assert results.num_rows > 1_000_000
    # There are as many of them: where none is missing, none is too many.
    left = con.execute("SELECT count(*) FROM (FROM expected EXCEPT ALL FROM results)").fetchone()
    assert left == (0,), "rows are missing"
