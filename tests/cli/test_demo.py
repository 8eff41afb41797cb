"""The demo is what a newcomer sees first: it must work, be true, be quick, and read well in a pipe."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from rich.console import Console

from penstock.cli.demo import command_line
from penstock.cli.demo_data import QUERIES, write_demo
from penstock.cli.demo_page import Page
from penstock.cli.main import main
from penstock.compile_notice import compile_notice

COMMAND = [sys.executable, "-m", "penstock.cli"]
WINDOWS_S = {"dry_heat": 5, "fire_risk": 10, "siren": 15}
DEGREES = {"dry_heat": 38, "fire_risk": 40, "siren": 42}
PER_PERCENT = {"dry_heat": 2, "fire_risk": 3, "siren": 4}


def counts_shown(text: str) -> dict[str, int]:
    """The last count shown of each query."""
    found = {}
    for name in WINDOWS_S:
        counts = re.findall(rf"{name}\W+([\d,]+) results", text)
        found[name] = int(counts[-1].replace(",", ""))
    return found


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder and what it printed into a pipe."""
    folder = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    done = subprocess.run([*COMMAND, "demo"], cwd=folder, capture_output=True, text=True, check=True)
    assert time.monotonic() - began < 60
    return folder, done.stdout


def test_the_page_in_a_pipe(piped: tuple[Path, str]) -> None:
    folder, page = piped
    assert "\x1b" not in page
    assert "\r" not in page
    assert sorted(os.listdir(folder / "penstock-demo")) == [
        "humidity.csv",
        "queries.sql",
        "temperature.parquet",
    ]
    assert QUERIES.strip() in page
    assert re.search(r"1,080,000 rows through 3 queries in \d+\.\d\d s, .*: [\d,]+ rows/s", page)
    assert all(count > 100 for count in counts_shown(page).values())


def test_the_printed_command_gives_the_printed_results(piped: tuple[Path, str]) -> None:
    folder, page = piped
    text = page.partition("Now you")[2].partition("\n\n")[0].partition("\n")[2].partition("\n")[2]
    assert len(text.splitlines()) == 3
    assert shlex.split(text)[:4] == [*COMMAND, "run"]
    done = subprocess.run(text, shell=True, cwd=folder, capture_output=True, text=True, check=True)
    found = Counter(json.loads(row)["query"] for row in done.stdout.splitlines())
    assert found == counts_shown(page)


def test_the_printed_plan_is_what_explain_says(piped: tuple[Path, str]) -> None:
    folder, page = piped
    words = ["explain", "penstock-demo/queries.sql", "-i", "temperature=penstock-demo/temperature.parquet"]
    words += ["-i", "humidity=penstock-demo/humidity.csv"]
    done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in page


def test_the_counts_are_right(piped: tuple[Path, str]) -> None:
    """Against DuckDB over the demo's files."""
    folder, page = piped
    with duckdb.connect() as database:
        for name, file in (("temperature", "temperature.parquet"), ("humidity", "humidity.csv")):
            database.execute(f"CREATE VIEW {name} AS FROM '{folder}/penstock-demo/{file}'")
        expected = {}
        for name, window in WINDOWS_S.items():
            row = database.execute(f"""
                SELECT count(*) FROM temperature t JOIN humidity h ON t.location = h.location
                 AND t.ts < h.ts + INTERVAL {window} SECOND AND h.ts < t.ts + INTERVAL {window} SECOND
                WHERE t.value > {DEGREES[name]} AND t.value > {PER_PERCENT[name]} * h.value""").fetchone()
            assert row is not None
            expected[name] = row[0]
    assert counts_shown(page) == expected


def most_within(times: np.ndarray, window_s: int) -> int:
    """The most of these times that are ever in a window together."""
    first = times.searchsorted(times - window_s * 1_000_000, side="right")
    return int((np.arange(len(times)) - first).max(initial=0)) + 1


def test_what_is_kept_is_what_was_needed(piped: tuple[Path, str]) -> None:
    """No more than the windows ever hold: of humidity all rows, of temperature those above a threshold."""
    folder, page = piped
    shown = r"The three share one join: it kept ([\d,]+) rows at most, three joins ([\d,]+)\."
    found = re.search(shown, page)
    assert found is not None
    shared, apart = (int(number.replace(",", "")) for number in found.groups())
    heat = pq.read_table(folder / "penstock-demo/temperature.parquet")
    degrees, hot_times = heat["value"].to_numpy(), heat["ts"].cast("int64").to_numpy()
    humid_times = pa_csv.read_csv(folder / "penstock-demo/humidity.csv")["ts"].cast("timestamp[us]")
    humid = {s: most_within(humid_times.cast("int64").to_numpy(), s) for s in WINDOWS_S.values()}
    hot = {s: most_within(hot_times[degrees > DEGREES[name]], s) for name, s in WINDOWS_S.items()}
    assert 1_200 < shared <= humid[15] + sum(hot.values())
    assert 2_400 < apart <= sum(humid.values()) + sum(hot.values())
    assert 1.8 < apart / shared < 2.2


def test_the_page_on_a_terminal(piped: tuple[Path, str], tmp_path: Path) -> None:
    """Live frames that end with the same counts."""
    shown, theirs = pty.openpty()
    began = time.monotonic()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        [*COMMAND, "demo"], cwd=tmp_path, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            parts.append(os.read(shown, 65_536))
        except OSError:  # the other end is closed
            break
        if not parts[-1]:
            break
    os.close(shown)
    assert process.wait(30) == 0
    assert time.monotonic() - began < 60
    page = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode())
    assert "\x1b[1" in b"".join(parts).decode()
    frames = [int(count.replace(",", "")) for count in re.findall(r"╭─ fire_risk  ([\d,]+) results", page)]
    assert len(frames) > 20
    assert frames == sorted(frames)
    assert counts_shown(page) == counts_shown(piped[1])
    before, _, rest = page.partition("How it is done")
    after = rest.partition("Now you")[2]
    lines = [line for part in (before, after) for line in re.split(r"[\r\n]+", part)]
    assert max(len(line.rstrip()) for line in lines if sys.executable not in line) <= 80
    assert all(line in [found.rstrip() for found in lines] for line in QUERIES.strip().splitlines())


def test_a_notice_while_the_page_draws_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    page = Page()
    page._console = Console(file=shown, force_terminal=True, width=80)
    monkeypatch.setattr(compile_notice, "count", 0)
    with page.live(["q"]) as screen:
        screen.finish(5, None)
        compile_notice._hear()
        screen.finish(6, None)
    lines = [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in re.split(r"[\r\n]+", shown.getvalue())
    ]
    assert "Compiling kernels for this machine ..." in lines
    assert any(line.startswith("6 rows") for line in lines)


@pytest.mark.parametrize("is_found", [True, False])
def test_the_command_is_named_as_it_can_be_called(
    is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "bin" / "penstock"
    started.parent.mkdir()
    started.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(started), "demo"])
    monkeypatch.setenv("PATH", str(started.parent if is_found else tmp_path))
    name = "penstock" if is_found else str(started)
    assert command_line(Path("d")).splitlines() == [
        f"{name} run d/queries.sql \\",
        "  -i temperature=d/temperature.parquet \\",
        "  -i humidity=d/humidity.csv",
    ]


def test_the_questions_fit_a_terminal() -> None:
    assert max(len(line) for line in QUERIES.splitlines()) <= 78


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text("mine")
    result = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: Expected an empty folder for the demo, found files in `{tmp_path}`; give another --dir\n"
    )
    assert os.listdir(tmp_path) == ["queries.sql"]
    assert (tmp_path / "queries.sql").read_text() == "mine"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path / "file" / "deeper")])
    assert result.exit_code == 4
    assert result.stderr.startswith(f"Error: Expected to write `{tmp_path}/file/deeper`, found: ")


def test_the_data_follow_the_seed(tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        assert write_demo(tmp_path / name, seed) == 1_080_000
        found.append(pq.read_table(tmp_path / name / "temperature.parquet"))
    assert found[0] == found[1]
    assert found[0] != found[2]
    times = found[0]["ts"].to_numpy()
    assert bool((times[1:] >= times[:-1]).all())
