"""The end of the input: up to when each query is answered when the streams are closed.

    hop 10, rows at        1        11 12
    boundaries                 10         20                  closed: the answer at 20 comes too
    window 25                                  30  40         drained: until the row at 12 has left

A hopping query ends at the first boundary at or after the last row of its own streams, or at the last one
that time had passed already. Drained, it ends where all of its windows that rows leave by themselves are
empty; what it keeps in others stays. Streams end together, at the latest row of any of them, or, drained,
when the last of these windows is empty: queries without hops hear of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.intake.ingest import Ingest
from penstock.engine.plan.plan import (
    ArriveNode,
    LifetimeNode,
    MemberNode,
    PaneAggregateNode,
    PlanNode,
    SourceNode,
    StoredWindowNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import hops_of, plan_nodes
from penstock.engine.rows.window import MAX_TS
from penstock.engine.sharing.pipeline import Pipeline

LAST_TS = MAX_TS - 1


@runtime_checkable
class Ending(Protocol):
    """Whoever answers at boundaries at which nothing comes; the last of them is at `last_hop`."""

    last_hop: int


def streams_in(plan: PlanNode) -> set[str]:
    """The streams that a plan reads."""
    return {node.stream for node in plan_nodes(plan) if isinstance(node, SourceNode)}


def longest_window(plan: PlanNode) -> int:
    """The longest of a plan's windows that rows leave by themselves; 0 if there is none."""
    return max((size for node in plan_nodes(plan) for size in range_sizes(node)), default=0)


def range_sizes(node: PlanNode) -> list[int]:
    """The sizes of the bounded RANGE windows that a node keeps."""
    if isinstance(node, ArriveNode | WholeWindowNode | StoredWindowNode):
        windows = [node.window]
    elif isinstance(node, MemberNode):
        windows = [side.window for side in node.sides]
    elif isinstance(node, LifetimeNode):
        return [size for size in node.sizes if size is not None]
    else:
        return [node.size] if isinstance(node, PaneAggregateNode) else []
    return [one.size for one in windows if one.kind == "range" and one.size is not None]


def end_of(plan: PlanNode, streams: Mapping[str, Ingest], drain: bool) -> int:
    """The last time at which a query is answered when the streams are closed; BEGINNING: no row has come."""
    own = [streams[name] for name in streams_in(plan)]
    last = max((one.last_ts for one in own), default=BEGINNING)
    if last == BEGINNING:
        return BEGINNING
    if drain:
        last = min(last + longest_window(plan), LAST_TS)
    hops = hops_of(plan)
    if hops is None:
        return last
    passed = min(one.watermark for one in own)
    return max(hops.first(last), hops.last(passed) if passed > BEGINNING else BEGINNING)


def set_ends(pipelines: Iterable[Pipeline], streams: Mapping[str, Ingest], drain: bool) -> None:
    """Let hopping queries, and what they have in common with others, know where they end."""
    ends: dict[Ending, int] = {}
    found = list(pipelines)
    for pipeline in found:
        if hops_of(pipeline.plan) is not None:
            end = end_of(pipeline.plan, streams, drain)
            for one in endings_of(pipeline):
                ends[one] = max(ends.get(one, end), end)
    for one, end in ends.items():
        one.last_hop = end
    for work in {work for pipeline in found for work, _ in pipeline.every_reading}:
        work.end()


def endings_of(pipeline: Pipeline) -> Iterable[Ending]:
    """Whoever answers at boundaries for a query: its sink, its operators, those of the parts it reads."""
    for plan in pipeline.plans:
        yield from (one for one in plan.own_operators if isinstance(one, Ending))
    yield from (reader for _, reader in pipeline.every_reading if isinstance(reader, Ending))
