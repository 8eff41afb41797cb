"""Operators for a plan: inputs first, joined by queues.

What queries have in common is not built here but read (registry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.intake.ingest import Ingest
from penstock.engine.plan.plan import (
    FinalGroupNode,
    HopAnswerNode,
    OrderedJoinNode,
    PlanNode,
    SelectNode,
    SourceNode,
    TableNode,
    TicksNode,
    UnionNode,
    WindowNode,
)
from penstock.engine.plan.plan_parts import IncrementalNode, plan_inputs, plan_nodes, plan_types
from penstock.engine.rows.hops import Hops
from penstock.engine.selects.select import Select
from penstock.engine.selects.union import Union
from penstock.engine.windows.rows_entering import RowsEntering

from .build_operator import build_operator
from .pipeline import PlanAtWork
from .shared_work import Reading, Source

if TYPE_CHECKING:
    from penstock.engine.ordered_memory.memory_rules import MemoryRules

    from .site import Site


class PlanBuilder:
    """Builds what runs a query, in a site."""

    def __init__(self, site: Site, memory_rules: MemoryRules | None) -> None:
        self._site = site
        self._memory_rules = memory_rules

    def build(self, node: PlanNode, numbers: Iterator[int], plan: PlanAtWork, counting: bool) -> Source:
        """Operators for a plan, inputs first; where the topmost gives its rows. Numbers follow plan_nodes."""
        number = next(numbers)
        if isinstance(node, SourceNode):
            return Source(self._site.streams[node.stream].output)
        if isinstance(node, TableNode):
            return Source(self._site.tables[node.table].output)
        read = self._site.shared.read(node, number, plan, counting)
        if read is not None:
            for _ in list(plan_nodes(node))[1:]:
                next(numbers)
            return read
        queues = []
        for part in plan_inputs(node):
            queues.append(Queue())
            self.connect(self.build(part, numbers, plan, False), queues[-1], plan, part)
        label = f"{plan.name}.{number}"
        operator: Operator
        match node:
            case WindowNode():
                operator = RowsEntering(node, queues[0], label)
            case SelectNode():
                operator = Select(node, queues[0], label)
                queues[0].let_rows_purge(plan.approach == "piggyback")
            case UnionNode():
                operator = Union(tuple(queues), label, node.instants)
            case HopAnswerNode():
                operator = self._hop_answer(node, queues, label)
            case TicksNode():
                operator = self._ticks(node, queues, label)
            case OrderedJoinNode():
                operator = self._ordered_join(node, queues, label)
            case FinalGroupNode():
                operator = self._final_groups(node, queues[0], label, plan.readings.get(number + 1))
            case _:
                assert isinstance(node, IncrementalNode), "what is in common is read"
                operator = build_operator(node, tuple(queues), label, plan.approach)
        plan.operators[number] = operator
        return Source(operator.output)

    def _hop_answer(self, node: HopAnswerNode, queues: Sequence[Queue], name: str) -> Operator:
        """It begins at the first boundary at or after the first row of the query's streams."""
        from penstock.engine.hopping.hop_answer import HopAnswer

        return HopAnswer(queues, plan_types(node), name, node.hops, self.first_hop(node, node.hops))

    def _ticks(self, node: TicksNode, queues: Sequence[Queue], name: str) -> Operator:
        from penstock.engine.hopping.ticks import Ticks

        return Ticks(queues, name, node.hops, self.first_hop(node, node.hops), node.window)

    def _ordered_join(self, node: OrderedJoinNode, queues: Sequence[Queue], name: str) -> Operator:
        """It reads how far keys have come where its streams enter."""
        from penstock.engine.ordered_keys.final_join import FinalJoin
        from penstock.engine.ordered_keys.ordered_join import OrderedJoin

        sources = [one for one in node.inputs if isinstance(one, SourceNode)]
        streams = [self._site.streams[one.stream] for one in sources]
        readers = [one.frontier(column).reader() for one, column in zip(streams, node.ordered, strict=True)]
        types = [one.types for one in sources]
        has_rows = [one.rows_in > 0 for one in streams]
        if node.kind != "inner":
            return FinalJoin(node, types, queues, readers, name, has_rows)
        return OrderedJoin(node, types, queues, readers, name, has_rows, self._memory_rules)

    def _final_groups(
        self, node: FinalGroupNode, queue: Queue, name: str, joined: Reading | None
    ) -> Operator:
        """It reads how far keys have come where its stream enters, or of the join whose rows it reads."""
        from penstock.engine.ordered_keys.final_groups import FinalGroups
        from penstock.engine.ordered_keys.ordered_join import OrderedJoin

        if joined is None:
            assert isinstance(node.input, SourceNode) and node.ordered is not None, "a stream of its own"
            stream = self._site.streams[node.input.stream]
            frontier = stream.frontier(node.ordered)
            lacking = frontier.greatest if stream.rows_in else None
            return FinalGroups(node, queue, frontier.reader(), name, lacking)
        join = joined[0].own_operators[0]
        assert isinstance(join, OrderedJoin), "what runs a join without windows"
        come = [side.reader.frontier.greatest for side in join.sides]
        lacking = max((one for one in come if one is not None), default=None)
        return FinalGroups(node, queue, join.log.reader(queue), name, lacking)

    def first_hop(self, plan: PlanNode, hops: Hops) -> Callable[[], int | None]:
        """Gives the first boundary a hopping query answers at, none as long as no row has come."""
        names = {one.stream for one in plan_nodes(plan) if isinstance(one, SourceNode)}
        streams = [self._site.streams[stream] for stream in names]
        began = max((one.output.punctuation for one in streams if one.rows_in), default=BEGINNING) + 1

        return partial(first_hop_of, hops, streams, began)

    def connect(self, source: Source, queue: Queue, plan: PlanAtWork, node: PlanNode) -> None:
        """Let a queue of a plan have what comes and what is there; of a stream or table, the columns that its
        plan node names."""
        outlet, held = source
        queue.promise(outlet.punctuation)
        if isinstance(node, SourceNode | TableNode):
            queue.want(node.columns)
        plan.taps.append((outlet, queue))
        outlet.queues.append(queue)
        if isinstance(node, TableNode):
            self._site.tables[node.table].fill(queue)
        if held is not None:
            queue.put(held)
            plan.fill(outlet.punctuation)
        if outlet.closed:  # behind what is there already
            queue.close()


def first_hop_of(hops: Hops, streams: list[Ingest], began: int) -> int | None:
    """The first boundary at or after the first row of any stream, and not before the query began."""
    known = [one.first_ts for one in streams if one.first_ts is not None]
    return hops.first(max(min(known), began)) if known else None
