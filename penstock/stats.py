"""What the engine has done, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.hopping.hop_answer import HopAnswer
from penstock.engine.intake.ingest import Ingest
from penstock.engine.intake.key_frontier import KeyFrontier
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.results.sink import Sink
from penstock.engine.running.runtime import Runtime
from penstock.engine.sharing.facts import find_waiting
from penstock.engine.sharing.pipeline import Pipeline


def collect_stats(runtime: Runtime) -> dict[str, Any]:
    """Streams (rows in = processed + late + ahead + held), queries with their own operators, sources first,
    and the joins and selects that queries have in common with theirs."""
    for work in runtime.shared:
        work.refresh()
    streams = {name: stream_stats(ingest) for name, ingest in runtime.streams.items()}
    queries = {
        name: {
            "results": pipeline.count,
            "error": None if pipeline.error is None else str(pipeline.error),
            "flips": flips_of(pipeline),
            "waiting": asdict(find_waiting(pipeline, runtime.streams)),
            "output_delay": {
                "stream_time": pipeline.sink.stream_delays.summary(),
                "processing_time": pipeline.sink.processing_delays.summary(),
            },
            "operators": [operator_stats(operator) for operator in pipeline.all_operators],
            **oblivious_stats(pipeline, runtime.tables),
        }
        for name, pipeline in runtime.pipelines.items()
    }
    shared = [
        {
            "name": work.name,
            **work.facts(),
            "queries": list(dict.fromkeys(query.name for query in work.queries)),
            "operators": [operator_stats(operator) for operator in work.own_operators],
        }
        for work in runtime.shared
        if work.is_common
    ]
    return {"streams": streams, "queries": queries, "groups": shared}


def oblivious_stats(pipeline: Pipeline, tables: Mapping[str, StaticTable]) -> dict[str, Any]:
    """What is known of a query's joins without windows, if it has any."""
    joins, groups = pipeline.ordered_joins, pipeline.final_groups
    if not joins and not groups:
        return {}
    from penstock.engine.ordered_keys.facts import each_makes, facts_of
    from penstock.optimizer.costs.ordered_memory import OrderedMemory

    each = each_makes(pipeline.plan, tables)
    return {"oblivious": facts_of(pipeline.count, joins, groups, each, OrderedMemory())}


def stream_stats(ingest: Ingest) -> dict[str, Any]:
    """What came in and where it is; the time jumps that rows in a row were believed for."""
    rows_ahead, jumps = (0, 0) if ingest.ahead is None else (ingest.ahead.rows, ingest.ahead.jumps)
    return {
        "rows_in": ingest.rows_in,
        "rows_processed": ingest.rows_in - ingest.rows_late - rows_ahead - ingest.rows_held,
        "rows_late": ingest.rows_late,
        "rows_ahead": rows_ahead,
        "rows_held": ingest.rows_held,
        "bytes_held": ingest.bytes_held,
        "watermark": None if ingest.watermark == BEGINNING else ingest.watermark,
        "time_jumps": jumps,
        **({"ordered": list(map(order_stats, ingest.frontiers))} if ingest.frontiers else {}),
    }


def order_stats(frontier: KeyFrontier) -> dict[str, Any]:
    """How far out of order the keys of a column have come of late, and how many against what was declared."""
    return {
        "column": frontier.name,
        "order": frontier.rule.kind,
        "k": frontier.factor,
        "measured_k": frontier.measured,
        "rate": frontier.rate,
        "rows_broken": frontier.rows_broken,
        **({"values": frontier.sequences.values} if frontier.rule.per else {}),
    }


def rows_dropped(runtime: Runtime) -> dict[str, tuple[int, int]]:
    """Of each stream, how many rows were dropped as late, and as too far ahead."""
    return {
        name: (one.rows_late, 0 if one.ahead is None else one.ahead.rows)
        for name, one in runtime.streams.items()
    }


def flips_of(pipeline: Pipeline) -> int:
    """Changes of a hopping query that cancelled within a hop, and so were never published."""
    operators = [one for part in pipeline.plans for one in part.own_operators]
    return sum(one.flips for one in operators if isinstance(one, HopAnswer | Sink))


def operator_stats(operator: Operator) -> dict[str, Any]:
    """One operator's counters and state."""
    stats: dict[str, Any] = {
        "name": operator.name,
        "kind": type(operator).__name__,
        "rows_in": operator.counters.rows_in,
        "rows_out": operator.counters.rows_out,
        "state_rows": operator.state_rows,
        "state_bytes": operator.state_bytes,
        "queue_rows": sum(queue.rows for queue in operator.inputs),
        "steps": operator.counters.steps,
        "busy_s": operator.counters.busy_s,
    }
    if messages := sum(queue.messages_in for queue in operator.inputs):
        stats["messages_in"] = messages
        stats["messages_purged"] = sum(queue.messages_purged for queue in operator.inputs)
    if isinstance(operator, WindowJoin):
        stats["indexes"] = [side.kept.index_kind for side in operator.sides]
    return stats
