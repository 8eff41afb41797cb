"""An interrupted command leaves whole files and says one word."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_help import (
    INPUTS,
    SQL,
    START_US,
    TEMPERATURE,
    finish,
    folder_with_inputs,  # noqa: F401
    start,
)


def wait_for_results(folder: Path, size: int = 1) -> None:
    for _ in range(1200):
        if folder.exists() and any(path.stat().st_size >= size for path in folder.iterdir()):
            return
        time.sleep(0.05)
    raise AssertionError("no results within a minute")


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("parquet", signal.SIGINT),
        ("csv", signal.SIGINT),
        ("jsonl", signal.SIGINT),
        ("parquet", signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_whole_files(kind: str, number: signal.Signals, here: Path) -> None:
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    process = start("run", "all.sql", *INPUTS, "-o", "out", "--format", kind, "--speed", "1x")
    wait_for_results(here / "out", 0 if kind == "parquet" else 2000)
    time.sleep(1.5)
    process.send_signal(number)
    code, out, err = finish(process)
    assert (code, out) == (128 + number, "")
    assert [line for line in err.splitlines() if not line.startswith("Compiling")] == ["Interrupted"]
    assert sorted(os.listdir("out")) == [f"cold.{kind}", f"hot.{kind}"]
    if kind == "parquet":
        rows = [row["value"] for row in pq.read_table("out/cold.parquet").to_pylist()]
    elif kind == "csv":
        with open("out/cold.csv") as file:
            rows = [float(row["value"]) for row in csv.DictReader(file)]
    else:
        with open("out/cold.jsonl") as file:
            rows = [json.loads(line)["value"] for line in file]
    assert 0 < len(rows) < len(TEMPERATURE)
    assert rows == TEMPERATURE["value"].to_pylist()[: len(rows)]


def test_an_interrupt_while_waiting_for_standard_input(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"ts,location,value\n{START_US},1,5\n".encode())
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.stdin.close()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b"Interrupted\n"
    process.stderr.close()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "module",
    ["click", "pyarrow", "penstock.cli.run", "numpy", "sqlglot", "penstock.engine.running.runtime", "numba"],
)
def test_an_interrupt_while_it_loads(module: str) -> None:
    """Libraries take long enough to load to be interrupted; a signal comes as one of them is looked for."""
    script = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: print('now'), os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"sys.argv = ['penstock', 'run', 'q.sql', *{INPUTS!r}, '-o', 'out']\n"
        "from penstock.cli.entry import main\n"
        "main()"
    )
    command = [sys.executable, "-u", "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "now\n", "Interrupted\n")
    assert not Path("out").exists()
