"""Queries that go over to another plan while data flows.

The new plan starts beside the one at work and reads the same streams. When it has seen all that its windows
hold, it takes over between two pushes, when both have worked off all there is. If it has the same answer
(another approach to expiry), changes simply go on, but for those of an instant that is not over which only
one of them has said. If not (ALTER QUERY), the difference between the two answers is given first, as of the
time the new plan has come to; until then the answers are those of the old windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.hopping.hop_answer import HopAnswer
from penstock.engine.plan.approach import Approach, Netting
from penstock.engine.plan.plan import PlanNode, SourceNode
from penstock.engine.plan.plan_parts import hops_of, plan_nodes, plan_types, starts_full, waits_for_instants
from penstock.engine.plan.tellable import begins, is_known
from penstock.engine.results.sink import Sink
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.hops import Hops
from penstock.engine.sharing.at_work import disconnect
from penstock.engine.sharing.pipeline import Pipeline
from penstock.engine.sharing.shared_work import Source

if TYPE_CHECKING:
    from .runtime import Runtime

ExactFrom = Callable[[Pipeline], int | None]
"""From when on a plan is exact; None: from the start."""
Done = Callable[[int | None], None]
"""Told from when on the answers are those of the new windows."""


@dataclass(slots=True)
class Heir:
    """A plan that is catching up. done: it has another answer, and somebody asks when that begins.

    netting: how its changes are to be netted, if not as those of the plan at work.
    """

    pipeline: Pipeline
    exact_from: ExactFrom
    done: Done | None
    netting: Netting | None = None


class Succession:
    """Plans that are to take over, by the name of the query."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._heirs: dict[str, Heir] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._heirs

    def start(
        self,
        name: str,
        plan: PlanNode,
        approach: Approach,
        exact_from: ExactFrom,
        done: Done | None = None,
        netting: Netting | None = None,
    ) -> None:
        """Begin with a plan that takes over as soon as it has caught up; one begun before is forgotten."""
        self.drop(name)
        old = self._runtime.pipelines[name].sink
        sink = Sink(old.schema, Queue(), f"{name}.sink", True, old.refused, old.is_changes)
        sink.by_hops = old.by_hops and done is None  # what is of no hop that is over is the query's then
        heir = Pipeline(name, plan, sink=sink, approach=approach)
        self._runtime._start(heir, counting=False)  # counting or not, the sink will be that of the query
        self._heirs[name] = Heir(heir, exact_from, done, netting)

    @property
    def pipelines(self) -> list[Pipeline]:
        """The plans that are catching up."""
        return [heir.pipeline for heir in self._heirs.values()]

    def drop(self, name: str) -> None:
        """Forget the plan that was to take over."""
        if name in self._heirs:
            self._runtime.shared.stop(self._heirs.pop(name).pipeline)

    def failed(self, pipeline: Pipeline) -> Pipeline | None:
        """A plan has failed: the query that fails with it, if any; none if it has gone.

        One with the same answer is forgotten, for the query itself fails on the same rows. Where the windows
        have changed, it may do so with the new windows alone.
        """
        for name, heir in list(self._heirs.items()):
            if heir.pipeline is pipeline:
                self.drop(name)
                return None if heir.done is None else self._runtime.pipelines[name]
        if self._runtime.pipelines.get(pipeline.name) is not pipeline:
            return None
        self.drop(pipeline.name)
        return pipeline

    def succeed(self) -> bool:
        """Let the plans that have caught up take over; whether any did."""
        before = len(self._heirs)
        for name, heir in list(self._heirs.items()):
            self._try(name, heir)
        return len(self._heirs) < before

    def _try(self, name: str, heir: Heir) -> None:
        pipeline, next_ = self._runtime.pipelines[name], heir.pipeline
        streams = {node.stream for node in plan_nodes(next_.plan) if isinstance(node, SourceNode)}
        come = min(self._runtime.streams[stream].output.punctuation for stream in streams)
        since = heir.exact_from(next_)
        if since is not None and since > come - (heir.done is None):
            return
        hops = hops_of(next_.plan)
        if heir.done is None and hops is not None and not self._have_said(pipeline, next_, hops, come, since):
            return
        change: Batch | None = None
        at = begins(next_.plan, outlet_of(next_))
        heard = outlet_of(pipeline).punctuation, outlet_of(next_).punctuation
        if heir.done is None and hops is None and may_be_uneven(pipeline, next_):
            if at < pipeline.sink.last_ts or heard[0] != heard[1]:
                return
            uneven = self._difference(pipeline, next_, at)
            change = uneven if uneven.length else None
        if heir.done is not None:
            if at < pipeline.sink.last_ts or heard[0] < heard[1] or (since is not None and at < since):
                return  # one of them has not heard yet of what the other has, as input-triggered ones may
            if pipeline.sink.is_changes:
                change = self._difference(pipeline, next_, at)
            elif hops_of(next_.plan) is None:
                at += 1  # some of this instant may have entered the old windows
            elif at == pipeline.sink.last_ts > BEGINNING:
                return  # the answer of this boundary is out
        del self._heirs[name]
        self._take_over(pipeline, next_, change)
        if heir.netting is not None:
            pipeline.sink.net(heir.netting, plan_types(next_.plan))
        if heir.done is not None:
            is_first = since is None and pipeline.sink.last_ts <= BEGINNING
            heir.done(None if is_first else at)

    def _have_said(
        self, pipeline: Pipeline, heir: Pipeline, hops: Hops, come: int, since: int | None
    ) -> bool:
        """Whether both plans of a hopping query have said the last hop's answer, the heir an exact one."""
        first, last = pipeline.sink.begins(), hops.last(come - 1)
        if first is None or last < first or (since is not None and since > last):
            return False
        return all(
            outlet_of(one).punctuation > last and one.sink.inputs[0].frontier > last
            for one in (pipeline, heir)
        )

    def _difference(self, pipeline: Pipeline, heir: Pipeline, at: int) -> Batch:
        from penstock.engine.sharing.contents import Contents, difference

        contents = Contents(self._runtime.tables, at)
        waiting = pipeline.sink.take_initial()
        old = contents.answer(pipeline, pipeline.sink.inputs[0], waiting)
        new = contents.answer(heir, heir.sink.inputs[0], [])
        assert old is not None and new is not None, "a query was altered of which nobody knows the answer"
        return difference(old, new, plan_types(heir.plan), at)

    def _take_over(self, pipeline: Pipeline, heir: Pipeline, change: Batch | None) -> None:
        runtime, sink = self._runtime, pipeline.sink
        sink.counters.rows_in = pipeline.count
        sink.flips += sum(one.flips for one in pipeline.all_operators if isinstance(one, HopAnswer))
        runtime.shared.stop(pipeline)
        (last,) = (tap for tap in heir.taps if tap[1] is heir.sink.inputs[0])
        disconnect([last])
        heir.taps.remove(last)
        waiting = list(heir.sink.inputs[0].batches)  # of a hop that is not over
        runtime.at_work.forget([heir.sink])
        pipeline.become(heir)
        sink.inputs = (Queue(),)
        if sink.clock is not None:
            sink.clock.waits = waits_for_instants(heir.plan)
        for batch in waiting:
            sink.inputs[0].put(batch)
        if change is not None:  # what it and the new plan's next changes say may cancel
            sink.starts_full |= starts_full(heir.plan)
            sink.net_all(plan_types(heir.plan))
            sink.inputs[0].put(change)
        runtime.site.builder.connect(Source(last[0]), sink.inputs[0], pipeline, pipeline.plan)
        for operator in pipeline.own_operators:
            runtime.at_work.owners[operator] = pipeline
        runtime.at_work.enter([sink], pipeline)


def may_be_uneven(pipeline: Pipeline, heir: Pipeline) -> bool:
    """Whether of an instant that is not over one plan may have said what the other waits with: ROWS windows
    wait for its end, and what stands above them may know of rows that leave at it."""
    return (
        pipeline.sink.is_changes
        and waits_for_instants(heir.plan)
        and is_known(pipeline.plan)
        and is_known(heir.plan)
    )


def outlet_of(pipeline: Pipeline) -> Outlet:
    """Where a plan's output comes from, or what knows how far it has come if results are only counted."""
    if 0 in pipeline.operators:
        return pipeline.operators[0].output
    _, reader = pipeline.readings[0]
    return reader.output
