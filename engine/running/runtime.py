"""Running plans: streams in, pipelines of operators joined by queues, sinks out.

A pipeline is one query's own operators. Joins are run by groups: those that queries have in common once, for
all of them. Selects over one stream are run by one operator as soon as there are two. Stateful operators of
incremental queries are parts, which queries with equal sub-plans have in common. A query that fails on
the data (an overflow, a division by zero) stops alone: its pipeline is taken out, its error is kept, the
others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.flow.operator import Operator, Stopping
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS, Ready, RoundRobin, Scheduler
from penstock.engine.intake.idle import IdleStreams
from penstock.engine.intake.ingest import Ingest, Pushed, StreamSchema
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.intake.stream_clock import StreamClock
from penstock.engine.join_forms.choose_layout import ChooseLayout
from penstock.engine.join_forms.shared_join import Form, SharedJoin, build_form, build_many
from penstock.engine.members.member import Member
from penstock.engine.plan.approach import Approach, Netting
from penstock.engine.plan.plan import (
    CommonJoin,
    CommonManyJoin,
    CommonPanes,
    MemberNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SourceNode,
)
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
from penstock.engine.rows.errors import DataError, PenstockError, StoppedError, of_state
from penstock.engine.selects.shared_select import Share, SharedSelect

from .common_parts import CommonParts
from .common_selects import CommonSelects, disconnect
from .end_of_input import end_of, set_ends
from .hop_limit import Hopping, check_hops, find_hopping
from .panes_in_common import PanesInCommon
from .pipeline import Pipeline, SubPlan
from .plan_builder import PlanBuilder
from .succession import Done, ExactFrom, Succession
from .windows_in_common import WindowsInCommon

if TYPE_CHECKING:
    from penstock.engine.ordered_memory.memory_rules import MemoryRules
    from penstock.engine.panes.pane_aggregate import PaneAggregate
    from penstock.engine.panes.pane_member import PaneMember
    from penstock.engine.windows.window_store import WindowStore


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
        self._on_failure = on_failure
        self._strategy = strategy
        self._choose_layout = choose_layout
        self.shared_joins: dict[CommonJoin | CommonManyJoin, SharedJoin] = {}
        self._selects = CommonSelects(self)
        self._panes = PanesInCommon(self)
        self.windows = WindowsInCommon(self)
        self._group_numbers = count(1)
        self.streams: dict[str, Ingest] = {}
        self._idle = IdleStreams(self.streams)
        self._hopping: Hopping | None = None
        """The hopping queries at work; None: to be found."""
        self.tables: dict[str, StaticTable] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.parts = CommonParts(self)
        self.builder = PlanBuilder(self, memory_rules)
        self.results_memory = ResultsMemory()
        self.is_restored = False
        """Whether it came from a checkpoint: then what goes wrong inside may be the fault of who wrote
        that."""
        self.runs = 0
        """How often there has been work."""
        self.heirs = Succession(self)
        self._unsettled: list[Sink] = []
        """Sinks that hold changes of an instant of which more may be on the way."""
        self._clock = clock
        self._began = clock()
        self._scheduler = scheduler or RoundRobin()
        self._ready = Ready()
        self._owners: dict[Operator, SubPlan | SharedJoin | SharedSelect | PaneAggregate | WindowStore] = {}
        self.failures: list[tuple[str, Exception]] = []
        """What stopped queries, by name, for whoever pushed to be told."""
        self._failed_first: list[tuple[str, Exception]] = []
        """The same of queries that stopped at their first answer, for who pushes next."""
        self.refused: list[tuple[str, Exception]] = []
        """What subscribers raised, by the query they listen to."""

    def come_back(self) -> None:
        """It was restored from a checkpoint."""
        self.is_restored = True

    @property
    def selects(self) -> dict[str, SharedSelect]:
        """The operators that run selects of several queries, by stream."""
        return self._selects.shared

    @property
    def window_selects(self) -> dict[str, SharedSelect]:
        """The same over ROWS windows."""
        return self._selects.windowed

    @property
    def panes(self) -> dict[CommonPanes, PaneAggregate]:
        """The operators that run hopping aggregates of several queries."""
        return self._panes.found

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
        refused = partial(self._refuse, name)
        sink = Sink(
            schema, Queue(), f"{name}.sink", counting, refused, changes, netting, types, self.results_memory
        )
        sink.hold = partial(self._unsettled.append, sink)
        sink.starts_full = starts_full(plan)
        progress = [self.streams[stream].progress for stream in streams_of(plan)]
        starts = self.starts()
        passed = max((starts[one] for one in streams_of(plan) if one in starts), default=BEGINNING)
        clock = sink.clock = StreamClock(progress, self._clock, self._push_began, passed)
        hops = hops_of(plan)
        sink.by_hops = hops is not None
        sink.begins = clock.begins if hops is None else self.builder.first_hop(plan, hops)
        pipeline = self.pipelines[name] = Pipeline(name, plan, sink=sink, approach=approach)
        self._start(pipeline, counting)
        if not any(self.streams[stream].has_given for stream in streams_of(plan)):
            sink.entered_before = BEGINNING  # what is there is of tables, and enters with the first time
        self._forget_queries()
        return pipeline

    def _start(self, pipeline: Pipeline, counting: bool) -> None:
        plan, sink = pipeline.plan, pipeline.sink
        pipeline.started = self.starts()
        if sink.clock is not None:
            sink.clock.waits = waits_for_instants(plan)
        outlet = self.builder.build(plan, count(), pipeline, counting)
        is_join = isinstance(plan.input if isinstance(plan, SelectNode) else plan, MemberNode)
        sink.company = next(iter(pipeline.joins.values()))[0] if is_join else None
        if isinstance(plan, MemberNode) and counting:
            shared_join, member = pipeline.joins[0]
            pipeline.tally = shared_join.form, member
        elif isinstance(plan, PaneAggregateNode) and counting:
            pipeline.tally = pipeline.panes[0]
        elif pipeline.tally is None:
            self.builder.connect(outlet, sink.inputs[0], pipeline, plan)
        sink.entered_before = pipeline.filled_at
        if pipeline.is_filled and sink.by_hops and sink.is_changes:
            sink.net_all(plan_types(plan))  # what it begins with may leave at the same boundary
        for operator in pipeline.own_operators:
            self._owners[operator] = pipeline
            self._ready.enter(operator)

    def give_first(self, pipeline: Pipeline) -> None:
        """Let a query that began on streams with rows give what it found then at once."""
        if pipeline.started:
            self._began = self._clock()
            self.runs += 1
            before = len(self.failures)
            self._work()
            # The query has begun, and its results say that it has stopped; so does the next call that works.
            self._failed_first += self.failures[before:]
            del self.failures[before:]

    def drop_query(self, name: str) -> None:
        """Stop a query and forget its state."""
        self.heirs.drop(name)
        pipeline = self.pipelines.pop(name)
        self._forget_queries()
        self._stop(pipeline)
        pipeline.sink.leave()

    def alter_query(self, name: str, plan: PlanNode) -> None:
        """Let a query go on with other windows: what it has given stays, its joins keep what they hold."""
        self.heirs.drop(name)  # windows it was to have are of no use any more
        pipeline = self.pipelines[name]
        changed = {n: node for n, node in enumerate(plan_nodes(plan)) if isinstance(node, MemberNode)}
        if not is_same_but_joined_windows(pipeline.plan, plan):
            self._restart(pipeline, plan)
            return
        for number, node in changed.items():
            shared_join, member = pipeline.joins[number]
            member.started = self._starts(node)
            shared_join.form.alter(member, node)
            self._sync(shared_join)
        if pipeline.sink.clock is not None:
            pipeline.sink.clock.waits = waits_for_instants(plan)
        pipeline.plan, pipeline.started = plan, self.starts()

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
        self._stop(pipeline)
        pipeline.plan, pipeline.tally = plan, None
        pipeline.operators, pipeline.joins, pipeline.shares, pipeline.taps = {}, {}, {}, []
        pipeline.parts, pipeline.panes, pipeline.windows = {}, {}, {}
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

    def _forget_queries(self) -> None:
        """Queries have come or gone."""
        self._idle.forget()
        self._hopping = None

    def _hopping_now(self) -> Hopping:
        if self._hopping is None:
            self._hopping = find_hopping([*self.pipelines.values(), *self.heirs.pipelines])
        return self._hopping

    def _begin_time(self) -> None:
        """From now on tables are what they are, and time goes on."""
        self.parts.go_on()
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
        self._scheduler.run(self._ready, self._clock, self._fail)  # all hear how far time has come
        for ingest in self.streams.values():
            ingest.close()
        self.run()

    @property
    def rows_in(self) -> int:
        """Rows pushed to all streams so far."""
        return sum(ingest.rows_in for ingest in self.streams.values())

    def run(self) -> None:
        """Work until nothing can be done; what went wrong is in `failures` and `refused`."""
        self._began = self._clock()
        self.runs += 1
        self.failures += self._failed_first
        self._failed_first.clear()
        self._work()
        for ingest in self.streams.values():
            ingest.progress.note(ingest.output.punctuation, self._began)
        while self.heirs.succeed():
            self._hopping = None
            self._work()
        self.results_memory.look()

    def _refuse(self, name: str, error: Exception) -> None:
        """A subscriber raised."""
        self.refused.append((name, error))

    def _push_began(self) -> float:
        return self._began

    def _work(self) -> None:
        """Work off what has come."""
        self._scheduler.run(self._ready, self._clock, self._fail)
        while self._unsettled:
            self._unsettled.pop().settle()

    def _fail(self, operator: Operator, error: Exception) -> None:
        """Stop the query of an operator that raised, or all if it is in common, when what it gave is out."""
        owner = self._owners[operator]
        if isinstance(owner, SubPlan):
            later = [*owner.own_operators, *(one for part in above(owner) for one in part.own_operators)]
            for pipeline in owner.queries:
                self._fail_query(pipeline, error, later[later.index(operator) + 1 :])
        else:
            members: list[Member | PaneMember | Share] = [*owner.members]
            later = list(owner.form.operators) if isinstance(owner, SharedJoin) else [operator]
            for pipeline in list(dict.fromkeys(one for who in members for one in self.queries_of(who))):
                self._fail_query(pipeline, error, later[later.index(operator) + 1 :])

    def queries_of(self, member: Member | PaneMember | Share) -> list[Pipeline]:
        """The query whose share this is, or the queries that read the part whose share it is."""
        name = member.name
        for pipeline in (self.pipelines.get(name), self.heirs.find(name)):  # a query may be named `q.next`
            if pipeline is not None and pipeline.has(member):
                return [pipeline]
        return next((part.queries for part in self.parts.values() if part.name == name), [])

    def _fail_member(self, member: Member | PaneMember, error: Exception) -> None:
        """Stop a query whose share in a join or in panes cannot be known."""
        for pipeline in self.queries_of(member):
            if pipeline.error is None:
                self._fail_query(pipeline, error, [])

    def _fail_query(self, pipeline: Pipeline, error: Exception, later: list[Operator]) -> None:
        failing = self.heirs.failed(pipeline)
        if failing is None or failing.error is not None:
            return
        pipeline = failing
        if isinstance(error, DataError | pa.ArrowException | OverflowError | MemoryError):
            reason = " ".join(str(error).split())
            if isinstance(error, MemoryError):
                reason = f"Expected memory for what the windows hold, found none left ({reason})"
            error = StoppedError(f"{reason}, in query `{pipeline.name}`", queries=[pipeline.name])
        elif self.is_restored and not isinstance(error, PenstockError):
            cause = of_state(error)
            error = StoppedError(f"{cause}, in query `{pipeline.name}`", queries=[pipeline.name])
            error.__cause__ = cause
        pipeline.error = error
        self._forget_queries()
        self.failures.append((pipeline.name, error))
        rest = later
        if pipeline.sink not in later:
            rest = [*later, *(one for part in pipeline.everything for one in part.own_operators)]
        for one in rest:  # each before those behind it
            try:
                while one.step(QUANTUM_ROWS):
                    pass
            except Exception as another:  # it is stopped anyway
                error.add_note(f"also: {another}")
        pipeline.sink.settle()
        self._stop(pipeline)
        self._on_failure(pipeline.name)

    def _stop(self, pipeline: SubPlan) -> None:
        """Take out a query, or a part that nobody reads any more."""
        disconnect(pipeline.taps)
        for part in pipeline.parts.values():
            if pipeline in part.users:
                part.users.remove(pipeline)
                if not part.users:
                    self._stop(part)
                    self.parts.drop(part)
        for shared_join, member in pipeline.joins.values():
            if member in shared_join.members:
                member.output.queues.clear()
                shared_join.form.drop(member)
                if shared_join.members:
                    self._sync(shared_join)
                else:
                    self._close(shared_join)
        for shared, share in pipeline.shares.values():
            share.output.queues.clear()
            if share in shared.members:
                shared.drop(share)
            if not shared.members and shared in self._owners:
                self._selects.close(shared)
        self._selects.leave(pipeline)
        for panes, member_of_panes in pipeline.panes.values():
            self._panes.leave(panes, member_of_panes)
        for store, window in pipeline.windows.values():
            self.windows.leave(store, window)
        for operator in pipeline.own_operators:
            self._forget(operator)

    def _close(self, shared_join: SharedJoin) -> None:
        """The last query has gone."""
        disconnect(shared_join.taps)
        for operator in shared_join.entered:
            self._forget(operator)
        del self.shared_joins[shared_join.common]

    def _forget(self, operator: Operator) -> None:
        self._owners.pop(operator, None)
        self._ready.leave(operator)
        for queue in operator.inputs:
            queue.clear()
        if isinstance(operator, Stopping):
            operator.stop()

    def _sync(self, shared_join: SharedJoin) -> None:
        """Let the scheduler know which operators a group has now."""
        now = list(shared_join.form.operators)
        for operator in shared_join.entered:
            if operator not in now:
                self._owners.pop(operator, None)
                self._ready.leave(operator)
        for operator in now:  # one that was there may have other queues
            self._owners[operator] = shared_join
            self._ready.enter(operator)
        shared_join.entered = now

    def _join(self, node: MemberNode, number: int, pipeline: SubPlan, counting: bool) -> Outlet:
        """A member of the group that runs the join, which is set up if there is none."""
        shared_join = self.shared_joins.get(node.common) or self._open(node.common)
        member = Member(pipeline.name, node, counting)
        member.started = self._starts(node)
        shared_join.form.add(member)
        pipeline.joins[number] = shared_join, member
        self._sync(shared_join)
        return member.output

    def _drain(self, operator: Operator) -> None:
        """Work off what is in its queues, which is usually nothing."""
        try:
            while operator.step(QUANTUM_ROWS):
                pass
        except Exception as error:
            self._fail(operator, error)

    def tapped(self, stream: str) -> Queue:
        """A queue that is given what comes of a stream from now on."""
        outlet = self.streams[stream].output
        queue = Queue(outlet.punctuation)
        queue.closed = outlet.closed
        outlet.queues.append(queue)
        return queue

    def starts(self) -> dict[str, int]:
        """How far each stream that has rows has come."""
        return {name: one.output.punctuation for name, one in self.streams.items() if one.rows_in}

    def _starts(self, node: MemberNode) -> list[int]:
        """How far its streams have come; BEGINNING for one that had no rows."""
        streams = [self.streams[side.stream] for side in node.common.sides]
        return [stream.output.punctuation if stream.rows_in else BEGINNING for stream in streams]

    def _open(self, common: CommonJoin | CommonManyJoin) -> SharedJoin:
        streams = [self.streams[side.stream] for side in common.sides]
        taps: list[tuple[Outlet, Queue]] = []
        for stream in streams:
            taps.append((stream.output, self.tapped(stream.schema.name)))
        types = [stream.schema.types for stream in streams]
        queues = [queue for _, queue in taps]
        name = common.owner or f"join {next(self._group_numbers)}"
        strategy = common.strategy or self._strategy
        form: Form
        if isinstance(common, CommonManyJoin):
            form = build_many(strategy, common, types, queues, name, self._fail_member)
        else:
            form = build_form(
                strategy, common, (types[0], types[1]), (queues[0], queues[1]), name,
                self._choose_layout, self._fail_member, partial(self._refresh, common),
            )  # fmt: skip
        shared_join = self.shared_joins[common] = SharedJoin(name, common, strategy, form, taps)
        shared_join.changed = partial(self._sync, shared_join)
        return shared_join

    def _refresh(self, common: CommonJoin | CommonManyJoin) -> None:
        self.shared_joins[common].refresh()

    def _check_restored(self) -> None:
        from .wiring import check_wiring

        check_wiring(self)

    def _check(self) -> None:
        for ingest in self.streams.values():
            ingest._check()
        for shared_join in self.shared_joins.values():
            shared_join.refresh()
            for operator in shared_join.form.operators:
                operator._check()
        for shared in [*self.selects.values(), *self.window_selects.values()]:
            shared._check()
        for panes in self.panes.values():
            panes._check()
        for store in self.windows:
            store._check()
        working = [pipeline for pipeline in self.pipelines.values() if pipeline.error is None]
        for part in [*self.parts.values(), *working]:
            for operator in part.own_operators:
                operator._check()


def streams_of(plan: PlanNode) -> list[str]:
    """The streams that a plan reads, each once."""
    return list({node.stream: None for node in plan_nodes(plan) if isinstance(node, SourceNode)})


def above(part: SubPlan) -> list[SubPlan]:
    """Everything that reads a part, also through others, nearest first."""
    found = dict.fromkeys(part.users)
    for user in part.users:
        found |= dict.fromkeys(above(user))
    return list(found)
