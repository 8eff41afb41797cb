"""kill -9 of the driver, Python and Java, between what the sink writes and what Spark notes: all is exact."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from spark_help import add_files, cut, draw_stream, embedded, make_sink, run_both, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Argument 1: the folder of the streams; 2: the batch to die in; 3: before or after its state is saved.
VICTIM = """
import os, signal, sys
from pathlib import Path
from spark_help import make_sink, run_both
from penstock.connectors.spark import local_session
from penstock.connectors.spark.saved_states import SavedStates

folder, fatal, when = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
spark = local_session()
save = SavedStates.save

def die():
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def deadly_save(self, engine, batch_id, query_id):
    if (batch_id, when) == (fatal, "before"):
        die()
    save(self, engine, batch_id, query_id)
    if (batch_id, when) == (fatal, "after"):
        die()

SavedStates.save = deadly_save
run_both(spark, folder, make_sink(spark, folder))
"""


def run_victim(folder: Path, batch_id: int, when: str) -> None:
    command = [sys.executable, "-c", VICTIM, str(folder), str(batch_id), when]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


def test_the_driver_is_killed_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Once with results written and no state saved, once with both; then somebody else finishes."""
    streams = {"a": draw_stream(3), "b": draw_stream(4)}
    for name, table in streams.items():
        add_files(tmp_path / name, cut(table, [20, 45, 70, 100]))
    run_victim(tmp_path, 1, "before")
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"batch-0.penstock"}
    assert list((tmp_path / "out").glob("query=pairs/batch=1/*.parquet"))
    run_victim(tmp_path, 2, "after")
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"batch-1.penstock", "batch-2.penstock"}
    assert {path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")} == {"0", "1"}
    writer = make_sink(spark, tmp_path)
    run_both(spark, tmp_path, writer)
    writer.close()
    assert writer.rows == 660  # batches 2 and 3

    answers = embedded(streams)
    found = written(spark, tmp_path / "out", answers)
    pushed = Counter(streams["a"].filter(streams["a"]["v"].to_numpy() > 0.5)["id"].to_pylist())
    given = Counter(row[1] for row in found["high"].elements())
    ledger = {"lost": pushed - given, "doubled or invented": given - pushed}
    assert ledger == {"lost": Counter(), "doubled or invented": Counter()}
    assert found == answers
