"""Records that are too long, cut off or nested without end: refused with their row, whatever follows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from files_help import message_of
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.blocks import RecordLimit
from penstock.connectors.inputs import Input
from penstock.connectors.quoted_records import end_by_fields, find_long, split_records
from penstock.connectors.read_rules import ReadRules
from penstock.connectors.readers import open_reader
from penstock.engine.rows.errors import DataError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("text", pa.string())])
LONG = "Expected a quoted record of at most 1 MB and 1,000 lines, found a longer one"
HINT = "A quote that opens there may never close; --max-record 64MB lets longer ones in"
CUT = "The file is cut off within this row; --allow-partial leaves it out"


def read(path: Path, rules: ReadRules) -> tuple[list[object], str | None]:
    """The texts before what is wrong, and what that is."""
    texts: list[object] = []
    source = Input([str(path)], SCHEMA, "ts", [], rules=rules)
    try:
        while (batch := source.read()) is not None:
            assert batch.rows.tolist() == list(range(len(texts) + 1, len(texts) + 1 + len(batch)))
            texts += batch.data["text"].to_pylist()
    except DataError as error:
        return texts, str(error).replace(f"{path.parent}/", "")
    finally:
        source.close()
    return texts, None


def write(folder: Path, *rows: str, end: str = "\n") -> Path:
    path = folder / "t.csv"
    path.write_text("\n".join(["ts,text", *rows]) + end)
    return path


@pytest.mark.parametrize("before", [0, 5, 120_000])
@pytest.mark.parametrize("plain", [True, False])
def test_an_unclosed_quote_is_refused_with_the_row_where_it_opened(
    before: int, plain: bool, tmp_path: Path
) -> None:
    """With what stands behind it, much or little, quoted or not; all before it is given."""
    good = [f"{n},a" if plain or n else '0,5" pipe' for n in range(before)]
    for behind in (1, 2_000, 200_000) if before < 100 else (30,):
        path = write(tmp_path, *good, '7,"open', *["8,b"] * behind)
        texts, said = read(path, ReadRules())
        assert len(texts) == before
        if behind < 1000:
            assert said == (
                f"Expected a closing quote, found the end of the file, in `t.csv`, row {before + 1}. {CUT}"
            )
        else:
            assert said == f"{LONG}, in `t.csv`, row {before + 1}. {HINT}"


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        ("x\n" * 999, False),
        ("x\n" * 1000, True),
        ("x" * ((1 << 20) - 20), False),
        ("x" * (1 << 20), True),
        ("x\n" * 400_000, True),
    ],
)
@pytest.mark.parametrize("before", [0, 150_000])
def test_a_long_record_with_quotes_is_refused_unless_asked_for(
    text: str, is_long: bool, before: int, tmp_path: Path
) -> None:
    path = write(tmp_path, *["1,a"] * before, f'2,"{text}"', "3,c")
    texts, said = read(path, ReadRules())
    assert said == (f"{LONG}, in `t.csv`, row {before + 1}. {HINT}" if is_long else None)
    assert texts == ["a"] * before + ([] if is_long else [text, "c"])
    texts, said = read(path, ReadRules(limit=RecordLimit(64 << 20, None)))
    assert (texts[-2:], said) == ([text, "c"], None)


def test_other_lines_keep_their_limit(tmp_path: Path) -> None:
    path = write(tmp_path, "1," + "x" * (3 << 20), "2,b")
    assert read(path, ReadRules())[1] is None
    (tmp_path / "t.jsonl").write_text(json.dumps({"ts": 1, "text": "x" * (3 << 20)}) + "\n")
    assert read(tmp_path / "t.jsonl", ReadRules())[1] is None


@pytest.mark.parametrize(
    ("last", "line"),
    [
        ("2", "Expected 2 fields as in the header, found 1"),
        ('2,"b', "Expected a closing quote, found the end of the file"),
        ('2,"b\nc', "Expected a closing quote, found the end of the file"),
    ],
)
def test_a_last_record_that_is_cut_is_refused_unless_allowed(last: str, line: str, tmp_path: Path) -> None:
    path = write(tmp_path, "1,a", last, end="")
    assert read(path, ReadRules()) == (["a"], f"{line}, in `t.csv`, row 2. {CUT}")
    told: list[str] = []
    assert read(path, ReadRules(allow_partial=True, tell=told.append)) == (["a"], None)
    assert told == [f"Note: `{path}` is cut off within row 2, which is left out"]
    if '"' not in last:  # with a line end it is not cut, but wrong
        path = write(tmp_path, "1,a", last)
        assert read(path, ReadRules(allow_partial=True)) == (["a"], f"{line}, in `t.csv`, row 2")


def test_a_missing_last_line_end_is_fine(tmp_path: Path) -> None:
    for last in ("2,b", '2,"b"', '2,"b\nb"', "2,"):
        path = write(tmp_path, "1,a", last, end="")
        assert (len(read(path, ReadRules())[0]), read(path, ReadRules())[1]) == (2, None)
    (tmp_path / "t.jsonl").write_text('{"ts": 1, "text": "a"}\n{"ts": 2}')
    assert read(tmp_path / "t.jsonl", ReadRules()) == (["a", None], None)


def test_a_last_line_of_json_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"ts": 1, "text": "a"}\n{"ts": 2, "te')
    line = 'Expected a JSON object, found `{"ts": 2, "te`, in `t.jsonl`, row 2'
    assert read(path, ReadRules()) == (["a"], f"{line}. {CUT}")
    assert read(path, ReadRules(allow_partial=True)) == (["a"], None)
    for wrong in ('{"ts": 2, "text": 5}', "[1]"):  # whole, but not what is wanted
        path.write_text('{"ts": 1, "text": "a"}\n' + wrong)
        said = read(path, ReadRules(allow_partial=True))[1]
        assert said is not None
        assert CUT not in said


@pytest.mark.parametrize("depth", [501, 100_000])
@pytest.mark.parametrize("row", [1, 3, 1500])
@pytest.mark.parametrize("shape", ["[]", "{}"])
@pytest.mark.parametrize("is_closed", [True, False])
def test_json_nested_without_end_is_one_line(
    depth: int, row: int, shape: str, is_closed: bool, tmp_path: Path
) -> None:
    opening = "[" if shape == "[]" else '{"a":'
    deep = opening * depth + ("1" + shape[1] * depth if is_closed else "")
    good = '{"ts": 1, "text": "a [[ {{"}\n'
    path = tmp_path / "t.jsonl"
    path.write_text(good * (row - 1) + f'{{"ts": 2, "x": {deep}, "text": "b"}}\n' + good)
    assert (
        message_of(path, SCHEMA)
        == f"Expected JSON nested at most 500 deep, found it deeper, in `t.jsonl`, row {row}"
    )


def test_brackets_in_texts_are_no_nesting(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    text = '[{"\\' * 5000
    path.write_text(json.dumps({"ts": 1, "text": text, "x": [[[1]]] * 400}) + "\n")
    assert read(path, ReadRules()) == ([text], None)


LINES = st.lists(st.sampled_from(['"', '"', ",", "\n", "a", "\r\n", 'b"', ',"c\n']), max_size=60).map("".join)


@given(LINES, st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=500, deadline=None)
def test_long_records_are_found_wherever_quotes_stand(text: str, most_bytes: int, most_lines: int) -> None:
    """Against Python's own reader of CSV, which says on which line a record ends."""
    text = text.replace("\r", "") + "\n"
    if list(csv.reader(io.StringIO(text + "z\n", newline="")))[-1] != ["z"]:
        return  # blocks end where a record does
    lines = io.StringIO(text, newline="")
    starts, ends = [0], []
    rows = csv.reader(lines)
    for _ in rows:
        ends.append(len("".join(text.splitlines(keepends=True)[: rows.line_num])))
        starts.append(ends[-1])
    records = [text[start:end] for start, end in zip(starts, ends, strict=False)]
    wrong = [
        sum(map(len, records[:at]))
        for at, record in enumerate(records)
        if '"' in record and (len(record) > most_bytes or record.count("\n") > most_lines)
    ]
    found = find_long(text.encode(), ",", most_bytes, most_lines)
    assert found == (wrong[0] if wrong else None)
    assert [r.decode() for r in split_records(text.encode(), ",")] == [
        record.removesuffix("\n") for record in records if record.strip("\n")
    ]


def test_a_reader_says_what_stands_in_a_row(tmp_path: Path) -> None:
    path = write(tmp_path, "1,a", "", '2,"b\n""b"""', "3,c", end="")
    reader = open_reader(str(path), SCHEMA)
    seen: list[str | None] = []
    for batch in reader.batches():
        assert reader.numbers is not None
        seen += [reader.text_of(int(number)) for number in reader.numbers[: len(batch)]]
    reader.close()
    assert seen == ["1,a", '2,"b\n""b"""', "3,c"]


def test_a_line_end_in_quotes_ends_no_record_beside_a_quote_that_opens_nothing() -> None:
    assert end_by_fields(b'5" x\n"a\nb",c,"d', ",") == 5
    assert end_by_fields(b'\nb" c', ",") == 1


@pytest.mark.parametrize("header", ['ts,"k', '"ts', 'ts,"k\nand more",v'])
def test_a_quote_that_the_header_does_not_close_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{header}\n" + "1,1\n" * 2_000)
    with pytest.raises(DataError) as refused:
        open_reader(str(path), SCHEMA)
    found = "Expected a header row in one line, found a quote that it does not close"
    assert str(refused.value) == f"{found}, in `{path}`"
