"""Hopping queries against DuckDB at every boundary: drawn trees, hops, origins and cuts; deltas fold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import last_hop, longest_window, plain, rows_of
from query_trees import Trees
from test_changes_oracle import drawn_tree, drive, expected, make_engine, make_oracle, same

import penstock


def complete_of(query: penstock.Query) -> dict[int, Counter[Any]]:
    """The answer at each boundary that has rows."""
    found: dict[int, Counter[Any]] = {}
    for row in rows_of(query.results()):
        found.setdefault(row[0], Counter())[same(plain(row[1:]))] += 1
    return found


def end_input(
    draw: Any,
    engine: penstock.Engine,
    streams: dict[str, pa.Table],
    trees: Trees,
    hop: int,
    origin: int,
    most: int = 25,
) -> int:
    """Close the engine, drained or not, after time has passed or not: the last boundary with an answer."""
    everything = [ts for table in streams.values() for ts in table["ts"].to_pylist()]
    ahead = draw(st.sampled_from([None, None, 0, 1, most]))
    if ahead is not None:
        engine.advance(max(everything) + ahead)
        engine._runtime._check()
    read = {one.stream for one in trees.references}
    passed = min(engine._runtime.streams[name].watermark for name in read)
    drain = draw(st.booleans())
    engine.close(drain=drain)
    engine._runtime._check()
    longest = longest_window(trees.references) if drain else 0
    times = [ts + longest for name in read for ts in streams[name]["ts"].to_pylist()]
    return last_hop(times, passed, hop, origin)


@settings(max_examples=80)
@given(st.data())
def test_every_hop_oracle(data: st.DataObject) -> None:
    draw = data.draw
    streams, trees, query = drawn_tree(draw, 4)
    hop, origin = draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 3, 1000]))
    tail = f"HOP BY {hop} us ORIGIN {origin}"
    engine = make_engine(draw, draw(st.sampled_from(["auto", "nta", "ita"])), streams)
    complete = engine.query(f"{query.penstock} {tail}")
    delta = engine.query(f"{query.penstock} {tail} EMIT DELTA")
    for _ in drive(draw, engine, streams):
        pass
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        assert complete.results().num_rows == 0
        return
    end = end_input(draw, engine, streams, trees, hop, origin)
    found, oracle = complete_of(complete), make_oracle(streams, trees)
    first = min(times) + (origin - min(times)) % hop
    answer: Counter[Any] = Counter()
    changes = [(row[0], row[1], same(plain(row[2:]))) for row in rows_of(delta.results())]
    for boundary in range(first, end + 1, hop):
        wanted = expected(oracle, query.duck, boundary)
        assert found.pop(boundary, Counter()) == wanted, f"{query.penstock} {tail} at {boundary}"
        for ts, diff, row in changes:
            if ts == boundary:
                answer[row] += diff
        answer = Counter({row: count for row, count in answer.items() if count})
        assert answer == wanted, f"delta of {query.penstock} {tail} at {boundary}"
    assert not found, f"{query.penstock} {tail}: an answer at no boundary, or after {end}"
    assert all((ts - origin) % hop == 0 for ts, _, _ in changes)


def test_a_delta_has_no_flips() -> None:
    """Within a hop of 10 the count goes up and down; only what is different at the boundary is given."""
    with penstock.Engine() as engine:
        engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
        query = engine.query("SELECT k, COUNT(*) AS n FROM s [RANGE 2 us] GROUP BY k HOP BY 10 us EMIT DELTA")
        engine.push("s", {"ts": [1, 3, 5, 10, 19, 20], "k": [1, 1, 1, 1, 1, 1]})
        engine.advance(31)
    rows = [(row[0], row[1], row[3]) for row in rows_of(query.results())]
    assert rows == [(10, 1, 1), (20, -1, 1), (20, 1, 2), (30, -1, 2)]
