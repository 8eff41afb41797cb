"""The command between others: standard input, results as they come, a bar only on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_help import (
    COMMAND,
    INPUTS,
    SQL,
    START_US,
    TEMPERATURE,
    expected_rows,
    finish,
    folder_with_inputs,  # noqa: F401
    make_stream,
    rows_of,
    start,
    write_input,
)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_standard_input_in_every_format(kind: str, here: Path) -> None:
    data = write_input(kind, TEMPERATURE, here / "in").read_bytes()
    process = start("run", "q.sql", "-i", "temperature=-", "-i", "humidity=h.parquet", stdin=subprocess.PIPE)
    code, out, err = finish(process, data)
    assert code == 0, err
    assert rows_of(out) == expected_rows()


def test_errors_in_standard_input_say_so(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    code, out, err = finish(process, b"ts,location,value\n1,2,3\n2,x,3\n")
    assert (code, len(out.splitlines())) == (4, 1)
    assert err == "Error: Expected BIGINT in column `location`, found `x`, in `standard input`, row 2\n"
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.DEVNULL)
    assert finish(process)[2] == "Error: Expected rows in `standard input`, found no bytes at all\n"


def test_results_come_as_standard_input_does(here: Path) -> None:
    process = start("run", "q.sql", "-q", "-i", "temperature=-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"ts,location,value\n")
    for second in range(3):
        process.stdin.write(f"{START_US + second * 1_000_000},1,5\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], 60)
        assert ready
        assert json.loads(process.stdout.readline())["query"] == "cold"
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    (here / "all.sql").write_text(SQL.replace("value < 12", "value < 1000"))
    pq.write_table(make_stream(400_000, 3), here / "many.parquet")
    process = start("run", "all.sql", "-q", "-i", "temperature=many.parquet")
    assert process.stdout is not None
    assert process.stderr is not None
    assert b'"query": "cold"' in process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def run_on_terminal(*words: str) -> tuple[int, str]:
    """The command with standard error on a terminal of its own; what it showed there."""
    shown, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(shown, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(shown)
    return process.wait(60), b"".join(parts).decode()


def test_a_bar_on_a_terminal(here: Path) -> None:
    code, shown = run_on_terminal("run", "q.sql", *INPUTS, "--speed", "30x")
    assert code == 0
    assert re.search(r"[\d,]+ rows, [\d,]+/s", shown)
    assert "2016-10-01 12:00:" in shown
    shares = re.findall(
        r"(\d+)%[^\d\r][^\r]*?2016-10-01 12:00:(\d\d)", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    )
    assert len(shares) > 5
    assert all(abs(int(percent) - int(seconds) / 0.6) < 12 for percent, seconds in shares), shares
    code, shown = run_on_terminal("run", "q.sql", *INPUTS, "--speed", "60x", "-q")
    assert (code, shown) == (0, "")


def test_no_bar_in_a_pipe(here: Path) -> None:
    code, _, err = finish(start("run", "q.sql", *INPUTS, "--speed", "60x"))
    assert code == 0
    assert "\x1b" not in err
    assert "\r" not in err
