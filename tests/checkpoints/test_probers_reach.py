"""Each row of a shared join looks back as far as some query asks of it, and a checkpoint holds how far."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from work_of import joins_of

import penstock
from penstock.engine.indexes.build import build_index
from penstock.engine.indexes.index import Probes
from penstock.engine.joins.direction import FROM_ANYWHERE, Direction
from penstock.engine.restoring.in_order import Disorder

STREAMS = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in "ab")
QUERIES = (
    "SELECT x.k, x.v, y.v AS w FROM a [RANGE 60 us] AS x JOIN b [RANGE 60 us] AS y ON x.k = y.k",
    "SELECT x.k, y.v FROM a [RANGE 30 us] AS x JOIN b [RANGE 900 us] AS y ON x.k = y.k WHERE x.v < 50",
)


def rows(dice: random.Random, begin: int) -> pa.Table:
    """Forty rows within twenty microseconds."""
    times = sorted(dice.randrange(20) + begin for _ in range(40))
    return pa.table(
        {"ts": times, "k": [dice.randrange(8) for _ in times], "v": [dice.randrange(100) for _ in times]}
    )


def unordered(engine: penstock.Engine) -> list[Direction]:
    """The directions whose probers last saw rows from here, then from further back."""
    joins = [join for shared in joins_of(engine) for join in shared.joins]
    found = [one for join in joins for one in join._directions if one.probes is not None]
    return [one for one in found if one.probes is not None and (np.diff(one.probes.row_from) < 0).any()]


def run(index: str) -> tuple[penstock.Engine, random.Random]:
    engine = penstock.Engine(index=index, sharing="mem-opt")
    engine.execute(STREAMS)
    for sql in QUERIES:
        engine.query(sql)
    dice = random.Random(7)
    for begin in range(0, 2_000, 20):
        for stream in "ab":
            engine.push(stream, rows(dice, begin))
    return engine, dice


@pytest.mark.parametrize("index", ["hash", "scan", "t-tree", "b+tree"])
def test_a_checkpoint_holds_probers_that_look_back_in_any_order(index: str) -> None:
    engine, dice = run(index)
    assert bool(unordered(engine)) == (index in FROM_ANYWHERE)
    again = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
    last = {stream: rows(dice, 2_000) for stream in "ab"}
    for one in (engine, again):
        for stream, pushed in last.items():
            one.push(stream, pushed)
    for name, query in engine.queries.items():
        assert again.queries[name].results() == query.results()


def test_a_tree_is_not_asked_from_anywhere() -> None:
    """It drops what the first prober does not see."""
    (direction, *_) = unordered(run("hash")[0])
    assert direction.probes is not None
    direction.probes.cursor[:] = 0
    direction._check_restored()
    direction.shelf.index = build_index("b+tree", 0, direction.shelf.index.keys)
    with pytest.raises(Disorder, match="rows that probers see in order"):
        direction._check_restored()


@pytest.mark.parametrize("index", ["hash", "scan", "t-tree", "b+tree"])
def test_each_prober_says_from_where_it_sees_rows(index: str) -> None:
    """A checkpoint of anybody's could say it once for all."""
    probed = build_index(index, 0, np.arange(4))
    keys = np.arange(2)
    probes = Probes(keys, keys, np.zeros(1, np.int64), np.full(2, 4), 4)
    with pytest.raises(AssertionError, match="where each prober begins"):
        probed.run(probes, np.empty(9, np.int64), np.empty(9, np.int64), False)
