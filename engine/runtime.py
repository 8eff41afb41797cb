"""Running plans: streams in, pipelines of operators joined by queues, sinks out.

A pipeline is one query's operators. A query that fails on the data (an overflow, a division by zero) stops
alone: its pipeline is taken out, its error is kept, the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa

from .errors import DataError
from .ingest import Ingest, StreamSchema
from .operator import Operator
from .operators.enter_window import EnterWindow
from .operators.join import WindowJoin
from .operators.select import Select
from .operators.sink import Sink
from .operators.union import Union
from .plan import JoinNode, PlanNode, SelectNode, SourceNode, UnionNode, WindowNode, plan_inputs, plan_types
from .queue import BEGINNING, Outlet, Queue
from .scheduler import QUANTUM_ROWS, Ready, RoundRobin, Scheduler


@dataclass
class Pipeline:
    """One query at work. `operators` by the number of their plan node; the sink is not among them."""

    name: str
    plan: PlanNode
    sink: Sink
    operators: dict[int, Operator] = field(default_factory=dict)
    taps: list[tuple[Outlet, Queue]] = field(default_factory=list)
    error: Exception | None = None

    @property
    def all_operators(self) -> list[Operator]:
        """Sources first, the sink last."""
        return [*self.operators.values(), self.sink]


class Runtime:
    """Streams, pipelines and a scheduler."""

    def __init__(
        self,
        clock: Callable[[], float],
        scheduler: Scheduler | None = None,
        on_failure: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`on_failure` is told the name of a query that was stopped by an error."""
        self._on_failure = on_failure
        self.streams: dict[str, Ingest] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self._clock = clock
        self._scheduler = scheduler or RoundRobin()
        self._ready = Ready()
        self._owners: dict[int, Pipeline] = {}
        self._failures: list[Exception] = []

    def add_stream(self, schema: StreamSchema) -> Ingest:
        """Declare a stream."""
        self.streams[schema.name] = Ingest(schema)
        return self.streams[schema.name]

    def add_query(self, name: str, plan: PlanNode, schema: pa.Schema, counting: bool) -> Pipeline:
        """Start a query from now on; `schema` is that of its results."""
        parts: dict[int, Operator] = {}
        taps: list[tuple[Outlet, Queue]] = []
        outlet = self._build(plan, count(), name, counting, parts, taps)
        queue = self._tap(outlet, taps, plan)
        sink = Sink(schema, queue, f"{name}.sink", counting, self._failures.append)
        pipeline = Pipeline(name, plan, sink, parts, taps)
        self.pipelines[name] = pipeline
        for operator in pipeline.all_operators:
            self._owners[id(operator)] = pipeline
            self._ready.enter(operator)
        return pipeline

    def drop_query(self, name: str) -> None:
        """Stop a query and forget its state."""
        self._stop(self.pipelines.pop(name))

    def push(self, stream: str, table: pa.Table) -> None:
        """Take rows into a stream and work until all is quiet."""
        self.streams[stream].push(table)
        self.run()

    def advance(self, ts: int) -> None:
        """Time has come to `ts` on every stream."""
        for ingest in self.streams.values():
            ingest.advance(ts)
        self.run()

    def close(self) -> None:
        """End every stream, at the latest ts seen on any."""
        latest = max((ingest.last_ts for ingest in self.streams.values()), default=BEGINNING)
        for ingest in self.streams.values():
            ingest.advance(latest)
            ingest.close()
        self.run()

    @property
    def rows_in(self) -> int:
        """Rows pushed to all streams so far."""
        return sum(ingest.rows_in for ingest in self.streams.values())

    def run(self) -> None:
        """Work until nothing can be done; raise what stopped a query or a subscriber raised meanwhile."""
        self._scheduler.run(self._ready, self._clock, self._fail)
        if self._failures:
            error, *others = self._failures
            self._failures.clear()
            for other in others:
                error.add_note(f"also: {other}")
            raise error

    def _fail(self, operator: Operator, error: Exception) -> None:
        """Stop the query of an operator that raised, when what it gave before has come out."""
        pipeline = self._owners[id(operator)]
        if isinstance(error, DataError | pa.ArrowException | OverflowError | MemoryError):
            error = DataError(f"{' '.join(str(error).split())}, in query `{pipeline.name}`")
        pipeline.error = error
        self._failures.append(error)
        later = pipeline.all_operators[pipeline.all_operators.index(operator) + 1 :]
        try:
            while any(one.step(QUANTUM_ROWS) for one in later):
                pass
        except Exception as another:  # it is stopped anyway
            error.add_note(f"also: {another}")
        self._stop(pipeline)
        self._on_failure(pipeline.name)

    def _stop(self, pipeline: Pipeline) -> None:
        for outlet, queue in pipeline.taps:
            if queue in outlet.queues:
                outlet.queues.remove(queue)
        for operator in pipeline.all_operators:
            self._owners.pop(id(operator), None)
            self._ready.leave(operator)
            for queue in operator.inputs:
                queue.clear()

    def _build(
        self,
        node: PlanNode,
        numbers: Iterator[int],
        name: str,
        counting: bool,
        parts: dict[int, Operator],
        taps: list[tuple[Outlet, Queue]],
    ) -> Outlet:
        """Operators for a plan, inputs first; the outlet of the topmost. Numbers follow plan_nodes."""
        number = next(numbers)
        if isinstance(node, SourceNode):
            return self.streams[node.stream].output
        queues = tuple(
            self._tap(self._build(part, numbers, name, False, parts, taps), taps, part)
            for part in plan_inputs(node)
        )
        label = f"{name}.{number}"
        operator: Operator
        match node:
            case WindowNode():
                operator = EnterWindow(node, queues[0], label)
            case SelectNode():
                operator = Select(node, queues[0], label)
            case JoinNode():
                types = (plan_types(node.left), plan_types(node.right))
                operator = WindowJoin(node, types, (queues[0], queues[1]), label, counting)
            case UnionNode():
                operator = Union(queues, label)
        parts[number] = operator
        return operator.output

    def _tap(self, outlet: Outlet, taps: list[tuple[Outlet, Queue]], node: PlanNode) -> Queue:
        queue = Queue(outlet.punctuation, node.columns if isinstance(node, SourceNode) else None)
        queue.closed = outlet.closed
        outlet.queues.append(queue)
        if isinstance(node, SourceNode):
            taps.append((outlet, queue))
        return queue

    def _check(self) -> None:
        for ingest in self.streams.values():
            ingest._check()
        for pipeline in self.pipelines.values():
            if pipeline.error is None:
                for operator in pipeline.all_operators:
                    operator._check()
