"""Windows below joins whose rows are kept once: each join answers what it would answer alone.

Queries over two streams are drawn, added, altered and dropped at drawn moments between drawn pushes of either
stream, in drawn modes (test_hopping_store.py); each is held against an engine of its own, in which it was
from the start and nothing is shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of
from test_hopping_store import MODES, PARTITIONS, RANGES, ROWS, answers_of, asked, drive
from test_window_store import make

import penstock
from penstock.engine.plan import StoredWindowNode, plan_nodes
from penstock.query import EPOCH

LEFT, RIGHT = "(SELECT k, v, t FROM s [{w}]{where}) AS l", "(SELECT k, v, t FROM r [{u}]) AS m"
BODIES = [
    f"SELECT l.k, l.v, m.t FROM {LEFT} JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.k, m.v FROM {LEFT} JOIN {RIGHT} ON l.k + 1 = m.k AND l.v <= m.v",
    f"SELECT l.k, m.v FROM {LEFT} LEFT JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.k, m.t FROM {LEFT} FULL JOIN {RIGHT} ON l.k = m.k AND l.v <= m.v",
    f"SELECT l.t, m.t AS u FROM {LEFT} RIGHT JOIN {RIGHT} ON l.v < m.v",
    f"SELECT l.k, l.t FROM {LEFT} WHERE EXISTS (SELECT 1 FROM r [{{u}}] AS m WHERE m.k = l.k)",
    f"SELECT l.k, l.t FROM {LEFT} WHERE NOT EXISTS (SELECT 1 FROM r [{{u}}] AS m WHERE m.k = l.k)",
    f"SELECT l.k, COUNT(*) AS n, MAX(m.v) AS hi FROM {LEFT} JOIN {RIGHT} ON l.k = m.k GROUP BY l.k",
    f"SELECT DISTINCT l.t, m.t AS u FROM {LEFT} LEFT JOIN {RIGHT} ON l.k = m.k",
    f"SELECT l.v, g.n FROM {LEFT} LEFT JOIN (SELECT k, COUNT(*) AS n FROM r [{{u}}] GROUP BY k) AS g "
    "ON l.k = g.k",
    f"SELECT l.v, g.hi FROM {LEFT} JOIN (SELECT k, MAX(v) AS hi FROM r [{{u}}] GROUP BY k) AS g ON l.k = g.k",
    f"SELECT l.k, m.v, n.t FROM {LEFT} JOIN {RIGHT} ON l.k = m.k JOIN s [{{u}}] AS n ON n.k = l.k",
    f"SELECT l.k, m.t FROM {LEFT} LEFT JOIN s [{{u}}] AS m ON l.k = m.k",
]
JOINS = (
    [f"{body} {{hop}}{emit}" for body in BODIES for emit in ("", " EMIT DELTA")],
    [f"{body} EMIT CHANGES" for body in BODIES],
)
"""Hopping and sliding."""


@settings(max_examples=150)
@given(st.data())
def test_drawn_joins_that_come_go_and_change(data: st.DataObject) -> None:
    windows = [*RANGES, *ROWS, *PARTITIONS[:4]] if data.draw(st.booleans()) else RANGES
    asks = asked(windows=windows, templates=JOINS)
    drive(data.draw, asks, ["2 us", "4 us", "11 us", "3 ROWS"], "sr")
