"""What slices of the literal chain cost here where queries are given their pairs.

Queries with different windows are run in one slice, in some and in a slice for each window. The formulas of
chain_cost.py are linear in the weights: what a chain costs with one weight of 1 and all others 0 is how often
that one counts in it. The weights are what fits best by how much the times of two chains differ; what they
have in common, taking rows in and making results, is in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Column
from penstock.engine.intake.ingest import StreamSchema
from penstock.engine.join_forms.choose_layout import ChooseLayout
from penstock.engine.plan.plan import JoinNode, SideNode, SourceNode
from penstock.engine.rows.band import EQUALITY
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window
from penstock.engine.running.runtime import Runtime
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.share.chain_cost import Given, giving_costs
from penstock.optimizer.share.share_joins import JoinForm, share_join
from penstock.optimizer.share.workload import QueryLoad, Workload, independent

from .calibrate_hopping import bounded

Clock = Callable[[], float]
CutAt = Callable[[Sequence[int]], ChooseLayout]

NAMES = "given_turn", "given_taker", "given_test", "given_merge"
TYPES = (SqlType.TIMESTAMP, SqlType.BIGINT)
GAP_US = 1_000
WINDOW_ROWS = 1_024  # the longest window, and rows of each stream that are timed
QUERIES = 12
CHAINS = ((12,), (3, 12), (6, 12), (4, 8, 12), tuple(range(2, 13, 2)), tuple(range(1, 13)))  # the last: all
PUSHES = ((16, 1 << 40), (16, 20), (64, 80), (256, 80), (256, 4))  # rows of a push of either stream, keys


def given_times(runs: int, clock: Clock, known: Weights, choose_layout: CutAt) -> dict[str, float]:
    """The weights by name, none far below those of some other machine that are `known`.

    arrange: how joins are kept whose slices end at some windows.
    """
    run_chain(CHAINS[1], 256, 80, clock, choose_layout)  # compiled, if it was not: it tests and it merges
    counts, seconds = [], []
    for push_rows, keys in PUSHES:
        times = [
            min(run_chain(chain, push_rows, keys, clock, choose_layout) for _ in range(runs))
            for chain in CHAINS
        ]
        used = [uses(chain, push_rows, keys) for chain in CHAINS]
        for chain, time, use in zip(CHAINS[:-1], times, used, strict=False):
            passing = 2 * WINDOW_ROWS * (QUERIES - len(chain)) * known.slice_row
            whole = times[-1]  # as a share of this, so that long runs count no more than short ones
            counts.append((used[-1] - use) / whole)
            seconds.append((whole - time - passing) / whole)
    scale = np.array([getattr(known, name) for name in NAMES])
    found = scale * bounded(np.array(counts) * scale, np.array(seconds), np.ones(len(NAMES)))
    return dict(zip(NAMES, found.tolist(), strict=True))


def windows_us() -> list[int]:
    return [GAP_US * WINDOW_ROWS * n // QUERIES for n in range(1, QUERIES + 1)]


def uses(chain: Sequence[int], push_rows: int, keys: int) -> NDArray:
    """How often each weight counts while the rows that are timed are worked."""
    rate = 1e6 / GAP_US
    queries = tuple(QueryLoad(f"q{n}", us / 1e6, us / 1e6) for n, us in enumerate(windows_us()))
    load = Workload(queries, rate, rate, 1 / keys, independent({}), independent({}))
    windows_s = np.array(windows_us()) / 1e6
    units = [Given(windows_s, 2 * push_rows, *prices) for prices in np.eye(len(NAMES)).tolist()]
    nodes = np.array([0, *chain])
    per_s = [giving_costs(load, unit, nodes[:-1], nodes[1:]).sum() for unit in units]
    return np.array(per_s) * WINDOW_ROWS / rate


def run_chain(chain: Sequence[int], push_rows: int, keys: int, clock: Clock, choose_layout: CutAt) -> float:
    """Seconds of the pushes of as many rows as the longest window holds, once it is full."""
    windows = windows_us()
    runtime = Runtime(
        clock, strategy="chain-cpu", choose_layout=choose_layout([windows[n - 1] for n in chain])
    )
    for name in "ab":
        runtime.add_stream(StreamSchema(name, ("ts", "key"), TYPES, 0, 0))
    schema = pa.schema([("_ts", pa.timestamp("us"))])
    sources = SourceNode("a", TYPES), SourceNode("b", TYPES)
    key = (Column(SqlType.BIGINT, 1),)
    for n, window in enumerate(windows):
        side = SideNode(Window("range", window), None, key, ())
        runtime.add_query(
            f"q{n}", share_join(JoinNode(*sources, side, side, EQUALITY), JoinForm()), schema, False
        )
    rng = np.random.default_rng(1)
    ts = GAP_US * np.arange(1, 2 * WINDOW_ROWS + 1)
    tables = [
        # rows of b come before those of a, so that slices have one turn for both: when b has come
        pa.table({"ts": pa.array(ts - n, pa.timestamp("us")), "key": rng.integers(0, keys, len(ts))})
        for n in (0, 1)
    ]
    seconds = 0.0
    for start in range(0, len(ts), push_rows):
        began = clock()
        for name, table in zip("ab", tables, strict=True):
            runtime.push(name, table.slice(start, push_rows))
        if start >= WINDOW_ROWS:
            seconds += clock() - began
    runtime.close()
    return seconds
