"""The plan of a hopping query: each operator in its mode (modes.py).

An operator that reads changes is the one of incremental queries; one that reads whole answers works window at
a time and keeps nothing (`whole` in plan.py). Where an operator writes the other form than it reads, a
HopAnswer (changes to whole answers) or a HopDelta (back) stands above it. Windows and tables write what the
operator above them reads. The topmost operator writes what the query emits. An aggregate straight over a
window reads its rows as they come and writes either form by itself, from panes (plan_panes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engine.expressions.expression import Expression
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import (
    HopAnswerNode,
    HopDeltaNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SourceNode,
    TicksNode,
    WholeTableNode,
    WholeWindowNode,
)
from penstock.engine.plan.plan_parts import skips_hops, stands, stands_still, starts_full
from penstock.engine.rows.hops import Hops
from penstock.optimizer.plan.decided import Decided
from penstock.optimizer.rewrite.flatten_input import flatten_input
from penstock.optimizer.rewrite.order_joins import Cluster, collect_pair
from penstock.optimizer.rewrite.prune_columns import moved, moved_all
from penstock.optimizer.rewrite.separate_joins import separate_joins
from penstock.optimizer.tree.logical import (
    Aggregate,
    Node,
    Query,
    StreamScan,
    TableScan,
    inputs_of,
    streams_of,
)

from .modes import OPERATORS, Forced, Form, Modes, fill_modes, forced_modes, mode_of, operators_of, reads
from .plan_changes import ChangesPlan, ChangesPlanner, expired, select, window_columns
from .plan_panes import plan_panes


@dataclass(frozen=True, slots=True)
class Panes:
    """Whether aggregates may run by panes; `owner`: the query, if it is to share with nobody."""

    allowed: bool
    owner: str | None = None


def plan_hopping(
    query: Query,
    counting: bool,
    approach: Approach,
    forced: Forced,
    execution: str,
    decided: Decided | None,
    panes: Panes,
) -> ChangesPlan:
    """The plan of a query with HOP BY; `counting`: only how many rows there are is asked.

    execution, in delta mode: rows wait until their hop is over (`waat`), or are worked as they come (`taat`).
    decided: plan and modes, chosen by cost; without it the plan is as written and all operators read changes.
    """
    assert query.hop is not None, "a hopping query"
    emitted: Form = "complete" if query.emit == "complete" else "delta"
    if decided is None:
        root = separate_joins(query.root)
        modes = assign_modes(root, forced, emitted)
    else:
        root, modes = decided.query.root, decided.modes
    hops = Hops(query.hop.size_us, query.hop.origin_us)
    planner = HoppingPlanner(approach, hops, root, modes, emitted, execution == "taat", panes)
    node = planner.plan(root, range(len(query.fields)))
    if emitted == "complete" and not stands(node):
        planner.leave_out_empty_hops()
        node = planner.plan(root, range(len(query.fields)))
    if counting and emitted == "complete" and isinstance(node, SelectNode) and node.predicate is None:
        node = node.input if isinstance(node.input, PaneAggregateNode) else node
    is_net = emitted == "complete" or isinstance(node, HopDeltaNode | PaneAggregateNode)
    return ChangesPlan(node, "none" if is_net else "all")


def assign_modes(root: Node, forced: Forced, emitted: Form) -> Modes:
    """The mode of every operator: as forced, and else delta."""
    return fill_modes(root, forced_modes(root, forced), emitted)


def longest_window(root: Node) -> int:
    """Of those that become empty if nothing comes; 0 if there is none."""
    windows = [one.node.window for one in operators_of(root) if isinstance(one.node, StreamScan)]
    return max((window.size or 0 for window in windows if window.kind == "range"), default=0)


class HoppingPlanner(ChangesPlanner):
    """Plans one hopping query, every join as it stands in the tree."""

    def __init__(
        self,
        approach: Approach,
        hops: Hops,
        root: Node,
        modes: Modes,
        emitted: Form,
        taat: bool,
        panes: Panes,
    ) -> None:
        super().__init__(approach, hops)
        self._taat = taat
        self._panes = panes
        self._numbers = {id(one.node): one for one in operators_of(root)}
        self._modes = modes
        self._wanted: dict[int, Form] = {}
        """By the id of an operator or table: what it has to write."""
        self._want(root, emitted)
        sources = tuple(SourceNode(stream, (), ()) for stream in sorted(streams_of(root)))
        self._ticks = TicksNode(sources, hops)
        self._ticks_of_changes = replace(self._ticks, window=longest_window(root))
        """For whoever is below a conversion to changes, where a hop that changes nothing can be left out."""

    def leave_out_empty_hops(self) -> None:
        """Where there is no answer while all windows that rows leave by themselves are empty, nobody has to
        say what is in others then, or in tables."""
        self._ticks = self._ticks_of_changes

    def _want(self, node: Node, form: Form) -> None:
        self._wanted[id(node)] = form
        if isinstance(node, OPERATORS) and not isinstance(node, StreamScan):
            form = reads(self._modes[self._numbers[id(node)].number])
        for part in inputs_of(node):
            self._want(part, form)

    def plan(self, node: Node, used: Sequence[int], joined: bool = False) -> PlanNode:
        flat = flatten_input(node)
        base, wanted = flat.base, self._wanted[id(flat.base)]
        outer = self._whole, self._label, self._ticks
        form: Form = wanted
        if not isinstance(base, TableScan):
            operator = self._numbers[id(base)]
            form = wanted if operator.is_scan else reads(self._modes[operator.number])
            shown = mode_of("delta" if operator.is_scan else form, wanted)
            self._label = f"{operator.name} {shown}"
        self._whole = self._hops if form == "complete" else None
        if form == "complete" and wanted == "delta":
            self._ticks = self._ticks_of_changes
        try:
            planned = super().plan(node, used, joined)
        finally:
            self._whole, self._label, self._ticks = outer
        if isinstance(base, TableScan) and wanted == "complete":
            return WholeTableNode(planned, self._ticks)
        if isinstance(base, Aggregate) and self._by_panes(base) is not None:
            return planned  # which writes what is wanted
        return self._converted(planned, form, wanted, self._is_top(base))

    @property
    def _skips(self) -> bool:
        """Whether hops at which nothing can have changed are left out here."""
        return self._ticks.window is not None

    def _is_top(self, base: Node) -> bool:
        return not isinstance(base, TableScan) and self._numbers[id(base)].above is None

    def _converted(self, node: PlanNode, form: Form, wanted: Form, is_top: bool) -> PlanNode:
        """The node in the other form, if that is wanted."""
        assert self._hops is not None
        if form == wanted:
            return expired(node) if is_top and wanted == "delta" else node
        if form == "complete":
            return HopDeltaNode(node, self._hops, self._ticks_of_changes if skips_hops(node) else None)
        has_ticks = not is_top and (starts_full(node) or (self._skips and stands_still(node)))
        ticks = self._ticks if has_ticks else None
        return HopAnswerNode(expired(node), self._hops, ticks)

    def _scan(
        self, scan: StreamScan, predicate: Expression | None, outputs: tuple[Expression, ...], joined: bool
    ) -> PlanNode:
        if self._whole is None:
            return super()._scan(scan, predicate, outputs, joined)
        types = tuple(field.type for field in scan.fields)
        if scan.window.kind == "range":
            node: PlanNode = SelectNode(SourceNode(scan.stream, types), predicate, outputs)
            ticks = self._ticks if self._skips and scan.window.size is None else None
            return WholeWindowNode(node, scan.window, (), self._whole, self._label, ticks)
        source, partition, places = window_columns(scan, predicate, outputs)
        ticks = self._ticks if self._skips else None
        node = WholeWindowNode(source, scan.window, partition, self._whole, self._label, ticks)
        return select(node, moved(predicate, places), moved_all(outputs, places))

    def _by_panes(self, base: Aggregate) -> PaneAggregateNode | None:
        """The aggregate by panes, if it reads changes and can be; it writes whatever is wanted of it.

        Without keys there is a row before the first of the stream comes, which panes do not know of, and
        which only whoever stands above an operator asks for.
        """
        assert self._hops is not None
        is_delta = reads(self._modes[self._numbers[id(base)].number]) == "delta"
        if not self._panes.allowed or not is_delta or not (base.keys or self._is_top(base)):
            return None
        node = plan_panes(base, self._hops, self._wanted[id(base)], self._panes.owner)
        return None if node is None else replace(node, label=self._label)

    def _aggregate(self, base: Aggregate) -> PlanNode:
        panes = self._by_panes(base)
        return super()._aggregate(base) if panes is None else replace(panes, label=self._label)

    def _cluster(self, node: Node) -> Cluster:
        return collect_pair(node)

    def _totals(self) -> TicksNode | None:
        return None if self._whole is None else self._ticks
