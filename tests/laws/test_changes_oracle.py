"""Incremental queries against DuckDB at every instant: drawn trees of operators, data, cuts, schedules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle, plain, rows_of
from query_trees import Drawn, Trees

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.query import NEVER

SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
DECLARE = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE);"
TABLE = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "v": pa.array([0.5, 0.5, None, 1.0])})
KEYS = st.one_of(st.none(), st.integers(0, 3), st.integers(0, 1))
VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.5, -2.0, 3.75]))
APPROACHES = ["auto", "ita", "nta", "time-message", "piggyback"]
SHARING = ["auto", "auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu"]


@st.composite
def arrivals(draw: st.DrawFn, most: int = 12) -> pa.Table:
    """A stream with ties, gaps, duplicates and NULLs."""
    count = draw(st.integers(0, most))
    ts, rows = draw(st.integers(-3, 3)), []
    for id_ in range(count):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 7]))
        rows.append((ts, id_, draw(KEYS), draw(VALUES)))
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def drawn_tree(draw: Any, most: int) -> tuple[dict[str, pa.Table], Trees, Drawn]:
    """Two streams and a query of up to so many operators, which reads one of them at least."""
    streams = {"a": draw(arrivals()), "b": draw(arrivals())}
    trees = Trees(draw, list(streams))
    query = trees.tree(draw(st.integers(0, most)))
    assume(trees.references)  # not tables alone
    return streams, trees, query


class Folded:
    """The answer of a query, from its changes."""

    def __init__(self, query: penstock.Query) -> None:
        self.query = query
        self.changes: list[tuple[Any, ...]] = []

    def read(self) -> None:
        new = [(row[0], row[1], plain(row[2:])) for row in rows_of(self.query.results())]
        for (before, _, _), (after, _, _) in zip(self.changes[-1:] + new, new, strict=False):
            assert before <= after, "changes out of time order"
        self.changes += new

    def at(self, instant: int) -> Counter[Any]:
        answer: Counter[Any] = Counter()
        for ts, diff, row in self.changes:
            if ts <= instant:
                answer[row] += diff
                if not answer[row]:
                    del answer[row]
        assert all(count > 0 for count in answer.values()), "a row left that had not entered"
        return answer


def same(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(0.0 if value == 0 and isinstance(value, float) else value for value in plain(row))


def expected(oracle: Oracle, sql: str, instant: int) -> Counter[Any]:
    return Counter({same(row): n for row, n in oracle.answer(sql, instant).items()})


def found(folded: Folded, instant: int) -> Counter[Any]:
    answer: Counter[Any] = Counter()
    for row, count in folded.at(instant).items():
        answer[same(row)] += count
    return answer


def make_engine(draw: Any, approach: str, streams: dict[str, pa.Table]) -> penstock.Engine:
    seed = draw(st.integers(0, 1 << 20))
    scheduler = RoundRobin(draw(st.sampled_from([1, 3, 65_536]))) if seed % 2 else Shuffled(seed)
    sharing = draw(st.sampled_from(SHARING))
    engine = penstock.Engine(expiry=approach, scheduler=scheduler, sharing=sharing)
    engine.execute("".join(map(DECLARE.format, streams)) + "CREATE TABLE t (k BIGINT, v DOUBLE)")
    engine.push("t", TABLE)
    return engine


def make_oracle(streams: dict[str, pa.Table], trees: Trees) -> Oracle:
    oracle = Oracle(streams, trees.references)
    oracle._con.register("t", TABLE)
    return oracle


def drive(draw: Any, engine: penstock.Engine, streams: dict[str, pa.Table]) -> Any:
    """Push the streams cut anywhere, interleaved anyhow, time advanced now and then; yields after each."""
    at = dict.fromkeys(streams, 0)
    while any(at[name] < table.num_rows for name, table in streams.items()):
        name = draw(st.sampled_from(sorted(n for n, t in streams.items() if at[n] < t.num_rows)))
        size = draw(st.integers(1, 5))
        engine.push(name, streams[name].slice(at[name], size))
        at[name] += size
        engine._runtime._check()
        yield at
        if draw(st.integers(0, 3)) == 0:
            ahead = [t["ts"][at[n]].as_py() for n, t in streams.items() if at[n] < t.num_rows]
            if ahead:
                engine.advance(min(ahead))
                engine._runtime._check()
                yield at


@settings(max_examples=80)
@given(st.data())
@pytest.mark.parametrize("approach", APPROACHES)
def test_changes_oracle_at_every_instant(approach: str, data: st.DataObject) -> None:
    draw = data.draw
    streams, trees, query = drawn_tree(draw, 5)
    engine = make_engine(draw, approach, streams)
    folded = Folded(engine.query(f"{query.penstock} EMIT CHANGES"))
    for _ in drive(draw, engine, streams):
        folded.read()
    everything = [ts for table in streams.values() for ts in table["ts"].to_pylist()]
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    engine.advance(max(everything) + 1)
    engine.advance(max(everything) + 30)
    engine.close()
    folded.read()
    oracle = make_oracle(streams, trees)
    ends = {end for one in trees.references for pair in one.lifetimes.values() for end in pair}
    instants = sorted({ts for ts in (*times, *ends) if min(times) <= ts <= max(times) + 1})
    for instant in draw(st.permutations(instants))[:8]:
        assert found(folded, instant) == expected(oracle, query.duck, instant), (
            f"{query.penstock} at {instant}"
        )


@settings(max_examples=50)
@given(st.data())
def test_the_answer_is_there_after_every_push(data: st.DataObject) -> None:
    """Without a ROWS window the changes fold to the answer at once, of the rows that have come."""
    draw = data.draw
    streams = {"a": draw(arrivals()), "b": draw(arrivals())}
    trees = Trees(draw, list(streams), windows=("range", "unbounded"))
    query = trees.tree(draw(st.integers(0, 4)))
    read = {one.stream for one in trees.references}
    if not read:
        return
    approach = draw(st.sampled_from([one for one in APPROACHES if one != "ita"]))
    engine = make_engine(draw, approach, streams)
    folded = Folded(engine.query(f"{query.penstock} EMIT CHANGES"))
    for at in drive(draw, engine, streams):
        folded.read()
        now = min(engine._runtime.streams[name].watermark for name in read)
        first = min((streams[name]["ts"][0].as_py() for name in read if at[name]), default=now + 1)
        if now >= first:
            come = {name: table.slice(0, at[name]) for name, table in streams.items()}
            answer = expected(make_oracle(come, trees), query.duck, now)
            assert found(folded, now) == answer, f"{query.penstock} at {now}"


@settings(max_examples=40)
@given(st.data())
def test_inserts_are_the_changes_that_enter(data: st.DataObject) -> None:
    draw = data.draw
    streams, _, query = drawn_tree(draw, 4)
    engine = make_engine(draw, draw(st.sampled_from(APPROACHES)), streams)
    changes = engine.query(f"{query.penstock} EMIT CHANGES")
    inserts = engine.query(f"{query.penstock} EMIT INSERTS")
    for _ in drive(draw, engine, streams):
        pass
    engine.close()
    entered = Counter((row[0], *row[2:]) for row in rows_of(changes.results()) if row[1] > 0)
    assert Counter(rows_of(inserts.results())) == entered, query.penstock


@settings(max_examples=50)
@given(st.data())
def test_queries_that_come_and_go(data: st.DataObject) -> None:
    """Whoever comes late is exact from `complete_from` on; nobody notices who else is there."""
    draw = data.draw
    streams = {"a": draw(arrivals(20)), "b": draw(arrivals(20))}
    engine = make_engine(draw, draw(st.sampled_from(APPROACHES)), streams)
    running: list[tuple[Trees, Any, Folded]] = []

    def change() -> None:
        if running and draw(st.integers(0, 3)) == 0:
            _, _, gone = running.pop(draw(st.integers(0, len(running) - 1)))
            gone.query.drop()
        if len(running) < 5 and draw(st.booleans()):
            if running and draw(st.booleans()):
                trees, query, _ = running[draw(st.integers(0, len(running) - 1))]
            else:
                trees = Trees(draw, list(streams), windows=("range", "rows"))
                query = trees.tree(draw(st.integers(0, 3)))
            if trees.references:
                running.append((trees, query, Folded(engine.query(f"{query.penstock} EMIT CHANGES"))))

    change()
    for _ in drive(draw, engine, streams):
        change()
    times = [ts for table in streams.values() for ts in table["ts"].to_pylist()]
    if not times:
        return
    engine.advance(max(times) + 1)
    engine.advance(max(times) + 30)
    engine.close()
    for trees, query, folded in running:
        folded.read()
        since = folded.query.complete_from
        read = {one.stream for one in trees.references}
        begin = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
        if not begin or since == NEVER:
            continue
        start = min(begin) if since is None else int(since.timestamp() * 1e6)
        oracle = make_oracle(streams, trees)
        for instant in range(start, min(max(times) + 1, start + 6)):
            assert found(folded, instant) == expected(oracle, query.duck, instant), (
                f"{query.penstock} at {instant}, complete from {start}"
            )
