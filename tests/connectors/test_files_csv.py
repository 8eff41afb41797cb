"""CSV as other tools write it, and every way to get it wrong, with its exact line."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from files_help import SCHEMA, message_of, read_all

from penstock.connectors.readers import open_reader
from penstock.connectors.source import Source


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
        "Expected a quoted record of at most 1 MB and 1,000 lines, found a longer one, in `t.csv`, row 1."
        " A quote that opens there may never close; --max-record 64MB lets longer ones in"
    )


def test_a_row_longer_than_any(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(SCHEMA.names) + "\n2016-10-01,7,1.5," + "long" * 17_000_000)
    assert message_of(path) == ("Expected rows of at most 64 MB, found a longer one, in `t.csv`, row 1")


def test_a_file_is_read_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that still reads when the process ends asks for Python and hangs it: there must be none."""
    path, readers = tmp_path / "t.csv", set()
    path.write_text(",".join(SCHEMA.names) + "\n" + "2016-10-01,7,1.5,text,true\n" * 1_000_000)
    read = Source.read

    def noted(self: Source, size: int = -1) -> bytes:
        readers.add(threading.get_ident())
        return read(self, size)

    monkeypatch.setattr(Source, "read", noted)
    reader = open_reader(str(path), SCHEMA)
    batches = reader.batches()
    assert len(next(batches)) > 0
    assert reader.share_done() < 0.5, "far ahead of what was asked for"
    assert sum(map(len, batches)) > 500_000
    assert readers == {threading.get_ident()}
    reader.close()
