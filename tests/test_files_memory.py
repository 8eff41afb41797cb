"""A file is read in a stream: what is held does not grow with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
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
