"""Which columns of its streams and tables a query reads: those its answer depends on.

A column that is only handed on, `SELECT x FROM (SELECT * FROM s)`, is not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from penstock.engine.expressions.expression import Expression, columns_of

from .logical import (
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
)

Read = set[tuple[str, str]]
"""Relations and columns."""


def columns_read(query: Query) -> Read:
    """The columns by the names they were declared with; the time columns of streams are among them."""
    found: Read = set()
    look(query.root, set(range(len(query.root.fields))), found)
    return found


def look(node: Node, wanted: set[int], found: Read) -> None:
    """Note what is read below, if these of the node's columns are wanted."""
    match node:
        case StreamScan():
            found |= {(node.stream, node.fields[at].name) for at in {*wanted, node.time_column}}
        case TableScan():
            found |= {(node.table, node.fields[at].name) for at in wanted}
        case Filter():
            look(node.input, wanted | columns_of(node.predicate), found)
        case Project():
            look(node.input, columns_in(node.expressions[at] for at in wanted), found)
        case Join():
            wanted = wanted | (set() if node.condition is None else columns_of(node.condition))
            width = len(node.left.fields)
            look(node.left, {at for at in wanted if at < width}, found)
            look(node.right, {at - width for at in wanted if at >= width}, found)
        case UnionAll():
            for part in node.inputs:
                look(part, wanted, found)
        case SetOperation():  # rows are compared by all columns
            for part in (node.left, node.right):
                look(part, set(range(len(part.fields))), found)
        case Distinct():
            look(node.input, set(range(len(node.input.fields))), found)
        case Aggregate():
            arguments = (one.argument for one in node.aggregates if one.argument is not None)
            look(node.input, columns_in([*node.keys, *arguments]), found)
        case _:
            assert_never(node)  # a node nobody thought of here would seem to read nothing


def columns_in(expressions: Iterable[Expression]) -> set[int]:
    return set().union(*map(columns_of, expressions))
