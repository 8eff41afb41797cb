"""Hopping aggregates over the same rows and keys, run by one operator from the first on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.plan.plan import CommonPanes, PaneAggregateNode

from .common_selects import disconnect
from .pipeline import SubPlan

if TYPE_CHECKING:
    from penstock.engine.panes.pane_aggregate import PaneAggregate
    from penstock.engine.panes.pane_member import PaneMember

    from .runtime import Runtime


class PanesInCommon:
    """The operators at work, by what their queries have in common."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.found: dict[CommonPanes, PaneAggregate] = {}

    def share(self, node: PaneAggregateNode, number: int, pipeline: SubPlan, counting: bool) -> Outlet:
        """A member of the operator that runs the aggregate, which is set up if there is none."""
        from penstock.engine.panes.pane_aggregate import (
            PaneAggregate,  # imported when first asked for, to start faster
        )
        from penstock.engine.panes.pane_member import PaneMember

        runtime, common = self._runtime, node.common
        if common in self.found:
            runtime._drain(self.found[common])
        stream = runtime.streams[common.stream]
        started = stream.output.punctuation if stream.rows_in else BEGINNING
        panes = self.found.get(common)  # unless it failed just now
        if panes is None:
            queue = runtime.tapped(common.stream)
            panes = self.found[common] = PaneAggregate(common, queue, started, runtime._fail_member)
            runtime._owners[panes] = panes
            runtime._ready.enter(panes)
        member = PaneMember(pipeline.name, node, counting, runtime.builder.first_hop(node, node.hops))
        panes.add(member, started)
        pipeline.panes[number] = panes, member
        return member.output

    def leave(self, panes: PaneAggregate, member: PaneMember) -> None:
        """A query has gone, and with the last the operator."""
        member.output.queues.clear()
        if member in panes.members:
            panes.drop(member)
        if not panes.members and self.found.get(panes.common) is panes:
            disconnect([(self._runtime.streams[panes.common.stream].output, panes.inputs[0])])
            self._runtime._forget(panes)
            del self.found[panes.common]
