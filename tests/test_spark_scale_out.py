"""Scale-out on real Spark: an engine per bucket gives what one engine gives, whatever the batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scale_help import QUERIES, ended, run_scaled, until_end, whole_answers
from spark_help import (
    add_files,
    cut,
    draw_stream,
    from_duckdb,
    written,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = {"a": draw_stream(1), "b": draw_stream(2)}


@pytest.fixture(scope="module")
def answers() -> dict[str, Counter[Any]]:
    """One engine's, where DuckDB can say so equal to DuckDB's."""
    answers = whole_answers(STREAMS)
    for name, expected in from_duckdb(STREAMS).items():
        assert answers[name] == expected, name
    assert all(found.total() > 40 for found in answers.values())
    return answers


def found_in(spark: SparkSession, folder: Path, names: Any) -> dict[str, Counter[Any]]:
    return {name: until_end(rows) for name, rows in written(spark, folder / "out", names).items()}


def test_results_do_not_depend_on_batches(
    spark: SparkSession, tmp_path: Path, answers: dict[str, Any]
) -> None:
    """Batches without rows of one stream, and of the other."""
    add_files(tmp_path / "a", cut(ended(STREAMS["a"]), [10, 40, 40, 100]))
    add_files(tmp_path / "b", cut(ended(STREAMS["b"]), [30, 30, 80, 100]))
    scaled = run_scaled(spark, tmp_path)
    assert scaled.key == {"a": "k", "b": "k"}
    assert found_in(spark, tmp_path, answers) == answers


def test_started_again_with_one_more_query(
    spark: SparkSession, tmp_path: Path, answers: dict[str, Any]
) -> None:
    """It goes on with the same state; the new query finds what the join has kept, and is exact at once."""
    parts = {name: cut(ended(table), [50, 100]) for name, table in STREAMS.items()}
    for name in parts:
        add_files(tmp_path / name, parts[name][:1])
    run_scaled(spark, tmp_path)
    before = found_in(spark, tmp_path, answers)
    for name in parts:
        add_files(tmp_path / name, parts[name][1:])
    near = """CREATE QUERY near AS SELECT l.id AS l, r.id AS r
              FROM a [RANGE 2 SECONDS] AS l JOIN b [RANGE 1 SECOND] AS r ON l.k = r.k;"""
    run_scaled(spark, tmp_path, QUERIES + near)
    assert found_in(spark, tmp_path, answers) == answers

    # All of it that comes after the first run, and what waited for its end.
    expected = whole_answers(STREAMS, near)["near"]
    found = found_in(spark, tmp_path, ["near"])["near"]
    reached = max(row[0] for row in before["pairs"])
    assert not found - expected
    assert {row for row in expected - found if row[0] > reached} == set()
    assert sum(row[0] > reached for row in found) > 200
