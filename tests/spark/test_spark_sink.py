"""The foreachBatch sink on real Spark: results equal the engine's own and DuckDB's, whatever the batches."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from spark_help import (
    BEGIN,
    DECLARED,
    SECOND,
    add_files,
    bag,
    both_streams,
    cut,
    draw_stream,
    embedded,
    from_duckdb,
    make_sink,
    read_stream,
    rows,
    run_both,
    run_stream,
    written,
)

import penstock
from penstock.connectors.spark import Sink, declare_stream, sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAMS = {"a": draw_stream(1), "b": draw_stream(2)}


@pytest.fixture(scope="module")
def answers() -> dict[str, Counter[Any]]:
    """The engine's own, where DuckDB can say so equal to DuckDB's."""
    answers = embedded(STREAMS)
    for name, expected in from_duckdb(STREAMS).items():
        assert expected.total() > 200
        assert answers[name] == expected, name
    return answers


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([100], [100]),
        ([10, 40, 40, 100], [30, 30, 80, 100]),  # batches without rows of one stream, and of the other
        ([3, 5, 50, 50, 100], [0, 0, 95, 100, 100]),
    ],
)
def test_results_do_not_depend_on_batches(
    spark: SparkSession, tmp_path: Path, answers: dict[str, Any], a: list[int], b: list[int]
) -> None:
    add_files(tmp_path / "a", cut(STREAMS["a"], a))
    add_files(tmp_path / "b", cut(STREAMS["b"], b))
    writer = make_sink(spark, tmp_path)
    run_both(spark, tmp_path, writer)
    writer.close()
    assert writer.rows == 1200
    assert written(spark, tmp_path / "out", answers) == answers


def test_started_again_it_goes_on(spark: SparkSession, tmp_path: Path, answers: dict[str, Any]) -> None:
    """Three runs, each a sink of its own; `close` gives early what the batch after it replaces."""
    parts = {name: cut(table, [30, 45, 60, 100]) for name, table in STREAMS.items()}
    for run in (slice(0, 2), slice(2, 3), slice(3, 4)):
        for name in parts:
            add_files(tmp_path / name, parts[name][run])
        writer = make_sink(spark, tmp_path)
        run_both(spark, tmp_path, writer)
        writer.close()
    assert written(spark, tmp_path / "out", answers) == answers
    again = make_sink(spark, tmp_path)
    run_both(spark, tmp_path, again)
    again.close(spark)
    assert again.rows == 0
    assert written(spark, tmp_path / "out", answers) == answers


def test_a_batch_given_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Called as Spark would after a crash behind the sink: in the same process, and in one that starts."""
    query = "CREATE QUERY totals AS SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k;"

    def make() -> Sink:
        return sink(DECLARED + query, state=tmp_path / "state", path=tmp_path / "out")

    batches = [spark.createDataFrame(part) for part in cut(STREAMS["a"], [40, 70, 100])]
    writer = make()
    writer(batches[0], 0)
    writer(batches[1], 1)
    before = written(spark, tmp_path / "out", ["totals"])
    states = {path.name for path in (tmp_path / "state").iterdir()}
    assert states == {"batch-0.penstock", "batch-1.penstock", "owner.json"}
    writer(batches[1], 1)
    assert written(spark, tmp_path / "out", ["totals"]) == before
    writer = make()
    writer(batches[1], 1)
    assert written(spark, tmp_path / "out", ["totals"]) == before
    assert {path.name for path in (tmp_path / "state").iterdir()} == states
    writer(batches[2], 2)
    writer.close()
    assert written(spark, tmp_path / "out", ["totals"]) == embedded({"a": STREAMS["a"]}, query)


def test_an_engine_that_was_let_go_is_restored(spark: SparkSession, tmp_path: Path) -> None:
    """Batches come seldom, or the query has ended long since: between them, and before `close`."""
    query = "CREATE QUERY totals AS SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k;"
    writer = sink(DECLARED + query, state=tmp_path / "state", path=tmp_path / "out")
    for number, part in enumerate(cut(STREAMS["a"], [40, 100])):
        writer(spark.createDataFrame(part), number)
        assert len(writer._at_hand) == 1
        writer._at_hand.clear()
    writer.close()
    assert written(spark, tmp_path / "out", ["totals"]) == embedded({"a": STREAMS["a"]}, query)


class Crash(Exception):
    """Where a test says so."""


@pytest.mark.parametrize(
    "point", ["in the midst of writing", "before the state is saved", "after it is saved"]
)
@pytest.mark.parametrize("anew", [False, True], ids=["same sink, Parquet", "new sink, ORC"])
def test_a_failure_at_each_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, anew: bool
) -> None:
    """The query stops; started again it gives what it would have given, by a ledger of unique rows."""
    from penstock.connectors.spark.outputs import Files
    from penstock.connectors.spark.saved_states import SavedStates

    query = "CREATE QUERY ledger AS SELECT id FROM a; CREATE QUERY also AS SELECT id, k FROM a WHERE k > 3;"
    format = "orc" if anew else "parquet"  # written by jobs of Spark, by the driver
    folder, crashed = tmp_path / "a", []
    add_files(folder, cut(STREAMS["a"], [30, 60, 100]))
    write, save = Files.write, SavedStates.save

    def crash(where: str, batch_id: int) -> bool:
        if crashed or batch_id != 1 or where != point:
            return False
        crashed.append(point)
        return True

    def failing_write(self: Any, session: Any, results: Any, batch_id: int) -> None:
        if crash("in the midst of writing", batch_id):
            write(self, session, {"ledger": results["ledger"].slice(0, 10)}, batch_id)
            raise Crash
        write(self, session, results, batch_id)

    def failing_save(self: Any, engine: Any, batch_id: int, *more: Any) -> None:
        if crash("before the state is saved", batch_id):
            raise Crash
        save(self, engine, batch_id, *more)
        if crash("after it is saved", batch_id):
            raise Crash

    monkeypatch.setattr(Files, "write", failing_write)
    monkeypatch.setattr(SavedStates, "save", failing_save)

    def make() -> Sink:
        streams = {"a": read_stream(spark, folder)}
        return sink(query, streams=streams, state=tmp_path / "state", path=tmp_path / "out", format=format)

    writer = make()
    with pytest.raises(StreamingQueryException, match="Crash"):
        run_stream(read_stream(spark, folder), writer, tmp_path / "checkpoint")
    if anew:
        writer = make()
    run_stream(read_stream(spark, folder), writer, tmp_path / "checkpoint")
    writer.close()
    assert crashed == [point]
    found = written(spark, tmp_path / "out", ["ledger", "also"], format)
    ids = Counter(row[1] for row in found["ledger"].elements())
    pushed = Counter(STREAMS["a"]["id"].to_pylist())
    assert {"lost": pushed - ids, "doubled or invented": ids - pushed} == {
        "lost": Counter(),
        "doubled or invented": Counter(),
    }
    assert found == embedded({"a": STREAMS["a"]}, query)


def test_the_watermark_of_spark_is_a_punctuation(spark: SparkSession, tmp_path: Path) -> None:
    """The stream may be an hour late; Spark knows, one batch later, that it is not."""
    add_files(tmp_path / "a", [rows(1, 2, 10), rows(11, 20, start=3)])
    got: list[tuple[int, list[int]]] = []
    writer = sink(
        DECLARED.replace("2 SECONDS", "1 HOUR") + "CREATE QUERY q AS SELECT id FROM a;",
        state=tmp_path / "state",
        results={"q": lambda frame, batch: got.append((batch, frame.toArrow()["id"].to_pylist()))},
    )
    run_stream(read_stream(spark, tmp_path / "a"), writer, tmp_path / "checkpoint")
    assert got == [(1, [0, 1])]  # in batch 1 time has come to 8 s, two behind the latest of batch 0
    writer.close()
    assert got[1:] == [(2, [2, 3, 4])]


def test_several_watermarks_are_the_least(spark: SparkSession, tmp_path: Path) -> None:
    add_files(tmp_path / "a", [rows(1, 30), rows(40, start=2)])
    add_files(tmp_path / "b", [rows(1, 10), rows(41, start=2)])
    streams = both_streams(spark, tmp_path)
    seen: dict[int, list[int]] = {}
    slack = datetime.timedelta(hours=1)
    declared = [declare_stream(name, frame, slack=slack) for name, frame in streams.items()]
    writer = sink(
        "".join(declared) + "CREATE QUERY q AS SELECT id, ts FROM a;",
        state=tmp_path / "state",
        results=lambda name, frame, batch: seen.update({batch: frame.toArrow()["id"].to_pylist()}),
    )
    run_both(spark, tmp_path, writer)
    assert seen == {1: [0]}  # 8 s of `b`, not the 28 s of `a`
    engine = penstock.Engine.restore(tmp_path / "state" / "batch-1.penstock")
    assert engine.stats()["streams"]["a"]["rows_held"] == 2


def test_queries_come_and_go_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    parts = cut(STREAMS["a"], [50, 100])
    first = "CREATE QUERY stays AS SELECT id FROM a; CREATE QUERY goes AS SELECT id, k FROM a;"
    second = "CREATE QUERY stays AS SELECT id FROM a; CREATE QUERY comes AS SELECT id, v FROM a;"

    def make(sql: str) -> Sink:
        return sink(sql, state=tmp_path / "state", path=tmp_path / "out")

    for number, (queries, part) in enumerate(zip((first, second), parts, strict=True)):
        writer = make(DECLARED + queries)
        writer(spark.createDataFrame(part), number)
    writer.close()
    found = written(spark, tmp_path / "out", ["stays", "goes", "comes"])
    assert found["stays"] == embedded({"a": STREAMS["a"]}, first)["stays"]
    assert 0 < found["goes"].total() < 300
    assert found["comes"].total() >= 300
    with pytest.raises(penstock.UsageError) as caught:
        make(DECLARED + second.replace("SELECT id FROM", "SELECT id + 1 AS id FROM")).close(spark)
    said = (
        "Expected query `stays` as it was when its state was saved, found another text: give it another name"
    )
    assert str(caught.value) == said
    with pytest.raises(penstock.UsageError, match="Expected the streams of the saved state, `a "):
        make(DECLARED.replace("k BIGINT", "k DOUBLE") + second).close(spark)


def test_tables_and_functions(spark: SparkSession, tmp_path: Path) -> None:
    """A static table from a DataFrame; a function of the user's for one of two queries."""
    labels = spark.createDataFrame([(1, "one"), (2, "two")], "k int, label string")
    queries = """
        CREATE TABLE labels (k BIGINT, label VARCHAR);
        CREATE QUERY named AS SELECT a.id, label FROM a [RANGE 1 SECOND] JOIN labels ON a.k = labels.k;
        CREATE QUERY other AS SELECT id FROM a;
    """
    got: list[Any] = []

    def take(frame: DataFrame, batch_id: int) -> None:
        got.append((batch_id, frame.schema.simpleString(), [tuple(row)[1:] for row in frame.collect()]))

    keywords: Any = {"state": tmp_path / "state", "tables": {"labels": labels}}
    writer = sink(DECLARED + queries, results={"named": take}, **keywords)
    writer(spark.createDataFrame(rows(1, 9)), 0)
    writer(spark.createDataFrame(rows(10, start=2)), 1)
    writer.close()
    schema = "struct<_ts:timestamp,id:bigint,label:string>"
    assert got == [(0, schema, [(0, "one")]), (2, schema, [(1, "one"), (2, "one")])]


@pytest.mark.parametrize(
    ("format", "options"), [("json", {}), ("csv", {}), ("orc", {}), ("parquet", {"compression": "gzip"})]
)
def test_any_format_of_spark(
    spark: SparkSession, tmp_path: Path, format: str, options: dict[str, str]
) -> None:
    queries = """CREATE QUERY one AS SELECT id, name FROM a;
                 CREATE QUERY two AS SELECT id, name FROM a WHERE id > 1;"""
    out: Any = {"path": f"file://{tmp_path}/out", "format": format, "options": options}
    writer = sink(DECLARED + queries, state=tmp_path / "state", **out)
    writer(spark.createDataFrame(rows(1, 2, 3)), 0)
    writer.close()
    reader = spark.read.format(format).schema("_ts timestamp, id long, name string")
    found = reader.load(str(tmp_path / "out" / "query=two")).drop("batch").toArrow()
    assert bag(found) == Counter([(BEGIN + 3 * SECOND, 2, "x")])
    assert reader.load(str(tmp_path / "out" / "query=one")).count() == 3


def test_names_of_queries_as_folders(spark: SparkSession, tmp_path: Path) -> None:
    """A query alone and queries together, which Spark names, stand where the documents say."""
    names = ["plain", "with space", "a/b=c%", 'quo"te']
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    alone = [f"CREATE QUERY {name} AS SELECT id AS x{at} FROM a;" for at, name in enumerate(quoted)]
    together = [f"CREATE QUERY {name} AS SELECT id FROM a;" for name in quoted]
    found = []
    for number, (queries, format) in enumerate([(alone, "parquet"), (alone, "json"), (together, "json")]):
        out = tmp_path / f"out{number}"
        state = tmp_path / f"state{number}"
        writer = sink(DECLARED + "".join(queries), state=state, path=f"file:{out}", format=format)
        writer(spark.createDataFrame(rows(1, 9)), 0)
        found.append({path.parent.name for path in out.glob("query=*/batch=0")})
    assert len(found[0]) == 4
    assert found[0] == found[1] == found[2]
