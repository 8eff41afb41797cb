"""GROUP BY a column that grows, of a stream without a window or of a join on such columns.

One of the keys must be that column as it is; of an outer join, that of either side, or the first of both that
is there. It becomes the first key.

    SELECT minute, COUNT(*) FROM s GROUP BY minute, place      keys: minute, place; minute is ORDERED
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.expressions.expression import Call, Column, Expression, conjunction
from penstock.engine.plan.plan import (
    AggregateCallNode,
    FinalGroupNode,
    OrderedJoinNode,
    PlanNode,
    SelectNode,
    SourceNode,
)
from penstock.engine.plan.plan_parts import plan_types
from penstock.engine.rows.types import SqlType
from penstock.optimizer.bind.bind_aggregate import write_aggregate
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.tree.logical import Aggregate, Field, Node, Project, StreamScan

from .plan_streams import is_plain, plan_node, select

GROWING = (SqlType.BIGINT, SqlType.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Below:
    """What is grouped: rows of a node that satisfy the predicate, and what is read of them."""

    input: SourceNode | OrderedJoinNode
    predicate: Expression | None
    columns: tuple[Expression, ...]
    growing: int
    """The key that grows."""
    ordered: int | None


def below(base: Aggregate) -> Below | None:
    """What is grouped, if a key of it grows."""
    source = flatten_input(base.input).base
    is_stream = isinstance(source, StreamScan) and not source.windowed and bool(source.ordered)
    if not base.keys or not (is_stream or (not isinstance(source, StreamScan) and is_plain(base.input))):
        return None
    columns = (*base.keys, *arguments_of(base))
    fields = tuple(Field(str(column), column.type) for column in columns)
    made = plan_node(Project(base.input, columns, fields), False)
    predicate: Expression | None = None
    outputs: tuple[Expression, ...] = tuple(Column(one, i) for i, one in enumerate(plan_types(made)))
    if isinstance(made, SelectNode):
        predicate, outputs, made = made.predicate, made.outputs or outputs, made.input
    if not isinstance(made, SourceNode | OrderedJoinNode):
        return None
    for place, key in enumerate(outputs[: len(base.keys)]):
        if key.type not in GROWING:
            continue
        if isinstance(made, OrderedJoinNode) and not any(made.per) and is_key(key, made):
            return Below(made, predicate, outputs, place, None)
        if isinstance(source, StreamScan) and isinstance(key, Column) and grows(source, key.index):
            return Below(made, predicate, outputs, place, key.index)
    return None


def grows(scan: StreamScan, column: int) -> bool:
    """Whether a column of a stream grows as it is, and not for each value of others."""
    return column in scan.ordered and not scan.per_of(column)


def is_key(expression: Expression, join: OrderedJoinNode) -> bool:
    """Whether it is the key that grows, of either side of a join."""
    if isinstance(expression, Call) and expression.function == "coalesce":
        return all(is_key(one, join) for one in expression.arguments)
    given = [
        column == grows
        for side, grows in zip(join.sides, join.ordered, strict=True)
        for column in side.columns
    ]
    return isinstance(expression, Column) and given[expression.index]


def arguments_of(base: Aggregate) -> list[Expression]:
    return list(dict.fromkeys(call.argument for call in base.aggregates if call.argument is not None))


def is_final_group(base: Aggregate) -> bool:
    """Whether each group is complete at some time."""
    return below(base) is not None


def plan_final_group(node: Node, counting: bool) -> PlanNode:
    """The plan of such a GROUP BY under filters and projections."""
    flat = flatten_input(node)
    base = flat.base
    assert isinstance(base, Aggregate), "an aggregate"
    read = below(base)
    assert read is not None, "a key that grows"
    keys, arguments = len(base.keys), arguments_of(base)
    order = [read.growing, *(i for i in range(keys) if i != read.growing)]
    calls = tuple(
        AggregateCallNode(
            call.function,
            None if call.argument is None else keys + arguments.index(call.argument),
            call.distinct,
            call.type,
        )
        for call in base.aggregates
    )
    names = tuple(str(base.keys[i]) for i in order) + tuple(map(write_aggregate, base.aggregates))
    columns = (*(read.columns[i] for i in order), *read.columns[keys:])
    made = FinalGroupNode(read.input, read.predicate, columns, keys, calls, read.ordered, names)
    types = plan_types(made)
    places = [*(order.index(i) for i in range(keys)), *range(keys, len(types))]
    given = tuple(Column(types[at], at, names[at]) for at in places)
    predicates = tuple(substitute(one, given) for one in flat.predicates)
    outputs = () if counting else tuple(substitute(one, given) for one in flat.outputs)
    return select(made, conjunction(predicates), outputs)
