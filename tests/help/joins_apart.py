"""Joins of several queries that part as a test wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import penstock
from penstock.engine.joins import join as join_module
from penstock.engine.joins.join import WindowJoin
from penstock.engine.members.arrangement import Arrangement, Parting
from penstock.optimizer.share.arrange_joins import Arranger

CREATE = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT, s VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT, s VARCHAR)
"""


def part_always(patch: pytest.MonkeyPatch, partings: Sequence[Parting]) -> None:
    """Joins of several queries part as soon as they may, in the first of these ways that they can, and are
    looked at as often."""
    arrange = Arranger.__call__

    def apart(self: Arranger, join: WindowJoin) -> Arrangement:
        can = {"kinds": join.roster.is_mixed, "each": len(join.members) > 1, "one": True}
        parting = next(one for one in (*partings, "one") if can[one])
        return replace(arrange(self, join), parting=parting)

    patch.setattr(Arranger, "__call__", apart)
    patch.setattr(Arranger, "prefers_kinds", lambda self, join: "kinds" in partings)
    patch.setattr(Arranger, "stays_by_kinds", lambda self, joins: "kinds" in partings)
    patch.setattr(join_module, "QUIET_ROWS", 0)


def feed(engine: penstock.Engine, parts: int, rng: np.random.Generator, keys: int) -> None:
    latest = max((one.last_ts for one in engine._runtime.streams.values() if one.rows_in), default=0)
    for part in range(parts):
        for stream in "ab":
            ts = latest + (part * 2_000 + np.arange(2_000)) * 1_000
            columns = {"ts": ts, "k": rng.integers(0, keys, 2_000), "v": rng.integers(0, 800, 2_000)}
            engine.push(stream, {**columns, "s": ["x"] * 2_000})
