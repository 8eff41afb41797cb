"""Expressions over all columns of a stream, whatever queries call it: those of different queries compare."""

from __future__ import annotations

from penstock.engine.expressions.expression import Column, Expression, rewrite


def over_stream(expression: Expression, stream: str, places: tuple[int, ...]) -> Expression:
    """The expression over all columns of the stream, which are named after it."""

    def move(node: Expression) -> Expression:
        if not isinstance(node, Column):
            return node
        return Column(node.type, places[node.index], f"{stream}.{node.name.rsplit('.', 1)[-1]}")

    return rewrite(expression, move)
