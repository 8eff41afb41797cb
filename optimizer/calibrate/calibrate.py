"""Measuring the weights of the cost model on this machine: `penstock calibrate`.

As in section 4.2 of the window-join paper: each index runs with a search-only and an update-only load at 20
points, and the weight is what fits the measured times best to the accesses that cost.py counts. The paper's
points are rates; cost is linear in those by construction, so ours are window sizes, where a formula could
be wrong. The fit minimises the relative error: indexes are chosen by ratios, at small windows as at large.

Beyond the paper's weights: what a match costs in a tree, what a pair costs after it is found, what a row
costs whatever the index; and for joins that queries have in common, what one more slice costs a row, one more
index a prober, one more query a pair; and below incremental queries, what rows and pairs of a join cost,
either way their expiry can be heard of (calibrate_expiry.py); and what operators of hopping queries cost in
each mode (calibrate_hopping.py).
"""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.indexes.build import INDEX_KINDS, build_index
from penstock.engine.indexes.index import Index, Probes
from penstock.engine.intake.ingest import StreamSchema
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.kernels.base.jit import kernel
from penstock.engine.kernels.joins.bounds import first_alive, first_within, precede
from penstock.engine.kernels.joins.pairs import take_pairs_of
from penstock.engine.kernels.rows.merge import merge_pairs
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin, JoinNode, SideNode, SourceNode
from penstock.engine.rows.band import EQUALITY
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window
from penstock.engine.running.runtime import Runtime
from penstock.engine.shelves.key_counts import KeyCounts
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.cost import ACCESSES, OURS
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.share.share_joins import JoinForm, share_join
from penstock.optimizer.share.sharing_cost import DEALT_TO

from .calibrate_expiry import expiry_times
from .calibrate_given import given_times
from .calibrate_hopping import hopping_weights
from .calibrate_slices import slice_pair_time, slice_times

# As in the paper, processor time: others may be using the machine. Elapsed time where that clock is coarse.
processor_time = (
    time.thread_time if time.get_clock_info("thread_time").resolution <= 1e-6 else time.perf_counter
)

NOTHING = np.empty(0, np.int64)
MATCHES = (0.25, 1.0, 4.0, 16.0)  # per probe, in turn over the windows
BATCH_ROWS = 8_192
SLICE_ROWS = 4_096  # handed on at once between operators, and pairs routed at once
SLICES = 8  # passed in one run
STEP_ROWS = 8  # rows that enter, and leave, at once
SCAN_ROWS = 10_000_000  # looked at by a scan in one run


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: window sizes, probes and rows of a run, and runs, of which the fastest counts."""

    windows: tuple[int, ...]
    operations: int
    runs: int


FULL = Effort(tuple(int(size) for size in np.geomspace(50, 50_000, 20)), 40_000, 7)
QUICK = Effort((50, 500, 5_000, 20_000), 4_000, 2)


def calibrate(progress: Callable[[str], None] = lambda line: None, quick: bool = False) -> Weights:
    """Measure the weights; `progress` is told what was found, a line at a time. Takes minutes."""
    effort = QUICK if quick else FULL
    rng = np.random.default_rng(1)
    fitted: dict[str, tuple[float, float]] = {}
    for kind in INDEX_KINDS:
        search_time(kind, 50, 1.0, QUICK, rng)  # compiled, if it was not
        update_time(kind, 50, QUICK, rng)
        searches, updates = [], []
        for place, rows in enumerate(effort.windows):
            matches = MATCHES[place % len(MATCHES)]
            accesses = ACCESSES[kind](rows, matches, OURS)
            searches.append((accesses.search, search_time(kind, rows, matches, effort, rng)))
            updates.append((accesses.update, update_time(kind, rows, effort, rng)))
        fitted[kind] = fit(searches), fit(updates)
        search, update = fitted[kind]
        progress(
            f"{kind}: search {search * 1e9:.3g} ns an access (within {misfit(searches, search):.0%}), "
            f"update {update * 1e9:.3g} ns (within {misfit(updates, update):.0%})"
        )
    walk, ttree_walk = (walk_time(kind, effort, rng) for kind in ("b+tree", "t-tree"))
    pair = pair_time(effort, rng)
    row = row_time(effort, rng)
    walks = f"{walk * 1e9:.3g} ns a match in a B+tree, {ttree_walk * 1e9:.3g} ns in a T-tree"
    progress(f"{walks}, {pair * 1e9:.3g} ns a pair, {row * 1e9:.3g} ns a row")
    slice_row_s, slice_turn = slice_times(effort.runs, processor_time)
    sharing = (
        slice_row_s, shelf_time(effort, rng), route_time(effort, rng),
        key_time(effort, rng), deal_time(effort, rng),
    )  # fmt: skip
    slice_pair = slice_pair_time(effort.runs, processor_time)
    tell_row = tell_time(effort, rng)
    slice_row, shelf_probe, route, key_count, deal = (seconds * 1e9 for seconds in sharing)
    progress(
        f"shared joins: {slice_row:.3g} ns a row and slice, {slice_turn * 1e9:.3g} ns a turn of one, "
        f"{slice_pair * 1e9:.3g} ns a pair told apart there, {shelf_probe:.3g} ns a probe of one more index, "
        f"{route:.3g} ns a pair and query, {key_count:.3g} ns to count a row by key, "
        f"{deal:.3g} ns to deal out a pair, {tell_row * 1e9:.3g} ns to tell who takes a row"
    )
    expiry = expiry_times(effort.operations, max(1, effort.runs // 3), processor_time, Hashes)
    shown = [f"{seconds * 1e9:.3g}" for seconds in expiry]
    progress(
        f"incremental joins, kept or found again: {shown[0]} or {shown[1]} ns a row; "
        f"{shown[2]} or {shown[3]} ns a pair of changes, {shown[4]} or {shown[5]} of sums, "
        f"{shown[6]} or {shown[7]} of MIN and MAX"
    )
    weights = Weights(
        *fitted["scan"], *fitted["hash"], *fitted["t-tree"], *fitted["b+tree"], walk, pair, row,
        *sharing, *expiry, ttree_walk, slice_pair, tell_row, slice_turn, machine(),
    )  # fmt: skip
    given = given_times(max(1, effort.runs // 2), processor_time, weights, Scans)
    turn, taker = given["given_turn"] * 1e6, given["given_taker"] * 1e6
    test, merge = given["given_test"] * 1e9, given["given_merge"] * 1e9
    progress(
        f"chains that give pairs: {turn:.3g} us a turn of a slice, {taker:.3g} us for each who takes them, "
        f"{test:.3g} ns to test a pair, {merge:.3g} ns to put it in order"
    )
    hopping, misses = hopping_weights(quick, processor_time, Hashes, weights)
    whole, folded = hopping["hop_whole_row"] * 1e9, hopping["hop_fold"] * 1e9
    progress(
        f"hopping queries: {hopping['hop_operator'] * 1e6:.3g} us an operator and hop, {whole:.3g} ns a row "
        f"of a whole join, {folded:.3g} ns to fold a row into an answer ... (within {misses:.0%})"
    )
    return dataclasses.replace(weights, **given, **hopping)  # type: ignore[arg-type]


def fit(points: list[tuple[float, float]]) -> float:
    """The weight w that makes w * accesses closest to the seconds, in relative terms."""
    ratios = np.array([accesses / seconds for accesses, seconds in points])
    return float(ratios.sum() / (ratios**2).sum())


def misfit(points: list[tuple[float, float]], weight: float) -> float:
    """How far the fitted cost is from the measured one, as a rule (median)."""
    return float(np.median([abs(weight * accesses / seconds - 1) for accesses, seconds in points]))


def fastest(runs: int, work: Callable[[], float]) -> float:
    """Seconds of the fastest run: what disturbs a run only ever makes it slower."""
    return min(work() for _ in range(runs))


def search_time(kind: str, rows: int, matches: float, effort: Effort, rng: np.random.Generator) -> float:
    """Seconds of a probe into a window that does not change."""
    distinct = max(1, round(rows / matches))
    index = build_index(kind, 0, rng.integers(0, distinct, rows))
    count = effort.operations if kind != "scan" else max(20, min(effort.operations, SCAN_ROWS // rows))
    keys = rng.integers(0, distinct, count)
    first, last = np.zeros(count, np.int64), np.full(count, rows)

    def run() -> float:
        probes = Probes(keys, keys, first, last, rows)
        began = processor_time()
        index.run(probes, NOTHING, NOTHING, True)
        return processor_time() - began

    return fastest(effort.runs, run) / count


def update_time(kind: str, rows: int, effort: Effort, rng: np.random.Generator) -> float:
    """Seconds for a row to enter and another to leave; probers that seek nothing say when."""
    total = rows + effort.operations
    keys = rng.integers(0, rows, total)

    def run() -> float:
        index = build_index(kind, 0, keys[:rows])
        began = processor_time()
        for start in range(rows, total, BATCH_ROWS):
            replace_rows(index, keys[start : start + BATCH_ROWS], start, rows)
        return processor_time() - began

    return fastest(effort.runs, run) / effort.operations


def replace_rows(index: Index, keys: NDArray, start: int, window: int) -> None:
    """Rows from `start` on enter a full window, a few at a time, and as many leave."""
    end = start + len(keys)
    index.extend(keys)
    until = np.arange(start + STEP_ROWS, end + 1, STEP_ROWS)
    nothing = np.ones(len(until), np.int64), np.zeros(len(until), np.int64)
    index.run(Probes(*nothing, until - window, until, end), NOTHING, NOTHING, True)
    index.purge(end - window)


def walk_time(kind: str, effort: Effort, rng: np.random.Generator, rows: int = 10_000) -> float:
    """Seconds per match of a probe that finds a hundred, over one that finds one."""
    index = build_index(kind, 0, rng.permutation(rows))
    count = max(100, effort.operations // 20)
    low = rng.integers(0, rows - 100, count)
    first, last = np.zeros(count, np.int64), np.full(count, rows)
    out_prober, out_row = np.empty((2, 100 * count), np.int64)

    def run(high: NDArray) -> float:
        probes = Probes(low, high, first, last, rows)
        began = processor_time()
        index.run(probes, out_prober, out_row, False)
        return processor_time() - began

    many, one = (fastest(2 * effort.runs, lambda width=width: run(low + width)) for width in (99, 0))  # type: ignore[misc]
    return max(many - one, 0.01 * many) / (99 * count)


def pair_time(effort: Effort, rng: np.random.Generator, rows: int = 10_000) -> float:
    """Seconds to merge a found pair by time and to gather two columns of each of its rows."""
    store = Store([SqlType.BIGINT, SqlType.DOUBLE])
    ts = np.arange(rows)
    store.append(ts, [pa.array(ts), pa.array(rng.random(rows))])
    count = min(rows, effort.operations)
    found = [(np.sort(rng.integers(0, rows, count)), rng.integers(0, rows, count)) for _ in range(2)]

    def run() -> float:
        began = processor_time()
        out = [np.empty(2 * count, np.int64) for _ in range(3)]
        (a, a_row), (b, b_row) = found
        merge_pairs(a, a_row, 0, count, True, ts, 0, b, b_row, 0, count, True, ts, 0, *out)
        for side in out[1:]:
            for column in store.columns:
                column.view().take(side)
        return processor_time() - began

    return fastest(4 * effort.runs, run) / (2 * count)


def row_time(effort: Effort, rng: np.random.Generator) -> float:
    """Seconds for a row to be taken in, ordered among the other side's, stored and dropped by a join."""
    return taken_time(effort, rng, [None]) / 2


def tell_time(effort: Effort, rng: np.random.Generator) -> float:
    """Seconds by which a row costs more where two queries ask different things of its stream: it is told who
    takes it, kept apart from rows of other lifetimes, and sought in two places."""
    key = Column(SqlType.BIGINT, 1)
    least, most = (Literal(SqlType.BIGINT, effort.operations * n) for n in (1, 2))
    asked = [
        Call(SqlType.BOOLEAN, "greater", (key, most)),
        Call(SqlType.BOOLEAN, "less", (key, least)),
    ]
    return max(taken_time(effort, rng, asked) - taken_time(effort, rng, [None]), 1e-9)


def taken_time(effort: Effort, rng: np.random.Generator, asked: Sequence[Expression | None]) -> float:
    """Seconds for a row of either stream to be taken in by queries that ask these things of the left.

    Windows of about one row: what the index does is next to nothing.
    """
    rows = 3 * effort.operations
    types = (SqlType.TIMESTAMP, SqlType.BIGINT)
    gap_us = 1_000
    tables = []
    for _ in "ab":
        ts = np.cumsum(rng.exponential(gap_us, rows)).astype(np.int64)
        tables.append(pa.table({"ts": pa.array(ts, pa.timestamp("us")), "key": rng.integers(0, rows, rows)}))
    plans = []
    for number, predicate in enumerate(asked, 1):
        window, keys = Window("range", number * gap_us), (Column(SqlType.BIGINT, 1),)
        left, right = (SideNode(window, one, keys, ()) for one in (predicate, None))
        sources = SourceNode("a", types), SourceNode("b", types)
        plans.append(share_join(JoinNode(*sources, left, right, EQUALITY), JoinForm()))
    schema = pa.schema([("_ts", pa.timestamp("us"))])

    def run() -> float:
        runtime = Runtime(processor_time, strategy="mem-opt", choose_layout=Scans())
        for name in "ab":
            runtime.add_stream(StreamSchema(name, ("ts", "key"), types, 0, 0))
        for number, plan in enumerate(plans):
            runtime.add_query(f"q{number}", plan, schema, len(plans) == 1)
        began = processor_time()
        for name, table in zip("ab", tables, strict=True):
            runtime.push(name, table)
        runtime.close()
        return processor_time() - began

    run()
    return fastest(effort.runs, run) / rows


class Scans:
    """Every join is kept with scans; slices of a chain end at these windows, or at all."""

    kind = "scan"

    def __init__(self, ends: Sequence[int] = ()) -> None:
        self._ends = ends

    def __call__(self, join: WindowJoin) -> JoinLayout:
        return JoinLayout((self.kind, self.kind))

    def chain_ends(
        self,
        members: Sequence[Member],
        common: CommonJoin,
        sides: tuple[Side, Side],
        rows_per_turn: Callable[[], float | None],
        present: Callable[[], Sequence[int]],
        windows: Sequence[int],
    ) -> Sequence[int]:
        """Also at the longest there is, while queries are being started."""
        return [end for end in windows if not self._ends or end in self._ends or end == windows[-1]]


class Hashes(Scans):
    """Every join is kept with hash indexes."""

    kind = "hash"


def shelf_time(effort: Effort, rng: np.random.Generator) -> float:
    """Seconds of a probe into one more shelf, a batch at a time: what of it a row sees, and a hash index with
    next to nothing in it."""
    index = build_index("hash")
    keys = rng.integers(0, 1 << 40, BATCH_ROWS)
    times = np.arange(BATCH_ROWS) * 1_000
    ts = times[:: BATCH_ROWS // 32].copy()
    index.extend(keys[: len(ts)])
    index.run(Probes(NOTHING, NOTHING, NOTHING, NOTHING, len(ts)), NOTHING, NOTHING, True)
    ages, cells = np.empty((2, BATCH_ROWS), np.int64)

    def run() -> float:
        row_from, row_until = np.empty((2, BATCH_ROWS), np.int64)
        began = processor_time()
        precede(times, NOTHING, len(ts), True, row_until)
        first_alive(times, row_until, int(times[-1]), ts, 0, 0, len(ts), row_from)
        first_within(times, times, int(times[-1]), ts, 0, row_from, row_until)
        row_from[:] = 0
        index.run(Probes(keys, keys, row_from, row_until, len(ts)), ages, cells, True)
        return processor_time() - began

    run()
    return fastest(8 * effort.runs, run) / BATCH_ROWS


def route_time(effort: Effort, rng: np.random.Generator, queries: int = 16) -> float:
    """Seconds to test a pair against a query: is it young enough, is its value high enough; which are taken.

    A quarter of the tests succeed, in no order.
    """
    ages, values = rng.integers(0, 1_000, (2, SLICE_ROWS))
    windows = rng.integers(1, 1_000, queries)
    lows = rng.integers(1, 1_000, queries)
    taken = np.empty(SLICE_ROWS, np.int64)

    def run() -> float:
        began = processor_time()
        route_pairs(ages, values, windows, lows, taken)
        return processor_time() - began

    run()
    return fastest(8 * effort.runs, run) / (queries * SLICE_ROWS)


@kernel
def route_pairs(ages, values, windows, lows, taken):  # type: ignore[no-untyped-def]
    """What a router does: each query in turn lists its pairs in `taken`. All int64; how many there were."""
    total = 0
    for query in range(len(windows)):
        window, low = windows[query], lows[query]
        count = 0
        for pair in range(len(ages)):
            taken[count] = pair
            count += (ages[pair] < window) & (values[pair] >= low)
        total += count
    return total


def key_time(effort: Effort, rng: np.random.Generator, distinct: int = 1_000) -> float:
    """Seconds for a row to enter or leave a slice where rows are counted by key, or to look its key up.

    A prober comes with every row, and every row leaves the only slice there is: three such steps.
    """
    keys = rng.integers(0, distinct, BATCH_ROWS)
    pos = RowBuffer("int64")
    pos.append(np.arange(BATCH_ROWS))
    times, zeros = pos.live.copy(), np.zeros(BATCH_ROWS, np.int64)

    def run() -> float:
        counts = KeyCounts(0, np.array([BATCH_ROWS // 4]), 1)
        probes = Probes(keys, keys, zeros, times + 1, BATCH_ROWS)
        began = processor_time()
        counts.run(probes, times, None, keys, pos, None, (zeros, 0), np.zeros(2, np.int64))
        return processor_time() - began

    run()
    return fastest(8 * effort.runs, run) / (3 * BATCH_ROWS)


def deal_time(effort: Effort, rng: np.random.Generator, rows: int = 10_000) -> float:
    """Seconds to find out who of DEALT_TO queries takes a pair, and to hand it to them; half of them do.

    Their windows are alike: else ages are looked at as well, and joins apart find less.
    """
    ts = np.arange(rows)
    tags = rng.integers(0, DEALT_TO, rows).astype(np.int32)
    found = [
        (np.sort(rng.integers(0, rows, SLICE_ROWS)), rng.integers(0, rows, SLICE_ROWS)) for _ in range(2)
    ]
    sizes, low = np.array([rows, rows]), np.array([DEALT_TO // 2, 0], np.int32)
    none = np.empty(0, np.int64)
    demand = low, np.full(2, DEALT_TO, np.int32), none

    def run() -> float:
        pairs = tuple([np.empty(2 * SLICE_ROWS, np.int64) for _ in range(3)])
        out = tuple([np.empty(2 * SLICE_ROWS + 1, np.int64) for _ in range(3)])
        began = processor_time()
        (a, b), (c, d) = found
        merge_pairs(
            a, b, 0, SLICE_ROWS, True, ts, 0, c, d, 0, SLICE_ROWS, True, ts, 0, *pairs,
        )  # fmt: skip
        leaves = np.stack([tags[refs] for refs in pairs[1:]])
        words = np.empty((0, 2 * SLICE_ROWS), np.int64)
        for _ in range(DEALT_TO):
            take_pairs_of(pairs, (none, none), (leaves, words), sizes, demand, out)
        return processor_time() - began

    run()
    return fastest(8 * effort.runs, run) / (2 * SLICE_ROWS)


def machine() -> str:
    """The processor, the number of cores and the system, and nothing that names this one machine."""
    model = ""
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), ""
            )
    except OSError:
        pass
    model = model or platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
