"""A file is read in a stream: what is held does not grow with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

ROWS = 1_000_000
GROUP_ROWS = 100_000
ROW_BYTES = 24

RUN = """
import sys
from penstock import Engine
from penstock.connectors.merge import read_in_time_order
from penstock.connectors.open_inputs import open_feeds, push_batch

engine = Engine()
engine.execute("CREATE STREAM s (ts TIMESTAMP, key BIGINT, value DOUBLE)")
query = engine.query("SELECT key, value FROM s [RANGE 1 SECONDS]", count_only=True)
for step in read_in_time_order(open_feeds(engine, {"s": [[sys.argv[1]]]})):
    push_batch(engine, step.stream, step.batch)
engine.close()
status = dict(line.split(":") for line in open("/proc/self/status"))
print(query.count, status["VmHWM"].split()[0])
"""


def write_parquet(path: Path, rows: int) -> Path:
    """Rows a millisecond apart, in row groups, written one after the other."""
    schema = pa.schema([("ts", pa.timestamp("us")), ("key", pa.int64()), ("value", pa.float64())])
    dice = np.random.default_rng(1)
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, GROUP_ROWS):
            ts = pa.array(1_000 * np.arange(start, start + GROUP_ROWS), pa.timestamp("us"))
            table = pa.table([ts, dice.integers(0, 99, GROUP_ROWS), dice.random(GROUP_ROWS)], schema=schema)
            writer.write_table(table)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory in kilobytes is Linux's")
def test_a_file_four_times_as_long_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for rows in (ROWS, 4 * ROWS):
        path = write_parquet(tmp_path / f"{rows}.parquet", rows)
        command = [sys.executable, "-c", RUN, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        count, peak_kb = map(int, done.stdout.split())
        assert count == rows
        peaks.append(1024 * peak_kb)
    more = 3 * ROWS * ROW_BYTES
    assert peaks[1] - peaks[0] < more / 3, f"{peaks[1] - peaks[0]:,} bytes more for {more:,} more in the file"


# -- a process that may have no more -------------------------------------------------------------------

LIMIT_BYTES = 640 << 20
NOTE_BYTES = 10_000
STEP = 10  # rows of `a` for one of `b`
LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({LIMIT_BYTES}, {LIMIT_BYTES}))
from penstock.cli.main import main
main(sys.argv[1:])
"""
SQL = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, note VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, note VARCHAR);
CREATE QUERY pairs AS
  SELECT a.k, a.note, LENGTH(b.note) AS length FROM a [RANGE 1 SECOND] JOIN b [RANGE 1 SECOND] ON a.k = b.k;
"""


def notes(start: int, stop: int, step: int) -> pa.Table:
    """A row every `step` milliseconds, numbered by them, each with a long text of its number's last digit."""
    numbers = np.arange(start, stop, step)
    texts = pa.array([str(digit) * NOTE_BYTES for digit in range(10)])
    ts = pa.array(1_000 * numbers, pa.timestamp("us"))
    return pa.table({"ts": ts, "k": numbers, "note": texts.take(pa.array(numbers % 10))})


def write_parts(writer: Callable[[pa.Table], object], rows: int, step: int = 1) -> None:
    for start in range(0, rows, 2_000 * step):
        writer(notes(start, min(rows, start + 2_000 * step), step))


def write_long_parquet(path: Path, rows: int) -> None:
    """One row group for all."""
    table = notes(0, 1, 1)
    numbers = np.arange(rows)
    texts = pa.array([str(digit) * NOTE_BYTES for digit in range(10)])
    note = pa.DictionaryArray.from_arrays(pa.array((numbers % 10).astype(np.int32)), texts)
    columns = [pa.array(1_000 * numbers, pa.timestamp("us")), pa.array(numbers), note]
    pq.write_table(pa.table(columns, names=table.column_names), path, row_group_size=rows, store_schema=False)


def write_ipc(path: Path, rows: int) -> None:
    """One record batch for all."""
    table = notes(0, rows, 1)
    batch = pa.Table.from_arrays(
        [column.combine_chunks() for column in table.columns], table.column_names
    ).to_batches()[0]
    with pa.OSFile(str(path), "wb") as file, ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def write_csv(path: Path, rows: int) -> None:
    with pa.OSFile(str(path), "wb") as file, pc.CSVWriter(file, notes(0, 0, 1).schema) as writer:
        write_parts(writer.write_table, rows, STEP)


def write_json(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for number in range(0, rows, STEP):
            note = str(number % 10) * NOTE_BYTES
            file.write(f'{{"ts": {1_000 * number}, "k": {number}, "note": "{note}"}}\n')


def start_limited(folder: Path, sql: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`penstock run` in a process that may have so much data and no more."""
    (folder / "pairs.sql").write_text(sql)
    environment = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve what they do not use
        **dict.fromkeys(("OMP_NUM_THREADS", "ARROW_IO_THREADS", "OPENBLAS_NUM_THREADS"), "2"),
        "MALLOC_ARENA_MAX": "2",
    }
    command = [
        sys.executable,
        "-c",
        LIMITED,
        "run",
        "pairs.sql",
        "-q",
        *arguments,
        "-o",
        "out",
        "--flush-every",
        "1h",
    ]
    return subprocess.run(
        [*command, "--format", "parquet"], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def run_limited(folder: Path, rows: int, *arguments: str) -> None:
    """The results of that are all there."""
    done = start_limited(folder, SQL, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    file = pq.ParquetFile(folder / "out" / "pairs.parquet")
    seen = 0
    for batch in file.iter_batches(batch_size=1_000):
        assert batch.column("k").to_pylist() == list(range(seen, seen + STEP * len(batch), STEP))
        assert set(batch.column("length").to_pylist()) == {NOTE_BYTES}
        seen += STEP * len(batch)
    assert seen == rows


linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit counts all memory on Linux only")


@linux
def test_inputs_three_times_as_large_as_the_process_may_be(tmp_path: Path) -> None:
    """One row group of Parquet that is short in the file and long in memory, merged with a CSV."""
    rows = 185_000
    assert (rows + rows // STEP) * NOTE_BYTES > 3 * LIMIT_BYTES
    write_long_parquet(tmp_path / "a.parquet", rows)
    write_csv(tmp_path / "b.csv", rows)
    run_limited(tmp_path, rows, "-i", "a=a.parquet", "-i", "b=b.csv")


@linux
@pytest.mark.slow
def test_one_record_batch_and_json_lines_larger_than_the_process_may_be(tmp_path: Path) -> None:
    rows = 150_000
    write_ipc(tmp_path / "a.arrow", rows)
    write_json(tmp_path / "b.jsonl", rows)
    run_limited(tmp_path, rows, "-i", "a=a.arrow", "-i", "b=b.jsonl")


@linux
def test_a_window_that_does_not_fit_is_told_in_one_line(tmp_path: Path) -> None:
    """The limit is one. What was written before can be read."""
    rows = 80_000
    write_long_parquet(tmp_path / "a.parquet", rows)
    write_csv(tmp_path / "b.csv", rows)
    done = start_limited(tmp_path, SQL.replace("1 SECOND", "1 DAY"), "-i", "a=a.parquet", "-i", "b=b.csv")
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "Query `pairs` stopped: Expected memory for what the windows hold" in done.stderr
    assert 0 < pq.read_table(tmp_path / "out" / "pairs.parquet", columns=["k"]).num_rows < rows // STEP
