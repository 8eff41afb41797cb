"""What is taken and is probably not meant: said once, with its place, by the standard `warnings`."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest
from cli_help import invoke

import penstock

DECLARE = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, name VARCHAR); CREATE TABLE t (k BIGINT)"


@pytest.fixture
def engine() -> penstock.Engine:
    engine = penstock.Engine()
    engine.execute(DECLARE)
    return engine


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("k = NULL", 24),
        ("NULL <> k", 32),
        ("k < NULL", 24),
        ("NOT k >= CAST(NULL AS BIGINT)", 28),
        ("k BETWEEN 1 AND NULL", 24),
        ("k BETWEEN NULL AND NULL", 24),
        ("k IN (NULL)", 24),
        ("k IN (1, NULL)", 24),
        ("k NOT IN (1, 2, NULL)", 24),
        ("name LIKE NULL", 24),
        ("CASE k WHEN NULL THEN TRUE ELSE FALSE END", 24),
    ],
)
def test_a_comparison_with_null_is_warned_of(engine: penstock.Engine, condition: str, column: int) -> None:
    with pytest.warns(penstock.PenstockWarning, match="NULL") as caught:
        engine.query(f"SELECT k FROM s WHERE  {condition}")
    assert len(caught) == 1
    assert f"at line 1, column {column}. Write IS NULL" in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "condition",
    [
        "k IS NULL",
        "k IS NOT NULL",
        "k IS DISTINCT FROM NULL",
        "COALESCE(k, NULL) = 1",
        "k + NULL IS NULL",
        "k = k",
    ],
)
def test_what_is_meant_is_not_warned_of(engine: penstock.Engine, condition: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", penstock.PenstockWarning)
        engine.query(f"SELECT k FROM s WHERE {condition}")


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    queries, rows = tmp_path / "q.sql", tmp_path / "s.csv"
    queries.write_text(f"{DECLARE};\nCREATE QUERY q AS SELECT k FROM s WHERE k = NULL")
    rows.write_text("ts,k,name\n2020-01-01 00:00:00,1,a\n")
    result = invoke("run", str(queries), "-i", f"s={rows}", "-q")
    warned = [line for line in result.stderr.splitlines() if "NULL" in line]
    assert warned == [
        "Warning: A comparison with NULL is never true, at line 2, column 41. Write IS NULL or IS NOT NULL"
    ]


def test_a_query_that_is_not_there_is_a_key_error_with_a_suggestion(engine: penstock.Engine) -> None:
    with pytest.raises(KeyError, match="No query has been started"):
        engine.queries["x"]
    engine.query("SELECT k FROM s", name="hot")
    with pytest.raises(KeyError) as caught:
        engine.queries["hto"]
    assert isinstance(caught.value, penstock.UsageError)
    assert str(caught.value) == "Expected the name of a query, found `hto`. Did you mean `hot`?"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert "x" not in engine.queries
    assert engine.queries.get("x") is None
    for number in range(9):
        engine.query("SELECT k FROM s", name=f"query_{number}")
    with pytest.raises(KeyError, match=r"list\(engine.queries\) names them"):
        engine.queries["zzz"]
