"""Joins without windows that keep within memory: what is found is what is found without a limit.

a   1   3 2   5   6   7      b lags: 5, 6 and 7 of a lead, and wait on the disk
b     1   2 3
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, draw_arrivals, full_join
from test_ordered_join import cuts, declared, engine_of, join_of, push, query_of, rows_of

from penstock import Engine
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.ordered_keys import buffers

FUNCTION_SCOPED = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows that lead stay in memory, and four are a block."""
    monkeypatch.setattr(buffers, "AHEAD_ROWS", 4)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("evict", ["key", "fifo"])
@pytest.mark.parametrize("disorder", ["none", "msf", "dbf", "hybrid"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=40, suppress_health_check=FUNCTION_SCOPED)
def test_every_strategy_finds_all_there_is(
    disorder: str, evict: str, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    streams = dice.randint(2, 5)
    arrivals = draw_arrivals(dice, streams, dice.choice((5, 30, 120)))
    factors = declared(arrivals, streams)
    scheduler = Shuffled(seed) if dice.random() < 0.5 else RoundRobin()
    folder = tmp_path_factory.mktemp("spool")
    engine = engine_of(
        [f"ORDERED WITHIN {k} ROWS" for k in factors],
        scheduler=scheduler, evict=evict, disorder=disorder, spool=folder,
    )  # fmt: skip
    query = query_of(engine, streams)
    found: list[tuple[int, ...]] = []
    parts = cuts(dice, arrivals)
    restored_at = dice.randrange(len(parts))
    for at, part in enumerate(parts):
        push(engine, part)
        engine._runtime._check()
        join = join_of(engine)
        assert all(join.held_rows(one.number) <= join.predicted_rows(one.number) for one in join.sides)
        if at == restored_at:
            found += rows_of(query)
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
            query = engine.queries[query.name]
    engine.close()
    found += rows_of(query)
    join = join_of(engine)
    assert sorted(found) == full_join(arrivals, streams)
    assert join.state_rows == 0 and join.missed.rows == 0 and query.accuracy == 1.0
    assert join.buffers is None or join.buffers.spooled_rows == 0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("evict", ["key", "fifo"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=40, suppress_health_check=FUNCTION_SCOPED)
def test_the_disk_changes_nothing(evict: str, tmp_path: Path, seed: int) -> None:
    """The same results at the same times, also where declarations are broken; as many rows are late."""
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    arrivals = draw_arrivals(dice, streams, dice.choice((30, 120)))
    less = dice.choice((0, 0, 1, 3)) if evict == "key" else 0
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, streams, less)]
    coarse = dice.choice((1, 1, 7))
    parts = cuts(dice, [Arrival(one.stream, one.key, one.row, one.ts // coarse) for one in arrivals])
    answers, missed = [], []
    for options in ({"disorder": "none"}, {"disorder": "dbf", "spool": tmp_path}):
        engine = engine_of(rules, late="drop", evict=evict, **options)
        query = query_of(engine, streams)
        for part in parts:
            push(engine, part)
        join = join_of(engine)
        engine.close()
        rows = query.results()
        names = rows.column_names
        answers.append(sorted(zip(*(rows[name].to_pylist() for name in names), strict=True)))
        missed.append(join.missed.rows)
        lacking = len(full_join(arrivals, streams)) - len(answers[-1])
        assert lacking <= join.missed.most
    assert answers[0] == answers[1]
    assert missed[0] == missed[1]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("disorder", ["msf", "hybrid"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=20, suppress_health_check=FUNCTION_SCOPED)
def test_what_is_sorted_comes_in_the_order_of_keys(disorder: str, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    arrivals = draw_arrivals(dice, 3, 80)
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 3)]
    engine = engine_of(rules, disorder=disorder, spool=tmp_path)
    query = query_of(engine, 3)
    for part in cuts(dice, arrivals):
        push(engine, part)
    engine.close()
    keys = query.results()["k"].to_pylist()
    assert keys == sorted(keys) and len(keys) == len(full_join(arrivals, 3))
