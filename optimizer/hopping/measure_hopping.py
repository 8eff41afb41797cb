"""What the operators of a hopping query have shown: rows of their answers at a boundary, or changes.

An operator of the logical tree is one or more of the plan, and its name is in the label of one of them
(modes.py). What it gives is counted where that is all done: above filters, projections and conversions, which
have no names. Of an answer that is given whole the rows are known, of one given by changes those that come;
both where an operator converts, and of aggregates and set operations, which know their groups and values.
Else the one is taken to follow from the other as the estimates have it. Joins know how many pairs have had
equal keys, of how many; but the shared window join does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.engine.changes.match_counts import MatchCounts
from penstock.engine.plan.plan import PlanNode, SelectNode
from penstock.engine.plan.plan_parts import plan_inputs, plan_nodes
from penstock.engine.sharing.facts import PlanFacts
from penstock.optimizer.plan.modes import OPERATORS, Form, Mode, operators_of, reads, writes
from penstock.optimizer.plan.plan_changes import has_ends
from penstock.optimizer.tree.logical import Aggregate, Filter, Join, Node, Project, inputs_of

from .estimate_flows import Estimates, Met
from .hopping_cost import Flow

LEAST = 1e-3  # rows a hop: what has given none may still do
LEAST_MET = 1e-12  # of all pairs

PerHop = Mapping[Form, float]
"""Rows of an answer (complete), or rows that come (delta), at one boundary."""


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that an operator has given so far; inner: before they were converted to the other form, if known.

    leave: whether changes, and those before the conversion, leave by themselves, without a -1.
    kept: rows of its answer now, before any filter above it, if the operator keeps what it has said.
    meetings: of a join, the pairs it has found by their keys.
    """

    rows: int
    inner: int | None
    mode: Mode
    leave: tuple[bool, bool]
    kept: int | None = None
    meetings: MatchCounts | None = None

    def met(self, before: Given | None) -> Met | None:
        """Of all pairs of rows, those with equal keys since then; None: not known."""
        if self.meetings is None:
            return None
        since = self.meetings.since(None if before is None else before.meetings)
        if since.tried <= 0:
            return None
        keys = max(since.met / since.tried, LEAST_MET)
        return Met(keys, keys * (since.kept / since.met if since.met else 1.0) or LEAST_MET)

    def per_hop(self, before: Given | None, hops: int) -> PerHop:
        """What was given at each of the last so many boundaries."""
        counts = {writes(self.mode): (self.rows, 0 if before is None else before.rows, self.leave[0])}
        if self.inner is not None:
            old = 0 if before is None or before.inner is None else before.inner
            counts[reads(self.mode)] = self.inner, old, self.leave[1]
        return {
            form: (now - then) / hops / (1 if form == "complete" or leaves else 2)
            for form, (now, then, leaves) in counts.items()
        }


def rows_given(facts: PlanFacts, modes: Mapping[str, Mode]) -> dict[str, Given]:
    """By the names of operators; those that cannot be told from others' are not there."""
    found: dict[str, Given] = {}

    def visit(
        part: PlanFacts, node: PlanNode, number: int, top: tuple[int, PlanNode] | None, passed: int | None
    ) -> int:
        """Look at a node and all below it; the number that follows theirs. passed: by the filter above it."""
        if number in part.parts:
            visit(
                part.parts[number], node, 0, top, passed
            )  # by our names: it may have those of another query
            return number + sum(1 for _ in plan_nodes(node))
        if top is None and (rows := rows_of(part, number)) is not None:
            top = rows, node
        label = getattr(node, "label", "")
        if label:
            name = label.rsplit(" ", 1)[0]
            if top is not None and name in modes:
                mode = modes[name]
                is_converted = reads(mode) != writes(mode) and not name.startswith("scan ")
                inner = rows_of(part, number) if is_converted and number not in part.panes else None
                leave = has_ends(top[1]), has_ends(node)
                meetings = meetings_of(part, number, passed)
                found[name] = Given(top[0], inner, mode, leave, rows_kept(part, number), meetings)
            top = None
        is_filter = isinstance(node, SelectNode) and node.predicate is not None
        passed = rows_of(part, number) if is_filter else None
        number += 1
        for below in plan_inputs(node):
            number = visit(part, below, number, top, passed)
        return number

    visit(facts, facts.plan, 0, None, None)
    return found


def rows_of(part: PlanFacts, number: int) -> int | None:
    """Rows that a node of a plan has given."""
    if number in part.work:
        return part.work[number].rows_out
    shared = part.panes.get(number) or part.windows.get(number)
    return None if shared is None else shared.found


def rows_kept(part: PlanFacts, number: int) -> int | None:
    """Rows of a node's answer: the groups of an aggregate, the values of a set operation; None: not known."""
    if number in part.answers:
        return part.answers[number]
    return part.panes[number].answer_rows if number in part.panes else None


def meetings_of(part: PlanFacts, number: int, passed: int | None) -> MatchCounts | None:
    """What a join has met so far; passed: pairs that satisfy what of its condition is a filter above it."""
    meetings = part.meetings.get(number)
    return meetings if meetings is None or passed is None else replace(meetings, kept=passed)


@dataclass(frozen=True)
class MeasuredEstimates(Estimates):
    """Estimates, and in their place what was measured where it was."""

    measured: Mapping[int, PerHop] = field(default_factory=dict)
    """By the id of a node."""
    met: Mapping[int, Met] = field(default_factory=dict)
    """By the id of a join."""

    def flow(self, node: Node, inputs: list[Flow]) -> Flow:  # type: ignore[override]
        flow = super().flow(node, inputs)
        known = self.measured.get(id(node))
        if known is None:
            return flow
        rows, came = known.get("complete"), known.get("delta")
        if rows is None:
            return replace(flow, rows=max(came or 0.0, LEAST) / max(flow.changed, LEAST))
        rows = max(rows, LEAST)
        if came is None:
            return replace(flow, rows=rows)
        return replace(flow, rows=rows, parts=frozenset({(id(node), min(1.0, came / rows))}))

    def condition(self, node: Join) -> Met:
        known = self.met.get(id(node))
        return super().condition(node) if known is None else known

    def groups(self, node: Aggregate) -> float:
        known = self.measured.get(id(node), {}).get("complete")
        return super().groups(node) if known is None else max(known, LEAST)


def measured_nodes(
    root: Node, given: Mapping[str, PerHop], kept: Mapping[str, int], modes: Mapping[str, Mode]
) -> dict[int, PerHop]:
    """What was measured by the node of the tree that it is the flow of: above filters, else the operator.

    kept: rows of the operators' answers, before filters, where that is known.
    """
    found: dict[int, PerHop] = {}
    names = {id(one.node): one.name for one in operators_of(root)}

    def visit(node: Node, filtered: Node | None) -> None:
        if isinstance(node, OPERATORS):
            name = names[id(node)]
            if name in kept:
                found[id(node)] = {"complete": float(kept[name])}
            if name in given and filtered is None:
                found[id(node)] = {**found.get(id(node), {}), **given[name]}
            elif name in given:
                last = writes(modes[name])
                found[id(filtered)] = {last: given[name][last]}
            filtered = None
        elif isinstance(node, Filter):
            filtered = filtered or node
        elif not isinstance(node, Project):
            filtered = None
        for part in inputs_of(node):
            visit(part, filtered)

    visit(root, None)
    return found


def measured_conditions(root: Node, met: Mapping[str, Met]) -> dict[int, Met]:
    """What joins have met, by the node of the tree."""
    return {id(one.node): met[one.name] for one in operators_of(root) if one.name in met}
