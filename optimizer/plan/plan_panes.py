"""Which aggregates of hopping queries run by panes: those straight over a RANGE window of one stream.

COUNT, SUM, AVG, MIN and MAX can be put together from panes. DISTINCT cannot, nor can windows that are
unbounded or count rows.

A pane has a cell for every group, and every hop looks at every group. Where a window has very many hops, rows
are fewer than cells, and it is left to the operators that keep rows; sooner so for EMIT DELTA, where those
look only at groups that change. Measured with a key of its own for almost every row, which is the worst case,
both are equally fast at about 40 hops to a window. A pane in which few groups have rows keeps cells for these
alone (pane_marks.py), so that many groups take no more than their rows: a window of 250 hops and 200,000 rows
of 100,000 groups took 45 MB for exact sums of DOUBLE, and 34 MB by rows.
"""

from __future__ import annotations

from typing import Literal

from penstock.engine.expressions.expression import Expression, conjunction
from penstock.engine.plan.plan import CommonPanes, PaneAggregateNode, PaneCall, SourceNode
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import MAX_TS
from penstock.optimizer.bind.bind_aggregate import write_aggregate
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.over_stream import over_stream
from penstock.optimizer.tree.logical import Aggregate, AggregateCall, StreamScan

MAX_HOPS = {"complete": 256, "delta": 40}  # in a window
SUMMED = (SqlType.BIGINT, SqlType.DOUBLE)
ORDERED = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.TIMESTAMP, SqlType.BOOLEAN, SqlType.VARCHAR)


def plan_panes(
    base: Aggregate, hops: Hops, emit: Literal["complete", "delta"], owner: str | None = None
) -> PaneAggregateNode | None:
    """The aggregate by panes; None if that cannot be. owner: the query, if it shares with nobody."""
    flat = flatten_input(base.input)
    scan = flat.base
    if not isinstance(scan, StreamScan) or not all(map(is_combined, base.aggregates)):
        return None
    size = scan.window.size
    if scan.window.kind != "range" or size is None or size > min(MAX_HOPS[emit] * hops.size, MAX_TS):
        return None
    types = tuple(field.type for field in scan.fields)
    places = tuple(range(len(types)))

    def whole(expression: Expression) -> Expression:
        """Over the columns of the stream, whatever the query calls it."""
        return over_stream(substitute(expression, flat.outputs), scan.stream, places)

    predicate = conjunction(tuple(over_stream(one, scan.stream, places) for one in flat.predicates))
    common = CommonPanes(scan.stream, predicate, tuple(map(whole, base.keys)), owner)
    calls = tuple(
        PaneCall(call.function, None if call.argument is None else whole(call.argument), call.type)
        for call in base.aggregates
    )
    names = (*map(str, base.keys), *map(write_aggregate, base.aggregates))
    return PaneAggregateNode(SourceNode(scan.stream, types), common, size, hops, calls, emit, names)


def is_combined(call: AggregateCall) -> bool:
    """Whether the call's value for a window follows from its values for panes."""
    if call.distinct and call.function not in ("min", "max"):
        return False
    if call.argument is None or call.function == "count":
        return True
    return call.argument.type in (SUMMED if call.function in ("sum", "avg") else ORDERED)
