"""Disks that are full, outputs that are closed, results where the input stands: one line, the right code."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from cli_help import (
    COMMAND,
    INPUTS,
    SQL,
    TEMPERATURE,
    expected_rows,
    folder_with_inputs,  # noqa: F401
    invoke,
    refusal,
)
from test_line_file import largest_file

from penstock.cli import flushing
from penstock.cli.flushing import Flushing
from penstock.connectors import readers

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_full_disk_is_one_line(kind: str, here: Path) -> None:
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    with largest_file(9_000):
        line = refusal("run", "all.sql", "-q", *INPUTS, "-o", "out", "--format", kind, code=4)
    assert re.fullmatch(rf"Error: Expected to write `out/(hot|cold)\.{kind}`, found: File too large", line)
    for path in (here / "out").iterdir():
        assert not path.name.startswith("."), "half a file stays"
        if kind == "parquet":
            pq.read_table(path)
        elif kind == "csv":
            assert pa_csv.read_csv(path).num_rows < len(TEMPERATURE)
        else:
            assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_full_disk_in_a_long_run_keeps_the_segments(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "BATCH_ROWS", 100)
    monkeypatch.setattr(flushing, "MOST_SHARE", 1e9)
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    monkeypatch.setattr("penstock.connectors.segments._exchange", lambda *_: pytest.fail("merged"))
    flushed: list[int] = []
    sync = os.fsync

    def fill(handle: int) -> None:
        flushed.append(handle)
        if len(flushed) > 12:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fill)
    line = refusal("run", "all.sql", "-q", *INPUTS, "-o", "out", "--flush-every", "0.001ms", code=4)
    assert re.fullmatch(r"Error: Expected to write `out/.*`, found: No space left on device", line)
    rows = [
        row for path in sorted((here / "out").glob("cold/*.parquet")) for row in pq.read_table(path)["value"]
    ]
    assert [row.as_py() for row in rows] == TEMPERATURE["value"].to_pylist()[: len(rows)]
    assert len(rows) >= 100


def test_a_run_that_is_longer_than_a_flush_gives_a_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BATCH_ROWS", 100)
    monkeypatch.setattr(flushing, "MOST_SHARE", 1e9)
    result = invoke("run", "q.sql", *INPUTS, "-o", "out", "--flush-every", "0.001ms")
    assert sorted(os.listdir("out")) == ["cold", "hot"]
    for name, expected in expected_rows().items():
        assert os.listdir(f"out/{name}") == ["000001.parquet"], "merged at the end"
        found = pq.read_table(f"out/{name}")
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected
        assert re.search(rf"(?m)^{name} .*  out/{name}$", result.stderr)
    assert "--overwrite" in refusal("run", "q.sql", "-q", *INPUTS, "-o", "out", code=2)
    invoke("run", "q.sql", *INPUTS, "-o", "out", "--overwrite")
    assert sorted(os.listdir("out")) == ["cold.parquet", "hot.parquet"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device"),
            "Expected to write `out/cold`, found: No space left on device",
        ),
        (MemoryError("malloc failed"), "malloc failed"),
    ],
)
def test_segments_that_cannot_be_merged_are_results_too(
    error: Exception, said: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(readers, "BATCH_ROWS", 100)
    monkeypatch.setattr(flushing, "MOST_SHARE", 1e9)
    monkeypatch.setattr("penstock.connectors.segments._put_in_place", fail)
    result = invoke("run", "q.sql", *INPUTS, "-o", "out", "--flush-every", "0.001ms")
    assert f"Note: the files in `out/cold` were not merged: {said}" in result.stderr
    rows = sorted(tuple(row.values()) for row in pq.read_table("out/cold").to_pylist())
    assert rows == expected_rows()["cold"]


def test_when_results_are_brought_to_the_disk() -> None:
    """
    seconds    100    103 (compiled)     108        113 (takes 3 s)  116            146
    due               no                 yes        yes                             yes
    """
    now, compiled = [100.0], [0]
    one = Flushing(5, lambda: compiled[0], lambda: now[0])

    def at(seconds: float) -> bool:
        now[0] = seconds
        return one.is_due

    compiled[0] = 1
    assert not at(103)
    assert not at(107.9)
    assert at(108)
    one.flush(lambda: None)
    compiled[0] = 2
    assert not at(112.9)
    assert at(113)
    one.flush(lambda: now.__setitem__(0, 116.0))
    assert not at(116 + 3 / flushing.MOST_SHARE - 0.1)
    assert at(116 + 3 / flushing.MOST_SHARE)


def say(how: str, name: str) -> str:
    read = "what is read" if how == name else f"what is read as `{how}`"
    return f"Error: Expected results to go elsewhere than {read}, found `{name}` for both"


@pytest.mark.parametrize(
    "spelt", ["same", "dot", "link", "hard link", "folder link", "glob", "case of results"]
)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_results_never_replace_what_is_read(spelt: str, kind: str, here: Path) -> None:
    out = here / "out"
    out.mkdir()
    source = out / f"cold.{kind}"
    (here / "in").mkdir()
    elsewhere = here / "in" / f"t.{kind}"
    where = elsewhere if "link" in spelt and "folder" not in spelt else source
    if kind == "csv":
        pa_csv.write_csv(TEMPERATURE, where)
    else:
        pq.write_table(TEMPERATURE, where)
    before = where.read_bytes()
    name = f"out/cold.{kind}"
    folder = "out"
    match spelt:
        case "dot":
            name = f"./in/../out/cold.{kind}"
        case "link":
            source.symlink_to(elsewhere)
            name = f"in/t.{kind}"
        case "hard link":
            os.link(elsewhere, source)
            name = f"in/t.{kind}"
        case "folder link":
            (here / "door").symlink_to(out)
            folder = "door"
        case "glob":
            name = f"{here}/o*/*.{kind}"
    words = ["run", "q.sql", "-q", "-i", f"temperature={name}", "-o", folder, "--format", kind]
    shown = str(source) if spelt == "glob" else name
    for more in ([], ["--overwrite"]):
        assert refusal(*words, *more, code=2) == say(shown, f"{folder}/cold.{kind}")
    assert source.read_bytes() == where.read_bytes() == before
    assert os.listdir(out) == [f"cold.{kind}"]


def test_segments_of_a_run_before_that_are_read_stay(here: Path) -> None:
    (here / "out" / "cold").mkdir(parents=True)
    pq.write_table(TEMPERATURE, here / "out" / "cold" / "000007.parquet")
    line = refusal(
        "run", "q.sql", "-q", "-i", "temperature=out/cold/*.parquet", "-o", "out", "--overwrite", code=2
    )
    assert line == say("out/cold/000007.parquet", "out/cold/000007.parquet")
    assert pq.read_table("out/cold/000007.parquet") == TEMPERATURE


def test_the_queries_and_tables_are_read_as_well(here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "cold.csv").write_text(SQL)
    words = ["-o", "out", "--format", "csv", "--overwrite", "-q"]
    assert refusal("run", "out/cold.csv", *INPUTS, *words, code=2) == say("out/cold.csv", "out/cold.csv")
    (here / "q.sql").write_text(SQL + "CREATE TABLE place (location INT);")
    (here / "out" / "cold.csv").write_text("location\n1\n")
    refusal("run", "q.sql", *INPUTS, "-i", "place=out/cold.csv", *words, code=2)
    assert (here / "out" / "cold.csv").read_text() == "location\n1\n"


def test_two_queries_never_share_a_file(here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "hot.csv").touch()
    (here / "out" / "cold.csv").symlink_to("hot.csv")
    line = refusal("run", "q.sql", "-q", *INPUTS, "-o", "out", "--format", "csv", "--overwrite", code=2)
    assert line == "Error: Expected a file for each query, found one as `out/hot.csv` and `out/cold.csv`"


def shell(text: str) -> tuple[int, str]:
    """What a line of the shell ends with, and what it says on standard error."""
    command = " ".join(COMMAND)
    found = subprocess.run(
        ["sh", "-c", text.replace("penstock", command, 1)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return found.returncode, found.stderr


RUN = f"penstock run q.sql -q {' '.join(INPUTS)}"
NO_ROOM = "Error: Expected to write `standard output`, found: No space left on device\n"
CLOSED = "Error: Expected to write `standard output`, found: Bad file descriptor\n"


@FULL
@pytest.mark.usefixtures("here")
def test_standard_output_that_is_full_or_closed() -> None:
    assert shell(f"{RUN} > /dev/full") == (4, NO_ROOM)
    assert shell(f"{RUN} >&- 2>&- <&- -o out") == (0, "")
    assert sorted(os.listdir("out")) == ["cold.parquet", "hot.parquet"]
    assert shell("penstock explain q.sql >&-") == (4, CLOSED)


@FULL
@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_every_word_on_standard_output_that_is_full_or_closed() -> None:
    assert shell(f"{RUN} >&-") == (4, CLOSED)
    assert shell(f"{RUN} > /dev/full 2> /dev/full")[0] == 4
    assert shell(f"{RUN} | head -1") == (0, "")
    assert shell("penstock --help > /dev/full") == (4, NO_ROOM)
    assert shell("penstock explain q.sql > /dev/full") == (4, NO_ROOM)


def test_standard_input_and_output_as_the_same_file(here: Path) -> None:
    with (here / "t.csv").open("wb") as file:
        pa_csv.write_csv(TEMPERATURE, file)
    before = (here / "t.csv").read_bytes()
    code, said = shell("penstock run q.sql -q -i temperature=- < t.csv >> t.csv")
    assert (code, said) == (2, say("standard input", "standard output") + "\n")
    assert (here / "t.csv").read_bytes() == before


@pytest.mark.parametrize("value", ["0", "-1s", "soon", "5 weeks", ""])
@pytest.mark.usefixtures("here")
def test_a_flush_every_so_often(value: str) -> None:
    result = invoke("run", "q.sql", *INPUTS, "--flush-every", value, code=2)
    assert f"Expected a time above 0 such as `5s` or `500ms`, found `{value}`" in result.stderr
    assert "--flush-every TIME" in invoke("run", "--help").stdout


def test_a_run_stops_at_the_first_failed_write(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not read the rest of its input for results that nobody gets."""
    monkeypatch.setattr(readers, "BATCH_ROWS", 10)
    pushed: list[int] = []
    monkeypatch.setattr(
        "penstock.connectors.line_file.os.write", lambda *_: (_ for _ in ()).throw(OSError(28, ""))
    )
    monkeypatch.setattr(
        "penstock.cli.drive.Driver._push",
        lambda self, _, batch, push=None: pushed.append(1) or self._engine.push("temperature", batch.data),
    )
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    assert pa.types.is_int64(TEMPERATURE["location"].type)
    refusal("run", "all.sql", "-q", "-i", "temperature=t.parquet", "-o", "out", "--format", "jsonl", code=4)
    assert len(pushed) == 1
