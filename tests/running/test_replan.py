"""Queries go over to another plan while data flows: nothing is lost, doubled or late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import Trees
from test_changes_oracle import Folded, arrivals, drive, expected, found, make_engine, make_oracle

import penstock
from penstock import adapt
from penstock.engine.plan.plan import PlanNode
from penstock.engine.sharing.facts import PlanFacts
from penstock.optimizer.costs.weights import load
from penstock.optimizer.plan import choose_expiry


def the_other(facts: PlanFacts, weights: Any) -> str:
    return "nta" if facts.approach == "promises" else "promises"


@settings(max_examples=80)
@given(st.data())
def test_to_and_fro_oracle(data: st.DataObject) -> None:
    """Whatever the query, it may change its approach at any time, and back, as often as it has caught up."""
    draw = data.draw
    streams = {"a": draw(arrivals(24)), "b": draw(arrivals(24))}
    trees = Trees(draw, list(streams), windows=("range", "range", "rows"))
    query = trees.tree(draw(st.integers(0, 4)))
    if not trees.references:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_expiry, "choose_expiry", the_other)
        patch.setattr(adapt, "reads_expiring_join", lambda plan: True)
        engine = make_engine(draw, "auto", streams)
        folded = Folded(engine.query(f"{query.penstock} EMIT CHANGES"))
        for _ in drive(draw, engine, streams):
            if draw(st.booleans()):
                engine._adapter.look_at_plans()
        read = {one.stream for one in trees.references}
        times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
        if not times:
            return
        end = max(ts for table in streams.values() for ts in table["ts"].to_pylist())
        for ahead in (1, 2, 13, 30):
            engine.advance(end + ahead)
            engine._runtime._check()
    engine.close()
    folded.read()
    assert folded.query.complete_from is None
    oracle = make_oracle(streams, trees)
    ends = {end for one in trees.references for pair in one.lifetimes.values() for end in pair}
    instants = sorted({ts for ts in (*times, *ends) if min(times) <= ts <= end + 1})
    for instant in draw(st.permutations(instants))[:8]:
        answer = expected(oracle, query.duck, instant)
        assert found(folded, instant) == answer, f"{query.penstock} at {instant}"


def pushed(engine: penstock.Engine, keys: int, rows: int = 30_000) -> None:
    rng = np.random.default_rng(3)
    tables = {}
    for name in "ab":
        ts = np.cumsum(rng.exponential(1_000, rows)).astype(np.int64)
        tables[name] = pa.table({"ts": ts, "k": rng.integers(0, keys, rows), "v": rng.random(rows)})
    for start in range(0, rows, 1_000):
        for name, table in tables.items():
            engine.push(name, table.slice(start, 1_000))


def started(expiry: str, sql: str) -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine(expiry=expiry, weights=load())
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    windows = "a [RANGE 500 ms] JOIN b [RANGE 500 ms] ON a.k = b.k"
    return engine, engine.query(sql.format(windows))


@pytest.mark.parametrize(("keys", "approach"), [(20, "nta"), (20_000, "promises")])
def test_auto_goes_by_what_the_join_has_shown(keys: int, approach: str) -> None:
    """Many pairs a row are found again, few are kept; the changes are those of either way."""
    sql = "SELECT a.k, COUNT(*) AS n FROM {} GROUP BY a.k"
    engine, query = started("auto", sql)
    pushed(engine, keys)
    assert query._pipeline.approach == approach
    other, same = started("nta", sql)
    pushed(other, keys)
    order = [("_ts", "ascending"), ("k", "ascending"), ("_diff", "ascending")]
    assert query.results().sort_by(order).equals(same.results().sort_by(order))
    assert f"expiry auto: {approach}" in engine.explain()


def test_a_join_that_others_need_is_left_alone() -> None:
    engine, query = started("auto", "SELECT a.k, COUNT(*) AS n FROM {} GROUP BY a.k")
    engine.query("SELECT a.v FROM a [RANGE 500 ms] JOIN b [RANGE 500 ms] ON a.k = b.k", count_only=True)
    pushed(engine, 20)
    assert query._pipeline.approach == "promises"


def test_of_many_queries_a_few_are_looked_at_after_each_push() -> None:
    """None is left out, also where some go before their turn; what has no choice is not looked at."""
    looked: list[PlanNode] = []

    def note(facts: PlanFacts, weights: Any) -> str:
        looked.append(facts.plan)
        return facts.approach

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_expiry, "choose_expiry", note)
        patch.setattr(adapt, "LOOKS_AT_EXPIRY", 3)
        engine, first = started("auto", "SELECT a.k, COUNT(*) AS n FROM {} GROUP BY a.k")
        engine.query("SELECT a.v FROM a [RANGE 1 s] JOIN b [RANGE 1 s] ON a.k = b.k", "plain")
        rest = [engine.query(first.sql.replace("500", str(500 + n)), f"p{n}") for n in range(1, 8)]
        engine._adapter.look_at_plans()
        rest[-1].drop()
        seen = [len(looked)]
        for ts in range(1, 6):
            engine.push("a", {"ts": [ts], "k": [1], "v": [1.0]})
            seen.append(len(looked))
    assert seen == [3, 6, 7, 7, 7, 7]
    assert looked == [query._pipeline.plan for query in (first, *rest[:-1])]


def test_a_query_that_is_dropped_takes_its_next_plan_with_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_expiry, "choose_expiry", the_other)
        engine, query = started("auto", "SELECT a.k, COUNT(*) AS n FROM {} GROUP BY a.k")
        engine.push("a", {"ts": [1], "k": [1], "v": [1.0]})
        engine._adapter.look_at_plans()
        assert engine._runtime.is_replanned(query.name)
        query.drop()
    runtime = engine._runtime
    assert not list(runtime.shared) and not runtime.at_work.owners
    assert all(not stream.output.queues for stream in runtime.streams.values())


def test_windows_that_keep_everything_stay_as_they_are() -> None:
    """No other plan could ever catch up."""
    engine = penstock.Engine(weights=load())
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    query = engine.query(
        "SELECT a.k, COUNT(*) AS n FROM a [RANGE UNBOUNDED] JOIN b [RANGE 50 ms] ON a.k = b.k GROUP BY a.k"
    )
    pushed(engine, 40, 12_000)
    assert query._pipeline.approach == "promises"
    assert not engine._runtime.is_replanned(query.name)
