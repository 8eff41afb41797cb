"""Inner joins of streams without windows, on columns that grow: one join in one step, of any number of them.

One variable of the join, which equalities connect over however many of them, must have a column that is
declared ORDERED on every stream. What it does not say is a further key, or is checked on the rows that are
found. Sides are in the order of their streams' names: whoever names them in another order has the same join.

    a.k = b.k AND b.k = c.k AND a.j = b.j AND a.v > c.v
    ordered: k of a, b and c      key: j of a and b      checked: a.v > c.v
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.expressions.expression import Column, Expression, conjunction
from penstock.engine.plan.plan import OrderedJoinNode, PlanNode, SideNode
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.order_joins import Cluster
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.tree.logical import Node, StreamScan

from .plan_many import (
    MOST_SIDES,
    Term,
    classes_of,
    columns_of_all,
    conditions_of,
    equated,
    owner_of,
    pair_of,
    place,
    starts_of,
    variables_of,
)
from .plan_streams import SideInput, filter_of, select, side_input

Keys = dict[int, Expression]
"""What is equal on some streams: an expression of each."""


def is_ordered(cluster: Cluster) -> bool:
    """Whether columns that grow bound what a join without windows keeps."""
    if not 2 <= len(cluster.items) <= MOST_SIDES or not all(map(is_unbounded, cluster.items)):
        return False
    sides = list(map(side_input, cluster.items))
    return ordered_keys(equated(conditions_of(cluster, sides), sides), sides) is not None


def is_unbounded(node: Node) -> bool:
    """Whether it is a stream without a window that has a column that grows."""
    base = flatten_input(node).base
    return isinstance(base, StreamScan) and not base.windowed and bool(base.ordered)


def ordered_keys(pairs: Sequence[tuple[Term, Term]], sides: Sequence[SideInput]) -> Keys | None:
    """Of each stream, its column that grows, all of them equal; None if there is no such variable."""
    for one in classes_of(pairs):
        keys: Keys = {}
        for number, side in enumerate(sides):
            columns = [term for owner, term in one if owner == number and isinstance(term, Column)]
            growing = [column for column in columns if column.index in side.base.ordered]
            if growing:
                keys[number] = min(growing, key=lambda column: column.index)
        if len(keys) == len(sides):
            return keys
    return None


def plan_ordered(cluster: Cluster, outputs: tuple[Expression, ...], evict: str) -> PlanNode:
    """The join of a cluster that columns bound."""
    sides = list(map(side_input, cluster.items))
    starts = starts_of(sides)
    columns = columns_of_all(sides)
    outputs = tuple(substitute(output, columns) for output in outputs)
    # 1. on one stream, by keys, on what is found
    parts = conditions_of(cluster, sides)
    predicates, between = place(parts, sides)
    pairs = equated(parts, sides)
    ordered = ordered_keys(pairs, sides)
    assert ordered is not None, "a join that columns bound"
    variables = [
        ordered,
        *(one for one in variables_of(pairs) if not set(one.items()) & set(ordered.items())),
    ]
    served = {(side, expression) for variable in variables for side, expression in variable.items()}
    rest = tuple(part for part in between if not ((pair := pair_of(part, sides)) and set(pair) <= served))
    # 2. what is read
    used = columns_in(*outputs, *rest)
    order = sorted(range(len(sides)), key=lambda number: sides[number].base.stream)
    nodes = []
    for number in order:
        own = tuple(variable[number] for variable in variables if number in variable)
        kept = tuple(i - starts[number] for i in used if owner_of(i, starts) == number)
        nodes.append(SideNode(sides[number].window, filter_of(predicates[number]), own, kept))
    growing = [ordered[number] for number in order]
    node = OrderedJoinNode(
        tuple(sides[number].source for number in order),
        tuple(nodes),
        tuple(tuple(n for n, variable in enumerate(variables) if number in variable) for number in order),
        tuple(column.index for column in growing if isinstance(column, Column)),
        "fifo" if evict == "fifo" else "key",
    )
    given = [column for number in order for column in used if owner_of(column, starts) == number]
    places = {column: place for place, column in enumerate(given)}
    if not outputs and not rest:
        return node
    chosen = outputs or ()
    return select(node, moved(conjunction(rest), places), moved_all(chosen, places))
