"""A table with everything odd in it, written as every kind of file; what reading gives or is refused with."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from penstock.connectors.merge import Feed
from penstock.engine.rows.errors import DataError, PenstockError

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("location", pa.int64()),
        ("value", pa.float64()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
    ]
)
START_US = 1_475_323_200_000_000  # 2016-10-01 12:00:00


def make_table(rows: int = 1000, step_us: int = 1_500) -> pa.Table:
    """Rows with NULLs, empty text, quotes, line ends and odd numbers in them, times in order."""
    rng = np.random.default_rng(7)
    names = ["plain", "", 'a "quoted" one', "two\nlines", "comma, here", None, "über", "back\\slash"]
    values = [1.0, -0.25, 1e300, 1e-7, None, 12345.678, 0.1 + 0.2]
    return pa.table(
        {
            "ts": pa.array(START_US + np.arange(rows) * step_us, pa.timestamp("us")),
            "location": pa.array(
                [None if n % 11 == 0 else int(n) for n in rng.integers(-(2**60), 2**60, rows)]
            ),
            "value": pa.array([values[n % len(values)] for n in range(rows)], pa.float64()),
            "name": pa.array([names[n % len(names)] for n in range(rows)]),
            "ok": pa.array([None if n % 5 == 0 else n % 2 == 0 for n in range(rows)]),
        },
        schema=SCHEMA,
    )


def write_json_rows(table: pa.Table, path: Path) -> None:
    """JSON lines by Python's own encoder, times as ISO text."""
    with path.open("w") as file:
        for row in table.to_pylist():
            row["ts"] = row["ts"].isoformat()
            file.write(json.dumps(row) + "\n")


def write_ipc(table: pa.Table, path: Path, new: Callable[..., ipc.RecordBatchStreamWriter]) -> None:
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=300)


def compress(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def write_as(kind: str, table: pa.Table, folder: Path) -> Path:
    """`table` as a file of the given kind."""
    base = kind.removesuffix(".gz")
    path = folder / f"data.{base}"
    match base:
        case "parquet":
            pq.write_table(table, path, row_group_size=400)
        case "csv":
            pa_csv.write_csv(table, path)
        case "tsv":
            pa_csv.write_csv(table, path, pa_csv.WriteOptions(delimiter="\t"))
        case "jsonl" | "ndjson":
            write_json_rows(table, path)
        case "arrow":
            write_ipc(table, path, ipc.new_file)
        case "arrows":
            write_ipc(table, path, ipc.new_stream)
    return compress(path) if kind.endswith(".gz") else path


KINDS = [
    "parquet",
    "csv",
    "tsv",
    "jsonl",
    "ndjson",
    "arrow",
    "arrows",
    "csv.gz",
    "jsonl.gz",
    "parquet.gz",
    "arrows.gz",
]


def read_all(*paths: Path | str, schema: pa.Schema = SCHEMA) -> pa.Table:
    """All rows of one input."""
    feed = Feed("s", [[str(path) for path in paths]], schema, schema.names[0])
    batches = []
    while (batch := feed.read()) is not None:
        batches.append(batch.data)
    feed.close()
    return pa.Table.from_batches(batches, schema)


def message_of(path: Path | str, schema: pa.Schema = SCHEMA, kind: type[PenstockError] = DataError) -> str:
    """What reading `path` is refused with; the folder is taken out, and it must be one line."""
    with pytest.raises(kind) as caught:
        read_all(path, schema=schema)
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(os.path.dirname(str(path)) + "/", "")
