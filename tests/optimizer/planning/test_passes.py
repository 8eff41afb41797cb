"""Each pass may be left out by name: answers stay the same, and what it does is not done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from oracle import rows_of

import penstock
from penstock.engine.plan.plan import PlanNode, SharedSelectNode, SourceNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.optimizer.planning.passes import OPTIONAL, PASSES

QUERIES = {
    "filter": "SELECT v FROM a WHERE k > 1",
    "other filter": "SELECT v * 2 AS w FROM a WHERE k > 2",
    "join": "SELECT x.v, y.v AS w FROM a [RANGE 30 us] AS x JOIN b [RANGE 30 us] AS y ON x.k = y.k",
    "same join, longer": "SELECT x.v FROM a [RANGE 50 us] AS x JOIN b [RANGE 20 us] AS y ON x.k = y.k",
    "three": "SELECT x.v FROM a [RANGE 9 us] AS x JOIN b [RANGE 9 us] AS y ON x.k = y.k "
    "JOIN a [RANGE 9 us] AS z ON y.k = z.k",
    "sums": "SELECT k, SUM(v) AS v FROM a [RANGE 40 us] GROUP BY k EMIT CHANGES",
    "latest": "SELECT k, v FROM a [ROWS 5] EMIT CHANGES",
    "missing": "SELECT k FROM a [RANGE 20 us] EXCEPT SELECT k FROM b [RANGE 20 us] EMIT CHANGES",
    "hops": "SELECT k, COUNT(*) AS n FROM (SELECT x.k FROM a [RANGE 40 us] AS x JOIN b [RANGE 40 us] AS y "
    "ON x.k = y.k EXCEPT ALL SELECT k FROM b [RANGE 5 us]) AS d GROUP BY k HOP BY 10 us",
}


def answers(without: Collection[str]) -> dict[str, Counter[Any]]:
    """What every query gives, of which one comes late and another is altered."""
    engine = penstock.Engine(without=without)
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    dice = np.random.default_rng(7)
    late = {"sums", "same join, longer"}
    queries = {name: engine.query(sql, name) for name, sql in QUERIES.items() if name not in late}
    for turn in range(4):
        for name in "ab":
            ts = np.sort(dice.integers(turn * 60, turn * 60 + 60, 40))
            engine.push(name, {"ts": ts, "k": dice.integers(0, 4, 40), "v": dice.integers(0, 9, 40) * 1.0})
        if turn == 1:
            queries |= {name: engine.query(QUERIES[name], name) for name in late}
            engine.execute("ALTER QUERY latest SET WINDOW 30 us")
    engine.close()
    since = 180  # all windows are full by then, also of those that came late or were altered
    return {
        name: Counter(row for row in rows_of(query.results()) if row[0] > since)
        for name, query in queries.items()
    }


@pytest.fixture(scope="module")
def usual() -> dict[str, Counter[Any]]:
    found = answers(())
    assert all(found.values()), "expected every query to give something"
    return found


@pytest.mark.parametrize("without", [*((name,) for name in OPTIONAL), OPTIONAL], ids=",".join)
def test_a_pass_that_is_left_out_changes_no_answer(
    without: tuple[str, ...], usual: dict[str, Counter[Any]]
) -> None:
    assert answers(without) == usual


def explained(*without: str) -> str:
    """What EXPLAIN says of two engines' worth of queries."""
    engine = penstock.Engine(without=without)
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    for name in ("filter", "join", "same join, longer", "sums", "missing", "hops"):
        engine.query(QUERIES[name], name)
    return engine.explain()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("share_joins", "shared"),
        ("share_windows", "kept once, also for"),
        ("decide_hopping", "plan exhaustive"),
    ],
)
def test_what_is_left_out_is_not_done(name: str, words: str) -> None:
    assert words in explained()
    assert words not in explained(name)


def nodes(*without: str) -> list[PlanNode]:
    """Of a filter over a stream of three columns, of which it reads two."""
    engine = penstock.Engine(without=without)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    return list(plan_nodes(engine.query(QUERIES["filter"])._pipeline.plan))


def test_columns_that_are_not_pruned_and_selects_that_are_not_shared() -> None:
    source = next(one for one in nodes() if isinstance(one, SourceNode))
    assert source.columns == (1, 2)
    source = next(one for one in nodes("prune_columns") if isinstance(one, SourceNode))
    assert source.columns is None
    assert any(isinstance(one, SharedSelectNode) for one in nodes())
    assert not any(isinstance(one, SharedSelectNode) for one in nodes("share_selects"))


def test_every_pass_has_its_reason() -> None:
    assert [one.name for one in PASSES][:2] == ["decide_hopping", "make_nodes"]
    assert len({one.name for one in PASSES}) == len(PASSES)
    assert all(one.reason for one in PASSES)
    assert set(OPTIONAL) == {one.name for one in PASSES} - {"make_nodes"}


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (["make_nodes"], "found `make_nodes`"),
        (["prune_column"], "Did you mean `prune_columns`"),
        ("prune_columns", "a list of names of passes, found `prune_columns`"),
    ],
)
def test_names_are_checked(without: Any, message: str) -> None:
    with pytest.raises(penstock.UsageError, match=message):
        penstock.Engine(without=without)


def test_it_is_said_among_the_options_and_stays_in_a_checkpoint() -> None:
    engine = penstock.Engine(without=["share_selects", "prune_columns"])
    assert engine.options["without"] == ("prune_columns", "share_selects")
    assert penstock.Engine.restore_bytes(engine.checkpoint_bytes()).options == engine.options
