"""One meaning on every way in: the same data pushed, or read from a file of any kind, is the same rows.

Arrow type x declared type       push     Parquet     IPC     (JSON lines, CSV where they can say it)
                                 the same rows, or the same refusal
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.connectors.open_inputs import load_tables

DECLARED = ("BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "TIMESTAMP")
DAY = datetime.date(2020, 5, 17)
NOON = datetime.datetime(2020, 5, 17, 12, 0, 0, 5)
MICROS = (NOON - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)

WHOLE = [1, None, 7]
COLUMNS: dict[str, pa.Array] = {
    **{str(t): pa.array(WHOLE, t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): pa.array(WHOLE, t) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "uint64, large": pa.array([1, 2**63], pa.uint64()),
    "int64, more than a double holds": pa.array([1, 2**60 + 1]),
    "float16": pa.array(np.array([1, 2], np.float16)),
    "float32": pa.array([1.0, 2.5], pa.float32()),
    "whole": pa.array([1.0, None, 3.0]),
    "halves": pa.array([1.0, None, 3.5]),
    "no number": pa.array([1.0, float("nan"), float("inf")]),
    "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
    "whole decimal": pa.array([decimal.Decimal("1.00"), None, decimal.Decimal("3.00")]),
    "wide decimal": pa.array([decimal.Decimal("1.50")], pa.decimal256(60, 2)),
    "boolean": pa.array([True, None, False]),
    "words": pa.array(["a", "", None, "größe"]),
    "large words": pa.array(["a", "", None, "größe"], pa.large_string()),
    "views": pa.array(["a", None, "a text of more than twelve letters"], pa.string_view()),
    "bytes": pa.array([b"a", None, "größe".encode()]),
    "large bytes": pa.array([b"a", None, b"c"], pa.large_binary()),
    "bytes, views": pa.array([b"a", None, "größe, zwölf Buchstaben".encode()], pa.binary_view()),
    "bytes that are no text, views": pa.array([b"a", None, b"\xff\xfe"], pa.binary_view()),
    "bytes that are no text": pa.array([b"a", None, b"\xff\xfe"]),
    "bytes of one size": pa.array([b"ab"], pa.binary(2)),
    "numbers in text": pa.array(["1", None, "1589716800000000"]),
    "ISO text": pa.array(["2020-05-17T12:00:00.000005", None, "2020-05-17 12:00:00Z", "2020-05-17"]),
    "ISO text, large": pa.array(["2020-05-17T12:00:00"], pa.large_string()),
    "ISO text, views": pa.array(["2020-05-17T12:00:00"], pa.string_view()),
    "ISO text, nanoseconds": pa.array(["2020-05-17T12:00:00.123456789"]),
    "date32": pa.array([DAY, None], pa.date32()),
    "date64": pa.array([DAY, None], pa.date64()),
    **{
        f"times in {unit}": pa.array([MICROS, None], pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
        for unit in ("s", "ms", "us", "ns")
    },
    "times in a zone": pa.array([MICROS, None]).cast(pa.timestamp("us", "Asia/Tokyo")),
    "nanoseconds in a zone": pa.array([1000, None]).cast(pa.timestamp("ns", "UTC")),
    "nanoseconds": pa.array([1001], pa.timestamp("ns")),
    "beyond microseconds": pa.array([2**60], pa.timestamp("s")),
    "time64": pa.array([5], pa.time64("us")),
    "duration": pa.array([5], pa.duration("us")),
    "words by number": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    **{
        f"{name} by number, {kind} views": pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1, 0], pa.uint32()), pa.array(values).cast(view)
        )
        for kind, view in (("text", pa.string_view()), ("byte", pa.binary_view()))
        for name, values in (("words", ["a", "more than twelve letters"]), ("ISO text", ["2020-05-17", None]))
    },
    "ISO text by number": pa.array(["2020-05-17", None]).dictionary_encode(),
    "numbers by number": pa.array([5, None, 5]).dictionary_encode(),
    "nothing": pa.nulls(3),
    "nobody": pa.array([], pa.int64()),
    "lists": pa.array([[1], None]),
    "structs": pa.array([{"a": 1}, None]),
    "maps": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
}  # fmt: skip
NOT_IN_PARQUET = {"beyond microseconds", *(name for name in COLUMNS if "by number, " in name)}


def outcome(take: Callable[[penstock.Engine], object], declared: str) -> Any:
    """The values taken into a table of one column; or what was refused, and in which row."""
    engine = penstock.Engine()
    engine.execute(f"CREATE TABLE t (c {declared})")
    try:
        take(engine)
    except penstock.DataError as error:
        return type(error).__name__, error.message.split(" (")[0], error.row
    return engine.table_rows("t")["c"].combine_chunks()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        return isinstance(one, tuple) and one == other
    return bool(one.type == other.type and str(one) == str(other))


def write(column: pa.Array, path: Path) -> None:
    table = pa.table({"c": column})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_push_and_a_file_mean_the_same(kind: str, tmp_path: Path) -> None:
    for declared in DECLARED:
        pushed = outcome(lambda engine: engine.push("t", pa.table({"c": COLUMNS[kind]})), declared)
        for suffix in (".parquet", ".arrow"):
            if suffix == ".parquet" and kind in NOT_IN_PARQUET:
                continue
            path = tmp_path / f"f{suffix}"
            write(COLUMNS[kind], path)
            if suffix == ".parquet":  # which may not know the type: what is read again is what is pushed
                column = pq.read_table(path)["c"]
                pushed_here = outcome(lambda engine, c=column: engine.push("t", pa.table({"c": c})), declared)
            else:
                pushed_here = pushed
            read = outcome(lambda engine, p=path: load_tables(engine, {"t": [[str(p)]]}), declared)
            assert same(pushed_here, read), (kind, declared, suffix, pushed_here, read)


TAKEN = {
    ("decimal", "DOUBLE"): [1.5, None, -2.25],
    ("whole decimal", "BIGINT"): [1, None, 3],
    ("ISO text", "TIMESTAMP"): [
        NOON, None, datetime.datetime(2020, 5, 17, 12), datetime.datetime(2020, 5, 17),
    ],
    ("ISO text by number", "TIMESTAMP"): [datetime.datetime(2020, 5, 17), None],
    ("ISO text, views", "TIMESTAMP"): [datetime.datetime(2020, 5, 17, 12)],
    ("bytes", "VARCHAR"): ["a", None, "größe"],
    ("views", "VARCHAR"): ["a", None, "a text of more than twelve letters"],
    ("times in a zone", "TIMESTAMP"): [NOON, None],
    ("words by number", "VARCHAR"): ["a", None, "b", "a"],
    ("words by number, text views", "VARCHAR"): ["a", None, "more than twelve letters", "a"],
    ("words by number, byte views", "VARCHAR"): ["a", None, "more than twelve letters", "a"],
    ("bytes, views", "VARCHAR"): ["a", None, "größe, zwölf Buchstaben"],
    ("ISO text by number, text views", "TIMESTAMP"): [
        datetime.datetime(2020, 5, 17), None, None, datetime.datetime(2020, 5, 17),
    ],
    ("nothing", "BOOLEAN"): [None, None, None],
}  # fmt: skip
REFUSED = {
    ("decimal", "BIGINT"): ("SchemaError", "Expected BIGINT in column `c`, found `1.50`", 1),
    ("halves", "BIGINT"): ("SchemaError", "Expected BIGINT in column `c`, found `3.5`", 3),
    ("numbers in text", "BIGINT"): ("SchemaError", "Expected BIGINT in column `c`, found string", None),
    ("bytes that are no text", "VARCHAR"): (
        "DataError", "Expected VARCHAR", 3,
    ),
    ("lists", "BIGINT"): ("SchemaError", "Expected BIGINT in column `c`, found list<item: int64>", None),
    ("duration", "TIMESTAMP"): ("SchemaError", "Expected TIMESTAMP in column `c`, found duration[us]", None),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "declared"), TAKEN)
def test_what_is_taken(kind: str, declared: str) -> None:
    found = outcome(lambda engine: engine.push("t", pa.table({"c": COLUMNS[kind]})), declared)
    assert not isinstance(found, tuple), found
    assert found.to_pylist() == TAKEN[kind, declared]


@pytest.mark.parametrize(("kind", "declared"), REFUSED)
def test_what_is_refused(kind: str, declared: str) -> None:
    found = outcome(lambda engine: engine.push("t", pa.table({"c": COLUMNS[kind]})), declared)
    assert found == REFUSED[kind, declared]


JSON_KINDS = [
    "int64",
    "whole",
    "halves",
    "boolean",
    "words",
    "numbers in text",
    "ISO text",
    "lists",
    "structs",
]


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_json_lines_mean_the_same_where_they_can_say_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps({"c": value}) + "\n" for value in COLUMNS[kind].to_pylist()))
    for declared in DECLARED:
        pushed = outcome(lambda engine: engine.push("t", pa.table({"c": COLUMNS[kind]})), declared)
        read = outcome(lambda engine: load_tables(engine, {"t": [[str(path)]]}), declared)
        if isinstance(pushed, tuple):
            assert isinstance(read, tuple), (declared, pushed, read)
        else:
            assert same(pushed, read), (declared, pushed, read)


@pytest.mark.parametrize("kind", ["int64", "whole", "halves", "boolean", "words", "ISO text", "times in us"])
def test_csv_means_the_same_where_it_can_say_it(kind: str, tmp_path: Path) -> None:
    """It has nothing but text; what is text in Arrow, and so no number, may be a number here."""
    path = tmp_path / "f.csv"
    values = COLUMNS[kind].to_pylist()
    texts = ["" if v is None else '""' if v == "" else str(v) for v in values]
    path.write_text("c,d\n" + "".join(f"{text},x\n" for text in texts))
    for declared in DECLARED:
        pushed = outcome(lambda engine: engine.push("t", pa.table({"c": COLUMNS[kind]})), declared)
        read = outcome(lambda engine: load_tables(engine, {"t": [[str(path)]]}), declared)
        if not isinstance(pushed, tuple):
            assert same(pushed, read), (declared, pushed, read)


@pytest.mark.parametrize("kind", ["Categorical", "Enum", "Binary"])
def test_columns_of_polars_that_arrow_has_as_views(kind: str) -> None:
    polars = pytest.importorskip("polars")
    values = ["a", None, "more than twelve letters", "a"]
    column = polars.Series("c", values)
    types = {
        "Enum": polars.Enum(["a", values[2]]),
        "Binary": polars.Binary,
        "Categorical": polars.Categorical,
    }
    frame = polars.DataFrame({"c": column.cast(types[kind])})
    assert outcome(lambda engine: engine.push("t", frame), "VARCHAR").to_pylist() == values
