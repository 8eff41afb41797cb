"""What a plan at work says of itself, as plain records: for EXPLAIN, and for whoever looks for a better plan.

query -> the parts that it reads, by number -> what each node's operator has done, by number

What waits for a query are rows in the queues of its operators, also of those that it has in common with
others. They wait for the stream of its own that is furthest behind. That may be the one whose rows wait: ROWS
windows and hops are known when their time is over. Rows that wait for older ones of their own stream (slack)
have not left `ingest` and are counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.flow.facts import Work, work_of
from penstock.engine.flow.operator import Operator
from penstock.engine.intake.ingest import Ingest
from penstock.engine.members.member import Member
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import FinalGroupNode, OrderedJoinNode, PlanNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.rows.batch import Batch
from penstock.engine.views.view_memory import copied_bytes

from .pipeline import Pipeline, PlanAtWork
from .shared_join import SharedJoin
from .shared_panes import SharedPanes
from .shared_selects import SharedSelects
from .shared_windows import SharedWindows
from .sub_plan import SubPlan

if TYPE_CHECKING:
    from penstock.engine.changes.match_counts import MatchCounts
    from penstock.engine.ordered_keys.facts import GroupFacts
    from penstock.engine.ordered_keys.final_groups import FinalGroups
    from penstock.engine.ordered_keys.ordered_join import OrderedJoin
    from penstock.engine.panes.facts import PaneFacts
    from penstock.engine.windows.facts import WindowFacts


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A plan at work, or part of one. All but the joins is by value, as of when it was asked.

    others: the queries that read it too. work: of the operators of nodes; selects: of those that might be
    shared and are not. answers: rows of the answers of nodes that keep what they have said. meetings: the
    pairs that joins have found by their keys.
    """

    plan: PlanNode
    approach: Approach
    others: tuple[str, ...]
    parts: Mapping[int, PlanFacts]
    work: Mapping[int, Work]
    selects: Mapping[int, Work]
    panes: Mapping[int, PaneFacts]
    windows: Mapping[int, WindowFacts]
    answers: Mapping[int, int]
    meetings: Mapping[int, MatchCounts]
    joins: Mapping[int, tuple[SharedJoin, Member]]
    ordered: Mapping[int, OrderedJoin]
    groups: Mapping[int, GroupFacts]

    @property
    def everything_below(self) -> Iterator[PlanFacts]:
        """All parts it reads, also through others; one read twice comes twice."""
        for part in self.parts.values():
            yield from part.everything_below
            yield part

    def work_at(self, number: int) -> Work | None:
        """Of whatever runs a node, if that is no join in common; None: others have it too."""
        if number in self.panes:
            return self.panes[number].work
        if number in self.windows:
            return self.windows[number].work
        return self.work.get(number) or self.selects.get(number)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query at work: its plan, its results so far, and why it has stopped, if it has."""

    name: str
    shown: PlanFacts
    count: int
    error: str | None


def facts_of_query(pipeline: Pipeline) -> QueryFacts:
    error = None if pipeline.error is None else str(pipeline.error)
    return QueryFacts(pipeline.name, facts_of_plan(pipeline, pipeline), pipeline.count, error)


def facts_of_plan(plan: PlanAtWork, query: Pipeline) -> PlanFacts:
    """Of a plan, or of part of it, as the query sees it."""
    ordered, groups = {}, {}
    for number, node in enumerate(plan_nodes(plan.plan)):
        if isinstance(node, OrderedJoinNode) and number in plan.operators:
            ordered[number] = cast("OrderedJoin", plan.operators[number])
        if isinstance(node, FinalGroupNode) and number in plan.operators:
            from penstock.engine.ordered_keys.facts import facts_of_groups

            groups[number] = facts_of_groups(cast("FinalGroups", plan.operators[number]))
    answers = {number: getattr(one, "answer_rows", None) for number, one in plan.operators.items()}
    meetings = {number: getattr(one, "meetings", None) for number, one in plan.operators.items()}
    return PlanFacts(
        plan=plan.plan,
        approach=plan.approach,
        others=tuple(dict.fromkeys(one.name for one in plan.queries if one.name != query.name)),
        parts={number: facts_of_plan(one, query) for number, one, _ in plan.reads(SubPlan)},
        work={number: work_of(one) for number, one in plan.operators.items()},
        selects={
            number: work_of(one.own_operators[0])
            for number, one, _ in plan.reads(SharedSelects)
            if len(one.members) == 1
        },
        panes={number: one.facts_of(reader) for number, one, reader in plan.reads(SharedPanes)},
        windows={number: one.facts_of(reader) for number, one, reader in plan.reads(SharedWindows)},
        answers={number: rows for number, rows in answers.items() if rows is not None},
        meetings={number: replace(one) for number, one in meetings.items() if one is not None},
        joins={number: (one, reader) for number, one, reader in plan.reads(SharedJoin)},
        ordered=ordered,
        groups=groups,
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows, also those on the disk, about what they take in memory, and the stream waited for; None if no
    row waits."""

    rows: int
    bytes: int
    stream: str | None


NOTHING = Waiting(0, 0, None)


def find_waiting(pipeline: Pipeline, streams: Mapping[str, Ingest]) -> Waiting:
    """What waits for a query."""
    batches = waiting_batches(pipeline)
    if not batches or pipeline.error is not None:
        return NOTHING
    behind = min(sorted(pipeline.streams), key=lambda name: streams[name].output.punctuation)
    rows = sum(batch.length for batch in batches)
    rows += sum(join.buffers.rows_put_away for join in pipeline.ordered_joins if join.buffers is not None)
    return Waiting(rows, round(sum(map(copied_bytes, batches))), behind)


def waiting_batches(pipeline: Pipeline) -> list[Batch]:
    """The batches in its operators' queues; one that several of them read, once."""
    queues = (queue for one in operators_of(pipeline) for queue in one.inputs)
    return list({id(batch): batch for queue in queues for batch in queue.batches}.values())


def operators_of(pipeline: Pipeline) -> Iterable[Operator]:
    """Whoever works for a query, each once; also those that work for others too."""
    found: dict[Operator, None] = {}
    for work, _ in pipeline.every_reading:
        found |= dict.fromkeys(work.own_operators)
    return found | dict.fromkeys(pipeline.own_operators)
