"""Running plans: streams in, pipelines of operators joined by queues, sinks out.

A pipeline is one query's own operators. What queries have in common is run once for all of them: found in the
registry (sharing/registry.py), which knows no more of it than one contract (sharing/shared_work.py). A query
that fails on the data stops alone (failures.py); one that is to have another plan goes on until that has
caught up (succession.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.flow.scheduler import RoundRobin, Scheduler
from penstock.engine.intake.idle import IdleStreams
from penstock.engine.intake.ingest import Ingest, Pushed, StreamSchema
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.intake.stream_clock import StreamClock
from penstock.engine.join_forms.choose_layout import ChooseLayout
from penstock.engine.plan.approach import Approach, Netting
from penstock.engine.plan.plan import MemberNode, PlanNode, SelectNode, SourceNode
from penstock.engine.plan.plan_parts import (
    hops_of,
    is_same_but_joined_windows,
    plan_nodes,
    plan_types,
    starts_full,
    waits_for_instants,
)
from penstock.engine.results.results_memory import ResultsMemory
from penstock.engine.results.sink import Sink
from penstock.engine.sharing.pipeline import Pipeline
from penstock.engine.sharing.site import Site

from .end_of_input import end_of, set_ends
from .failures import Failures
from .hop_limit import Hopping, check_hops, find_hopping
from .succession import Done, ExactFrom, Succession

if TYPE_CHECKING:
    from penstock.engine.ordered_memory.memory_rules import MemoryRules


def nobody_told(name: str) -> None:
    """Nobody is told of a query that was stopped."""


class Runtime:
    """Streams, pipelines and a scheduler."""

    def __init__(
        self,
        clock: Callable[[], float],
        strategy: str,
        choose_layout: ChooseLayout,
        scheduler: Scheduler | None = None,
        on_failure: Callable[[str], None] = nobody_told,
        memory_rules: MemoryRules | None = None,
    ) -> None:
        """`strategy`: the form of common joins whose queries force none; `choose_layout` says how one should
        keep its rows.

        `on_failure` is told the name of a query that was stopped by an error. `memory_rules`: of joins
        without windows.
        """
        self.failures = Failures(self, on_failure)
        self.site = Site(
            scheduler or RoundRobin(), clock, self.failures.of_operator, self.failures.of_reader,
            strategy, choose_layout, memory_rules,
        )  # fmt: skip
        self.streams, self.tables = self.site.streams, self.site.tables
        self.shared, self.at_work = self.site.shared, self.site.at_work
        self.pipelines: dict[str, Pipeline] = {}
        self.heirs = Succession(self)
        self.results_memory = ResultsMemory()
        self.is_restored = False
        """Whether it came from a checkpoint: then what goes wrong inside may be the fault of who wrote
        that."""
        self._idle = IdleStreams(self.streams)
        self._hopping: Hopping | None = None
        """The hopping queries at work; None: to be found."""
        self._unsettled: list[Sink] = []
        """Sinks that hold changes of an instant of which more may be on the way."""
        self._clock = clock
        self._began = clock()

    def come_back(self) -> None:
        """It was restored from a checkpoint."""
        self.is_restored = True

    def add_stream(self, schema: StreamSchema) -> Ingest:
        """Declare a stream."""
        self.streams[schema.name] = Ingest(schema)
        if schema.idle_us is not None:
            self._idle.rules[schema.name] = schema.idle_us
        return self.streams[schema.name]

    def add_table(self, table: StaticTable) -> None:
        """Declare a table."""
        self.tables[table.name] = table
        if any(ingest.output.punctuation > BEGINNING for ingest in self.streams.values()):
            table.seal()

    def add_query(
        self,
        name: str,
        plan: PlanNode,
        schema: pa.Schema,
        counting: bool,
        changes: bool = False,
        netting: Netting = "none",
        approach: Approach = "promises",
    ) -> Pipeline:
        """Start a query from now on; `schema` is that of its results."""
        types = plan_types(plan)
        refused = partial(self.failures.refuse, name)
        sink = Sink(
            schema, Queue(), f"{name}.sink", counting, refused, changes, netting, types, self.results_memory
        )
        sink.hold = partial(self._unsettled.append, sink)
        sink.starts_full = starts_full(plan)
        progress = [self.streams[stream].progress for stream in streams_of(plan)]
        starts = self.site.starts()
        passed = max((starts[one] for one in streams_of(plan) if one in starts), default=BEGINNING)
        clock = sink.clock = StreamClock(progress, self._clock, self._push_began, passed)
        hops = hops_of(plan)
        sink.by_hops = hops is not None
        sink.begins = clock.begins if hops is None else self.site.builder.first_hop(plan, hops)
        pipeline = self.pipelines[name] = Pipeline(name, plan, sink=sink, approach=approach)
        self._start(pipeline, counting)
        if not any(self.streams[stream].has_given for stream in streams_of(plan)):
            sink.entered_before = BEGINNING  # what is there is of tables, and enters with the first time
        self.forget_queries()
        return pipeline

    def _start(self, pipeline: Pipeline, counting: bool) -> None:
        plan, sink = pipeline.plan, pipeline.sink
        pipeline.started = self.site.starts()
        if sink.clock is not None:
            sink.clock.waits = waits_for_instants(plan)
        source = self.site.builder.build(plan, count(), pipeline, counting)
        is_join = isinstance(plan.input if isinstance(plan, SelectNode) else plan, MemberNode)
        sink.company = pipeline.readings[isinstance(plan, SelectNode)][0] if is_join else None
        if pipeline.counted is None:
            self.site.builder.connect(source, sink.inputs[0], pipeline, plan)
        sink.entered_before = pipeline.filled_at
        if pipeline.is_filled and sink.by_hops and sink.is_changes:
            sink.net_all(plan_types(plan))  # what it begins with may leave at the same boundary
        self.at_work.enter(pipeline.own_operators, pipeline)

    def give_first(self, pipeline: Pipeline) -> None:
        """Let a query that began on streams with rows give what it found then at once."""
        if pipeline.started:
            self._began = self._clock()
            self.site.begin_work()
            before = len(self.failures.stopped)
            self._work()
            self.failures.put_off(before)

    def drop_query(self, name: str) -> None:
        """Stop a query and forget its state."""
        self.heirs.drop(name)
        pipeline = self.pipelines.pop(name)
        self.forget_queries()
        self.shared.stop(pipeline)
        pipeline.sink.leave()

    def alter_query(self, name: str, plan: PlanNode) -> None:
        """Let a query go on with other windows: what it has given stays, its joins keep what they hold."""
        self.heirs.drop(name)  # windows it was to have are of no use any more
        pipeline = self.pipelines[name]
        if not is_same_but_joined_windows(pipeline.plan, plan):
            self._restart(pipeline, plan)
            return
        nodes = zip(plan_nodes(pipeline.plan), plan_nodes(plan), strict=True)
        for number, (old, new) in enumerate(nodes):
            if number in pipeline.readings and old != new:
                work, reader = pipeline.readings[number]
                is_changed = work.change(reader, new)
                assert is_changed, "windows that cannot be changed in place"
                self.at_work.follow(work)
        if pipeline.sink.clock is not None:
            pipeline.sink.clock.waits = waits_for_instants(plan)
        pipeline.plan, pipeline.started = plan, self.site.starts()

    def replan(
        self,
        name: str,
        plan: PlanNode,
        approach: Approach,
        exact_from: ExactFrom,
        netting: Netting | None = None,
    ) -> None:
        """Let a query go over to another plan of the same answer, as soon as that has caught up.

        netting: how its changes are netted, if not as before.
        """
        self._hopping = None
        self.heirs.start(name, plan, approach, exact_from, None, netting)

    def start_again(self, name: str, plan: PlanNode) -> None:
        """Let a query that has seen nothing yet begin with another plan."""
        pipeline = self.pipelines[name]
        pipeline.sink.take_initial()  # the other plan says itself what is there before all time
        self._restart(pipeline, plan)

    def is_replanned(self, name: str) -> bool:
        """Whether another plan of the query is catching up."""
        return name in self.heirs

    def alter_changes(
        self, name: str, plan: PlanNode, approach: Approach, exact_from: ExactFrom, done: Done
    ) -> None:
        """Let an incremental query go over to other windows, as soon as their plan has caught up."""
        pipeline = self.pipelines[name]
        self._hopping = None
        if pipeline.error is None:
            self.heirs.start(name, plan, approach, exact_from, done)
        self.run()

    def _restart(self, pipeline: Pipeline, plan: PlanNode) -> None:
        """Go on with other operators and the same sink."""
        self._hopping = None
        sink = pipeline.sink
        sink.counters.rows_in = pipeline.count
        self.shared.stop(pipeline)
        pipeline.plan, pipeline.operators, pipeline.readings, pipeline.taps = plan, {}, {}, []
        sink.inputs = (Queue(),)
        self._start(pipeline, sink.is_counting)

    def push(self, stream: str, table: pa.Table) -> None:
        """Take rows into a stream and work until all is quiet; rows of a table wait until time begins."""
        if stream in self.tables:
            self.tables[stream].load(table)
            return
        self.streams[stream].push(table, self._allow)
        if self._idle.rules:
            self._let_idle(stream)
        self._begin_time()
        self.run()

    def _allow(self, push: Pushed, watermark: int) -> None:
        """Raises HopsError if rows would move time too far for a hopping query."""
        if not self._hopping_now()[0]:
            return
        come = {push.stream: watermark}
        if self._idle.rules:
            self._idle.foresee(push.stream, come, self._working_streams())
        check_hops(self._hopping_now(), self.streams, come, push)

    def forget_queries(self) -> None:
        """Queries have come or gone."""
        self._idle.forget()
        self._hopping = None

    def _hopping_now(self) -> Hopping:
        if self._hopping is None:
            self._hopping = find_hopping([*self.pipelines.values(), *self.heirs.pipelines])
        return self._hopping

    def _begin_time(self) -> None:
        """From now on tables are what they are, and time goes on."""
        self.shared.go_on()
        for table in self.tables.values():
            table.seal()

    def advance(self, ts: int, stream: str | None = None) -> None:
        """Time has come to `ts` on every stream, or on one."""
        if self._hopping_now()[0]:
            come = dict.fromkeys(self.streams if stream is None else [stream], ts)
            if self._idle.rules:
                self._idle.foresee(None, come, self._working_streams())
            check_hops(self._hopping_now(), self.streams, come)
        self._begin_time()
        for ingest in self.streams.values() if stream is None else [self.streams[stream]]:
            ingest.advance(ts)
        if self._idle.rules:
            self._let_idle(stream)
        self.run()

    def _let_idle(self, stream: str | None) -> None:
        """Let time pass on silent streams, now that one has come further, or all have."""
        self._idle.look(stream, self._working_streams())

    def _working_streams(self) -> Iterator[list[str]]:
        """The streams of each query at work."""
        return (streams_of(one.plan) for one in self.pipelines.values() if one.error is None)

    def close(self, drain: bool = False) -> None:
        """End every stream, at the latest ts seen on any; drain: when all bounded windows are empty."""
        latest = max((ingest.last_ts for ingest in self.streams.values()), default=BEGINNING)
        running = [*self.pipelines.values(), *self.heirs.pipelines]
        if drain:
            latest = max([latest, *(end_of(one.plan, self.streams, True) for one in running)])
        check_hops(
            self._hopping_now(), self.streams, dict.fromkeys(self.streams, latest),
            ends=lambda one: min(latest, end_of(one.plan, self.streams, drain)),
        )  # fmt: skip
        set_ends(running, self.streams, drain)
        self._begin_time()
        for ingest in self.streams.values():
            ingest.advance(latest)
        self.at_work.run()  # all hear how far time has come
        for ingest in self.streams.values():
            ingest.close()
        self.run()

    @property
    def rows_in(self) -> int:
        """Rows pushed to all streams so far."""
        return sum(ingest.rows_in for ingest in self.streams.values())

    def run(self) -> None:
        """Work until nothing can be done; what went wrong is in `failures`."""
        self._began = self._clock()
        self.site.begin_work()
        self.failures.tell()
        self._work()
        for ingest in self.streams.values():
            ingest.progress.note(ingest.output.punctuation, self._began)
        while self.heirs.succeed():
            self._hopping = None
            self._work()
        self.results_memory.look()

    def _push_began(self) -> float:
        return self._began

    def _work(self) -> None:
        """Work off what has come."""
        self.at_work.run()
        while self._unsettled:
            self._unsettled.pop().settle()

    def _check_restored(self) -> None:
        from .wiring import check_wiring

        check_wiring(self)

    def _check(self) -> None:
        for ingest in self.streams.values():
            ingest._check()
        for work in self.shared:
            work._check()
        for pipeline in self.pipelines.values():
            if pipeline.error is None:
                for operator in pipeline.own_operators:
                    operator._check()


def streams_of(plan: PlanNode) -> list[str]:
    """The streams that a plan reads, each once."""
    return list({node.stream: None for node in plan_nodes(plan) if isinstance(node, SourceNode)})
