"""A sample of mutants: each is one edit, tried in a process of its own by the tests that run the function.

    python -m mutants.main [--sample 40] [--seed 1] [--only engine/changes/set_operation.py] [--seconds 60]

Ends with status 1 if one has survived that explained.txt does not name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

import pytest

from .copies import FOUND, NOT_RUN, NOT_TRIED, ROOT, SURVIVED, Copies
from .edits import Edit, edits_of

WORK = ROOT / ".mutants"
EXPLAINED = Path(__file__).parent / "explained.txt"
TARGETS = (
    "engine/selects/*.py", "engine/windows/*.py", "engine/joins/*.py", "engine/many_joins/*.py",
    "engine/chain/*.py", "engine/join_forms/*.py", "engine/changes/*.py",
    "engine/hopping/*.py", "engine/panes/*.py", "engine/shelves/*.py", "engine/members/*.py",
    "engine/indexes/*.py", "engine/keys/*.py", "engine/kernels/**/*.py", "engine/flow/queue.py",
    "engine/rows/expiry_queue.py", "engine/rows/hops.py", "engine/intake/reorder.py",
    "engine/intake/ingest.py", "engine/plan/tellable.py", "engine/running/contents.py",
)  # fmt: skip
LEFT_OUT = (
    "spark", "cli_", "demo", "bench", "documents", "layout", "startup", "files_", "calibrate", "functions_",
    "bind", "parse",
)  # fmt: skip
"""Tests that start other processes or look at nothing here."""
LEARNED = ("missing", "anew", "nothing")
LEFT = (SURVIVED, NOT_RUN, NOT_TRIED)
"""Outcomes that somebody has to look at."""


def main() -> None:
    asked = read_arguments()
    WORK.mkdir(exist_ok=True)
    tests = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not any(word in path.name for word in LEFT_OUT) and any(map(path.match, asked.tests))
    ]
    calls = learn_calls(tests, asked.learn)
    explained = read_explained()
    edits = sample(asked.only or TARGETS, asked.sample, asked.seed)[asked.first - 1 :]
    if asked.again is not None:
        edits = survivors(asked.again)
    counts: Counter[str] = Counter()

    def try_all(items: dict[str, pytest.Item]) -> None:
        copies = Copies(items, calls, asked.seconds)
        for number, edit in enumerate(edits, asked.first):
            outcome, test, began = "explained", "", time.perf_counter()
            if edit.name not in explained:
                outcome, test = copies.try_edit(edit)
            counts[outcome] += 1
            took, by = time.perf_counter() - began, f"  by {test}" if FOUND in outcome else ""
            print(f"{number:4} {outcome:22} {took:5.1f} s  {place_of(edit)}{by}", file=out, flush=True)

    out = sys.stdout
    with_loaded(tests, try_all)
    print(f"{len(edits)} mutants: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    sys.exit(1 if any(counts[one] for one in LEFT) else 0)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which ones")
    parser.add_argument("--first", type=int, default=1, help="the number of the first to be tried")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for each")
    parser.add_argument("--only", nargs="*", help="files, or patterns of them")
    parser.add_argument("--again", type=Path, help="what an earlier run wrote: those that survived")
    parser.add_argument("--tests", nargs="*", default=["test_*.py"], help="files of tests that try them")
    parser.add_argument(
        "--learn", choices=("missing", "anew", "nothing"), default="missing", help="which tests run what"
    )
    return parser.parse_args()


def learn_calls(tests: list[str], which: str) -> dict[str, dict[str, float]]:
    """Which tests run what: takes some minutes, and is kept for each file of tests until that is edited."""
    folder = WORK / "calls"
    folder.mkdir(exist_ok=True)
    known = {test: folder / f"{Path(test).stem}.json" for test in tests}
    missing = [test for test, path in known.items() if which == "anew" or is_older(path, ROOT / test)]
    if missing and which != "nothing":
        plugin = ["-p", "mutants.who_calls", "--calls", str(folder)]
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *plugin, *missing]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PENSTOCK_DRAWS": "fixed"}, check=False)
        if done.returncode not in (0, 1):  # 1: tests that fail have been left out
            sys.exit(done.returncode)
    found: dict[str, dict[str, float]] = {}
    for path in known.values():
        for function, took in (json.loads(path.read_text()) if path.exists() else {}).items():
            found.setdefault(function, {}).update(took)
    return found


def is_older(path: Path, than: Path) -> bool:
    return not path.exists() or path.stat().st_mtime < than.stat().st_mtime


def read_explained() -> set[str]:
    """Names of edits that change nothing that matters; a line below each says why."""
    lines = EXPLAINED.read_text().splitlines() if EXPLAINED.exists() else []
    return {line for line in lines if line and not line.startswith((" ", "#"))}


def sample(patterns: tuple[str, ...], size: int, seed: int) -> list[Edit]:
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    edits = [edit for path in paths for edit in edits_of(path, str(path.relative_to(ROOT)))]
    return Random(seed).sample(edits, min(size, len(edits)))


def survivors(log: Path) -> list[Edit]:
    """Those that no test found in an earlier run, as far as they can still be made."""
    lines = [line.split(" s  ", 1) for line in log.read_text().splitlines() if " s  " in line]
    names = {place for said, place in lines if any(one in said for one in LEFT)}
    files = sorted({place.split(":", 1)[0] for place in names})
    return [edit for file in files for edit in edits_of(ROOT / file, file) if place_of(edit) in names]


def place_of(edit: Edit) -> str:
    return f"{edit.file}:{edit.line} {edit.name.split(' ', 1)[1]}"


def with_loaded(tests: list[str], work: Callable[[dict[str, pytest.Item]], None]) -> None:
    """Everything that the tests need is in memory, and they are found, before there are copies."""
    os.environ["PENSTOCK_DRAWS"] = "quick"
    os.chdir(ROOT)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        asked = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", *tests]
        done = pytest.main(asked, plugins=[Loop(work)])
    if done:
        sys.exit(f"expected to load the tests, found that pytest ended with `{done!r}`")


class Loop:
    """Work is done where pytest would run the tests."""

    def __init__(self, work: Callable[[dict[str, pytest.Item]], None]) -> None:
        self._work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._work({item.nodeid: item for item in session.items})
        return True


if __name__ == "__main__":
    main()
