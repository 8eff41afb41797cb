"""Real sensors, two hundred queries with one join in common: each exact against DuckDB.

Temperature joined with humidity per (location, node), as in test_room_climate.py; windows from 10 s to
10 min, thresholds on both sides. The readings are parts of three places, with pauses longer and shorter than
the windows, repeats, and a late row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

DECLARE = """
CREATE STREAM temperature (ts TIMESTAMP, id BIGINT, location VARCHAR, node BIGINT, temp_c DOUBLE,
                           WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
CREATE STREAM humidity    (ts TIMESTAMP, id BIGINT, location VARCHAR, node BIGINT, humid_pct DOUBLE,
                           WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
"""
PARTS = [(14_500, 17_000), (343_500, 347_000), (418_000, 420_500)]
QUERIES = 200
LONGEST_S = 600
STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "unshared"]
# Told apart by: which rows of which pair, and how often. DuckDB and numpy reckon alike below 2^63.
MIX = "(t_id * 1000003 + h_id * 7919) % 1000000007"

# All pairs of the longest window, once. The bucket only spares comparing each row with every other.
PAIRS = f"""
CREATE TABLE pairs AS
WITH r AS (SELECT id, epoch_us(ts) AS ts, location, node, temp_c, humid_pct FROM readings),
     near AS (SELECT *, ts // {LONGEST_S * 1_000_000} + unnest([-1, 0, 1]) AS bucket FROM r)
SELECT t.id AS t_id, h.id AS h_id, h.ts - t.ts AS age, t.temp_c, h.humid_pct
FROM r AS t JOIN near AS h
  ON t.location = h.location AND t.node = h.node AND t.ts // {LONGEST_S * 1_000_000} = h.bucket
WHERE abs(h.ts - t.ts) < {LONGEST_S * 1_000_000}
"""


@dataclass(frozen=True)
class Ask:
    """A query: windows in milliseconds, conditions on the two streams; rows are read, or only counted."""

    temperature_ms: int
    humidity_ms: int
    where: str
    counting: bool

    @property
    def sql(self) -> str:
        return (
            f"SELECT t.id AS t_id, h.id AS h_id FROM temperature [RANGE {self.temperature_ms} ms] AS t "
            f"JOIN humidity [RANGE {self.humidity_ms} ms] AS h "
            f"ON t.location = h.location AND h.node = t.node WHERE {self.where}"
        )

    @property
    def expected(self) -> str:
        ages = f"age < {self.temperature_ms * 1000} AND -age < {self.humidity_ms * 1000}"
        return f"SELECT count(*), coalesce(sum({MIX}), 0)::HUGEINT FROM pairs WHERE {ages} AND {self.where}"


def draw_asks(readings: pa.Table) -> list[Ask]:
    """Thresholds at drawn quantiles, some the same in many queries; every ninth query is read."""
    rng = np.random.default_rng(2016)
    temperatures, humidities = (np.sort(readings[name].to_numpy()) for name in ("temp_c", "humid_pct"))

    def quantile(values: np.ndarray, q: float) -> float:
        return float(values[int(q * (len(values) - 1))])

    asks = []
    for number in range(QUERIES):
        counting = number % 9 != 4
        windows = np.sort(rng.integers(10_000, LONGEST_S * 1000 + 1, 2))
        windows = windows // 10 if not counting and number % 2 else windows
        left, right = (windows if number % 3 else windows[[1, 1]]).tolist()
        hot = quantile(temperatures, round(float(rng.random()), 1 if number % 2 else 3))
        wet = quantile(humidities, round(float(rng.random()), 1 if number % 2 else 3))
        where = [
            f"temp_c > {hot!r}",
            f"temp_c > {hot!r} AND humid_pct < {wet!r}",
            f"humid_pct >= {wet!r} AND temp_c <= {hot!r}",
            f"temp_c BETWEEN {hot - 0.4!r} AND {hot!r}",
            f"humid_pct > {wet!r} AND temp_c + 1 > {hot!r} * 1.02",
        ][number % 5]
        asks.append(Ask(max(left, 10_000), max(right, 10_000), where, counting))
    asks[7] = Ask(LONGEST_S * 1000, LONGEST_S * 1000, "temp_c > -300", True)
    asks[8] = Ask(LONGEST_S * 1000, 10_000, "temp_c > 1000 AND humid_pct > 0", True)
    return asks


@pytest.fixture(scope="module")
def readings(real_data: Path) -> pa.Table:
    file = real_data / "room_climate.parquet"
    if not file.exists():
        pytest.skip("room_climate.parquet is not beside this checkout")
    columns = ["ts", "location", "node", "temp_c", "humid_pct"]
    table = pq.read_table(file, columns=columns)
    parts = pa.concat_tables([table.slice(start, stop - start) for start, stop in PARTS])
    ts = parts["ts"].cast(pa.int64()).to_numpy()
    pauses = np.diff(ts) / 1000
    assert (pauses < 0).any() and (pauses == 0).any(), "expected a late row and a repeat"
    assert pauses.max() > LONGEST_S and ((pauses > 10) & (pauses < LONGEST_S)).any(), "expected pauses"
    return parts.append_column("id", pa.array(np.arange(parts.num_rows)))


@pytest.fixture(scope="module")
def asks(readings: pa.Table) -> list[Ask]:
    return draw_asks(readings)


@pytest.fixture(scope="module")
def expected(readings: pa.Table, asks: list[Ask]) -> list[tuple[int, int]]:
    """(results, their checksum) of each query."""
    con = duckdb.connect()
    con.register("readings", readings)
    con.execute(PAIRS)
    found = []
    for ask in asks:
        row = con.execute(ask.expected).fetchone()
        assert row is not None
        found.append((int(row[0]), int(row[1])))
    return found


def checksum(table: pa.Table) -> int:
    t_id, h_id = (table[name].to_numpy() for name in ("t_id", "h_id"))
    return int(((t_id * 1_000_003 + h_id * 7_919) % 1_000_000_007).sum())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_hundred_queries_oracle(
    strategy: str, readings: pa.Table, asks: list[Ask], expected: list[tuple[int, int]]
) -> None:
    engine = penstock.Engine(sharing=strategy)
    engine.execute(DECLARE)
    queries = [engine.query(ask.sql, count_only=ask.counting) for ask in asks]
    sums = [0] * len(asks)
    at = 0
    for size in np.random.default_rng(7).integers(1, 1_500, 100).tolist():
        part = readings.slice(at, size)
        engine.push("temperature", part)
        engine.push("humidity", part)
        at += size
        for number, ask in enumerate(asks):
            if not ask.counting:
                sums[number] += checksum(queries[number].results())
    assert at > readings.num_rows
    engine.close()
    engine._runtime._check()
    for number, (ask, query) in enumerate(zip(asks, queries, strict=True)):
        count, mixed = expected[number]
        assert query.count == count, ask.sql
        if not ask.counting:
            assert sums[number] + checksum(query.results()) == mixed, ask.sql
    assert engine.stats()["streams"]["temperature"]["rows_late"] == 0
    shared = [] if strategy == "unshared" else [QUERIES]
    assert [len(group["queries"]) for group in engine.stats()["groups"]] == shared


def test_the_queries_are_worth_asking(asks: list[Ask], expected: list[tuple[int, int]]) -> None:
    """Many different answers, one with nothing, one with every pair, and enough that is read."""
    counts = [count for count, _ in expected]
    assert counts[7] == max(counts) > 1_000_000
    assert counts[8] == 0
    assert len(set(counts)) > QUERIES * 0.8
    assert sum(count for count, ask in zip(counts, asks, strict=True) if not ask.counting) > 100_000
    assert all(sum(ask.counting is kind for ask in asks) > 15 for kind in (True, False))
