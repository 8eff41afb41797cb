"""The command, from outside: what it prints, what it writes, what it refuses, how it ends."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import penstock
from penstock.cli.main import main

SQL = """
CREATE STREAM temperature (ts TIMESTAMP, location INT, value DOUBLE);
CREATE STREAM humidity (ts TIMESTAMP, location INT, value DOUBLE);
CREATE QUERY hot AS
  SELECT a.location, a.value, b.value AS humidity
  FROM temperature [RANGE 2 SECONDS] AS a JOIN humidity [RANGE 3 SECONDS] AS b ON a.location = b.location
  WHERE a.value > 25;
CREATE QUERY cold AS SELECT ts, location, value FROM temperature WHERE value < 12;
"""
START_US = 1_475_323_200_000_000  # 2016-10-01 12:00:00
COMMAND = [sys.executable, "-m", "penstock.cli"]


def make_stream(rows: int, seed: int, seconds: float = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(START_US + np.sort(rng.integers(0, int(seconds * 1e6), rows)), pa.timestamp("us")),
            "location": rng.integers(0, 20, rows),
            "value": rng.normal(20, 6, rows).round(2),
        }
    )


TEMPERATURE = make_stream(1500, 1)
HUMIDITY = make_stream(700, 2)


def expected_rows(sql: str = SQL) -> dict[str, list[tuple[object, ...]]]:
    """The queries' results straight from the engine, one push per stream."""
    engine = penstock.Engine()
    engine.execute(sql)
    engine.push("temperature", TEMPERATURE)
    engine.push("humidity", HUMIDITY)
    engine.close()
    return {
        name: sorted(tuple(row.values()) for row in query.results().to_pylist())
        for name, query in engine.queries.items()
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with queries and both streams as Parquet, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.sql").write_text(SQL)
    pq.write_table(TEMPERATURE, tmp_path / "t.parquet")
    pq.write_table(HUMIDITY, tmp_path / "h.parquet")
    return tmp_path


INPUTS = ["-i", "temperature=t.parquet", "-i", "humidity=h.parquet"]


def invoke(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def refusal(*words: str, code: int) -> str:
    """The one line the command is refused with."""
    result = invoke(*words, code=code)
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    return line


def rows_of(lines: str) -> dict[str, list[tuple[object, ...]]]:
    """Results of JSON lines as the engine gives them."""
    found: dict[str, list[tuple[object, ...]]] = {"hot": [], "cold": []}
    for line in lines.splitlines():
        row = json.loads(line)
        name = row.pop("query")
        for key in ("_ts", "ts"):
            if key in row:
                row[key] = pa.scalar(row[key].removesuffix("Z")).cast(pa.timestamp("us")).as_py()
        found[name].append(tuple(row.values()))
    return {name: sorted(rows) for name, rows in found.items()}


# Running


def test_results_on_standard_output_are_the_engines(here: Path) -> None:
    result = invoke("run", "q.sql", *INPUTS)
    assert rows_of(result.stdout) == expected_rows()
    assert min(len(rows) for rows in expected_rows().values()) > 100
    first = json.loads(result.stdout.splitlines()[0])
    assert list(first)[:2] == ["query", "_ts"]


def write_input(kind: str, table: pa.Table, path: Path) -> Path:
    path = path.with_suffix(f".{kind}")
    match kind:
        case "parquet":
            pq.write_table(table, path)
        case "csv":
            pa_csv.write_csv(table, path)
        case "jsonl":
            text = "".join(
                json.dumps({**row, "ts": row["ts"].isoformat() + "Z"}) + "\n" for row in table.to_pylist()
            )
            path.write_text(text)
        case "arrow":
            with ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow"])
def test_every_input_format_gives_the_same_results(kind: str, here: Path) -> None:
    write_input(kind, TEMPERATURE, here / "t")
    write_input(kind, HUMIDITY, here / "h")
    result = invoke("run", "q.sql", "-i", f"Temperature=t.{kind}", "-i", f"humidity=h.{kind}")
    assert rows_of(result.stdout) == expected_rows()


def test_parts_of_a_stream_one_after_the_other_and_merged(here: Path) -> None:
    (here / "parts").mkdir()
    for place in range(12):
        write_input("csv", TEMPERATURE.slice(place * 125, 125), here / "parts" / f"p{place}")
    odd = np.arange(len(HUMIDITY)) % 2 == 1
    write_input("csv", HUMIDITY.filter(pa.array(odd)), here / "odd")
    write_input("jsonl", HUMIDITY.filter(pa.array(~odd)), here / "even")
    result = invoke(
        "run", "q.sql", "-i", "temperature=parts/*.csv", "-i", "humidity=odd.csv", "-i", "humidity=even.jsonl"
    )
    assert rows_of(result.stdout) == expected_rows()


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_every_output_format_holds_the_results(kind: str, here: Path) -> None:
    result = invoke("run", "q.sql", *INPUTS, "-o", "out/deep", "--format", kind)
    assert result.stdout == ""
    for name, expected in expected_rows().items():
        path = here / "out" / "deep" / f"{name}.{kind}"
        if kind == "parquet":
            table = pq.read_table(path)
        elif kind == "csv":
            table = pa_csv.read_csv(path)
            times = [
                pa.field(field.name, pa.timestamp("us")) if "ts" in field.name else field
                for field in table.schema
            ]
            table = table.cast(pa.schema(times))
        else:
            rows = [json.dumps({"query": name, **json.loads(line)}) for line in path.read_text().splitlines()]
            assert rows_of("\n".join(rows))[name] == expected
            continue
        assert sorted(tuple(row.values()) for row in table.to_pylist()) == expected


def test_results_can_be_inputs(here: Path) -> None:
    invoke("run", "q.sql", *INPUTS, "-o", "out", "--format", "csv")
    (here / "again.sql").write_text(
        "CREATE STREAM cold (ts TIMESTAMP, location INT, value DOUBLE);"
        "CREATE QUERY colder AS SELECT location, value FROM cold WHERE value < 8;"
    )
    result = invoke("run", "again.sql", "-i", "cold=out/cold.csv")
    expected = [row for row in expected_rows()["cold"] if row[3] < 8]  # type: ignore[operator]
    assert len(result.stdout.splitlines()) == len(expected) > 0


def test_files_are_replaced_only_when_asked(here: Path) -> None:
    invoke("run", "q.sql", *INPUTS, "-o", "out")
    before = (here / "out" / "hot.parquet").stat().st_mtime_ns
    line = refusal("run", "q.sql", *INPUTS, "-o", "out", "-q", code=2)
    assert line == "Error: Expected no file at `out/hot.parquet`, found one; give --overwrite to replace it"
    assert (here / "out" / "hot.parquet").stat().st_mtime_ns == before
    invoke("run", "q.sql", *INPUTS, "-o", "out", "--overwrite")
    assert sorted(os.listdir("out")) == ["cold.parquet", "hot.parquet"]


def test_query_names_that_are_no_file_names(here: Path) -> None:
    (here / "q.sql").write_text(SQL.replace("QUERY hot", 'QUERY "../hot/1"'))
    invoke("run", "q.sql", *INPUTS, "-o", "out")
    assert sorted(os.listdir("out")) == ["%2E.%2Fhot%2F1.parquet", "cold.parquet"]


def test_the_summary_has_a_line_per_query(here: Path) -> None:
    expected = {name: len(rows) for name, rows in expected_rows().items()}
    lines = invoke("run", "q.sql", *INPUTS, "-o", "out").stderr.splitlines()
    lines = [line for line in lines if not line.startswith("Compiling")]
    assert re.fullmatch(
        rf"hot   2,200 rows  {expected['hot']:,} results  \d+\.\d\d s  out/hot.parquet", lines[0]
    )
    assert re.fullmatch(
        rf"cold  1,500 rows  +{expected['cold']:,} results  \d+\.\d\d s  out/cold.parquet", lines[1]
    )
    assert re.fullmatch(r"2,200 rows in \d+\.\d\d s, [\d,]+ rows/s", lines[2])
    assert len(lines) == 3
    assert invoke("run", "q.sql", *INPUTS, "-q").stderr == ""


def test_late_rows_that_are_dropped_are_counted(here: Path) -> None:
    (here / "late.sql").write_text(
        "CREATE STREAM s (ts TIMESTAMP, x INT); CREATE QUERY q AS SELECT x FROM s LATE DROP;"
    )
    (here / "s.csv").write_text("ts,x\n5,1\n3,2\n6,3\n")
    result = invoke("run", "late.sql", "-i", "s=s.csv")
    assert [json.loads(line)["x"] for line in result.stdout.splitlines()] == [1, 3]
    assert result.stderr.splitlines()[-1].endswith(" rows/s, 1 late rows dropped")


def test_slack_lets_rows_come_late_from_several_files(here: Path) -> None:
    (here / "late.sql").write_text(
        "CREATE STREAM s (ts TIMESTAMP, x INT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND);"
        "CREATE STREAM other (ts TIMESTAMP, x INT);"
        "CREATE QUERY q AS SELECT x FROM s UNION ALL SELECT x FROM other;"
    )
    second = 1_000_000
    (here / "a.csv").write_text("ts,x\n" + "".join(f"{ts * second},{ts}\n" for ts in (5, 3, 9, 8, 7)))
    (here / "b.csv").write_text("ts,x\n" + "".join(f"{ts * second},{ts}\n" for ts in (6, 4, 12)))
    for speed in ([], ["--speed", "100x"]):
        result = invoke("run", "late.sql", "-i", "s=a.csv", "-i", "s=b.csv", *speed)
        assert [json.loads(line)["x"] for line in result.stdout.splitlines()] == [3, 4, 5, 6, 7, 8, 9, 12]


def test_a_stream_without_input_is_empty_and_said_to_be(here: Path) -> None:
    result = invoke("run", "q.sql", "-i", "temperature=t.parquet")
    assert "Note: no -i for the stream `humidity`: it is empty" in result.stderr.splitlines()
    assert rows_of(result.stdout) == {"hot": [], "cold": expected_rows()["cold"]}


@pytest.mark.parametrize("speed", [[], ["--speed", "10x"]])
def test_runs_without_a_single_row(speed: list[str], here: Path) -> None:
    (here / "none.csv").write_text("ts,location,value\n")
    for words in ([], ["-i", "temperature=none.csv"]):
        result = invoke("run", "q.sql", *words, *speed)
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1].startswith("0 rows in ")


def test_a_stream_without_input_holds_nothing_back(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of a union with an empty stream come while the other is read, not all at its end."""
    from penstock.connectors import inputs

    monkeypatch.setattr(inputs, "BATCH_ROWS", 100)
    (here / "u.sql").write_text(
        SQL.partition("CREATE QUERY")[0]
        + "CREATE QUERY both AS SELECT value FROM temperature UNION ALL SELECT value FROM humidity;"
    )
    seen: list[int] = []
    push = penstock.Engine.push

    def note_results(engine: penstock.Engine, stream: str, data: object) -> None:
        seen.append(engine.queries["both"].count)
        push(engine, stream, data)

    monkeypatch.setattr(penstock.Engine, "push", note_results)
    invoke("run", "u.sql", "-i", "temperature=t.parquet")
    assert len(seen) == 15
    assert all(count >= 100 * place - 1 for place, count in enumerate(seen))


def test_a_query_that_fails_stops_alone(here: Path) -> None:
    (here / "q.sql").write_text(
        SQL + "CREATE QUERY sum AS SELECT location * 9223372036854775807 AS big FROM temperature;"
    )
    result = invoke("run", "q.sql", *INPUTS, code=4)
    assert rows_of(result.stdout) == expected_rows()
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Compiling")]
    assert lines[0].startswith("Query `sum` stopped: ")
    assert lines[3].startswith("sum ")
    assert lines[3].endswith("  stopped")


@pytest.mark.parametrize("index", ["scan", "hash", "t-tree", "b+tree"])
def test_a_forced_index_gives_the_same_results(index: str, here: Path) -> None:
    assert rows_of(invoke("run", "q.sql", *INPUTS, "--index", index).stdout) == expected_rows()


def test_replay_takes_the_streams_time_and_changes_nothing(here: Path) -> None:
    began = time.monotonic()
    result = invoke("run", "q.sql", *INPUTS, "--speed", "60x")
    assert 0.9 < time.monotonic() - began < 20
    assert rows_of(result.stdout) == expected_rows()


def test_statements_from_standard_input(here: Path) -> None:
    result = CliRunner().invoke(main, ["run", "-", *INPUTS], input=SQL)
    assert rows_of(result.stdout) == expected_rows()


# Refusals, with their exact line and exit code


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "q.sql", "-i", "t.parquet"], "Expected `-i stream=file`, found `-i t.parquet`"),
        (
            ["run", "q.sql", "-i", "humdity=h.parquet"],
            "Expected a declared stream in `-i humdity=h.parquet`, found `humdity`. Did you mean `humidity`?",
        ),
        (
            ["run", "q.sql", "-i", "temperature=-", "-i", "humidity=-"],
            "Expected `-` (standard input) for one input, found it for several",
        ),
        (
            ["run", "-", "-i", "temperature=-"],
            "Expected `-` (standard input) for the queries or an input, found it for both",
        ),
        (["run", "no.sql"], "Expected a file of statements at `no.sql`, found: No such file or directory"),
        (["run", "t.parquet"], "Expected a file of statements at `t.parquet`, found bytes that are not text"),
        (
            ["run", "q.sql", "--format", "csv"],
            "Expected -o DIR with --format, found none; standard output is always JSON lines",
        ),
        (
            ["explain", "q.sql", "-i", "x=h.parquet"],
            "Expected a declared stream in `-i x=h.parquet`, found `x`. Known: `humidity`, `temperature`",
        ),
    ],
)
def test_wrong_usage(words: list[str], line: str, here: Path) -> None:
    assert refusal(*words, code=2) == f"Error: {line}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rn"], "Error: Expected a command, found `rn`. Did you mean `run`?"),
        (["explian", "q.sql"], "Error: Expected a command, found `explian`. Did you mean `explain`?"),
        (["run", "q.sql", "--speed", "fast"], "Expected a speed above 0 such as `10x`, found `fast`"),
        (["run", "q.sql", "--speed", "0x"], "Expected a speed above 0 such as `10x`, found `0x`"),
        (["run", "q.sql", "--sharing", "some"], "'some' is not one of"),
        (["run", "q.sql", "--nonsense"], "No such option"),
        (["run"], "Missing argument 'QUERIES.sql'"),
    ],
)
def test_words_that_the_command_does_not_know(words: list[str], line: str, here: Path) -> None:
    result = invoke(*words, code=2)
    assert result.stdout == ""
    assert line in result.stderr


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("CREATE STREAM s (ts TIMESTAMP);\nCREATE QUERY q AS\n  SELECT nothing FROM s;", "line 3, column 10"),
        ("CREATE STREAM s (ts TIMESTAMP);\nCREATE QUERY q AS SELECT * FRM s;", "line 2, column"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(sql: str, place: str, here: Path) -> None:
    (here / "bad.sql").write_text(sql)
    line = refusal("run", "bad.sql", code=3)
    assert line.startswith("Error: ")
    assert place in line
    assert " of `bad.sql`" in line


def test_a_file_without_queries(here: Path) -> None:
    (here / "none.sql").write_text("CREATE STREAM s (ts TIMESTAMP);")
    assert (
        refusal("run", "none.sql", code=3)
        == "Error: Expected at least one CREATE QUERY in `none.sql`, found none"
    )


@pytest.mark.parametrize("name", ["auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain"])
def test_a_strategy_gives_the_same_results_or_is_refused_by_name(name: str, here: Path) -> None:
    result = CliRunner().invoke(main, ["run", "q.sql", "-q", *INPUTS, "--sharing", name])
    if result.exit_code:
        assert result.exit_code == 2
        assert result.stdout == ""
        assert re.fullmatch(rf"Error: .*\b{name}\b.* not supported yet.*\n", result.stderr)
    else:
        assert rows_of(result.stdout) == expected_rows()


def write_bad_csv(path: Path, row: int, column: str, value: str) -> None:
    """Temperatures, enough for two batches, one value replaced."""
    lines = [f"{START_US + n},{n % 9},20.5" for n in range(70_000)]
    fields = dict(zip(("ts", "location", "value"), lines[row - 1].split(","), strict=True))
    lines[row - 1] = ",".join({**fields, column: value}.values())
    path.write_text("\n".join(["ts,location,value", *lines]) + "\n")


@pytest.mark.parametrize("row", [1, 69_999])
@pytest.mark.parametrize(
    ("column", "value", "line"),
    [
        ("location", "x", "Expected BIGINT in column `location`, found `x`"),
        ("ts", "", "Expected a time in column `ts`, found NULL"),
        (
            "ts",
            "noon",
            "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `noon`",
        ),
    ],
)
def test_a_bad_value_is_named_by_file_and_row(
    column: str, value: str, line: str, row: int, here: Path
) -> None:
    write_bad_csv(here / "bad.csv", row, column, value)
    assert refusal("run", "q.sql", "-q", "-i", "temperature=bad.csv", "-o", "out", code=4) == (
        f"Error: {line}, in `bad.csv`, row {row}"
    )


def test_a_row_out_of_order_is_named_by_its_own_file_and_row(here: Path) -> None:
    """Also when its input was merged with another."""
    write_bad_csv(here / "bad.csv", 69_998, "ts", str(START_US + 50))
    for more in ([], ["-i", "temperature=t.parquet"]):
        line = refusal(
            "run", "q.sql", "-q", "-i", "temperature=bad.csv", *more, "-o", "out", "--overwrite", code=4
        )
        assert line.startswith("Error: Expected rows in time order")
        assert line.endswith(", in `bad.csv`, row 69998")


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("column", "value"), [("value", "x"), ("ts", ""), ("ts", str(START_US)), ("value", "1,2")]
)
def test_all_before_a_bad_row_is_answered_and_stays(kind: str, column: str, value: str, here: Path) -> None:
    """A bad value, a missing time, a time out of order, a field too many: wherever batches were cut."""
    (here / "cold.sql").write_text(SQL.replace("value < 12", "value < 21"))
    write_bad_csv(here / "bad.csv", 69_990, column, value)
    line = refusal(
        "run", "cold.sql", "-q", "-i", "temperature=bad.csv", "-o", "out", "--format", kind, code=4
    )
    assert line.endswith(", in `bad.csv`, row 69990")
    if kind == "parquet":
        assert pq.read_metadata("out/cold.parquet").num_rows == 69_989
    elif kind == "csv":
        with open("out/cold.csv") as file:
            assert len(list(csv.reader(file))) == 69_990
    else:
        with open("out/cold.jsonl") as file:
            assert sum("value" in json.loads(line) for line in file) == 69_989


def test_all_before_a_bad_line_of_json_is_answered(here: Path) -> None:
    rows = [json.dumps({"ts": START_US + n, "location": 1, "value": 5}) for n in range(3000)]
    for bad in ("hello", json.dumps({"ts": 1.5}), json.dumps({"ts": "noon"})):
        (here / "bad.jsonl").write_text("\n".join([*rows, bad, rows[-1]]))
        result = invoke("run", "q.sql", "-q", "-i", "temperature=bad.jsonl", code=4)
        assert len(result.stdout.splitlines()) == 3000
        assert result.stderr.endswith(", in `bad.jsonl`, row 3001\n")


@pytest.mark.parametrize(
    ("file", "data", "line"),
    [
        ("no.csv", None, "Expected a file at `no.csv`, found none"),
        ("no*.csv", None, "Expected files matching `no*.csv`, found none"),
        ("empty.csv", b"", "Expected rows in `empty.csv`, found no bytes at all"),
        ("empty.parquet", b"", "Expected rows in `empty.parquet`, found no bytes at all"),
        (".", None, "Expected a file, found the folder `.`; name its files, as in `./*.csv`"),
        (
            "less.csv",
            b"ts,locatoin,value\n",
            "Expected a column `location`, found `ts`, `locatoin`, `value` (did you mean `locatoin`?),"
            " in `less.csv`",
        ),
        (
            "short.csv",
            b"ts,location,value\n1,2\n",
            "Expected 3 fields as in the header, found 2, in `short.csv`, row 1",
        ),
        ("bad.jsonl", b"hello\n", "Expected a JSON object, found `hello`, in `bad.jsonl`, row 1"),
    ],
)
def test_bad_files(file: str, data: bytes | None, line: str, here: Path) -> None:
    if data is not None:
        (here / file).write_bytes(data)
    found = refusal("run", "q.sql", "-q", "-i", f"temperature={file}", "-o", "out", code=4)
    assert found == f"Error: {line}"


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_cut_short(kind: str, here: Path) -> None:
    path = write_input(kind, TEMPERATURE, here / "cut")
    path.write_bytes(path.read_bytes()[:-300])
    line = refusal("run", "q.sql", "-q", "-i", f"temperature=cut.{kind}", "-o", "out", code=4)
    assert "found a file that is cut short or damaged (" in line
    assert line.endswith(f"in `cut.{kind}`")
    assert not (here / "out").exists()


def test_a_folder_for_results_that_cannot_be_made(here: Path) -> None:
    line = refusal("run", "q.sql", "-q", *INPUTS, "-o", "q.sql", code=4)
    assert line == "Error: Expected to write `q.sql`, found: File exists"


# Explaining, measuring


def test_explain_is_the_engines(here: Path) -> None:
    engine = penstock.Engine()
    engine.execute(SQL)
    assert invoke("explain", "q.sql").stdout.strip() == engine.explain().strip()
    assert json.loads(invoke("explain", "q.sql", "--json").stdout) == json.loads(engine.explain(json=True))


def test_explain_takes_the_rates_from_the_files(here: Path) -> None:
    engine = penstock.Engine()
    engine.execute(SQL.partition("CREATE QUERY")[0])
    for name, table in (("temperature", TEMPERATURE), ("humidity", HUMIDITY)):
        times = table["ts"].cast(pa.int64()).to_numpy()
        engine.set_rate(name, (len(times) - 1) / ((times[-1] - times[0]) / 1e6))
    engine.execute("CREATE QUERY" + SQL.partition("CREATE QUERY")[2])
    assert invoke("explain", "q.sql", *INPUTS).stdout.strip() == engine.explain().strip()
    assert engine.explain() != invoke("explain", "q.sql").stdout


def test_calibrate_shows_and_stores_what_it_measured(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.optimizer import calibrate, weights

    def measure(progress: object) -> weights.Weights:
        assert callable(progress)
        progress("measuring")
        return weights.load()

    monkeypatch.setenv("PENSTOCK_HOME", str(here / "home"))
    monkeypatch.setattr(calibrate, "calibrate", measure)
    result = invoke("calibrate")
    assert result.stderr == "measuring\n"
    assert f"{weights.load().hash_search * 1e9:,.2f}" in result.stdout
    assert weights.read(here / "home" / "weights.json") == weights.load()


def test_bench_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else find(name))
    assert refusal("bench", code=2) == (
        "Error: Expected the benchmarks' packages, found no `polars`; pip install 'penstock[bench]'"
    )


# The command as a process


def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[bytes], data: bytes | None = None) -> tuple[int, str, str]:
    out, err = process.communicate(data, timeout=120)
    return process.returncode, out.decode(), err.decode()


def test_version_and_help() -> None:
    code, out, _ = finish(start("--version"))
    assert (code, out.strip()) == (0, f"penstock, version {penstock.__version__}")
    code, out, _ = finish(start("run", "--help"))
    assert code == 0
    assert "penstock run queries.sql -i temperature=temps.parquet -i humidity='hum/*.csv' -o results/" in out
    code, out, _ = finish(start("--help"))
    for name in ("run", "explain", "demo", "calibrate", "bench"):
        assert f"\n  {name} " in out


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_standard_input_in_every_format(kind: str, here: Path) -> None:
    data = write_input(kind, TEMPERATURE, here / "in").read_bytes()
    process = start("run", "q.sql", "-i", "temperature=-", "-i", "humidity=h.parquet", stdin=subprocess.PIPE)
    code, out, err = finish(process, data)
    assert code == 0, err
    assert rows_of(out) == expected_rows()


def test_errors_in_standard_input_say_so(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    code, out, err = finish(process, b"ts,location,value\n1,2,3\n2,x,3\n")
    assert (code, len(out.splitlines())) == (4, 1)
    assert err == "Error: Expected BIGINT in column `location`, found `x`, in `standard input`, row 2\n"
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.DEVNULL)
    assert finish(process)[2] == "Error: Expected rows in `standard input`, found no bytes at all\n"


def test_results_come_as_standard_input_does(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"ts,location,value\n")
    for second in range(3):
        process.stdin.write(f"{START_US + second * 1_000_000},1,5\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], 60)
        assert ready
        assert json.loads(process.stdout.readline())["query"] == "cold"
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    pq.write_table(make_stream(400_000, 3), here / "many.parquet")
    process = start("run", "all.sql", "-q", "-i", "temperature=many.parquet")
    assert process.stdout is not None
    assert process.stderr is not None
    assert b'"query": "cold"' in process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def wait_for_results(folder: Path, size: int = 1) -> None:
    for _ in range(1200):
        if folder.exists() and any(path.stat().st_size >= size for path in folder.iterdir()):
            return
        time.sleep(0.05)
    raise AssertionError("no results within a minute")


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("parquet", signal.SIGINT),
        ("csv", signal.SIGINT),
        ("jsonl", signal.SIGINT),
        ("parquet", signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_whole_files(kind: str, number: signal.Signals, here: Path) -> None:
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    process = start("run", "all.sql", *INPUTS, "-o", "out", "--format", kind, "--speed", "1x")
    wait_for_results(here / "out", 1 if kind == "parquet" else 2000)
    time.sleep(1.5)
    process.send_signal(number)
    code, out, err = finish(process)
    assert (code, out) == (128 + number, "")
    assert [line for line in err.splitlines() if not line.startswith("Compiling")] == ["Interrupted"]
    assert sorted(os.listdir("out")) == [f"cold.{kind}", f"hot.{kind}"]
    if kind == "parquet":
        rows = [row["value"] for row in pq.read_table("out/cold.parquet").to_pylist()]
    elif kind == "csv":
        with open("out/cold.csv") as file:
            rows = [float(row["value"]) for row in csv.DictReader(file)]
    else:
        with open("out/cold.jsonl") as file:
            rows = [json.loads(line)["value"] for line in file]
    assert 0 < len(rows) < len(TEMPERATURE)
    assert rows == TEMPERATURE["value"].to_pylist()[: len(rows)]


def test_an_interrupt_while_waiting_for_standard_input(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"ts,location,value\n{START_US},1,5\n".encode())
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.stdin.close()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b"Interrupted\n"
    process.stderr.close()


def run_on_terminal(*words: str) -> tuple[int, str]:
    """The command with standard error on a terminal of its own; what it showed there."""
    shown, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(shown, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(shown)
    return process.wait(60), b"".join(parts).decode()


def test_a_bar_on_a_terminal(here: Path) -> None:
    code, shown = run_on_terminal("run", "q.sql", *INPUTS, "--speed", "30x")
    assert code == 0
    assert re.search(r"[\d,]+ rows, [\d,]+/s", shown)
    assert "2016-10-01 12:00:" in shown
    assert "%" in shown
    code, shown = run_on_terminal("run", "q.sql", *INPUTS, "--speed", "60x", "-q")
    assert (code, shown) == (0, "")


def test_no_bar_in_a_pipe(here: Path) -> None:
    code, _, err = finish(start("run", "q.sql", *INPUTS, "--speed", "60x"))
    assert code == 0
    assert "\x1b" not in err
    assert "\r" not in err


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def test_compiling_is_said_once_and_only_when_it_happens(here: Path, kernel_cache: Path) -> None:
    (here / "one.sql").write_text(SQL.partition("CREATE QUERY cold")[0])
    env = {**os.environ, "NUMBA_CACHE_DIR": str(kernel_cache)}
    said = "Compiling kernels for this machine, once ..."
    words = ("run", "one.sql", *INPUTS, "--index", "hash")
    _, _, first = finish(start(*words, env=env))
    assert first.splitlines().count(said) == 1
    _, _, second = finish(start(*words, env=env))
    assert said not in second


def test_starting_costs_at_most_three_times_its_libraries(here: Path, tmp_path: Path) -> None:
    """Processor time, smallest of several runs, with compiled modules and kernels in place."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, table in (("t", TEMPERATURE), ("h", HUMIDITY)):
        pa_csv.write_csv(table.slice(0, 100), here / f"{name}.csv")
    words = [*COMMAND, "run", "q.sql", "-q", "-i", "temperature=t.csv", "-i", "humidity=h.csv"]
    libraries = [sys.executable, "-c", "import numba, pyarrow"]
    costs = {}
    for name, command in (("run", words), ("libraries", libraries)):
        spent = []
        for _ in range(3):
            before = os.times()
            subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            spent.append(
                after.children_user - before.children_user + after.children_system - before.children_system
            )
        costs[name] = min(spent)
    assert costs["run"] <= 3 * costs["libraries"], costs


def test_a_run_loads_nothing_it_does_not_need(here: Path) -> None:
    for name, table in (("t", TEMPERATURE), ("h", HUMIDITY)):
        pa_csv.write_csv(table, here / f"{name}.csv")
    words = ["run", "q.sql", "-q", "-i", "temperature=t.csv", "-i", "humidity=h.csv"]
    script = (
        "import sys; from penstock.cli.main import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'pandas', 'rich', 'duckdb', 'polars', 'pyspark', 'matplotlib', 'pyarrow.parquet',"
        " 'pyarrow.json', 'pyarrow.dataset'} & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"
