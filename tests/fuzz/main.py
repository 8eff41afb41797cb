"""python -m fuzz.main --draws 20000 --seed 1: draws scripts until one fails, and writes that as small as it
gets. Draw n has seed + n, so any of them comes again by itself with --draws 1."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .draw import draw_script
from .drive import Drive
from .judge import Judge
from .script import Script
from .shrink import shrink, write

INSTANTS = 3
MANY_INSTANTS = 50
"""Looked at where a script is known to fail."""


@dataclass
class Tally:
    """What many draws have come to."""

    draws: int = 0
    queries: int = 0
    answers: int = 0
    failed: list[int] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = f"{self.draws:,} draws, {self.queries:,} queries, {self.answers:,} answers compared"
        return f"{counts}, {len(self.failed)} failed"


def attempt(script: Script, instants: int = INSTANTS, tally: Tally | None = None) -> str | None:
    """What is wrong, if anything."""
    judge, drive, wrong = Judge(script.seed, instants), None, None
    try:
        drive = Drive(script)
        drive.run(judge)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.name}, line {where.lineno} of {Path(where.filename).name}"
        wrong = f"{type(error).__name__}: {error} ({place})"
    if tally is not None:
        tally.draws += 1
        tally.answers += judge.looked
        if drive is not None:
            tally.queries += drive.started
            tally.refused.update(drive.refused)
        if wrong is not None:
            tally.failed.append(script.seed)
    return wrong


def try_many(first: int, draws: int, most: int = 1, shrinking_s: float = 60.0) -> Tally:
    """So many draws from a seed on, until so many have failed, which are written down."""
    tally, began = Tally(), time.monotonic()
    for seed in range(first, first + draws):
        script = draw_script(seed)
        wrong = attempt(script, tally=tally)
        if tally.draws % 100 == 0:
            gc.collect()
        if tally.draws % 500 == 0:
            print(f"{tally}, {time.monotonic() - began:.0f} s", flush=True)
        if wrong is not None:
            print(f"\nseed {seed}: {wrong}", flush=True)
            if shrinking_s:
                print(write(shrink(script, shrinking_s, fails), fails), flush=True)
            if len(tally.failed) == most:
                break
    return tally


def fails(script: Script) -> str | None:
    return attempt(script, MANY_INSTANTS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first draw")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to make a failure small")
    asked = parser.parse_args()
    os.environ["PENSTOCK_HOME"] = tempfile.mkdtemp(prefix="penstock-fuzz-")
    gc.disable()  # it walks over all that is loaded again and again
    began = time.monotonic()
    tally = try_many(asked.seed, asked.draws, asked.failures, asked.shrink)
    print(f"{tally}, from seed {asked.seed}, {time.monotonic() - began:.0f} s")
    for text, count in tally.refused.most_common(5):
        print(f"  refused {count} times: {text[:150]}")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
