"""The plan, for people and for programs: what runs, on which index, at what cost, with how much state.

One description per node, from which both the tree and the JSON are written, so that they say the same. Joins
that several queries share are described by explain_sharing.py.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from penstock.engine.expressions.expression import Expression
from penstock.engine.join_forms.facts import work_of_form
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import (
    CommonJoin,
    FinalGroupNode,
    HopAnswerNode,
    JoinNode,
    ManyJoinNode,
    MemberNode,
    OrderedJoinNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SideNode,
    SourceNode,
    StoredWindowNode,
    TableNode,
    UnionNode,
    WindowNode,
)
from penstock.engine.plan.plan_parts import IncrementalNode, plan_inputs, plan_nodes
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.write_times import write_duration
from penstock.engine.sharing.facts import NOTHING, PlanFacts, QueryFacts, Waiting
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.statistics import (
    JoinEstimate,
    Rates,
    SideEstimate,
    estimate_join,
    measure_sides,
)
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.costs.write_rate import write_rate
from penstock.optimizer.hopping.assign_modes import Assigned
from penstock.optimizer.hopping.optimize_hopping import HoppingPlan
from penstock.optimizer.plan.choose_expiry import MIN_PAIRS, expiry_costs, measure_join
from penstock.optimizer.plan.choose_index import IndexChoice, choose_index
from penstock.optimizer.share.describe_layout import sides_of
from penstock.optimizer.tree.logical import Query

from .description import Description, measured_line
from .explain_changes import describe_incremental, mode_line
from .explain_hopping import explain_hopping
from .explain_many import ManyExplainer
from .explain_panes import describe_panes
from .explain_text import band_text, some_of, where_lines
from .explain_windows import describe_window

Take = Callable[[MemberNode, int, SharedJoin, Member], Description]
"""Describes what a query takes of a join it shares: its node and number, the join, its share."""


class Explainer:
    """Describes the plans of an engine; `analyze` adds what was measured."""

    def __init__(
        self,
        rates: Rates,
        weights: Weights,
        analyze: bool,
        take: Take,
        limited: bool,
    ) -> None:
        """limited: joins without windows were told to keep within memory."""
        self._rates = rates
        self._weights = weights
        self._analyze = analyze
        self._take = take
        self._limited = limited

    def query(
        self,
        query: Query,
        at_work: QueryFacts,
        exact_from: datetime.datetime | None,
        decided: HoppingPlan | None = None,
        shown: Mapping[str, Assigned] | None = None,
        expiry: str = "auto",
        forced: Mapping[str, str] | None = None,
        waiting: Waiting = NOTHING,
    ) -> Description:
        """A query and everything below it; exact_from: None if from the start, the latest time if not yet.

        shown: of a hopping query, the operators with what they have shown while running. expiry: as it is
        forced. forced: what this query forces and others do not.
        """
        numbers = itertools.count()
        facts = at_work.shown
        plan = self._node(facts.plan, facts, numbers, 0, at_work.name)
        names = [one.name for one in query.fields]
        if isinstance(facts.plan, SelectNode) and facts.plan.outputs:
            outputs = shown_outputs(facts.plan.outputs, names)
            plan.retitle(f"Select {shorten(outputs)}")
            plan.data["outputs"] = outputs
        hop = "" if query.hop is None else f"  HOP BY {write_duration(query.hop.size_us)}"
        top = Description(f"{at_work.name}{hop}  EMIT {query.emit.upper()}", below=[plan])
        top.data.update({"query": at_work.name, "emit": query.emit, "sql": query.sql, "columns": names})
        if any(isinstance(node, IncrementalNode) for node in plan_nodes(facts.plan)):
            self._expiry(top, facts, expiry == "auto")
        if forced:
            top.lines.append("forced: " + ", ".join(f"{name} {value}" for name, value in forced.items()))
            top.data["forced"] = dict(forced)
        if decided is not None:
            explain_hopping(top, decided, shown or {})
        if at_work.error is not None:
            top.lines.append(f"stopped: {at_work.error}")
            top.data["error"] = at_work.error
        if exact_from is not None:
            moment = exact_from.replace(tzinfo=None)
            known = None if moment == datetime.datetime.max else moment.isoformat(sep=" ")
            top.lines.append("not yet exact" if known is None else f"exact from {known}")
            top.data["exact_from"] = known
        if self._analyze:
            top.lines.append(f"measured: {at_work.count:,} results")
            top.data["results"] = at_work.count
            top.data["waiting"] = asdict(waiting)
            if waiting.stream is not None:
                top.lines.append(
                    f"waiting: {waiting.rows:,} rows, {waiting.bytes:,} bytes, "
                    f"until time has passed on `{waiting.stream}`"
                )
        return top

    def _expiry(self, top: Description, facts: PlanFacts, is_auto: bool) -> None:
        """How an incremental query hears of expiry, and what that costs by what its join has shown."""
        top.data["expiry"] = facts.approach
        top.lines.append(f"expiry {'auto: ' if is_auto else ''}{facts.approach}")
        load = measure_join(facts) if is_auto else None
        if load is not None and load.pairs >= MIN_PAIRS:
            costs = expiry_costs(load, self._weights)
            shown = ", ".join(f"{name} {cost:.3g} s" for name, cost in costs.items())
            top.lines[-1] += f" (so far {shown} by the cost model)"
            top.data["expiry_costs_s"] = costs

    def _part(self, node: PlanNode, part: PlanFacts, first: int, query: str) -> Description:
        """What a query reads that others may read too; first: the number of its root in the query's plan."""
        shown = self._node(node, part, itertools.count(), first, query)
        if part.others:
            shown.lines.append(f"run once, also for {some_of(part.others)}")
            shown.data["shared_with"] = list(part.others)
        return shown

    def _node(
        self, node: PlanNode, facts: PlanFacts, numbers: Iterator[int], first: int, query: str
    ) -> Description:
        number = next(numbers)
        if number in facts.parts:
            for _ in list(plan_nodes(node))[1:]:
                next(numbers)
            return self._part(node, facts.parts[number], first + number, query)
        match node:
            case SourceNode():
                shown = Description(f"Stream {node.stream}", data={"node": "Stream", "stream": node.stream})
                if not self._rates.is_known(node.stream):
                    shown.data["rate_assumed"] = True
                shown.data["rate"] = self._rates.of(node)
            case WindowNode():
                shown = Description(f"Window [{node.window}]", data={"node": "Window"})
                shown.data["window"] = str(node.window)
            case SelectNode():
                shown = Description("Select", data={"node": "Select"})
                if node.outputs:
                    shown.data["outputs"] = [str(output) for output in node.outputs]
                    shown.retitle(f"Select {shorten(shown.data['outputs'])}")
                if node.predicate is not None:
                    shown.lines.extend(where_lines(node.predicate))
                    shown.data["predicate"] = str(node.predicate)
            case UnionNode():
                shown = Description("UnionAll", data={"node": "UnionAll"})
                if node.label:
                    shown.lines.append(mode_line(node.label))
                    shown.data["operator"], shown.data["mode"] = node.label.rsplit(" ", 1)
            case TableNode():
                shown = Description(f"Table {node.table}", data={"node": "Table", "table": node.table})
            case MemberNode():
                return self._join(node, number, facts, numbers)
            case JoinNode() | ManyJoinNode():
                raise AssertionError("joins are run by groups")
            case HopAnswerNode():
                shown = Description(
                    "HopAnswer", ["the whole answer at every boundary"], data={"node": "HopAnswer"}
                )
            case PaneAggregateNode():
                title, lines, data = describe_panes(node, facts.panes[number])
                shown = Description(title, lines, data=data)
            case StoredWindowNode():
                title, lines, data = describe_window(node, facts.windows[number], query)
                shown = Description(title, lines, data=data)
            case OrderedJoinNode():
                from .explain_ordered import describe_ordered

                title, lines, data = describe_ordered(
                    node, facts.ordered[number], self._analyze, self._limited
                )
                shown = Description(title, lines, data=data)
            case FinalGroupNode():
                from .explain_ordered import describe_groups

                title, lines, data = describe_groups(node, facts.groups[number], self._analyze)
                shown = Description(title, lines, data=data)
            case _:
                title, lines, data = describe_incremental(node, facts.approach)
                shown = Description(title, lines, data=data)
        shown.data["id"] = first + number
        work = facts.work_at(number)
        if self._analyze and work is not None:
            if isinstance(node, IncrementalNode | OrderedJoinNode | FinalGroupNode | PaneAggregateNode):
                shown.lines.append(f"measured: state {work.state_rows:,} rows, {work.state_bytes:,} bytes")
            shown.lines.append(measured_line(work.rows_in, work.rows_out, work.busy_s))
            shown.data["measured"] = {
                "rows_in": work.rows_in,
                "rows_out": work.rows_out,
                "busy_s": work.busy_s,
            }
        shown.below.extend(self._node(part, facts, numbers, first, query) for part in plan_inputs(node))
        return shown

    def _join(self, member: MemberNode, number: int, facts: PlanFacts, numbers: Iterator[int]) -> Description:
        shared_join, share = facts.joins[number]
        shared = len(shared_join.members) > 1 or (
            bool(shared_join.members) and share not in shared_join.members
        )
        node = member.join
        if shared or isinstance(node, ManyJoinNode):
            for _ in plan_inputs(member):
                next(numbers)  # its streams
            if isinstance(node, ManyJoinNode):
                return ManyExplainer(self._rates, self._weights, self._analyze).take(
                    member, number, shared_join, share, shared
                )
            return self._take(member, number, shared_join, share)
        expected = estimate_join(node, self._rates)
        sides = sides_of(shared_join)
        sides_at_work = sides[::-1] if member.swapped else sides
        title = f"WindowJoin {condition_text(node)}"
        shown = Description(
            title, data={"node": "WindowJoin", "id": number, "condition": condition_text(node)}
        )
        choices = [
            choose_index(node.condition, expected.by_right, self._weights, sides_at_work[0].kept.index_kind),
            choose_index(node.condition, expected.by_left, self._weights, sides_at_work[1].kept.index_kind),
        ]
        cost = sum(choice.cost for choice in choices) + self._handling(expected)
        rows = expected.left.rows + expected.right.rows
        bounded = all(side.window.is_bounded for side in (node.left_side, node.right_side))
        shown.lines.append(
            f"cost {cost:.3g} cores, state {rows:,.0f} rows ({'bounded' if bounded else 'unbounded'}), "
            f"{write_rate(expected.pair_rate)} pairs/s"
        )
        shown.data.update(
            {
                "cost_cores": cost,
                "state_rows": rows,
                "state_bounded": bounded,
                "pairs_per_s": expected.pair_rate,
            }
        )
        if self._analyze:
            self._measure(shown, shared_join, sides_at_work, expected)
        described = zip(
            ("left", "right"),
            (node.left, node.right),
            (node.left_side, node.right_side),
            (expected.left, expected.right),
            choices,
            strict=True,
        )
        for name, source, side, estimate, choice in described:
            next(numbers)
            shown.below.append(side_description(name, source, side, estimate, choice, self._rates))
        return shown

    def _handling(self, estimate: JoinEstimate) -> float:
        """Cost that no choice of index changes: taking rows in and passing pairs on."""
        rows = estimate.left.rate + estimate.right.rate
        return rows * self._weights.row + estimate.pair_rate * self._weights.pair

    def _measure(
        self, shown: Description, shared_join: SharedJoin, sides: Sequence[Side], expected: JoinEstimate
    ) -> None:
        left, right = sides
        done = work_of_form(shared_join.form)
        shown.lines.append(measured_line(done.rows_in, done.rows_out, done.busy_s))
        shown.lines.append(
            f"measured: state {done.state_rows:,} rows, {done.state_bytes:,} bytes "
            f"(left {len(left):,}, right {len(right):,})"
        )
        seen = measure_sides(left, right, expected)
        shown.data["measured"] = {
            "rows_in": done.rows_in,
            "rows_out": done.rows_out,
            "busy_s": done.busy_s,
            "state_rows": done.state_rows,
            "state_bytes": done.state_bytes,
        }
        if seen.measured:
            assert isinstance(shared_join.common, CommonJoin), "a join of two streams"
            condition = shared_join.common.condition
            cost = (
                choose_index(condition, seen.by_right, self._weights, left.kept.index_kind).cost
                + choose_index(condition, seen.by_left, self._weights, right.kept.index_kind).cost
                + self._handling(seen)
            )
            used = done.busy_s / span_s(left, right)
            shown.lines.append(
                f"measured: {write_rate(seen.left.rate)} and {write_rate(seen.right.rate)} rows/s, "
                f"{write_rate(seen.pair_rate)} pairs/s; "
                f"at these the model says {cost:.3g} cores, used were {used:.3g}"
            )
            shown.data["measured"] |= {
                "left_rate": seen.left.rate,
                "right_rate": seen.right.rate,
                "selectivity": seen.selectivity,
                "cost_cores_model": cost,
                "cost_cores_used": used,
            }


def span_s(left: Side, right: Side) -> float:
    """Seconds of stream seen so far."""
    one, two = left.seen, right.seen
    return (max(one.last_ts, two.last_ts) - min(one.first_ts or 0, two.first_ts or 0)) / 1e6


def side_description(
    name: str, source: PlanNode, side: SideNode, estimate: SideEstimate, choice: IndexChoice, rates: Rates
) -> Description:
    """One side of a join: stream, window, filter, index."""
    assert isinstance(source, SourceNode), "a join's inputs are streams"
    is_known = rates.is_known(source.stream)
    shown = Description(f"{name}: {source.stream} [{side.window}]  index {choice.kind}")
    if side.predicate is not None:
        shown.lines.extend(where_lines(side.predicate))
    shown.lines.append(
        f"{write_rate(estimate.kept_rate)} rows/s{'' if is_known else ' (assumed)'}, "
        f"{estimate.rows:,.0f} rows in the window"
    )
    shown.lines.append(cost_line(choice))
    shown.data.update(
        {
            "node": "JoinSide",
            "side": name,
            "stream": source.stream,
            "window": str(side.window),
            "predicate": None if side.predicate is None else str(side.predicate),
            "keys": [str(key) for key in side.keys],
            "index": choice.kind,
            "cost_cores": choice.cost,
            "costs": choice.costs,
            "rate": estimate.rate,
            "rate_assumed": not is_known,
            "kept_rate": estimate.kept_rate,
            "window_rows": estimate.rows,
        }
    )
    return shown


def cost_line(choice: IndexChoice) -> str:
    """What an index costs, and what the others would."""
    others = ", ".join(f"{kind} {cost:.3g}" for kind, cost in choice.costs.items() if kind != choice.kind)
    return f"cost {choice.cost:.3g}{f' ({others})' if others else ''}"


def condition_text(node: JoinNode) -> str:
    """What the index serves, as the query writes it."""
    return keys_text(node.left_side.keys, node.right_side.keys, node.condition)


def keys_text(lefts: Sequence[Expression], rights: Sequence[Expression], band: Band | None) -> str:
    """A condition on keys."""
    if band is None:
        return "(every pair)"
    if band == EQUALITY:
        return " AND ".join(f"{a} = {b}" for a, b in zip(lefts, rights, strict=True))
    return band_text(str(lefts[0]), str(rights[0]), band, lefts[0].type)


def shown_outputs(outputs: tuple[Expression, ...], names: list[str]) -> list[str]:
    """Each output as SQL, with its name where that is not plain from it."""
    return [
        text if text.rsplit(".", 1)[-1] == name else f"{text} AS {name}"
        for text, name in zip(map(str, outputs), names, strict=True)
    ]


def shorten(parts: list[str], most: int = 12) -> str:
    shown = ", ".join(parts[:most])
    return shown if len(parts) <= most else f"{shown}, ... ({len(parts)} columns)"
