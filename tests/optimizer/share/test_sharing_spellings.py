"""Joins on one condition in many spellings are one join, and each gives what DuckDB gives for its text."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from oracle import rows_of
from work_of import joins_of

import penstock

STRATEGIES = ("auto", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu")
COLUMNS = "id BIGINT, k BIGINT, j BIGINT, v DOUBLE, s VARCHAR, b BOOLEAN"
ON = "SELECT x.id AS a, y.id AS b FROM one {0} AS x JOIN two {0} AS y ON {1}"
TURNED = "SELECT x.id AS a, y.id AS b FROM two {0} AS y JOIN one {0} AS x ON {1}"
WHERE = "SELECT x.id AS a, y.id AS b FROM one {0} AS x, two {0} AS y WHERE {1}"
ALIKE = "SELECT x.id AS a, y.id AS b, ({1}) AS alike FROM one {0} AS x, two {0} AS y"
SUB_QUERY = f"SELECT a, b FROM ({ALIKE}) AS z WHERE alike"
FORMS = (ON, TURNED, WHERE, SUB_QUERY)

SPELLINGS = {
    "equality": [
        "x.k = y.k",
        "(x.k = y.k) = TRUE",
        "x.k = y.k OR FALSE",
        "(x.k = y.k) IS TRUE",
        "NOT NOT (x.k = y.k)",
        "NOT (x.k <> y.k)",
        "NOT (x.k < y.k OR x.k > y.k)",
        "CASE WHEN x.k = y.k THEN TRUE ELSE FALSE END",
        "CASE x.k WHEN y.k THEN TRUE END",
        "x.k = y.k + 0",
        "x.k * 1 = 0 + y.k",
        "x.k <= y.k AND x.k >= y.k",
        "x.k BETWEEN y.k AND y.k",
        "COALESCE(x.k = y.k, FALSE)",
        "x.k = y.k AND y.k = x.k",
        "1 = 1 AND x.k = y.k",
        "x.k IN (y.k)",
        "x.k IN (y.k, y.k)",
        "CAST(x.k AS BIGINT) = y.k",
        "CAST(x.k AS VARCHAR) = CAST(y.k AS VARCHAR)",
        "x.k IS NOT DISTINCT FROM y.k AND y.k IS NOT NULL",
        "x.k = y.k AND (x.v > 1 OR NOT x.v > 1)",
        "(x.k = y.k AND x.v > 1) OR (y.k = x.k AND y.v > 1)",
        "(x.k = y.k AND x.v > 1) OR (y.k = x.k AND NOT x.v > 1)",
        "x.k = y.k OR (x.k = y.k AND x.b)",
        "x.k = y.k AND x.v > 1 AND x.v < 0",
    ],
    "doubles": [
        "x.v = y.v",
        "x.v + 0 = y.v",
        "x.v - 0 = y.v * 1",
        "x.v / 1 = y.v",
        "x.v <= y.v AND y.v <= x.v",
        "NOT (x.v < y.v) AND NOT (x.v > y.v)",
        "(x.v = y.v) > FALSE",
    ],
    "text and number": [
        "x.s = y.s AND x.k = y.k",
        "x.k = y.k AND y.s || '' = x.s",
        "NOT (x.s <> y.s OR x.k <> y.k)",
        "(x.k = y.k AND x.s = y.s AND x.b) OR (x.k = y.k AND x.s = y.s AND y.b)",
        "CASE WHEN x.k = y.k THEN x.s = y.s ELSE FALSE END",
    ],
    "order": [
        "x.k < y.k", "y.k > x.k", "NOT x.k >= y.k", "x.k + 1 <= y.k", "y.k - x.k >= 1",
        "x.k <= y.k AND x.k <> y.k",
    ],
    "band": [
        "ABS(x.k - y.k) <= 2",
        "x.k BETWEEN y.k - 2 AND y.k + 2",
        "x.k - y.k <= 2 AND y.k - x.k <= 2",
        "x.k >= y.k - 2 AND NOT x.k > y.k + 2",
        "ABS(y.k - x.k) < 3",
        "x.k - y.k > -3 AND x.k - y.k < 3",
        "x.k - y.k <= 2 AND y.k - x.k <= 2 AND ABS(x.k - y.k) < 9",
    ],
    "band of doubles": [
        "ABS(x.v - y.v) <= 2",
        "x.v BETWEEN y.v - 2 AND y.v + 2",
        "x.v - y.v <= 2 AND y.v - x.v <= 2",
        "x.v >= y.v - 2 AND x.v <= y.v + 2",
        "y.v >= x.v - 2.0 AND (x.v >= y.v - 2) = TRUE",
    ],
    "two orders": ["x.k < y.k AND x.v < y.v", "x.v < y.v AND x.k < y.k", "y.v > x.v AND NOT y.k <= x.k"],
    "two orders crosswise": ["x.k < y.j AND x.j < y.k", "x.j < y.k AND x.k < y.j"],
}  # fmt: skip


@functools.cache
def tables() -> dict[str, pa.Table]:
    """Small values that often meet, NULL and NaN among them; all at one instant: windows play no part."""
    random = np.random.default_rng(5)
    found = {}
    for name in ("one", "two"):
        pools = {
            "k": [0, 1, 2, 3, 5, None],
            "j": [0, 1, 2, 4],
            "v": [0.0, -0.0, 1.5, 2.0, 4.0, float("nan"), float("inf"), None],
            "s": ["a", "b", "", None],
            "b": [True, False, None],
        }
        drawn = {
            column: [pool[i] for i in random.integers(len(pool), size=40)] for column, pool in pools.items()
        }
        found[name] = pa.table({"ts": pa.array([0] * 40, pa.timestamp("us")), "id": range(40), **drawn})
    return found


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name, table in tables().items():
        con.register(name, table)
    return con


@functools.cache
def expected(text: str) -> Counter[tuple[Any, ...]]:
    """DuckDB's answer, which is that of every strategy."""
    return Counter(database().execute(text.format("")).fetchall())


def start(
    strategy: str, window: str, spellings: list[str]
) -> tuple[penstock.Engine, dict[str, penstock.Query]]:
    engine = penstock.Engine(sharing=strategy)
    for name in ("one", "two"):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, {COLUMNS})")
    texts = [form.format("{0}", spelling) for spelling in spellings for form in FORMS]
    return engine, {text: engine.query(text.format(f"[{window}]")) for text in texts}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_all_spellings_are_one_join(kind: str) -> None:
    engine, queries = start("auto", "RANGE 5 SECONDS", SPELLINGS[kind])
    (group,) = joins_of(engine)
    assert len(group.members) == len(queries)
    assert engine.explain().count("\nShared join ") == 1


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_spelling_gives_what_it_says_oracle(kind: str, strategy: str) -> None:
    engine, queries = start(strategy, "RANGE 5 SECONDS", SPELLINGS[kind])
    for name, table in tables().items():
        engine.push(name, table)
    engine.close()
    for text, query in queries.items():
        came = Counter(row[1:] for row in rows_of(query.results()))
        assert came == expected(text), text


@pytest.mark.parametrize(
    "condition",
    ["x.k - y.k = 0", "x.k + 1 = y.k + 1", "x.k IS NOT DISTINCT FROM y.k", "(x.k = y.k) IS NOT FALSE",
     "x.j = y.k", "CAST(x.k AS DOUBLE) = y.k", "x.k = y.k AND x.j = y.j", "x.k = y.k OR x.j = y.j"],
)  # fmt: skip
def test_what_is_another_condition_is_another_join(condition: str) -> None:
    engine, _ = start("auto", "RANGE 5 SECONDS", ["x.k = y.k", condition])
    assert sorted(len(group.members) for group in joins_of(engine)) == [4, 4]


def test_using_is_on() -> None:
    engine, _ = start("auto", "RANGE 5 SECONDS", ["x.k = y.k"])
    engine.query("SELECT x.id AS a FROM two [RANGE 5 SECONDS] AS y JOIN one [RANGE 5 SECONDS] AS x USING (k)")
    (group,) = joins_of(engine)
    assert len(group.members) == 5


def test_a_difference_that_overflows_still_fails() -> None:
    """Which is why `x.k - y.k = 0` is not taken for `x.k = y.k`."""
    engine, queries = start("auto", "RANGE 5 SECONDS", ["x.k = y.k", "x.k - y.k = 0"])
    rows = tables()["one"].slice(0, 1)
    far = pa.array([2**63 - 1]), pa.array([-(2**63)])
    engine.push("one", rows.set_column(2, "k", far[0]))
    with pytest.raises(penstock.StoppedError, match="overflow"):
        engine.push("two", rows.set_column(2, "k", far[1]))
    for text, query in queries.items():
        if "- y.k" in text:
            with pytest.raises(penstock.StoppedError, match="overflow"):
                query.results()
        else:
            assert query.results().num_rows == 0
