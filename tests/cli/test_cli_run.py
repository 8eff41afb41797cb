"""`penstock run` gives the engine's results, from every input format and in every output format."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from cli_help import (
    HUMIDITY,
    INPUTS,
    SQL,
    TEMPERATURE,
    expected_rows,
    folder_with_inputs,  # noqa: F401
    invoke,
    refusal,
    rows_of,
    write_input,
)
from click.testing import CliRunner

import penstock
from penstock.cli.main import main


def test_results_on_standard_output_are_the_engines(here: Path) -> None:
    result = invoke("run", "q.sql", *INPUTS)
    assert rows_of(result.stdout) == expected_rows()
    assert min(len(rows) for rows in expected_rows().values()) > 100
    first = json.loads(result.stdout.splitlines()[0])
    assert list(first)[:2] == ["query", "_ts"]


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
    assert re.fullmatch(r"2,200 rows in (0\.\d\d s|[1-9]\d*\.\d\d s, [\d,]+ rows/s)", lines[2])
    assert len(lines) == 3
    assert invoke("run", "q.sql", *INPUTS, "-q").stderr == ""


def test_the_summary_counts_one_in_the_singular_and_rates_only_runs_that_last(here: Path) -> None:
    (here / "one.csv").write_text("ts,location,value\n5,1,2.5\n")
    lines = invoke("run", "q.sql", "-i", "temperature=one.csv").stderr.splitlines()
    assert re.fullmatch(r"cold  1 row +1 result +\d+\.\d\d s", lines[-2])
    assert re.fullmatch(r"1 row in (0\.\d\d s|[1-9]\d*\.\d\d s, \d+ rows/s)", lines[-1])
    last = invoke("run", "q.sql", *INPUTS, "--speed", "40x").stderr.splitlines()[-1]
    assert re.fullmatch(r"2,200 rows in [1-9]\d*\.\d\d s, [\d,]+ rows/s", last)


def test_late_rows_that_are_dropped_are_counted(here: Path) -> None:
    (here / "late.sql").write_text(
        "CREATE STREAM s (ts TIMESTAMP, x INT); CREATE QUERY q AS SELECT x FROM s LATE DROP;"
    )
    (here / "s.csv").write_text("ts,x\n5,1\n3,2\n6,3\n")
    result = invoke("run", "late.sql", "-i", "s=s.csv")
    assert [json.loads(line)["x"] for line in result.stdout.splitlines()] == [1, 3]
    assert result.stderr.splitlines()[-1].endswith(", 1 late row dropped")


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
    result = invoke("run", "q.sql", "-i", "temperature=none.csv", *speed)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("0 rows in ")


def test_a_stream_without_input_holds_nothing_back(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of a union with an empty stream come while the other is read, not all at its end."""
    from penstock.connectors import readers

    monkeypatch.setattr(readers, "BATCH_ROWS", 100)
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
    assert lines[0].count("`sum`") == 1
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
