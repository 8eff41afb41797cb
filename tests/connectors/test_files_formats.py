"""Every format gives the same rows, in bounded batches, whatever tool wrote the file."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from files_help import KINDS, SCHEMA, make_table, read_all, write_as, write_ipc

from penstock.connectors import readers
from penstock.connectors.merge import Feed


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    table = make_table()
    assert read_all(write_as(kind, table, tmp_path)) == table


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tsv", "ndjson")])
def test_without_an_extension_the_bytes_tell_the_format(kind: str, tmp_path: Path) -> None:
    table = make_table()
    path = write_as(kind, table, tmp_path).rename(tmp_path / "unnamed")
    assert read_all(path) == table


# JSON lines without a row are a file without bytes.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "json" not in kind])
def test_a_file_without_rows_is_no_error(kind: str, tmp_path: Path) -> None:
    assert read_all(write_as(kind, make_table(0), tmp_path)).num_rows == 0


@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_another_order_case_and_with_others_between(kind: str, tmp_path: Path) -> None:
    table = make_table(50)
    other = pa.table(
        {
            "unused": pa.array(["x"] * 50),
            "OK": table["ok"],
            "Value": table["value"],
            "name": table["name"],
            "more": pa.array(range(50)),
            "LOCATION": table["location"],
            "ts": table["ts"],
        }
    )
    assert read_all(write_as(kind, other, tmp_path)) == table


def test_only_the_declared_columns_are_decoded(tmp_path: Path) -> None:
    table = make_table(50).append_column("huge", pa.array(["y" * 10_000] * 50))
    reader = readers.open_reader(str(write_as("parquet", table, tmp_path)), SCHEMA)
    assert isinstance(reader, readers.ParquetReader)
    assert [batch.schema.names for batch in reader.batches()] == [SCHEMA.names]


def test_batches_are_bounded_whatever_the_file_was_written_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BATCH_ROWS", 64)
    for kind in ("parquet", "csv", "jsonl", "arrow"):
        feed = Feed("s", [[str(write_as(kind, make_table(), tmp_path))]], SCHEMA, "ts")
        sizes = []
        while (batch := feed.read()) is not None:
            sizes.append(len(batch))
        assert max(sizes) == 64
        assert sum(sizes) == 1000


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_batches_of_wide_rows_are_bounded_by_their_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file has a number for each text, as Parquet does."""
    monkeypatch.setattr(readers, "BATCH_BYTES", 20_000)
    table = make_table()
    column = table.schema.get_field_index("name")
    wide = table.set_column(column, "name", pa.array(["long" * 250] * len(table)))
    feed = Feed("s", [[str(write_as(kind, wide, tmp_path))]], SCHEMA, "ts")
    rows = 0
    while (batch := feed.read()) is not None:
        assert 1 <= len(batch) <= 20
        rows += len(batch)
    assert rows == len(table)


def test_one_huge_row_group_is_never_held_whole(tmp_path: Path) -> None:
    rows = 2_000_000
    table = pa.table(
        {"ts": pa.array(np.arange(rows), pa.timestamp("us")), "value": np.random.default_rng(1).random(rows)}
    )
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=rows)
    whole = table.nbytes
    schema = table.schema
    del table
    before = pa.total_allocated_bytes()
    feed = Feed("s", [[str(tmp_path / "big.parquet")]], schema, "ts")
    peak = seen = 0
    while (batch := feed.read()) is not None:
        seen += len(batch)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert seen == rows
    assert peak < whole / 3


def test_numbers_and_dictionaries_as_other_tools_write_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "ts": pa.array([1, 2], pa.int64()),
            "location": pa.array([3, 4], pa.uint64()),
            "value": pa.array([5, 6], pa.int32()),
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "ok": pa.nulls(2),
        }
    )
    write_ipc(table, tmp_path / "t.arrow", ipc.new_stream)
    assert read_all(tmp_path / "t.arrow").to_pylist() == [
        {
            "ts": datetime.datetime(1970, 1, 1, 0, 0, 0, n),
            "location": n + 2,
            "value": n + 4.0,
            "name": name,
            "ok": None,
        }
        for n, name in ((1, "a"), (2, "b"))
    ]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files_with_other_columns(compression: str | None, tmp_path: Path) -> None:
    """Mapped or decompressed, in many batches: the declared columns, wherever they stand."""
    table, path = make_table(), tmp_path / "t.arrow"
    more = pa.table({"before": range(len(table)), **{name: table[name] for name in table.column_names[::-1]}})
    more = more.append_column("after", pa.array(["x" * 50] * len(table)))
    options = ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, ipc.new_file(file, more.schema, options=options) as writer:
        writer.write_table(more, max_chunksize=100)
    assert read_all(path) == table
