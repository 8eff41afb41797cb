"""What pairs of a join cost below an incremental query: kept until they leave, or found again when they do.

Two streams are joined with next to no pairs, and with many; what a row costs shows in the first, what a pair
costs in the difference. Whole queries are run, with all that is around the join.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.engine.intake.ingest import StreamSchema
from penstock.engine.join_forms.choose_layout import ChooseLayout
from penstock.engine.plan.approach import Approach
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.running.runtime import Runtime
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.bind.catalog import Catalog, ColumnDef, StreamDef
from penstock.optimizer.plan.plan_query import plan_query
from penstock.optimizer.read.parse import parse_query
from penstock.optimizer.share.share_joins import JoinForm, share_joins

NAMES = ("ts", "k", "v")
TYPES = (SqlType.TIMESTAMP, SqlType.BIGINT, SqlType.DOUBLE)
GAP_US = 1_000
WINDOW_ROWS = 1_000
MATCHES = 25  # rows of the other window that a row meets, where there are pairs
FROM = f"FROM a [RANGE {GAP_US * WINDOW_ROWS} us] JOIN b [RANGE {GAP_US * WINDOW_ROWS} us] ON a.k = b.k"
QUERIES = {
    "rows": f"SELECT a.k, a.v, b.v AS w {FROM} EMIT CHANGES",
    "sums": f"SELECT a.k, COUNT(*) AS n, SUM(b.v) AS s {FROM} GROUP BY a.k",
    "order": f"SELECT a.k, MAX(b.v) AS m {FROM} GROUP BY a.k",
}
WAYS: tuple[Approach, Approach] = ("promises", "nta")

Clock = Callable[[], float]
NewArrange = Callable[[], ChooseLayout]
ExpiryTimes = tuple[float, float, float, float, float, float, float, float]


def expiry_times(rows: int, runs: int, clock: Clock, choose_layout: NewArrange) -> ExpiryTimes:
    """Seconds, kept and found again: per row, then per pair for rows, sums and order."""
    rng = np.random.default_rng(2)
    for reader, way in itertools.product(QUERIES, WAYS):  # compiled, if they were not
        run(reader, way, streams(MATCHES, 1, rng), clock, choose_layout)
    few, many = streams(rows, 1 << 40, rng), streams(rows, WINDOW_ROWS // MATCHES, rng)
    bare = [min(run("rows", way, few, clock, choose_layout) for _ in range(runs)) for way in WAYS]

    def pair(reader: str, way: int) -> float:
        seconds = min(run(reader, WAYS[way], many, clock, choose_layout) for _ in range(runs))
        return max(seconds - bare[way], 1e-6) / (2 * rows * MATCHES)

    return (
        bare[0] / (2 * rows),
        bare[1] / (2 * rows),
        *(pair("rows", 0), pair("rows", 1)),
        *(pair("sums", 0), pair("sums", 1)),
        *(pair("order", 0), pair("order", 1)),
    )


def streams(rows: int, keys: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    made = {}
    for name in "ab":
        ts = np.cumsum(rng.exponential(GAP_US, rows)).astype(np.int64)
        columns = [pa.array(ts, pa.timestamp("us")), rng.integers(0, keys, rows), rng.random(rows)]
        made[name] = pa.table(columns, NAMES)
    return made


def run(
    reader: str, way: Approach, tables: dict[str, pa.Table], clock: Clock, choose_layout: NewArrange
) -> float:
    """Seconds to work the streams off."""
    catalog = Catalog()
    runtime = Runtime(clock, strategy="mem-opt", choose_layout=choose_layout())
    for name in tables:
        catalog.add(StreamDef(name, tuple(map(ColumnDef, NAMES, TYPES)), 0))
        runtime.add_stream(StreamSchema(name, NAMES, TYPES, 0, 0))
    bound = bind_query(parse_query(QUERIES[reader]), catalog)
    planned = plan_query(bound, False, way)
    fields = [pa.field("_ts", pa.timestamp("us")), pa.field("_diff", pa.int8())]
    fields += [pa.field(field.name, ARROW_TYPES[field.type]) for field in bound.fields]
    node = share_joins(planned.node, JoinForm())
    runtime.add_query("q", node, pa.schema(fields), True, True, planned.netting, way)
    began = clock()
    for start in range(0, tables["a"].num_rows, WINDOW_ROWS):
        for name, table in tables.items():
            runtime.push(name, table.slice(start, WINDOW_ROWS))
    return clock() - began
