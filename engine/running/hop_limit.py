"""Hops without rows: how many one call may give a query.

A row from a clock that is wrong moves time, and a hopping query answers at every boundary on the way. Where
answers have no rows that is one step (`stands` says where they have some); where they have some, a call that
would give a query more than MOST_HOPS of them between its rows is refused before anything is done:

    hop 1 s, COUNT(*)     rows   1  2                      5 h                 50 years
                          hops   1  2  17,998 without rows 5 h  1,577,862,000  |       refused

With windows that rows leave by themselves, and an answer that is empty when they are, only the boundaries
count up to which rows may be in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expressions.expression import write_duration, write_time
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.intake.ingest import Ingest, Pushed
from penstock.engine.plan.plan import (
    HopAnswerNode,
    HopDeltaNode,
    PaneAggregateNode,
    PlanNode,
    StoredWindowNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import hops_of, plan_nodes, stands
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.rows.errors import HopsError
from penstock.engine.rows.hops import Hops
from penstock.engine.sharing.facts import waiting_batches
from penstock.engine.sharing.pipeline import Pipeline

from .end_of_input import longest_window, streams_in

MOST_HOPS = 1_000_000

Speaker: TypeAlias = "tuple[Pipeline, Hops, tuple[str, ...], int | None]"
"""Whoever gives answers at hops: for which query, by which streams, and for how long after a row, in
microseconds; None: for ever."""
Hopping: TypeAlias = "tuple[list[Speaker], int, tuple[str, ...]]"
"""All of them; the least hop, and all their streams."""


def find_hopping(pipelines: Iterable[Pipeline]) -> Hopping:
    """Who speaks at hops among some queries: each as a whole, and parts of them that need not wait for all
    its streams."""
    found: list[Speaker] = []
    for pipeline in pipelines:
        hops = hops_of(pipeline.plan)
        if hops is not None and pipeline.error is None:
            spans = [
                (streams_in(pipeline.plan), reach_of(pipeline)),
                *map(span_of, plan_nodes(pipeline.plan)),
            ]
            for streams, reach in {
                (tuple(sorted(streams)), reach): None for streams, reach in spans if streams
            }:
                found.append((pipeline, hops, streams, reach))
    names = {name for _, _, streams, _ in found for name in streams}
    return found, min((hops.size for _, hops, _, _ in found), default=0), tuple(sorted(names))


def reach_of(pipeline: Pipeline) -> int | None:
    """How long after a row a query answers because of it, in microseconds; None: for ever."""
    plan = pipeline.plan
    if not pipeline.sink.is_changes:
        return None if stands(plan) else longest_window(plan)
    is_whole = any(isinstance(node, HopDeltaNode) for node in plan_nodes(plan))
    return longest_window(plan) if is_whole else 0  # else changes alone are looked at


def span_of(node: PlanNode) -> tuple[set[str], int | None]:
    """The streams by which a part gives whole answers, and for how long after a row; no streams: it does not,
    or where ticks of the whole query say."""
    match node:
        case (
            WholeWindowNode(ticks=None)
            | HopAnswerNode(ticks=None)
            | PaneAggregateNode(emit="complete")
            | StoredWindowNode(whole=True, changed=False)
        ):
            return streams_in(node), None if stands(node) else longest_window(node)
        case _:
            return set(), 0


def check_hops(
    hopping: Hopping,
    streams: Mapping[str, Ingest],
    come: Mapping[str, int],
    push: Pushed | None = None,
    ends: Callable[[Pipeline], int] | None = None,
) -> None:
    """Raises HopsError if a query would be given too many hops without rows.

    come: how far each stream would have come, where that is further than now. push: the rows that would be
    taken in. ends: the last boundary of each query, where its input would end.
    """
    speakers, least, read = hopping
    if not speakers:
        return
    earliest = min(streams[name].watermark for name in read)
    if earliest > BEGINNING and max(come.values()) - earliest <= MOST_HOPS * least:
        return  # as nearly always
    for pipeline, hops, names, reach in speakers:
        if reach == 0 or come.keys().isdisjoint(names):
            continue
        own = push if push is not None and push.stream in names else None
        end = min(max(come.get(name, BEGINNING), streams[name].watermark) for name in names)
        end = end if ends is None else ends(pipeline) + 1
        begin = begins(pipeline, [streams[name] for name in names], own)
        if begin is None or (end - begin) // hops.size <= MOST_HOPS:
            continue
        coming = [] if own is None else [own.ts]
        coming += [ts for name in names for ts in streams[name].held_times]
        coming += [batch.ts for batch in waiting_batches(pipeline)]
        found = find_excess(hops, reach, begin, end, coming)
        if found is not None:
            raise _error(pipeline.name, hops, *found, own)


def begins(pipeline: Pipeline, streams: Sequence[Ingest], push: Pushed | None) -> int | None:
    """How far the query has come: with no rows yet to the first there are; None: there are none."""
    before = min(one.watermark for one in streams)
    firsts = [one.progress.first for one in streams if one.progress.first is not None]
    firsts += [] if push is None else [int(push.ts.min())]
    if not firsts:
        return None
    start = BEGINNING if pipeline.sink.clock is None else pipeline.sink.clock.start
    return max(before, min(firsts), start)


def find_excess(
    hops: Hops, reach: int | None, begin: int, end: int, coming: Sequence[NDArray]
) -> tuple[int, int] | None:
    """How many hops without rows there are from `begin` to below `end`, if too many, and before which
    boundary that many have come."""
    times = np.concatenate([NO_ROWS, *coming])
    last = hops.last(end - 1)
    seen = hops.up(times[(times > begin) & (times <= last)])
    edges = np.unique(np.concatenate([[hops.first(begin), last + hops.size], seen]))
    between = np.diff(edges) // hops.size - 1
    if reach is not None:
        between = np.minimum(between, -(-reach // hops.size))
    total = np.cumsum(between)
    if not len(total) or total[-1] <= MOST_HOPS:
        return None
    return int(total[-1]), int(edges[1 + total.searchsorted(MOST_HOPS, side="right")])


def _error(query: str, hops: Hops, found: int, boundary: int, push: Pushed | None) -> HopsError:
    behind = NO_ROWS if push is None else np.flatnonzero(hops.up(push.ts) >= boundary)
    row, moved = None, ""
    if push is not None and len(behind):
        at = int(behind[0])
        row = 1 + (at if push.places is None else int(push.places[at]))
        moved = f", as the row is at `{write_time(int(push.ts[at]))}`"
    return HopsError(
        f"Expected at most {MOST_HOPS:,} hops without rows in one call, found {found:,} of query `{query}`, "
        f"HOP BY {write_duration(hops.size)}{moved}",
        source=None if push is None else push.stream,
        row=row,
        hint="If a clock is wrong, AHEAD AT MOST behind WATERMARK in CREATE STREAM keeps such rows out; "
        "if not, `advance` time in smaller steps",
    )
