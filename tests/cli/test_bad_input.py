"""Bad input and extreme input: one clear line with where, the right exit code, and nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracle import rows_of
from test_engine import join_stats
from test_ingest import snapshot

import penstock
from penstock.engine.indexes.build import INDEX_KINDS
from penstock.engine.rows.window import MAX_TS

STREAMS = """
    CREATE STREAM temperature (ts TIMESTAMP, location BIGINT, value DOUBLE, label VARCHAR, on_roof BOOLEAN);
    CREATE STREAM humidity    (ts TIMESTAMP, location BIGINT, value DOUBLE, label VARCHAR, on_roof BOOLEAN);
"""
JOIN = "SELECT t.location FROM temperature [RANGE 9 us] AS t JOIN humidity [RANGE 9 us] AS h ON {}"


def make() -> penstock.Engine:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.execute("CREATE QUERY good AS SELECT location, value FROM temperature")
    engine.push("temperature", row(5))
    return engine


def row(*ts: int) -> dict[str, list[Any]]:
    n = len(ts)
    return {
        "ts": list(ts),
        "location": [1] * n,
        "value": [0.5] * n,
        "label": ["x"] * n,
        "on_roof": [True] * n,
    }


def check_unchanged(engine: penstock.Engine, before: Any) -> None:
    """Nothing was touched, and the engine goes on."""
    assert snapshot(engine) == before
    assert (list(engine.streams), list(engine.queries)) == (["temperature", "humidity"], ["good"])
    engine.push("temperature", row(6))
    assert [ts for ts, *_ in rows_of(engine.queries["good"].results())] == [5, 6]


# What is wrong, (line, column), words of the message.
WRONG_QUERIES: list[tuple[str, tuple[int, int], str]] = [
    ("SELECT locaton FROM temperature", (1, 8), "found `locaton`"),
    ("SELECT location\nFROM temperature\nWHERE valeu > 3", (3, 7), "Did you mean `value`?"),
    ("SELECT location FROM temperatur", (1, 22), "Did you mean `temperature`?"),
    ("SELECT t.location FROM temperature", (1, 8), "found `t`"),
    ("SELECT MEDIAN(value) FROM temperature [NOW]", (1, 8), "`MEDIAN`"),
    ("SELECT SQRTT(value) FROM temperature", (1, 8), "Did you mean `SQRT`?"),
    ("SELECT UPPER() FROM temperature", (1, 14), "Expected an expression, found `)`"),
    ("SELECT t.location FROM temperature AS t, humidity AS h", (1, 24), "Expected a window on `temperature`"),
    (JOIN.format("t.location = h.label"), (1, 89), "BIGINT `t.location` and VARCHAR `h.label`"),
    (JOIN.format("t.on_roof = h.value"), (1, 89), "BOOLEAN `t.on_roof` and DOUBLE `h.value`"),
    (JOIN.format("t.ts = h.location"), (1, 89), "TIMESTAMP `t.ts` and BIGINT `h.location`"),
    (JOIN.format("t.location"), (1, 89), "Expected BOOLEAN in ON"),
    (
        "SELECT location FROM temperature WHERE label > 5",
        (1, 40),
        "VARCHAR `temperature.label` and BIGINT `5`",
    ),
    ("SELECT label * 2 FROM temperature", (1, 8), "found VARCHAR, BIGINT"),
    ("SELECT location FROM temperature WHERE value", (1, 40), "Expected BOOLEAN in WHERE, found DOUBLE"),
    ("SELECT location FROM temperature WHERE ts > 'noon'", (1, 45), "found `noon`"),
    ("SELECT location FROM temperature [RANGE 0 SECONDS]", (1, 41), "more than 0, found `0 SECONDS`"),
    ("SELECT location FROM temperature [RANGE -5 SECONDS]", (1, 41), "more than 0, found `-5 SECONDS`"),
    ("SELECT location FROM temperature [ROWS 0]", (1, 40), "Expected 1 row or more, found `0`"),
    ("SELECT location FROM temperature [ROWS -3]", (1, 40), "Expected 1 row or more, found `-3`"),
    ("SELECT location FROM temperature WINDOW -3 ROWS", (1, 41), "Expected 1 row or more, found `-3`"),
    ("SELECT location FROM temperature WINDOW 0 SECONDS", (1, 41), "more than 0"),
    (f"SELECT location FROM temperature [RANGE {MAX_TS} us]", (1, 41), "less than 2^62 microseconds"),
    ("SELECT location FROM temperature [RANGE 1e30 DAYS]", (1, 41), "less than 2^62 microseconds"),
    ("SELECT location FROM temperature [ROWS 99999999999999999999]", (1, 40), "fewer than 10^18 rows"),
    ("SELECT location FROM temperature [RANGE 0.3 us]", (1, 41), "whole number of microseconds"),
    ("SELECT location, value FROM temperature UNION ALL SELECT location FROM humidity", (1, 41), "found 1"),
    ("SELECT 99999999999999999999 FROM temperature", (1, 8), "99999999999999999999"),
    ("SELECT location FROM temperature LATE MAYBE", (1, 39), "Expected `DROP` or `ERROR`"),
    ("SELECT location AS _ts FROM temperature", (1, 20), "`_ts`"),
    ("", (1, 1), "Expected a query, found nothing"),
    ("SELECT", (1, 7), "Expected an expression after `SELECT`"),
    ("FROM temperature SELECT location", (1, 1), "Expected `SELECT`"),
    ("SELECT location FROM temperature; SELECT 1", (1, 35), "Expected one query, found a second"),
    ("SELECT 'unfinished FROM temperature", (1, 8), "closing `'`"),
    ("SELECT (location FROM temperature", (1, 8), "Expected `)` to close `(`"),
]


@pytest.mark.parametrize(("sql", "place", "words"), WRONG_QUERIES)
def test_wrong_queries(sql: str, place: tuple[int, int], words: str) -> None:
    engine = make()
    before = snapshot(engine)
    with pytest.raises(penstock.QueryError) as caught:
        engine.query(sql, name="bad")
    error = caught.value
    assert (error.line, error.column) == place
    assert f"at line {place[0]}, column {place[1]}" in str(error)
    assert words in str(error)
    assert "\n" not in str(error)
    assert error.exit_code == 3
    check_unchanged(engine, before)
    # the same in a script, where lines count from the script's first
    with pytest.raises(penstock.QueryError) as caught:
        engine.execute(f"-- a comment\nCREATE STREAM extra (ts TIMESTAMP);\nCREATE QUERY bad AS\n{sql}")
    assert caught.value.line is not None
    assert "extra" not in engine.streams


def test_wrong_calls() -> None:
    engine = make()
    before = snapshot(engine)
    for call, words in (
        (lambda: engine.push("temprature", row(6)), "Did you mean `temperature`?"),
        (lambda: engine.push("wind", row(6)), "found `wind`"),
        (lambda: engine.time_column("wind"), "found `wind`"),
        (lambda: engine.push("temperature", [row(6)]), "found list"),
        (lambda: engine.push("temperature", 5), "found int"),
        (lambda: engine.push("temperature", pa.chunked_array([[1]])), "found ChunkedArray"),
        (lambda: engine.query("SELECT location FROM temperature", name=" "), "Expected a name, found ` `"),
        (lambda: engine.queries["good"].subscribe(5), "Expected a function"),  # type: ignore[arg-type]
        (lambda: engine.advance("tomorrow"), "found `'tomorrow'`"),  # type: ignore[arg-type]
        (lambda: engine.advance(MAX_TS), f"found `{MAX_TS}`"),
    ):
        with pytest.raises(penstock.UsageError) as caught:
            call()
        assert words in str(caught.value)
        assert (caught.value.exit_code, "\n" in str(caught.value)) == (2, False)
    check_unchanged(engine, before)


def test_values_that_are_no_column() -> None:
    """What another library says about them is one sentence of ours."""
    engine = make()
    before = snapshot(engine)
    large = {**row(6), "location": [2**63]}
    mixed = pd.DataFrame({**row(6, 7), "location": [1, "x"]})
    for data, words in (
        (large, "Expected integers of 64 bits in column `location`, found a larger one, in `temperature`"),
        (mixed, "found: Could not convert 'x' with type str"),
    ):
        with pytest.raises(penstock.SchemaError) as caught:
            engine.push("temperature", data)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    check_unchanged(engine, before)


def test_a_push_before_any_stream_says_how_to_declare_one() -> None:
    with pytest.raises(penstock.UsageError, match="CREATE STREAM"):
        penstock.Engine().push("temperature", row(1))
    with pytest.raises(penstock.BindError, match="CREATE STREAM"):
        penstock.Engine().query("SELECT x FROM temperature")


def test_time_going_backwards() -> None:
    engine = make()
    before = snapshot(engine)
    with pytest.raises(penstock.LateError) as caught:
        engine.push("temperature", row(5, 6, 4, 3))
    message = str(caught.value)
    assert (caught.value.source, caught.value.row, caught.value.exit_code) == ("temperature", 3, 4)
    assert "1970-01-01 00:00:00.000004" in message
    assert "2 MICROSECONDS behind" in message
    assert "WATERMARK" in message
    assert "LATE DROP" in message
    check_unchanged(engine, before)


# -- extremes that must simply work -------------------------------------------------------------------


def test_ten_thousand_columns() -> None:
    n = 10_000
    engine = penstock.Engine()
    engine.execute(f"CREATE STREAM wide (ts TIMESTAMP, {', '.join(f'c{i} BIGINT' for i in range(n))})")
    query = engine.query("SELECT * FROM wide WHERE c9999 = 1")
    joined = engine.query(
        "SELECT a.c7, b.c9999 FROM wide [NOW] AS a JOIN wide [NOW] AS b ON a.c5000 = b.c9999"
    )
    engine.push("wide", {"ts": [1, 2], **{f"c{i}": [i, 1] for i in range(n)}})
    assert (query.results().num_columns, joined.count) == (n + 2, 1)
    with pytest.raises(penstock.BindError) as caught:
        engine.query("SELECT c10000 FROM wide")
    assert len(str(caught.value)) < 200
    with pytest.raises(penstock.SchemaError, match="Expected a column `c17`") as missing:
        engine.push("wide", {"ts": [3], **{f"c{i}": [i] for i in range(n) if i != 17}})
    assert len(str(missing.value)) < 200
    assert len(engine.explain()) < 5_000


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_an_engine_without_a_single_row(index: str) -> None:
    engine = penstock.Engine(index=index)
    engine.execute(STREAMS)
    joined = engine.query(JOIN.format("t.location = h.location"))
    union = engine.query("SELECT location FROM temperature UNION ALL SELECT location FROM humidity")
    engine.push("temperature", {name: [] for name in row(1)})
    engine.advance(10)
    assert "measured: 0 rows in, 0 out" in engine.explain(analyze=True)
    engine.close()
    assert joined.results().num_rows == union.results().num_rows == 0
    assert joined.results().schema.names == ["_ts", "location"]


def simple(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    return engine


@pytest.mark.parametrize("cuts", [1, 50])
def test_all_rows_at_one_instant(cuts: int) -> None:
    """Of a hundred thousand rows of one ts RANGE takes all, ROWS 1000 only ever held the last thousand."""
    n, size = 100_000, 1_000
    engine = simple()
    on = "a {0} JOIN b {0} ON a.k = b.k"
    range_, rows_ = (
        engine.query(f"SELECT a.k FROM {on.format(w)}") for w in ("[RANGE 1 us]", f"[ROWS {size}]")
    )
    alone = engine.query(f"SELECT k FROM a [ROWS {size}]")
    keys = np.random.default_rng(5).permutation(n)
    for part in np.array_split(keys, cuts):
        for stream in ("a", "b"):
            engine.push(stream, {"ts": np.full(len(part), 7), "k": part})
    assert range_.count == n
    assert rows_.count == alone.count == 0  # their instant is not over
    engine.advance(8)
    assert rows_.count == alone.count == size
    for query in (rows_, alone):
        assert sorted(query.results()["k"].to_pylist()) == sorted(keys[-size:].tolist())
    assert join_stats(engine, rows_)["state_rows"] == 2 * size
    assert join_stats(engine, range_)["state_rows"] == 0


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_very_long_keys(index: str) -> None:
    """Texts of a megabyte that differ in their last letter only."""
    engine = penstock.Engine(index=index)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, s VARCHAR); CREATE STREAM b (ts TIMESTAMP, s VARCHAR)")
    columns = "LENGTH(a.s) AS n, a.ts AS ats, b.ts AS bts, b.s"
    query = engine.query(f"SELECT {columns} FROM a [RANGE 9 us] JOIN b [RANGE 9 us] ON a.s = b.s")
    long = "k" * (1 << 20)
    engine.push("a", {"ts": [1, 2, 3], "s": [long + "a", long + "b", None]})
    engine.push("b", {"ts": [1, 2, 3], "s": [long + "b", long + "c", long]})
    engine.close()
    assert [row[:4] for row in rows_of_micros(query)] == [(2, (1 << 20) + 1, 2, 1)]


def rows_of_micros(query: penstock.Query) -> list[tuple[Any, ...]]:
    table = query.results()
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("index", INDEX_KINDS)
@pytest.mark.parametrize(
    "window", [f"RANGE {MAX_TS - 1} us", "RANGE UNBOUNDED", "ROWS 999999999999999999", "NOW"]
)
def test_ts_plus_window_does_not_overflow(index: str, window: str) -> None:
    engine = simple(index=index)
    query = engine.query(f"SELECT a.ts AS ats, b.ts AS bts FROM a [{window}] JOIN b [{window}] ON a.k = b.k")
    ends = [-MAX_TS + 1, 0, MAX_TS - 2, MAX_TS - 1]
    for stream in ("a", "b"):
        engine.push(stream, {"ts": ends, "k": [1] * 4})
        engine._runtime._check()
    engine.close()
    size = 1 if window == "NOW" else MAX_TS - 1 if "us" in window else 1 << 70
    expected = sorted((max(x, y), x, y) for x in ends for y in ends if abs(x - y) < size)
    assert sorted(rows_of_micros(query)) == expected


@pytest.mark.parametrize("index", INDEX_KINDS)
@pytest.mark.parametrize(
    "condition", ["a.k = b.k", "a.v = b.v", "a.k = b.k AND a.v = b.v", "a.v <= b.v", "ABS(a.k - b.k) < 5"]
)
def test_keys_that_are_all_null(index: str, condition: str) -> None:
    engine = penstock.Engine(index=index)
    for name in ("a", "b"):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    query = engine.query(f"SELECT a.ts FROM a [RANGE 1 DAY] JOIN b [RANGE 1 DAY] ON {condition}")
    for start in (0, 500):
        for stream in ("a", "b"):
            engine.push(stream, {"ts": np.arange(start, start + 500), "k": pa.nulls(500), "v": pa.nulls(500)})
    engine.close()
    assert query.count == 0
    assert join_stats(engine, query)["state_rows"] == 0  # such a row meets nothing: it is not kept


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_keys_that_are_all_nan(index: str) -> None:
    engine = penstock.Engine(index=index)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, v DOUBLE); CREATE STREAM b (ts TIMESTAMP, v DOUBLE)")
    equal = engine.query(
        "SELECT a.ts FROM a [RANGE 1 DAY] JOIN b [RANGE 1 DAY] ON a.v = b.v", count_only=True
    )
    less = engine.query("SELECT a.ts FROM a [RANGE 1 DAY] JOIN b [RANGE 1 DAY] ON a.v < b.v", count_only=True)
    # of either sign and with any bits behind it, NaN is NaN
    bits = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 5], np.uint64)
    for stream in ("a", "b"):
        engine.push(stream, {"ts": np.arange(300), "v": np.repeat(bits.view(np.float64), 100)})
    engine.close()
    assert (equal.count, less.count) == (300 * 300, 0)
