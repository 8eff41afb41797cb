"""How far one has to walk to follow a push: the files it passes, and how often it goes from one to another.

    python -m penstock.bench.walk        (make walk)

A profile hook counts calls and returns. Each walk is done once before it is counted, so that what happens
once, as loading and compiling, is in none.

    push -> api.py -> turns.py -> api.py -> ingest.py ...       3 files, 3 changes so far
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import penstock

ROOT = str(Path(__file__).resolve().parents[1])
DECLARE = (
    "CREATE STREAM a (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts);"
    "CREATE STREAM b (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts)"
)
QUERIES = {
    "window join": "SELECT a.v, b.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k",
    "GROUP BY": "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM a [RANGE 5 SECONDS] GROUP BY k",
}
SECOND = 1_000_000


@dataclass
class Walk:
    """What a profile hook saw."""

    files: Counter[str] = field(default_factory=Counter)
    """Calls of functions, by file."""
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """From which file to which control passed."""
    _at: str = ""

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """For sys.setprofile. C functions are where Python called them."""
        if event == "call":
            self._go(frame.f_code.co_filename)
            if self._at:  # else nothing of ours has been called yet
                self.files[self._at] += 1
        elif event == "return" and frame.f_back is not None:
            self._go(frame.f_back.f_code.co_filename)

    def _go(self, name: str) -> None:
        file = "" if name.startswith("<") else str(Path(name).resolve())
        if not file.startswith(ROOT) or "/bench/" in file or ".venv" in file:
            return
        file = file[len(ROOT) + 1 :]
        if self._at and file != self._at:
            self.changes[self._at, file] += 1
        self._at = file


def walk(work: Callable[[], object]) -> Walk:
    """What is passed while something is done."""
    found = Walk()
    sys.setprofile(found.watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def push_walk(sql: str) -> Walk:
    """A push to each stream that the query reads, and its results."""
    engine = penstock.Engine()
    engine.execute(DECLARE)
    query = engine.query(sql, name="q")
    streams = [name for name in ("a", "b") if f" {name} [" in sql]

    def push(second: int) -> None:
        for number, name in enumerate(streams):
            ts = second * SECOND + number
            engine.push(name, {"ts": [ts, ts], "k": [1, 2], "v": [1.0, 2.0]})
        query.results()

    for second in range(1, 20):
        push(second)
    return walk(lambda: push(20))


def plan_walk(sql: str) -> Walk:
    """From the text of a query to operators at work."""
    engine = penstock.Engine()
    engine.execute(DECLARE)
    engine.query(sql, name="first").drop()
    return walk(lambda: engine.query(sql, name="q"))


def walks() -> dict[str, Walk]:
    """Every walk that is counted, by name."""
    found = {f"push: {name}": push_walk(sql) for name, sql in QUERIES.items()}
    found["text to operators"] = plan_walk(QUERIES["window join"])
    return found


def main() -> None:
    most = 5
    for name, found in walks().items():
        print(f"{name}: {len(found.files)} files, {sum(found.changes.values())} changes of file")
        for (one, two), times in back_and_forth(found)[:most]:
            print(f"    {times:4} times between {one} and {two}")
    if "--files" in sys.argv[1:]:
        for name, found in walks().items():
            print(f"\n{name}")
            for file, calls in found.files.most_common():
                print(f"    {calls:4} calls in {file}")


def back_and_forth(found: Walk) -> list[tuple[tuple[str, str], int]]:
    """Pairs of files by how often control passes between them, most first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for (one, two), times in found.changes.items():
        pairs[min(one, two), max(one, two)] += times
    return pairs.most_common()


if __name__ == "__main__":
    main()
