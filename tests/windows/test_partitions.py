"""Which rows displace which from windows of the last rows of each partition, against a naive twin."""

from __future__ import annotations

import statistics
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_of import stores_of

import penstock
from penstock.engine.kernels.windows.changes import link_rows
from penstock.engine.rows.types import SqlType
from penstock.engine.windows.partitions import LastRows, Partitions

KEYS = st.sampled_from(["a", "b", None, "c"])


@pytest.mark.twin("changes.displace_in_partitions")
@settings(max_examples=60)
@given(st.lists(KEYS, max_size=30), st.data())
def test_who_displaces_whom(texts: list[str | None], data: st.DataObject) -> None:
    """Row by row, as rows come and go; windows are told of whole instants, some later than others."""
    draw = data.draw
    first = draw(st.integers(0, 4))
    partitions, rows, at = Partitions((0,)), list[str | None](), list[int]()
    windows = {size: LastRows(partitions, size) for size in (1, 2, 5)}
    come, now = 0, 0
    while come < len(texts):
        piece = texts[come : come + draw(st.integers(1, 8))]
        come += len(piece)
        now += 1
        rows += piece
        gaps = draw(st.lists(st.integers(0, 1), min_size=len(piece), max_size=len(piece)))
        at += [now := now + gap for gap in gaps]
        partitions.extend([pa.array(piece, pa.string())], [SqlType.VARCHAR], len(piece))
        for size, window in windows.items():
            if window.is_new:
                window.begin(min(first, len(rows)))
            until = draw(st.integers(at[window.end], at[-1])) if window.end < len(at) else 0
            end = next((i for i in range(window.end, len(rows)) if at[i] > until), len(rows))
            expected = naive(rows, at, size, window.end, end, window.first)
            begin = window.end
            changes, gone = window.take(np.array(at[begin:end], np.int64))
            assert list(zip(*(one.tolist() for one in changes), strict=True)) == expected
            held = held_of(rows, size, end, window.first)
            assert window.rows().tolist() == held
            assert set(gone.tolist()) == {
                *held_of(rows, size, begin, window.first), *range(max(begin, window.first), end)
            } - set(held)  # fmt: skip
            window._check()
        everything = np.arange(len(rows))
        is_needed = np.logical_or.reduce([one.needs(everything) for one in windows.values()])
        is_needed |= np.array(draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
        kept = np.flatnonzero(is_needed)
        partitions.keep(kept)
        for window in windows.values():
            window.renumber(kept)
            window._check()
            assert window.nbytes == own_bytes(window)
        first = int(kept.searchsorted(first))
        rows, at = [rows[i] for i in kept], [at[i] for i in kept]
        partitions._check()
        assert partitions.nbytes == own_bytes(partitions)


def own_bytes(one: object) -> int:
    """Of all attributes, without the partitions that windows share."""
    held = [value for value in vars(one).values() if not isinstance(value, Partitions)]
    return sum(int(getattr(value, "nbytes", 0)) for value in held)


def held_of(rows: list[str | None], size: int, stop: int, first: int) -> list[int]:
    """The last rows of each partition, none below `first`, of those below `stop`."""
    last = {key: [i for i in range(stop) if rows[i] == key][-size:] for key in rows}
    return [i for i in range(first, stop) if i in last[rows[i]]]


def naive(
    rows: list[str | None], at: list[int], size: int, begin: int, end: int, first: int
) -> list[tuple[int, int, int]]:
    """What the instants of rows [begin, end) change in windows of the last rows of each partition."""
    changes, before = [], held_of(rows, size, begin, first)
    for now in sorted(set(at[begin:end])):
        held = held_of(rows, size, next((i for i in range(begin, end) if at[i] > now), end), first)
        by = {
            i: [j for j in range(i + 1, end) if rows[j] == rows[i]][size - 1] for i in before if i not in held
        }
        changes += [(now, -1, i) for i in sorted(by, key=by.__getitem__)]
        changes += [(now, 1, i) for i in held if i not in before]
        before = held
    return changes


@pytest.mark.twin("changes.link_rows")
@given(st.lists(st.integers(0, 3), max_size=20), st.integers(0, 20))
def test_links_lead_to_the_next_row_of_the_partition(slots: list[int], cut: int) -> None:
    rows, links, last = np.array(slots, np.int32), np.full(len(slots), 7), np.full(4, -1)
    link_rows(rows[:cut], links[:cut], last, 0)
    link_rows(rows, links, last, min(cut, len(slots)))
    later = [[j for j in range(i + 1, len(slots)) if slots[j] == slots[i]] for i in range(len(slots))]
    assert links.tolist() == [one[0] if one else -1 for one in later]
    ends = {slot: i for i, slot in enumerate(slots)}
    assert last.tolist() == [ends.get(slot, -1) for slot in range(4)]


@pytest.mark.parametrize(
    "queries",
    [
        ["SELECT COUNT(*) AS n, SUM(v) AS v FROM s [PARTITION BY k ROWS 2] EMIT CHANGES"],
        ["SELECT k, v FROM s [PARTITION BY k ROWS 2] EMIT CHANGES"],
        [
            "SELECT k, v FROM s [PARTITION BY k ROWS 2] EMIT CHANGES",
            "SELECT MAX(v) AS v FROM s [PARTITION BY k ROWS 3] EMIT CHANGES",
            "SELECT k, v FROM s [RANGE 10 us] EMIT CHANGES",
        ],
    ],
    ids=["alone", "rows", "in common"],
)
def test_a_push_costs_the_same_however_many_partitions_there_are(queries: list[str]) -> None:
    """Told by the memory a push asks for: one that looked at every partition would need some for each."""
    asked = [asked_by_a_push(queries, partitions) for partitions in (4_000, 32_000)]
    assert asked[1] < 2 * asked[0]


def asked_by_a_push(queries: list[str], partitions: int) -> float:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts)")
    readers = [engine.query(sql) for sql in queries]
    peaks, ts = [], 0

    def push(keys: np.ndarray) -> None:
        nonlocal ts
        times = np.arange(ts, ts + len(keys))
        engine.push("s", pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": keys, "v": times}))
        ts += len(keys)
        for query in readers:
            query.results()

    push(np.arange(partitions))
    for number in range(12):
        tracemalloc.start()
        push(np.arange(number, number + 64 * 37, 37) % partitions)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return statistics.median(peaks)


def test_numbers_of_rows_that_are_in_no_window_are_used_again() -> None:
    """Two windows over rows in common hold nine: no more is known of 40,000 than of 1,000."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT)")
    for rows in (2, 3):
        engine.query(f"SELECT k, COUNT(*) AS n FROM a [PARTITION BY k ROWS {rows}] GROUP BY k EMIT CHANGES")
    sizes = []
    for start in range(0, 40_000, 1_000):
        ts = list(range(start, start + 1_000))
        engine.push("a", {"ts": ts, "k": [time % 3 for time in ts]})
        (store,) = stores_of(engine)
        store._check()
        sizes.append(store.state_bytes)
    assert store.state_rows < 15
    assert max(sizes[20:]) <= max(sizes[:5])
