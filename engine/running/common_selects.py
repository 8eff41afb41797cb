"""Selects over one stream, run by one operator as soon as there are two.

The first runs by itself, as part of its query. When a second one comes, both go over to a SharedSelect; what
comes of each goes out where it went out before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.plan.plan import SelectNode, SharedSelectNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.selects.select import Select
from penstock.engine.selects.shared_select import Share, SharedSelect
from penstock.engine.selects.shared_window_select import SharedWindowSelect

from .pipeline import Pipeline, SubPlan

if TYPE_CHECKING:
    from .runtime import Runtime


class CommonSelects:
    """By stream: the operator that runs several selects, or the only one there is."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.shared: dict[str, SharedSelect] = {}
        self.windowed: dict[str, SharedSelect] = {}
        """Of selects over ROWS windows, which are run together from the first on."""
        self.single: dict[str, tuple[Pipeline, int]] = {}
        """The only select over a stream, by its number in its plan."""

    def has_others(self, stream: str) -> bool:
        """Whether there is a select over the stream; the rows that came before now have been worked off."""
        if stream in self.shared:
            self._runtime._drain(self.shared[stream])
        elif stream in self.single:
            pipeline, number = self.single[stream]
            self._runtime._drain(pipeline.operators[number])
        return stream in self.shared or stream in self.single  # unless it failed just now

    def share(
        self, node: SharedSelectNode, number: int, pipeline: Pipeline, counting: bool, outlet: Outlet | None
    ) -> Outlet:
        """Run a select together with the others over its stream; what comes of it goes out at `outlet`."""
        if node.is_windowed:
            shared = self.windowed.get(node.stream) or self._open_windowed(node.stream)
        else:
            shared = self.shared.get(node.stream) or self._open(node.stream)
        is_direct = number == 0 and node.projection is None and not pipeline.sink.is_changes
        sink = pipeline.sink if is_direct else None
        share = Share(pipeline.name, node.common_predicate, node.columns, counting, number > 0, sink)
        share.output.punctuation, share.output.closed = shared.output.punctuation, shared.output.closed
        shared.add(share)
        pipeline.shares[number] = shared, share
        if counting:
            pipeline.tally = shared, share
        if node.projection is None or counting:
            share.output = outlet or share.output
            return share.output
        queue = Queue()
        self._runtime.builder.connect(share.output, queue, pipeline, node)
        select = Select(SelectNode(node, None, node.projection), queue, f"{pipeline.name}.{number}")
        select.output = outlet or select.output
        pipeline.operators[number] = select
        return select.output

    def _open(self, stream: str) -> SharedSelect:
        """One operator for the selects over a stream; the only one so far goes over to it."""
        shared = self.shared[stream] = SharedSelect(
            self._runtime.tapped(stream), f"select {stream}", self._fail_share
        )
        self._enter(shared)
        pipeline, number = self.single.pop(stream)
        single = pipeline.operators[number]
        taps = [tap for tap in pipeline.taps if tap[1] in single.inputs]
        disconnect(taps)
        pipeline.taps = [tap for tap in pipeline.taps if tap not in taps]
        self._runtime._forget(single)
        node = next(node for n, node in enumerate(plan_nodes(pipeline.plan)) if n == number)
        assert isinstance(node, SharedSelectNode), "a select of another kind went over"
        counting = number == 0 and pipeline.sink.is_counting
        self.share(node, number, pipeline, counting, single.output)
        if pipeline.operators[number] is single:
            del pipeline.operators[number]
        else:
            self._runtime._owners[pipeline.operators[number]] = pipeline
            self._runtime._ready.enter(pipeline.operators[number])
        return shared

    def _open_windowed(self, stream: str) -> SharedSelect:
        """One operator for the selects over ROWS windows of a stream."""
        shared = self.windowed[stream] = SharedWindowSelect(
            self._runtime.tapped(stream), f"select {stream} rows", self._fail_share
        )
        self._enter(shared)
        return shared

    def _enter(self, shared: SharedSelect) -> None:
        self._runtime._owners[shared] = shared
        self._runtime._ready.enter(shared)

    def close(self, shared: SharedSelect) -> None:
        """The last query has gone."""
        of_kind = self.windowed if isinstance(shared, SharedWindowSelect) else self.shared
        stream = next(name for name, one in of_kind.items() if one is shared)
        disconnect([(self._runtime.streams[stream].output, shared.inputs[0])])
        self._runtime._forget(shared)
        del of_kind[stream]

    def leave(self, pipeline: SubPlan) -> None:
        """A query has gone."""
        self.single = {stream: one for stream, one in self.single.items() if one[0] is not pipeline}

    def _fail_share(self, share: Share, error: Exception) -> None:
        """Stop a query whose predicate failed, unless it has been stopped or dropped meanwhile."""
        pipeline = self._runtime.pipelines.get(share.name)
        if pipeline is None or pipeline.error is not None:
            return
        if any(one is share for _, one in pipeline.shares.values()):
            self._runtime._fail_query(pipeline, error, [])


def disconnect(taps: list[tuple[Outlet, Queue]]) -> None:
    """Let queues have nothing more of what outlets give."""
    for outlet, queue in taps:
        if queue in outlet.queues:
            outlet.queues.remove(queue)
