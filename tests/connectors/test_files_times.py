"""Times in files: as text, as numbers, in every unit and zone, and what is no time."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from files_help import message_of, read_all, write_ipc

from penstock.connectors.convert import convert_column, parse_times
from penstock.engine.rows.errors import DataError


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
