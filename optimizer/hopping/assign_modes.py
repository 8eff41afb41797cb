"""A mode for every operator of a plan, so that the whole costs least.

As in chapter 6 of the thesis: from the bottom up, each node has its cheapest plan that writes deltas and its
cheapest that writes whole answers. What is above needs to know no more of it (theorem 1), so that every
operator is looked at once. The root writes what the query emits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.engine.rows.hops import Hops
from penstock.optimizer.plan.modes import OPERATORS, Form, Mode, Modes, mode_of, reads, writes
from penstock.optimizer.plan.plan_panes import plan_panes
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
)

from .estimate_flows import Estimates
from .hopping_cost import FORMS, Costs, Flow, HoppingCosts


@dataclass(frozen=True, slots=True)
class Assigned:
    """A plan in which every operator has its mode; None: it has none (filters, projections, tables)."""

    node: Node
    cost: float
    """Seconds per hop, with all that is below."""
    own: float
    mode: Mode | None
    flow: Flow
    inputs: tuple[Assigned, ...] = ()

    def operators(self) -> Iterator[Assigned]:
        """Those with modes, in the order of their numbers."""
        if self.mode is not None:
            yield self
        for part in self.inputs:
            yield from part.operators()

    @property
    def modes(self) -> dict[int, Mode]:
        return {number: one.mode for number, one in enumerate(self.operators()) if one.mode is not None}


Options = Mapping[Form, Assigned]
"""The cheapest plan for each form of output; a form that cannot be had is not there."""


class Pricer:
    """Prices plans by estimates of rows and the formulas of hopping_cost.py."""

    def __init__(self, estimates: Estimates, costs: HoppingCosts, panes: bool = True) -> None:
        """panes: whether aggregates may run by panes."""
        self.estimates = estimates
        self.costs = costs
        self.panes = panes

    def flow(self, node: Node) -> Flow:
        """What a node gives."""
        return self.estimates.flow(node, [self.flow(part) for part in inputs_of(node)])

    def operator(self, node: Node, inputs: Sequence[Flow], out: Flow, is_top: bool = False) -> Costs:
        """What one operator costs in each mode; the topmost one, with the query's end behind it."""
        if not is_top:
            return self._operator(node, inputs, out)
        ends = isinstance(node, StreamScan | UnionAll) or (isinstance(node, Join) and node.kind == "inner")
        is_net = isinstance(node, Aggregate) and "delta" in self._pane_forms(node)
        return self.costs.emitted(self._operator(node, inputs, out), out, ends, is_net)

    def _operator(self, node: Node, inputs: Sequence[Flow], out: Flow) -> Costs:
        costs = self.costs
        match node:
            case StreamScan():
                return costs.window(out)
            case Join(kind="inner"):
                shares = self.estimates.condition(node)
                return costs.join(inputs[0], inputs[1], out.rows * shares.keys / shares.pairs, out)
            case Join():
                met = self.estimates.condition(node).keys * inputs[0].rows * inputs[1].rows
                return costs.match(inputs[0], inputs[1], met, out, node.kind not in ("semi", "anti"))
            case SetOperation() | Distinct():
                return costs.tally(inputs, out)
            case UnionAll():
                return costs.union(out)
            case Aggregate():
                forms = self._pane_forms(node)
                return costs.panes(inputs[0], out, forms) if forms else costs.group(inputs[0], out)
            case _:
                raise AssertionError(f"{type(node).__name__} has no modes")

    def _pane_forms(self, node: Aggregate) -> list[Form]:
        """What an aggregate can write by panes."""
        if not self.panes:
            return []
        hops = Hops(self.estimates.hop_us)
        return [form for form in FORMS if plan_panes(node, hops, form) is not None]


def assign_modes(root: Node, pricer: Pricer, written: Form, forced: Modes | None = None) -> Assigned:
    """The cheapest assignment for a plan that writes this form; `forced` modes stay as they are."""
    options = options_of(root, pricer, itertools.count(), forced or {}, is_top=True)
    return options[written] if written in options else next(iter(options.values()))


def options_of(
    node: Node, pricer: Pricer, numbers: Iterator[int], forced: Modes, is_top: bool = False
) -> Options:
    """The cheapest plans of a fixed tree, one for each form it can write; is_top: nothing is above it."""
    number = next(numbers) if isinstance(node, OPERATORS) else None
    below = is_top and isinstance(node, Filter | Project)
    inputs = [options_of(part, pricer, numbers, forced, below) for part in inputs_of(node)]
    flows = [next(iter(options.values())).flow for options in inputs]
    out = pricer.estimates.flow(node, flows)
    match node:
        case TableScan():
            return {f: Assigned(node, c, c, None, out) for f, c in pricer.costs.table(out.rows).items()}
        case Filter() | Project():
            return through(node, pricer, inputs[0], out)
    costs = pricer.operator(node, flows, out, is_top)
    wanted = None if number is None else forced.get(number)
    if wanted is not None:
        costs = {mode: cost for mode, cost in costs.items() if is_forced(node, mode, wanted)}
    return cheapest(node, costs, inputs, out)


def is_forced(node: Node, mode: Mode, wanted: Mode) -> bool:
    """Whether a mode is the one that is asked for; of a window only what it writes counts."""
    return writes(mode) == writes(wanted) if isinstance(node, StreamScan) else mode == wanted


def through(node: Filter | Project, pricer: Pricer, below: Options, out: Flow) -> Options:
    """A filter or a projection over each of the plans below it."""
    found: dict[Form, Assigned] = {}
    for form, plan in below.items():
        own = pricer.costs.select(plan.flow, form)
        found[form] = Assigned(replace(node, input=plan.node), plan.cost + own, own, None, out, (plan,))
    return found


def cheapest(node: Node, costs: Costs, inputs: Sequence[Options], out: Flow) -> Options:
    """An operator over the cheapest plans of its inputs, for each form that it can write."""
    found: dict[Form, Assigned] = {}
    for mode, own in costs.items():
        read, form = reads(mode), writes(mode)
        if any(read not in options for options in inputs):
            continue
        below = tuple(options[read] for options in inputs)
        cost = own + sum(plan.cost for plan in below)
        if form not in found or cost < found[form].cost:
            found[form] = Assigned(with_inputs(node, below), cost, own, mode, out, below)
    return found


def with_inputs(node: Node, plans: Sequence[Assigned]) -> Node:
    """The node over other plans of its inputs."""
    match node:
        case Join() | SetOperation():
            return replace(node, left=plans[0].node, right=plans[1].node)
        case UnionAll():
            return replace(node, inputs=tuple(plan.node for plan in plans))
        case Distinct() | Aggregate():
            return replace(node, input=plans[0].node)
        case _:
            return node


def fixed_modes(root: Node, form: Form) -> dict[int, Mode]:
    """Every operator in one form, as `all delta` and `all complete` have it."""
    mode = mode_of(form, form)
    count = 0

    def visit(node: Node) -> dict[int, Mode]:
        nonlocal count
        found: dict[int, Mode] = {}
        if isinstance(node, OPERATORS):
            found[count] = mode if not isinstance(node, StreamScan) else mode_of("delta", form)
            count += 1
        for part in inputs_of(node):
            found |= visit(part)
        return found

    return visit(root)
