"""Results as files: read again, read while they grow, named after their query, replaced only when asked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files_help import SCHEMA, make_table, read_all

from penstock.connectors import writers
from penstock.connectors.text_writers import JsonLinesWriter
from penstock.connectors.writers import file_name, open_writers
from penstock.engine.rows.errors import FileError, UsageError

RESULT_SCHEMA = pa.schema([("_ts", pa.timestamp("us")), *[field for field in SCHEMA if field.name != "ts"]])


def make_results(rows: int = 1000) -> pa.Table:
    return make_table(rows).rename_columns(RESULT_SCHEMA.names)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_what_is_written_can_be_read_again(kind: writers.OutputFormat, tmp_path: Path) -> None:
    results = make_results()
    written = open_writers(str(tmp_path / "deep" / "er"), kind, {"hot": RESULT_SCHEMA, "none": RESULT_SCHEMA})
    for batch in results.to_batches(max_chunksize=90):
        written["hot"].write(batch)
    for writer in written.values():
        writer.close()
    assert sorted(os.listdir(tmp_path / "deep" / "er")) == [f"hot.{kind}", f"none.{kind}"]
    assert read_all(written["hot"].path, schema=RESULT_SCHEMA) == results
    if kind != "jsonl":
        assert read_all(written["none"].path, schema=RESULT_SCHEMA).num_rows == 0


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_results_can_be_read_while_they_grow(kind: writers.OutputFormat, tmp_path: Path) -> None:
    results = make_results(10)
    writer = open_writers(str(tmp_path), kind, {"hot": RESULT_SCHEMA})["hot"]
    writer.write(results.to_batches()[0])
    assert read_all(tmp_path / f"hot.{kind}", schema=RESULT_SCHEMA) == results
    writer.close()


def test_parquet_gets_its_name_when_it_can_be_read(tmp_path: Path) -> None:
    results = make_results(10)
    writer = open_writers(str(tmp_path), "parquet", {"hot": RESULT_SCHEMA})["hot"]
    for batch in results.to_batches(max_chunksize=1):
        writer.write(batch)
    (part,) = os.listdir(tmp_path)
    assert re.fullmatch(r"\.hot\.parquet\.\w+\.part", part)
    writer.close()
    assert os.listdir(tmp_path) == ["hot.parquet"]
    assert pq.ParquetFile(tmp_path / "hot.parquet").num_row_groups == 1


def test_files_are_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("mine")
    with pytest.raises(UsageError) as caught:
        open_writers(str(tmp_path), "csv", {"a": RESULT_SCHEMA, "b": RESULT_SCHEMA})
    assert str(caught.value) == (
        f"Expected no file at `{tmp_path}/b.csv`, found one; give --overwrite to replace it"
    )
    assert os.listdir(tmp_path) == ["b.csv"]
    assert (tmp_path / "b.csv").read_text() == "mine"
    open_writers(str(tmp_path), "csv", {"b": RESULT_SCHEMA}, overwrite=True)["b"].close()
    assert (tmp_path / "b.csv").read_text().startswith('"_ts"')


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError) as caught:
        open_writers(str(tmp_path / "file"), "csv", {"a": RESULT_SCHEMA})
    assert str(caught.value) == f"Expected to write `{tmp_path}/file`, found: File exists"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_disk_that_is_full() -> None:
    writer = JsonLinesWriter("/dev/full")
    with pytest.raises(FileError, match="Expected to write `/dev/full`, found: No space left on device"):
        writer.write(make_results(1).to_batches()[0])


def test_query_names_become_file_names() -> None:
    assert file_name("hot") == "hot"
    assert file_name("Größe 2.0/..") == "Größe%202.0%2F.."
    assert file_name("../etc") == "%2E.%2Fetc"
    assert file_name(".hidden") == "%2Ehidden"
    long = file_name("x/" * 300)
    assert len(long.encode()) <= 200
    assert long != file_name("x/" * 299)
    for name in ("a/b", "a\0b", "..", "a\\b", "a:b", "ü" * 300):
        assert re.fullmatch(r"[\w.%~-]+", file_name(name))
        assert len(file_name(name).encode()) <= 200


@pytest.mark.parametrize("free", [0, 56])
def test_many_results_are_open_at_once(tmp_path: Path, free: int) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 400
    others = [open(os.devnull) for _ in range(200)]  # noqa: SIM115
    limit = max(file.fileno() for file in others) + 1 + free
    try:
        if hard != resource.RLIM_INFINITY and hard < limit + count + 100:
            pytest.skip("the system allows too few open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        opened = open_writers(str(tmp_path), "jsonl", {f"q{n}": RESULT_SCHEMA for n in range(count)})
        for writer in opened.values():
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in others:
            file.close()
    assert len(os.listdir(tmp_path)) == count
