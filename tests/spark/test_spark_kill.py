"""kill -9 of the driver between write and commit, and of an executor at work, on a cluster of processes.

Every way through Spark at once: the sink, held before and after it has saved its state, scale-out, and both
directions of the format. Somebody else finishes, and a ledger of unique results finds none lost or doubled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scale_help import ended, whole_answers
from spark_help import add_files, cut, draw_stream, from_duckdb, run_to_end
from spark_ways import QUERIES, WAYS, check_ledger, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELP = Path(__file__).parents[1] / "help"
STREAMS = {"a": draw_stream(3), "b": draw_stream(4)}
WAITING_S = 400
AT_WORK_S = 0.7  # after a batch has begun: its tasks are running


@contextmanager
def driver(folder: Path, master: str, shares: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    """All ways at work, as spark_driver.py says; in the end it and all it has started is killed."""
    for name, table in STREAMS.items():
        add_files(folder / name, cut(ended(table), shares))
    command = [sys.executable, "spark_driver.py", str(folder), master, *WAYS]
    with (folder / "log").open("wb") as log:
        victim = subprocess.Popen(command, stdout=log, stderr=log, cwd=HELP)
    try:
        yield victim
    finally:
        kill([*descendants(victim.pid), victim.pid])
        victim.wait()


def await_held(victim: subprocess.Popen[bytes], folder: Path, batch_id: int) -> None:
    """Until every way has written the batch and Spark has noted it for none."""
    wanted = {f"held-{way}-{batch_id}" for way in WAYS}
    until = time.monotonic() + WAITING_S
    while missing := wanted - {path.name for path in folder.glob("held-*")}:
        if victim.poll() is not None or time.monotonic() > until:
            pytest.fail(f"{sorted(missing)} are not there: {(folder / 'log').read_text()[-3000:]}")
        time.sleep(0.1)


def descendants(pid: int, what: str = "") -> list[int]:
    """The processes below this one that run this."""
    all_ = list(processes())
    below = {pid}
    while more := {one for one, parent, _ in all_ if parent in below} - below:
        below |= more
    return sorted(one for one, _, command in all_ if one in below - {pid} and what in command)


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


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # its parent took it along
            continue


def commits(folder: Path, way: str) -> set[str]:
    return {path.name for path in (folder / way / "checkpoint" / "commits").glob("[0-9]*")}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes to kill in /proc")
@pytest.mark.parametrize("executor_too", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_driver_is_killed(spark: SparkSession, tmp_path: Path, executor_too: bool) -> None:
    """In batch 1; or in batch 2, after an executor was killed at the beginning of it."""
    fatal = 2 if executor_too else 1
    shares = [20, 45, 70, 100] if executor_too else [30, 65, 100]
    with driver(tmp_path, "local-cluster[2,1,700]", shares) as victim:
        await_held(victim, tmp_path, 1)
        executors = descendants(victim.pid, "CoarseGrainedExecutorBackend")
        assert len(executors) == 2
        if executor_too:
            (tmp_path / "go-1").touch()
            time.sleep(AT_WORK_S)
            kill(executors[:1])
            await_held(victim, tmp_path, 2)
        kill([*descendants(victim.pid), victim.pid])
        assert victim.wait() == -signal.SIGKILL
    for way in WAYS:
        assert commits(tmp_path, way) == set(map(str, range(fatal))), way
        assert list((tmp_path / way / "out").glob(f"query=pairs/batch={fatal}/*.parquet")), way
    states = {way: {path.name for path in (tmp_path / way / "state").glob("batch*")} for way in WAYS}
    assert f"batch-{fatal}.penstock" not in states["sink-before"]
    assert states["sink"] == states["write-stream"] == {f"batch-{n}.penstock" for n in (fatal - 1, fatal)}

    for way in WAYS:
        run_to_end(prepare(spark, way, tmp_path))
    expected = whole_answers(STREAMS, QUERIES)
    assert {row[:3] for row in from_duckdb(STREAMS)["pairs"]} == set(expected["pairs"])
    for way in WAYS:
        check_ledger(tmp_path, way, expected)
