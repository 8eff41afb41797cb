"""Inner joins that stand next to each other, as one set of inputs and conditions, and in which order to join.

Each input after the first is one that an equality connects to those before it, where there is one, in the
order in which they were written: no product of unrelated inputs is made on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.expressions.expression import (
    Call,
    Column,
    Expression,
    columns_of,
    conjuncts,
    move_columns,
)
from penstock.optimizer.tree.logical import Filter, Join, Node, Position

from .flatten_input import flatten_input, named, substitute
from .simplify_condition import simplify_all


@dataclass(frozen=True, slots=True)
class Cluster:
    """Inputs joined by `conditions`, giving `outputs`; both over the columns of all inputs in a row."""

    items: tuple[Node, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Expression, ...]
    position: Position

    def starts(self) -> list[int]:
        found = [0]
        for item in self.items:
            found.append(found[-1] + len(item.fields))
        return found

    def columns(self, item: int) -> range:
        """The cluster's columns that are an input's."""
        starts = self.starts()
        return range(starts[item], starts[item + 1])

    def owner(self, column: int) -> int:
        """The input a column is of."""
        starts = self.starts()
        return next(item for item in range(len(self.items)) if column < starts[item + 1])

    def local(self, columns: Sequence[int]) -> list[int]:
        """Columns of one input by their places in it."""
        starts = self.starts()
        return [column - starts[self.owner(column)] for column in columns]

    def column(self, index: int) -> Column:
        item = self.owner(index)
        field = self.items[item].fields[index - self.starts()[item]]
        return Column(field.type, index, named(field))


def collect_cluster(node: Node) -> Cluster:
    """All inner joins below filters and projections as one; conditions on one input are put into it."""
    position = next(p.position for p in bases(node) if isinstance(p, Join))
    return with_filters(gather(node, position))


def collect_pair(node: Node) -> Cluster:
    """The same for the topmost of them alone: its two inputs stay what they are."""
    flat = flatten_input(node)
    assert isinstance(flat.base, Join), "a join"
    parts = simplify_all(conjuncts(flat.base.condition) + flat.predicates)
    inputs = flat.base.left, flat.base.right
    return with_filters(Cluster(inputs, parts, flat.outputs, flat.base.position))


def with_filters(whole: Cluster) -> Cluster:
    """Conditions on one input are put into it."""
    items = list(whole.items)
    conditions = []
    for part in whole.conditions:
        owners = {whole.owner(i) for i in columns_of(part)}
        if len(owners) > 1:
            conditions.append(part)
            continue
        item = owners.pop() if owners else 0
        first = whole.starts()[item]
        items[item] = Filter(items[item], move_columns(part, lambda i, first=first: i - first))  # type: ignore[misc]
    return Cluster(tuple(items), tuple(dict.fromkeys(conditions)), whole.outputs, whole.position)


def bases(node: Node) -> Iterator[Node]:
    yield flatten_input(node).base


def gather(node: Node, position: Position) -> Cluster:
    flat = flatten_input(node)
    if not (isinstance(flat.base, Join) and flat.base.kind == "inner"):
        own = tuple(Column(field.type, i, named(field)) for i, field in enumerate(node.fields))
        return Cluster((node,), (), own, position)
    left, right = gather(flat.base.left, position), gather(flat.base.right, position)
    width = left.starts()[-1]

    def ahead(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i + width)

    columns = left.outputs + tuple(map(ahead, right.outputs))
    said = conjuncts(flat.base.condition) + flat.predicates
    parts = simplify_all(tuple(substitute(whole, columns) for whole in said))
    conditions = left.conditions + tuple(map(ahead, right.conditions)) + parts
    outputs = tuple(substitute(one, columns) for one in flat.outputs)
    return Cluster(left.items + right.items, conditions, outputs, position)


def order_joins(cluster: Cluster) -> list[int]:
    """The inputs in the order to join them."""
    edges = [
        {cluster.owner(i) for i in columns_of(part)}
        for part in cluster.conditions
        if isinstance(part, Call) and part.function == "equal"
    ]
    order, left = [0], list(range(1, len(cluster.items)))
    while left:
        known = set(order)
        connected = [item for item in left if any(item in edge and edge & known for edge in edges)]
        order.append(connected[0] if connected else left[0])
        left.remove(order[-1])
    return order
