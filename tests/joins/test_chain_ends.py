"""Where the slices of a literal chain end while it runs, by cost: merged where that is clearly cheaper."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from work_of import joins_of

import penstock
from penstock.engine.chain.chain import ChainGroup
from penstock.optimizer.share import lay_out_joins
from penstock.optimizer.share.chain_cost import chain_ends
from penstock.optimizer.share.workload import Workload

CREATE = "CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)"


@pytest.mark.parametrize(("saved", "merged"), [(0.1, False), (0.3, True)])
def test_slices_stay_unless_others_are_clearly_cheaper(
    saved: float, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one slice they would save this share of the cost."""

    def costs(load: Workload, *weights: float) -> NDArray:
        nodes = np.arange(len(chain_ends(load)) + 1)
        each = 1.001 * (nodes - nodes[:, None]) - 0.001
        each[0, -1] *= 1 - saved if is_running else 1
        return each

    monkeypatch.setattr(lay_out_joins, "chain_edge_costs", costs)
    is_running = False
    engine = penstock.Engine(sharing="chain-cpu", index="scan")
    engine.execute(CREATE)
    pairs = "SELECT x.k FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {} us"
    for n in range(1, 7):
        engine.query(pairs.format(40 * n), count_only=True)
    (group,) = joins_of(engine)
    assert isinstance(group.form, ChainGroup) and len(group.form.slices) == 6
    is_running = True
    for start in range(0, 6_000, 60):
        ts = np.arange(start, start + 60)
        for stream in ("a", "b"):
            engine.push(stream, {"ts": ts, "k": ts * 7 % 5})
    assert len(group.form.slices) == (1 if merged else 6)


def slices(push_rows: int, count_only: bool = True, keys: int = 20) -> int:
    """Of twelve windows from 1 s to 12 s, with 20 rows a second, after 4,096 rows."""
    engine = penstock.Engine(sharing="chain-cpu", index="scan")
    engine.execute(CREATE)
    for window_s in range(1, 13):
        engine.query(
            f"SELECT x.k FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {window_s} SECONDS",
            count_only=count_only,
        )
    ts, k = np.arange(2_048) * 50_000, np.random.default_rng(1).integers(0, keys, 2_048)
    for start in range(0, 2_048, push_rows):
        rows = {"ts": ts[start : start + push_rows], "k": k[start : start + push_rows]}
        engine.push("a", rows)
        engine.push("b", rows)
    (group,) = joins_of(engine)
    assert isinstance(group.form, ChainGroup)
    return len(group.form.slices)


def test_slices_are_merged_where_turns_are_short() -> None:
    """A slice also costs per turn: where few rows come at a time, fewer slices are worth more tests."""
    assert slices(4) < slices(1_024)


def test_slices_whose_pairs_are_given_cost_more_per_turn() -> None:
    """Each has a turn of its own, and everyone who takes its pairs is given them apart: merging pays sooner.

    Not where pairs are many: whose window ends within a slice tests all its pairs.
    """
    assert slices(64) == 12
    assert slices(64, count_only=False) <= 4
    assert slices(1_024, count_only=False, keys=1) > slices(4, count_only=False, keys=1)
