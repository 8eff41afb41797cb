"""Lines that others follow: whole at any time, cut back where a disk was full."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connectors.line_file import open_lines
from penstock.connectors.text_writers import CsvWriter, JsonLinesWriter, TextWriter
from penstock.engine.rows.errors import FileError


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("writer_of", [CsvWriter, JsonLinesWriter])
@pytest.mark.parametrize("limit", [5000, 5003, 5017, 5040])
def test_a_full_disk_leaves_whole_lines(writer_of: type[TextWriter], limit: int, tmp_path: Path) -> None:
    """Also where line ends stand in values."""
    rows = pa.record_batch({"text": ['a "quoted"\nline,\n"', "plain", '"\n'] * 3, "n": range(9)})
    path = tmp_path / "out"
    writer = CsvWriter(str(path), rows.schema) if writer_of is CsvWriter else JsonLinesWriter(str(path))
    writer.write(rows)
    with path.open("rb") as file:
        header = len(file.readline()) if writer_of is CsvWriter else 0
    once = path.read_bytes()[header:]
    many = pa.Table.from_batches([rows] * 200).combine_chunks().to_batches()[0]
    with largest_file(limit), pytest.raises(FileError, match=f"Expected to write `{path}`, found: File too"):
        writer.write(many)
    writer.close()
    found = path.read_bytes()
    assert limit - 60 < len(found) <= limit
    ends = {0}
    for row in range(len(rows)):
        one = tmp_path / "one"
        other = CsvWriter(str(one), rows.schema) if writer_of is CsvWriter else JsonLinesWriter(str(one))
        other.write(rows.slice(0, row + 1))
        other.close()
        ends.add(one.stat().st_size - header)
    assert (len(found) - header) % len(once) in ends
    assert found[header:] == (once * 201)[: len(found) - header]


def test_after_a_failed_sync_only_what_is_on_the_disk_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "out"
    file = open_lines(str(path))
    file.write(b"one\n")
    file.sync()
    file.write(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        file.sync()
    assert path.read_bytes() == b"one\n"
    file.close()


def test_lines_are_brought_to_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file = open_lines(str(tmp_path / "out"))
    for _ in range(3):
        file.write(b"line\n")
    file.sync()
    file.sync()
    file.close()
    assert len(synced) == 1
