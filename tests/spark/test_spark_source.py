"""`spark.read.format("penstock")` and `spark.readStream.format("penstock")` against the embedded engine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="the Spark connector needs pyspark")

SECOND = 1_000_000
SQL = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, id BIGINT, word VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, id BIGINT);
CREATE TABLE names (k BIGINT, name VARCHAR);
CREATE QUERY pairs AS
  SELECT a.k, a.id AS one, b.id AS other, a.word FROM a JOIN b ON a.k = b.k WINDOW 2 SECONDS;
CREATE QUERY sums AS
  SELECT k, COUNT(*) AS n, COUNT(word) AS words, AVG(id) AS mean FROM a [RANGE 4 SECONDS] GROUP BY k
  HOP BY 3 SECONDS;
CREATE QUERY named AS
  SELECT name, MAX(id) AS newest FROM a [RANGE 3 SECONDS] JOIN names ON a.k = names.k GROUP BY name;
"""
FILES = 5


def rows(seed: int, stream: str, file: int, count: int = 120) -> pa.Table:
    """Rows of `file`'s five seconds, with ids that say where they stand."""
    draw = np.random.default_rng([seed, ord(stream), file])
    start = 5 * file * SECOND
    table = pa.table(
        {
            "ts": pa.array(np.sort(draw.integers(start, start + 5 * SECOND, count)), pa.timestamp("us")),
            "k": pa.array(draw.integers(0, 12, count), mask=draw.random(count) < 0.1),
            "id": pa.array(np.arange(count) + 1000 * file),
        }
    )
    if stream == "a":
        words = [None if x < 0.2 else f"w{x:.1f} ü" for x in draw.random(count)]
        table = table.append_column("word", pa.array(words))
    return table


def write_files(folder: Path, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True)
    for file in range(first, last):
        for stream in "ab":
            pq.write_table(rows(7, stream, file), folder / f"{stream}{file}.parquet")
    pq.write_table(pa.table({"k": [1, 2, 3, 4], "name": ["x", "y", "y", None]}), folder / "names.parquet")


def embedded(query: str, files: int, *, close: bool) -> Counter[Any]:
    """The same, pushed into an engine file by file."""
    with penstock.Engine() as engine:
        engine.execute(SQL)
        engine.push("names", pa.table({"k": [1, 2, 3, 4], "name": ["x", "y", "y", None]}))
        for file in range(files):
            for stream in "ab":
                engine.push(stream, rows(7, stream, file))
        if close:
            engine.close()
        return bag(engine.queries[query].results())


def bag(table: pa.Table) -> Counter[Any]:
    def plain(value: Any) -> Any:
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    return Counter(tuple(map(plain, row.values())) for row in table.to_pylist())


def options(folder: Path, query: str, **more: str) -> dict[str, str]:
    inputs = {f"input.{name}": str(folder / f"{name}[0-9].parquet") for name in "ab"}
    return {"queries": SQL, "query": query, **inputs, "input.names": str(folder / "names.parquet"), **more}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from penstock.connectors.spark import register

    register(spark)
    return spark


@pytest.mark.parametrize("query", ["pairs", "sums", "named"])
def test_queries_over_files_are_a_dataframe(session: SparkSession, tmp_path: Path, query: str) -> None:
    write_files(tmp_path / "in", 0, FILES)
    frame = session.read.format("penstock").options(**options(tmp_path / "in", query)).load()
    assert bag(frame.toArrow()) == embedded(query, FILES, close=True)


def test_a_join_over_files_oracle(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 0, FILES)
    frame = session.read.format("penstock").options(**options(tmp_path / "in", "pairs")).load()
    a, b = (pa.concat_tables([rows(7, stream, file) for file in range(FILES)]) for stream in "ab")
    assert a.num_rows and b.num_rows
    wanted = duckdb.sql(
        "SELECT greatest(a.ts, b.ts) AS _ts, a.k, a.id, b.id, a.word FROM a JOIN b ON a.k = b.k "
        "AND abs(epoch_us(a.ts) - epoch_us(b.ts)) < 2000000"
    ).fetchall()
    assert bag(frame.toArrow()) == Counter(wanted)


def start(session: SparkSession, folder: Path, query: str, **more: str) -> list[int]:
    """Run a stream over what is there; how many rows each batch gave."""
    given = options(folder / "in", query, stateLocation=str(folder / "state"), **more)
    stream = session.readStream.format("penstock").options(**given).load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out"))
    running = (
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )
    running.awaitTermination()
    return [progress["numInputRows"] for progress in running.recentProgress]


def written(session: SparkSession, folder: Path) -> Counter[Any]:
    return bag(session.read.parquet(str(folder / "out")).toArrow())


@pytest.mark.parametrize(("query", "most"), [("pairs", "2"), ("named", "3")])
def test_results_are_a_stream_whatever_the_cuts(
    session: SparkSession, tmp_path: Path, query: str, most: str
) -> None:
    write_files(tmp_path / "in", 0, FILES)
    batches = start(session, tmp_path, query, maxFilesPerTrigger=most)
    assert len([count for count in batches if count]) >= FILES // int(most)
    assert written(session, tmp_path) == embedded(query, FILES, close=False)


def test_a_stream_goes_on_where_it_was(session: SparkSession, tmp_path: Path) -> None:
    """Started again with more files, the last batch not noted as done: it is read again, and given once."""
    write_files(tmp_path / "in", 0, 3)
    start(session, tmp_path, "pairs")
    assert written(session, tmp_path) == embedded("pairs", 3, close=False)
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    write_files(tmp_path / "in", 3, FILES)
    start(session, tmp_path, "pairs")
    found = written(session, tmp_path)
    assert found == embedded("pairs", FILES, close=False)
    assert max(found.values()) == 1  # every pair has ids of its own: none is doubled


def reader(folder: Path, query: str) -> Any:
    """What Spark makes of the options, in this process."""
    from penstock.connectors.spark.source import PenstockSource

    source = PenstockSource(options(folder / "in", query, stateLocation=str(folder / "state")))
    return source.streamReader(source.schema())


def read(made: Any, start: dict[str, int], end: dict[str, int]) -> Counter[Any]:
    [part] = made.partitions(start, end)
    return sum((bag(pa.Table.from_batches([one])) for one in made.read(part)), Counter())


def forget_engines() -> None:
    """As in a new process."""
    from penstock.connectors.spark import read_stream

    read_stream._at_hand.clear()


@pytest.mark.parametrize("query", ["pairs", "sums", "named"])
def test_a_batch_is_the_same_again(tmp_path: Path, query: str) -> None:
    """Read twice, after its state was lost, and half: what follows is what would have followed."""
    write_files(tmp_path / "in", 0, FILES)
    made = reader(tmp_path, query)
    assert made.latestOffset(made.initialOffset(), made.getDefaultReadLimit()) == {"a": FILES, "b": FILES}
    places = [{"a": n, "b": n} for n in (0, 2, 3, FILES)]
    first = read(made, places[0], places[1])
    second = read(made, places[1], places[2])
    assert read(made, places[1], places[2]) == second  # Spark asks again
    forget_engines()
    assert read(made, places[1], places[2]) == second  # another process
    third = read(made, places[2], places[3])
    assert first + second + third == embedded(query, FILES, close=False)
    for state in (tmp_path / "state").glob("*.penstock"):
        state.unlink()
    forget_engines()
    assert read(made, places[2], places[3]) == third  # the state was lost
    forget_engines()
    [part] = made.partitions(places[1], places[2])
    next(iter(made.read(part)), None)  # not to the end: no state is left behind
    assert read(made, places[2], places[3]) == third


def test_states_go_when_they_are_done_with(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 0, 3)
    made = reader(tmp_path, "sums")
    made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    for n in range(3):
        read(made, {"a": n, "b": n}, {"a": n + 1, "b": n + 1})
    made.commit({"a": 2, "b": 2})
    assert sorted(one.name for one in (tmp_path / "state").glob("*.penstock")) == [
        "files-2-2.penstock",
        "files-3-3.penstock",
    ]


def test_a_state_of_another_query_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 0, 2)
    made = reader(tmp_path, "pairs")
    made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    other = reader(tmp_path, "sums")
    with pytest.raises(UsageError, match=r"state of `sums: SELECT k.*found that of `pairs: S"):
        other.latestOffset(other.initialOffset(), other.getDefaultReadLimit())


def test_times_do_not_depend_on_the_session(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 0, 1)
    given = options(tmp_path / "in", "sums")
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = session.read.format("penstock").options(**given).load()
        micros = frame.selectExpr("unix_micros(_ts) AS t").toArrow()["t"].to_pylist()
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
    assert {t % (3 * SECOND) for t in micros} == {0}
    assert min(micros) == 3 * SECOND


WRONG = {
    "neither": ({}, "Expected the option `queries` or `queriesPath`, found neither"),
    "unknown": ({"queries": SQL, "qeury": "x"}, "found `qeury`. Did you mean `query`?"),
    "which": (
        {"queries": SQL},
        "Expected the option `query` to name one of `pairs`, `sums`, `named`, found none",
    ),
    "no such": ({"queries": SQL, "query": "sum"}, "found `sum`"),
    "no input": ({"queries": SQL, "query": "sums"}, "set the option `input.a`"),
    "no stream": ({"queries": SQL, "query": "sums", "input.aa": "x"}, "`input.aa`, found `aa`"),
    "no file": ({"queriesPath": "nowhere.sql"}, "Expected a file of statements at `nowhere.sql`"),
    "a wrong query": ({"queries": "CREATE QUERY q AS SELECT x FROM y"}, "`y`"),
    "count": ({"queries": SQL, "maxFilesPerTrigger": "0"}, "Expected a number of 1 or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_refused(case: str) -> None:
    """As Spark calls it, without the minute that its own way to the error takes."""
    from penstock.connectors.spark.source import PenstockSource

    given, message = WRONG[case]

    def make() -> None:
        source = PenstockSource(given)
        source.reader(source.schema())

    with pytest.raises(penstock.PenstockError) as error:
        make()
    assert message in str(error.value)


def test_a_stream_needs_a_place_for_its_state() -> None:
    from penstock.connectors.spark.source import PenstockSource

    source = PenstockSource({"queries": SQL, "query": "sums", "input.a": "a*.parquet"})
    with pytest.raises(UsageError, match="Expected the option `stateLocation`"):
        source.streamReader(source.schema())


def test_a_wrong_option_reaches_the_user(session: SparkSession) -> None:
    with pytest.raises(Exception, match="Expected the option `query` to name one of"):
        session.read.format("penstock").option("queries", SQL).load()


def test_files_in_the_making_wait(tmp_path: Path) -> None:
    """Names beginning with `_` or `.` and empty files are not there yet; order is that of first sight."""
    from penstock.connectors.spark.file_log import FileLog

    (tmp_path / "in").mkdir()
    for name in ("p10", "p9", "_p1", ".p2"):
        (tmp_path / "in" / name).write_text("x")
    (tmp_path / "in" / "p11").touch()
    log = FileLog(str(tmp_path / "state"), {"a": str(tmp_path / "in" / "*")}, "q")
    log.look()
    assert [Path(one).name for one in log.files["a"]] == ["p9", "p10"]
    (tmp_path / "in" / "p11").write_text("x")
    (tmp_path / "in" / "p1").write_text("x")
    again = FileLog(str(tmp_path / "state"), {"a": str(tmp_path / "in" / "*")}, "q")
    again.look()
    assert [Path(one).name for one in again.files["a"]] == ["p9", "p10", "p1", "p11"]
    assert [Path(p).name for p in again.between({"a": 1}, {"a": 3})["a"]] == ["p10", "p1"]
