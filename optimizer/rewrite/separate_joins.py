"""Inner joins one by one: a tree in which every join has its own two inputs and the conditions it can check.

In the order of order_joins.py, from left to right. Each node of the tree is an object of its own, so that
operators can be told apart.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.expressions.expression import Expression, columns_of, conjunction
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
)

from .flatten_input import flatten_input
from .order_joins import collect_cluster, order_joins
from .prune_columns import moved, moved_all


def separate_joins(node: Node) -> Node:
    """The same with inner joins as binary ones, conditions as low as they can be."""
    base = flatten_input(node).base
    if isinstance(base, Join) and base.kind == "inner":
        return separate_cluster(node)
    match node:
        case StreamScan() | TableScan():
            return replace(node)
        case Join() | SetOperation():
            return replace(node, left=separate_joins(node.left), right=separate_joins(node.right))
        case UnionAll():
            return replace(node, inputs=tuple(map(separate_joins, node.inputs)))
        case Filter() | Project() | Distinct() | Aggregate():
            return replace(node, input=separate_joins(node.input))


def separate_cluster(node: Node) -> Node:
    """Inner joins that stand next to each other, with filters and projections between and above them."""
    cluster = collect_cluster(node)
    items = [separate_joins(item) for item in cluster.items]
    wanted: tuple[Expression, ...] = cluster.conditions
    tree: Node | None = None
    have: list[int] = []
    for item in order_joins(cluster):
        have += cluster.columns(item)
        if tree is None:
            tree = items[item]
            continue
        places = {column: place for place, column in enumerate(have)}
        now = tuple(part for part in wanted if columns_of(part) <= places.keys())
        wanted = tuple(part for part in wanted if part not in now)
        tree = Join("inner", tree, items[item], moved(conjunction(now), places), cluster.position)
    assert tree is not None and not wanted, "a join has inputs, and every condition a place"
    places = {column: place for place, column in enumerate(have)}
    return Project(tree, moved_all(cluster.outputs, places), node.fields)
