"""What waits: rows that have come, and that a query cannot work before a stream has come further.

    a    1   2   3   4   5   6          come to 6
    b    1   2                          come to 2: four rows of a wait for it

They are in the queues of the query's operators, of those too that it has in common with others. It waits for
the stream of its own that is furthest behind. That may be the one whose rows wait: ROWS windows and hops are
known when their time is over. Rows that wait for older ones of their own stream (slack) have not left
`ingest` and are counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.engine.flow.operator import Operator
from penstock.engine.intake.ingest import Ingest
from penstock.engine.rows.batch import Batch
from penstock.engine.views.view_memory import copied_bytes

from .end_of_input import streams_in
from .pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows, about what they take, and the stream waited for; None if no row waits."""

    rows: int
    bytes: int
    stream: str | None


NOTHING = Waiting(0, 0, None)


def find_waiting(pipeline: Pipeline, streams: Mapping[str, Ingest]) -> Waiting:
    """What waits for a query."""
    batches = waiting_batches(pipeline)
    if not batches or pipeline.error is not None:
        return NOTHING
    behind = min(sorted(streams_in(pipeline.plan)), key=lambda name: streams[name].output.punctuation)
    rows = sum(batch.length for batch in batches)
    return Waiting(rows, round(sum(map(copied_bytes, batches))), behind)


def waiting_batches(pipeline: Pipeline) -> list[Batch]:
    """The batches in its operators' queues; one that several of them read, once."""
    queues = (queue for one in operators_of(pipeline) for queue in one.inputs)
    return list({id(batch): batch for queue in queues for batch in queue.batches}.values())


def operators_of(pipeline: Pipeline) -> Iterable[Operator]:
    """Whoever works for a query, each once; also those that work for others too."""
    found: dict[Operator, None] = {}
    for part in pipeline.everything:
        found |= dict.fromkeys(part.own_operators)
        for shared_join, _ in part.joins.values():
            found |= dict.fromkeys(shared_join.form.operators)
        for shares in (part.shares, part.panes, part.windows):
            found |= dict.fromkeys(one for one, _ in shares.values())
    return found
