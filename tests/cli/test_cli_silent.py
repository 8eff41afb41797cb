"""Inputs that come as they are written: one that is silent holds only who reads it; pipes never deadlock."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_help import (
    COMMAND,
    HUMIDITY,
    SQL,
    TEMPERATURE,
    expected_rows,
    finish,
    folder_with_inputs,  # noqa: F401
    rows_of,
    start,
    write_input,
)

from penstock.connectors import live
from penstock.connectors.live import Arrivals, LiveInput, is_live
from penstock.connectors.merge import Feed, Turns, read_in_time_order

SOON = 60  # seconds; nothing here takes as long, unless it hangs
FEEDS = ["-i", "temperature=t.pipe", "-i", "humidity=h.pipe"]
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])


@pytest.fixture(name="pipes")
def folder_with_pipes(here: Path) -> Path:
    """Both streams as CSV, and a named pipe for each."""
    for name, table in (("t", TEMPERATURE), ("h", HUMIDITY)):
        write_input("csv", table, here / name)
        os.mkfifo(here / f"{name}.pipe")
    return here


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def write_one_after_the_other(folder: Path, names: str, repeat: int = 1) -> threading.Thread:
    """One writer, who opens a pipe, fills and closes it, and only then goes to the next."""

    def write() -> None:
        for name in names:
            data = (folder / f"{name}.csv").read_bytes()
            header, _, rows = data.partition(b"\n")
            with open(folder / f"{name}.pipe", "wb") as pipe:
                pipe.write(header + b"\n" + rows * repeat)

    return in_thread(write)


@pytest.mark.parametrize("names", ["th", "ht"])
@pytest.mark.parametrize("feeds", [FEEDS, [*FEEDS[2:], *FEEDS[:2]]])
def test_two_pipes_may_be_written_one_after_the_other(names: str, feeds: list[str], pipes: Path) -> None:
    """Whichever is read first, the other is what its writer waits to be read: it fits into no pipe."""
    large = pa.concat_tables([TEMPERATURE] * 60).sort_by("ts")
    write_input("csv", large, pipes / "t")
    assert (pipes / "t.csv").stat().st_size > 2 << 20
    writer = write_one_after_the_other(pipes, names)
    code, out, err = finish(start("run", "q.sql", "-q", *feeds))
    assert code == 0, err
    writer.join(SOON)
    found = rows_of(out)
    expected = expected_rows()
    assert {name: len(rows) for name, rows in found.items()} == {
        name: 60 * len(rows) for name, rows in expected.items()
    }
    assert {name: set(rows) for name, rows in found.items()} == {
        name: set(rows) for name, rows in expected.items()
    }


def test_two_pipes_of_one_stream_and_a_table(pipes: Path) -> None:
    (pipes / "few.sql").write_text("""
        CREATE STREAM temperature (ts TIMESTAMP, location INT, value DOUBLE);
        CREATE TABLE humidity (location INT, value DOUBLE);
        CREATE QUERY q AS SELECT t.location FROM temperature AS t JOIN humidity AS h USING (location)
    """)
    (pipes / "h.csv").write_text("location,value\n3,1\n")
    os.mkfifo(pipes / "other.pipe")
    write_input("csv", TEMPERATURE, pipes / "other")

    def write() -> None:
        write_one_after_the_other(pipes, "t").join(SOON)
        with open(pipes / "other.pipe", "wb") as pipe:
            pipe.write((pipes / "other.csv").read_bytes())
        write_one_after_the_other(pipes, "h").join(SOON)

    in_thread(write)
    code, out, err = finish(start("run", "few.sql", "-q", "-i", "temperature=other.pipe", *FEEDS))
    assert code == 0, err
    assert len(out.splitlines()) == 2 * TEMPERATURE["location"].to_pylist().count(3)


class Lines:
    """What a process says, as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.come: list[str] = []
        self._thread = in_thread(self._read)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.come.append(line.decode())

    def end(self) -> tuple[int, str]:
        """The exit code and what was said on standard error."""
        self._thread.join(SOON)
        assert self.process.stderr is not None
        return self.process.wait(SOON), self.process.stderr.read().decode()


@pytest.mark.parametrize("other", ["t.parquet", "t.pipe", "-"])
def test_a_silent_input_holds_only_the_queries_that_read_it(other: str, pipes: Path) -> None:
    """`cold` reads temperature alone: it has all its results while humidity is open and silent."""
    if other == "t.pipe":
        write_one_after_the_other(pipes, "t")
    stdin = subprocess.PIPE if other == "-" else subprocess.DEVNULL
    words = ["run", "q.sql", "-q", "-i", f"temperature={other}", "-i", "humidity=h.pipe"]
    process = start(*words, stdin=stdin)
    if process.stdin is not None:
        process.stdin.write((pipes / "t.csv").read_bytes())
        process.stdin.close()
    lines = Lines(process)
    silent = os.open(pipes / "h.pipe", os.O_WRONLY)
    expected = expected_rows()
    until(lambda: len(lines.come) >= len(expected["cold"]))
    assert rows_of("".join(lines.come)) == {"cold": expected["cold"], "hot": []}
    os.write(silent, (pipes / "h.csv").read_bytes())
    os.close(silent)
    assert lines.end() == (0, "")
    assert rows_of("".join(lines.come)) == expected


def test_a_stream_that_has_ended_holds_nobody_either(pipes: Path) -> None:
    """`hot` reads two files, one of which ends soon; a third stream is silent."""
    door = "; CREATE STREAM door (ts TIMESTAMP, open BOOLEAN); CREATE QUERY opened AS SELECT open FROM door"
    (pipes / "q.sql").write_text(SQL.rstrip().rstrip(";") + door)
    write_input("parquet", HUMIDITY.slice(0, 300), pipes / "h")
    inputs = ["-i", "temperature=t.parquet", "-i", "humidity=h.parquet"]
    expected = finish(start("run", "q.sql", *inputs, "-q"))[1].splitlines(keepends=True)
    lines = Lines(start("run", "q.sql", *inputs, "-i", "door=h.pipe", "-q"))
    silent = os.open(pipes / "h.pipe", os.O_WRONLY)
    until(lambda: len(lines.come) >= len(expected))
    assert sorted(lines.come) == sorted(expected)
    os.write(silent, b"ts,open\n1475323200000000,true\n")
    os.close(silent)
    assert lines.end() == (0, "")
    assert len(lines.come) == len(expected) + 1


def test_what_is_wrong_with_a_live_input_is_said_as_of_any_other(pipes: Path) -> None:
    in_thread(lambda: (pipes / "t.pipe").write_text("ts,location,value\n1,1,x\n"))
    process = start("run", "q.sql", "-q", *FEEDS)
    silent = os.open(pipes / "h.pipe", os.O_WRONLY)
    code, out, err = finish(process)
    os.close(silent)
    assert (code, out) == (4, "")
    assert err == "Error: Expected DOUBLE in column `value`, found `x`, in `t.pipe`, row 1\n"


def test_ctrl_c_while_all_is_silent(pipes: Path) -> None:
    process = subprocess.Popen([*COMMAND, "run", "q.sql", "-q", *FEEDS], stderr=subprocess.PIPE)
    silent = [os.open(pipes / name, os.O_WRONLY) for name in ("t.pipe", "h.pipe")]  # they are being read
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SOON)[1] == b"Interrupted\n"
    assert process.returncode == 130
    for handle in silent:
        os.close(handle)


def test_a_file_is_a_file_however_it_is_named(pipes: Path) -> None:
    assert [is_live(name) for name in ("t.pipe", "t.csv", "nothing", ".")] == [True, False, False, False]
    os.symlink("t.pipe", "link.csv")
    assert is_live("link.csv")
    with open("t.csv", "rb") as file:
        assert not is_live(f"/dev/fd/{file.fileno()}")


# -- who is read on ---------------------------------------------------------------------------------------


class Stub:
    """A feed that is ready or not, as a test says."""

    def __init__(self, stream: str, arrivals: Arrivals, is_ready: bool, is_live: bool) -> None:
        self.stream, self.arrivals, self.is_ready, self.is_live = stream, arrivals, is_ready, is_live


def turns_of(feeds: list[Stub], *queries: str, patience_s: float = 0.05) -> Turns:
    return Turns(feeds, [frozenset(query) for query in queries], patience_s)  # type: ignore[arg-type]


def test_a_file_is_read_on_only_for_who_needs_nothing_that_is_silent() -> None:
    arrivals = Arrivals()
    silent, file, pipe = (
        Stub("s", arrivals, False, True),
        Stub("f", arrivals, True, False),
        Stub("p", arrivals, True, True),
    )
    turns = turns_of([silent, file, pipe], "sf", "sp")
    assert [turns.next([0, 1, 2]) for _ in range(3)] == [None, 2, 2], "its writer may wait for it"
    turns = turns_of([silent, file, pipe], "sf", "f")
    assert [turns.next([0, 1, 2]) for _ in range(3)] == [None, 1, 1]
    turns = turns_of([silent, file], "sf", "s")
    timer = threading.Timer(0.3, lambda: setattr(silent, "is_ready", True))
    timer.start()
    assert [turns.next([0, 1]) for _ in range(2)] == [None, 0], "all wait for the silent one"
    assert arrivals.is_starving is False
    assert turns.silent == {0}
    silent.is_ready = True
    assert turns.next([0, 1]) == 0
    assert not turns.silent
    arrivals.close()


def test_who_is_late_by_less_than_the_patience_is_waited_for() -> None:
    arrivals = Arrivals()
    silent, pipe = Stub("s", arrivals, False, True), Stub("p", arrivals, True, True)
    turns = turns_of([silent, pipe], "s", "p", patience_s=SOON)
    threading.Timer(0.1, lambda: setattr(silent, "is_ready", True)).start()
    assert turns.next([0, 1]) == 0
    silent.is_ready = False
    turns = turns_of([silent, pipe], "s", "p")
    assert [turns.next([0, 1]) for _ in range(2)] == [None, 1]
    began = time.monotonic()
    turns._patience_s = SOON
    assert turns.next([0, 1]) == 1, "it is known to be silent"
    assert time.monotonic() - began < SOON / 2
    arrivals.close()


def test_so_much_waits_of_an_input_and_more_only_if_all_starve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "AHEAD_BYTES", 1_000)
    monkeypatch.setattr("penstock.connectors.blocks.BLOCK_BYTES", 100)
    os.mkfifo(tmp_path / "pipe")
    arrivals = Arrivals()
    feed = Feed("s", [[str(tmp_path / "pipe")]], SCHEMA, "ts", arrivals=arrivals)
    (one,) = feed.inputs
    assert isinstance(one, LiveInput)

    def write() -> None:
        with open(tmp_path / "pipe", "w") as pipe:
            pipe.write("ts,k\n" + "".join(f"{n},1\n" for n in range(2_000)))

    in_thread(write)
    until(lambda: one._held_bytes > 1_000)
    time.sleep(0.2)
    held = one._held_bytes
    assert held < 3_000
    with arrivals.changed:
        arrivals.starve()
    until(lambda: one._held_bytes > 10 * held)
    found = [step.batch for step in read_in_time_order([feed]) if step.batch is not None]
    assert sum(map(len, found)) == 2_000
    assert one._held_bytes == 0
    feed.close()
    assert not any(thread.is_alive() for thread in arrivals._threads)


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    arrivals = Arrivals()
    feed = Feed("s", [[str(tmp_path / "pipe")]] * 2, SCHEMA, "ts", arrivals=arrivals)
    assert len(arrivals._threads) == 2
    feed.close()
    assert not any(thread.is_alive() for thread in arrivals._threads)


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["t.pipe", "-"])
def test_results_come_to_the_disk_while_the_only_input_is_silent(name: str, pipes: Path) -> None:
    """Who is killed then has lost nothing: Parquet, which is on the disk by segments alone."""
    (pipes / "all.sql").write_text("""
        CREATE STREAM temperature (ts TIMESTAMP, location INT, value DOUBLE);
        CREATE QUERY q AS SELECT location FROM temperature
    """)
    asked = ["-i", f"temperature={name}", "-o", "out", "--flush-every", "2s"]
    run = subprocess.Popen(
        [*COMMAND, "run", "all.sql", "-q", *asked],
        cwd=pipes,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert run.stdin is not None
    target = run.stdin if name == "-" else open(pipes / name, "wb")  # noqa: SIM115
    with target as pipe:
        pipe.write(b"ts,location,value\n1,7,0.5\n2,8,0.5\n")
        pipe.flush()
        segment = pipes / "out" / "q" / "000001.parquet"
        until(segment.exists)
        run.kill()
        run.wait(SOON)
    assert pq.read_table(segment)["location"].to_pylist() == [7, 8]


def test_live_inputs_tell_when_something_has_come(pipes: Path) -> None:
    from penstock.connectors.open_inputs import find_live

    assert find_live({"temperature": [["t.csv"]], "humidity": [["h.csv"]]}) is None
    for files in ({"temperature": [["t.pipe"]]}, {"temperature": [["t.csv"]], "humidity": [["h.pipe"]]}):
        found = find_live(files)
        assert found is not None
        found.close()
