"""Hopping queries in every mode against DuckDB at every boundary: drawn trees, modes, execution, cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import plain, rows_of
from query_trees import Trees
from test_changes_oracle import arrivals, drawn_tree, drive, expected, make_engine, make_oracle, same
from test_hopping_oracle import complete_of, end_input

import penstock
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.plan.modes import Form, Operator, mode_of, operators_of, reads
from penstock.optimizer.read.parse import parse_query
from penstock.optimizer.rewrite.separate_joins import separate_joins

FORMS: list[Form] = ["delta", "complete"]


def operators_in(engine: penstock.Engine, sql: str) -> list[Operator]:
    return operators_of(separate_joins(bind_query(parse_query(sql), engine._catalog).root))


def drawn_modes(draw: Any, operators: list[Operator]) -> dict[str, str]:
    """What each operator reads is drawn; it writes what the one above it reads."""
    found: dict[int, Any] = {}
    for one in operators:
        written = draw(st.sampled_from(FORMS)) if one.above is None else reads(found[one.above])
        read: Form = "delta" if one.is_scan else draw(st.sampled_from(FORMS))
        found[one.number] = mode_of(read, written)
    return {operators[number].name: mode for number, mode in found.items()}


@settings(max_examples=150)
@given(st.data())
def test_every_mode_oracle_at_every_hop(data: st.DataObject) -> None:
    draw = data.draw
    streams, trees, query = drawn_tree(draw, 5)
    hop, origin = draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 3, 1000]))
    tail = f"HOP BY {hop} us ORIGIN {origin}"
    engine = make_engine(draw, draw(st.sampled_from(["auto", "nta"])), streams)
    engine._setting = replace(engine._setting, optimize="none")  # names are those of the tree as written
    sql = f"{query.penstock} {tail}"
    operators, running = operators_in(engine, sql), []
    for emit in draw(st.permutations(["COMPLETE", "DELTA", "COMPLETE", "DELTA"])):
        modes = drawn_modes(draw, operators)
        execution = draw(st.sampled_from(["waat", "taat"]))
        one = engine.query(f"{sql} EMIT {emit}", modes=modes, execution=execution)
        running.append((emit, f"{sql} in {modes} {execution} EMIT {emit}", one))
    for _ in drive(draw, engine, streams):
        pass
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        assert all(one.results().num_rows == 0 for _, _, one in running)
        return
    end = end_input(draw, engine, streams, trees, hop, origin)
    oracle = make_oracle(streams, trees)
    boundaries = range(min(times) + (origin - min(times)) % hop, end + 1, hop)
    wanted = {boundary: expected(oracle, query.duck, boundary) for boundary in boundaries}
    for emit, text, one in running:
        found = complete_of(one) if emit == "COMPLETE" else folded(one, boundaries, text)
        for boundary, answer in wanted.items():
            assert found.pop(boundary, Counter()) == answer, f"{text} at {boundary}"
        assert not found, f"{text}: an answer at no boundary, or after {end}"


def with_a_gap(draw: Any, table: pa.Table) -> pa.Table:
    """The rows from a drawn one on come more than a million microseconds later."""
    first, gap = draw(st.integers(0, table.num_rows)), draw(st.integers(1_000_000, 1_000_020))
    ts = [at + (gap if place >= first else 0) for place, at in enumerate(table["ts"].to_pylist())]
    return table.set_column(0, "ts", pa.array(ts, pa.int64()))


@settings(max_examples=60)
@given(st.data())
def test_gaps_oracle_in_every_mode(data: st.DataObject) -> None:
    """A million boundaries at which nothing changes, also where there is an answer all the time."""
    draw = data.draw
    streams = {name: with_a_gap(draw, draw(arrivals())) for name in "ab"}
    trees = Trees(draw, list(streams))
    query = trees.tree(draw(st.integers(0, 4)))
    if not trees.references:
        return
    hop = draw(st.integers(1, 12))
    engine = make_engine(draw, draw(st.sampled_from(["auto", "nta"])), streams)
    engine._setting = replace(engine._setting, optimize="none")
    sql, running = f"{query.penstock} HOP BY {hop} us EMIT DELTA", []
    operators = operators_in(engine, sql)
    for _ in range(3):
        modes = drawn_modes(draw, operators)
        execution = draw(st.sampled_from(["waat", "taat"]))
        one = engine.query(sql, modes=modes, execution=execution)
        running.append((f"{sql} in {modes} {execution}", one))
    for _ in drive(draw, engine, streams):
        pass
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    end = end_input(draw, engine, streams, trees, hop, 0, 1_000_000)
    firsts = {ts + -ts % hop for ts in times}
    boundaries = sorted({at for one in firsts for at in range(one, one + 12 + 2 * hop, hop) if at <= end})
    oracle = make_oracle(streams, trees)
    wanted = {boundary: expected(oracle, query.duck, boundary) for boundary in boundaries}
    for text, one in running:
        assert folded(one, boundaries, text) == wanted, text


@settings(max_examples=60)
@given(st.data())
def test_queries_that_start_late_oracle_in_every_mode(data: st.DataObject) -> None:
    """Beside others like it, which it may share parts with: exact from `complete_from` on, without flips."""
    draw = data.draw
    streams = {"a": draw(arrivals(20)), "b": draw(arrivals(20))}
    trees = Trees(draw, list(streams), windows=("range", "range", "rows"))
    query = trees.tree(draw(st.integers(0, 4)))
    times = [
        ts for name in {one.stream for one in trees.references} for ts in streams[name]["ts"].to_pylist()
    ]
    if not times:
        return
    hop = draw(st.integers(1, 12))
    engine = make_engine(draw, "auto", streams)
    engine._setting = replace(engine._setting, optimize="none")
    running = []

    def start() -> None:
        emit, execution = (
            draw(st.sampled_from(["COMPLETE", "DELTA"])),
            draw(st.sampled_from(["waat", "taat"])),
        )
        sql = f"{query.penstock} HOP BY {hop} us EMIT {emit}"
        modes = drawn_modes(draw, operators_in(engine, sql))
        one = engine.query(sql, modes=modes, execution=execution)
        running.append((emit, f"{sql} in {modes} {execution}", one))

    start()
    for _ in drive(draw, engine, streams):
        if len(running) < 5 and draw(st.integers(0, 2)) == 0:
            start()
    end = max(ts for table in streams.values() for ts in table["ts"].to_pylist()) + 25
    engine.advance(end)
    engine.close()
    boundaries = range(min(times) + -min(times) % hop, end + 1, hop)
    oracle = make_oracle(streams, trees)
    wanted = {boundary: expected(oracle, query.duck, boundary) for boundary in boundaries}
    for emit, text, one in running:
        found = complete_of(one) if emit == "COMPLETE" else folded(one, boundaries, text)
        first = min(times) if one.complete_from is None else round(one.complete_from.timestamp() * 1e6)
        for boundary in boundaries:
            if boundary >= first:
                assert found.get(boundary, Counter()) == wanted[boundary], f"{text} at {boundary}"


def folded(query: penstock.Query, boundaries: Sequence[int], text: str) -> dict[int, Counter[Any]]:
    """The answer at each boundary, from its deltas, in which nothing cancels."""
    answer: Counter[Any] = Counter()
    found: dict[int, Counter[Any]] = {}
    changes: dict[int, Counter[Any]] = {}
    for row in rows_of(query.results()):
        change = changes.setdefault(row[0], Counter())
        value = same(plain(row[2:]))
        assert change[value] * row[1] >= 0, f"{text}: a flip at {row[0]}"
        change[value] += row[1]
    for boundary in boundaries:
        for value, count in changes.pop(boundary, Counter()).items():
            answer[value] += count
        found[boundary] = Counter({value: count for value, count in answer.items() if count})
    assert not changes, f"{text}: changes at no boundary"
    return found
