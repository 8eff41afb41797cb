"""Rows that cannot be read are left out where that is asked for: counted, named, the others as if alone."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_help import COMMAND, START_US, folder_with_inputs, invoke, refusal  # noqa: F401

from penstock.connectors import readers

COLD = """
CREATE STREAM s (ts TIMESTAMP, x INT, y DOUBLE);
CREATE QUERY q AS SELECT x FROM s;
"""


def read_bad(path: str) -> list[tuple[str, int, str, str]]:
    """What was left out, as it was written down."""
    if path.endswith(".jsonl"):
        rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    else:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    return [(row["file"], int(row["row"]), row["reason"], row["text"]) for row in rows]


def write_queries(folder: Path) -> None:
    (folder / "cold.sql").write_text(COLD)


def good_values(text: str) -> list[int]:
    return [json.loads(line)["x"] for line in text.splitlines()]


def run(*words: str, code: int = 0) -> tuple[list[int], str]:
    result = invoke("run", "cold.sql", *words, code=code)
    return good_values(result.stdout), result.stderr.splitlines()[-1]


BAD_CSV = {
    3: ("1,2", "Expected 3 fields as in the header, found 2"),
    4: ("1,2,3,4", "Expected 3 fields as in the header, found 4"),
    7: (f"{START_US},x,2.5", "Expected BIGINT in column `x`, found `x`"),
    8: (f"{START_US},5,warm", "Expected DOUBLE in column `y`, found `warm`"),
    9: (f"{START_US},x,warm", "Expected BIGINT in column `x`, found `x`"),
    11: (',"5",2.5', "Expected a time in column `ts`, found NULL"),
    12: (
        'noon,5,"2.5\n"',
        "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `noon`",
    ),
    20: (f"{2**62},5,2.5", "Expected a time in column `ts`, found"),
}


@pytest.mark.parametrize("batch_rows", [4, 1 << 16])
@pytest.mark.parametrize("to", ["bad.csv", "bad.jsonl"])
def test_bad_rows_of_csv(to: str, batch_rows: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_queries(here)
    monkeypatch.setattr(readers, "BATCH_ROWS", batch_rows)
    rows = [BAD_CSV[n][0] if n in BAD_CSV else f"{START_US + n},{n},0.5" for n in range(1, 31)]
    rows.insert(5, "")  # a blank line is no row
    (here / "s.csv").write_text("\n".join(["ts,x,y", *rows]) + '\n1,"cut')
    found, last = run("-i", "s=s.csv", "--on-bad-row", "skip", "--bad-rows", to)
    assert found == [n for n in range(1, 31) if n not in BAD_CSV]
    assert last.endswith(", 9 bad rows left out")
    bad = sorted(read_bad(to), key=lambda one: one[1])
    assert [one[:2] for one in bad] == [("s.csv", n) for n in [*sorted(BAD_CSV), 31]]
    for (_, _, reason, text), (row, why) in zip(bad, BAD_CSV.values(), strict=False):
        assert (text, reason[: len(why)]) == (row, why)
    assert bad[-1][2:] == ("Expected a closing quote, found the end of the file", '1,"cut')
    found, last = run("-i", "s=s.csv", code=4)
    assert found == [1, 2]
    assert last == "Error: Expected 3 fields as in the header, found 2, in `s.csv`, row 3"


def test_bad_rows_of_json(here: Path) -> None:
    write_queries(here)
    bad = {
        1: ("hello", "Expected a JSON object, found `hello`"),
        2: ('{"ts": 5, "x": "y"}', 'Expected BIGINT in column `x`, found `"y"`'),
        9: ('{"ts": null, "x": 5, "y": 1}', "Expected a time in column `ts`, found NULL"),
        1100: ("[" * 5000, "Expected JSON nested at most 500 deep, found it deeper"),
        1200: ('{"ts": 5, "x"', 'Expected a JSON object, found `{"ts": 5, "x"`'),
    }
    rows = [
        bad[n][0] if n in bad else json.dumps({"ts": START_US + n, "x": n, "y": 1}) for n in range(1, 1201)
    ]
    (here / "s.jsonl").write_text("\n".join(rows))
    found, last = run("-i", "s=s.jsonl", "--on-bad-row", "skip", "--bad-rows", "bad.csv")
    assert found == [n for n in range(1, 1201) if n not in bad]
    assert last.endswith(", 5 bad rows left out")
    written = sorted(read_bad("bad.csv"), key=lambda one: one[1])
    assert written == [("s.jsonl", n, reason, text) for n, (text, reason) in bad.items()]


def test_bad_rows_of_parquet(here: Path) -> None:
    write_queries(here)
    table = pa.table(
        {
            "ts": pa.array([START_US, None, START_US + 2, START_US + 3], pa.timestamp("us")),
            "x": pa.array([1.0, 2.0, 2.5, 4.0]),
            "y": pa.array([0.5] * 4),
        }
    )
    pq.write_table(table, here / "s.parquet")
    found, last = run("-i", "s=s.parquet", "--on-bad-row", "skip", "--bad-rows", "bad.jsonl")
    assert found == [1, 4]
    assert last.endswith(", 2 bad rows left out")
    (no_time, no_integer) = read_bad("bad.jsonl")
    assert no_time == (
        "s.parquet",
        2,
        "Expected a time in column `ts`, found NULL",
        '{"ts": null, "x": 2.0, "y": 0.5}',
    )
    assert no_integer[:3] == ("s.parquet", 3, "Expected BIGINT in column `x`, found `2.5`")


def test_bad_rows_of_tables_count_too(here: Path) -> None:
    (here / "cold.sql").write_text(
        COLD + "CREATE TABLE t (x INT); CREATE QUERY both AS SELECT s.x FROM s JOIN t ON s.x = t.x;"
    )
    (here / "t.csv").write_text("x\n1\ntwo\n3\n")
    (here / "s.csv").write_text(f"ts,x,y\n{START_US},1,1\n")
    found, last = run("-i", "s=s.csv", "-i", "t=t.csv", "--on-bad-row", "skip", "--bad-rows", "bad.csv")
    assert found == [1, 1]
    assert last.endswith(", 1 bad row left out")
    assert read_bad("bad.csv")[0][:2] == ("t.csv", 2)


def test_a_file_of_bad_rows_is_read_at_a_pace(here: Path) -> None:
    """One row in ten is wrong, in one way or another: pieces without any are passed at once."""
    write_queries(here)
    bad = np.random.default_rng(3).random(60_000) < 0.1
    rows = [f"{START_US + n},{'x' if is_bad else n},1" for n, is_bad in enumerate(bad)]
    rows = [row + ",9" if n % 70 == 3 else row for n, row in enumerate(rows)]
    bad[3::70] = True
    (here / "s.csv").write_text("\n".join(["ts,x,y", *rows]) + "\n")
    found, last = run("-i", "s=s.csv", "--on-bad-row", "skip")
    assert found == np.flatnonzero(~bad).tolist()
    assert last.endswith(f", {bad.sum():,} bad rows left out")


def test_what_is_no_bad_row_stops_all_the_same(here: Path) -> None:
    write_queries(here)
    (here / "late.csv").write_text(f"ts,x,y\n{START_US + 9},1,1\n{START_US},2,1\n")
    assert "Expected rows in time order" in run("-i", "s=late.csv", "--on-bad-row", "skip", code=4)[1]
    (here / "no.csv").write_text("ts,x\n1,2\n")
    assert "Expected a column `y`" in run("-i", "s=no.csv", "--on-bad-row", "skip", code=4)[1]
    (here / "open.csv").write_text(f'ts,x,y\n{START_US},1,1\n{START_US},2,"' + "1\n" * 5000)
    line = run("-i", "s=open.csv", "--on-bad-row", "skip", code=4)[1]
    assert "Expected a quoted record of at most 1 MB and 1,000 lines" in line
    assert ", in `open.csv`, row 2." in line


def test_a_last_row_that_is_cut_is_left_out_and_said(here: Path) -> None:
    write_queries(here)
    (here / "s.csv").write_text(f"ts,x,y\n{START_US},1,1\n{START_US + 1},2")
    assert run("-i", "s=s.csv", code=4)[1] == (
        "Error: Expected 3 fields as in the header, found 2, in `s.csv`, row 2."
        " The file is cut off within this row; --allow-partial leaves it out"
    )
    result = invoke("run", "cold.sql", "-i", "s=s.csv", "--allow-partial")
    assert good_values(result.stdout) == [1]
    assert "Note: `s.csv` is cut off within row 2, which is left out" in result.stderr.splitlines()


def test_longer_records_if_asked_for(here: Path) -> None:
    (here / "cold.sql").write_text(
        "CREATE STREAM s (ts TIMESTAMP, x VARCHAR); CREATE QUERY q AS SELECT LENGTH(x) AS x FROM s;"
    )
    (here / "s.csv").write_text(f'ts,x\n{START_US},"' + "a\n" * 1_000_000 + '"\n')
    assert "row 1." in run("-i", "s=s.csv", code=4)[1]
    assert run("-i", "s=s.csv", "--max-record", "64MB")[0] == [2_000_000]
    assert "at most 1.5 MB, found" in run("-i", "s=s.csv", "--max-record", "1.5mb", code=4)[1]


def test_results_and_bad_rows_are_not_written_to_one_file(here: Path) -> None:
    write_queries(here)
    (here / "s.csv").write_text(f"ts,x,y\n{START_US},1,1\n")
    words = ["run", "cold.sql", "-i", "s=s.csv", "--on-bad-row", "skip", "--overwrite", "-q", "--bad-rows"]
    (here / "out").mkdir()
    (here / "also").symlink_to("out")
    into = ["-o", "out", "--format", "csv"]
    said = refusal(*words, "also/q.csv", *into, code=2)
    assert said.endswith("elsewhere than the bad rows in `also/q.csv`, found `out/q.csv` for both")
    with open("b.csv", "w") as out:
        done = subprocess.run([*COMMAND, *words, "b.csv"], stdout=out, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"than the bad rows in `b.csv`, found `standard output` for both" in done.stderr
    invoke(*words, "out/bad.csv", *into)


def test_options_that_do_not_fit(here: Path) -> None:
    write_queries(here)
    (here / "s.csv").write_text(f"ts,x,y\n{START_US},1,1\n")
    words = ["run", "cold.sql", "-i", "s=s.csv"]
    assert refusal(*words, "--bad-rows", "bad.csv", code=2) == (
        "Error: Expected --on-bad-row skip with --bad-rows FILE, found that they stop the run"
    )
    skip = [*words, "--on-bad-row", "skip", "--bad-rows"]
    assert refusal(*skip, "./s.csv", "--overwrite", code=2).startswith(
        "Error: Expected results to go elsewhere"
    )
    assert (here / "s.csv").read_text().startswith("ts,x,y\n1")
    (here / "bad.csv").write_text("mine")
    assert "give --overwrite to replace it" in refusal(*skip, "bad.csv", code=2)
    assert (here / "bad.csv").read_text() == "mine"
    assert (
        refusal(*skip, "no/bad.csv", code=4)
        == "Error: Expected to write `no/bad.csv`, found: No such file or directory"
    )
    for value in ("1", "big", "-5MB", "2GB"):
        result = invoke(*words, "--max-record", value, code=2)
        assert f"Expected a size such as `64MB`, from 1 kB to 1 GB, found `{value}`" in result.stderr
    assert "'some' is not one of" in invoke(*words, "--on-bad-row", "some", code=2).stderr
    shown = invoke("run", "--help").stdout
    for option in ("--on-bad-row [stop|skip]", "--bad-rows FILE", "--allow-partial", "--max-record SIZE"):
        assert option in shown
