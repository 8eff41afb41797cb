"""A real cluster on loopback, a master and two workers as processes: one worker is killed with its executor.

All ways through Spark are at work on it; every result comes once. test_spark_kill.py has executors killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scale_help import whole_answers
from spark_ways import QUERIES, WAYS, check_ledger
from test_spark_kill import AT_WORK_S, STREAMS, WAITING_S, await_held, descendants, driver, kill

from penstock import UsageError
from penstock.connectors.spark.java import provide_java


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        provide_java()
    except UsageError as error:
        pytest.skip(str(error))
    if not Path("/proc/self/stat").exists():
        pytest.skip("finds the processes to kill in /proc")


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path: Path) -> None:
    """An executor goes while batch 2 is at work, then the other worker with its own, in batch 3."""
    with standalone(tmp_path) as (master, workers), driver(tmp_path, master, [20, 45, 70, 100]) as running:
        await_held(running, tmp_path, 1)
        (tmp_path / "go-1").touch()
        time.sleep(AT_WORK_S)
        kill(descendants(workers[1], "CoarseGrainedExecutorBackend"))
        await_held(running, tmp_path, 2)
        (tmp_path / "go-2").touch()
        time.sleep(AT_WORK_S)
        executors = descendants(workers[0], "CoarseGrainedExecutorBackend")
        assert executors
        kill([*executors, workers[0]])
        assert running.wait(WAITING_S) == 0, (tmp_path / "log").read_text()[-3000:]
    expected = whole_answers(STREAMS, QUERIES)
    for way in WAYS:
        check_ledger(tmp_path, way, expected)


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
