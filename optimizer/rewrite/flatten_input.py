"""A chain of filters and projections over one source becomes that source, a predicate and expressions.

So that every predicate, key and output of a query is written over the columns of its streams, wherever
sub-queries and projections stood in between; predicates in the normal form of `simplify_condition.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.expressions.expression import Column, Expression, rewrite
from penstock.optimizer.tree.logical import Filter, Node, Project

from .simplify_condition import simplify_all


@dataclass(frozen=True, slots=True)
class Flat:
    """`base` filtered by all of `predicates`, giving `outputs`; both over the columns of `base`."""

    base: Node
    predicates: tuple[Expression, ...]
    outputs: tuple[Expression, ...]


def flatten_input(node: Node) -> Flat:
    """Peel filters and projections off whatever stands below them."""
    match node:
        case Filter():
            flat = flatten_input(node.input)
            predicates = simplify_all((*flat.predicates, substitute(node.predicate, flat.outputs)))
            return Flat(flat.base, predicates, flat.outputs)
        case Project():
            flat = flatten_input(node.input)
            outputs = tuple(substitute(expression, flat.outputs) for expression in node.expressions)
            return Flat(flat.base, flat.predicates, outputs)
        case _:
            columns = tuple(Column(field.type, i, named(field)) for i, field in enumerate(node.fields))
            return Flat(node, (), columns)


def named(field: object) -> str:
    """`alias.column`, or the column's name alone."""
    source, name = getattr(field, "source", None), getattr(field, "name", "")
    return f"{source}.{name}" if source else name


def substitute(expression: Expression, columns: tuple[Expression, ...]) -> Expression:
    """The expression with each column replaced by what computes it."""

    def put(node: Expression) -> Expression:
        return columns[node.index] if isinstance(node, Column) else node

    return rewrite(expression, put)
