"""Bad rows and bad files: named by file and row, and all before them is answered."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_help import (
    SQL,
    START_US,
    TEMPERATURE,
    folder_with_inputs,  # noqa: F401
    invoke,
    refusal,
    write_input,
)


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
        assert ", in `bad.csv`, row 69998. Allow for it with WATERMARK" in line


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
    assert re.search(r", in `bad\.csv`, row 69990(\. |$)", line)
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
        (
            "semi.csv",
            b"ts;location;value\n1;2;3\n",
            "Expected a column `ts`, found `ts;location;value`, in `semi.csv`."
            " Fields must be separated by commas, or in a .tsv file by tabs",
        ),
        (
            "array.json",
            b'[{"ts": 1}]',
            'Expected a JSON object, found `[{"ts": 1}]`, in `array.json`, row 1.'
            " JSON lines has one object per line",
        ),
        (
            "s3://bucket/t.csv",
            None,
            "Expected a local file, found `s3://bucket/t.csv`; only local files are read",
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
