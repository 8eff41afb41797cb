"""JSON lines in, with every bad one named by its exact line, and out, against Python's own reader."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
from files_help import message_of, read_all
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.convert import parse_times
from penstock.connectors.json_text import to_json_lines


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


def test_json_whose_first_row_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"ts": 1, "name": "\xff"}\n')
    assert message_of(path) == "Expected UTF-8 text, found the byte `0xff`, in `t.jsonl`, row 1"


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
