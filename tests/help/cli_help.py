"""Two queries, their streams in a folder, and the command: called in this process or started as its own.

A test module that imports `folder_with_inputs` has it as its fixture `here`.
"""

from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.fixture(name="here")
def folder_with_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[bytes], data: bytes | None = None) -> tuple[int, str, str]:
    out, err = process.communicate(data, timeout=120)
    return process.returncode, out.decode(), err.decode()
