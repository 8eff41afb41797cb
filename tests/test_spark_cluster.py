"""Scale-out on clusters of several processes on this machine, with kill -9 of executors and of a worker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from scale_help import ended, until_end, whole_answers
from spark_help import add_files, bag, cut, draw_stream

from penstock import UsageError
from penstock.connectors.spark.java import provide_java

STREAMS = {"a": draw_stream(5), "b": draw_stream(6)}
QUERIES = """
CREATE QUERY pairs AS
  SELECT l.id AS l, r.id AS r FROM a [RANGE 3 SECONDS] AS l JOIN b [RANGE 2 SECONDS] AS r ON l.k = r.k;
CREATE QUERY high AS SELECT id FROM a WHERE v > 0.5;
"""

# Argument 1: the folder of the streams; 2: the cluster; 3: by batch, whose executor to kill in its midst
# (0: one of the driver's own), and whether its parent goes too.
DRIVER = """
import json, os, signal, sys, threading
from pathlib import Path
from scale_help import both_streams
from test_spark_cluster import QUERIES, descendants
from penstock.connectors.spark import local_session, scale_out

folder, master, victims = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
spark = local_session(settings={"spark.master": master, "spark.executor.memory": "700m"})
scaled = scale_out(QUERIES, both_streams(spark, folder), buckets=4)
write = scaled.write(str(folder / "out"))

def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    print("killed", len(pids), flush=True)

def write_and_kill(frame, batch_id):
    if str(batch_id) in victims:
        parent, too = victims[str(batch_id)]
        parent = parent or spark.sparkContext._gateway.proc.pid
        executors = descendants(parent, "CoarseGrainedExecutorBackend")
        threading.Timer(0.7, kill, [executors[:1] + [parent] * too]).start()
    write(frame, batch_id)

writer = scaled.frame.writeStream.foreachBatch(write_and_kill)
writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and command of each process on the machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:  # gone by now
                continue
            yield int(entry.name), parent, command


def descendants(pid: int, what: str) -> list[int]:
    """The processes below this one that run this."""
    all_ = list(processes())
    below = {pid}
    while more := {one for one, parent, _ in all_ if parent in below} - below:
        below |= more
    return sorted(one for one, _, command in all_ if one in below and what in command)


def run_driver(folder: Path, master: str, victims: dict[int, Any]) -> str:
    command = [sys.executable, "-c", DRIVER, str(folder), master, json.dumps(victims)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def check_ledger(folder: Path) -> None:
    """Every result there once: ids of rows, and pairs of ids, are unique."""
    expected = whole_answers(STREAMS, QUERIES)
    for name in expected:
        found: Counter[Any] = Counter()
        for file in (folder / "out" / f"query={name}").rglob("*.parquet"):
            found += bag(pq.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us"))
        found = until_end(found)
        ledger = {
            "lost": (expected[name] - found).total(),
            "doubled": sum(n - 1 for n in found.values()),
            "invented": len(set(found) - set(expected[name])),
        }
        assert ledger == {"lost": 0, "doubled": 0, "invented": 0}, name
        assert expected[name].total() > 200


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        provide_java()
    except UsageError as error:
        pytest.skip(str(error))
    if not Path("/proc/self/stat").exists():
        pytest.skip("finds the processes to kill in /proc")


def add_streams(folder: Path, shares: list[int]) -> None:
    for name, table in STREAMS.items():
        add_files(folder / name, cut(ended(table), shares))


@pytest.mark.slow
def test_an_executor_is_killed(tmp_path: Path) -> None:
    """One of two, while a batch is at work: its buckets go on elsewhere, from Spark's state store."""
    add_streams(tmp_path, [30, 60, 100])
    printed = run_driver(tmp_path, "local-cluster[2,1,700]", {1: (0, False)})
    assert "killed 1" in printed
    check_ledger(tmp_path)


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path: Path) -> None:
    """A master and two workers, as processes of their own; an executor goes, then a worker with its own."""
    add_streams(tmp_path, [15, 30, 45, 60, 75, 100])
    with standalone(tmp_path) as (master, workers):
        printed = run_driver(tmp_path, master, {1: (workers[1], False), 3: (workers[0], True)})
    assert "killed 1\nkilled 2" in printed
    check_ledger(tmp_path)


@contextmanager
def standalone(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A cluster on loopback: where it is, and its workers' process numbers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in range(2):
        options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        commands.append(["worker.Worker", *options, "--work-dir", str(folder / f"work{number}"), master])
    started = []
    try:
        for name, *arguments in commands:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            log = (folder / f"log{len(started)}").open("w")
            started.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
            )
            wait_for(port)
        yield master, [one.pid for one in started[1:]]
    finally:
        for one in started:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the master has not come up")
