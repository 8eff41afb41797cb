"""What rows cost in memory, and that a long stream does not cost more than a short one.

The resident size is watched in a process of its own, `python -m penstock.bench.memory ROWS WINDOWS`: in one
that has done other work, what that work gave back would hide growth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.engine.indexes.build import INDEX_KINDS

from .drive import Feed, push_all, running_join, start
from .outcome import Outcome, Target
from .streams import cut_by_rows, poisson_stream

MEGABYTE = 1 << 20
GROUP = "memory"
WARM_WINDOWS = 20  # until buffers have found their size
FLAT_MB = Target("<=", 4)
STATM = Path("/proc/self/statm")


def bench_memory(outcome: Outcome, window_rows: int, windows: int) -> None:
    """Bytes per stored row under each index; resident size over a stream of many windows."""
    for kind in INDEX_KINDS:
        index_bytes, side_bytes = bytes_per_row(kind, window_rows)
        note = f"{side_bytes:.0f} with the stored row itself (ts, key, value)"
        outcome.add(GROUP, f"index {kind}", index_bytes, "bytes/row", note=note)
    if not STATM.exists():
        return
    command = [sys.executable, "-m", "penstock.bench.memory", str(window_rows), str(windows)]
    sizes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    warm = sizes[WARM_WINDOWS - 1 :]
    growth = (max(warm) - warm[0]) / MEGABYTE
    note = f"over {len(warm)} windows of {window_rows:,} rows a side, results taken as they come"
    outcome.add(GROUP, "growth of the resident size", growth, "MB", FLAT_MB, note)
    outcome.data["resident_mb_by_window"] = [round(size / MEGABYTE, 2) for size in sizes]


def join_sql(window_rows: int) -> str:
    """At 1,000 rows per second."""
    window = f"[RANGE {window_rows} MILLISECONDS]"
    return f"SELECT a.key, a.value, b.value AS other FROM a {window} JOIN b {window} ON a.key = b.key"


def feed_of(window_rows: int, windows: int, slice_rows: int) -> Feed:
    rows = windows * window_rows
    a, b = (poisson_stream(rows, 1_000, window_rows, seed) for seed in (11, 12))
    cuts = cut_by_rows(rows, slice_rows)
    return Feed.of(a.table, b.table, list(zip(cuts, cuts, strict=True)))


def bytes_per_row(kind: str, window_rows: int, windows: int = 5) -> tuple[float, float]:
    """(index, whole side), per live row: the most it was, once the window was full, in slices of a tenth."""
    slices = feed_of(window_rows, windows, max(1, window_rows // 10)).slices
    engine, query = start(join_sql(window_rows), False, kind)
    join = running_join(query)
    most = (0.0, 0.0)
    for place, (a, b) in enumerate(slices):
        engine.push("a", a)
        engine.push("b", b)
        query.results()
        if place * 5 >= len(slices) * 2:
            rows = len(join.sides[0])
            index_bytes = sum(shelf.index.nbytes for shelf in join.sides[0].shelves)
            most = max(most[0], index_bytes / rows), max(most[1], join.sides[0].nbytes / rows)
    return most


def resident_sizes(window_rows: int, windows: int) -> list[int]:
    """Resident bytes of this process after each window of a long stream."""
    feed = feed_of(window_rows, windows, window_rows)
    push_all(*start(join_sql(window_rows), False), Feed(feed.slices[:3]), False)
    engine, query = start(join_sql(window_rows), False)
    sizes = []
    for a, b in feed.slices:
        engine.push("a", a)
        engine.push("b", b)
        query.results()
        sizes.append(resident_bytes())
    return sizes


def resident_bytes() -> int:
    pages = int(STATM.read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(resident_sizes(int(sys.argv[1]), int(sys.argv[2]))))
