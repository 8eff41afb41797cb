"""Files in and out without an engine: every format, every bad input with its exact line, merging, writing."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors import inputs, readers, writers
from penstock.connectors.blocks import cut_blocks
from penstock.connectors.convert import convert_column, parse_times
from penstock.connectors.inputs import expand, natural_key, parse_input
from penstock.connectors.json_text import to_json_lines
from penstock.connectors.merge import Feed, read_in_time_order, replay
from penstock.connectors.rates import estimate_rate
from penstock.connectors.writers import file_name, open_writers
from penstock.engine.errors import DataError, FileError, PenstockError, SchemaError, UsageError

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


# Reading


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
    monkeypatch.setattr(inputs, "BATCH_ROWS", 64)
    for kind in ("parquet", "csv", "jsonl", "arrow"):
        feed = Feed("s", [[str(write_as(kind, make_table(), tmp_path))]], SCHEMA, "ts")
        sizes = []
        while (batch := feed.read()) is not None:
            sizes.append(len(batch))
        assert max(sizes) == 64
        assert sum(sizes) == 1000


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2016-10-01 12:00:00", "2016-10-01T12:00:00"),
        ("2016-10-01T12:00:00.5", "2016-10-01T12:00:00.500000"),
        ("2016-10-01T12:00:00Z", "2016-10-01T12:00:00"),
        ("2016-10-01T12:00:00z", "2016-10-01T12:00:00"),
        ("2016-10-01T12:00:00+02:00", "2016-10-01T10:00:00"),
        ("2016-10-01 12:00:00 -0530", "2016-10-01T17:30:00"),
        ("2016-10-01 12:00:00+02", "2016-10-01T10:00:00"),
        ("2016-10-01 12:00 UTC", "2016-10-01T12:00:00"),
        ("2016-10-01", "2016-10-01T00:00:00"),
        ("  2016-10-01 12:00:00 ", "2016-10-01T12:00:00"),
        ("2016-10-01 12:00:00.123456000", "2016-10-01T12:00:00.123456"),
        ("1475323200000001", "2016-10-01T12:00:00.000001"),
        ("-1", "1969-12-31T23:59:59.999999"),
    ],
)
def test_times_as_text(text: str, expected: str) -> None:
    others = ["2016-10-01 00:00:00", "2016-10-01T00:00:00Z", "5", None]
    for column in ([text], [*others, text]):  # alone, and among all the other ways to write a time
        assert parse_times(pa.array(column)).to_pylist()[-1] == datetime.datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "2016-13-01",
        "1475323200.5",
        "12:00",
        "2016-10-01Z",
        "2016-10-01 12:00:00.1234567",
        "9" * 20,
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(DataError) as caught:
        convert_column(pa.array(["2016-10-01", text]), pa.field("ts", pa.timestamp("us")))
    assert str(caught.value) == (
        "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`,"
        f" found `{text}`, row 2"
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_times_of_every_unit_and_zone_are_the_same_instant(
    unit: str, zone: str | None, tmp_path: Path
) -> None:
    seconds = pa.array([1_475_323_200, None, 0]).cast(pa.timestamp("s"))
    column = seconds.cast(pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, zone))
    schema = pa.schema([("ts", pa.timestamp("us"))])
    write_ipc(pa.table({"ts": column}), tmp_path / "t.arrow", ipc.new_file)
    assert read_all(tmp_path / "t.arrow", schema=schema)["ts"].to_pylist() == [
        datetime.datetime(2016, 10, 1, 12),
        None,
        datetime.datetime(1970, 1, 1),
    ]


def test_nanoseconds_are_taken_only_if_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    schema = pa.schema([("ts", pa.timestamp("us"))])
    pq.write_table(pa.table({"ts": pa.array([5_000, 7_000], pa.timestamp("ns"))}), path)
    assert read_all(path, schema=schema)["ts"].cast(pa.int64()).to_pylist() == [5, 7]
    pq.write_table(pa.table({"ts": pa.array([5_000, 7_001], pa.timestamp("ns"))}), path)
    assert message_of(path, schema) == (
        "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `7001 ns`,"
        " in `t.parquet`, row 2"
    )


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


def test_csv_of_other_tools(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbf\r\n ts , location,"value",name,ok\r\n'
        b"2016-10-01T12:00:00Z, 7 ,nan,,TRUE\r\n"
        b"\r\n"
        b'2016-10-01T12:00:01Z,,-inf,"",0\r\n'
    )
    rows = read_all(path).to_pylist()
    assert [row["location"] for row in rows] == [7, None]
    assert [row["name"] for row in rows] == [None, ""]
    assert [row["ok"] for row in rows] == [True, False]
    assert math.isnan(rows[0]["value"])
    assert rows[1]["value"] == -math.inf


def test_json_that_arrow_refuses_but_is_right(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"ts": 5, "location": 1, "value": "NaN", "name": "a", "ok": true}\n'
        "\n"
        '{"ts": "1970-01-01T00:00:00.000007Z", "value": 3, "extra": {"deep": [1]}}\n'
    )
    rows = read_all(path).to_pylist()
    assert [row["ts"].microsecond for row in rows] == [5, 7]
    assert math.isnan(rows[0]["value"])
    assert rows[1] == {"ts": rows[1]["ts"], "location": None, "value": 3.0, "name": None, "ok": None}


class Trickle:
    """A pipe that gives `sizes` bytes at a time, over and over; stands in for a Source."""

    path = "-"

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes
        self._reads = 0

    def read(self, size: int) -> bytes:
        count = min(size, self._sizes[self._reads % len(self._sizes)])
        self._reads += 1
        given, self._data = self._data[:count], self._data[count:]
        return given


FIELD = st.sampled_from(["a", "", '"q"', '"two\nlines"', '"a ""b"" c"', '"\n\n"', '","'])


@given(
    rows=st.lists(st.lists(FIELD, min_size=2, max_size=3)),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_blocks_of_quoted_text_end_where_rows_do(rows: list[list[str]], sizes: list[int]) -> None:
    lines = [",".join(row) + "\n" for row in rows]
    blocks = list(cut_blocks(Trickle("".join(lines).encode(), sizes), quoted=True))  # type: ignore[arg-type]
    ends = {len("".join(lines[:count])) for count in range(len(lines) + 1)}
    at = 0
    for block in blocks:
        at += len(block)
        assert at in ends
    assert b"".join(blocks).decode() == "".join(lines)


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_json_blocks_cut_anywhere(sizes: list[int]) -> None:
    rows = "\n\n".join(json.dumps({"n": n}) for n in range(50)).encode()
    blocks = list(cut_blocks(Trickle(b"\xef\xbb\xbf" + rows, sizes)))  # type: ignore[arg-type]
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert [json.loads(line)["n"] for line in b"".join(blocks).split(b"\n") if line] == list(range(50))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrows", "parquet", "arrow", "csv.gz"])
def test_a_named_pipe_is_read_like_a_file(kind: str, tmp_path: Path) -> None:
    table = make_table(3000)
    data = write_as(kind, table, tmp_path).read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert read_all(pipe) == table
    writer.join()


def test_the_row_of_a_bad_line_in_a_pipe(tmp_path: Path) -> None:
    good = '2016-10-01,7,1.5,"two\nlines",true'
    pipe = tmp_path / "pipe"
    for bad, line in (
        ("1,2,3", "Expected 5 fields as in the header, found 3, in `pipe`, row 300001"),
        ("2016-10-01,x,1.5,a,true", "Expected BIGINT in column `location`, found `x`, in `pipe`, row 300001"),
    ):
        os.mkfifo(pipe)
        text = "\n".join([",".join(SCHEMA.names), *[good] * 300_000, bad])
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        assert message_of(pipe) == line
        writer.join()
        pipe.unlink()


# Bad input, with its exact line


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


@pytest.mark.parametrize(
    ("column", "bad", "line"),
    [
        (
            "ts",
            "noon",
            "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `noon`",
        ),
        ("location", "1.5", "Expected BIGINT in column `location`, found `1.5`"),
        ("location", "9" * 19, f"Expected BIGINT in column `location`, found `{'9' * 19}`"),
        ("value", "hot", "Expected DOUBLE in column `value`, found `hot`"),
        ("ok", "yes", "Expected BOOLEAN (true, false, 1, 0) in column `ok`, found `yes`"),
        ("value", "x" * 100, f"Expected DOUBLE in column `value`, found `{'x' * 59}…`"),
    ],
)
@pytest.mark.parametrize("row", [1, 2, 70_000, 123_456])
def test_a_bad_value_in_csv(column: str, bad: str, line: str, row: int, tmp_path: Path) -> None:
    good = {"ts": "2016-10-01 12:00:00", "location": "7", "value": "1.5", "name": "n", "ok": "true"}
    lines = [",".join(good.values())] * 130_000
    lines[row - 1] = ",".join(({**good, column: bad}).values())
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(good), *lines]) + "\n")
    assert message_of(path) == f"{line}, in `t.csv`, row {row}"


@pytest.mark.parametrize(
    ("column", "bad", "line"),
    [
        (
            "ts",
            "noon",
            "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `noon`",
        ),
        (
            "ts",
            1.5,
            "Expected TIMESTAMP (ISO text or whole microseconds since 1970) in column `ts`, found `1.5`",
        ),
        ("location", 1.5, "Expected BIGINT in column `location`, found `1.5`"),
        ("location", 2**63, f"Expected BIGINT in column `location`, found `{2**63}`"),
        ("location", True, "Expected BIGINT in column `location`, found `true`"),
        ("value", "hot", 'Expected DOUBLE in column `value`, found `"hot"`'),
        ("name", 5, "Expected VARCHAR (UTF-8 text) in column `name`, found `5`"),
        ("name", {"a": [1]}, 'Expected VARCHAR (UTF-8 text) in column `name`, found `{"a": [1]}`'),
        ("ok", 1, "Expected BOOLEAN (true, false, 1, 0) in column `ok`, found `1`"),
    ],
)
@pytest.mark.parametrize("row", [1, 2, 70_000])
def test_a_bad_value_in_json_lines(column: str, bad: object, line: str, row: int, tmp_path: Path) -> None:
    good = {"ts": "2016-10-01 12:00:00", "location": 7, "value": 1.5, "name": "n", "ok": True}
    lines = [json.dumps(good)] * 71_000
    lines[row - 1] = json.dumps({**good, column: bad})
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines))
    assert message_of(path) == f"{line}, in `t.jsonl`, row {row}"


@pytest.mark.parametrize(("bad", "shown"), [("hello", "hello"), ("[1, 2]", "[1, 2]"), ('{"ts": ', '{"ts":')])
def test_a_line_that_is_no_json_object(bad: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = json.dumps({"ts": 1, "location": 7, "value": 1.5, "name": "n", "ok": True})
    path.write_text("\n".join([*[good] * 2000, "", bad, good]))
    assert message_of(path) == f"Expected a JSON object, found `{shown}`, in `t.jsonl`, row 2001"


@pytest.mark.parametrize(("bad", "found"), [("1,2,3", 3), ("1,2,3,4,5,6", 6)])
def test_a_csv_row_with_too_few_or_too_many_fields(bad: str, found: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    good = '2016-10-01,7,1.5,"two\nlines",true'
    path.write_text("\n".join([",".join(SCHEMA.names), *[good] * 100_000, "", bad, good]))
    assert message_of(path) == f"Expected 5 fields as in the header, found {found}, in `t.csv`, row 100001"


def test_a_quote_that_never_closes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(SCHEMA.names) + '\n2016-10-01,7,1.5,"' + "open\n" * 2_000_000)
    assert message_of(path) == (
        "Expected rows of at most 4 MB, found a longer one or a quote that never closes, in `t.csv`"
    )


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


def test_json_whose_first_row_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"ts": 1, "name": "\xff"}\n')
    assert message_of(path) == "Expected UTF-8 text, found the byte `0xff`, in `t.jsonl`, row 1"


def test_a_column_of_another_kind(tmp_path: Path) -> None:
    table = make_table(5)
    pq.write_table(table.set_column(1, "location", table["name"].cast(pa.binary())), tmp_path / "t.parquet")
    assert message_of(tmp_path / "t.parquet", kind=SchemaError) == (
        "Expected BIGINT in column `location`, found binary, in `t.parquet`"
    )


# Which files


def test_parse_input(tmp_path: Path) -> None:
    assert parse_input("t= a=b.csv ") == inputs.InputSpec("t", ("a=b.csv",))
    assert parse_input("t=-").paths == ("-",)
    for bad in ("t", "t=", "=x.csv", "", " = "):
        with pytest.raises(UsageError) as caught:
            parse_input(bad)
        assert str(caught.value) == f"Expected `-i stream=file`, found `-i {bad}`"


def test_patterns_expand_in_natural_order(tmp_path: Path) -> None:
    for name in ("part10.csv", "part2.csv", "part1.csv", "other.txt", "a[1].csv"):
        (tmp_path / name).touch()
    (tmp_path / "part3.csv").mkdir()
    names = [os.path.basename(path) for path in expand(str(tmp_path / "part*.csv"))]
    assert names == ["part1.csv", "part2.csv", "part10.csv"]
    assert expand(str(tmp_path / "a[1].csv")) == [str(tmp_path / "a[1].csv")]
    assert sorted(["b", "a10", "a9", "10", "9", "a"], key=natural_key) == ["9", "10", "a", "a9", "a10", "b"]
    with pytest.raises(FileError) as caught:
        expand(str(tmp_path / "no*.csv"))
    assert str(caught.value) == f"Expected files matching `{tmp_path}/no*.csv`, found none"


def test_files_of_one_input_follow_each_other_whatever_their_formats(tmp_path: Path) -> None:
    table = make_table(300)
    paths = []
    for place, kind in enumerate(("csv", "parquet", "jsonl")):
        path = write_as(kind, table.slice(place * 100, 100), tmp_path)
        paths.append(path.rename(tmp_path / f"part{place}.{kind}"))
    feed = Feed("s", [[str(path) for path in paths]], SCHEMA, "ts")
    first, second, third = feed.read(), feed.read(), feed.read()
    assert first is not None
    assert second is not None
    assert third is not None
    assert pa.Table.from_batches([first.data, second.data, third.data]) == table
    assert second.place(7) == (str(paths[1]), 7)
    assert feed.read() is None
    assert feed.bytes_done == feed.bytes_total == sum(path.stat().st_size for path in paths)


# Merging

ORDER_SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("input", pa.int64()), ("number", pa.int64())])


def write_times(folder: Path, times: list[list[int]]) -> list[list[str]]:
    """One CSV file per list of times, rows numbered."""
    paths = []
    for at, own in enumerate(times):
        path = folder / f"in{at}.csv"
        rows = [f"{ts},{at},{number}" for number, ts in enumerate(own)]
        path.write_text("\n".join(["ts,input,number", *rows]) + "\n")
        paths.append([str(path)])
    return paths


@given(
    times=st.lists(st.lists(st.integers(0, 30), max_size=25), min_size=1, max_size=4),
    batch_rows=st.integers(1, 8),
)
@settings(max_examples=60, deadline=None)
def test_inputs_of_one_stream_merge_row_by_row(
    times: list[list[int]], batch_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against a sort: by the latest time so far in the row's own input, then the input, then the row."""
    folder = tmp_path_factory.mktemp("merge")
    keyed = []
    for at, own in enumerate(times):
        for number, ts in enumerate(own):
            keyed.append((max(own[: number + 1]), at, number, ts))
    expected = [(ts, at, number) for _, at, number, ts in sorted(keyed)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "BATCH_ROWS", batch_rows)
        feed = Feed("s", write_times(folder, times), ORDER_SCHEMA, "ts")
        found = []
        while (batch := feed.read()) is not None:
            assert len(batch) > 0
            for place, row in enumerate(batch.data.to_pylist(), start=1):
                assert batch.place(place) == (str(folder / f"in{row['input']}.csv"), row["number"] + 1)
                found.append((row["ts"].microsecond, row["input"], row["number"]))
    assert found == expected


@given(
    times=st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=4),
    batch_rows=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_the_stream_that_is_behind_is_read_first(
    times: list[list[int]], batch_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    times = [sorted(own) for own in times]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "BATCH_ROWS", batch_rows)
        paths = write_times(folder, times)
        feeds = [Feed(str(at), [path], ORDER_SCHEMA, "ts") for at, path in enumerate(paths)]
        given_rows = [0] * len(times)
        for step in read_in_time_order(feeds):
            at = int(step.stream)
            unfinished = [n for n, own in enumerate(times) if given_rows[n] < len(own)]
            come = [times[n][given_rows[n] - 1] if given_rows[n] else -1 for n in unfinished]
            own_come = times[at][given_rows[at] - 1] if given_rows[at] else -1
            assert own_come == min(come)
            assert step.batch is not None
            given_rows[at] += len(step.batch)
            if step.reached_us is not None:  # nothing before it is still to come
                for own, count in zip(times, given_rows, strict=True):
                    assert all(ts >= step.reached_us for ts in own[count:])
        assert given_rows == [len(own) for own in times]


def test_slack_holds_time_back(tmp_path: Path) -> None:
    (path,) = write_times(tmp_path, [[10, 20, 15]])
    (step,) = read_in_time_order([Feed("s", [path], ORDER_SCHEMA, "ts", slack_us=8)])
    assert step.reached_us == 12


def test_replay_gives_each_row_at_its_time(tmp_path: Path) -> None:
    """
    stream a   0 .5      2.0        at 2x:  0 .25      1.0
    stream b      .5  1.0           at 2x:    .25  .5
    """
    second = 1_000_000
    paths = write_times(tmp_path, [[0, second // 2, 2 * second], [second // 2, second]])
    feeds = [Feed(name, [path], ORDER_SCHEMA, "ts") for name, path in zip("ab", paths, strict=True)]
    now = [100.0]

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 0.2
        now[0] += seconds

    seen = []
    for step in replay(feeds, 2.0, lambda: now[0], sleep):
        if step.batch is not None:
            seen += [(step.stream, int(ts), round(now[0] - 100, 2)) for ts in step.batch.times]
        else:
            assert step.reached_us == pytest.approx((now[0] - 100) * 2 * second, abs=1)
    assert [(stream, ts) for stream, ts, _ in seen] == [
        ("a", 0),
        ("a", second // 2),
        ("b", second // 2),
        ("b", second),
        ("a", 2 * second),
    ]
    for _, ts, at in seen:
        assert ts / second / 2 <= at <= ts / second / 2 + 0.05


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_rates_are_estimated_from_the_file(kind: str, tmp_path: Path) -> None:
    path = write_as(kind, make_table(1001, step_us=2_000), tmp_path)
    assert estimate_rate([str(path)], SCHEMA, "ts") == pytest.approx(500)


def test_the_rate_of_one_row_is_not_known(tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        for rows in (0, 1):
            assert estimate_rate([str(write_as(kind, make_table(rows), tmp_path))], SCHEMA, "ts") is None


# Writing

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
    assert os.listdir(tmp_path) == ["hot.parquet.part"]
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
    writer = writers.JsonLinesWriter("/dev/full")
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


def test_many_results_are_open_at_once(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 400
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        pytest.skip("the system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        opened = open_writers(str(tmp_path), "jsonl", {f"q{n}": RESULT_SCHEMA for n in range(count)})
        for writer in opened.values():
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir(tmp_path)) == count


values = {
    "t": st.integers(-(2**61), 2**61),
    "i": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(),
    "s": st.text(st.characters(exclude_categories=["Cs"])),
    "b": st.booleans(),
}


@given(rows=st.lists(st.fixed_dictionaries({key: st.none() | value for key, value in values.items()})))
@settings(max_examples=150, deadline=None)
def test_json_lines_mean_the_values(rows: list[dict[str, object]]) -> None:
    """Against Python's own JSON reader."""
    schema = pa.schema(
        [
            ("t", pa.timestamp("us")),
            ("i", pa.int64()),
            ("d", pa.float64()),
            ("s", pa.string()),
            ("b", pa.bool_()),
        ]
    )
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    text = to_json_lines(batch, 'na"me').decode()
    lines = text.split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        found = json.loads(line)
        assert list(found) == ["query", "t", "i", "d", "s", "b"]
        assert found["query"] == 'na"me'
        assert [found["i"], found["s"], found["b"]] == [row["i"], row["s"], row["b"]]
        double = row["d"]
        if isinstance(found["d"], str):
            assert repr(float(found["d"])) == repr(double)
        else:
            assert found["d"] == double
            assert double is None or isinstance(found["d"], float)
        if isinstance(found["t"], str):
            assert parse_times(pa.array([found["t"]])).cast(pa.int64())[0].as_py() == row["t"]
        else:
            assert found["t"] == row["t"]
