"""The cheapest plan of a hopping query: the order of its joins, where differences stand, and all modes.

    exhaustive    every order of joins, every place of each difference, semi and anti join (algorithm 2)
    heuristic     differences as deep as they go (section 6.3), but for one join that lets few rows through,
                  or where they are written if that is cheaper; then every order of joins and place of semi
                  and anti joins
    none          as written; the first inputs to be joined are those that an equality connects

Logical trees in, logical trees out. Whatever the plan, modes are assigned by cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from penstock.engine.expressions.expression import move_columns
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.plan.modes import (
    Forced,
    Form,
    Mode,
    fill_modes,
    forced_modes,
    known_mode,
    mode_of,
    operators_of,
    reads,
    writes,
)
from penstock.optimizer.plan.write_shape import write_shape
from penstock.optimizer.rewrite.difference_rules import factor_difference
from penstock.optimizer.rewrite.join_graph import JoinGraph, read_graph
from penstock.optimizer.rewrite.separate_joins import separate_joins
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Query,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
    nodes_of,
)

from .assign_modes import Assigned, Options, Pricer, assign_modes, cheapest, fixed_modes, options_of, through
from .estimate_flows import Estimates
from .hopping_cost import FORMS, Costs, HoppingCosts
from .order_hopping_joins import JoinOrder

Strategy = Literal["exhaustive", "heuristic", "none"]
WEAKER: dict[Strategy, tuple[Strategy, ...]] = {
    "exhaustive": ("heuristic", "none"),
    "heuristic": ("none",),
    "none": (),
}
ABOVE: dict[Strategy, int] = {"exhaustive": 1 << 30, "heuristic": 1, "none": 0}
MOST_INPUTS = 8  # of a query that is searched exhaustively
MOST_ORDERED = 10  # inputs of one join that are ordered by cost
MOST_SHOWN = 4  # other orders that EXPLAIN shows


def strategy_of(name: str) -> Strategy:
    """The strategy of this name, which was checked."""
    return next(one for one in WEAKER if one == name)


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """An operator as it runs, and what it would cost in every mode, for itself."""

    name: str
    mode: Mode
    costs: Costs


@dataclass(frozen=True, slots=True)
class HoppingPlan:
    """A query as it is to run, the mode of each operator, and what else there was to choose from."""

    query: Query
    chosen: Assigned
    modes: Mapping[int, Mode]
    strategy: Strategy
    note: str
    """Why it is not the strategy asked for; empty if it is."""
    others: tuple[tuple[str, float], ...]
    """Other plans and modes, with seconds per hop."""
    operators: tuple[OperatorCosts, ...]
    orders: tuple[tuple[str, float], ...] = ()
    """Other last steps of the topmost joins, with seconds per hop of the whole plan."""
    panes: bool = True
    """Whether aggregates may run by panes."""
    changes: int = 0
    """How often modes were assigned anew, by what was measured while it ran."""


class HoppingOptimizer:
    """Decides how hopping queries run, at the rates that are known and the costs of a machine."""

    def __init__(self, rates: Rates, weights: Weights, strategy: Strategy) -> None:
        self._rates = rates
        self._weights = weights
        self._strategy = strategy

    def __call__(self, query: Query, forced: Forced = "auto", panes: bool = True) -> HoppingPlan:
        """The plan of a query; a forced mode for all is kept to by the search, others by their operators.

        panes: whether aggregates may run by panes.
        """
        assert query.hop is not None, "a hopping query"
        only = None if not isinstance(forced, str) or forced == "auto" else reads(known_mode(forced))
        estimates = Estimates(self._rates, query.hop.size_us).as_written(query.root)
        pricer = Pricer(estimates, HoppingCosts(self._weights, only), panes)
        return optimize_hopping(query, pricer, self._strategy, forced)


def optimize_hopping(
    query: Query, pricer: Pricer, strategy: Strategy, forced: Forced = "auto"
) -> HoppingPlan:
    """The plan of a hopping query; `forced` modes are by names in the tree that comes out."""
    emitted: Form = "complete" if query.emit == "complete" else "delta"
    note = ""
    inputs = sum(isinstance(one, StreamScan | TableScan) for one in nodes_of(query.root))
    if strategy == "exhaustive" and inputs > MOST_INPUTS:
        strategy, note = "heuristic", f"exhaustive is for {MOST_INPUTS} inputs at most, here are {inputs}"
    search = Search(pricer, strategy)
    found = search.best(query.root)[emitted]
    chosen = assign_forced(apart(found.node), pricer, emitted, forced)
    others = []
    for name in WEAKER[strategy]:
        weaker = Search(pricer, name).best(query.root)[emitted]
        others.append(("as written" if name == "none" else "heuristic", weaker.cost))
    for form in FORMS if pricer.costs.only is None else ():
        others.append((f"all {form}", fixed_cost(chosen.node, pricer, form, emitted)))
    order = search.topmost(query.root)
    plan = write_shape(chosen.node)
    joins = topmost_joins(chosen)
    found_orders = [] if order is None else order.alternatives(written_by(joins))
    orders = [(write_shape(one.node), chosen.cost - joins.cost + cost) for cost, one in found_orders]
    orders = [(text, cost) for text, cost in orders if text not in plan]
    return HoppingPlan(
        replace(query, root=chosen.node),
        chosen,
        chosen.modes,
        strategy,
        note,
        tuple(others),
        operator_costs(chosen, pricer),
        tuple(orders[:MOST_SHOWN]),
        pricer.panes,
    )


def topmost_joins(plan: Assigned) -> Assigned:
    """The topmost operator with two inputs, or the window if there is none."""
    while len(plan.inputs) == 1:
        plan = plan.inputs[0]
    return plan


def written_by(plan: Assigned) -> Form:
    return "delta" if plan.mode is None else writes(plan.mode)


def operator_costs(chosen: Assigned, pricer: Pricer) -> tuple[OperatorCosts, ...]:
    """What each operator costs, by the names they have."""
    found: list[OperatorCosts] = []
    for one, named in zip(chosen.operators(), operators_of(chosen.node), strict=True):
        flows = [below.flow for below in one.inputs]
        costs = pricer.operator(one.node, flows, one.flow, is_top=not found)
        assert one.mode is not None, "an operator has a mode"
        found.append(OperatorCosts(named.name, one.mode, costs))
    return tuple(found)


def assign_forced(root: Node, pricer: Pricer, emitted: Form, forced: Forced) -> Assigned:
    """The cheapest modes among those that are allowed."""
    numbers = {} if isinstance(forced, str) else forced_modes(root, forced)
    if 0 in numbers:
        numbers[0] = mode_of(reads(numbers[0]), emitted)
    fill_modes(root, numbers, emitted)  # refuses what does not fit
    return assign_modes(root, pricer, emitted, numbers)


def apart(node: Node) -> Node:
    """The same tree, each node an object of its own: what is read twice is two operators."""
    match node:
        case StreamScan() | TableScan():
            return replace(node)
        case Join() | SetOperation():
            return replace(node, left=apart(node.left), right=apart(node.right))
        case UnionAll():
            return replace(node, inputs=tuple(map(apart, node.inputs)))
        case _:
            return replace(node, input=apart(node.input))


def fixed_cost(root: Node, pricer: Pricer, form: Form, written: Form) -> float:
    """What a plan costs if all its operators read and write one form, but for the conversion at the top."""
    modes = fixed_modes(root, form)
    if modes and len(modes) > 1:
        modes[0] = mode_of(form, written)
    return assign_modes(root, pricer, written, modes).cost


class Search:
    """Finds the cheapest plans by one strategy."""

    def __init__(self, pricer: Pricer, strategy: Strategy, above: int | None = None) -> None:
        """above: the most inputs above whose join a difference is pulled, if not as the strategy has it."""
        self._pricer = pricer
        self._strategy = strategy
        self._above = ABOVE[strategy] if above is None else above
        self._solved: dict[tuple[Node, bool, bool], Options] = {}
        self._orders: dict[Node, JoinOrder] = {}

    def best(self, root: Node) -> Options:
        """The cheapest plans of a query."""
        if self._strategy == "none":
            return options_of(separate_joins(root), self._pricer, itertools.count(), {}, is_top=True)
        return self.solve(root, False, is_top=True)

    def solve(self, node: Node, sets: bool, is_top: bool = False) -> Options:
        """The cheapest plans of a node, by form; sets: nobody above cares how often a row is there; is_top:
        nobody but the query's end is."""
        key = node, sets, is_top
        if key not in self._solved:
            self._solved[key] = self._find(*key)
        return self._solved[key]

    def topmost(self, node: Node) -> JoinOrder | None:
        """The search for the order of the topmost joins, if there is just one such place."""
        while node not in self._orders:
            below = inputs_of(node)
            if len(below) != 1:
                return None
            node = below[0]
        return self._orders[node]

    def _find(self, node: Node, sets: bool, is_top: bool) -> Options:
        joined = self._joined(node, sets, is_top)
        if joined is not None:
            return joined
        match node:
            case Filter() | Project():
                below = self.solve(node.input, sets, is_top)
                flow = next(iter(below.values())).flow
                return through(node, self._pricer, below, self._pricer.estimates.flow(node, [flow]))
            case SetOperation(kind="except"):
                factored = factor_difference(node, sets)
                if factored is None:
                    return self._operator(node, sets, is_top)
                pushed, stays = self.solve(factored, sets, is_top), self._operator(node, sets, is_top)
                return {f: min(stays[f], pushed[f], key=lambda plan: plan.cost) for f in stays}
            case _:
                return self._operator(node, sets, is_top)

    def _operator(self, node: Node, sets: bool, is_top: bool) -> Options:
        """A node that stays where it is, over the cheapest plans of its inputs."""
        inputs = [
            self.solve(part, below)
            for part, below in zip(inputs_of(node), sets_below(node, sets), strict=True)
        ]
        flows = [next(iter(options.values())).flow for options in inputs]
        out = self._pricer.estimates.flow(node, flows)
        if isinstance(node, TableScan):
            costs = self._pricer.costs.table(out.rows)
            return {form: Assigned(node, cost, cost, None, out) for form, cost in costs.items()}
        return cheapest(node, self._pricer.operator(node, flows, out, is_top), inputs, out)

    # Joins

    def _joined(self, node: Node, sets: bool, is_top: bool) -> Options | None:
        """The cheapest plans of the joins at the top of a node; None if there are none."""
        graph = read_graph(node)
        if graph is None:
            return None
        if len(graph.cluster.items) > MOST_ORDERED:
            return options_of(separate_joins(node), self._pricer, itertools.count(), {}, is_top)
        order = JoinOrder(graph, self._pricer, self.solve, self._above, sets, is_top)
        self._orders[node] = order
        found: dict[Form, Assigned] = {}
        for form in order.forms():
            found[form] = self._restored(node, graph, form, *order.plan(form))
        return found

    def _restored(
        self, node: Node, graph: JoinGraph, form: Form, plan: Assigned, columns: Sequence[int]
    ) -> Assigned:
        """The node's columns over a plan that gives all of the graph's, in another order."""
        places = {column: place for place, column in enumerate(columns)}
        outputs = tuple(move_columns(one, places.__getitem__) for one in graph.cluster.outputs)
        project = Project(plan.node, outputs, node.fields)
        return through(project, self._pricer, {form: plan}, plan.flow)[form]


def sets_below(node: Node, sets: bool) -> list[bool]:
    """For each input of a node, whether the node cares how often a row is there."""
    match node:
        case Distinct():
            return [True]
        case SetOperation():
            return [not node.all] * 2
        case Aggregate():
            return [all(call.distinct or call.function in ("min", "max") for call in node.aggregates)]
        case Join(kind="semi" | "anti"):
            return [sets, True]
        case Join() | UnionAll():
            return [sets] * len(inputs_of(node))
        case _:
            return [sets for _ in inputs_of(node)]
