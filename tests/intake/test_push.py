"""What may be pushed: every kind of table and type, and what is refused, with nothing changed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from oracle import rows_of
from test_ingest import make, snapshot

from penstock import DataError, SchemaError, UsageError

WIDE = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE, b BOOLEAN, t VARCHAR)"
TIMES = [datetime.datetime(2020, 1, 1, 0, 0, second) for second in (1, 2, 3)]
MICROS = [(moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) for moment in TIMES]
COLUMNS: dict[str, list[Any]] = {
    "ts": TIMES,
    "k": [1, None, 3],
    "v": [0.5, 1.5, None],
    "b": [True, None, False],
    "t": ["a", "", None],
}
PANDAS = pd.DataFrame(COLUMNS).astype({"k": "Int64", "b": "boolean"})
TABLE = pa.table({name: pa.array(values) for name, values in COLUMNS.items()})
FULL = {"ts": TIMES, "k": [1, 2, 3], "v": [0.5, 1.5, 2.5], "b": [True, True, False], "t": ["a", "", "c"]}


def put(name: str, values: Any) -> pa.Table:
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return TABLE.set_column(TABLE.schema.names.index(name), name, column)


def in_chunks(table: pa.Table) -> pa.Table:
    """Another cut for every column, empty chunks among them."""
    columns = []
    for place, column in enumerate(table.columns):
        whole = column.combine_chunks()
        at = (place + 1) % 3
        columns.append(pa.chunked_array([whole[:at], whole[:0], whole[at:]], whole.type))
    return pa.table(columns, names=table.schema.names)


INPUTS: dict[str, Any] = {
    "table": TABLE,
    "record batch": TABLE.to_batches()[0],
    "many chunks": in_chunks(TABLE),
    "a slice": pa.concat_tables([TABLE, TABLE]).slice(3),
    "reader": TABLE.to_reader(),
    "dict of lists": COLUMNS,
    "dict of arrow arrays": {name: TABLE[name].combine_chunks() for name in TABLE.schema.names},
    "polars": pl.DataFrame(COLUMNS),
    "polars, sliced": pl.concat([pl.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)]).slice(3),
    "pandas": PANDAS,
    "pandas, other order": PANDAS[["t", "v", "ts", "b", "k"]],
    "other case": TABLE.rename_columns(["TS", "K", "V", "B", "T"]),
    "more columns": TABLE.append_column("more", pa.array([[1], [2], [3]])),
    "int microseconds": put("ts", MICROS),
    "ISO text": put("ts", [moment.isoformat() for moment in TIMES]),
    "DECIMAL": put("v", TABLE["v"].cast(pa.decimal128(9, 2))),
    "bytes": put("t", TABLE["t"].cast(pa.binary())),
    "timestamp[s]": put("ts", TABLE["ts"].cast(pa.timestamp("s"))),
    "timestamp[ns]": put("ts", TABLE["ts"].cast(pa.timestamp("ns"))),
    "timestamp in a zone": put("ts", TABLE["ts"].cast(pa.timestamp("us", "America/New_York"))),
    "timestamp[ns] in UTC": put("ts", TABLE["ts"].cast(pa.timestamp("ns", "UTC"))),
    "int8": put("k", TABLE["k"].cast(pa.int8())),
    "uint32": put("k", TABLE["k"].cast(pa.uint32())),
    "uint64": put("k", TABLE["k"].cast(pa.uint64())),
    "whole doubles": put("k", TABLE["k"].cast(pa.float64())),
    "float32": put("v", TABLE["v"].cast(pa.float32())),
    "float16": put("v", TABLE["v"].cast(pa.float16())),
    "dictionary": put("t", TABLE["t"].dictionary_encode()),
    "large string": put("t", TABLE["t"].cast(pa.large_string())),
    "string view": put("t", TABLE["t"].cast(pa.string_view())),
    "large dictionary": put("t", TABLE["t"].cast(pa.large_string()).dictionary_encode()),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_every_kind_of_input(kind: str) -> None:
    engine, (query,) = make(WIDE, "SELECT k, v, b, t FROM s")
    engine.push("s", INPUTS[kind])
    expected = [(row[0], *row[2:]) for row in zip(MICROS, *COLUMNS.values(), strict=True)]
    assert rows_of(query.results()) == expected


def test_input_of_numpy_arrays() -> None:
    engine, (query,) = make(WIDE, "SELECT * FROM s")
    rows = {
        "ts": np.array(TIMES, "datetime64[us]"),
        "k": np.array([1, 2, 3], np.int32),
        "v": np.array([0.5, np.nan, np.inf], np.float32),
        "b": np.array([True, False, True]),
        "t": np.array(["a", "b", "c"]),
    }
    engine.push("s", rows)
    table = query.results()
    assert table["k"].to_pylist() == [1, 2, 3]
    assert table["v"].null_count == 0  # NaN in an array is a number, not NULL
    assert np.isnan(table["v"][1].as_py())
    assert table["t"].to_pylist() == ["a", "b", "c"]
    assert table["ts"].to_pylist() == TIMES


def test_pandas_in_another_time_zone() -> None:
    """An instant is an instant, whatever zone its label names."""
    engine, (query,) = make(WIDE, "SELECT k FROM s")
    frame = pd.DataFrame(FULL)
    frame["ts"] = frame["ts"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    engine.push("s", frame)
    assert rows_of(query.results()) == list(zip(MICROS, [1, 2, 3], strict=True))


def test_pandas_with_the_time_as_index() -> None:
    engine, (query,) = make(WIDE, "SELECT k FROM s")
    engine.push("s", pd.DataFrame(FULL).set_index("ts"))
    assert rows_of(query.results()) == list(zip(MICROS, [1, 2, 3], strict=True))


def test_each_push_may_have_its_own_columns() -> None:
    """Order, types and further columns may change from one push to the next."""
    engine, (query,) = make(WIDE, "SELECT k, t FROM s")
    reordered = TABLE.select(["t", "b", "v", "k", "ts"])
    for table in (
        TABLE,
        reordered,
        put("k", TABLE["k"].cast(pa.int8())),
        reordered.add_column(0, "k2", [[7] * 3]),
    ):
        engine.push("s", table.slice(2, 1))
    assert query.results()["k"].to_pylist() == [3] * 4


def test_dates_are_midnights() -> None:
    engine, (query,) = make("CREATE STREAM s (ts TIMESTAMP, d TIMESTAMP)", "SELECT d FROM s")
    day = datetime.date(2020, 5, 17)
    engine.push("s", {"ts": [day], "d": [None]})
    engine.push("s", pa.table({"ts": pa.array([day], pa.date64()), "d": pa.array([day], pa.date32())}))
    midnight = datetime.datetime(2020, 5, 17)
    assert query.results().to_pylist() == [{"_ts": midnight, "d": None}, {"_ts": midnight, "d": midnight}]


@pytest.mark.parametrize(
    "rows",
    [
        TABLE.slice(0, 0),
        {"ts": [], "k": [], "v": [], "b": [], "t": []},
        pl.DataFrame(TABLE).clear(),
        TABLE.schema.empty_table(),
    ],
    ids=["slice", "lists", "polars", "no chunks"],
)
def test_no_rows_are_no_rows(rows: Any) -> None:
    engine, (query,) = make(WIDE, "SELECT * FROM s")
    before = snapshot(engine)
    engine.push("s", rows)
    assert snapshot(engine) == before
    assert query.results().num_rows == 0


def test_an_empty_table_of_other_columns_is_still_refused() -> None:
    engine, _ = make(WIDE)
    with pytest.raises(SchemaError, match="Expected a column `ts`"):
        engine.push("s", {"k": []})


NANOSECONDS = pa.array([0, 1001, 2000], pa.timestamp("ns"))
LONG_AFTER = pa.array([0, 1, 2**60], pa.timestamp("s"))
REFUSED: list[tuple[str, Any, type[Exception], tuple[str, ...]]] = [
    ("text for BIGINT", put("k", ["1", "2", "3"]), SchemaError, ("Expected BIGINT", "`k`", "string")),
    ("BIGINT for VARCHAR", put("t", [1, 2, 3]), SchemaError, ("Expected VARCHAR", "`t`", "int64")),
    ("BIGINT for BOOLEAN", put("b", [1, 0, 1]), SchemaError, ("Expected BOOLEAN", "`b`", "int64")),
    ("BOOLEAN for BIGINT", put("k", [True, False, None]), SchemaError, ("Expected BIGINT", "bool")),
    ("text that is no time", put("ts", ["noon"] * 3), SchemaError, ("Expected TIMESTAMP", "`noon`", "row 1")),
    ("DOUBLE for a time", put("ts", [1.0, 2.0, 3.0]), SchemaError, ("Expected TIMESTAMP", "double")),
    ("lists", put("k", [[1], [2], [3]]), SchemaError, ("Expected BIGINT", "list")),
    ("not whole", put("k", [1.0, 2.0, 2.5]), SchemaError, ("`2.5`", "column `k`", "row 3")),
    ("NaN for BIGINT", put("k", [1.0, float("nan"), 3.0]), SchemaError, ("`nan`", "row 2")),
    ("too large", put("k", pa.array([1, 2**63, 3], pa.uint64())), SchemaError, (str(2**63), "row 2")),
    ("below a microsecond", put("ts", NANOSECONDS), SchemaError, ("1001", "row 2")),
    ("no time", put("ts", [TIMES[0], None, TIMES[2]]), DataError, ("column `ts`", "NULL", "row 2")),
    ("no times", put("ts", pa.nulls(3)), DataError, ("column `ts`", "NULL", "row 1")),
    ("time out of range", put("ts", [0, 2**62, 2**62]), DataError, (str(2**62), "row 2")),
    ("time out of range below", put("ts", [-(2**62), 0, 1]), DataError, (str(-(2**62)), "row 1")),
    ("seconds beyond microseconds", put("ts", LONG_AFTER), SchemaError, ("row 3",)),
    ("a missing column", TABLE.drop(["v"]), SchemaError, ("Expected a column `v` (DOUBLE)", "found none")),
    (
        "a misspelt column",
        TABLE.rename_columns(["ts", "k", "v", "b", "tt"]),
        SchemaError,
        ("Expected a column `t`",),
    ),
    ("no column at all", {}, SchemaError, ("Expected a column `ts` (TIMESTAMP)",)),
    ("columns of two lengths", FULL | {"k": [1, 2]}, SchemaError, ("one length", "`k` 2")),
    ("values of two types", FULL | {"k": [1, "two", 3]}, SchemaError, ("column `k`",)),
    ("a matrix", FULL | {"k": np.ones((3, 1))}, SchemaError, ("column `k`",)),
    ("a list of rows", [{"ts": 1}], UsageError, ("found list",)),
    ("nothing", None, UsageError, ("found NoneType",)),
    ("an array", np.ones(3), UsageError, ("found ndarray",)),
]


@pytest.mark.parametrize(
    ("rows", "kind", "parts"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_input_that_is_refused_changes_nothing(
    rows: Any, kind: type[Exception], parts: tuple[str, ...]
) -> None:
    engine, (query,) = make(WIDE, "SELECT k FROM s")
    engine.push("s", {"ts": [-(2**61)], "k": [0], "v": [0.0], "b": [True], "t": [""]})
    before = snapshot(engine)
    with pytest.raises(kind) as caught:
        engine.push("s", rows)
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    for part in (*parts, "`s`"):
        assert part in message
    assert snapshot(engine) == before
    assert query.results()["k"].to_pylist() == [0]


def test_the_row_number_counts_across_chunks() -> None:
    """By halving the first bad value is found wherever it stands."""
    for bad in range(40):
        values = [float(i) for i in range(40)]
        values[bad] = 0.5
        values[-1] = 0.25 if bad < 39 else values[-1]
        whole = pa.array(values)
        column = pa.chunked_array([whole[:7], whole[7:7], whole[7:]])
        table = pa.table({"ts": list(range(40)), "k": column})
        engine, _ = make("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
        with pytest.raises(SchemaError) as caught:
            engine.push("s", table)
        assert caught.value.row == bad + 1
