"""What may be different when a query is started again, and what is refused by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from scale_help import run_scaled
from spark_help import BEGIN, SECOND, add_files, bag, read_stream, rows, run_stream, written

import penstock
from penstock.connectors.spark import sink
from penstock.connectors.spark.read_stream import FilesRead, ResultStream
from penstock.connectors.spark.request import Request
from penstock.connectors.spark.start_engine import Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "CREATE STREAM s (ts TIMESTAMP, x BIGINT, y VARCHAR);"
QUERY = "CREATE QUERY q AS SELECT x FROM s [RANGE 5 SECONDS] WHERE x > 1 EMIT CHANGES"


def saved(sql: str = STREAM + QUERY, **options: Any) -> penstock.Engine:
    """An engine as it comes back from its state, with a row."""
    engine = Setup(sql, {}, options).go_on(None)
    engine.push("s", {"ts": [1], "x": [2], "y": ["a"]})
    assert engine.queries["q"].results().num_rows == 1
    return penstock.Engine.restore_bytes(engine.checkpoint_bytes())


def refused(message: str, sql: str = STREAM + QUERY, before: str = STREAM + QUERY, **options: Any) -> None:
    with pytest.raises(penstock.UsageError) as caught:
        Setup(sql, {}, options).go_on(saved(before))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        QUERY.replace(" ", "\n\t"),
        QUERY.replace("FROM", "-- all of it; really\nFROM /* or so */"),
        f"{QUERY} LATE DROP",
        f"{QUERY} LATE ERROR",
        QUERY.replace("EMIT", "LATE ERROR EMIT"),
    ],
)
def test_a_text_may_look_otherwise(text: str) -> None:
    engine = Setup(STREAM + text, {}, {}).go_on(saved())
    engine.push("s", {"ts": [9 * SECOND], "x": [3], "y": ["a"]})
    assert engine.queries["q"].results()["_diff"].to_pylist() == [-1, 1], "it is the same query"
    late = {"ts": [2], "x": [3], "y": ["a"]}
    if "ERROR" in text:
        with pytest.raises(penstock.LateError):
            engine.push("s", late)
    else:
        engine.push("s", late)
        assert engine.dropped() == {"s": (1, 0)}


def test_a_stream_that_nobody_reads_drops_late_rows_too() -> None:
    engine = Setup(STREAM + STREAM.replace("STREAM s", "STREAM alone") + QUERY, {}, {}).go_on(None)
    for ts in (5, 1):
        engine.push("alone", {"ts": [ts], "x": [2], "y": ["a"]})
    assert engine.dropped() == {"s": (0, 0), "alone": (1, 0)}


def test_what_late_rows_meet_by_default_may_change() -> None:
    for before, now in (("error", "drop"), ("drop", "error")):
        engine = Setup(STREAM + QUERY, {}, {"late": now}).go_on(saved(late=before))
        assert engine.options["late"] == now
        again = Setup(STREAM + QUERY, {}, {"late": now}).go_on(engine)
        if now == "error":
            with pytest.raises(penstock.LateError):
                again.push("s", {"ts": [0], "x": [3], "y": ["a"]})
        else:
            again.push("s", {"ts": [0], "x": [3], "y": ["a"]})


def test_other_queries_are_refused() -> None:
    said = "Expected query `q` as it was when its state was saved, found another text"
    refused(said, f"{STREAM}{QUERY.replace(' EMIT CHANGES', '')}")
    refused(said, STREAM + QUERY.replace("x > 1", "x > 2"))
    altered = f"{STREAM}{QUERY}; ALTER QUERY q SET WINDOW 9 SECONDS"
    refused("query `q` had when its state was saved, RANGE 5 SECONDS, found RANGE 9 SECONDS", altered)
    assert Setup(altered, {}, {}).go_on(saved(altered))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sharing", "unshared"),
        ("expiry", "ita"),
        ("index", "hash"),
        ("index", ("hash", "scan")),
        ("modes", "DIDO"),
        ("execution", "taat"),
        ("optimize", "none"),
        ("panes", False),
        ("multiway", False),
    ],
)
def test_other_options_are_refused_by_name(option: str, value: Any) -> None:
    known = set(penstock.Engine().options)
    assert option in known
    with pytest.raises(penstock.UsageError, match=f"Expected the engine's `{option}` as it was when"):
        Setup(STREAM + QUERY, {}, {option: value}).go_on(saved())
    engine = Setup(STREAM + QUERY, {}, {option: value}).go_on(saved(**{option: value}))
    assert engine.options[option] in (value, (value, value))


def test_weights_are_an_option_if_they_are_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of the machine may change: a restored engine goes on with what it has."""
    from dataclasses import replace

    from penstock.optimizer.costs import weights

    others = replace(weights.load(), pair=1.0)
    refused("the engine's `weights` as it was when its state was saved, found others", weights=others)
    assert Setup(STREAM + QUERY, {}, {"weights": others}).go_on(saved(weights=others))
    before = saved()
    monkeypatch.setattr(weights, "load", lambda: others)
    assert Setup(STREAM + QUERY, {}, {}).go_on(before) is before


def test_every_option_is_known() -> None:
    """A keyword that is new has to be thought of here."""
    import inspect

    keywords = set(inspect.signature(penstock.Engine).parameters) - {"scheduler"}
    assert set(penstock.Engine().options) == keywords


def test_new_columns_that_no_query_reads() -> None:
    wide = STREAM.replace("y VARCHAR", "y VARCHAR, z BIGINT")
    engine = Setup(wide + QUERY, {}, {}).go_on(saved())
    engine.push("s", {"ts": [2], "x": [3], "y": ["a"], "z": [4]})
    assert engine.queries["q"].results()["x"].to_pylist() == [3]
    within = QUERY.replace("FROM s", "FROM (SELECT * FROM s)").replace("[RANGE 5 SECONDS]", "AS t")
    within = within.replace("EMIT CHANGES", "EMIT INSERTS")
    assert Setup(wide + within, {}, {}).go_on(saved(STREAM + within))
    for reads in ("SELECT * FROM s", "SELECT x FROM s WHERE z > 1", "SELECT DISTINCT * FROM s [NOW]"):
        before = f"{STREAM}{QUERY}; CREATE QUERY r AS {reads.replace(' WHERE z > 1', '')}"
        said = "Expected queries over the columns of `s` that the saved state has, found `z` in query `r`"
        refused(said, f"{wide}{QUERY}; CREATE QUERY r AS {reads}", before)
    refused("found `z` in query `new`", f"{wide}{QUERY}; CREATE QUERY new AS SELECT z FROM s")
    counted = f"{QUERY}; CREATE QUERY n AS SELECT COUNT(*) AS n FROM (SELECT DISTINCT * FROM s [NOW]) AS t"
    refused("found `z` in query `n`", wide + counted, STREAM + counted)
    refused("Expected the streams of the saved state, `s (ts", STREAM.replace(", y VARCHAR", "") + QUERY)
    refused("Expected the streams of the saved state, `s (ts", STREAM.replace("x BIGINT", "x DOUBLE") + QUERY)


def test_files_that_are_read_as_a_stream(tmp_path: Path) -> None:
    """The same rules for `format("penstock")`."""
    for number in range(2):
        part = pa.table({"ts": pa.array([number], pa.timestamp("us")), "x": [number + 5], "y": ["a"]})
        pq.write_table(part, tmp_path / f"{number}.parquet")
    asked = {
        "queries": STREAM + QUERY,
        "input.s": str(tmp_path / "*.parquet"),
        "stateLocation": str(tmp_path / "state"),
    }

    def read(start: int, end: int, **changed: str) -> list[int]:
        stream = ResultStream(Request.of(asked | changed))
        stream._newest()
        return [x for part in stream.read(FilesRead({"s": start}, {"s": end})) for x in part["x"].to_pylist()]

    assert read(0, 1) == [5]
    with pytest.raises(penstock.UsageError, match="Expected the engine's `sharing` as it was"):
        read(1, 2, sharing="unshared")
    wide = STREAM.replace("y VARCHAR", "y VARCHAR, z BIGINT")
    with pytest.raises(penstock.UsageError, match="Expected the state of `q: SELECT x FROM s"):
        read(1, 2, queries=wide + QUERY.replace("x > 1", "x > 2"))
    assert read(1, 2, queries=wide.replace(", z BIGINT", "") + QUERY.replace("WHERE", " WHERE")) == [6]


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The files have a column more; the engine has another option, which is refused."""
    add_files(tmp_path / "a", [rows(1, 9)])

    def run(columns: str, **engine: Any) -> None:
        frame = read_stream(spark, tmp_path / "a").select("ts", *columns.split())
        query = "CREATE QUERY q AS SELECT id FROM a"
        writer = sink(query, streams={"a": frame}, state=tmp_path / "s", path=tmp_path / "out", engine=engine)
        run_stream(frame, writer, tmp_path / "checkpoint")

    run("id")
    add_files(tmp_path / "a", [rows(12, start=2)])
    with pytest.raises(StreamingQueryException, match="the engine's `sharing` as it was when"):
        run("id v", sharing="unshared")
    run("id v name")
    assert sorted(row[1] for row in written(spark, tmp_path / "out", ["q"])["q"]) == [0, 1]


def test_two_sinks_on_one_state(spark: SparkSession, tmp_path: Path) -> None:
    """The second is refused while the first's query is at work, as early as that; then it may go on."""
    add_files(tmp_path / "a", [rows(1, 9)])
    frame = read_stream(spark, tmp_path / "a")
    query = "CREATE QUERY q AS SELECT id FROM a"

    def make(name: str) -> Any:
        return sink(query, streams={"a": frame}, state=tmp_path / "state", path=tmp_path / name)

    def start(name: str, writer: Any = None, **trigger: Any) -> Any:
        writer = writer or make(name)
        stream = frame.writeStream.foreachBatch(writer).trigger(**trigger)
        return stream.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint")).start()

    made = make("two")
    first = start("one", processingTime="1 second")
    first.processAllAvailable()
    with pytest.raises(penstock.UsageError, match="of one sink, found it in use by Spark query"):
        make("two")
    with pytest.raises(StreamingQueryException, match="of one sink, found it in use by Spark query"):
        start("two", made, availableNow=True).awaitTermination()
    assert not (tmp_path / "two").exists()
    add_files(tmp_path / "a", [rows(12, start=2)])
    first.processAllAvailable()
    first.stop()
    add_files(tmp_path / "a", [rows(22, start=3)])
    start("one", availableNow=True).awaitTermination()
    assert sorted(row[1] for row in written(spark, tmp_path / "one", ["q"])["q"]) == [0, 1, 2]


HOPS = "CREATE QUERY hops AS SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k HOP BY 10 SECONDS;"


def hops(found: Counter[Any]) -> dict[float, int]:
    return {(row[0] - BEGIN) / SECOND: row[2] for row in found}


def test_the_end_of_input_of_a_sink(spark: SparkSession, tmp_path: Path) -> None:
    """The hop that is not over comes with `close`; after a restart again, whole, of the same batch."""
    add_files(tmp_path / "a", [rows(1, 11, 13)])

    def run() -> dict[str, dict[float, int]]:
        streams = {"a": read_stream(spark, tmp_path / "a")}
        writer = sink(HOPS, streams=streams, state=tmp_path / "state", path=tmp_path / "out")
        run_stream(streams["a"], writer, tmp_path / "checkpoint")
        writer.close()
        found = (tmp_path / "out" / "query=hops").glob("batch=*/*.parquet")
        return {file.parent.name: hops(bag(pq.read_table(file, partitioning=None))) for file in found}

    assert run() == {"batch=0": {10.0: 1}, "batch=1": {20.0: 2}}
    add_files(tmp_path / "a", [rows(15, 25, start=3)])
    assert run() == {"batch=0": {10.0: 1}, "batch=1": {20.0: 3}, "batch=2": {30.0: 1}}


def test_scale_out_has_no_end_of_input(spark: SparkSession, tmp_path: Path) -> None:
    """The answer of a hop waits until Spark's watermark has passed it."""
    for name in "ab":
        add_files(tmp_path / name, [rows(1, 11, 13)])

    def run() -> dict[float, int]:
        run_scaled(spark, tmp_path, HOPS, buckets=1)
        return hops(written(spark, tmp_path / "out", ["hops"])["hops"])

    assert run() == {10.0: 1}
    add_files(tmp_path / "a", [rows(15, 23, start=3)])
    assert run() == {10.0: 1, 20.0: 3}
