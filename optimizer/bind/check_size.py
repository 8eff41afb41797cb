"""How large a query is when everything in it is written out; too large is refused before it is planned.

A WITH query stands wherever it is named, and a column of a sub-query is what computes it. So a short text can
double again and again:

    WITH a AS (SELECT v + v AS v FROM s), b AS (SELECT v + v AS v FROM a), ...      v is 2, 4, 8, ... times v
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.expressions.expression import Call, Column, Expression
from penstock.engine.rows.errors import UnsupportedError
from penstock.optimizer.read.lift import MAX_JOINS
from penstock.optimizer.read.source import fail
from penstock.optimizer.tree.logical import Aggregate, Filter, Join, Node, Position, Project, inputs_of

from .bind_context import MAX_NODES
from .bind_expression import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Size:
    """How many parts an expression has, and how deep it is."""

    parts: int
    depth: int


ONE = Size(1, 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """A node written out: its columns, all expressions in it and below it, and the joins."""

    columns: list[Size]
    parts: int
    joins: int


def check_size(root: Node, position: Position) -> None:
    """Refuses a query that becomes too large."""
    measured = _measure(root, position, {})
    if measured.joins > MAX_JOINS:
        message = (
            f"Expected at most {MAX_JOINS} joins in one query, found {measured.joins} with WITH written out"
        )
        raise fail(UnsupportedError, message, position)


def _measure(node: Node, position: Position, known: dict[int, Measured]) -> Measured:
    """known: by identity, as a WITH query is one node wherever it is named."""
    if id(node) in known:
        return known[id(node)]
    below = [_measure(part, position, known) for part in inputs_of(node)]
    columns = [column for one in below for column in one.columns]
    own: list[Size] = []
    match node:
        case Filter():
            own = [_size(node.predicate, columns)]
        case Project():
            columns = own = [_size(one, columns) for one in node.expressions]
        case Join():
            own = [] if node.condition is None else [_size(node.condition, columns)]
            columns = columns[: len(node.fields)]
        case Aggregate():
            calls = [call.argument for call in node.aggregates if call.argument is not None]
            own = [_size(one, columns) for one in (*node.keys, *calls)]
            columns = [ONE for _ in node.fields]
        case _:
            columns = [ONE for _ in node.fields]
    joins = isinstance(node, Join) and node.kind not in ("semi", "anti")
    total = sum(size.parts for size in own) + sum(one.parts for one in below)
    if total > MAX_NODES:
        message = (
            f"More than {MAX_NODES} expressions in a query, its sub-queries written out, are not supported"
        )
        raise fail(UnsupportedError, message, position)
    if max((size.depth for size in own), default=0) > MAX_DEPTH:
        message = f"An expression more than {MAX_DEPTH} deep, with sub-queries written out, is not supported"
        raise fail(UnsupportedError, message, position)
    known[id(node)] = Measured(columns, total, joins + sum(one.joins for one in below))
    return known[id(node)]


def _size(expression: Expression, columns: list[Size]) -> Size:
    """columns: what stands for the columns it reads."""
    if isinstance(expression, Column):
        return columns[expression.index]
    if not isinstance(expression, Call):
        return ONE
    sizes = [_size(argument, columns) for argument in expression.arguments]
    return Size(1 + sum(one.parts for one in sizes), 1 + max((one.depth for one in sizes), default=0))
