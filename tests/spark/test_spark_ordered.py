"""Joins on keys that grow, on Spark: through the sink, and scaled out by a further equality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scale_help import run_scaled
from spark_help import add_files, both_streams, read_stream, rows, run_both, written

import penstock
from penstock.connectors.spark import Sink, scale_out, sink
from penstock.connectors.spark.schema import declare_stream
from penstock.connectors.spark.start_engine import Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERED = {name: {"id": "WITHIN 2 ROWS"} for name in "ab"}
QUERY = "CREATE QUERY met AS SELECT a.id, b.ts AS there FROM a JOIN b ON a.id = b.id AND a.k = b.k;"


def write_files(folder: Path, number: int) -> None:
    """Rows 0, 1, 2 of both streams, then 3, 4, 5; in b two stand the other way round, by time."""
    at, first = 100.0 * number, 3 * number
    add_files(folder / "a", [rows(at + 1, at + 2, at + 3, start=first)])
    add_files(folder / "b", [rows(at + 1, at + 3, at + 2, start=first)])


def ids(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row[1] for row in written(spark, folder / "out", ["met"])["met"].elements())


def test_through_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    """From where the last run stopped; another order than before is refused, not ignored."""

    def make(**ordered: Any) -> Sink:
        frames = both_streams(spark, tmp_path)
        state, out = tmp_path / "state", tmp_path / "out"
        return sink(QUERY, streams=frames, state=state, path=out, ordered=ORDERED | ordered)

    write_files(tmp_path, 0)
    run_both(spark, tmp_path, make())
    before = ids(spark, tmp_path)
    write_files(tmp_path, 1)
    with pytest.raises(Exception, match="of `a` that were saved, `id within 2 rows`, found `id`"):
        run_both(spark, tmp_path, make(a={"id": ""}))
    writer = make()
    run_both(spark, tmp_path, writer)
    writer.close(spark)
    assert before == sorted({*before}) != ids(spark, tmp_path) == [0, 1, 2, 3, 4, 5]


def test_scaled_out_by_a_further_equality(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        write_files(tmp_path, number)
    scaled = run_scaled(spark, tmp_path, QUERY, ordered=ORDERED, buckets=2)
    assert scaled.key == {"a": "k", "b": "k"}
    assert ids(spark, tmp_path)[:6] == [0, 1, 2, 3, 4, 5], "later ones may wait for Spark's watermark"
    with pytest.raises(penstock.UnsupportedError, match=r"a key that is not ORDERED.*, found `id`"):
        scale_out(QUERY.replace("AND a.k = b.k", ""), both_streams(spark, tmp_path), ordered=ORDERED)


def test_what_is_ordered_is_there(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, 0)
    frame = read_stream(spark, tmp_path / "a")
    assert '"id" BIGINT ORDERED WITHIN 2 ROWS,' in declare_stream("a", frame, ordered={"ID": "WITHIN 2 ROWS"})
    with pytest.raises(penstock.SchemaError, match="Expected a column `it`, which is to be ORDERED"):
        declare_stream("a", frame, ordered={"it": ""})
    with pytest.raises(penstock.UsageError, match="Expected no `spool` in `engine` of scale_out"):
        scale_out(QUERY, both_streams(spark, tmp_path), ordered=ORDERED, engine={"spool": str(tmp_path)})
    with pytest.raises(penstock.UsageError, match="one of the `streams` in `ordered`, found `c`"):
        scale_out(QUERY, both_streams(spark, tmp_path), ordered={"c": {"id": ""}})


@pytest.mark.parametrize("now", ["", "WITHIN 3 ROWS", "WITHIN 5", "WITHIN 5 ROWS PER k"])
def test_another_order_is_refused_at_a_restart(now: str) -> None:
    """The saved engine would go on with its own."""

    def setup(rule: str) -> Setup:
        growing = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, n BIGINT ORDERED {});"
        query = "CREATE QUERY q AS SELECT a.n FROM a JOIN b ON a.n = b.n AND a.k = b.k;"
        return Setup(growing.format("a", rule) + growing.format("b", rule) + query, {}, {})

    saved = setup("WITHIN 5 ROWS").go_on(None).checkpoint_bytes()
    setup("WITHIN 5 ROWS").go_on(penstock.Engine.restore_bytes(saved))
    with pytest.raises(penstock.UsageError, match="of `a` that were saved, `n within 5 rows`"):
        setup(now).go_on(penstock.Engine.restore_bytes(saved))
