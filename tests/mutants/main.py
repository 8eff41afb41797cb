"""A sample of mutants: each is one edit, tried in a process of its own by the tests that run the function.

    python -m mutants.main [--sample 40] [--seed 1] [--only engine/operators/tally.py] [--seconds 60]

The processes are copies (fork) of one that has everything loaded, and only the function's code object is
exchanged: most mutants are found within a second or two.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from types import CodeType, FunctionType, ModuleType

import pytest

from .edits import Edit, edited, edits_of

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".mutants"
EXPLAINED = Path(__file__).parent / "explained.txt"
TARGETS = (
    "engine/operators/*.py", "engine/indexes/*.py", "engine/queue.py", "engine/query_index.py",
    "engine/member_index.py", "engine/member_sets.py", "engine/cell_counts.py", "engine/coverage.py",
    "engine/lineage.py", "engine/dimension.py", "engine/roster.py", "engine/known_tags.py",
    "engine/bag.py", "engine/groups.py", "engine/expiry_queue.py", "engine/hops.py", "engine/panes.py",
    "engine/reorder.py", "engine/ingest.py", "engine/known_content.py", "engine/contents.py",
    "engine/kernels/*.py",
)  # fmt: skip
LEFT_OUT = ("spark", "cli_", "demo", "bench", "documents", "layout", "startup", "files_", "calibrate")
"""Tests that start other processes or look at nothing here."""
FOUND, SURVIVED, TOO_LONG, NOT_RUN = "found", "survived", "found (took too long)", "no test runs it"


def main() -> None:
    asked = read_arguments()
    WORK.mkdir(exist_ok=True)
    tests = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if not any(word in path.name for word in LEFT_OUT) and any(map(path.match, asked.tests))
    ]
    calls = learn_calls(tests, asked.learn)
    explained = read_explained()
    edits = sample(asked.only or TARGETS, asked.sample, asked.seed)[asked.first - 1 :]
    if asked.again is not None:
        edits = survivors(asked.again)
    load(tests)
    counts: Counter[str] = Counter()
    for number, edit in enumerate(edits, asked.first):
        outcome, took = "explained", 0.0
        if edit.name not in explained:
            outcome, took = try_edit(edit, calls, asked.seconds)
        counts[outcome] += 1
        print(f"{number:4} {outcome:22} {took:5.1f} s  {place_of(edit)}")
        sys.stdout.flush()
    print(f"{len(edits)} mutants: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    sys.exit(1 if counts[SURVIVED] or counts[NOT_RUN] else 0)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which ones")
    parser.add_argument("--first", type=int, default=1, help="the number of the first to be tried")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for each")
    parser.add_argument("--only", nargs="*", help="files, or patterns of them")
    parser.add_argument("--again", type=Path, help="what an earlier run wrote: those that survived")
    parser.add_argument("--tests", nargs="*", default=["test_*.py"], help="files of tests that try them")
    parser.add_argument("--learn", action="store_true", help="find out anew which tests run what")
    return parser.parse_args()


def learn_calls(tests: list[str], anew: bool) -> dict[str, dict[str, float]]:
    """Which tests run what: takes some minutes, and is kept for each file of tests until that is edited."""
    folder = WORK / "calls"
    folder.mkdir(exist_ok=True)
    known = {test: folder / f"{Path(test).stem}.json" for test in tests}
    missing = [test for test, path in known.items() if anew or is_older(path, ROOT / test)]
    if missing:
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
    names = {place for said, place in lines if SURVIVED in said or NOT_RUN in said}
    files = sorted({place.split(":", 1)[0] for place in names})
    return [edit for file in files for edit in edits_of(ROOT / file, file) if place_of(edit) in names]


def place_of(edit: Edit) -> str:
    return f"{edit.file}:{edit.line} {edit.name.split(' ', 1)[1]}"


def load(tests: list[str]) -> None:
    """Everything that the tests need is in memory before there are copies."""
    os.environ["PENSTOCK_DRAWS"] = "fixed"
    os.chdir(ROOT)
    with open(os.devnull, "w") as nowhere:
        out, sys.stdout = sys.stdout, nowhere
        try:
            pytest.main(["--collect-only", "-q", *tests])
        finally:
            sys.stdout = out


def try_edit(edit: Edit, calls: dict[str, dict[str, float]], seconds: float) -> tuple[str, float]:
    """What the tests say to it, and how long they took."""
    live = live_functions(edit.file)
    first = {line: function for line, function in live.items() if function.__qualname__ == edit.function}
    tests = calls.get(f"{edit.file}:{edit.function}", {})
    if not tests:
        return NOT_RUN, 0.0
    chosen, budget = [], seconds
    for test, took in sorted(tests.items(), key=lambda item: item[1]):
        if chosen and took > budget:
            break
        chosen.append(test)
        budget -= took
    began = time.perf_counter()
    child = os.fork()
    if not child:
        signal.alarm(round(4 * seconds + 60))  # whatever becomes of who waits for it
        run_child(edit, first, chosen)
    outcome = wait_for(child, 3 * seconds + 30)
    return outcome, time.perf_counter() - began


def live_functions(file: str) -> dict[int, FunctionType]:
    """The functions of a module by the line they begin at."""
    name = "penstock." + file.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    found: dict[int, FunctionType] = {}

    def collect(holder: ModuleType | type) -> None:
        for value in vars(holder).values():
            value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
            value = getattr(value, "func", value)
            if isinstance(value, type) and value.__module__ == name:
                collect(value)
            elif isinstance(value, FunctionType) and value.__module__ == name:
                found[value.__code__.co_firstlineno] = value

    collect(module)
    return found


def run_child(edit: Edit, functions: dict[int, FunctionType], tests: list[str]) -> None:
    status = 70
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        path = ROOT / edit.file
        for code in codes(compile(edited(path, edit.number), str(path), "exec")):
            function = functions.get(code.co_firstlineno)
            if function is not None and code.co_qualname == edit.function:
                function.__code__ = code
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(status)


def codes(code: CodeType) -> list[CodeType]:
    found = [code]
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found += codes(one)
    return found


def wait_for(child: int, seconds: float) -> str:
    """Until the copy has ended; one that goes on for ever has been found."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return SURVIVED if status == 0 else FOUND
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TOO_LONG


if __name__ == "__main__":
    main()
