"""Queries that start while equal parts of others are at work, against DuckDB: drawn trees and moments."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import plain, rows_of
from query_trees import Drawn, Trees
from test_changes_oracle import APPROACHES, arrivals, drive, expected, make_engine, make_oracle, same

import penstock
from penstock.api import EPOCH, NEVER
from penstock.optimizer.modes import MODES


def above(draw: Any, query: Drawn) -> Drawn:
    """The query itself, or another that has it as a part."""
    text = draw(
        st.sampled_from(
            [
                "{}",
                "SELECT k, v FROM ({}) AS late WHERE k > 0",
                "SELECT DISTINCT k, v FROM ({}) AS late",
                "SELECT COUNT(*) AS k, MAX(v) AS v FROM ({}) AS late",
                "SELECT x.k, y.v FROM ({}) AS x JOIN (SELECT k, v FROM t) AS y ON x.k = y.k",
                "SELECT * FROM ({}) AS x EXCEPT ALL SELECT k, v FROM t",
            ]
        )
    )
    return Drawn(text.format(query.penstock), text.format(query.duck))


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("emit", ["CHANGES", "DELTA", "COMPLETE"])
def test_late_queries_oracle(emit: str, data: st.DataObject) -> None:
    draw = data.draw
    streams = {"a": draw(arrivals(20)), "b": draw(arrivals(20))}
    hop, origin = (1, 0) if emit == "CHANGES" else (draw(st.integers(1, 6)), draw(st.sampled_from([0, 3])))
    tail = f"EMIT {emit}" if emit == "CHANGES" else f"HOP BY {hop} us ORIGIN {origin} EMIT {emit}"
    trees = Trees(draw, list(streams), windows=("range", "rows", "unbounded"))
    query = trees.tree(draw(st.integers(1, 3)))
    if not trees.references:
        return
    engine = make_engine(draw, draw(st.sampled_from(APPROACHES)), streams)
    engine._panes = draw(st.booleans())

    def start(one: Drawn) -> tuple[Drawn, penstock.Query]:
        modes = draw(st.sampled_from(["auto", "auto", *MODES])) if emit != "CHANGES" else None
        return one, engine.query(f"{one.penstock} {tail}", modes=modes)

    running = [start(query)]
    for _ in drive(draw, engine, streams):
        if len(running) < 4 and draw(st.integers(0, 2)) == 0:
            running.append(start(above(draw, query)))
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    end = max(ts for table in streams.values() for ts in table["ts"].to_pylist())
    for ahead in (1, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
    engine.close()
    oracle = make_oracle(streams, trees)
    for one, started in running:
        since = started.complete_from
        if since == NEVER:
            continue
        begin = min(times) if since is None else round((since - EPOCH).total_seconds() * 1e6)
        check(draw, started, oracle, one, range(begin + (origin - begin) % hop, end + 14, hop), emit)


def check(draw: Any, query: penstock.Query, oracle: Any, drawn: Drawn, instants: range, emit: str) -> None:
    rows = rows_of(query.results())
    if emit == "COMPLETE":
        rows = [(row[0], 1, *row[1:]) for row in rows]
    for instant in draw(st.permutations(instants))[:6]:
        answer: Counter[Any] = Counter()
        for ts, diff, *row in rows:
            if ts == instant if emit == "COMPLETE" else ts <= instant:
                answer[same(plain(tuple(row)))] += diff
        assert all(count >= 0 for count in answer.values()), "a row left that had not entered"
        assert +answer == expected(oracle, drawn.duck, instant), f"{drawn.penstock} at {instant}"
