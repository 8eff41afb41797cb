"""Files refused whatever their format, with the exact line: absent, empty, damaged, of other columns."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files_help import SCHEMA, make_table, message_of, write_as

from penstock.connectors.merge import Feed
from penstock.engine.rows.errors import FileError, SchemaError


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert message_of(tmp_path / "no.csv", kind=FileError) == "Expected a file at `no.csv`, found none"


def test_a_later_file_of_an_input_that_is_not_there(tmp_path: Path) -> None:
    path = write_as("csv", make_table(3), tmp_path)
    with pytest.raises(FileError, match=r"Expected a file at `.*no\.csv`, found none"):
        Feed("s", [[str(path), str(tmp_path / "no.csv")]], SCHEMA, "ts")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "hum").mkdir()
    assert message_of(tmp_path / "hum", kind=FileError) == (
        "Expected a file, found the folder `hum`; name its files, as in `hum/*.csv`"
    )


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write_as("csv", make_table(3), tmp_path)
    monkeypatch.setattr("builtins.open", refuse)
    assert (
        message_of(path, kind=FileError)
        == "Expected to be allowed to read `data.csv`, found permission denied"
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "arrow", "csv.gz", "bin"])
def test_a_file_without_bytes(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(b"")
    assert message_of(path, kind=FileError) == f"Expected rows in `t.{suffix}`, found no bytes at all"


@pytest.mark.parametrize(
    ("suffix", "line"),
    [
        ("csv", "Expected a header row, found only blank lines, in `t.csv`"),
        ("jsonl", "Expected rows, found only blank lines, in `t.jsonl`"),
    ],
)
def test_a_file_of_blank_lines(suffix: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(b"\n  \n\n")
    assert message_of(path, kind=FileError) == line


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "csv.gz", "jsonl.gz"])
def test_a_file_cut_short(kind: str, tmp_path: Path) -> None:
    path = write_as(kind, make_table(5000), tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    text = message_of(path, kind=FileError)
    assert re.fullmatch(
        rf"Expected .+, found a file that is cut short or damaged \(.+\), in `data.{kind}`", text
    )


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    for suffix, name in (("parquet", "Parquet"), ("arrow", "Arrow IPC")):
        path = tmp_path / f"t.{suffix}"
        path.write_bytes(b"ts,location,value,name,ok\n" * 10)
        assert message_of(path, kind=FileError).startswith(f"Expected {name}, found")


def test_bytes_that_rotted_inside_a_parquet_file(tmp_path: Path) -> None:
    path = write_as("parquet", make_table(50_000), tmp_path)
    data = bytearray(path.read_bytes())
    data[200:20_000] = bytes(19_800)
    path.write_bytes(bytes(data))
    assert "cut short or damaged" in message_of(path, kind=FileError)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow", "arrows"])
def test_a_missing_column(kind: str, tmp_path: Path) -> None:
    table = make_table(5).rename_columns(["ts", "loction", "value", "name", "ok"])
    path = write_as(kind, table, tmp_path)
    assert message_of(path, kind=SchemaError) == (
        "Expected a column `location`, found `ts`, `loction`, `value`, `name`, `ok`"
        f" (did you mean `loction`?), in `data.{kind}`"
    )


def test_a_missing_column_among_many(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"c{n}" for n in range(40)) + "\n")
    names = ", ".join(f"`c{n}`" for n in range(12))
    assert (
        message_of(path, kind=SchemaError) == f"Expected a column `ts`, found {names} and 28 more, in `t.csv`"
    )


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("TS,Ts,location,value,name,ok\n")
    assert message_of(path, kind=SchemaError) == "Expected one column `ts`, found 2 of them, in `t.csv`"


@pytest.mark.parametrize("row", [5, 4005])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_that_is_not_utf8(kind: str, row: int, tmp_path: Path) -> None:
    path = write_as(kind, make_table(5000), tmp_path)
    good, bad = b"comma, here", b"comma\xff here"
    before = path.read_bytes().split(good)
    at = row // 8 + 1  # that text is in every eighth row
    path.write_bytes(good.join(before[:at]) + bad + good.join(before[at:]))
    assert message_of(path) == (
        "Expected VARCHAR (UTF-8 text) in column `name`, found `comma\ufffd here`,"
        f" in `data.{kind}`, row {row}"
    )


def test_a_column_of_another_kind(tmp_path: Path) -> None:
    table = make_table(5)
    pq.write_table(table.set_column(1, "location", table["name"].cast(pa.binary())), tmp_path / "t.parquet")
    assert message_of(tmp_path / "t.parquet", kind=SchemaError) == (
        "Expected BIGINT in column `location`, found binary, in `t.parquet`"
    )
