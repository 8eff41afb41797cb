"""Real streams through incremental and hopping queries, exact against DuckDB: ties, repeats, gaps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from work_of import stores_of

import penstock

CLIMATE = """CREATE STREAM climate (ts TIMESTAMP, location VARCHAR, node BIGINT, temp_c DOUBLE,
             WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"""
TRADES = "CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, price_e4 BIGINT, size BIGINT)"


def microseconds(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()


def folded(changes: pa.Table, instant: int) -> Counter[tuple[Any, ...]]:
    """The answer at an instant."""
    ts = changes["_ts"].cast(pa.int64()).to_numpy()
    come = changes.slice(0, int(ts.searchsorted(instant, side="right")))
    _, diff, *values = come.column_names
    net = come.group_by(values, use_threads=False).aggregate([(diff, "sum")])
    rows = zip(*(net[name].to_pylist() for name in values), strict=True)
    return Counter({row: n for row, n in zip(rows, net[f"{diff}_sum"].to_pylist(), strict=True) if n})


@pytest.mark.parametrize("expiry", ["auto", "nta", "piggyback"])
def test_room_climate_groups_oracle(real_data: Path, expiry: str) -> None:
    """Per location and node over the last five minutes; sessions hours apart empty the windows in between."""
    readings = pq.read_table(real_data / "room_climate.parquet").slice(0, 60_000)
    engine = penstock.Engine(expiry=expiry)
    engine.execute(CLIMATE)
    calls = "COUNT(*) AS n, MIN(temp_c) AS low, MAX(temp_c) AS high, COUNT(DISTINCT temp_c) AS kinds"
    query = engine.query(
        f"SELECT location, node, {calls} FROM climate [RANGE 5 MINUTES] GROUP BY location, node"
    )
    for start in range(0, readings.num_rows, 7_000):
        engine.push("climate", readings.slice(start, 7_000))
    engine.close()
    changes = query.results()
    con = duckdb.connect()
    con.register("readings", readings)
    con.execute("CREATE TABLE r AS SELECT *, epoch_us(ts) AS us FROM readings")
    times = microseconds(readings)
    for instant in [*np.random.default_rng(1).choice(times, 6).tolist(), int(times.max())]:
        wanted = con.execute(
            f"SELECT location, node::BIGINT, {calls} FROM r "
            f"WHERE us <= {instant} AND us > {instant - 300_000_000} GROUP BY location, node"
        ).fetchall()
        assert folded(changes, instant) == Counter(wanted), instant
    assert any(not folded(changes, int(t) - 1) for t in times[1:][np.diff(times) > 3_600_000_000][:1])


def test_many_windows_over_one_stream_oracle(real_data: Path) -> None:
    """Forty windows of 10 s to 10 min, with thresholds: rows that are in them, and aggregates of these. Rows
    of the stream are kept once, and leave with the last window that they were in."""
    readings = pq.read_table(real_data / "room_climate.parquet").slice(0, 20_000)
    engine = penstock.Engine()
    engine.execute(CLIMATE)
    calls = "COUNT(*) AS n, MIN(temp_c) AS low, MAX(temp_c) AS high"
    asked: dict[str, tuple[str, str, int]] = {}
    for number in range(40):
        size = 10 + 15 * number
        where = f"temp_c > {18 + number % 7}" if number % 3 else f"node <= {number % 5}"
        what, group = (
            ("location, temp_c", "") if number % 2 else (f"node::BIGINT AS node, {calls}", "GROUP BY node")
        )
        asked[f"q{number}"] = what, f"{where} {group}", size
        engine.query(
            f"SELECT {what.replace('::BIGINT AS node', '')} FROM climate [RANGE {size} SECONDS] "
            f"WHERE {where} {group} EMIT CHANGES",
            name=f"q{number}",
        )
    for start in range(0, readings.num_rows, 3_000):
        engine.push("climate", readings.slice(start, 3_000))
    (store,) = stores_of(engine)
    assert len(store.members) == 40 and store.state_rows < readings.num_rows
    engine.close()
    results = {name: engine.queries[name].results() for name in asked}
    con = duckdb.connect()
    con.register("readings", readings)
    con.execute("CREATE TABLE r AS SELECT *, epoch_us(ts) AS us FROM readings")
    times = microseconds(readings)
    for instant in [*np.random.default_rng(2).choice(times, 3).tolist(), int(times.max())]:
        for name, (what, rest, size) in asked.items():
            lived = f"us <= {instant} AND us > {instant - size * 1_000_000}"
            wanted = con.execute(f"SELECT {what} FROM r WHERE {lived} AND {rest}").fetchall()
            assert folded(results[name], instant) == Counter(wanted), (name, instant)


def test_trades_every_minute_oracle(real_data: Path) -> None:
    """A report a minute over ten, many trades to the millisecond: every tenth hop, complete."""
    trades = pq.read_table(real_data / "us_equity_trades.parquet").slice(0, 200_000)
    engine = penstock.Engine()
    engine.execute(TRADES)
    query = engine.query(
        "SELECT symbol, COUNT(*) AS n, SUM(size) AS volume, MAX(price_e4) AS high "
        "FROM trades [RANGE 10 MINUTES] GROUP BY symbol HOP BY 1 MINUTE"
    )
    for start in range(0, trades.num_rows, 30_000):
        engine.push("trades", trades.slice(start, 30_000))
    engine.close()
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in query.results().to_pylist():
        ts, *values = row.values()
        found.setdefault(ts, Counter())[tuple(values)] += 1
    assert len(found) > 100
    con = duckdb.connect()
    con.register("trades", trades)
    for hop in list(found)[::10]:
        wanted = con.execute(
            "SELECT symbol, COUNT(*), SUM(size)::BIGINT, MAX(price_e4)::BIGINT FROM trades "
            f"WHERE ts <= TIMESTAMP '{hop}' AND ts > TIMESTAMP '{hop}' - INTERVAL 10 MINUTE GROUP BY symbol"
        ).fetchall()
        assert found[hop] == Counter(wanted), hop
