"""Rounds of all drawn tests, each with another seed, until time is up.

python -m draws.main [--minutes 10] [--times 1] [--seed 1] [tests/changes/test_tally.py ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from .named_cases import NAMED, NamedCase, read_cases

ROOT = Path(__file__).parents[2]


def main() -> None:
    asked = read_arguments()
    until = time.time() + 60 * asked.minutes
    seeds = Random(asked.seed)
    before, rounds = read_cases(asked.named), 0
    while time.time() < until:
        rounds += 1
        new = found_since(before, asked.named)
        run_round(asked, seeds.randrange(1 << 30), until, {case.test for case in new})
    new = found_since(before, asked.named)
    for case in new:
        print(f"{case.test}\n    {case.wrong}")
    print(f"{rounds} rounds, {len(new)} new cases" + (f" in {asked.named}" if new else ""))
    sys.exit(1 if new else 0)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="draws")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files of tests; all by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--times", type=int, default=1, help="as many draws as a test makes otherwise")
    parser.add_argument("--seed", type=int, default=None, help="of the first round's seed")
    parser.add_argument("--named", type=Path, default=NAMED, help="where new cases are written")
    return parser.parse_args()


def found_since(before: list[NamedCase], path: Path) -> list[NamedCase]:
    return [case for case in read_cases(path) if case not in before]


def run_round(asked: argparse.Namespace, seed: int, until: float, failed: set[str]) -> None:
    """Every drawn test once, without those that have failed already."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "draws.note_failures"]
    command += [f"--hypothesis-seed={seed}", f"--until={until}", f"--times={asked.times}"]
    command += [f"--named={asked.named}", *asked.tests, *(f"--without={test}" for test in sorted(failed))]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PENSTOCK_DRAWS": "fresh"}, check=False)
    if done.returncode not in (
        0,
        1,
        2,
        5,
    ):  # 1: cases were found, 2: time is up, 5: all drawn tests have failed
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
