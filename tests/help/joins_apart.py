"""Joins of several queries that part as a test wants it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import penstock
from penstock.engine.joins import reconsider
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.join_layout import JoinLayout
from penstock.optimizer.share.lay_out_joins import LayoutChooser

CREATE = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT, s VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT, s VARCHAR)
"""


def part_always(patch: pytest.MonkeyPatch) -> None:
    """Joins of several queries with RANGE windows part as soon as they may, and are looked at as often."""
    choose_layout = LayoutChooser.__call__

    def apart(self: LayoutChooser, join: WindowJoin) -> JoinLayout:
        may = len(join.members) > 1 and not any(side.by_place for side in join.sides)
        return replace(choose_layout(self, join), apart=may)

    patch.setattr(LayoutChooser, "__call__", apart)
    patch.setattr(reconsider, "QUIET_ROWS", 0)


def feed(engine: penstock.Engine, parts: int, rng: np.random.Generator, keys: int) -> None:
    latest = max((one.last_ts for one in engine._runtime.streams.values() if one.rows_in), default=0)
    for part in range(parts):
        for stream in "ab":
            ts = latest + (part * 2_000 + np.arange(2_000)) * 1_000
            columns = {"ts": ts, "k": rng.integers(0, keys, 2_000), "v": rng.integers(0, 800, 2_000)}
            engine.push(stream, {**columns, "s": ["x"] * 2_000})
