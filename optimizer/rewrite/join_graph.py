"""Joins that stand next to each other as one set of inputs: inner joins, and semi and anti joins among them.

A semi or anti join is an input too: one that gives no columns and can be applied as soon as what its
condition reads is joined. Where a condition could fail (difference_rules.py), semi and anti joins stay where
they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.engine.expressions.expression import (
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    move_columns,
)
from penstock.optimizer.tree.logical import Filter, Join, Node, Position

from .difference_rules import is_plain
from .flatten_input import flatten_input, substitute
from .order_joins import Cluster
from .simplify_condition import simplify_all


@dataclass(frozen=True, slots=True)
class Match:
    """How a semi or anti join's right input is matched: `conditions` over the columns of all inputs."""

    kind: Literal["semi", "anti"]
    conditions: tuple[Expression, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Inputs and conditions; `matches`: which of the inputs are right inputs of semi and anti joins."""

    cluster: Cluster
    matches: Mapping[int, Match] = field(default_factory=dict)

    @property
    def joined(self) -> list[int]:
        """Inputs whose rows are joined."""
        return [i for i in range(len(self.cluster.items)) if i not in self.matches]

    def needs(self, item: int) -> set[int]:
        """The inputs that must be joined before a semi or anti join can be applied."""
        owners = {self.cluster.owner(i) for part in self.matches[item].conditions for i in columns_of(part)}
        return owners - {item} or {self.joined[0]}


def read_graph(node: Node) -> JoinGraph | None:
    """The joins at the top of a tree, below filters and projections; None if there are none to order."""
    graph = collect(node, True)
    parts = [*graph.cluster.conditions, *(p for one in graph.matches.values() for p in one.conditions)]
    if graph.matches and not is_plain(parts):
        graph = collect(node, False)
    if len(graph.cluster.items) == 1:
        return None
    return place_conditions(graph)


def collect(node: Node, opened: bool) -> JoinGraph:
    """All joins below; opened: semi and anti joins too."""
    flat = flatten_input(node)
    base = flat.base
    inside = isinstance(base, Join) and (base.kind == "inner" or (opened and base.kind in ("semi", "anti")))
    if not (isinstance(base, Join) and inside):
        position = getattr(base, "position", Position(0, 0))
        return JoinGraph(Cluster((base,), flat.predicates, flat.outputs, position))
    left = collect(base.left, opened)
    whole = base.kind == "inner"
    right = collect(base.right, opened) if whole else closed(base.right)
    width, items = left.cluster.starts()[-1], len(left.cluster.items)

    def ahead(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i + width)

    def moved(match: Match) -> Match:
        return Match(match.kind, tuple(map(ahead, match.conditions)), match.position)

    columns = left.cluster.outputs + tuple(map(ahead, right.cluster.outputs))
    said = simplify_all(tuple(substitute(part, columns) for part in conjuncts(base.condition)))
    above = simplify_all(tuple(substitute(part, columns) for part in flat.predicates))
    conditions = left.cluster.conditions + tuple(map(ahead, right.cluster.conditions)) + above
    matches = dict(left.matches) | {i + items: moved(match) for i, match in right.matches.items()}
    if whole:
        conditions += said
    else:
        kind: Literal["semi", "anti"] = "semi" if base.kind == "semi" else "anti"
        matches[items] = Match(kind, said, base.position)
    outputs = tuple(substitute(one, columns) for one in flat.outputs)
    cluster = Cluster(left.cluster.items + right.cluster.items, conditions, outputs, base.position)
    return JoinGraph(cluster, matches)


def closed(node: Node) -> JoinGraph:
    """A node as an input, whatever it is."""
    own = tuple(Column(one.type, i, one.name) for i, one in enumerate(node.fields))
    return JoinGraph(Cluster((node,), (), own, Position(0, 0)))


def place_conditions(graph: JoinGraph) -> JoinGraph:
    """Conditions on one input become a filter of it."""
    whole = graph.cluster
    items, between = list(whole.items), []
    for part in dict.fromkeys(whole.conditions):
        owners = {whole.owner(i) for i in columns_of(part)}
        if len(owners) > 1:
            between.append(part)
        else:
            add_filter(items, whole, owners.pop() if owners else graph.joined[0], part)
    matches = dict(graph.matches)
    for item, match in graph.matches.items():
        own = set(whole.columns(item))
        kept = []
        for part in match.conditions:
            if columns_of(part) and columns_of(part) <= own:
                add_filter(items, whole, item, part)
            else:
                kept.append(part)
        matches[item] = Match(match.kind, tuple(kept), match.position)
    return JoinGraph(Cluster(tuple(items), tuple(between), whole.outputs, whole.position), matches)


def add_filter(items: list[Node], whole: Cluster, item: int, part: Expression) -> None:
    first = whole.starts()[item]
    predicate, node = move_columns(part, lambda i: i - first), items[item]
    if isinstance(node, Filter):
        both = conjunction((*conjuncts(node.predicate), predicate))
        assert both is not None, "a filter has a condition"
        items[item] = Filter(node.input, both)
    else:
        items[item] = Filter(node, predicate)
