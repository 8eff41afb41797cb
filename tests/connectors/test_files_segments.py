"""Parquet results: whole under their name or not there, in segments while a run lasts, then merged."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors import segments
from penstock.connectors.parquet_writer import ParquetWriter
from penstock.connectors.writers import open_writers, segment_folder
from penstock.engine.rows.errors import FileError, UsageError

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def make_rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        {"n": list(numbers), "text": [f"row {n * 7919 % 10_007}" for n in numbers]}, SCHEMA
    )


def open_one(folder: Path, *, overwrite: bool = False) -> ParquetWriter:
    writer = open_writers(str(folder), "parquet", {"hot": SCHEMA}, overwrite=overwrite)["hot"]
    assert isinstance(writer, ParquetWriter)
    return writer


def numbers_in(folder: Path) -> list[int]:
    """The rows of all files that have their name, in order; each can be read."""
    files = [folder / "hot.parquet"] if (folder / "hot.parquet").exists() else []
    files += segments.find_segments(folder / "hot")
    return [n for file in files for n in pq.read_table(file)["n"].to_pylist()]


def write_segments(folder: Path, count: int, rows: int, *, overwrite: bool = False) -> ParquetWriter:
    writer = open_one(folder, overwrite=overwrite)
    for number in range(count):
        writer.write(make_rows(number * rows, rows))
        writer.flush()
    return writer


def test_long_texts_that_are_short_in_the_file_are_merged_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten texts of 10 kB are numbers in a dictionary there; 20,000 rows of them would be 200 MB at once."""
    writer = open_one(tmp_path)
    text = pa.array([str(digit) * 10_000 for digit in range(10)])
    for _ in range(2):
        for _ in range(10):
            rows = pa.array([n % 10 for n in range(1_000)])
            writer.write(pa.record_batch([rows.cast(pa.int64()), text.take(rows)], schema=SCHEMA))
        writer.flush()
    writer.close()
    read: list[int] = []
    add = segments.ParquetPart.add

    def noted(self: segments.ParquetPart, batch: pa.RecordBatch) -> None:
        read.append(batch.nbytes)
        add(self, batch)

    monkeypatch.setattr(segments.ParquetPart, "add", noted)
    writer.merge()
    assert max(read) < 64 << 20
    assert len(numbers_in(tmp_path)) == 20_000


def test_each_flush_with_rows_is_a_whole_segment(tmp_path: Path) -> None:
    writer = open_one(tmp_path)
    writer.flush()
    assert os.listdir(tmp_path)[0].startswith(".")
    for number in range(3):
        writer.write(make_rows(number * 10, 10))
        writer.write(make_rows(number * 10 + 10, 0))
        writer.flush()
        writer.flush()
        assert os.listdir(tmp_path) == ["hot"]
        assert sorted(os.listdir(tmp_path / "hot")) == [f"{n + 1:06}.parquet" for n in range(number + 1)]
        assert numbers_in(tmp_path) == list(range(number * 10 + 10))
    writer.write(make_rows(30, 5))
    writer.close()
    assert writer.path == str(tmp_path / "hot")
    assert numbers_in(tmp_path) == list(range(35))
    writer.merge()
    assert os.listdir(tmp_path / "hot") == ["000001.parquet"]
    assert os.listdir(tmp_path) == ["hot"]
    assert numbers_in(tmp_path) == list(range(35))


def test_a_long_run_gives_a_folder_whatever_comes(tmp_path: Path) -> None:
    writer = open_one(tmp_path)
    writer.flush()
    writer.close()
    writer.merge()
    assert os.listdir(tmp_path) == ["hot"]
    assert pq.read_table(tmp_path / "hot" / "000001.parquet").schema == SCHEMA


@pytest.mark.parametrize("sizes", [[400] * 9, [30] * 50, [5000, 1, 1, 1], [1, 5000, 5000, 1], [1, 1]])
def test_merged_files_are_large_and_hold_every_row_once(
    sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = 12_000
    monkeypatch.setattr(segments, "MERGED_BYTES", least)
    monkeypatch.setattr("penstock.connectors.parquet_part.GROUP_ROWS", 100)
    writer = ParquetWriter(str(tmp_path / "hot.parquet"), str(tmp_path / "hot"), SCHEMA, 100)
    for number, size in enumerate(sizes):
        writer.write(make_rows(sum(sizes[:number]), size))
        writer.flush()
    writer.close()
    writer.merge()
    assert numbers_in(tmp_path) == list(range(sum(sizes)))
    found = [path.stat().st_size for path in segments.find_segments(tmp_path / "hot")]
    assert all(size >= least for size in found) or len(found) == 1
    assert len(found) < len(sizes)
    assert os.listdir(tmp_path) == ["hot"]


def test_folders_that_cannot_be_exchanged_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_exchange", lambda *_: False)
    writer = write_segments(tmp_path, 3, 10)
    writer.close()
    writer.merge()
    assert os.listdir(tmp_path) == ["hot"]
    assert os.listdir(tmp_path / "hot") == ["000001.parquet"]
    assert numbers_in(tmp_path) == list(range(30))


@pytest.mark.parametrize("failing", ["_exchange", "_copy"])
def test_a_merge_that_fails_changes_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = write_segments(tmp_path, 3, 10)
    writer.close()
    before = sorted(os.listdir(tmp_path / "hot"))
    monkeypatch.setattr(segments, failing, fail)
    with pytest.raises(FileError, match="No space left on device"):
        writer.merge()
    assert os.listdir(tmp_path) == ["hot"]
    assert sorted(os.listdir(tmp_path / "hot")) == before
    assert numbers_in(tmp_path) == list(range(30))


def test_a_folder_with_files_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "hot").mkdir()
    (tmp_path / "hot" / "notes.txt").write_text("mine")
    writer = write_segments(tmp_path, 2, 10)
    writer.close()
    with pytest.raises(FileError, match=r"Expected only results in `.*hot`, found `notes\.txt`"):
        writer.merge()
    assert numbers_in(tmp_path) == list(range(20))
    write_segments(tmp_path, 0, 0, overwrite=True).close()
    assert os.listdir(tmp_path / "hot") == ["notes.txt"]
    assert numbers_in(tmp_path) == []


def test_what_a_run_gave_before_is_replaced_in_both_forms(tmp_path: Path) -> None:
    write_segments(tmp_path, 3, 10).close()
    with pytest.raises(
        UsageError, match=r"Expected no files in `.*hot`, found `000001\.parquet`; give --over"
    ):
        open_one(tmp_path)
    assert numbers_in(tmp_path) == list(range(30))
    writer = open_one(tmp_path, overwrite=True)
    writer.write(make_rows(0, 7))
    assert numbers_in(tmp_path) == list(range(30)), "until there is something better"
    writer.close()
    assert os.listdir(tmp_path) == ["hot.parquet"]
    assert numbers_in(tmp_path) == list(range(7))
    write_segments(tmp_path, 2, 4, overwrite=True).close()
    assert os.listdir(tmp_path) == ["hot"]
    assert numbers_in(tmp_path) == list(range(8))


def test_segments_never_stand_where_another_querys_file_is(tmp_path: Path) -> None:
    writers = open_writers(str(tmp_path), "parquet", {"hot": SCHEMA, "hot.parquet": SCHEMA})
    writers["hot.parquet"].write(make_rows(0, 3))
    writers["hot.parquet"].flush()
    writers["hot"].close()
    writers["hot.parquet"].close()
    assert sorted(os.listdir(tmp_path)) == ["hot%2Eparquet", "hot.parquet"]
    assert segment_folder("out/hot.parquet") == "out/hot"
    (tmp_path / "x" / "hot").mkdir(parents=True)
    (tmp_path / "x" / "hot").rmdir()
    (tmp_path / "x" / "hot").touch()
    with pytest.raises(UsageError, match="Expected a folder or nothing at"):
        open_one(tmp_path / "x")


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("kept", [0, 2])
def test_what_the_disk_refuses_never_has_a_name(
    where: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = write_segments(tmp_path, kept, 10)
    writer.write(make_rows(kept * 10, 10))
    monkeypatch.setattr(os, where, fail)
    with pytest.raises(FileError, match="found: No space left on device"):
        writer.close()
    monkeypatch.undo()
    writer.close()  # all files are tried at the end
    assert numbers_in(tmp_path) == list(range(kept * 10))
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".part")]


WRITE = """
import sys
from pathlib import Path
sys.path[:0] = {folders!r}
from test_files_segments import make_rows, open_one, segments
segments.MERGED_BYTES = 20_000
folder, flushes = Path(sys.argv[1]), int(sys.argv[2])
writer = open_one(folder, overwrite=True)
for number in range(flushes):
    writer.write(make_rows(number * 500, 500))
    writer.flush()
    print(number, flush=True)
print("closing", flush=True)
writer.close()
writer.merge()
print("merged", flush=True)
"""


def kill_at(folder: Path, after: str, delay_s: float, flushes: int) -> None:
    """Whoever writes is killed some time after it said something; what is there then can be read."""
    here = Path(__file__).parent
    folders = [str(here), str(here.with_name("help"))]
    words = [sys.executable, "-c", WRITE.format(folders=folders), str(folder), str(flushes)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = ""
    while said != after:
        said = process.stdout.readline().strip()
        assert said, "it ended by itself"
    time.sleep(delay_s)
    os.kill(process.pid, signal.SIGKILL)
    more = process.stdout.read().split()
    process.wait(60)
    process.stdout.close()
    done = max([int(word) for word in [said, *more] if word.isdigit()], default=flushes - 1)
    found = numbers_in(folder)
    assert found == list(range(len(found))), "every row once and in order"
    assert len(found) >= (done + 1) * 500, "a flush that was done is lost"


@pytest.mark.parametrize(("after", "delay_s"), [("3", 0.002), ("closing", 0.001), ("closing", 0.012)])
def test_who_is_killed_leaves_whole_files(after: str, delay_s: float, tmp_path: Path) -> None:
    kill_at(tmp_path / "out", after, delay_s, 12)
    writer = open_one(tmp_path / "out", overwrite=True)
    writer.close()
    assert os.listdir(tmp_path / "out") == ["hot.parquet"], "what was left goes with the next"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_who_is_killed_at_any_moment_leaves_whole_files(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    flushes = draw.randint(1, 40)
    after = draw.choice([str(draw.randrange(flushes)), "closing"])
    kill_at(tmp_path / "out", after, draw.uniform(0, 0.05), flushes)
