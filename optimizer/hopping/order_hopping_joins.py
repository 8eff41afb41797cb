"""In which order to join, by dynamic programming over sets of inputs: algorithm 3 of the thesis, with modes.

For every set of inputs, the cheapest plan that writes deltas and the cheapest that writes whole answers. What
a set gives is the same whichever way it was joined, so that nothing else of its plan matters above it. Three
ways lead to a set: two smaller ones are joined; a semi or anti join is applied to one; or a difference among
the inputs is pulled above their join (difference_rules.py), which is algorithm 2.

Sets are bits of an integer, one for each input; that of a semi or anti join's input says that it was applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.engine.expressions.expression import Call, Expression, columns_of, conjunction, move_columns
from penstock.optimizer.plan.modes import Form, Mode, reads, writes
from penstock.optimizer.rewrite.difference_rules import difference_of, join_items, pull_difference
from penstock.optimizer.rewrite.join_graph import JoinGraph
from penstock.optimizer.tree.logical import Join, Node, SetOperation

from .assign_modes import Assigned, Options, Pricer
from .estimate_flows import Origin, origin_of
from .hopping_cost import FORMS, Costs, Flow, together, touched

Solve = Callable[[Node, bool], Options]
"""The cheapest plans of a node; whether nobody above cares how often a row is there."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Two sets are joined."""

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Matched:
    """A semi or anti join is applied to a set."""

    rest: int
    item: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A difference stands above the join of what it subtracts with the other inputs."""

    node: SetOperation
    inputs: tuple[Options, Options]
    columns: tuple[int, ...]


Way = Joined | Matched | Pulled


@dataclass(frozen=True, slots=True)
class Step:
    """The last step to a set, and what all steps cost together."""

    way: Way
    mode: Mode
    cost: float
    own: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition between inputs: which it reads, the share of pairs, and both sides of an equality."""

    part: Expression
    mask: int
    share: float
    sides: tuple[int, int] | None


class JoinOrder:
    """Finds the cheapest order of one graph."""

    def __init__(
        self, graph: JoinGraph, pricer: Pricer, solve: Solve, above: int, sets: bool, is_top: bool
    ) -> None:
        """above: the most other inputs above whose join a difference is pulled; is_top: nothing is above."""
        self._graph = graph
        self._cluster = graph.cluster
        self._pricer = pricer
        self._solve = solve
        self._above = above
        self._sets = sets
        self._is_top = is_top
        items = graph.cluster.items
        self._items = [solve(item, sets if i not in graph.matches else True) for i, item in enumerate(items)]
        self._flows = [next(iter(options.values())).flow for options in self._items]
        self._inner = sum(1 << i for i in graph.joined)
        self._needs = {i: sum(1 << one for one in graph.needs(i)) for i in graph.matches}
        self._conditions = [self._condition(part) for part in graph.cluster.conditions]
        self._met = {i: self._match_share(i) for i in graph.matches}
        self._known: dict[int, Flow] = {}
        self._steps: dict[int, dict[Form, Step]] = {}

    @property
    def everything(self) -> int:
        return (1 << len(self._items)) - 1

    def plan(self, form: Form) -> tuple[Assigned, tuple[int, ...]]:
        """The cheapest plan of all inputs, and which of the graph's columns it gives."""
        return self._build(self.everything, form)

    def forms(self) -> list[Form]:
        return [form for form in FORMS if form in self._best(self.everything)]

    def alternatives(self, form: Form) -> list[tuple[float, Assigned]]:
        """The cheapest plan that writes this form for each last step there is, the best first."""
        found: list[Step] = []
        for way, costs, inputs in self._ways(self.everything):
            steps = [step for step in self._priced(way, costs, inputs) if writes(step.mode) == form]
            found += sorted(steps, key=lambda step: step.cost)[:1]
        found.sort(key=lambda step: step.cost)
        return [(step.cost, self._assemble(self.everything, step)[0]) for step in found]

    # What is known of sets

    def flow(self, mask: int) -> Flow:
        """What a set gives, whichever way it is joined."""
        if mask not in self._known:
            inner = [i for i in bits(mask) if i not in self._graph.matches]
            if mask == 1 << inner[0]:
                return self._flows[inner[0]]
            rows = math.prod(self._flows[i].rows for i in inner)
            rows *= math.prod(one.share for one in self._conditions if one.mask & mask == one.mask)
            parts = together(*(self._flows[i].parts for i in inner))
            for i, match in self._graph.matches.items():
                if mask >> i & 1:
                    estimates, right = self._pricer.estimates, self._flows[i]
                    rows *= estimates.left_by(match.position)
                    hanging = estimates.hanging(match.position, self._met[i] * right.rows)
                    parts = together(parts, touched(right.parts, hanging))
            is_mixed = len(inner) > 1 or self._flows[inner[0]].is_mixed
            self._known[mask] = Flow(rows, parts, is_mixed=is_mixed)
        return self._known[mask]

    def _origin(self, column: int) -> Origin | None:
        item = self._cluster.owner(column)
        return origin_of(self._cluster.items[item], self._cluster.local([column])[0])

    def _mask(self, expression: Expression) -> int:
        return sum({1 << self._cluster.owner(i) for i in columns_of(expression)})

    def _condition(self, part: Expression) -> Condition:
        share = self._pricer.estimates.share(part, self._origin)
        sides = None
        if isinstance(part, Call) and part.function == "equal":
            one, two = map(self._mask, part.arguments)
            sides = (one, two) if one and two and not one & two else None
        return Condition(part, self._mask(part), share, sides)

    def _match_share(self, item: int) -> float:
        """Of all pairs of a semi or anti join, those whose keys are equal."""
        found = [self._condition(part) for part in self._graph.matches[item].conditions]
        return math.prod(one.share for one in found if one.sides is not None and 1 << item in one.sides)

    # The search

    def _best(self, mask: int) -> dict[Form, Step]:
        """The cheapest last step to a set of two inputs or more, for each form."""
        if mask not in self._steps:
            found: dict[Form, Step] = {}
            for way, costs, inputs in self._ways(mask):
                for step in self._priced(way, costs, inputs):
                    form = writes(step.mode)
                    if form not in found or step.cost < found[form].cost:
                        found[form] = step
            self._steps[mask] = found
        return self._steps[mask]

    def _priced(self, way: Way, costs: Costs, inputs: Sequence[dict[Form, float]]) -> Iterator[Step]:
        for mode, own in costs.items():
            read = reads(mode)
            if all(read in one for one in inputs):
                yield Step(way, mode, own + sum(one[read] for one in inputs), own)

    def _costs(self, mask: int) -> dict[Form, float]:
        """What the cheapest plans of a set cost."""
        if mask & (mask - 1) == 0:
            return {form: plan.cost for form, plan in self._items[mask.bit_length() - 1].items()}
        return {form: step.cost for form, step in self._best(mask).items()}

    def _ways(self, mask: int) -> Iterator[tuple[Way, Costs, Sequence[dict[Form, float]]]]:
        """Every last step to a set: what it costs, and what its inputs do."""
        out = self.flow(mask)
        is_last = self._is_top and mask == self.everything

        def priced(costs: Costs, ends: bool) -> Costs:
            return self._pricer.costs.emitted(costs, out, ends) if is_last else costs

        for item in self._graph.matches:
            rest = mask & ~(1 << item)
            if mask >> item & 1 and self._needs[item] & rest == self._needs[item]:
                left, right = self.flow(rest), self._flows[item]
                met = self._met[item] * left.rows * right.rows
                inputs = self._costs(rest), self._costs(1 << item)
                costs = self._pricer.costs.match(left, right, met, out)
                yield Matched(rest, item), priced(costs, False), inputs
        for one, two in self._splits(mask):
            left, right = self.flow(one), self.flow(two)
            costs = self._pricer.costs.join(left, right, self._keys(one, two) * left.rows * right.rows, out)
            yield Joined(one, two), priced(costs, True), (self._costs(one), self._costs(two))
        if 2 <= (mask & self._inner).bit_count() <= self._above + 1:
            for pulled in self._pulled(mask):
                below = [{form: plan.cost for form, plan in one.items()} for one in pulled.inputs]
                flows = [next(iter(one.values())).flow for one in pulled.inputs]
                yield pulled, priced(self._pricer.costs.tally(flows, out), False), below

    def _splits(self, mask: int) -> Iterator[tuple[int, int]]:
        """A set as two that can be joined, each pair once."""
        lowest = (mask & self._inner) & -(mask & self._inner)
        one = (mask - 1) & mask
        while one:
            two = mask & ~one
            if one & lowest and two & self._inner and self._is_whole(one) and self._is_whole(two):
                yield one, two
            one = (one - 1) & mask

    def _is_whole(self, mask: int) -> bool:
        """Whether the semi and anti joins of a set can be applied in it."""
        return all(needs & mask == needs for item, needs in self._needs.items() if mask >> item & 1)

    def _keys(self, one: int, two: int) -> float:
        """Of all pairs of two sets, those with equal keys."""
        share = 1.0
        for condition in self._conditions:
            if condition.sides is not None:
                a, b = condition.sides
                if (a & one == a and b & two == b) or (a & two == a and b & one == b):
                    share *= condition.share
        return share

    @cached_property
    def _differences(self) -> list[int]:
        return [i for i in self._graph.joined if difference_of(self._cluster.items[i]) is not None]

    def _pulled(self, mask: int) -> Iterator[Pulled]:
        """Every difference of a set above its join with all others in it."""
        for item in self._differences:
            others = mask & ~(1 << item)
            if not (mask >> item & 1 and others & self._inner):
                continue
            if any(mask >> i & 1 and self._needs[i] >> item & 1 for i in self._graph.matches):
                continue
            rest, columns = self._plain(others)
            own = [*self._cluster.columns(item)]
            join = Join(
                "inner",
                self._cluster.items[item],
                rest,
                self._between(1 << item, others, [*own, *columns]),
                self._cluster.position,
            )
            found = pull_difference(join, self._sets)
            if found is not None:
                inputs = self._solve(found.left, not found.all), self._solve(found.right, not found.all)
                yield Pulled(found, inputs, (*own, *columns))

    def _plain(self, mask: int) -> tuple[Node, list[int]]:
        """A set joined in the order it is written, to be ordered with something else."""
        inner = [i for i in bits(mask) if i not in self._graph.matches]
        node, columns = join_items(self._cluster, inner)
        for item in bits(mask & ~self._inner):
            node = self._match_node(item, node, self._cluster.items[item], columns)
        return node, columns

    # The result

    def _build(self, mask: int, form: Form) -> tuple[Assigned, tuple[int, ...]]:
        """The cheapest plan of a set, and its columns."""
        if mask & (mask - 1) == 0:
            item = mask.bit_length() - 1
            return self._items[item][form], tuple(self._cluster.columns(item))
        return self._assemble(mask, self._best(mask)[form])

    def _assemble(self, mask: int, step: Step) -> tuple[Assigned, tuple[int, ...]]:
        read, out = reads(step.mode), self.flow(mask)
        match step.way:
            case Joined(one, two):
                left, lefts = self._build(one, read)
                right, rights = self._build(two, read)
                columns = (*lefts, *rights)
                condition = self._between(one, two, columns)
                node: Node = Join("inner", left.node, right.node, condition, self._cluster.position)
                below = left, right
            case Matched(rest, item):
                left, columns = self._build(rest, read)
                right = self._items[item][read]
                node = self._match_node(item, left.node, right.node, columns)
                below = left, right
            case Pulled(found, inputs, columns):
                below = inputs[0][read], inputs[1][read]
                node = SetOperation("except", found.all, below[0].node, below[1].node, found.position)
        return Assigned(node, step.cost, step.own, step.mode, out, below), columns

    def _between(self, one: int, two: int, columns: Sequence[int]) -> Expression | None:
        """What two sets are joined on, over these columns."""
        places = {column: place for place, column in enumerate(columns)}
        both = one | two
        now = [
            move_columns(each.part, places.__getitem__)
            for each in self._conditions
            if each.mask & both == each.mask and each.mask & one and each.mask & two
        ]
        return conjunction(tuple(now))

    def _match_node(self, item: int, left: Node, right: Node, columns: Sequence[int]) -> Join:
        match = self._graph.matches[item]
        places = {c: place for place, c in enumerate([*columns, *self._cluster.columns(item)])}
        condition = conjunction(tuple(move_columns(p, places.__getitem__) for p in match.conditions))
        return Join(match.kind, left, right, condition, match.position)


def bits(mask: int) -> list[int]:
    """The numbers of a mask's bits."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
