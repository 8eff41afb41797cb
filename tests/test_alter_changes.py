"""ALTER QUERY of incremental queries against DuckDB: drawn trees, windows and moments.

Until the new windows are full the changes fold to the answer over the old ones, from `complete_from` on to
the answer over the new ones; and no row leaves that had not entered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Reference, plain, rows_of
from query_trees import Trees
from test_changes_oracle import APPROACHES, Folded, arrivals, drive, expected, found, make_engine, same
from test_changes_oracle import make_oracle as oracle_of

import penstock
from penstock.api import EPOCH, NEVER

UNBOUNDED = "ALTER QUERY of a query whose answer nobody keeps"


class Altered:
    """A query whose windows change, and which windows it has answered for since when."""

    def __init__(self, query: penstock.Query, trees: Trees) -> None:
        self.query = query
        self.trees = trees
        self.spans: list[tuple[int | None, list[Reference]]] = [(None, trees.references)]
        self.next: list[Reference] | None = None

    def alter(self, engine: penstock.Engine, kind: str, size: int) -> None:
        unit = "us" if kind == "range" else "ROWS"
        engine.execute(f"ALTER QUERY {self.query.name} SET WINDOW {size} {unit}")
        last = self.spans[-1][1]
        self.next = [replace(one, kind=kind, size=size, partition="", lifetimes={}) for one in last]
        self.look()

    def look(self) -> None:
        """Whether the new windows are in force."""
        since = self.query.complete_from
        if self.next is not None and since != NEVER:
            start = None if since is None else round((since - EPOCH).total_seconds() * 1e6)
            if start is None:
                self.spans.clear()
            self.spans.append((start, self.next))
            self.next = None

    def periods(self, begin: int, end: int) -> Any:
        """(references, first instant, instant after the last) of each."""
        for number, (start, references) in enumerate(self.spans):
            later = [since for since, _ in self.spans[number + 1 :] if since is not None]
            yield references, begin if start is None else max(start, begin), min([*later, end])

    def oracle(self, streams: dict[str, pa.Table], references: list[Reference]) -> Any:
        return oracle_of(streams, replace(self.trees, references=references))


def drawn(draw: Any, windows: tuple[str, ...], emit: str, approach: str) -> Any:
    streams = {"a": draw(arrivals(24)), "b": draw(arrivals(24))}
    trees = Trees(draw, list(streams), windows=windows)
    query = trees.tree(draw(st.integers(0, 4)))
    engine = make_engine(draw, approach, streams)
    if not trees.references:
        return None
    return streams, query, engine, Altered(engine.query(f"{query.penstock} {emit}", name="q"), trees)


def times_of(streams: dict[str, pa.Table], trees: Trees) -> tuple[list[int], int]:
    """Of the streams it reads, and the last of any."""
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    return times, max((ts for table in streams.values() for ts in table["ts"].to_pylist()), default=0)


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("approach", APPROACHES)
def test_altered_oracle(approach: str, data: st.DataObject) -> None:
    draw = data.draw
    made = drawn(draw, ("range", "range", "rows", "partition", "unbounded"), "EMIT CHANGES", approach)
    if made is None:
        return
    streams, query, engine, altered = made
    folded = Folded(altered.query)

    def maybe() -> bool:
        if draw(st.integers(0, 5)) == 0:
            kind = draw(st.sampled_from(["range", "range", "rows"]))
            try:
                altered.alter(engine, kind, draw(st.integers(1, 10 if kind == "range" else 4)))
            except penstock.UnsupportedError as error:
                if str(error).startswith(UNBOUNDED) and "UNBOUNDED" in query.penstock:
                    return False
                raise
        return True

    if not maybe():
        return
    for _ in drive(draw, engine, streams):
        folded.read()
        altered.look()
        if not maybe():
            return
    times, end = times_of(streams, altered.trees)
    if not times:
        return
    for ahead in (1, 2, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
        altered.look()
    engine.close()
    folded.read()
    for references, begin, stop in altered.periods(min(times), end + 20):
        oracle = altered.oracle(streams, references)
        ends = {ets for one in references for pair in one.lifetimes.values() for ets in pair}
        instants = sorted({ts for ts in (*times, *ends, begin, stop - 1) if begin <= ts < stop})
        for instant in draw(st.permutations(instants))[:5]:
            answer = expected(oracle, query.duck, instant)
            assert found(folded, instant) == answer, f"{query.penstock} at {instant}, {altered.spans}"


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("emit", ["COMPLETE", "DELTA"])
def test_altered_hops_oracle(emit: str, data: st.DataObject) -> None:
    draw = data.draw
    hop, origin = draw(st.integers(1, 7)), draw(st.sampled_from([0, 0, 3]))
    tail = f"HOP BY {hop} us ORIGIN {origin} EMIT {emit}"
    made = drawn(draw, ("range",), tail, draw(st.sampled_from(["auto", "nta"])))
    if made is None:
        return
    streams, query, engine, altered = made
    for _ in drive(draw, engine, streams):
        altered.look()
        if draw(st.integers(0, 5)) == 0:
            altered.alter(engine, "range", draw(st.integers(1, 10)))
    times, end = times_of(streams, altered.trees)
    if not times:
        return
    for ahead in (1, 2, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
        altered.look()
    engine.close()
    results = rows_of(altered.query.results())
    if emit == "COMPLETE":
        rows = [(row[0], 1, same(plain(row[1:]))) for row in results]
    else:
        rows = [(row[0], row[1], same(plain(row[2:]))) for row in results]
    assert all((row[0] - origin) % hop == 0 for row in rows)
    for references, begin, stop in altered.periods(min(times), end + 20):
        oracle = altered.oracle(streams, references)
        for boundary in range(begin + (origin - begin) % hop, stop, hop):
            answer: Counter[Any] = Counter()
            for ts, diff, row in rows:
                if ts == boundary if emit == "COMPLETE" else ts <= boundary:
                    answer[row] += diff
            assert all(count >= 0 for count in answer.values()), "a row left that had not entered"
            assert +answer == expected(oracle, query.duck, boundary), f"{query.penstock} {tail} at {boundary}"
