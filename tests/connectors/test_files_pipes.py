"""Text that comes in pieces: blocks end where rows do, and a pipe is read like a file."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from pathlib import Path

import pytest
from files_help import SCHEMA, make_table, message_of, read_all, write_as
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.blocks import cut_blocks


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
    st.lists(st.sampled_from(['"', '"', ",", "\n", "a", "\r\n"]), max_size=60).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
)
def test_blocks_end_where_rows_do_wherever_quotes_stand(text: str, sizes: list[int]) -> None:
    """A quote within a field that is not quoted is a character like any other: 5" pipe."""
    blocks = list(cut_blocks(Trickle(text.encode(), sizes), delimiter=","))  # type: ignore[arg-type]
    assert "".join(block.decode() for block in blocks).split() == text.split()
    rows = [row for block in blocks for row in csv.reader(io.StringIO(block.decode(), newline=""))]
    whole = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    assert [row for row in rows if row] == whole


@given(
    rows=st.lists(st.lists(FIELD, min_size=2, max_size=3)),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_blocks_of_quoted_text_end_where_rows_do(rows: list[list[str]], sizes: list[int]) -> None:
    lines = [",".join(row) + "\n" for row in rows]
    blocks = list(cut_blocks(Trickle("".join(lines).encode(), sizes), delimiter=","))  # type: ignore[arg-type]
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
        text = "\n".join([",".join(SCHEMA.names), *[good] * 300_000, bad, ""])
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        assert message_of(pipe) == line
        writer.join()
        pipe.unlink()
